package calendar

import (
	"math"
	"time"
)

// zoned is a cron expression in a zone: a set of instants, all of them whole seconds, which are counted from 1970 here.
type zoned struct {
	cron cron
	zone *time.Location
}

// stretch is a while in which a zone's clock goes evenly: it shows the instant plus offset. The next stretch begins
// where it ends, with a clock that has been put forward or back, or, now and then, with the same.
type stretch struct{ start, end, offset int64 }

func stretchAt(zone *time.Location, instant int64) stretch {
	t := time.Unix(instant, 0).In(zone)
	_, offset := t.Zone()
	s := stretch{math.MinInt64, math.MaxInt64, int64(offset)}
	start, end := t.ZoneBounds()
	if !start.IsZero() {
		s.start = start.Unix()
	}
	if !end.IsZero() {
		s.end = end.Unix()
	}
	if s.end <= instant {
		// Go 1.26 ends a leap year a day early, past the changes that the database lists: on 31 December the bounds are
		// of what came before. The offset is right, and no zone changes its clock on that day.
		s.end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return s
}

// following returns the stretch after s.
func following(zone *time.Location, s stretch) stretch {
	next := stretchAt(zone, s.end)
	next.start = s.end
	return next
}

// reached returns what the clock had got to before a stretch. The times from there to the beginning of the stretch were
// left out; or, if the clock was put back, what comes before it in the stretch is shown again.
func (z *zoned) reached(s stretch) int64 {
	// No two clocks are further apart than this, so that an older stretch can't have got further.
	const apart = 32 * 60 * 60
	wall := int64(math.MinInt64)
	for before := s; before.start > s.start-apart; {
		end := before.start
		before = stretchAt(z.zone, end-1)
		wall = max(wall, end+before.offset)
	}
	return wall
}

// part is what a stretch adds to the series: an occurrence right at its start, for times that were left out, and
// the wall times from from on and before to that match.
type part struct {
	atStart  bool
	from, to int64
}

// part returns what the instants from from on and before to add, of those that are in the stretch.
func (z *zoned) part(s stretch, from, to int64) part {
	p := part{from: max(from, s.start) + s.offset, to: min(to, s.end) + s.offset}
	if z.cron.hourly() || s.start == math.MinInt64 {
		return p
	}
	reached, shown := z.reached(s), s.start+s.offset
	p.from = max(p.from, reached)
	if from <= s.start && s.start < to && reached < shown {
		left, found := z.cron.next(reached)
		p.atStart = found && left < shown && !z.cron.matches(shown)
	}
	return p
}

// next returns the first instant from from on that is in the set.
func (z *zoned) next(from int64) (int64, bool) {
	for s := stretchAt(z.zone, from); ; s = following(z.zone, s) {
		p := z.part(s, from, math.MaxInt64/2)
		if p.atStart {
			return s.start, true
		}
		wall, found := z.cron.next(p.from)
		switch {
		case !found:
			return 0, false
		case wall < p.to:
			return wall - s.offset, true
		}
	}
}

// count counts the instants of the set from from on and before to. It takes a step for each month and each change of
// the clocks in between.
func (z *zoned) count(from, to int64) int64 {
	n := int64(0)
	for s := stretchAt(z.zone, from); from < to; s = following(z.zone, s) {
		p := z.part(s, from, to)
		if p.atStart {
			n++
		}
		n += z.cron.count(p.from, p.to)
		if s.end >= to {
			break
		}
	}
	return n
}
