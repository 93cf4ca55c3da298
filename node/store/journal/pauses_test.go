package journal_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/journal"
	"chronos/sim/check"
)

// operator is somebody who pauses lanes and the intake, and resumes them, through a copy of the journal that owns
// nothing: as an operator does through a node.
type operator struct {
	world *engines
	store *journal.Store
	board *journal.Switchboard
	asked chan struct{} // holds one, while a wish is on its way
}

// paused are what an operator pauses.
func (w *engines) paused() []string {
	lanes := []string{output, second, outcomes, node.Intake}
	if w.calls {
		lanes = append(lanes, hook)
	}
	return lanes
}

func newOperator(w *engines) *operator {
	names, ids := w.inlets.names()
	log := w.inlets.ledger(w)
	store, err := journal.Open(journal.Config{
		Ledger: log, Inputs: names, Dir: filepath.Join(w.dir, "operator"), Now: time.Now, Group: "group",
	})
	if err != nil {
		w.Fatal(err)
	}
	store.Identify(ids)
	o := &operator{w, store, nil, make(chan struct{}, 1)}
	o.board = journal.NewSwitchboard(log, inletPoster{w.cluster, w.inlets}, journal.AskerLimits{})
	store.SwitchBy(o.board)
	return o
}

// wish wants something to be paused, or resumed, unless something is wished already. Not all owners may hear of it in
// time, which is an error, and no defect.
func (o *operator) wish() {
	lanes := o.world.paused()
	lane := lanes[o.world.intN(len(lanes))]
	resume := o.world.intN(2) == 0
	select {
	case o.asked <- struct{}{}:
	default:
		return
	}
	go func() {
		defer func() { <-o.asked }()
		if resume {
			_, _ = o.store.Resume(o.world.Context(), lane)
		} else {
			_, _ = o.store.Pause(o.world.Context(), node.Pause{Lane: lane, By: "somebody"})
		}
	}()
}

// resume resumes everything, when nothing goes wrong any more, and closes over then.
func (o *operator) resume(over chan<- struct{}) {
	defer close(over)
	o.asked <- struct{}{}
	for _, lane := range o.world.paused() {
		for try := 1; ; try++ {
			_, err := o.store.Resume(o.world.Context(), lane)
			if err == nil {
				break
			}
			if try == 10 {
				o.world.Errorf("resume %q: %v", lane, err)
				break
			}
		}
	}
}

func (o *operator) close() {
	o.board.Close()
	if err := o.store.Close(); err != nil {
		o.world.Error(err)
	}
}

// hear has a life do what is wished in its partitions, until it ends.
func (n *engine) hear(ctx context.Context, store *journal.Store, through *gate) {
	for ctx.Err() == nil {
		_ = through.through(func() error { return store.Hear(ctx) }) // what it did not do it does at the next look
		<-time.After(100 * time.Millisecond)
	}
}

// pauses is what the recorder knows of pauses, which each partition of the journal has for itself, and of who may fire:
// a message is claimed in the memory of an owner, and a transaction does not tell when.
type pauses struct {
	since   map[string]*[inputPartitions]time.Time // by lane; zero where it is not paused
	owners  map[int32]*gate                        // the lives that have come to own a partition last
	claimed map[*gate]map[node.MessageID]time.Time // when they have claimed what last
	count   int                                    // of pauses that all partitions had
	fired   int                                    // what has come out meanwhile, and was claimed before
}

func newPauses() pauses {
	return pauses{
		since: map[string]*[inputPartitions]time.Time{}, owners: map[int32]*gate{},
		claimed: map[*gate]map[node.MessageID]time.Time{},
	}
}

// owned tells that a life has come to own a partition: whoever had it before commits nothing any more.
func (j *recorder) owned(number int32, life *gate) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.pauses.owners[number] = life
	j.lapses(number)
	j.calls.tenures[number]++
}

// claimed tells that a life has claimed messages.
func (j *recorder) claimed(messages []node.Ready, life *gate) {
	claims := make([]node.Claim, len(messages))
	for i := range messages {
		claims[i] = messages[i].Claim
	}
	j.claims(claims, life)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls.noted(messages, life)
}

// claimedIn tells what a life has claimed of what it has taken in.
func (j *recorder) claimedIn(results []node.ItemResult, life *gate) {
	claims := make([]node.Claim, len(results))
	for i := range results {
		claims[i] = results[i].Claim
	}
	j.claims(claims, life)
}

func (j *recorder) claims(claims []node.Claim, life *gate) {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := j.pauses.claimed[life]
	if all == nil {
		all = map[node.MessageID]time.Time{}
		j.pauses.claimed[life] = all
	}
	j.holds(claims, life)
	for i := range claims {
		all[node.MessageID{ID: claims[i].ID, Lane: claims[i].Lane}] = claims[i].ReadiedAt
	}
}

// unclaimed looks for what comes out of a lane that is paused in the partition, and was claimed since then: S25. What
// was claimed before may come out, as on any store.
func (x *transaction) unclaimed(number int32) {
	p := &x.pauses
	for name := range x.fired {
		since := p.since[name.Lane]
		if since == nil || since[number].IsZero() {
			continue
		}
		at, known := p.claimed[p.owners[number]][name]
		if p.fired++; !known || at.After(since[number]) {
			x.world.Errorf("S25: %v comes out of partition %d, paused there at %v, claimed at %v",
				name, number, since[number], at)
		}
	}
}

// steer tells of what is paused from now on in a partition, and of what is not. The judge knows a lane as one: it is
// paused as long as any partition has paused it, so that nobody waits in vain; and the intake is as long as all have,
// so that whatever is taken in is taken in wrongly.
func (x *transaction) steer(number int32) {
	for _, lane := range x.world.paused() {
		is, some := x.switched[lane]
		if !some {
			continue
		}
		since := x.pauses.since[lane]
		if since == nil {
			since = new([inputPartitions]time.Time)
			x.pauses.since[lane] = since
		}
		before := x.isPaused(lane)
		switch {
		case !is:
			since[number] = time.Time{}
		case since[number].IsZero():
			since[number] = time.Now()
		}
		x.add(&check.Event{Kind: check.Fault, Text: fmt.Sprintf("pause of %q in partition %d: %v", lane, number, is)})
		e := &check.Event{Kind: check.Resume, Topic: lane, Stamp: x.instant(time.Now())}
		if x.isPaused(lane) {
			e.Kind = check.Pause
		}
		if before != x.isPaused(lane) {
			x.pauses.count++
			x.add(e)
		}
	}
}

// isPaused reports whether the judge knows a lane, or the intake, as paused.
func (j *recorder) isPaused(lane string) bool {
	since := j.pauses.since[lane]
	if lane == node.Intake {
		return !slices.ContainsFunc(since[:], time.Time.IsZero)
	}
	return slices.ContainsFunc(since[:], func(t time.Time) bool { return !t.IsZero() })
}
