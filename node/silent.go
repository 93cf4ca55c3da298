package node

import (
	"context"
	"errors"
	"time"
)

// silent reports whether a publish that failed with err was not tried, because a partition does not answer. That says
// nothing about the other partitions of its lane.
func silent(err error) bool { return errors.Is(err, ErrUnsent) }

// rounds is how a lane is claimed on while a partition of it is silent. What belongs there is tried, and queues last
// (putLast), so that claims from the oldest on go round. A round that took less than roundFor is followed by a rest until
// that is over, in which the lane is asked for nothing but what fell due lately.
//
//	due before the round began            tried in this round      just fallen due
//	|------------------------------------>|------------------>-----|--------------> due
//	oldest oldest oldest oldest oldest    the round is over        from
//
// So what waits for a silent partition is tried once a second if the store goes through it so fast, and not as fast as
// it can. And in the rest a peer that reaches the partition finds it. The zero value is a lane on which no round has
// begun. Only the claimer uses it.
type rounds struct {
	// tried is when what was tried first in the round falls due anew; the zero time before a round. The round began at
	// the monotonic instant began, and until rests there is a rest.
	tried        time.Time
	began, rests time.Duration
}

// roundFor is how often what belongs to a silent partition is tried, at most.
const roundFor = time.Second

func (r *rounds) resting(now time.Duration) bool { return now < r.rests }

// claimed notes a claim from the oldest on, which began at a monotonic instant, and reports whether a rest follows it.
// What it has claimed would fall due at tried if it were put last, and last is the last of that, nil for none. There may
// be more on the lane, of which some partition is silent, or none.
func (r *rounds) claimed(started time.Duration, tried time.Time, last *Ready, more, silent bool) (rests bool) {
	if r.tried.IsZero() {
		r.tried, r.began = tried, started
	}
	if more && last != nil && last.Due.Before(r.tried) {
		return false
	}
	rests = silent && r.began+roundFor > started
	if rests {
		r.rests = r.began + roundFor
	}
	r.tried = time.Time{}
	return rests
}

// silenced notes that messages of a lane were not tried, since their partitions do not answer.
func (f *firer) silenced(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lane(name).silent = f.clock.Mono()
}

// silently reports whether that was so not long ago. The caller holds mu.
func (f *firer) silently(l *laneLink) bool {
	return l.silent > 0 && f.clock.Mono()-l.silent < f.pace.publish+2*roundFor
}

// lastFor returns how long before they were claimed messages fall due anew whose partition is silent, see putLast.
func (f *firer) lastFor() time.Duration { return 2*lateFor + 2*f.config.PollInterval }

// last returns when a message falls due anew that is to be the last, and was claimed when the clock had lapsed so much.
func (f *firer) last(lapsed time.Time, m *Ready) time.Time {
	if m != nil && m.Claim.ReadiedAt.Before(lapsed) {
		lapsed = m.Claim.ReadiedAt
	}
	return lapsed.Add(-f.lastFor())
}

// putLast gives claims back to the store, behind all that was due when they were claimed, except for what had fallen
// due lately. The next look for that must not find them: it begins a second before the last one (see backlog), and
// they would use up its share each time. A second more is for nodes whose clocks are behind.
//
// If the clock of this node is ahead of that of the store, they go by that one: they would otherwise be due here before
// they are elsewhere, and a peer that reaches the partition would never come by them.
func (p *publisher) putLast(ctx context.Context, held []*holding) {
	ago, now := p.lapsed(), p.clock.Mono()
	releases := make([]Release, len(held))
	for i, h := range held {
		due := noSooner(&h.Message, p.last(ago.Add(h.since-now), &h.Ready))
		releases[i] = Release{Claim: h.Claim, Due: due, Unsent: true}
	}
	p.reset(ctx, releases)
}
