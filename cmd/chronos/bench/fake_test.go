package bench_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"chronos/cmd/chronos/bench"
)

// fake is a delay service in memory, in the time of a synctest bubble: 1 ms after a message is due, by the advance of
// the load, it comes out, unless the fake is told to do otherwise.
type fake struct {
	load   *bench.Load
	late   func(m *bench.Submission) time.Duration                    // how late beside the usual; nil for on time
	change func(m *bench.Submission, a bench.Arrival) []bench.Arrival // what comes out in place of a; nil for a
	refuse func(m *bench.Submission) error                            // what the acknowledgement says; nil for yes
	answer time.Duration                                              // how long an acknowledgement takes
	block  func(m *bench.Submission) time.Duration                    // how long Submit blocks; nil for not at all
	ahead  time.Duration                                              // the broker's clock
	stamps bool                                                       // timestamps are the service's own
	clocks []bench.Clock

	mu    sync.Mutex
	seen  map[string]bool
	taken int64
	out   chan bench.Arrival
	open  sync.WaitGroup
}

func (f *fake) Submit(_ context.Context, m *bench.Submission, done func(error)) {
	if f.block != nil {
		<-time.After(f.block(m))
	}
	var refused error
	if f.refuse != nil {
		refused = f.refuse(m)
	}
	// An AfterFunc, not a goroutine that waits for time.After: goroutines of one bubble that receive at once from
	// channel timers already due run them at once, in the one race context of the bubble, which kills a -race build
	// (Go 1.26).
	f.open.Add(1)
	time.AfterFunc(f.answer, func() {
		defer f.open.Done()
		done(refused)
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	if refused != nil {
		return
	}
	f.taken++
	if f.seen[m.ID] {
		return // a duplicate of what is known
	}
	f.seen[m.ID] = true
	deadline, err := time.Parse(time.RFC3339Nano, m.Deadline)
	if err != nil {
		panic(err)
	}
	wait := time.Until(deadline.Add(-f.load.Advance)) + time.Millisecond
	if f.late != nil {
		wait += f.late(m)
	}
	time.AfterFunc(wait, func() {
		a := bench.Arrival{
			Route: m.Route, Key: m.Key, Value: m.Value, Mark: m.Mark, At: time.Now(),
			Stamp: time.Now().Add(f.ahead).Truncate(time.Millisecond), ByBroker: !f.stamps,
		}
		all := []bench.Arrival{a}
		if f.change != nil {
			all = f.change(m, a)
		}
		for _, a := range all {
			f.out <- a
		}
	})
}

func (f *fake) Begin(context.Context) error { return nil }

func (f *fake) Flush(context.Context) error {
	f.open.Wait()
	return nil
}

func (f *fake) Receive(ctx context.Context) ([]bench.Arrival, error) {
	select {
	case a := <-f.out:
		return []bench.Arrival{a}, nil
	case <-ctx.Done():
		return nil, nil
	}
}

func (f *fake) Taken(context.Context) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.taken, nil
}

func (f *fake) Clocks(context.Context) ([]bench.Clock, error) { return f.clocks, nil }

// steady returns a small load: 100 messages a second for 10 s, of which 8 s are measured.
func steady() *bench.Load {
	return &bench.Load{
		Shape: bench.Steady, Rate: 100, Duration: 10 * time.Second, WarmUp: 2 * time.Second,
		Delay: bench.Spread{Low: float64(time.Second), High: float64(3 * time.Second)},
		Size:  bench.Spread{Low: 100, High: 300}, Advance: 50 * time.Millisecond, Routes: 1, Run: "run", Seed: 7,
	}
}

// measure runs a load on a fake, in the time of a bubble, and returns the result.
func measure(t *testing.T, load *bench.Load, f *fake, options bench.Options) (result *bench.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f.load, f.seen, f.out = load, map[string]bool{}, make(chan bench.Arrival, 100_000)
		if options.Patience == 0 {
			options.Patience = 10 * time.Second
		}
		if options.Limit == 0 {
			options.Limit = time.Hour
		}
		var err error
		if result, err = bench.Run(t.Context(), load, f, options); err != nil {
			t.Fatal(err)
		}
	})
	return result
}
