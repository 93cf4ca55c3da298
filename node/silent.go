package node

import (
	"context"
	"encoding/binary"
	"math"
	"time"
)

// rounds is how a lane is claimed on while a partition of it is silent. What belongs there is tried, and given back to
// where it was (putInPlace). So claims from the oldest on go on behind what they have claimed before, and not with the
// oldest again, until nothing is left: that is a round. One that took less than roundFor is followed by a rest until
// that is over, in which the lane is asked for nothing but what fell due lately.
//
//	claimed before in this round        |cursor                     |from       until
//	------------------------------------+---------------------------+-----------+------> due
//
// So what waits for a silent partition is tried once a second if the store goes through it so fast, and not as fast as
// it can; and as it stays where it was, whatever the clocks say, any peer finds it that reaches the partition. The zero
// value is a lane on which no round has begun. Only the claimer uses it.
//
// What lies between the last of these messages and now has fired, and while somebody holds a snapshot of the store for
// long, a claim wades through all of it: after an hour at 1,000 messages/s that takes longer than a call may. So once a
// claim takes long, the next ones go through a part of the time each (Share.Until), as wide as they get through it, and
// each is followed by a rest as long as it took.
type rounds struct {
	// cursor is up to when the round has claimed what fell due; the zero time before it has claimed any. It began at
	// the monotonic instant began, and until rests there is a rest.
	cursor       time.Time
	began, rests time.Duration

	// first is when the first message fell due that the last round has claimed, and width how much time a claim goes
	// through from there, or from the cursor on; 0 for all there is.
	first time.Time
	width time.Duration

	// quick is how long the last claim for what fell due lately took: so long takes one that wades through nothing,
	// where the store is far or busy, and a narrower one is no quicker.
	quick time.Duration
}

// roundFor is how often what belongs to a silent partition is tried, at most.
const roundFor = time.Second

func (r *rounds) resting(now time.Duration) bool { return now < r.rests }

// until returns up to when the next claim of a round goes that could go up to latest; the zero time for that.
func (r *rounds) until(latest time.Time) time.Time {
	if from := r.begins(); r.width > 0 && !from.IsZero() && latest.Sub(from) > r.width {
		return from.Add(r.width)
	}
	return time.Time{}
}

// begins returns where the next claim begins, as far as that is known; the zero time if it is not.
func (r *rounds) begins() time.Time {
	if r.cursor.IsZero() {
		return r.first
	}
	return r.cursor
}

// took notes how long a claim of a round took, which ended at a monotonic instant; what it may take at most; where it
// was to end, and whether it could go no further (whole) and has come so far (through).
func (r *rounds) took(took, most, ended time.Duration, until time.Time, whole, through bool) {
	from, waded := r.begins(), took-r.quick
	switch {
	case from.IsZero(), through && waded <= most/4 && r.cursor.IsZero() && whole:
		r.width = 0 // nothing is known of where what waits begins, or there is little to go through
	case !through || waded > most/4:
		r.width = max(lateFor, until.Sub(from)/2)
	case waded < most/8 && r.width > 0:
		r.width = min(2*r.width, math.MaxInt64/4)
	}
	if !through || waded > most/16 {
		r.rests = ended + took
	}
}

// claimed notes a claim that is part of a round, and began at a monotonic instant, and reports whether the round is
// over. The first message that it has claimed is first, nil for none, and it has come as far as to: there may be more
// from there on, if that is not zero.
func (r *rounds) claimed(started time.Duration, first *Ready, to time.Time) (over bool) {
	if r.cursor.IsZero() {
		r.began, r.first = started, time.Time{}
		if first != nil {
			r.first = first.Due
		}
	}
	if r.cursor = to; !to.IsZero() {
		return false
	}
	r.rests = max(r.rests, r.began+roundFor)
	return true
}

// wentRound notes a claim of a round on a lane, for which it had a share, that began at a monotonic instant and what
// the wall clock had lapsed. It was full, or has come up to where the share ends, and has claimed messages from the
// first to the last, or none. One that was full of what cannot be read says nothing: the next one begins where it did,
// and does not find that again. The caller holds mu.
func (f *firer) wentRound(
	l *laneLink, share Share, started time.Duration, lapsed time.Time, full bool, first, last *Ready,
) {
	if full && last == nil {
		return
	}
	b := &l.backlog
	to := share.Until
	if !full {
		f.wentThrough(l, share, started, lapsed, true)
	} else if to = last.Due; to.Equal(share.From) && to.Equal(place(&last.Message)) {
		to = to.Add(time.Microsecond) // or a claim for one message would find the same one each time, back in its place
	}
	if !share.Until.IsZero() {
		b.owed = 0 // it has gone through a part, however little was there
	}
	if b.rounds.claimed(started, first, to) && b.rounds.resting(f.clock.Mono()) {
		b.rest(started, lapsed, f.config.PollInterval)
	}
}

// wentThrough notes how long a claim of a round took that was to go up to where its share ends, and whether it has. The
// caller holds mu.
func (f *firer) wentThrough(l *laneLink, share Share, started time.Duration, lapsed time.Time, through bool) {
	b, now := &l.backlog, f.clock.Mono()
	until := share.Latest(lapsed.Add(f.config.Lookahead))
	b.rounds.took(now-started, f.config.StoreTimeout(), now, until, share.Until.IsZero(), through)
	if b.rounds.resting(now) && b.begin.IsZero() {
		b.rest(started, lapsed, f.config.PollInterval)
	}
}

// unclaimed notes that a claim failed which began at a monotonic instant and what the wall clock had lapsed. One that
// ran into its time limit may have had too much to go through. Then the next one is for what fell due lately, also
// where nobody knows of a silent partition yet.
func (f *firer) unclaimed(started time.Duration, lapsed time.Time, request ClaimRequest) {
	if f.clock.Mono()-started < f.config.StoreTimeout()*3/4 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, share := range request.Lanes {
		l := f.lane(share.Lane)
		switch b := &l.backlog; {
		case l.look != fromOldest: // they take turns
			b.again = 0
			b.vain(l.look)
			b.owes(0, started)
		case f.goesRound(l):
			f.wentThrough(l, share, started, lapsed, false)
		case f.sharable(share.Lane, false):
			b.failed(started, f.clock.Mono(), lapsed)
		}
	}
}

// silenced notes that messages of a lane were not tried, since their partitions do not answer.
func (f *firer) silenced(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lane(name).silent = f.clock.Mono()
}

// goesRound reports whether the claims on a lane go round, since a partition of it was silent not long ago, or was when
// it was tried last and there is much to go through. Where claims run into their time limit, those that come through
// may be further apart than isSilent looks back: each of them would be the first one of a round. The caller holds mu.
func (f *firer) goesRound(l *laneLink) bool {
	return f.silently(l, restFor) || l.backlog.rounds.width > 0
}

// isSilent reports whether a partition of the lane is silent, as far as what waits for its place in a pace is
// concerned: it is to have it again soon when the partition answers. The caller holds mu.
func (f *firer) isSilent(l *laneLink) bool { return f.silently(l, f.pace.publish+2*roundFor) }

// silently reports whether that was so within a while. The caller holds mu.
func (f *firer) silently(l *laneLink, within time.Duration) bool {
	return l.silent > 0 && f.clock.Mono()-l.silent < within
}

// longOverdue returns the instant before which the deadlines are of messages that no look for what fell due lately
// finds any more, in whichever place they are (place): such a look begins lateFor before the last one.
func (f *firer) longOverdue() time.Time { return f.lapsed().Add(-2*lateFor - 2*f.config.PollInterval) }

// place returns when a message is to be due that waits for a silent partition: at its deadline, or up to a second
// later. All that fell due at one instant would be at one place otherwise, and a round could not go on behind a part of
// it. It depends on the message alone, so that what was tried once is where it was.
func place(m *Message) time.Time {
	at := binary.BigEndian.Uint32(m.Incarnation[:4]) % uint32(lateFor/time.Microsecond)
	return m.Deadline.Add(time.Duration(at) * time.Microsecond)
}

// putInPlace gives claims of messages back to the store that wait for silent partitions: to where they are, for all
// others to find, and those that are overdue for long to their place, also if they are there. A store that looks from a
// mark on (node/store/postgres/marks) is told so where the next round has to begin.
func (p *publisher) putInPlace(ctx context.Context, held []*holding, longOverdue time.Time) {
	releases := make([]Release, len(held))
	for i, h := range held {
		releases[i] = Release{Claim: h.Claim, Unsent: true}
		if h.Deadline.Before(longOverdue) {
			releases[i].Due = place(&h.Message)
		}
	}
	p.reset(ctx, releases)
}
