package check

import (
	"cmp"
	"slices"
	"time"
)

// request is a callback that a process has begun.
type request struct {
	by    *process
	lane  string
	comes time.Duration // when its turn comes: at the deadline of the message, or when that was claimed later
	begun time.Duration
	fired time.Duration // when the receiver has done first what was asked; 0 for not yet
	ended time.Duration // when the process had the answer, or gave it up; 0 for not yet, as far as known
}

// calls notes that a publish begins, if it is a callback. What has ended a hold time ago is of no use to anybody: no
// claim of then can still be published.
func (p *process) calls(i *incarnation, e *Event, hold time.Duration) {
	if !isCallback(e.Topic) {
		return
	}
	i.last = &request{by: p, lane: e.Topic, comes: max(i.comes, i.held), begun: e.At}
	for len(p.requests) > 0 && p.requests[0].ended > 0 && p.requests[0].ended < e.At-hold {
		p.requests = p.requests[1:]
	}
	p.requests = append(p.requests, i.last)
}

// reached takes note of a record that appears: a receiver has done what it was asked for.
func (s *state) reached(e *Event) {
	i := s.incarnations[e.Incarnation]
	if i != nil && i.last != nil && i.last.lane == e.Topic && i.last.fired == 0 {
		i.last.fired = e.At
	}
}

// end notes that the process knows what has become of a request, if there is one and it did not know.
func (r *request) end(at time.Duration) {
	if r != nil && r.ended == 0 {
		r.ended = at
	}
}

// answered notes that its message was settled: so there was an answer, and that had come when a call usually has one.
// A receiver that does what it is asked, and does not say so, has its request end without a known outcome.
func (r *request) answered(usual time.Duration) {
	if r != nil && r.fired > 0 {
		r.end(r.fired + usual)
	}
}

// full reports whether some process makes as many callbacks of a lane at an instant as it makes at the same time.
func (s *state) full(lane string, at time.Duration) bool {
	if s.config.LaneCalls == 0 || !isCallback(lane) {
		return false
	}
	for _, name := range s.processNames() {
		of := 0
		for _, r := range s.processes[name].requests {
			of += count(r.lane == lane && r.begun <= at && (r.ended == 0 || r.ended > at))
		}
		if of >= s.config.LaneCalls {
			return true
		}
	}
	return false
}

// occupied returns for how long a callback could not be made, from an instant until it was begun: the process that had
// the claim on it made as many others as it makes at the same time, of its lane or of all. It ends where that process
// begins one of the lane whose turn comes later than that of this one: there was room for this one by then.
//
//	64 requests of the lane hang
//	          x falls due
//	                    one of the requests ends, and that of y begins     y's turn is later: x was passed over
//	                    or that of x begins                                x was not late before that
func (s *state) occupied(sub *submission, i *incarnation, from time.Duration) time.Duration {
	c := &s.config
	if min(c.Calls, c.LaneCalls) == 0 || i == nil || i.last == nil || !s.recorded[Publish] || !s.recorded[Unknown] ||
		!s.recorded[Fail] || !s.recorded[Delete] {
		return 0
	}
	p, to := i.last.by, i.last.begun
	from = max(from, i.held)
	type change struct {
		at      time.Duration
		of, all int
	}
	var changes []change
	for _, r := range p.requests {
		if r == i.last || r.begun >= to || r.ended > 0 && r.ended <= from {
			continue
		}
		of := count(r.lane == sub.key.topic)
		if of > 0 && r.begun > from && r.comes > i.last.comes {
			to = r.begun // they come in the order in which they were begun
			break
		}
		changes = append(changes, change{max(r.begun, from), of, 1})
		if r.ended > 0 {
			changes = append(changes, change{r.ended, -of, -1})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	total, since, of, all := time.Duration(0), from, 0, 0
	for _, next := range append(changes, change{at: to}) {
		at := min(next.at, to)
		if of >= c.LaneCalls || all >= c.Calls {
			total += at - since
		}
		since, of, all = at, of+next.of, all+next.all
	}
	return total
}
