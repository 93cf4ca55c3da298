package metrics

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"chronos/node"
)

// Operation is how it goes with one call of a port. Each call is judged by itself: that claims go well says nothing of
// takes, for which the database may have no space, or this node no right.
type Operation struct {
	Port node.Port
	Call string

	// Succeeded is when it has gone well last; zero for never. Tried is when it has ended last, well or not.
	Succeeded, Tried time.Time

	// Failing says that it has not gone well since Since although it was tried, last with Err.
	Failing bool
	Since   time.Time
	Err     error

	// Back is when it went well again last; zero if it has never failed.
	Back time.Time
}

// operations is how it goes with the calls of all ports.
type operations struct {
	mu  sync.Mutex
	all map[operationKey]*Operation
}

type operationKey struct {
	port node.Port
	call string
}

// noWork is how long ago a call was tried last that there is no work for any more: whatever fails is tried again much
// sooner, for as long as it has to be done.
const noWork = 30 * time.Second

// judged reports whether the promises depend on a call. They do not on commits, which only tools look at, nor on the
// look for lanes that no route names, which is given up soon where there are many dead entries: what waits there is
// judged by its lane. Callbacks have a receiver each, and are judged by their lanes, too.
func judged(port node.Port, call string) bool {
	return port != node.PortCallback && call != "commit" && call != "parts"
}

func (o *operations) note(port node.Port, call string, err error) {
	if !judged(port, call) {
		return
	}
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[operationKey]*Operation{}
	}
	key := operationKey{port, call}
	one := o.all[key]
	if one == nil {
		one = &Operation{Port: port, Call: call}
		o.all[key] = one
	}
	one.Tried = now
	switch {
	case err == nil, answered(err):
		if one.Failing {
			one.Back = now
		}
		one.Succeeded, one.Failing, one.Err = now, false, nil
	case !one.Failing:
		one.Failing, one.Since, one.Err = true, now, err
	default:
		one.Err = err
	}
}

// answered reports whether an error is what a broker has answered about one topic or one record: that is for its lane.
func answered(err error) bool {
	return node.KindOf(err).Permanent()
}

// Operations returns how it goes with the calls that were made, in the order of ports and calls. One that has failed,
// and has no work any more, does not fail.
func (m *Metrics) Operations() []Operation {
	waits := m.IntakeWaits()
	now := time.Now()
	m.operations.mu.Lock()
	defer m.operations.mu.Unlock()
	all := make([]Operation, 0, len(m.operations.all))
	for _, one := range m.operations.all {
		o := *one
		if o.Failing && now.Sub(o.Tried) >= noWork && (o.Call != "take" || !waits) {
			o.Failing = false
		}
		all = append(all, o)
	}
	slices.SortFunc(all, func(a, b Operation) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Call, b.Call))
	})
	return all
}

// Failing returns the calls of a port that fail, the one that has failed for longest first.
func (m *Metrics) Failing(port node.Port) []Operation {
	failing := slices.DeleteFunc(m.Operations(), func(o Operation) bool { return o.Port != port || !o.Failing })
	slices.SortStableFunc(failing, func(a, b Operation) int { return a.Since.Compare(b.Since) })
	return failing
}

// Unsure reports whether a call of a port fails, or did within the last minute: what a node is given, and does, in an
// outage and just after it is not what it has otherwise.
func (m *Metrics) Unsure(port node.Port) bool {
	now := time.Now()
	return slices.ContainsFunc(m.Operations(), func(o Operation) bool {
		return o.Port == port && (o.Failing || !o.Back.IsZero() && now.Sub(o.Back) < time.Minute)
	})
}

// Answered returns when a call of a port has gone well last; zero for never.
func (m *Metrics) Answered(port node.Port) (last time.Time) {
	for _, o := range m.Operations() {
		if o.Port == port && o.Succeeded.After(last) {
			last = o.Succeeded
		}
	}
	return last
}
