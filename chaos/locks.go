package chaos

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/sim/check"
)

// lockScenarios are about rows that a session has locked which is no node's. That is no fault: a lock delays the
// messages of these rows, what stands behind a record about one of them in its partition, and nothing else.
func lockScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{{
		Name: "locked-rows",
		About: "A session of somebody else locks all rows of one lane for a minute, and nodes are killed meanwhile. " +
			"What is not locked stays in time, and the rest comes out afterwards.",
		Locks:  true,
		Routes: 2, SecondRoute: 3, Lasts: 66 * s,
		draw: func(n *nemesis) {
			n.lockRows(s, 64*s)
			n.repeatLocked(10 * s)
			order := n.random.Perm(3)
			n.killNode(n.between(22*s, 23*s), 3*s, n.cluster.nodes[order[0]])
			n.killNode(n.between(26*s, 27*s), 3*s, n.cluster.nodes[order[1]])
		},
		demands: []demand{recovered, onlyLocked},
	}}
}

const (
	// lockedMessages is how many messages of the second route pile up before the rows are locked, half of them due at
	// that moment and half of them later. fewLocked is how many rows at least have to be claimed then, and how many
	// have to wait, or a run shows nothing.
	lockedMessages, fewLocked = 1000, 100

	// repeated is how many of them are submitted again meanwhile.
	repeated = 20
)

// lockedRow names a row.
type lockedRow struct{ id, lane string }

// The marks of the time in which rows are locked.
const (
	theLock   = "rows are locked"
	theUnlock = "the session that has locked rows ends"
)

// lockRows has messages of the second route pile up, and locks all rows of their lane when the nodes are about to
// publish the first of them.
func (n *nemesis) lockRows(at, until time.Duration) {
	const (
		piles = 4 * time.Second
		short = 100 * time.Millisecond // less than the lookahead, so that some are claimed
	)
	var conn *pgx.Conn
	n.add(fault{
		at: at, told: true,
		text: fmt.Sprintf("%d messages of the second route pile up; then a session locks the rows of their lane",
			lockedMessages),
		strike: func(ctx context.Context) error {
			due := time.Now().Add(piles)
			n.flood(ctx, lockedMessages/2, due)
			n.flood(ctx, lockedMessages/2, due.Add(10*time.Second))
			var err error
			if conn, err = n.cluster.postgres.now().Connect(ctx); err != nil {
				return err
			}
			sleepUntil(ctx, due.Add(-short))
			return n.lock(ctx, conn)
		},
	})
	n.add(fault{
		at: until, told: true, text: "the session that has locked rows ends",
		strike: func(ctx context.Context) error {
			n.mark(theUnlock)
			n.tellOfLocks(check.Unlock, theUnlock)
			if conn == nil {
				return nil
			}
			return conn.Close(ctx) // which rolls it back
		},
	})
}

// lock locks all rows of the second lane. None of their ids is submitted again by chance.
func (n *nemesis) lock(ctx context.Context, conn *pgx.Conn) error {
	n.mark(theLock)
	if _, err := conn.Exec(ctx, "BEGIN"); err != nil {
		return fmt.Errorf("lock rows: %w", err)
	}
	lane := n.cluster.topics.routes[1].out
	found, err := conn.Query(ctx, "SELECT id, readied_by IS NOT NULL FROM "+table+" WHERE lane = $1 FOR UPDATE", lane)
	if err != nil {
		return fmt.Errorf("lock rows: %w", err)
	}
	claimed := 0
	rows := map[lockedRow]bool{}
	var id string
	var isClaimed bool
	if _, err = pgx.ForEachRow(found, []any{&id, &isClaimed}, func() error {
		rows[lockedRow{id, lane}] = true
		if isClaimed {
			claimed++
		}
		return nil
	}); err != nil {
		return fmt.Errorf("lock rows: %w", err)
	}
	n.mu.Lock()
	n.locked = slices.SortedFunc(maps.Keys(rows), func(a, b lockedRow) int { return cmp.Compare(a.id, b.id) })
	n.mu.Unlock()
	n.tellOfLocks(check.Lock, theLock)
	n.each(func(s *submission) { s.unique = s.unique || rows[lockedRow{s.id, n.cluster.topics.lane(s)}] })
	n.count(rowsLocked, len(rows))
	n.count(rowsClaimed, claimed)
	return nil
}

// tellOfLocks tells that the rows are locked, or are no more, from a mark on.
func (n *nemesis) tellOfLocks(kind check.Kind, mark string) {
	for _, row := range n.lockedRows() {
		n.history.add(check.Event{Kind: kind, At: n.marked(mark), ID: row.id, Topic: row.lane})
	}
}

// lockedRows returns the rows that the session has locked, in the order of their ids.
func (n *nemesis) lockedRows() []lockedRow {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.locked
}

// What is counted of the rows that are locked.
const (
	rowsLocked  = "rows that are locked"
	rowsClaimed = "of them, rows that a node has claimed"
)

// repeatLocked submits messages again whose rows are locked, by one partition of the input.
func (n *nemesis) repeatLocked(at time.Duration) {
	n.add(fault{
		at: at, told: true, text: fmt.Sprintf("%d messages that are locked are submitted again", repeated),
		strike: func(ctx context.Context) error {
			rows := n.lockedRows()
			var ids []string
			for _, row := range rows[:min(repeated, len(rows))] {
				ids = append(ids, row.id)
			}
			n.repeat(ctx, ids)
			return nil
		},
	})
}

// lockedIn returns the rows that somebody has locked.
func lockedIn(events []check.Event) map[lockedRow]bool {
	locked := map[lockedRow]bool{}
	for i := range events {
		if e := &events[i]; e.Kind == check.Lock {
			locked[lockedRow{e.ID, e.Topic}] = true
		}
	}
	return locked
}

// delayedByLocks returns the submissions whose rows are locked, and those that stand behind a record about a locked row
// in their partition, which was appended after the lock.
func (r *run) delayedByLocks() (locked, behind map[int]bool) {
	rows := lockedIn(r.events)
	locked, behind = map[int]bool{}, map[int]bool{}
	first := map[string]int64{} // the first record about a locked row, by the partition
	for i := range r.events {
		e := &r.events[i]
		if e.Kind != check.Submit || !rows[lockedRow{e.ID, e.Topic}] {
			continue
		}
		locked[e.Message] = true
		before, is := first[e.Partition]
		if e.At > r.nemesis.marks[theLock] && e.Partition != "" && (!is || e.Offset < before) {
			first[e.Partition] = e.Offset
		}
	}
	for i := range r.events {
		e := &r.events[i]
		from, is := first[e.Partition]
		if e.Kind == check.Submit && is && e.Offset > from && e.At < r.nemesis.marks[theUnlock] {
			behind[e.Message] = true
		}
	}
	return locked, behind
}

// onlyLocked demands that a lock delays nothing but what is locked and what stands behind it in its partition. In the
// time in which no killed node explains it, what goes to the other lane may be late by half a second, but for one in a
// thousand, and what goes to the same lane as nothing had happened; nothing of it comes out twice, unless a killed node
// had claimed it.
func onlyLocked(r *run, result *Result) string {
	const (
		// settles is how long after a kill the group has given the dead node up and all is in time again.
		settles = 18 * time.Second
		most    = 500 * time.Millisecond
	)
	since, until := r.nemesis.marks[theLock], r.nemesis.marks[theUnlock]
	locked, behind := r.delayedByLocks()
	waited := 0
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fire && behind[e.Message] && e.At > until {
			waited++
		}
	}
	r.say("%d rows were locked, %d of them claimed; %d messages waited behind a record about one of them",
		r.nemesis.counts[rowsLocked], r.nemesis.counts[rowsClaimed], waited)
	claimed := r.nemesis.counts[rowsClaimed]
	if claimed < fewLocked || r.nemesis.counts[rowsLocked]-claimed < fewLocked || waited == 0 {
		return "too few rows were locked that were claimed or not, or nothing waited for one: that shows nothing"
	}
	config := r.judged()
	// On a machine that is so busy, calls run into their time limits.
	if broken := r.twiceBeside(locked); broken != "" && result.Busy < config.StoreTimeout {
		return broken
	}
	var kills []time.Duration
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Crash && e.At > since && e.At < until {
			kills = append(kills, e.At)
		}
	}
	if len(kills) == 0 {
		return "no node was killed meanwhile: that shows nothing"
	}
	second := r.topics.routes[1].out
	slow := r.history.slowestOfAll()
	for _, to := range []struct {
		which string
		same  bool
		bound time.Duration
	}{{"of other lanes", false, most + slow}, {"of the lane itself", true, config.Punctual() + slow}} {
		wanted := func(e *check.Event) bool {
			return (e.Topic == second) == to.same && !locked[e.Message] && !behind[e.Message]
		}
		late := slices.Concat(r.lateness(since, kills[0]-time.Second, wanted),
			r.lateness(kills[len(kills)-1]+settles, until, wanted))
		slices.Sort(late)
		r.tellDistribution(to.which+" beside the locked rows", late)
		if broken := inTime(butOneInAThousand(late), to.bound, to.bound); broken != "" {
			return broken
		}
	}
	return ""
}

// twiceBeside says what has come out twice although its row was not locked, and no node that was killed had claimed it.
func (r *run) twiceBeside(locked map[int]bool) string {
	names := map[check.UUID]string{}
	holder := map[int]string{} // of the claim on a submission
	messages := map[check.UUID]int{}
	killed, fired := map[int]bool{}, map[int]bool{}
	for i := range r.events {
		e := &r.events[i]
		switch e.Kind {
		case check.Start:
			names[e.Owner] = e.Node
		case check.Insert:
			messages[e.Incarnation] = e.Message
			holder[e.Message] = names[e.Owner]
		case check.Claim:
			holder[messages[e.Incarnation]] = names[e.Owner]
		case check.Reset, check.Delete:
			delete(holder, messages[e.Incarnation])
		case check.Crash:
			for message, node := range holder {
				killed[message] = killed[message] || node == e.Node
			}
		case check.Fire:
			if fired[e.Message] && !locked[e.Message] && !killed[e.Message] {
				return fmt.Sprintf("submission %d has fired twice: neither a lock nor a kill explains it",
					e.Message)
			}
			fired[e.Message] = true
		default:
		}
	}
	return ""
}
