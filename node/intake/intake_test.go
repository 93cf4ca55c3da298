package intake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
)

// store answers each Take as it is told to, when gate is closed; nil for at once.
type store struct {
	gate   chan struct{}
	answer func(n int, items []node.Item) (node.TakeResult, error) // n counts from 1; nil takes all

	mu         sync.Mutex
	takes      [][]node.Item
	now, atOne int // how many are under way, and were at most at the same time
}

func (s *store) Take(_ context.Context, request node.TakeRequest) (node.TakeResult, error) {
	s.mu.Lock()
	s.takes = append(s.takes, request.Items)
	n := len(s.takes)
	s.now++
	s.atOne = max(s.atOne, s.now)
	s.mu.Unlock()
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now--
	if s.answer != nil {
		return s.answer(n, request.Items)
	}
	return taken(request.Items, len(request.Items)), nil
}

// taken is the result of a take that has taken the first n items.
func taken(items []node.Item, n int) node.TakeResult {
	result := node.TakeResult{Taken: n}
	for range items[:n] {
		result.Results = append(result.Results, node.ItemResult{Outcome: node.Scheduled})
	}
	return result
}

func item(id string, bytes int) node.Item {
	item := node.Item{From: node.NoPlace, Action: node.Schedule}
	item.Message = node.Message{ID: id, Lane: "http:a", Value: make([]byte, bytes)}
	item.Incarnation, item.Request = uuid.New(), &node.Request{ID: uuid.New()}
	return item
}

// ask asks for n items at the same time, and returns what becomes of each when the test waits for it.
func ask(t *testing.T, to *intake.Intake, n, bytes int) func() (outcomes []node.Outcome, errs []error) {
	t.Helper()
	outcomes, errs := make([]node.Outcome, n), make([]error, n)
	var asking sync.WaitGroup
	for i := range n {
		asking.Go(func() {
			var result node.ItemResult
			result, errs[i] = to.Ask(t.Context(), item(fmt.Sprint("m", i), bytes))
			outcomes[i] = result.Outcome
		})
		synctest.Wait() // one after the other
	}
	return func() ([]node.Outcome, []error) {
		asking.Wait()
		return outcomes, errs
	}
}

// Goal: what comes at the same time goes to the store in few transactions, three at a time and each bounded in number
// and bytes; everybody is answered once, and then nobody leads any more.
func TestTogether(t *testing.T) {
	for name, c := range map[string]struct{ n, bytes, takes, most int }{
		"small": {n: 450, bytes: 10, takes: 3 + 5, most: 100},
		"large": {n: 33, bytes: 900_000, takes: 3 + 8, most: 4},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{gate: make(chan struct{})}
				to := &intake.Intake{Store: s}
				wait := ask(t, to, c.n, c.bytes)
				close(s.gate)
				outcomes, errs := wait()
				for i := range outcomes {
					if outcomes[i] != node.Scheduled || errs[i] != nil {
						t.Fatalf("%d: %v, %v", i, outcomes[i], errs[i])
					}
				}
				total, most := 0, 0
				for _, items := range s.takes {
					total, most = total+len(items), max(most, len(items))
				}
				if total != c.n || len(s.takes) != c.takes || most != c.most || s.atOne != 3 {
					t.Errorf("%d items in %d takes of %d at most, %d at the same time; want %+v and 3",
						total, len(s.takes), most, s.atOne, c)
				}
				if _, err := to.Ask(t.Context(), item("later", 1)); err != nil || len(s.takes) != c.takes+1 {
					t.Errorf("one more: %v, %d takes", err, len(s.takes))
				}
			})
		})
	}
}

// Goal: who leads is answered, also where the one before it takes the room in the transaction that it makes, and is
// answered before it has seen that it leads as well. Method: the goroutine of the first one is slow, and the test does
// what it would do.
func TestLeadsUntilItIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		to := &intake.Intake{Store: s}
		slow, err := to.Enter(item("slow", 3<<20))
		if err != nil {
			t.Fatal(err)
		}
		wait := ask(t, to, 1, 3<<20)
		<-slow.Done()
		slow.Pass()
		synctest.Wait()
		if len(s.takes) != 2 || s.takes[0][0].ID != "slow" || s.takes[1][0].ID != "m0" {
			t.Errorf("who leads has made %d transactions, and is not in the last one", len(s.takes))
			ask(t, to, 1, 1) // or nobody would take it in
		}
		if _, errs := wait(); errs[0] != nil {
			t.Error(errs[0])
		}
	})
}

// Goal: no more than 2,000 wait; one more is told at once that nothing was done.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		to := &intake.Intake{Store: s}
		wait := ask(t, to, 3+2000, 1)
		if _, err := to.Ask(t.Context(), item("one more", 1)); !errors.Is(err, intake.ErrBusy) {
			t.Errorf("%v, want ErrBusy", err)
		}
		close(s.gate)
		if _, errs := wait(); errors.Join(errs...) != nil {
			t.Error(errors.Join(errs...))
		}
		if _, err := to.Ask(t.Context(), item("later", 1)); err != nil {
			t.Error(err)
		}
	})
}

// Goal: what the store can never take is refused, and nobody else with it; what is known to be such is not sent at all.
func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{gate: make(chan struct{})}
		s.answer = func(_ int, items []node.Item) (node.TakeResult, error) {
			for i := range items {
				if items[i].ID == "m4" || items[i].ID == "m6" {
					result := taken(items, i)
					result.Refusal = "spoilt"
					return result, nil
				}
			}
			return taken(items, len(items)), nil
		}
		to := &intake.Intake{Store: s}
		wait := ask(t, to, 8, 1)
		close(s.gate)
		outcomes, errs := wait()
		for i := range errs {
			refusal, refused := errors.AsType[*control.RefusedError](errs[i])
			bad := i == 4 || i == 6
			if bad != refused || bad == (outcomes[i] == node.Scheduled) || !bad && errs[i] != nil ||
				bad && (refusal.ID != fmt.Sprint("m", i) || refusal.Reason != "spoilt") {
				t.Errorf("%d: %v, %v", i, outcomes[i], errs[i])
			}
		}
		takes := len(s.takes)
		_, err := to.Ask(t.Context(), item("nul\x00", 1))
		if _, refused := errors.AsType[*control.RefusedError](err); !refused || len(s.takes) != takes {
			t.Errorf("%v, and %d takes", err, len(s.takes)-takes)
		}
	})
}

// Goal: a transaction of unknown outcome is repeated as it was, three times in all, and then its error is everybody's.
// A store that is closed is told apart from that, unless it was closed after such a transaction. A later request is not
// the worse for it.
func TestUnknown(t *testing.T) {
	lost := errors.New("the connection was lost")
	for name, c := range map[string]struct {
		fails int // the first so many
		takes int
		want  error
	}{
		"once": {1, 2, nil}, "twice": {2, 3, nil}, "always": {9, 3, lost},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				s.answer = func(n int, items []node.Item) (node.TakeResult, error) {
					if n <= c.fails {
						return node.TakeResult{}, lost
					}
					return taken(items, len(items)), nil
				}
				to := &intake.Intake{Store: s}
				if _, err := to.Ask(t.Context(), item("x", 1)); !errors.Is(err, c.want) || len(s.takes) != c.takes {
					t.Errorf("%v after %d takes", err, len(s.takes))
				}
				for _, items := range s.takes {
					if len(items) != 1 || items[0].Request.ID != s.takes[0][0].Request.ID {
						t.Errorf("repeated as %+v", items)
					}
				}
				c.fails = 0
				if _, err := to.Ask(t.Context(), item("later", 1)); err != nil {
					t.Error(err)
				}
			})
		})
	}
	for fails := range 2 {
		synctest.Test(t, func(t *testing.T) {
			s := &store{answer: func(n int, items []node.Item) (node.TakeResult, error) {
				if n <= fails {
					return node.TakeResult{}, lost // it may have been taken in before the intake was paused
				}
				paused := node.State{IntakePaused: true}
				return node.TakeResult{
					Taken: 1, Results: []node.ItemResult{{Outcome: node.Untaken}}, State: paused,
				}, nil
			}}
			_, err := (&intake.Intake{Store: s}).Ask(t.Context(), item("x", 1))
			paused := control.IsClosed(err) && strings.Contains(err.Error(), "the intake is paused")
			if paused != (fails == 0) || errors.Is(err, lost) != (fails > 0) {
				t.Errorf("paused after %d failures: %v", fails, err)
			}
		})
	}
}
