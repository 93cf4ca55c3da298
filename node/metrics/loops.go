package metrics

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"chronos/node"
)

// Loops knows what each loop of the engine is doing, and since when. It is how a node that is alive is told from one
// that is stuck: not by whether Kafka or the store answer, but by whether its operations take turns.
//
//	loop          call          rest        call
//	----|---------------|--------------|-----------|----->
//	    at most its limit   what it asked for      ^ what is it doing here, and for how long may it?
//
// Every loop does nothing but call ports, each call of which has a time limit, and rest for a time that it names. The
// context that a loop is started with carries its name, and the ports that the engine is given (Metrics.Ports) note
// whose call it is. A loop that is in one call for ten times as long as that may take, or for a minute outside of any,
// does not go on by itself.
//
// Time is that which the process has lived through, in seconds counted by one of its goroutines: whoever stops the
// process for an hour and lets it go on must not find it stuck.
type Loops struct {
	config node.Config
	lived  atomic.Int64 // seconds

	mu  sync.Mutex
	all []*loop
}

// loop is one loop.
type loop struct {
	name string // of the operation, with a number where there are several
	kind node.Operation

	mu    sync.Mutex
	doing string        // what it calls; "" outside of calls
	may   time.Duration // how long that may take
	bound time.Duration // when it counts as stuck
	since int64         // lived
	ended bool
}

type loopKey struct{}

const (
	// patience is how many times as long as it may take a call is waited for, and leastPatience how long at least.
	patience      = 10
	leastPatience = time.Minute

	// slack is how much longer a rest may take than was asked for, before it is an overrun.
	slack = 500 * time.Millisecond
)

func newLoops(config node.Config) *Loops { return &Loops{config: config} }

// Run counts the seconds that the process lives through, until ctx is done.
func (l *Loops) Run(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			l.lived.Add(1)
		case <-ctx.Done():
			return
		}
	}
}

// Tasks returns tasks that start the same loops as others do, under their names.
func (l *Loops) Tasks(tasks node.Tasks) node.Tasks { return &namedTasks{tasks, l} }

type namedTasks struct {
	node.Tasks

	loops *Loops
}

// Go starts a loop.
func (t *namedTasks) Go(operation node.Operation, run func(context.Context)) {
	t.Tasks.Go(operation, func(ctx context.Context) {
		ctx, end := t.loops.Begin(ctx, operation)
		defer end()
		run(ctx)
	})
}

// Begin returns the context of a loop that begins, and what to call when it ends.
func (l *Loops) Begin(ctx context.Context, operation node.Operation) (context.Context, func()) {
	one := &loop{name: string(operation), kind: operation, bound: leastPatience, since: l.lived.Load()}
	l.mu.Lock()
	same := 0
	for _, o := range l.all {
		if o.kind == operation {
			same++
		}
	}
	if same > 0 {
		one.name = fmt.Sprintf("%s %d", operation, same+1)
	}
	l.all = append(l.all, one)
	l.mu.Unlock()
	return context.WithValue(ctx, loopKey{}, one), func() {
		one.mu.Lock()
		defer one.mu.Unlock()
		one.ended = true
	}
}

// enter notes that the loop of ctx begins a call that may take so long. It returns the loop; nil if it is nobody's.
func (l *Loops) enter(ctx context.Context, doing string, may time.Duration) *loop {
	one, _ := ctx.Value(loopKey{}).(*loop)
	if one != nil {
		one.set(doing, may, max(leastPatience, patience*may), l.lived.Load())
	}
	return one
}

// rest notes that the loop of ctx rests, for so long at most.
func (l *Loops) rest(ctx context.Context, most time.Duration) *loop {
	one, _ := ctx.Value(loopKey{}).(*loop)
	if one != nil {
		one.set("rests", most, most+leastPatience, l.lived.Load())
	}
	return one
}

// leave notes that the call is over.
func (l *Loops) leave(one *loop) {
	if one != nil {
		one.set("", 0, leastPatience, l.lived.Load())
	}
}

func (o *loop) set(doing string, may, bound time.Duration, now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.doing, o.may, o.bound, o.since = doing, may, bound, now
}

// State is what a loop is doing.
type State struct {
	Loop   string
	Stuck  bool
	Detail string // in words
}

// States returns what the loops are doing that have not ended, by name.
func (l *Loops) States() []State {
	l.mu.Lock()
	all := slices.Clone(l.all)
	l.mu.Unlock()
	now := l.lived.Load()
	var states, callers []State
	for _, one := range all {
		one.mu.Lock()
		doing, may, bound, ended := one.doing, one.may, one.bound, one.ended
		took := time.Duration(now-one.since) * time.Second
		one.mu.Unlock()
		if ended {
			continue
		}
		if one.kind == node.Call {
			callers = append(callers, State{string(node.Call), took > bound, describe(doing, may, took)})
			continue
		}
		states = append(states, State{one.name, took > bound, describe(doing, may, took)})
	}
	states = append(states, together(callers)...)
	slices.SortFunc(states, func(a, b State) int {
		if a.Loop < b.Loop {
			return -1
		}
		return 1
	})
	return states
}

// together returns one state for all callers, of which there are many: that of the first that is stuck, if one is.
func together(callers []State) []State {
	if len(callers) == 0 {
		return nil
	}
	if i := slices.IndexFunc(callers, func(s State) bool { return s.Stuck }); i >= 0 {
		return callers[i : i+1]
	}
	busy := 0
	for _, s := range callers {
		if s.Detail != "rests" && !strings.HasPrefix(s.Detail, "rests ") {
			busy++
		}
	}
	return []State{{callers[0].Loop, false, fmt.Sprintf("%d of %d at work", busy, len(callers))}}
}

// describe says what a loop is doing.
func describe(doing string, may, took time.Duration) string {
	switch {
	case doing == "":
		return fmt.Sprintf("between two calls for %v, which should take no time", took)
	case took <= time.Second:
		return doing
	default:
		return fmt.Sprintf("%s for %v; that may take %v", doing, took, may.Round(time.Millisecond))
	}
}
