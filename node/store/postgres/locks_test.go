package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/postgres"
)

// onLane returns n messages of a lane.
func onLane(lane string, n int) []node.Message {
	list := messages(n)
	for i := range list {
		list[i].ID, list[i].Lane = lane+" "+list[i].ID, lane
	}
	return list
}

// Goal: a person who forgets a transaction that has locked all messages of a lane delays that lane and nothing else.
// Method: a session holds the locks while all calls that concern rows are made, side by side, for that lane and another
// one at once, through connections and through what pools transactions. None fails, each says busy of what is locked,
// and all of the other lane is done, though the locked claims have expired first and are more than a call returns. Then
// the session ends, and the rest is done.
func TestLockedRows(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := newSchema(t, newDatabase(t))
			s := postgres.NeverMarks(openHasty(t, address, postgres.Options{PgBouncer: pooled, Timeout: patience}))
			const each = 600
			locked, lockedHeld := onLane("locked", each), onLane("locked and claimed", each)
			free, freeHeld := onLane("free", each), onLane("free and claimed", each)
			for i := range lockedHeld {
				lockedHeld[i].Lane, freeHeld[i].Lane = "locked", "free"
			}
			for at, list := range [][]node.Message{locked, free, lockedHeld, freeHeld} {
				insert(t, s, list, at >= 2)
			}
			session := begin(t, address)
			_, err := session.tx.Exec(t.Context(), "SELECT FROM messages WHERE lane = 'locked' FOR UPDATE")
			if err != nil {
				t.Fatal(err)
			}
			for round := range 2 {
				was := []node.Settled{node.Busy, node.Removed}
				busy := node.Blocked
				if round == 1 {
					session.Rollback()
					was, busy = []node.Settled{node.Removed, node.Gone}, node.Replaced
				}
				concerned(t, s, round, locked, free, busy)
				expired := expire(t, s, map[bool]string{true: "locked", false: "free"}[round == 1])
				if len(expired) < 500 {
					t.Fatalf("round %d: %d expired claims, want 500 or more", round, len(expired))
				}
				refs := refsOf(lockedHeld, freeHeld)
				settled, err := s.Settle(t.Context(), node.Removals(refs...))
				if err != nil {
					t.Fatal(err)
				}
				for i, how := range settled {
					if want := was[i/each]; how != want {
						t.Fatalf("round %d: %s is settled as %v, want %v", round, refs[i].ID, how, want)
					}
				}
			}
		})
	}
}

func refsOf(lists ...[]node.Message) (refs []node.Ref) {
	for _, list := range lists {
		for i := range list {
			refs = append(refs, list[i].Ref())
		}
	}
	return refs
}

// expire returns the claims that have expired, which are all on one lane.
func expire(t *testing.T, s *postgres.Store, lane string) []node.Claim {
	t.Helper()
	expired, err := s.Expired(t.Context(), 500)
	if err != nil {
		t.Fatal(err)
	}
	for _, claim := range expired {
		if claim.Lane != lane {
			t.Fatalf("a claim on lane %s has expired, want those on %s", claim.Lane, lane)
		}
	}
	return expired
}

// concerned has a take and a claim, side by side, concern rows of both lanes.
func concerned(t *testing.T, s *postgres.Store, round int, locked, free []node.Message, want node.Outcome) {
	t.Helper()
	var request node.TakeRequest
	for at, list := range [][]node.Message{locked, free} {
		place := input()
		place.TopicID = uuid.UUID{0: byte(round), 14: byte(at), 15: 2}
		if _, _, err := s.Positions(t.Context(), []node.Place{place}); err != nil {
			t.Fatal(err)
		}
		request.From = append(request.From, place)
		for i := range 100 {
			m := list[i]
			m.Incarnation = uuid.New()
			request.Items = append(request.Items, node.Item{
				From: at, Epoch: 1, Offset: int64(i), Action: node.Replace, Message: m,
			})
		}
	}
	var both sync.WaitGroup
	var result node.TakeResult
	var taking, claiming error
	var claimed node.ClaimResult
	both.Go(func() { result, taking = s.Take(t.Context(), request) })
	both.Go(func() {
		claimed, claiming = s.Claim(t.Context(), node.ClaimRequest{
			Node: owner(), Hold: time.Hour, Until: time.Now(),
			Lanes: []node.Share{{Lane: "nothing", Limit: 1, Bytes: 1}},
		})
	})
	both.Wait()
	if taking != nil || claiming != nil || len(claimed.Messages) > 0 {
		t.Fatal(taking, claiming, claimed.Messages)
	}
	if got := result.Results[0].Outcome; got != want {
		t.Fatalf("round %d: the outcome on what is locked is %v, want %v", round, got, want)
	}
	for i := 100; i < 200; i++ {
		if got := result.Results[i].Outcome; got != node.Replaced {
			t.Fatalf("round %d: the outcome on another lane is %v", round, got)
		}
	}
	if want == node.Blocked && (result.Positions[0].Offset != 0 || result.Results[1].Outcome != node.Untaken) {
		t.Fatalf("the partition has come to %d, and what is behind is %v", result.Positions[0].Offset,
			result.Results[1].Outcome)
	}
}

// Goal: claims that were locked when somebody looked for what has expired are found once the lock is gone, also where
// looks start at a mark.
func TestLockedClaimsComeBack(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := openHasty(t, address, postgres.Options{Timeout: patience})
	list := messages(20)
	insert(t, s, list, true)
	postgres.UseMarks(s, nil, time.Now().Add(-time.Hour))
	var locks memory.Locks
	for i := range list[:10] {
		locks.Messages = append(locks.Messages, node.MessageID{ID: list[i].ID, Lane: list[i].Lane})
	}
	unlock := lock(t, address, locks)
	for range 20 { // as many looks as the sweep likes
		expired, err := s.Expired(t.Context(), 500)
		if err != nil || len(expired) != 10 || slices.ContainsFunc(expired, func(c node.Claim) bool {
			return slices.Contains(locks.Messages, node.MessageID{ID: c.ID, Lane: c.Lane})
		}) {
			t.Fatalf("%d claims beside the locks: %v", len(expired), err)
		}
	}
	unlock()
	expired, err := s.Expired(t.Context(), 500)
	if err != nil || len(expired) != 20 {
		t.Fatalf("%d claims after the locks: %v", len(expired), err)
	}
}

// Goal: a session that has inserted hundreds of names, and does not commit, cannot stop a take: what comes before them
// is taken in, and so is some of the rest with each call.
func TestManyInsertsBeside(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := openHasty(t, address, postgres.Options{Timeout: patience})
	list := messages(40)
	var locks memory.Locks
	for i := 1; i < len(list); i += 2 {
		locks.Messages = append(locks.Messages, node.MessageID{ID: list[i].ID, Lane: list[i].Lane})
	}
	unlock := lock(t, address, locks)
	request := node.TakeRequest{Node: owner()}
	for i := range list {
		place := input()
		place.TopicID = uuid.UUID{0: byte(i), 15: 2}
		request.From = append(request.From, place)
		request.Items = append(request.Items, node.Item{From: i, Epoch: 1, Action: node.Schedule, Message: list[i]})
	}
	if _, _, err := s.Positions(t.Context(), request.From); err != nil {
		t.Fatal(err)
	}
	result, err := s.Take(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for i, one := range result.Results {
		switch {
		case one.Outcome == node.Scheduled && i%2 == 0:
			taken++
		case one.Outcome != node.Blocked:
			t.Fatalf("item %d: %v", i, one.Outcome)
		}
	}
	if taken < 3 || taken == len(list)/2 {
		t.Fatalf("%d are taken in, want three or more, and the rest later", taken)
	}
	unlock()
	result, err = s.Take(t.Context(), request)
	for i, one := range result.Results {
		if one.Outcome != node.Scheduled {
			err = fmt.Errorf("item %d: %v", i, one.Outcome)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Goal: whoever has whole tables locked for less time than a call has, delays a call and does not fail it.
func TestPatientCalls(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	s := openHasty(t, address, postgres.Options{Timeout: patience})
	for name, call := range calls(s) {
		if err := call(t.Context()); err != nil { // and the connections are there
			t.Fatal(name, err)
		}
	}
	for name, call := range calls(s) {
		session := begin(t, address)
		_, err := session.tx.Exec(t.Context(), "LOCK TABLE messages, partitions, positions, store, pauses")
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- call(context.WithoutCancel(t.Context())) }()
		awaitPatience(t, name, session, done)
		session.Rollback()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// awaitPatience returns when somebody has waited for the session for longer than for a row.
func awaitPatience(t *testing.T, name string, session *session, done <-chan error) {
	t.Helper()
	t.Helper()
	for end, patient := time.Now().Add(patience), false; !patient; {
		err := session.watch.QueryRow(t.Context(), `
SELECT coalesce(max(clock_timestamp() - waitstart) > $1, false) FROM pg_locks
WHERE NOT granted AND $2::integer = ANY (pg_blocking_pids(pid))`,
			2*postgres.LockMoment, session.tx.Conn().PgConn().PID()).Scan(&patient)
		if err != nil {
			t.Fatal(err)
		}
		if time.Now().After(end) {
			t.Fatalf("%s has not waited for longer than for a row (%v)", name, <-done)
		}
	}
}
