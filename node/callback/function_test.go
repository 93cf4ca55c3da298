package callback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
	"chronos/node/callback"
)

// functions returns a sink whose lane http:test is a function.
func functions(t *testing.T, change func(l *callback.Lane), function callback.Function) (
	*callback.Sink, *[]callback.Call,
) {
	t.Helper()
	lane := callback.Default("http:test")
	if change != nil {
		change(&lane)
	}
	var calls []callback.Call
	s, err := callback.New(callback.Config{
		Lanes: []callback.Lane{lane}, Functions: map[string]callback.Function{"http:test": function},
	}, func(c callback.Call) { calls = append(calls, c) })
	if err != nil {
		t.Fatal(err)
	}
	return s, &calls
}

// Goal: a function is handed all that a message is, without a URL, and each thing that it may return has its effect.
func TestFunction(t *testing.T) {
	t.Parallel()
	failure := errors.New("out of paper")
	for name, c := range map[string]struct {
		result   error
		panics   bool
		retryFor time.Duration
		deferred bool
		after    time.Duration
		said     string
		class    string
	}{
		"it took it":   {class: "2xx"},
		"it failed":    {result: failure, retryFor: time.Hour, deferred: true, said: "out of paper", class: "error"},
		"it panicked":  {panics: true, retryFor: time.Hour, deferred: true, said: "panicked: boom", class: "error"},
		"for too long": {result: failure, said: "since its deadline, and the last time: out of paper", class: "error"},
		"not so soon": {
			result: fmt.Errorf("print: %w", &node.PublishError{Err: failure, After: time.Minute}), retryFor: time.Hour,
			deferred: true, after: time.Minute, said: "print: out of paper", class: "error",
		},
		"never": {
			result:   fmt.Errorf("%w: no such printer", node.RecordRejected),
			retryFor: time.Hour, said: "no such printer",
			class: "error",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got *callback.Message
			s, calls := functions(t, func(l *callback.Lane) { l.RetryFor = c.retryFor },
				func(_ context.Context, m *callback.Message) error {
					got = m
					if c.panics {
						panic("boom")
					}
					return c.result
				})
			r := record("", "x", "y", node.HeaderSequence, "3")
			r.Key = []byte("k")
			err := publish(t, s, r)
			switch {
			case c.said == "" && err != nil:
				t.Error(err)
			case c.said == "":
			case err == nil || !strings.Contains(err.Error(), c.said):
				t.Errorf("the result is %v, want %q", err, c.said)
			case c.deferred && deferred(t, err).After != c.after:
				t.Errorf("it is deferred by %v", deferred(t, err).After)
			case !c.deferred && node.KindOf(err) != node.RecordRejected:
				t.Errorf("it is tried again: %v", err)
			}
			if got.Lane != "http:test" || got.ID != "order 17" || got.Attempt != 1 || got.Sequence != 3 ||
				string(got.Key) != "k" || string(got.Value) != "hello" || got.Deadline.IsZero() ||
				len(got.Headers) != 2 {
				t.Errorf("it was handed %+v", got)
			}
			if len(*calls) != 1 || (*calls)[0].Class != c.class || (*calls)[0].Host != "function" {
				t.Errorf("calls %+v", *calls)
			}
			if err := s.Check("http:test", nil); err != nil {
				t.Errorf("without a URL: %v", err)
			}
		})
	}
}

// Goal: a function that minds no time limit fails its message at the limit, keeps its place, and so no more of them
// are called than the lane has places; when it returns, the next one is.
func TestFunctionHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var called atomic.Int32
		s, _ := functions(t, func(l *callback.Lane) { l.PerHost, l.Timeout = 1, time.Second },
			func(ctx context.Context, _ *callback.Message) error {
				called.Add(1)
				if _, bounded := ctx.Deadline(); !bounded {
					t.Error("it is not told how long it has")
				}
				<-release
				return nil
			})
		began := time.Now()
		err := publish(t, s, record(""))
		if took := time.Since(began); took != time.Second || !strings.Contains(deferred(t, err).Error(), "within 1s") {
			t.Errorf("after %v: %v", took, err)
		}
		if err := publish(t, s, record("")); !node.KindOf(err).Untried() || called.Load() != 1 {
			t.Errorf("%d calls, and the second result is %v", called.Load(), err)
		}
		close(release)
		synctest.Wait()
		if err := publish(t, s, record("")); err != nil || called.Load() != 2 {
			t.Errorf("%d calls, and the last result is %v", called.Load(), err)
		}
	})
}

// A message that waits for its turn when its lane closes is not begun any more: it was not tried, and its turn is there
// for the next one when the lane opens.
func TestClosesWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Bool
		open.Store(true)
		var begun []string
		first := make(chan struct{})
		lane := callback.Default("http:test")
		lane.PerHost = 1
		s, err := callback.New(callback.Config{
			Lanes: []callback.Lane{lane},
			Open:  func(lane string) bool { return lane != "http:test" || open.Load() },
			Functions: map[string]callback.Function{"http:test": func(_ context.Context, m *callback.Message) error {
				if begun = append(begun, string(m.Value)); string(m.Value) == "first" {
					<-first
				}
				return nil
			}},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		ask := func(value string) error {
			r := record("http://localhost")
			r.Value = []byte(value)
			return s.Publish(t.Context(), []node.Record{r})[0]
		}
		var asking sync.WaitGroup
		asking.Go(func() {
			if err := ask("first"); err != nil {
				t.Error(err) // what has begun is finished
			}
		})
		synctest.Wait()
		for range 2 {
			asking.Go(func() {
				if err := ask("waits"); !node.KindOf(err).Untried() {
					t.Errorf("what waits is told %v", err)
				}
			})
		}
		synctest.Wait()
		open.Store(false)
		closed := time.Now()
		close(first)
		asking.Wait()
		if waited := time.Since(closed); waited > 0 {
			t.Errorf("who waits is told after %v", waited)
		}
		open.Store(true)
		if err := ask("day"); err != nil {
			t.Error(err)
		}
		if got := strings.Join(begun, " "); got != "first day" {
			t.Errorf("begun were %s", got)
		}
	})
}
