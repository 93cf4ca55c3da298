package journal_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// Whatever way an incarnation leaves, it leaves a tombstone: otherwise it would come back from the journal, after
// compaction has removed what followed, by a copy that is made anew, and would come out once more. Method: a message
// leaves or gives way to another incarnation, that one is deleted, the journal is compacted with its tombstones, and a
// node without a copy owns it.
func TestEveryWayOut(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(l *leaving){
		"fired": func(l *leaving) { l.fire(node.Next{Of: l.of}, node.Removed) },
		"expired, or published as a dead letter": func(l *leaving) { // either is settled after its publish
			deleted, err := l.store.Settle(l.Context(), node.Removals(l.of))
			if err != nil || deleted[0] != node.Removed {
				l.Fatal(deleted, err)
			}
		},
		"cancelled":         func(l *leaving) { l.ask(node.Cancelled, item(node.Cancel)) },
		"replaced":          func(l *leaving) { l.ask(node.Replaced, item(node.Replace)) },
		"replaced twice":    func(l *leaving) { l.ask(node.Replaced, item(node.Replace), item(node.Replace)) },
		"replaced, claimed": func(l *leaving) { l.claim(); l.ask(node.Replaced, item(node.Replace)) },
		"rescheduled":       func(l *leaving) { l.ask(node.Rescheduled, item(node.Reschedule)) },
		"fired now":         func(l *leaving) { l.ask(node.FiredNow, item(node.FireNow)) },
		"cancelled, and scheduled again": func(l *leaving) {
			l.ask(node.Cancelled, item(node.Cancel), item(node.Schedule))
		},
		"rescheduled, and cancelled": func(l *leaving) {
			l.ask(node.Rescheduled, item(node.Reschedule), item(node.Cancel))
		},
		"an occurrence, the next one follows": func(l *leaving) { l.fire(l.next(), node.Rearmed) },
		"an occurrence of a series that was stopped": func(l *leaving) {
			l.claim()
			l.ask(node.Stopped, item(node.Cancel))
			l.fire(l.next(), node.Removed)
		},
		"an occurrence that is passed over": func(l *leaving) {
			next := l.next()
			next.Missed = l.claim()
			l.settle(next, node.Rearmed)
		},
		"the last occurrence, which is passed over": func(l *leaving) {
			l.settle(node.Next{Of: l.of, Missed: l.claim()}, node.Removed)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeaving(t)
			leave(l)
			l.deleteAll()
			l.cluster.Compact(topicName, 0, true)
			fresh := open(t, journal.Config{
				Ledger: l.cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: l.clock.Now,
			})
			own(t, fresh, 0)
			rows, err := fresh.Dump()
			if err != nil || len(rows) > 0 {
				t.Errorf("what has left is back: %+v, %v", rows, err)
			}
		})
	}
}

// leaving is a world in which one occurrence of a series waits.
type leaving struct {
	*world

	store *journal.Store
	of    node.Ref
	taken int64
}

func newLeaving(t *testing.T) *leaving {
	t.Helper()
	l := &leaving{world: newWorld(t)}
	l.store = l.stores[0]
	own(t, l.store, 0)
	first := item(node.Schedule)
	first.Series, first.Sequence = "any", 1
	l.ask(node.Scheduled, first)
	return l
}

// item returns what asks for an action on message x.
func item(action node.Action) node.Item {
	return node.Item{Epoch: 1, Action: action, Message: node.Message{ID: "x", Lane: output}}
}

// ask has items be taken in, of which the first one has an outcome.
func (l *leaving) ask(want node.Outcome, items ...node.Item) {
	l.Helper()
	from := node.Place{Partition: input(), Position: node.Position{Epoch: node.UnknownEpoch, Offset: l.taken}}
	positions, _, err := l.store.Positions(l.Context(), []node.Place{from})
	if err != nil {
		l.Fatal(err)
	}
	from.Position = positions[0]
	for i := range items {
		m := l.message("x")
		items[i].Offset, items[i].Deadline, items[i].Value = l.taken, m.Deadline, m.Value
		if items[i].Incarnation = m.Incarnation; l.of == (node.Ref{}) {
			l.of = items[i].Ref()
		}
		l.taken++
	}
	result, err := l.store.Take(l.Context(), node.TakeRequest{From: []node.Place{from}, Items: items})
	if err != nil || result.Results[0].Outcome != want {
		l.Fatalf("%+v, %v, want %v", result, err, want)
	}
}

// next returns the occurrence that follows.
func (l *leaving) next() node.Next {
	return node.Next{Of: l.of, Incarnation: uuid.UUID{7}, Sequence: 2, At: l.clock.Now().Add(time.Hour)}
}

func (l *leaving) claim() node.Claim {
	l.Helper()
	claimed, err := l.store.Claim(l.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: l.clock.Now(),
		Lanes: []node.Share{{Lane: output, Limit: 1, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 1 {
		l.Fatal(claimed, err)
	}
	return claimed.Messages[0].Claim
}

func (l *leaving) fire(next node.Next, want node.Settled) {
	l.Helper()
	settled, errs := l.store.Fire(l.Context(), []node.Record{{Topic: output}}, []node.Next{next})
	if errs[0] != nil || settled[0] != want {
		l.Fatalf("%v, %v, want %v", settled, errs, want)
	}
}

func (l *leaving) settle(next node.Next, want node.Settled) {
	l.Helper()
	settled, err := l.store.Settle(l.Context(), []node.Next{next})
	if err != nil || settled[0] != want {
		l.Fatalf("%v, %v, want %v", settled, err, want)
	}
}

// deleteAll deletes what waits.
func (l *leaving) deleteAll() {
	l.Helper()
	rows, err := l.store.Dump()
	if err != nil {
		l.Fatal(err)
	}
	for _, r := range rows {
		deleted, err := l.store.Settle(l.Context(), node.Removals(r.Ref()))
		if err != nil || deleted[0] != node.Removed {
			l.Fatal(deleted, err)
		}
	}
}

// A copy that is made anew leaves those of the other partitions alone, also where their numbers are next to each other
// in the order of keys. Method: of two partitions one is owned anew by a node whose copy is too old, and the other one
// stays owned all the time.
func TestCopiesApart(t *testing.T) {
	t.Parallel()
	for _, numbers := range [][2]int32{{0, 1}, {1, 0}, {9, 10}, {10, 9}, {255, 256}, {256, 255}, {0, 256}, {1, 256}} {
		cluster := simulated.New()
		cluster.CreateTopic(topicName, 257, 0)
		now := time.UnixMicro(1e15)
		store := open(t, journal.Config{
			Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir(), Now: func() time.Time { return now },
		})
		own(t, store, numbers[0], numbers[1])
		for i, number := range numbers {
			from := node.Place{Partition: node.Partition{TopicID: uuid.UUID{1}, Number: number}}
			if _, _, err := store.Positions(t.Context(), []node.Place{from}); err != nil {
				t.Fatal(err)
			}
			result, err := store.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: []node.Item{{
				Action: node.Schedule, Message: node.Message{
					ID: "x", Lane: output, Incarnation: uuid.UUID{1, 15: byte(i)}, Deadline: now, Value: []byte("x"),
				},
			}}})
			if err != nil || result.Taken != 1 {
				t.Fatal(result, err)
			}
		}
		now = now.Add(2 * time.Hour)
		own(t, store, numbers[0]) // its copy is too old by now
		rows, err := store.Dump()
		if err != nil || len(rows) != 2 {
			t.Errorf("partition %d was owned anew, and %d rows of it and of %d are there, %v", numbers[0], len(rows),
				numbers[1], err)
		}
	}
}
