package calendar

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"time"
)

const (
	// MaxWindowBytes is the greatest length of a window. A year's public holidays fit in well.
	MaxWindowBytes = 1000

	// MaxWindowParts is the greatest number of days and hours that a window is made of, each counted by itself.
	MaxWindowParts = 64
)

// Window is when something is open. It is made by ParseWindow, and does not change, so that several goroutines may ask
// it at once.
//
// It is a set of readings of a clock on a wall, to the minute. Whether it is open at an instant is whether the set has
// what the clock of its zone shows then, and nothing else: neither when it was parsed nor when anybody asked.
type Window struct {
	always bool // before exceptions
	never  bool
	base   []clause
	except []clause
	zone   *time.Location
	name   string // of the zone

	// quiet is a day before which nothing ever changes, and settled one from the beginning of which on nothing
	// changes any more; noDay if there is none.
	quiet, settled int64

	// over is a day from the beginning of which on nothing changes any more by the clock of the zone, although it
	// would on the wall: each time the clocks are put forward over it. It is noDay if there is none.
	over int64
}

// Opening is a while in which a window is open: from Start on and before End.
type Opening struct {
	Start, End time.Time // End is zero if it does not close again
}

// LeftOut is an opening on the wall that does not come, because the clocks are put forward over all of it.
type LeftOut struct {
	At       time.Time // when the clocks are put forward
	From, To string    // what the clock would have shown when it had opened and closed, such as 02:00
}

// Zone returns the zone whose clock the window goes by.
func (w *Window) Zone() *time.Location { return w.zone }

// Open reports whether the window is open at an instant.
func (w *Window) Open(at time.Time) bool {
	second := within(at)
	return w.shows(second + stretchAt(w.zone, second).offset)
}

// Next returns the first instant after one at which the window opens, if it was closed, or closes, if it was open.
// There may be none, or none before the year 10000.
//
// A change of the clocks can open and close it as well: what the clock shows after it is what counts.
func (w *Window) Next(after time.Time) (time.Time, bool) {
	change, found, _ := w.next(after, lastSecond())
	return change, found
}

// next returns the first change after an instant that begins before last, if there is one; and how many stretches of
// the clock it has looked at, each of which is half a year as a rule.
func (w *Window) next(after time.Time, last int64) (change time.Time, found bool, looked int) {
	second := within(after)
	if w.quiet != noDay {
		second = max(second, (w.quiet-3)*daySeconds) // No clock is three days off: it is the same until then.
	}
	s := stretchAt(w.zone, second)
	wall := second + s.offset
	open := w.shows(wall)
	for looked = 1; ; looked++ {
		if change, found := w.change(wall, min(s.end, last)+s.offset); found {
			return time.Unix(change-s.offset, 0).UTC(), true, looked
		}
		// The clock may show once more what it has shown, but never what it showed two days before.
		if s.end >= last || w.settled != noDay && dayOf(s.end+s.offset) > w.settled+2 ||
			w.over != noDay && dayOf(s.end) > w.over {
			return time.Time{}, false, looked
		}
		s = following(w.zone, s)
		if wall = s.start + s.offset; w.shows(wall) != open {
			return time.Unix(s.start, 0).UTC(), true, looked
		}
	}
}

// Openings returns what is open from an instant on, in order. If the window is open then, the first begins with that
// instant. There may be no end to them.
func (w *Window) Openings(from time.Time) iter.Seq[Opening] {
	return func(yield func(Opening) bool) {
		start, found := from, true
		if !w.Open(from) {
			start, found = w.Next(from)
		}
		for found {
			var o Opening
			o.Start = start
			if o.End, found = w.Next(start); !yield(o) || !found {
				return
			}
			start, found = w.Next(o.End)
		}
	}
}

// LeftOut returns the openings that are left out by changes of the clocks after an instant and up to another, in order.
func (w *Window) LeftOut(after, upTo time.Time) iter.Seq[LeftOut] {
	return func(yield func(LeftOut) bool) {
		last := within(upTo)
		for s := stretchAt(w.zone, within(after)); s.end <= last; {
			reached := s.end + s.offset
			s = following(w.zone, s)
			if !w.leftOut(s.start, reached, s.start+s.offset, yield) {
				return
			}
		}
	}
}

// leftOut yields the openings that lie between two readings of the clock, of which the second follows at an instant.
func (w *Window) leftOut(at, reached, shown int64, yield func(LeftOut) bool) bool {
	open := w.shows(reached - 1) // What has begun before is cut short, and not left out.
	for from := reached; from < shown; {
		to, closes := w.change(from, shown+1)
		if was := w.shows(from); was && !open {
			if !closes {
				return true // It goes on after the change.
			}
			o := LeftOut{time.Unix(at, 0).UTC(), clockText(minuteOf(from)), endText(minuteOf(to))}
			if !yield(o) {
				return false
			}
		}
		if !closes {
			return true
		}
		from, open = to, false
	}
	return true
}

// Always reports whether the window is never closed, from some instant long ago on.
func (w *Window) Always() bool {
	return !w.never && w.settled == longAgo
}

// Never reports whether the window is never open: whether it was written so, as no other such window is accepted.
func (w *Window) Never() bool { return w.never }

// Notes returns what may not be as its author thinks, in whole sentences.
func (w *Window) Notes() []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	switch {
	case w.Always() && !w.always:
		note("It is always open.")
	case w.over != noDay:
		opens := "opens"
		if w.shows(w.over * daySeconds) {
			opens = "closes"
		}
		note("It never %s any more: each time that it would, the clocks in %s are put forward over it.", opens, w.name)
	}
	for _, clauses := range [][]clause{w.base, w.except} {
		for i := range clauses {
			for _, h := range clauses[i].hours {
				switch end := (h.start + h.length) % dayMinutes; {
				case h.start == 0 && end == dayMinutes/2-1:
					note("This ends at 11:59 in the morning: for all of the day leave the hours out.")
				case end%60 == 59:
					note("What ends at %s does not have that minute in it: for all of the hour write %s.",
						clockText(end), endText(end+1))
				}
			}
			for _, d := range clauses[i].days {
				if n, rare := d.rare(); rare {
					note("Not every month has a %s: for the end of each month write \"the last day of the month\".",
						nth(n))
				}
			}
		}
	}
	return notes
}

// rare returns a day of the month that some of the months don't have, although others do.
func (d *days) rare() (int, bool) {
	for n := 29; n <= 31; n++ {
		if d.monthDays>>n&1 == 1 && bits.OnesCount16(d.months) > 1 {
			for month := time.January; month <= time.December; month++ {
				if d.months>>month&1 == 1 && monthLength(2001, month) < n {
					return n, true
				}
			}
		}
	}
	return 0, false
}

const (
	// longAgo is a day before all that a window can name.
	longAgo = int64(-1) << 30

	// horizon is how many days it takes to see all that days of months and weeks can do. What a year looks like depends
	// on which weekday it begins with and on whether it is a leap year; within 60 years there is each of these.
	horizon = 60 * 366

	// farHorizon is the same for windows that count weeks or days, which go on from year to year.
	farHorizon = 400 * 366
)

// lastSecond is where the calendar ends.
func lastSecond() int64 { return lastInstant()/1e6 + 1 }

// within returns an instant in seconds, or the nearest one in the years 1 to 9999.
func within(at time.Time) int64 {
	const firstSecond = -62135596800
	return min(max(at.Unix(), firstSecond), lastSecond()-1)
}

// day returns what of the latest day of r is open.
func (w *Window) day(r *recent) *minutes {
	m := new(minutes)
	if w.always {
		m.set(0, dayMinutes, true)
	}
	for i := range w.base {
		w.base[i].mark(r, m, true)
	}
	for i := range w.except {
		w.except[i].mark(r, m, false)
	}
	return m
}

// minuteOf returns the minute of the day that a clock shows.
func minuteOf(wall int64) int64 { return (wall - dayOf(wall)*daySeconds) / 60 }

// shows reports whether the window is open when its clock shows wall.
func (w *Window) shows(wall int64) bool {
	return w.day(recentOf(dayOf(wall))).has(minuteOf(wall))
}

// change returns the first reading of the clock after wall, and before limit, at which the window is open if it is not
// at wall, or the reverse.
func (w *Window) change(wall, limit int64) (int64, bool) {
	r := recentOf(dayOf(wall))
	m, from := w.day(r), minuteOf(wall)
	for open := m.has(from); ; m, from = w.day(r), 0 {
		start := r.today() * daySeconds
		if minute, found := m.next(from, !open); found {
			change := start + minute*60
			return change, change < limit
		}
		if start+daySeconds >= limit || w.settled != noDay && r.today() > w.settled {
			return 0, false
		}
		r.advance()
	}
}

// next returns the first minute from from on that is in the set, or, if in is false, is not.
func (m *minutes) next(from int64, in bool) (int64, bool) {
	for word := from / 64; word < int64(len(m)); word++ {
		set := m[word]
		if !in {
			set = ^set
		}
		if word == from/64 {
			set &= ^uint64(0) << (from % 64)
		}
		if set != 0 {
			minute := word*64 + int64(bits.TrailingZeros64(set))
			return minute, minute < dayMinutes
		}
	}
	return 0, false
}

// survey finds out when a window has settled, and whether it ever opens.
func (w *Window) survey() *WindowError {
	w.over = noDay
	if w.never {
		w.quiet, w.settled = noDay, longAgo
		return nil
	}
	first, last, before, far := w.bounds()
	w.quiet, w.settled = noDay, noDay
	begin := (first - before) * daySeconds
	if _, changes := w.change(begin, first*daySeconds); !changes {
		w.quiet = first
	}
	if _, changes := w.change(last*daySeconds, (last+far)*daySeconds); changes {
		w.outlive(last, far)
		return nil
	}
	w.settled = last
	if _, changes := w.change(begin, (last+1)*daySeconds); !changes {
		w.settled = longAgo
		if !w.shows(begin) {
			return &WindowError{Reason: WindowNever, Why: "it never opens, because its exceptions leave nothing: " +
				"if that is what you want, write never"}
		}
		return nil
	}
	// It opens on the wall: does it when the clock of the zone is looked at? What names single days may lie where the
	// clocks are put forward.
	from := time.Unix((first-2)*daySeconds, 0)
	if _, changes := w.Next(from); !changes && !w.Open(from) && w.quiet != noDay {
		return &WindowError{Reason: WindowNever, Why: "it never opens: on that day the clocks in " + w.name +
			" are put forward, and leave these hours out"}
	}
	return nil
}

// outlive finds out whether what changes on the wall forever does so by the clock of the zone, too: 02:30 on the last
// Sunday of March is left out in Paris each year. Whoever asks when that opens would otherwise look through all years
// up to 9999. It is enough to look once through all that days can do, after the last change that zones list one by one.
func (w *Window) outlive(last, far int64) {
	begin := max(last, numberOf(2100, time.January, 1))
	until := min((begin+far)*daySeconds, lastSecond())
	if change, found, _ := w.next(time.Unix(begin*daySeconds, 0), until); !found || change.Unix() >= until {
		w.over = begin
	}
}

// bounds returns the first and the last of the days that the window names, with what belongs to them, or some day if
// it names none; and how far before and after them one has to look to see all that it does.
func (w *Window) bounds() (first, last, before, after int64) {
	first, last, before, after = math.MaxInt64, math.MinInt64, 1, 1
	for _, clauses := range [][]clause{w.base, w.except} {
		for i := range clauses {
			longest := int64(0)
			for _, h := range clauses[i].hours {
				longest = max(longest, (h.start+h.length)/dayMinutes+1)
			}
			for _, d := range clauses[i].days {
				for _, day := range []int64{d.first, d.last} {
					if day != noDay {
						first, last = min(first, day), max(last, day+longest)
					}
				}
				if d.first == noDay {
					before = horizon
				}
				switch {
				case d.last != noDay:
				case d.step > 0:
					after = farHorizon
				default:
					after = max(after, horizon)
				}
			}
		}
	}
	if first > last {
		first = numberOf(2000, time.January, 1)
		last = first
	}
	return first, last, before, after
}
