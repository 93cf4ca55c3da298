package node

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// A message whose part of the lane does not answer is parked there (Part): it is given back to the store under the name
// of the part, where no claim on the lane finds it. For each such part a node has a circuit breaker of the usual kind:
//
//	open       The part does not answer. Each probeMin to probeMax a few of its messages are claimed and published,
//	           in a batch that nothing of a lane that works shares with them.
//	half-open  The part was found in the store. It is probed at once.
//	closed     Something came through. The part has a share of each claim, as a lane has, until nothing waits there.
//
// A part is a lane of its own to the claimer and to the schedule, so that it has no mechanism beside theirs: a lane in
// doubt is probed, too. It shares the window and the pace of its lane.
//
//	waits on the lane --claim, publish: does not answer--> parked on part 3
//	                                                       |  probe by a node that does not reach it: parked as before
//	                                                       |  probe by a node that does: comes out; then all of them
//
// Nobody moves a message back to its lane. Where it belongs by now the sink finds out anew each time that it is
// published: if that is another part which does not answer, it is parked there.
const (
	// probeMin is the time between the first two probes of a part. It doubles with each one, up to probeMax, give or
	// take a fifth.
	probeMin, probeMax = time.Second, 5 * time.Second

	// probeSize is how many messages a probe has at most, and probeBytes how many bytes: the message that reaches the
	// bound is the last.
	probeSize, probeBytes = 10, 64 << 10

	// mostProbes is how many parts are probed by one claim.
	mostProbes = 64

	// mostParts is how many parts a node parks messages on at the same time: applications may make up hosts. Beyond
	// that a message that belongs to a part which does not answer is put off by itself.
	mostParts = 1000
)

// probes reports whether claims on the link are probes: it is of a part through which nothing has come.
func (l *laneLink) probes() bool { return l.part != "" && !l.works }

// probeWait returns how long to wait after a probe that is made now.
func (l *laneLink) probeWait() time.Duration {
	const doublings = 3 // beyond which it is probeMax anyway
	return jittered(l.random, min(probeMax, probeMin<<min(l.attempts, doublings)), 20)
}

// longest returns up to when a part was to be probed to be among the mostProbes that have waited longest. With more of
// them than can be probed in one look, the turn among the lanes would come to the same ones each time. The caller holds
// mu.
func (f *firer) longest(now time.Duration) time.Duration {
	var since []time.Duration
	for _, l := range f.lanes {
		if !l.probes() || now < l.retry {
			continue
		}
		free, size := f.schedule.room(l.where())
		if free > 0 && size > 0 && f.schedule.claimable(l.lane, f.config.Lookahead) {
			since = append(since, l.retry)
		}
	}
	if len(since) <= mostProbes {
		return now
	}
	slices.Sort(since)
	return since[mostProbes-1]
}

// partFails notes that a part does not answer, as a probe of it has shown, or a message that was not parked. It reports
// whether messages can be parked there. What else is not parked says nothing new of a part that is open.
func (f *firer) partFails(at Part, probe bool) bool {
	if len(at.Name) > MaxPartName || at.Name == "" || !utf8.ValidString(at.Name) || strings.Contains(at.Name, "\x00") ||
		!f.schedule.findPart(at, f.clock.Mono()) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lane(at)
	if probe || l.works || l.attempts == 0 {
		l.retry = max(l.retry, f.clock.Mono()+l.probeWait())
		l.attempts++
		l.works, l.backlogged = false, false
		f.schedule.doubt(at, true)
	}
	return true
}

// partWorks notes that something came through on a part. What is parked there is claimed at once.
func (f *firer) partWorks(at Part) {
	f.mu.Lock()
	l := f.lane(at)
	worked := l.works
	l.attempts, l.retry, l.works = 0, 0, true
	f.schedule.doubt(at, false)
	l.backlogged = l.backlogged || !worked
	f.mu.Unlock()
	if !worked {
		f.bell.Ring()
	}
}

// partUnsent notes that nothing was sent of what was tried on a part, for want of time or of a connection. That says
// nothing of the part, but what is given back as it is would be claimed again at once, and as often as the store can.
func (f *firer) partUnsent(at Part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lane(at)
	l.retry = max(l.retry, f.clock.Mono()+l.probeWait())
}

// probeAll has the parts of a lane that has failed, and works again, probed at the next look. The caller holds mu.
func (f *firer) probeAll(lane string) {
	for _, l := range f.lanes {
		if l.lane == lane && l.probes() {
			l.retry = min(l.retry, f.clock.Mono())
		}
	}
}

// probeBehind has parts probed again at once of which a probe has found messages whose time has passed, or which were
// given up: thousands of these would be ended by a few at each probe.
func (f *firer) probeBehind(ended []*holding) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range ended {
		if l := f.lane(h.Where()); l.probes() {
			l.retry = min(l.retry, f.clock.Mono())
		}
	}
}

// park gives claims back on messages whose parts do not answer: they are parked there. It returns those that cannot be,
// see mostParts.
func (p *publisher) park(ctx context.Context, failed []failure) (left []failure) {
	releases := make([]Release, 0, len(failed))
	parks := map[Part]bool{}
	for _, f := range failed {
		at := f.part()
		can, known := parks[at]
		if !known {
			can = p.partFails(at, at == f.Where())
			parks[at] = can
		}
		if f.Part != "" && at != f.Where() {
			p.partWorks(f.Where()) // it has lost its meaning: whatever is parked there belongs elsewhere
		}
		if !can {
			left = append(left, f)
			continue
		}
		releases = append(releases, Release{Claim: f.Claim, Part: at.Name, Unsent: f.unsent()})
	}
	if len(releases) > 0 {
		p.reset(ctx, releases)
	}
	return left
}
