package storetest

import (
	"context"
	"errors"
	"math"
	"runtime"

	"chronos/node"
)

func sessionCases() []testCase {
	return []testCase{
		{"insert waits for a delete and goes by its outcome", insertAwaitsDelete},
		{"insert waits for an insert and goes by its outcome", insertAwaitsInsert},
		{"insert waits for an insert of its own incarnation", insertAwaitsItself},
		{"insert that waits does not hold up its result's accuracy", insertAwaitsAmongOthers},
		{"present does not wait", presentUncommitted},
		{"ready skips what others are claiming", readySkips},
		{"ready skips but fills its limit", readySkipsAndFills},
		{"stuck does not wait", stuckUncommitted},
		{"delete waits for a claim and removes what it claimed", deleteAwaitsClaim},
		{"delete waits for a delete", deleteAwaitsDelete},
		{"reset waits for a delete", resetAwaitsDelete},
		{"reset waits for a claim and then sees it", resetAwaitsClaim},
		{"a call that waits ends when its context is done", waitingCallEnds},
	}
}

// outcome says how a session ended.
type outcome struct {
	name   string
	end    func(Session)
	commit bool
}

func outcomes() []outcome {
	return []outcome{
		{"commit", Session.Commit, true},
		{"rollback", Session.Rollback, false},
	}
}

// reply is what a call came back with.
type reply[T any] struct {
	value T
	err   error
}

// start makes a call that is going to wait.
func start[T any](call func() (T, error)) <-chan reply[T] {
	done := make(chan reply[T], 1)
	go func() {
		value, err := call()
		done <- reply[T]{value, err}
	}()
	return done
}

// awaitWaiting returns when the call waits for the session, and ends the case when it returns instead.
func awaitWaiting[T any](s *subject, session Session, done <-chan reply[T]) {
	s.Helper()
	for !session.Waiting() {
		select {
		case r := <-done:
			s.Fatalf("the call did not wait: it returned %s, error %v", brief(r.value), r.err)
		default:
			runtime.Gosched()
		}
	}
}

// whileWaiting makes a call, ends the session when the call waits for it, and returns the call's result.
func whileWaiting[T any](s *subject, session Session, end func(Session), call func() (T, error)) T {
	s.Helper()
	done := start(call)
	awaitWaiting(s, session, done)
	end(session)
	r := <-done
	if r.err != nil {
		s.Fatalf("the call that waited: %v", r.err)
	}
	return r.value
}

func insertAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		old, next := s.message("a"), s.message("a")
		s.insert(old)
		session := s.Begin(s)
		session.Delete(old.Ref())
		results := whileWaiting(s, session, o.end, func() ([]node.InsertResult, error) {
			return s.Store.Insert(s.Context(), node.InsertRequest{
				Node: alice(), Messages: insertions([]node.Message{next}, true),
			})
		})
		if o.commit {
			s.checkClaim(results[0].Claim, next.Ref(), alice())
			s.check("delete of the new one", s.delete(old.Ref(), next.Ref()), []bool{false, true})
		} else {
			s.check("results", results, []node.InsertResult{{Outcome: node.Duplicate}})
			s.check("delete of the old one", s.delete(old.Ref(), next.Ref()), []bool{true, false})
		}
	}
}

func insertAwaitsInsert(s *subject) {
	for _, o := range outcomes() {
		first, second := s.message("a"), s.message("a")
		session := s.Begin(s)
		session.Insert(first)
		results := whileWaiting(s, session, o.end, func() ([]node.InsertResult, error) {
			return s.Store.Insert(s.Context(), node.InsertRequest{
				Node: alice(), Messages: insertions([]node.Message{second}, false),
			})
		})
		if o.commit {
			s.check("results", results, []node.InsertResult{{Outcome: node.Duplicate}})
		} else {
			s.check("results", results, []node.InsertResult{{Outcome: node.Inserted}})
		}
		s.check("delete", s.delete(first.Ref(), second.Ref()), []bool{o.commit, !o.commit})
	}
}

// insertAwaitsItself repeats an insert while its first try, whose reply did not come in time, is still under way.
func insertAwaitsItself(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		session := s.Begin(s)
		session.Insert(m)
		results := whileWaiting(s, session, o.end, func() ([]node.InsertResult, error) {
			return s.Store.Insert(s.Context(), node.InsertRequest{
				Node: alice(), Messages: insertions([]node.Message{m}, false),
			})
		})
		s.check("results", results, []node.InsertResult{{Outcome: node.Inserted}})
		s.check("delete", s.delete(m.Ref()), []bool{true})
	}
}

// insertAwaitsAmongOthers has one message of a batch wait; the results of the others are as without it, and the
// claims are stamped by a clock that went on while the call was waiting.
func insertAwaitsAmongOthers(s *subject) {
	for _, o := range outcomes() {
		old, batch := s.messages(5), s.messages(5)
		s.insert(old[1], old[2])
		session := s.Begin(s)
		session.Delete(old[2].Ref())
		results := whileWaiting(s, session, func(session Session) {
			s.pass()
			o.end(session)
		}, func() ([]node.InsertResult, error) {
			return s.Store.Insert(s.Context(), node.InsertRequest{
				Node: alice(), Messages: insertions(batch, false),
			})
		})
		third := node.InsertResult{Outcome: node.Duplicate}
		if o.commit {
			third.Outcome = node.Inserted
		}
		inserted := node.InsertResult{Outcome: node.Inserted}
		s.check("results", results, []node.InsertResult{
			inserted, {Outcome: node.Duplicate}, third, inserted, inserted,
		})
		s.check("delete of the old", s.delete(refsOf(old)...),
			[]bool{false, true, !o.commit, false, false})
		s.check("delete of the new", s.delete(refsOf(batch)...),
			[]bool{true, false, o.commit, true, true})
	}
}

func presentUncommitted(s *subject) {
	deleted, inserted := s.message("deleted"), s.message("inserted")
	s.insert(deleted)
	session := s.Begin(s)
	session.Delete(deleted.Ref())
	session.Insert(inserted)
	ids := []node.MessageID{messageID(deleted), messageID(inserted)}
	s.check("present before the commit", s.present(ids...), []bool{true, false})
	session.Commit()
	s.check("present after it", s.present(ids...), []bool{false, true})
}

// readySkips claims while another session is claiming, deleting and inserting (hazard H21).
func readySkips(s *subject) {
	for _, o := range outcomes() {
		list := s.messages(4)
		s.insert(list[0], list[1], list[2])
		session := s.Begin(s)
		session.Claim(list[0].Ref(), bob())
		session.Delete(list[1].Ref())
		session.Insert(list[3])
		s.checkMessages(s.ready(alice(), latest()), list[2])
		o.end(session)
		if o.commit {
			s.checkMessages(s.ready(alice(), latest()), list[3])
		} else {
			s.checkMessages(s.ready(alice(), latest()), list[0], list[1])
		}
		s.delete(refsOf(list)...)
	}
}

func readySkipsAndFills(s *subject) {
	list := s.messages(30)
	s.insert(list...)
	session := s.Begin(s)
	for _, m := range list[:20] {
		session.Claim(m.Ref(), bob())
	}
	for _, want := range [][]node.Message{list[20:25], list[25:30], nil} {
		s.checkMessages(s.readyWithin(node.ReadyRequest{
			Node: alice(), Until: latest(), Limit: 5, Bytes: math.MaxInt,
		}), want...)
	}
	session.Rollback()
	s.checkMessages(s.ready(alice(), latest()), list[:20]...)
}

func stuckUncommitted(s *subject) {
	list := s.messages(3)
	claims := s.insertReadied(alice(), list[0])
	s.pass()
	claims = append(claims, s.insertReadied(alice(), list[1])...)
	s.insert(list[2])
	session := s.Begin(s)
	session.Delete(list[0].Ref())
	session.Claim(list[2].Ref(), bob())
	s.check("claims before the commit", s.stuck(0), claims)
	session.Commit()
	after := s.stuck(0)
	s.check("claims after it", len(after), 2)
	s.check("the older one", after[0], claims[1])
	s.check("the younger one's owner", after[1].ReadiedBy, bob())
}

func deleteAwaitsClaim(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		s.insert(m)
		session := s.Begin(s)
		session.Claim(m.Ref(), bob())
		deleted := whileWaiting(s, session, o.end, func() ([]bool, error) {
			return s.Store.Delete(s.Context(), []node.Ref{m.Ref()})
		})
		s.check("delete", deleted, []bool{true})
		s.check("present", s.present(messageID(m)), []bool{false})
	}
}

func deleteAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		s.insert(m)
		session := s.Begin(s)
		session.Delete(m.Ref())
		deleted := whileWaiting(s, session, o.end, func() ([]bool, error) {
			return s.Store.Delete(s.Context(), []node.Ref{m.Ref()})
		})
		s.check("delete", deleted, []bool{!o.commit})
	}
}

func resetAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		claim := s.insertReadied(alice(), s.message("a"))[0]
		session := s.Begin(s)
		session.Delete(claim.Ref)
		reset := whileWaiting(s, session, o.end, func() ([]bool, error) {
			return s.Store.Reset(s.Context(), []node.Release{{Claim: claim}})
		})
		s.check("reset", reset, []bool{!o.commit})
		s.check("delete", s.delete(claim.Ref), []bool{!o.commit})
	}
}

// resetAwaitsClaim resets by a claim that another session is replacing: the reset has to look again at the row
// that it has been waiting for.
func resetAwaitsClaim(s *subject) {
	for _, o := range outcomes() {
		claim := s.insertReadied(alice(), s.message("a"))[0]
		session := s.Begin(s)
		session.Claim(claim.Ref, bob())
		reset := whileWaiting(s, session, o.end, func() ([]bool, error) {
			return s.Store.Reset(s.Context(), []node.Release{{Claim: claim}})
		})
		s.check("reset", reset, []bool{!o.commit})
		held := s.stuck(0)
		if o.commit {
			s.check("claims", len(held), 1)
			s.check("owner", held[0].ReadiedBy, bob())
		} else {
			s.check("claims", len(held), 0)
		}
		s.delete(claim.Ref)
	}
}

// waitingCallEnds cancels calls that wait for a lock. They come back long before it is given up. What they were to
// do may happen or not, so each is repeated when the lock is gone.
func waitingCallEnds(s *subject) {
	for call, wait := range map[string]func(context.Context, node.Claim) error{
		"Insert": func(ctx context.Context, claim node.Claim) error {
			m := s.message(claim.ID)
			_, err := s.Store.Insert(ctx, node.InsertRequest{
				Node: alice(), Messages: insertions([]node.Message{m}, false),
			})
			return err
		},
		"Delete": func(ctx context.Context, claim node.Claim) error {
			_, err := s.Store.Delete(ctx, []node.Ref{claim.Ref})
			return err
		},
		"Reset": func(ctx context.Context, claim node.Claim) error {
			_, err := s.Store.Reset(ctx, []node.Release{{Claim: claim, Due: latest()}})
			return err
		},
	} {
		claim := s.insertReadied(alice(), s.message(call))[0]
		session := s.Begin(s)
		session.Delete(claim.Ref)
		ctx, cancel := context.WithCancel(s.Context())
		done := start(func() (bool, error) { return true, wait(ctx, claim) })
		awaitWaiting(s, session, done)
		cancel()
		if r := <-done; !errors.Is(r.err, context.Canceled) {
			s.Fatalf("%s: error %v when its context was done, want one that wraps %v",
				call, r.err, context.Canceled)
		}
		session.Rollback()
		if err := wait(s.Context(), claim); err != nil {
			s.Fatalf("%s when the lock was gone: %v", call, err)
		}
	}
	present := s.present(
		node.MessageID{ID: "Insert", Topic: output}, node.MessageID{ID: "Delete", Topic: output},
		node.MessageID{ID: "Reset", Topic: output},
	)
	s.check("present", present, []bool{true, false, true})
	held := s.stuck(0)
	s.check("claims", len(held), 1)
	s.check("claim", held[0].ID, "Insert")
}
