package metrics

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"chronos/node"
)

// pace is how long calls have taken since somebody asked last.
type pace struct {
	mu  sync.Mutex
	all map[paceKey]paceSum
}

type paceKey struct {
	port node.Port
	call string
}

type paceSum struct {
	calls int
	total time.Duration
}

func (p *pace) note(port node.Port, call string, took time.Duration) {
	if call == "poll" {
		return // it waits for records
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[paceKey]paceSum{}
	}
	key := paceKey{port, call}
	p.all[key] = paceSum{p.all[key].calls + 1, p.all[key].total + took}
}

// Pace is how long one call of a port has taken of late.
type Pace struct {
	Port  node.Port
	Call  string
	Calls int
	Mean  time.Duration
}

// Pace returns how long calls have taken since it was asked last, those first that were the slowest.
func (m *Metrics) Pace() []Pace {
	m.pace.mu.Lock()
	all := m.pace.all
	m.pace.all = nil
	m.pace.mu.Unlock()
	list := make([]Pace, 0, len(all))
	for key, sum := range all {
		list = append(list, Pace{key.port, key.call, sum.calls, sum.total / time.Duration(sum.calls)})
	}
	slices.SortFunc(list, func(a, b Pace) int {
		return cmp.Or(cmp.Compare(b.Mean, a.Mean), cmp.Compare(a.Call, b.Call))
	})
	return list
}
