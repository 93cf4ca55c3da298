package node

import "time"

// backlog is how the claims on a lane are shared while more is overdue there than they get: half of them are for what
// falls due meanwhile, so that nobody who has just sent something waits for an hour's worth of others, and half for
// what is there longest, so that this comes to an end whatever comes meanwhile.
//
//	    half of the claims                                    the other half
//	    |                                                     |
//	----+-----------------------------------------------------+-----------+------> due
//	    oldest oldest oldest                                  from        until
//
// Once in each poll interval the lane is asked first for what fell due lately: since a second before the look of the
// interval before, since a message may be stored that late. It is asked so again, after a claim from the oldest on, as
// long as there is more of that. What is left of it when the interval ends belongs to the backlog: where all of a
// backlog fell due at one instant, that is in the way of nobody for long.
//
// The first such look comes a poll interval after the backlog has begun, so that a lane that has none for so long is
// claimed on as ever. The zero value is a lane without a backlog. Only the claimer uses it.
type backlog struct {
	there bool // the last claim from the oldest on has left something
	owed  int  // how many messages more were claimed of what fell due lately than from the oldest on since
	more  bool // the last look at what fell due lately has left something

	// looked is what the clock said, with the timing advance, at the first look of the last interval, and begin where
	// that look began; the next interval begins at the monotonic instant next.
	looked, begin time.Time
	next          time.Duration

	rounds rounds

	// missed is when an occurrence was due that a round has left behind: the next look at what fell due lately begins
	// there; the zero time for none.
	missed time.Time
}

// lateFor is how late a message may be stored and still count as one that falls due now.
const lateFor = time.Second

// from returns the instant from which on to claim now (monotonic), the zero time for all there is, and whether that is
// for what fell due lately. After the wall clock was set back, one look finds nothing.
func (b *backlog) from(now time.Duration) (from time.Time, lately bool) {
	resting := b.rounds.resting(now)
	switch {
	case !b.missed.IsZero() && now >= b.next:
		from, b.missed = b.missed, time.Time{}
		return from, true
	case !resting && (!b.there || b.owed > 0):
		return b.rounds.cursor, false
	case now >= b.next:
		return b.looked.Add(-lateFor).Truncate(time.Microsecond), true
	case b.more || resting:
		return b.begin, true
	default:
		return b.rounds.cursor, false
	}
}

// oldest notes a claim of n messages from the oldest on, which began at a monotonic instant and what the wall clock had
// lapsed, and whether it has left something that may be shared.
func (b *backlog) oldest(n int, started time.Duration, lapsed time.Time, interval time.Duration, more bool) {
	rounds, missed := b.rounds, b.missed
	switch {
	case !more:
		*b = backlog{}
	case !b.there:
		*b = backlog{there: true, looked: lapsed, next: started + interval}
	default:
		b.owed = max(0, b.owed-n)
	}
	b.rounds, b.missed = rounds, missed
}

// rest notes that all was gone through by a claim that began at a monotonic instant and what the wall clock had lapsed,
// so that for a while only what falls due lately is asked for.
func (b *backlog) rest(started time.Duration, lapsed time.Time, interval time.Duration) {
	b.looked, b.next = lapsed, started+interval
	b.begin, b.more = lapsed.Add(-lateFor).Truncate(time.Microsecond), false
}

// lately notes a claim of n messages that fell due from an instant on, and whether it may have left something of these.
func (b *backlog) lately(n int, started time.Duration, lapsed, from time.Time, interval time.Duration, more bool) {
	if started >= b.next {
		b.looked, b.begin, b.next = lapsed, from, started+interval
	}
	if b.more = more; !b.rounds.resting(started) { // in a rest it is owed to nobody
		b.owed += n
	}
}

// shared reports whether there was a claim of what fell due lately since the backlog began.
func (b *backlog) shared() bool { return b.there && !b.begin.IsZero() }

// recurred has the next look at what fell due lately begin with an occurrence that was due before that.
func (b *backlog) recurred(at time.Time) {
	if from := b.looked.Add(-lateFor); at.Before(from) && (b.missed.IsZero() || at.Before(b.missed)) {
		b.missed = at
	}
}

// sharable reports whether the claims on a lane may be shared. What comes must not jump what waits for its place in a
// pace, nor what it stands behind in its line.
//
// Where a partition is silent, a pace is no reason: what waits for that partition would be all of each claim, which the
// pace makes small.
func (f *firer) sharable(lane string, silent bool) bool {
	return (silent || f.config.PaceOf(lane) == 0) && (!IsCallback(lane) || !f.config.Callbacks.lane(lane).Ordered)
}
