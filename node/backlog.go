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
// backlog fell due at one instant, that is in the way of nobody for long. Each such look, if it finds nothing, too, is
// followed by a claim from the oldest on: where a claim takes longer than the interval, the next look is due already.
//
// The first such look comes a poll interval after the backlog has begun, so that a lane that has none for so long is
// claimed on as ever. The zero value is a lane without a backlog. Only the claimer uses it.
type backlog struct {
	there bool // the last claim from the oldest on has left something
	owed  int  // how many messages are to be claimed from the oldest on before the next look at what fell due lately
	more  bool // the last look at what fell due lately has left something

	// again is up to when none follows a claim from the oldest on that has failed while something is left of what fell
	// due lately: such a claim has its half of the time, and so have the others.
	again time.Duration

	// looked is what the clock said, with the timing advance, at the first look of the last interval, and begin where
	// that look began; the next interval begins at the monotonic instant next.
	looked, begin time.Time
	next          time.Duration

	// seen is what the clock said, with the timing advance, at the last claim that has left nothing of what had fallen
	// due; the zero time for none.
	seen time.Time
}

// look says what a claim is for.
type look int

const (
	fromOldest look = iota
	forLate         // what fell due lately
)

const (
	// lateFor is how late a message may be stored and still count as one that falls due now.
	lateFor = time.Second

	// gapFor is the longest that a lane is not claimed on while claims on others take as long as they may.
	gapFor = 5 * time.Second
)

// ask returns what to claim for now (monotonic): from which instant on and until which one, at latest; the zero times
// for all there is. After the wall clock was set back, one look finds nothing.
func (b *backlog) ask(now time.Duration) (l look, from time.Time) {
	switch {
	case !b.there || b.owed > 0:
	case now >= b.next:
		return forLate, b.looked.Add(-lateFor).Truncate(time.Microsecond)
	case b.more:
		return forLate, b.begin
	}
	return fromOldest, time.Time{}
}

// oldest notes a claim of n messages from the oldest on, which began at a monotonic instant and what the wall clock had
// lapsed, and whether it has left something that may be shared.
func (b *backlog) oldest(n int, started time.Duration, lapsed time.Time, interval time.Duration, more bool) {
	switch {
	case !more:
		*b = backlog{seen: lapsed}
	case !b.there:
		*b = backlog{there: true, looked: b.since(lapsed), next: started + interval, seen: b.seen}
	default:
		b.owed = max(0, b.owed-n)
	}
}

// failed notes that a claim from the oldest on failed, which began and ended at monotonic instants and what the wall
// clock had lapsed: something is there, for all that is known, and the next look is for what fell due lately.
func (b *backlog) failed(started, ended time.Duration, lapsed time.Time) {
	if b.begin.IsZero() {
		b.looked = b.since(lapsed)
		b.begin = b.looked.Add(-lateFor).Truncate(time.Microsecond)
	}
	b.there, b.owed, b.next, b.again = true, 0, started, ended+(ended-started)
}

// since returns from when on nothing has been looked for, at an instant at which looks for what fell due lately begin:
// since the last claim on the lane. That may be a while ago, where claims on other lanes take long, and what fell due
// in between would be in no look. It is no more than gapFor, or else the looks would be for all that was overdue when
// the lane was resumed, say.
func (b *backlog) since(lapsed time.Time) time.Time {
	last := b.seen
	if last.Before(b.looked) {
		last = b.looked
	}
	if last.After(lapsed) || last.Before(lapsed.Add(-gapFor)) {
		return lapsed
	}
	return last
}

// lately notes a claim of n messages that fell due from an instant on, and whether it may have left something of these.
func (b *backlog) lately(n int, started time.Duration, lapsed, from time.Time, interval time.Duration, more bool) {
	if started >= b.next {
		b.looked, b.begin, b.next = lapsed, from, started+interval
	}
	b.more = more
	if !more || started >= b.again {
		b.again = 0
		b.owed += max(1, n)
	}
}

// shared reports whether there was a claim of what fell due lately since the backlog began.
func (b *backlog) shared() bool { return b.there && !b.begin.IsZero() }

// sharable reports whether the claims on a lane may be shared. What comes must not jump what waits for its place in a
// pace, nor what it stands behind in its line.
func (f *firer) sharable(lane string) bool {
	return f.config.PaceOf(lane) == 0 && (!IsCallback(lane) || !f.config.Callbacks.lane(lane).Ordered)
}

// unclaimed notes that a claim failed which began at a monotonic instant and what the wall clock had lapsed. One that
// ran into its time limit may have had too much to go through. Then the next one is for what fell due lately.
func (f *firer) unclaimed(started time.Duration, lapsed time.Time, request ClaimRequest) {
	if f.clock.Mono()-started < f.config.StoreTimeout()*3/4 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, share := range request.Lanes {
		l := f.lane(share.Where())
		switch b := &l.backlog; {
		case l.part != "":
		case l.look != fromOldest: // they take turns
			b.again = 0
			b.owed++
		case f.sharable(share.Lane):
			b.failed(started, f.clock.Mono(), lapsed)
		}
	}
}
