// Package marks says from where a store looks for what falls due, where its indexes begin with dead entries.
package marks

import (
	"slices"
	"time"
)

// Set says from where to look for what falls due on each lane.
//
// While a transaction keeps an old snapshot open, an hour of pg_dump say, the server removes nothing that died since,
// and an index begins with the entries of all messages that have fired meanwhile. A look from the beginning wades
// through them, at half a microsecond each: 1.6 s after an hour at 1,000 messages/s, which no time limit allows.
//
//	        nobody looks here, except the sweep                   mark        until
//	----+-----------------------------------------------------------+-----------+------> due_at
//	    dead dead dead dead dead  x  dead dead dead dead dead dead    dead live live
//	                              |                        [ slice ]
//	                              a straggler               <- - - - the sweep
//
// So once a look from the beginning is dear, each lane gets a mark, below which nothing waited when it was set, and
// looks start there. Marks are a matter of cost only, and each node has its own; that nothing is missed rests on
// the sweep alone, which goes on through all that lies below the marks, from there downwards, one slice after
// another, and asks each for its first waiting message. What it is for are the stragglers, which began to wait below
// a mark that had been set already:
//
//   - A message is inserted late, or by a transaction that takes long to commit.
//   - A claim is given back, or a claim that another node was making comes to nothing.
//   - The clock of the node that set the mark is ahead.
//
// Slices are as wide as sliceCost allows, and the sweep takes a tenth of the time, so that a straggler waits at most
// sixteen times as long as it takes to wade through everything, and 3 s: 30 s after that hour. It waits longer where
// looks are rarer than slices, or other sets have turns. The highest slice, where nearly all stragglers are, has a turn
// each second; where looks are as rare as that, every other turn. A slice that holds something is looked at again until
// it is empty: there may be a hundred thousand, where a transaction of many messages was committed late. A sweep that
// was cheap from the marks to the beginning shows that the dead are gone, and ends the use of marks: then looks start
// at the beginning, and nothing is below.
//
// A mark moves up with each look from it. Claims of what fell due lately, which pass over a backlog, may have fired so
// much above it that no look comes to its end any more: then it is raised (Raise), and what waits in between is left to
// the sweep.
//
// What this node itself has put below a mark, it need not search for (Note): that is the next slice, in turn with those
// of the sweep. It makes such a message come out at once, as a rule, and nothing depends on it.
//
// The zero value uses no marks. It is not safe for concurrent use.
type Set struct {
	used  bool
	lanes map[string]Place

	at     time.Time     // up to where the sweep has come, from above
	width  time.Duration // of the next slice
	cost   time.Duration // of the sweep so far
	rest   time.Time     // no slice before
	summit time.Time     // when the highest slice had its last turn
	high   bool          // the last slice was that one
	again  *Slice        // the slice to look at again, since it held something

	noted  *Slice // where something is known to have begun to wait
	heeded bool   // the last slice was such a one, and the next is one of the sweep
}

// Place is a place in the order in which the messages of a lane are claimed.
type Place struct {
	Due time.Time
	ID  string
}

// Before reports whether p comes before q.
func (p Place) Before(q Place) bool {
	return p.Due.Before(q.Due) || p.Due.Equal(q.Due) && p.ID < q.ID
}

const (
	// DearLook is what a look may take before marks are used, and what a whole sweep may take before they are given
	// up again.
	DearLook = 30 * time.Millisecond

	// SliceLimit is what the look at a slice may take.
	SliceLimit = 200 * time.Millisecond

	// nearMark is how far below the end of the look a mark stays. Messages fall due there that are yet to be inserted.
	nearMark = time.Second

	// summitWidth and summitEvery are of the highest slice.
	summitWidth = 5 * time.Second
	summitEvery = time.Second

	// SweepShare is how many times as long as a slice took the sweep rests after it, and sliceCost what one is to take.
	SweepShare = 9
	sliceCost  = 20 * time.Millisecond

	// freely is how many times as wide the next slice is where nothing seems to lie, as before the first message: a
	// sweep that doubled its slices would look at thirty on its way to the beginning of time.
	freely = 16

	minWidth, firstWidth, maxWidth = time.Millisecond, time.Second, 100 * 365 * 24 * time.Hour
)

// Used reports whether marks are used.
func (m *Set) Used() bool { return m.used }

// Rest returns until when the sweep rests: from then on there is a slice to look at.
func (m *Set) Rest() time.Time { return m.rest }

// From returns where to start the look at a lane.
func (m *Set) From(lane string) Place {
	if p, marked := m.lanes[lane]; m.used && marked {
		return p
	}
	return Place{Due: earliest()}
}

// Use begins to use marks, after a look from the beginning has shown to be dear. firsts are the first messages that
// wait, as far as the look got to tell: for the other lanes of lanes nothing is known, and the sweep will find out.
func (m *Set) Use(lanes []string, firsts map[string]Place, until, now time.Time) {
	*m = Set{used: true, lanes: map[string]Place{}, summit: now}
	for _, lane := range lanes {
		m.lanes[lane] = Place{Due: instant(until.Add(-nearMark))}
		if first, found := firsts[lane]; found && first.Before(m.lanes[lane]) {
			m.lanes[lane] = first
		}
	}
	m.restart()
}

// Claimed moves the mark of a lane after a look from it on: first is the first message that was claimed, if any was.
func (m *Set) Claimed(lane string, first Place, found bool, until time.Time) {
	if !m.used {
		return
	}
	next := Place{Due: instant(until.Add(-nearMark))}
	if found && first.Before(next) {
		next = first
	}
	if now, marked := m.lanes[lane]; !marked || now.Before(next) {
		m.lanes[lane] = next
	}
}

// Raise moves the mark of a lane up to a look that ends at an instant, whatever waits in between: the sweep finds that.
func (m *Set) Raise(lane string, until time.Time) {
	if m.used {
		m.lanes[lane] = Place{Due: instant(until.Add(-nearMark))}
	}
}

// Note says that a message has begun to wait on a lane. If that is below the mark, the next slice is there, or reaches
// from what was noted before to there.
func (m *Set) Note(lane string, due time.Time) {
	if mark, marked := m.lanes[lane]; !m.used || !marked || due.After(mark.Due) {
		return
	}
	if m.noted == nil {
		m.noted = &Slice{aside: true}
		m.noted.add(lane, due, due)
	}
	switch n := m.noted; {
	case n.Lanes[0] != lane: // the sweep will find it
	case due.Before(n.From[0]):
		n.From[0] = due
	case due.After(n.Until[0]):
		n.Until[0] = due
	}
}

// Slice is a stretch of some lanes below their marks, both ends included.
type Slice struct {
	Lanes       []string
	From, Until []time.Time

	aside bool // no part of the way down to the beginning
}

// Next returns the next slice of these lanes to look at, or false where there is none to look at now.
func (m *Set) Next(lanes []string, now time.Time) (Slice, bool) {
	switch {
	case !m.used || now.Before(m.rest):
		return Slice{}, false
	case m.again != nil:
		return *m.again, true
	case m.noted != nil && !m.heeded && slices.Contains(lanes, m.noted.Lanes[0]):
		s := *m.noted
		m.noted, m.heeded = nil, true
		return s, true
	}
	m.heeded = false
	return m.descend(lanes, now), true
}

// descend returns the next slice of the sweep.
func (m *Set) descend(lanes []string, now time.Time) Slice {
	if m.high = now.Sub(m.summit) >= summitEvery && !m.high; m.high {
		m.summit = now
		s := Slice{aside: true}
		for _, lane := range lanes {
			if mark, marked := m.lanes[lane]; marked {
				s.add(lane, instant(mark.Due.Add(-summitWidth)), mark.Due)
			}
		}
		return s
	}
	s, from := Slice{}, m.below()
	for _, lane := range lanes {
		mark, marked := m.lanes[lane]
		end := mark.Due
		if end.After(m.at) {
			end = m.at
		}
		if marked && !end.Before(from) {
			s.add(lane, from, end)
		}
	}
	return s
}

func (s *Slice) add(lane string, from, until time.Time) {
	s.Lanes, s.From, s.Until = append(s.Lanes, lane), append(s.From, from), append(s.Until, until)
}

// Swept notes what became of the look at a slice: how long it took, whether the server gave it up, and whether what was
// found there is perhaps not all that is there, so that the next look is at the same slice.
func (m *Set) Swept(s Slice, took time.Duration, gaveUp, again bool, now time.Time) {
	m.rest, m.again = now.Add(SweepShare*took), nil
	switch {
	case again:
		m.rest, m.again = now, &s // this is what the sweep is for
		return
	case s.aside:
		return
	}
	m.cost += took
	if gaveUp && m.width > minWidth {
		m.width = max(minWidth, m.width/4)
		return
	}
	m.at = m.below()
	switch {
	case took < sliceCost/freely:
		m.width = freely * min(m.width, maxWidth/freely)
	case took < sliceCost/2:
		m.width = 2 * min(m.width, maxWidth/2)
	case took > 2*sliceCost:
		m.width = max(minWidth, m.width/2)
	}
	if m.at.After(earliest()) {
		return
	}
	if m.cost < DearLook {
		*m = Set{}
		return
	}
	m.restart()
}

// restart lets the sweep begin again, at the highest mark.
func (m *Set) restart() {
	m.at, m.width, m.cost = earliest(), firstWidth, 0
	for _, mark := range m.lanes {
		if mark.Due.After(m.at) {
			m.at = mark.Due
		}
	}
}

// below returns the lower end of the next slice. The widest reaches down to the beginning.
func (m *Set) below() time.Time {
	if m.width >= maxWidth {
		return earliest()
	}
	return instant(m.at.Add(-m.width))
}

// earliest is before everything that falls due.
func earliest() time.Time { return time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC) }

// instant returns t, or the earliest instant if that is later.
func instant(t time.Time) time.Time {
	if t.Before(earliest()) {
		return earliest()
	}
	return t
}
