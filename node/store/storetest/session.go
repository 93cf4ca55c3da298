package storetest

import (
	"context"
	"errors"
	"math"
	"runtime"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

func sessionCases() []testCase {
	return []testCase{
		{"take waits for a delete and goes by its outcome", takeAwaitsDelete},
		{"take waits for a position and goes by its outcome", takeAwaitsPosition},
		{"take waits for a row and goes by its outcome", takeAwaitsInsert},
		{"take waits for a row of its own incarnation", takeAwaitsItself},
		{"take that waits answers for all of its records", takeAwaitsAmongOthers},
		{"cancel waits for a claim and is too late", cancelAwaitsClaim},
		{"cancel waits for a delete and finds nothing", cancelAwaitsDelete},
		{"replace waits for a claim and remembers it", replaceAwaitsClaim},
		{"replace waits for a row and takes it over", replaceAwaitsInsert},
		{"claim skips what others are claiming", claimSkips},
		{"claim skips but fills its limit", claimSkipsAndFills},
		{"expired does not wait", expiredUncommitted},
		{"delete waits for a claim and removes what it claimed", deleteAwaitsClaim},
		{"delete waits for a delete", deleteAwaitsDelete},
		{"rearm waits for a delete and goes by its outcome", rearmAwaitsDelete},
		{"rearm waits for a claim and settles what it claimed", rearmAwaitsClaim},
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

// unless returns the answer to a call that waited for the session: how, or Gone if the session has committed.
func (o outcome) unless(how node.Settled) node.Settled {
	if o.commit {
		return node.Gone
	}
	return how
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

// takeWaiting takes messages in while the session holds what the take waits for.
func (s *subject) takeWaiting(
	session Session, end func(Session), owner uuid.UUID, messages ...submission,
) []node.ItemResult {
	s.Helper()
	request := s.request(owner, messages...)
	return s.accept(request, whileWaiting(s, session, end, func() (node.TakeResult, error) {
		return s.Store.Take(s.Context(), request)
	}))
}

func takeAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		old, next := s.message("a"), s.message("a")
		s.insert(old)
		session := s.Begin(s)
		session.Delete(old.Ref())
		results := s.takeWaiting(session, o.end, alice(), submissions([]node.Message{next}, true)...)
		if o.commit {
			s.checkClaim(results[0].Claim, next.Ref(), alice(), hold)
			s.check("delete of the new one", s.delete(old.Ref(), next.Ref()), []bool{false, true})
		} else {
			s.check("results", results, []node.ItemResult{{Outcome: node.Duplicate}})
			s.check("delete of the old one", s.delete(old.Ref(), next.Ref()), []bool{true, false})
		}
	}
}

func takeAwaitsInsert(s *subject) {
	for _, o := range outcomes() {
		first, second := s.message("a"), s.message("a")
		session := s.Begin(s)
		session.Insert(first)
		results := s.takeWaiting(session, o.end, alice(), submissions([]node.Message{second}, false)...)
		if o.commit {
			s.check("results", results, []node.ItemResult{{Outcome: node.Duplicate}})
		} else {
			s.check("results", results, []node.ItemResult{{Outcome: node.Scheduled}})
		}
		s.check("delete", s.delete(first.Ref(), second.Ref()), []bool{o.commit, !o.commit})
	}
}

// takeAwaitsItself repeats an insert while its first try, whose reply did not come in time, is still under way.
func takeAwaitsItself(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		session := s.Begin(s)
		session.Insert(m)
		results := s.takeWaiting(session, o.end, alice(), submissions([]node.Message{m}, false)...)
		s.check("results", results, []node.ItemResult{{Outcome: node.Scheduled}})
		s.check("delete", s.delete(m.Ref()), []bool{true})
	}
}

// takeAwaitsAmongOthers has one message of a batch wait; the results of the others are as without it.
func takeAwaitsAmongOthers(s *subject) {
	for _, o := range outcomes() {
		old, batch := s.messages(5), s.messages(5)
		s.insert(old[1], old[2])
		session := s.Begin(s)
		session.Delete(old[2].Ref())
		results := s.takeWaiting(session, o.end, alice(), submissions(batch, false)...)
		third := node.ItemResult{Outcome: node.Duplicate}
		if o.commit {
			third.Outcome = node.Scheduled
		}
		inserted := node.ItemResult{Outcome: node.Scheduled}
		s.check("results", results, []node.ItemResult{
			inserted, {Outcome: node.Duplicate}, third, inserted, inserted,
		})
		s.check("delete of the old", s.delete(refsOf(old)...),
			[]bool{false, true, !o.commit, false, false})
		s.check("delete of the new", s.delete(refsOf(batch)...),
			[]bool{true, false, o.commit, true, true})
	}
}

// instructWaiting gives an instruction while the session holds what it waits for. It returns the outcome.
func (s *subject) instructWaiting(session Session, end func(Session), item node.Item) node.Outcome {
	s.Helper()
	request := s.instructions(item)
	return s.accept(request, whileWaiting(s, session, end, func() (node.TakeResult, error) {
		return s.Store.Take(s.Context(), request)
	}))[0].Outcome
}

// cancelAwaitsClaim cancels a message that another session is claiming. What it decides on is the row as the session
// has left it, not as it was when the take began.
func cancelAwaitsClaim(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		s.insert(m)
		session := s.Begin(s)
		session.Claim(m.Ref(), bob())
		want := node.Cancelled
		if o.commit {
			want = node.TooLate
		}
		got := s.instructWaiting(session, o.end, instruction(node.Cancel, s.message("a"), nil))
		s.check("cancel, after a "+o.name, got, want)
		s.check("claims", len(s.expired()) == 1, o.commit)
		s.check("delete", s.delete(m.Ref()), []bool{o.commit})
	}
}

func cancelAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		s.insert(m)
		session := s.Begin(s)
		session.Delete(m.Ref())
		want := node.Cancelled
		if o.commit {
			want = node.NotFound
		}
		got := s.instructWaiting(session, o.end, instruction(node.Cancel, s.message("a"), nil))
		s.check("cancel, after a "+o.name, got, want)
		s.check("delete", s.delete(m.Ref()), []bool{false})
	}
}

func replaceAwaitsClaim(s *subject) {
	for _, o := range outcomes() {
		m, next, answer := s.message("a"), s.message("a"), s.answer("a")
		s.insert(m)
		session := s.Begin(s)
		session.Claim(m.Ref(), bob())
		got := s.instructWaiting(session, o.end, instruction(node.Replace, next, answer))
		s.check("replace, after a "+o.name, got, node.Replaced)
		headers := headersOf("chronosOutcome", "replaced", "chronosDeadline", noonText)
		if o.commit {
			headers = append(headers, headersOf("chronosFormer", "may appear")...)
		}
		s.checkReply(answer, headers...)
		s.checkMessages(s.claim(alice(), latest()), next)
		s.check("delete", s.delete(m.Ref(), next.Ref()), []bool{false, true})
	}
}

// replaceAwaitsInsert replaces what another session is storing: a row that the take cannot see when it looks, and meets
// when it writes.
func replaceAwaitsInsert(s *subject) {
	for _, o := range outcomes() {
		m, next := s.message("a"), s.message("a")
		session := s.Begin(s)
		session.Insert(m)
		want := node.Scheduled
		if o.commit {
			want = node.Replaced
		}
		got := s.instructWaiting(session, o.end, instruction(node.Replace, next, nil))
		s.check("replace, after a "+o.name, got, want)
		s.check("delete", s.delete(m.Ref(), next.Ref()), []bool{false, true})
	}
}

// claimSkips claims while another session is claiming, deleting and inserting (hazard H21).
func claimSkips(s *subject) {
	for _, o := range outcomes() {
		list := s.messages(4)
		s.insert(list[0], list[1], list[2])
		session := s.Begin(s)
		session.Claim(list[0].Ref(), bob())
		session.Delete(list[1].Ref())
		session.Insert(list[3])
		s.checkMessages(s.claim(alice(), latest()), list[2])
		o.end(session)
		if o.commit {
			s.checkMessages(s.claim(alice(), latest()), list[3])
		} else {
			s.checkMessages(s.claim(alice(), latest()), list[0], list[1])
		}
		s.delete(refsOf(list)...)
	}
}

func claimSkipsAndFills(s *subject) {
	list := s.messages(30)
	s.insert(list...)
	session := s.Begin(s)
	for _, m := range list[:20] {
		session.Claim(m.Ref(), bob())
	}
	for _, want := range [][]node.Message{list[20:25], list[25:30], nil} {
		s.checkMessages(s.claimWithin(alice(), latest(), share(5, math.MaxInt)), want...)
	}
	session.Rollback()
	s.checkMessages(s.claim(alice(), latest()), list[:20]...)
}

func expiredUncommitted(s *subject) {
	list := s.messages(3)
	claims := s.insertClaimed(alice(), list[0])
	s.pass()
	claims = append(claims, s.insertClaimed(alice(), list[1])...)
	s.insert(list[2])
	session := s.Begin(s)
	session.Delete(list[0].Ref())
	session.Claim(list[2].Ref(), bob())
	s.check("claims before the commit, but for what is locked", s.expired(), claims[1:])
	session.Commit()
	after := s.expired()
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
		deleted := whileWaiting(s, session, o.end, func() ([]node.Settled, error) {
			return s.Store.Settle(s.Context(), node.Removals(m.Ref()))
		})
		s.check("delete", deleted, []node.Settled{node.Removed})
		s.check("delete again", s.delete(m.Ref()), []bool{false})
	}
}

func deleteAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		m := s.message("a")
		s.insert(m)
		session := s.Begin(s)
		session.Delete(m.Ref())
		deleted := whileWaiting(s, session, o.end, func() ([]node.Settled, error) {
			return s.Store.Settle(s.Context(), node.Removals(m.Ref()))
		})
		s.check("delete", deleted, []node.Settled{o.unless(node.Removed)})
	}
}

func rearmAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		m := s.series("a")
		s.insert(m)
		next, following := s.following(m, noon().Add(time.Hour))
		session := s.Begin(s)
		session.Delete(m.Ref())
		settled := whileWaiting(s, session, o.end, func() ([]node.Settled, error) {
			return s.Store.Settle(s.Context(), []node.Next{next})
		})
		want := node.Rearmed
		if o.commit {
			want = node.Gone
		}
		s.check("rearm", settled, []node.Settled{want})
		s.check("delete", s.delete(following.Ref()), []bool{!o.commit})
	}
}

func rearmAwaitsClaim(s *subject) {
	for _, o := range outcomes() {
		m := s.series("a")
		s.insert(m)
		next, following := s.following(m, noon().Add(time.Hour))
		session := s.Begin(s)
		session.Claim(m.Ref(), bob())
		settled := whileWaiting(s, session, o.end, func() ([]node.Settled, error) {
			return s.Store.Settle(s.Context(), []node.Next{next})
		})
		s.check("rearm", settled, []node.Settled{node.Rearmed})
		s.check("claims", len(s.expired()), 0)
		s.checkMessages(s.claim(alice(), latest()), following)
		s.delete(following.Ref())
	}
}

func resetAwaitsDelete(s *subject) {
	for _, o := range outcomes() {
		claim := s.insertClaimed(alice(), s.message("a"))[0]
		session := s.Begin(s)
		session.Delete(claim.Ref)
		reset := whileWaiting(s, session, o.end, func() ([]node.Settled, error) {
			return s.Store.Reset(s.Context(), []node.Release{{Claim: claim}})
		})
		s.check("reset", reset, []node.Settled{o.unless(node.Freed)})
		s.check("delete", s.delete(claim.Ref), []bool{!o.commit})
	}
}

// resetAwaitsClaim resets by a claim that another session is replacing: the reset has to look again at the row
// that it has been waiting for.
func resetAwaitsClaim(s *subject) {
	for _, o := range outcomes() {
		claim := s.insertClaimed(alice(), s.message("a"))[0]
		session := s.Begin(s)
		session.Claim(claim.Ref, bob())
		reset := whileWaiting(s, session, o.end, func() ([]node.Settled, error) {
			return s.Store.Reset(s.Context(), []node.Release{{Claim: claim}})
		})
		s.check("reset", reset, []node.Settled{o.unless(node.Freed)})
		held := s.expired()
		if o.commit {
			s.check("claims", len(held), 1)
			s.check("owner", held[0].ReadiedBy, bob())
		} else {
			s.check("claims", len(held), 0)
		}
		s.delete(claim.Ref)
	}
}

// takeAwaitsPosition has another session move the position of a take. The take waits, because what is being moved
// decides on its records, also when it has nothing but records that were taken in before: a position that is
// committed here but not yet on a synchronous standby could be lost, and an answer would rest on it.
func takeAwaitsPosition(s *subject) {
	for _, o := range outcomes() {
		place := s.place(1, 10)
		list := s.messages(2)
		request := requestAt(place, alice(), submissions(list, false)...)
		session := s.Begin(s)
		moved := place
		moved.Offset = 12
		session.Move(moved)
		result := whileWaiting(s, session, o.end, func() (node.TakeResult, error) {
			return s.Store.Take(s.Context(), request)
		})
		want := node.ItemResult{Outcome: node.Scheduled}
		if o.commit {
			want.Outcome = node.Skipped
		}
		s.check("results", result.Results, many(2, want))
		s.check("position", s.positions(place), []node.Position{moved.Position})
		s.check("delete", s.delete(refsOf(list)...), many(2, !o.commit))

		session = s.Begin(s)
		session.Move(moved)
		request.Items[0].Action, request.Items[1].Action = node.Pass, node.Pass
		result = whileWaiting(s, session, o.end, func() (node.TakeResult, error) {
			return s.Store.Take(s.Context(), request)
		})
		s.check("results", result.Results, many(2, node.ItemResult{Outcome: node.Skipped}))
	}
}

// waitingCallEnds cancels calls that wait for a lock. They come back long before it is given up. What they were to
// do may happen or not, so each is repeated when the lock is gone.
func waitingCallEnds(s *subject) {
	for call, wait := range map[string]func(context.Context, node.Claim) func() error{
		"Take": func(ctx context.Context, claim node.Claim) func() error {
			request := requestAt(s.place(1, 10), alice(), submission{Message: s.message(claim.ID)})
			return func() error {
				_, err := s.Store.Take(ctx, request)
				return err
			}
		},
		"Delete": func(ctx context.Context, claim node.Claim) func() error {
			return func() error {
				_, err := s.Store.Settle(ctx, node.Removals(claim.Ref))
				return err
			}
		},
		"Reset": func(ctx context.Context, claim node.Claim) func() error {
			return func() error {
				_, err := s.Store.Reset(ctx, []node.Release{{Claim: claim, Due: latest()}})
				return err
			}
		},
	} {
		claim := s.insertClaimed(alice(), s.message(call))[0]
		ctx, cancel := context.WithCancel(s.Context())
		waiting, again := wait(ctx, claim), wait(s.Context(), claim)
		session := s.Begin(s)
		session.Delete(claim.Ref)
		done := start(func() (bool, error) { return true, waiting() })
		awaitWaiting(s, session, done)
		cancel()
		if r := <-done; !errors.Is(r.err, context.Canceled) {
			s.Fatalf("%s: error %v when its context was done, want one that wraps %v",
				call, r.err, context.Canceled)
		}
		session.Rollback()
		if err := again(); err != nil {
			s.Fatalf("%s when the lock was gone: %v", call, err)
		}
	}
	held := s.expired()
	s.check("claims", len(held), 1)
	s.check("claim", held[0].ID, "Take")
	waiting := s.claim(bob(), latest())
	s.check("waiting messages", idsOf(waiting), []string{"Reset"})
}
