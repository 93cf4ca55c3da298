package journal_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
)

// quiet is a world with a third node, of which the entries that it reads are counted, and which has a group. It owns
// the partition, in which 100 messages wait, and nothing happens.
type quiet struct {
	*world

	log   *counting
	dir   string
	store *journal.Store
	items []node.Item
}

func newQuiet(t *testing.T) *quiet {
	t.Helper()
	w := newWorld(t)
	q := &quiet{world: w, log: &counting{Ledger: w.cluster.Ledger(topicName, "chronos")}, dir: t.TempDir()}
	q.items = q.many(100)
	q.start()
	own(t, q.store, 0)
	q.take(q.store, 0, q.items)
	return q
}

// start begins a life of the node, with the local copy that there is.
func (q *quiet) start() {
	q.Helper()
	q.store = open(q.T, journal.Config{Ledger: q.log, Dir: q.dir, Now: q.clock.Now, Group: "group"})
}

// restart ends a life of the node, and begins another one.
func (q *quiet) restart() {
	q.Helper()
	if err := q.store.Close(); err != nil {
		q.Fatal(err)
	}
	q.start()
}

// listen has the node look once in an interval, for a while.
func (q *quiet) listen(during, interval time.Duration) {
	q.Helper()
	for range during / interval {
		q.clock.Advance(interval)
		if err := q.store.Hear(q.Context()); err != nil {
			q.Fatal(err)
		}
	}
}

// entries returns how many entries the journal has.
func (q *quiet) entries() int { return len(q.cluster.Records(topicName, true)) }

// The copy of an owner is as young as its last look, however little happens: when the partition is owned anew, next to
// nothing is read. Method: nothing is taken in or fired for a day; then the node is restarted, or loses the partition
// since it does not hear of the end of a transaction.
func TestQuietOwnerStaysYoung(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, after func(q *quiet) }{
		"it is restarted": {func(*quiet) {}, (*quiet).restart},
		"the end of a transaction is unknown": {func(*quiet) {}, func(q *quiet) {
			q.fails(simulated.Step{At: simulated.Ending, Topic: topicName})
		}},
		"its last transaction was aborted": {func(q *quiet) {
			q.fails(simulated.Step{At: simulated.Appending, Topic: topicName})
		}, (*quiet).restart},
		"somebody has paused a lane": {func(q *quiet) {
			record, err := journal.Wish(uuid.UUID{4}, output, true)
			if err != nil {
				q.Fatal(err)
			}
			q.cluster.Append(topicName, 0, record)
		}, (*quiet).restart},
		"its clock was set back": {func(*quiet) {}, func(q *quiet) {
			q.clock.Advance(-2 * time.Hour)
			q.listen(time.Minute, time.Minute)
			q.restart()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuiet(t)
			c.before(q)
			q.listen(24*time.Hour, 30*time.Minute)
			q.clock.Advance(30 * time.Minute)
			c.after(q)
			q.log.read = 0
			own(t, q.store, 0)
			if q.log.read > 10 {
				t.Errorf("%d entries were read where nothing has happened", q.log.read)
			}
			if rows, err := q.store.Dump(); err != nil || len(rows) < len(q.items)-1 {
				t.Errorf("%d messages wait, %v", len(rows), err)
			}
		})
	}
}

// fails has the transaction that fires the first message fail: nobody hears of what becomes of a step.
func (q *quiet) fails(at simulated.Step) {
	q.Helper()
	q.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step != at {
			return simulated.None
		}
		return simulated.Unanswered
	})
	err := publish(q.Context(), q.store, q.items[0].Message)
	if q.cluster.Strike(nil); err == nil {
		q.Fatal("the transaction was committed, and answered")
	}
}

// A former owner's look makes its copy no younger: it has missed tombstones all the same. Method: another node takes
// over, fires everything, and the tombstones go, before the former owner looks, while it waits for the answer, and
// while it hears of nothing, and commits nothing, because the leader that it asks is cut off as well.
func TestLookOfFormerOwner(t *testing.T) {
	t.Parallel()
	for name, look := range map[string]func(q *quiet, missed func()) error{
		"it looks later": func(q *quiet, missed func()) error {
			missed()
			return q.store.Hear(q.Context())
		},
		"it was stopped while it looked": func(q *quiet, missed func()) error {
			q.log.Ledger = &asking{q.log.Ledger, func(extents []node.Extent) ([]node.Extent, error) {
				missed()
				return extents, nil
			}}
			return q.store.Hear(q.Context())
		},
		"it asks a former leader": func(q *quiet, missed func()) error {
			before, err := q.log.Extents(q.Context())
			missed()
			q.log.Ledger = &asking{q.log.Ledger, func([]node.Extent) ([]node.Extent, error) { return before, err }}
			q.cluster.Strike(func(simulated.Step) simulated.Fault { return simulated.Lost })
			for range 30 { // longer than looks count
				err = q.store.Hear(q.Context())
				q.clock.Advance(30 * time.Minute)
			}
			if err == nil {
				q.Error("a look says nothing of a commit that was lost")
			}
			q.cluster.Strike(nil)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q := newQuiet(t)
			q.listen(time.Hour, 30*time.Minute)
			q.clock.Advance(10 * time.Minute)
			if err := look(q, func() {
				own(t, q.stores[1], 0)
				q.fire(q.stores[1], len(q.items))
				q.cluster.Compact(topicName, 0, true)
				q.clock.Advance(2 * time.Hour)
			}); err != nil {
				t.Fatal(err)
			}
			q.log.Ledger = q.cluster.Ledger(topicName, "chronos")
			own(t, q.store, 0)
			if left := q.ids(q.store); len(left) > 0 {
				t.Errorf("the former owner has %d messages that have come out", len(left))
			}
		})
	}
}

// answered is a ledger whose writers hear late that a transaction was committed.
type answered struct {
	ledger.Ledger

	late func() // is done meanwhile; nil for nothing
}

func (a *answered) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	w, err := a.Ledger.Own(ctx, number, fence)
	return &answeredWriter{w, a}, err
}

type answeredWriter struct {
	ledger.Writer

	ledger *answered
}

func (w *answeredWriter) Commit(ctx context.Context, transaction ledger.Transaction) (int64, error) {
	end, err := w.Writer.Commit(ctx, transaction)
	if late := w.ledger.late; late != nil {
		w.ledger.late = nil
		late()
	}
	return end, err
}

// A copy is as old as the transaction that was committed last was when it began, and not as the answer to it. Method: a
// node is stopped between the two, another one takes over and fires everything, and the tombstones go.
func TestAnswerMakesNoCopyYoung(t *testing.T) {
	t.Parallel()
	q := newQuiet(t)
	log := &answered{Ledger: q.cluster.Ledger(topicName, "chronos")}
	q.log.Ledger = log
	own(t, q.store, 0)
	log.late = func() {
		own(t, q.stores[1], 0)
		q.fire(q.stores[1], len(q.items)+1)
		q.cluster.Compact(topicName, 0, true)
		q.clock.Advance(2 * time.Hour)
	}
	last := q.message("last")
	q.take(q.store, int64(len(q.items)), []node.Item{
		{Epoch: 1, Offset: int64(len(q.items)), Action: node.Schedule, Message: last},
	})
	own(t, q.store, 0)
	if left := q.ids(q.store); len(left) > 0 {
		t.Errorf("the former owner has %d messages that have come out", len(left))
	}
}

// An owner whose clock was far ahead, and is put right, commits something all the same: it can't know how long ago its
// last transaction was.
func TestQuietOwnerCommitsWhenSetBack(t *testing.T) {
	t.Parallel()
	q := newQuiet(t)
	before := q.entries()
	q.clock.Advance(-30 * 24 * time.Hour)
	q.listen(time.Hour, 30*time.Minute)
	if said := q.entries() - before; said != 1 {
		t.Errorf("it commits %d entries within an hour, want one", said)
	}
}

// A look at a partition that is given up meanwhile leaves its copy alone, which somebody else writes by now. Method:
// while a node waits for the answer, it gives the partition up, and its follower finds the copy too old, and has made a
// tenth of it anew when the answer comes.
func TestLookOfReleased(t *testing.T) {
	t.Parallel()
	q := newQuiet(t)
	q.clock.Advance(10 * time.Minute)
	alone := q.log.Ledger
	q.log.Ledger = &asking{alone, func(extents []node.Extent) ([]node.Extent, error) {
		q.log.Ledger = alone
		q.store.Release(0)
		q.clock.Advance(55 * time.Minute)
		if standbys, more := journal.NewFollower(q.store, len(q.items)/10).Round(t.Context()); !more {
			t.Errorf("the follower has made all of the copy anew: %+v", standbys)
		}
		return extents, nil
	}}
	if err := q.store.Hear(t.Context()); err != nil {
		t.Fatal(err)
	}
	own(t, q.store, 0)
	if rows, err := q.store.Dump(); err != nil || len(rows) != len(q.items) {
		t.Errorf("%d messages wait of %d, %v", len(rows), len(q.items), err)
	}
}

// An owner commits something before the brokers forget its transactional id, which they do after a week without a
// transaction, and seldom: each time the log gets another file. Those of several partitions do not do it together.
func TestQuietOwnerCommits(t *testing.T) {
	t.Parallel()
	q := newQuiet(t)
	before := q.entries()
	q.listen(11*time.Hour, 10*time.Minute)
	if said := q.entries() - before; said > 0 {
		t.Errorf("an owner commits %d entries in 11 hours, and has nothing to say", said)
	}
	q.listen(11*7*time.Hour, 10*time.Minute)
	if said := q.entries() - before; said < 6 || said > 8 {
		t.Errorf("a quiet owner commits %d entries in half a week, want one for each 12 hours", said)
	}
	q.cluster.CreateTopic(topicName, 3, 0)
	own(t, q.store, 0, 1, 2)
	for minutes, grows := 0, 0; grows < 3; minutes++ {
		if minutes > 13*60 {
			t.Fatalf("%d of 3 partitions commit something in 13 hours", grows)
		}
		before := q.entries()
		q.listen(time.Minute, time.Minute)
		said := q.entries() - before
		if said > 1 {
			t.Fatalf("%d partitions commit something in one minute", said)
		}
		grows += said
	}
}

// What was taken in last before a partition was quiet is on disk soon, though nothing more is written: a node that is
// killed hours later goes on from there.
func TestQuietCopyIsOnDisk(t *testing.T) {
	t.Parallel()
	q := newQuiet(t)
	q.listen(30*time.Minute, time.Minute)
	if age := q.clock.Now().Sub(q.store.Flushed()); age > 10*time.Minute {
		t.Errorf("what is in memory was last written to disk %v ago", age)
	}
}
