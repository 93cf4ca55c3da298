package callback

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"chronos/node"
)

const (
	// patience is how long a host may end no request before those that wait for their turn are put off.
	patience = 250 * time.Millisecond

	// MaxWait is how long a request waits for its turn at most.
	MaxWait = time.Second

	// A host that stands back is asked once after probeMin, and after twice as long each time, up to probeMax. The
	// engine parks what is for it, and tries some of that each 4 s at the soonest: one of these is to be sent.
	probeMin, probeMax = time.Second, 3500 * time.Millisecond

	// longestWait is how long messages for a host that stands back are put off, at most twice as long.
	longestWait = 3 * time.Minute

	// manyHosts is how many hosts may be known before those are forgotten that nobody has asked for in a while: every
	// sweepEvery, since whoever submits chooses how many hosts there are, and each request would go through all of
	// them.
	manyHosts  = 1000
	sweepEvery = 30 * time.Second

	// mostHosts is how many hosts that stand back are known at most. What others do is forgotten when nobody asks for
	// them any more: each message for one of them is tried.
	mostHosts = 10_000

	// There may be any number of hosts that hang, and each request to one of them takes as long as a request may. So
	// one in spare callers of a lane, at most, asks whether a host that stands back is back. And when as many requests
	// of the lane as these have had no answer within lately, as many callers are kept for hosts that have given one.
	spare  = 4
	lately = time.Minute
)

// place is a host as one lane sees it: what goes wrong on a lane is nothing that another lane is to suffer from.
type place struct{ lane, host string }

// hosts are the hosts that are being talked to.
type hosts struct {
	mu    sync.Mutex
	all   map[place]*host
	swept time.Time
	lanes map[string]*load
}

// load is how many requests of a lane are under way, how many of them are probes, and when the last ones have ended
// that had no answer, as many as spare callers.
type load struct {
	running, probes int
	unanswered      []time.Time
}

// host is what is known of one host.
type host struct {
	running int
	waiting []*turn

	moved    time.Time // when a request has ended last, or has begun while there was no other
	answered time.Time // when something has come last: an answer, or the end of the connection
	good     time.Time // when an answer has come last, whatever it said

	// silent is how many probes in a row have had no answer; not 0 while the host stands back. The next probe is sent
	// at probe, and probing says that one is under way.
	silent  int
	since   time.Time // it stands back
	probe   time.Time
	probing bool
}

// turn is a request that waits: it is closed when its turn has come, or when there will be none.
type turn struct {
	come  chan struct{}
	visit *visit // nil if there will be none
}

// visit is one request to a host that may be made.
type visit struct {
	hosts *hosts
	place place
	began time.Time
	probe bool
	load  *load // of its lane
}

// enter waits for a request's turn, or says why it will not come soon; where that is because the host stands back, also
// for how long it has.
func (h *hosts) enter(at place, l *lane, overdue time.Duration) (*visit, time.Duration, *node.PublishError) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, now, limit := h.get(at), time.Now(), l.PerHost
	on := h.load(at.lane)
	full := on.troubled(l, now) && on.running >= l.callers()-l.spare() && now.Sub(one.good) > lately
	if one.silent > 0 {
		if one.probing || now.Before(one.probe) || full || on.probes >= l.spare() {
			return nil, now.Sub(one.since), one.standsBack(at, now, overdue)
		}
		one.probing = true
		return h.begin(one, at, true), 0, nil
	}
	if full {
		h.forget(one, at)
		return nil, 0, unsent("too many requests of the lane are under way to hosts that do not answer")
	}
	if one.running < limit {
		if one.running == 0 {
			one.moved = now
		}
		return h.begin(one, at, false), 0, nil
	}
	wait := &turn{come: make(chan struct{})}
	one.waiting = append(one.waiting, wait)
	for until := now.Add(MaxWait); ; now = time.Now() {
		left := min(one.moved.Add(patience).Sub(now), until.Sub(now))
		if left <= 0 {
			one.waiting = slices.DeleteFunc(one.waiting, func(t *turn) bool { return t == wait })
			return nil, 0, unsent("%d requests to %s are under way already", limit, at.host)
		}
		h.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-wait.come:
		case <-timer.C:
		}
		timer.Stop()
		h.mu.Lock()
		select {
		case <-wait.come:
			if wait.visit == nil {
				now := time.Now()
				return nil, now.Sub(one.since), one.standsBack(at, now, overdue)
			}
			return wait.visit, 0, nil
		default:
		}
	}
}

// begin notes that a request is under way. The caller holds mu.
func (h *hosts) begin(one *host, at place, probe bool) *visit {
	on := h.load(at.lane)
	on.running++
	if probe {
		on.probes++
	}
	one.running++
	return &visit{h, at, time.Now(), probe, on}
}

// ended notes that one is not any more. The caller holds mu.
func (v *visit) ended(one *host) {
	v.load.running--
	if v.probe {
		one.probing = false
		v.load.probes--
	}
	one.running--
}

// load returns that of a lane. The caller holds mu.
func (h *hosts) load(lane string) *load {
	if h.lanes == nil {
		h.lanes = map[string]*load{}
	}
	on := h.lanes[lane]
	if on == nil {
		on = &load{}
		h.lanes[lane] = on
	}
	return on
}

// troubled reports whether many requests of a lane have had no answer lately.
func (o *load) troubled(l *lane, now time.Time) bool {
	return len(o.unanswered) >= l.spare() && now.Sub(o.unanswered[len(o.unanswered)-l.spare()]) < lately
}

// missed notes that a request had no answer.
func (o *load) missed(now time.Time) {
	if o.unanswered = append(o.unanswered, now); len(o.unanswered) > node.MaxConcurrency/spare {
		o.unanswered = o.unanswered[1:]
	}
}

// forget forgets a host of which nothing is to be known. The caller holds mu.
func (h *hosts) forget(one *host, at place) {
	nothing := one.silent == 0 && one.good.IsZero()
	if one.idle() && (nothing || len(h.all) > mostHosts) {
		delete(h.all, at)
	}
}

// get returns what is known of a host. The caller holds mu.
func (h *hosts) get(at place) *host {
	if one := h.all[at]; one != nil {
		return one
	}
	if now := time.Now(); len(h.all) >= manyHosts && now.Sub(h.swept) >= sweepEvery {
		h.swept = now
		for at, one := range h.all {
			if one.idle() && one.probe.Before(now.Add(-2*sweepEvery)) && one.good.Before(now.Add(-lately)) {
				delete(h.all, at)
			}
		}
		maps.DeleteFunc(h.lanes, func(_ string, on *load) bool { return on.running == 0 })
	}
	if h.all == nil {
		h.all = map[place]*host{}
	}
	one := &host{}
	h.all[at] = one
	return one
}

// idle reports whether nobody talks to a host, or waits for it.
func (h *host) idle() bool { return h.running == 0 && len(h.waiting) == 0 }

// standsBack says that nothing is sent to a host for now. The messages come back when it has been asked once more, and
// not all at the same instant; the longer they are overdue, the later: each of them is a claim for nothing.
func (h *host) standsBack(at place, now time.Time, overdue time.Duration) *node.PublishError {
	wait := max(h.probe.Sub(now), probeMin, min(overdue/4, longestWait))
	return &node.PublishError{Kind: node.PartUnavailable, Part: at.host, After: wait + rand.N(wait)}
}

// unsent says why a message was not tried.
func unsent(format string, arguments ...any) *node.PublishError {
	return &node.PublishError{Kind: node.NotSent, Err: fmt.Errorf("not sent: "+format, arguments...)}
}

// leave ends a visit. Unanswered says that there was no connection, or no answer within the time limit, and good that
// there was an answer, whatever it said: a connection that was lost is neither. A host that has
// answered another request meanwhile is slow with some, and does not hang. It returns whether the host stands back, and
// for how long it has.
func (v *visit) leave(unanswered, good bool) (away time.Duration, standsBack bool) {
	h := v.hosts
	h.mu.Lock()
	defer h.mu.Unlock()
	one, now := h.all[v.place], time.Now()
	v.ended(one)
	one.moved = now
	if unanswered {
		v.load.missed(now)
	}
	if good {
		one.good = now
	}
	switch {
	case !unanswered:
		one.answered, one.silent = now, 0
	case v.probe || one.silent == 0 && one.answered.Before(v.began):
		if one.silent++; one.silent == 1 {
			one.since, one.good = now, time.Time{}
		}
		one.probe = now.Add(min(probeMax, probeMin<<min(one.silent-1, 5)))
	}
	if standsBack = one.silent > 0; standsBack {
		away = now.Sub(one.since)
	}
	h.next(one, v.place)
	return away, standsBack
}

// pass ends a visit that was not made: nothing is learned of the host.
func (v *visit) pass() {
	v.hosts.mu.Lock()
	defer v.hosts.mu.Unlock()
	one := v.hosts.all[v.place]
	v.ended(one)
	v.hosts.next(one, v.place)
}

// next gives a turn that is free to the first that waits for it; all are told if the host stands back. The caller holds
// mu.
func (h *hosts) next(one *host, at place) {
	for len(one.waiting) > 0 {
		next := one.waiting[0]
		one.waiting = one.waiting[1:]
		if one.silent == 0 {
			next.visit = h.begin(one, at, false)
		}
		close(next.come)
		if next.visit != nil {
			break
		}
	}
	h.forget(one, at)
}
