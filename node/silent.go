package node

import (
	"context"
	"encoding/binary"
	"errors"
	"time"
)

// silent reports whether a publish that failed with err was not tried, because a partition does not answer. That says
// nothing about the other partitions of its lane.
func silent(err error) bool { return errors.Is(err, ErrUnsent) }

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
type rounds struct {
	// cursor is when the last message fell due that the round has claimed; the zero time before it has claimed any. It
	// began at the monotonic instant began, and until rests there is a rest.
	cursor       time.Time
	began, rests time.Duration
}

// roundFor is how often what belongs to a silent partition is tried, at most.
const roundFor = time.Second

func (r *rounds) resting(now time.Duration) bool { return now < r.rests }

// claimed notes a claim that is part of a round, and began at a monotonic instant, and reports whether a rest follows
// it. It has claimed messages of which the last one fell due at due, or none, and there may be more.
func (r *rounds) claimed(started time.Duration, due time.Time, more bool) (rests bool) {
	if r.cursor.IsZero() {
		r.began = started
	}
	if more {
		r.cursor = due
		return false
	}
	r.cursor, r.rests = time.Time{}, r.began+roundFor
	return r.resting(started)
}

// silenced notes that messages of a lane were not tried, since their partitions do not answer.
func (f *firer) silenced(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lane(name).silent = f.clock.Mono()
}

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
// others to find, and those that are overdue for long to their place.
func (p *publisher) putInPlace(ctx context.Context, held []*holding, longOverdue time.Time) {
	releases := make([]Release, len(held))
	for i, h := range held {
		releases[i] = Release{Claim: h.Claim, Unsent: true}
		if due := place(&h.Message); h.Deadline.Before(longOverdue) && !due.Equal(h.Due) {
			releases[i].Due = due
		}
	}
	p.reset(ctx, releases)
}
