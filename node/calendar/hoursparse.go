package calendar

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// hoursList reads hours with separators between them. If they follow their days, hours that have days behind them
// belong to those.
func (p *parser) hoursList(afterDays bool) []hours {
	from := p.at
	outside := p.eat("outside")
	if outside {
		p.eat("of")
	}
	var all []hours
	for {
		begin := p.at
		all = append(all, p.hours(afterDays)...)
		p.count(begin)
		before := p.at
		if p.err != nil || !p.separator() || !p.isTimeAt(p.at) || p.isSpan(p.at) || p.tok(0).is("outside") {
			p.backTo(before)
			break
		}
		if next := p.at; afterDays && p.endsInDays() {
			p.backTo(before)
			break
		} else {
			p.backTo(next)
		}
	}
	if outside && p.err == nil {
		if all = complement(all); len(all) == 0 {
			p.fail(from, "there is nothing outside of the whole day")
		}
	}
	return normalHours(all)
}

// backTo has the parser stand at an earlier token, unless there was an error.
func (p *parser) backTo(at int) {
	if p.err == nil {
		p.at = at
	}
}

// endsInDays goes past hours, and reports whether days follow. It looks ahead: what is wrong with the hours is found
// when they are read.
func (p *parser) endsInDays() bool {
	parts := p.parts
	for {
		p.hours(true)
		if p.err != nil {
			return false
		}
		if p.isDayAt(p.at) {
			p.parts = parts
			return true
		}
		if !p.separator() || !p.isTimeAt(p.at) || p.isSpan(p.at) {
			p.parts = parts
			return false
		}
	}
}

// hours reads one range of hours; all day if that is said.
func (p *parser) hours(afterDays bool) []hours {
	from := p.at
	p.eat("at")
	switch {
	case p.tok(0).kind == alwaysToken, p.tok(0).is("anytime"):
		p.at++
		return []hours{wholeDay()}
	case p.eat("always"):
		if p.eat("open"); !afterDays && p.tok(0).is("on") && !p.isDayAt(p.at+1) {
			p.at++ // "always on except"
		}
		return []hours{wholeDay()}
	case p.tok(0).is("all"), p.tok(0).is("any"):
		p.at++
		p.eat("the")
		if !p.eat("day", "time") {
			p.unexpected()
			return nil
		}
		p.eat("long")
		return []hours{wholeDay()}
	case p.eat("before"):
		end := p.clock()
		p.bare(from, end)
		if p.err == nil && end.minuteOfDay() == 0 {
			p.fail(from, "there is nothing before midnight: a day begins with it")
		}
		return []hours{{0, end.minuteOfDay()}}
	case p.eat("after"):
		start := p.clock()
		p.bare(from, start)
		return []hours{{start.minuteOfDay(), dayMinutes - start.minuteOfDay()}}
	}
	between := p.eat("between")
	if !between {
		p.eat("from")
	}
	start := p.clock()
	if p.err == nil {
		switch t := p.tok(0); {
		case between && t.is("and"), isTo(t):
			p.at++
		case between:
			p.fail(from, "after between stand two times with and, such as between 9am and 5pm")
		default:
			p.fail(from, "when does it end? Write both times, such as 9am to 5pm")
		}
	}
	end := p.clock()
	if p.err != nil {
		return nil
	}
	return p.rangeOf(from, start, end)
}

// clock reads a time of the day.
func (p *parser) clock() clock {
	from, t := p.at, p.tok(0)
	if t.kind == numberToken && t.number == 12 && p.tok(1).is("noon", "midday", "midnight") {
		p.at++
		t = p.tok(0)
	}
	var c clock
	switch {
	case t.is("noon", "midday"):
		c = clock{hour: 12, sure: true, named: true}
	case t.is("midnight"):
		c = clock{hour: 0, sure: true, named: true}
	case t.kind == timeToken, t.kind == numberToken && p.dateAt(p.at) == 0:
		c = t.clock
	default:
		p.at++
		p.fail(from, "here a time must stand, such as 9am, 17:30, noon or midnight")
		return c
	}
	p.at++
	switch {
	case t.kind == numberToken && len(t.text) > 2:
		p.fail(from, "this is no time: write hours and minutes with a colon, such as 09:00")
	case p.tok(0).is(":", ".") && (p.tok(1).kind == numberToken || p.tok(1).kind == timeToken):
		p.at += 2
		p.fail(from, "times are given to the minute, with two digits for the minutes, such as 9:05")
	case c.minute > 59:
		p.fail(from, "an hour has 60 minutes: the last is 59")
	case c.half != "" && (c.hour > 12 || c.hour == 0):
		p.fail(from, "am and pm count from 1 to 12: midnight is 12am, and noon 12pm")
	case c.hour > 24, c.hour == 24 && c.minute > 0:
		p.fail(from, "a day has 24 hours")
	}
	return c
}

// minuteOfDay returns the minute that a time is if it is read on a clock of 24 hours, or with its am or pm. The end of
// the day is its beginning.
func (c clock) minuteOfDay() int64 {
	hour := c.hour
	switch {
	case c.half == "am" && hour == 12:
		hour = 0
	case c.half == "pm" && hour < 12:
		hour += 12
	}
	return int64(hour%24*60 + c.minute)
}

// bare refuses a time that stands alone and may be in the morning or in the afternoon.
func (p *parser) bare(from int, c clock) {
	if p.err == nil && c.half == "" && !c.sure && !c.minutes {
		p.fail(from, "is this in the morning or in the afternoon? Write %dam or %dpm", c.hour, c.hour)
	}
}

// rangeOf makes hours of two times. A bare time may be in the morning or in the afternoon.
func (p *parser) rangeOf(from int, start, end clock) []hours {
	if start.hour == 24 {
		p.fail(from, "24:00 is where a day ends: what begins at midnight begins at 00:00")
		return nil
	}
	length := func(start, end int64) int64 {
		if n := (end - start + dayMinutes) % dayMinutes; n > 0 {
			return n
		}
		return dayMinutes
	}
	a, b := start.minuteOfDay(), end.minuteOfDay()
	read := hours{a, length(a, b)} // on a clock of 24 hours
	halves := start.half != "" || end.half != ""
	bare := func(c clock) bool { return c.half == "" && !c.sure && (halves || !c.full) }
	bareStart, bareEnd := bare(start), bare(end)
	if !bareStart && !bareEnd {
		return []hours{read}
	}
	other := hours{a, length(a, (b+dayMinutes/2)%dayMinutes)} // with the bare time half a day later
	if bareStart {
		later := (a + dayMinutes/2) % dayMinutes
		other = hours{later, length(later, b)}
	}
	switch {
	case bareStart && bareEnd:
		if (start.minutes || end.minutes) && a < b {
			return []hours{read}
		}
	case halves, start.named, end.named:
		if other.length < read.length {
			return []hours{other}
		}
		return []hours{read}
	case read.length < other.length:
		return []hours{read}
	}
	if bareStart && bareEnd {
		other = hours{a, length(a, (b+dayMinutes/2)%dayMinutes)} // 9am to 5pm
		if a < b {
			other = hours{a + dayMinutes/2, b - a} // 2pm to 4pm
		}
	}
	p.fail(from, "is this in the morning or in the afternoon? Write %s to %s, or %s to %s",
		halfText(other.start), halfText(other.start+other.length),
		clockText(read.start), endText(read.start+read.length))
	return nil
}

// complement returns what of a day is outside of hours.
func complement(of []hours) []hours {
	var m minutes
	m.set(0, dayMinutes, true)
	for _, h := range of {
		m.set(h.start, h.start+h.length, false)
		m.set(h.start-dayMinutes, h.start+h.length-dayMinutes, false) // what runs into the next day is of this one here
	}
	var left []hours
	for at := int64(0); ; {
		start, found := m.next(at, true)
		if !found {
			return left
		}
		end, found := m.next(start, false)
		if !found {
			end = dayMinutes
		}
		left = append(left, hours{start, end - start})
		at = end
		if at >= dayMinutes {
			return left
		}
	}
}

// isSpan reports whether a span from one day and time to another begins at a token.
func (p *parser) isSpan(at int) bool {
	if p.tok(at-p.at).is("from", "every", "each") {
		at++
	}
	at, found := p.momentAt(at)
	if !found || !isTo(p.tok(at-p.at)) {
		return false
	}
	_, found = p.momentAt(at + 1)
	return found
}

// momentAt returns the token behind a day and a time, if they stand at a token.
func (p *parser) momentAt(at int) (int, bool) {
	if _, _, found := p.tok(at - p.at).weekday(); found {
		at++
	} else if size := p.dateAt(at); size > 0 {
		at += size
	} else {
		return 0, false
	}
	if p.tok(at-p.at).is("at", ",", "t") {
		at++
	}
	t := p.tok(at - p.at)
	if t.kind == numberToken && t.number == 12 && p.tok(at-p.at+1).is("noon", "midday", "midnight") {
		at++
		t = p.tok(at - p.at)
	}
	if t.kind != timeToken && t.kind != numberToken && !t.is("noon", "midday", "midnight") || p.dateAt(at) > 0 {
		return 0, false
	}
	return at + 1, true
}

// moment is a day and a time: of each week, or one.
type moment struct {
	weekly bool
	day    int64 // the day of the week, or the number of the day
	minute int64 // of the day; dayMinutes is its end
}

// span reads a span from one day and time to another: "monday 9am to friday 5pm".
func (p *parser) span() clause {
	from := p.at
	p.eat("from", "every", "each")
	start := p.moment(false)
	p.at++ // to
	end := p.moment(true)
	p.count(from)
	length := (end.day-start.day)*dayMinutes + end.minute - start.minute
	d := allDays()
	switch {
	case p.err != nil:
		return clause{}
	case start.weekly != end.weekly:
		p.fail(from, "name the day in the same way twice: with days of the week, or with dates")
	case start.weekly:
		length = (length + weekMinutes) % weekMinutes
		if length == 0 {
			p.fail(from, "this is all of the week: write always")
		}
		d.weekdays = 1 << start.day
	case length <= 0:
		p.fail(from, "it ends before it begins")
	default:
		d = onlyDay(start.day)
	}
	return clause{hours: []hours{{start.minute, length}}, days: []days{d}}
}

// moment reads a day and a time.
func (p *parser) moment(end bool) moment {
	var m moment
	from := p.at
	if day, _, found := p.tok(0).weekday(); found {
		m.weekly, m.day = true, int64(day)
		p.at++
	} else {
		d := p.date()
		if p.err == nil && d.year == 0 {
			p.fail(from, "which year? Write it: what is every year begins and ends at midnight, such as "+
				"24 december to 2 january")
		}
		m.day = numberOf(d.year, d.month, d.day)
	}
	p.eat("at", ",", "t")
	before := p.at
	c := p.clock()
	p.bare(before, c)
	m.minute = c.minuteOfDay()
	if c.hour == 24 || end && c.named && m.minute == 0 {
		m.minute = dayMinutes
	}
	if !end && c.hour == 24 && p.err == nil {
		p.fail(before, "24:00 is where a day ends: what begins at midnight begins at 00:00")
	}
	return m
}

// date reads a date, whose year may be missing.
func (p *parser) date() date {
	from, size := p.at, p.dateAt(p.at)
	var d date
	if size == 0 {
		p.fail(from, "here a date must stand, such as 6 march 2030 or 2030-03-06")
		return d
	}
	for range size {
		t := p.tok(0)
		if month, found := t.month(); found {
			d.month = month
		}
		switch {
		case t.kind == dateToken:
			d = t.date
		case t.kind == ordinalToken, t.kind == numberToken && len(t.text) <= 2:
			d.day = t.number
		case t.kind == numberToken:
			d.year = max(t.number, 1) // 0 means none
		}
		p.at++
	}
	slashed := p.tokens[from].kind == dateToken && strings.Contains(p.tokens[from].text, "/")
	switch {
	case d.month < time.January || d.month > time.December:
		p.fail(from, "there is no month %d: in dates with a slash the day stands first; 2030-03-06 is understood "+
			"by all", int(d.month))
	case slashed && d.year != 0 && d.year < 1000:
		p.fail(from, "write the year with four digits")
	case d.year != 0 && (d.year < firstYear || d.year > lastWindowYear):
		p.fail(from, "years are from %d to %d", firstYear, lastWindowYear)
	case d.day < 1 || d.year != 0 && d.day > monthLength(d.year, d.month) || d.day > monthLength(2000, d.month):
		p.fail(from, "there is no such day")
	}
	return d
}

// normalHours returns hours in order, those that are whole days alone.
func normalHours(all []hours) []hours {
	if slices.Contains(all, wholeDay()) {
		return []hours{wholeDay()}
	}
	slices.SortFunc(all, func(a, b hours) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.length, b.length))
	})
	return slices.Compact(all)
}
