package calendar

import (
	"fmt"
	"math/bits"
	"time"
)

// daysList reads days with separators between them, and what limits all of them: months, and bounds.
func (p *parser) daysList() []days {
	from := p.at
	var all []days
	for {
		begin := p.at
		all = append(all, p.item())
		p.count(begin)
		p.limits(&all)
		before := p.at
		if p.err != nil || !p.separator() || !p.isDayAt(p.at) || p.isSpan(p.at) {
			p.backTo(before)
			break
		}
	}
	if p.err != nil {
		return nil
	}
	named := days{}
	for _, d := range all {
		named.weekdays |= d.weekdays
	}
	for _, d := range all {
		switch {
		case d.coming && (len(all) > 1 || p.asked.IsZero()):
			p.fail(from, "this means the next such day only: write every %s, or a date", named.weekdayText())
		case d.step > 0 && d.first == noDay:
			p.fail(from, "from when on is this counted? Write %s from 2030-01-05; for one of each month write "+
				"of the month", d.text())
		case !d.coming && !d.any():
			p.fail(from, "there is no such day in any year")
		}
	}
	return merged(all)
}

// merged makes one of days that differ in the days of the week only.
func merged(all []days) []days {
	var kept []days
next:
	for _, d := range all {
		for i := range kept {
			k := &kept[i]
			alike := d
			alike.weekdays = k.weekdays
			if *k == d {
				continue next
			}
			if *k == alike && d.nth == 0 && d.step == 0 {
				k.weekdays |= d.weekdays
				continue next
			}
		}
		kept = append(kept, d)
	}
	return kept
}

// any reports whether there is a day in the set.
func (d *days) any() bool {
	first, last := d.first, d.last
	if first == noDay {
		first = numberOf(2000, time.January, 1)
		if last != noDay {
			first = last - horizon
		}
	}
	if last == noDay {
		last = first + farHorizon
	}
	for c := civilOf(first); c.number <= last; c = c.next() {
		if d.has(c) {
			return true
		}
	}
	return false
}

// item reads days of one kind, with what may stand before them.
func (p *parser) item() days {
	from := p.at
	p.eat("during")
	on := p.eat("on")
	every := p.eat("every", "each")
	if p.eat("the") {
		every = false
	}
	if !on && !every {
		p.eat("in") // "in march"
	}
	switch {
	case p.eat("daily", "everyday", "day", "days"):
		return allDays()
	case p.eat("weekday", "weekdays"):
		return ofWeek(workdays)
	case p.eat("weekend", "weekends"):
		return ofWeek(weekend)
	case p.eat("month", "months"):
		p.fail(from, "which day of the month? Write such as every 1st of the month")
		return days{}
	}
	begin := p.at
	if p.tok(0).is("from") {
		p.at++ // "from monday to friday", "from 24 december to 2 january"
	}
	if _, _, found := p.tok(0).weekday(); found {
		return p.ofWeekdays(on && !every)
	}
	if p.dateAt(p.at) > 0 {
		return p.ofDate()
	}
	p.backTo(begin)
	if every && p.eat("other") {
		return p.stepped(from, 2)
	}
	if _, found := p.tok(0).month(); found {
		d := allDays()
		d.months = p.months()
		return d
	}
	if _, found := p.tok(0).ordinal(); found {
		return p.ofMonth(from, every)
	}
	p.at++
	p.fail(from, "here days must stand, such as every day, weekdays, mondays, the 1st of the month or 6 march 2030")
	return days{}
}

func ofWeek(weekdays uint8) days {
	d := allDays()
	d.weekdays = weekdays
	return d
}

// ofWeekdays reads a day of the week, or a range of them.
func (p *parser) ofWeekdays(on bool) days {
	day, plural, _ := p.tok(0).weekday()
	p.at++
	d := ofWeek(1 << day)
	if !isTo(p.tok(0)) {
		d.coming = on && !plural
		return d
	}
	last, _, found := p.tok(1).weekday()
	if !found {
		return d
	}
	p.at += 2
	for ; day != last; day = (day + 1) % 7 {
		d.weekdays |= 1 << ((day + 1) % 7)
	}
	return d
}

// ofDate reads a date or a range of dates, of one year or of each.
func (p *parser) ofDate() days {
	from := p.at
	ordinal := p.tok(0).kind == ordinalToken
	begin, d := p.date(), allDays()
	if to := p.at; isTo(p.tok(0)) && p.dateAt(p.at+1) > 0 {
		p.at++
		end := p.date()
		if begin.year != 0 || end.year == 0 || !p.tokens[to].is("until", "till") {
			p.bound(&d, from, begin, end)
			return d
		}
		p.backTo(to) // "1 may until 2030-06-01" is each year, up to then
	}
	if begin.year != 0 {
		return onlyDay(numberOf(begin.year, begin.month, begin.day))
	}
	d.monthDays, d.months = 1<<begin.day, 1<<begin.month
	if ordinal {
		d.months |= p.moreMonths() // "the 1st of march and april"
	}
	p.yearly()
	return d
}

// yearly goes past "every year".
func (p *parser) yearly() {
	switch {
	case p.eat("yearly", "year", "annually"):
	case p.tok(0).is("every", "each") && p.tok(1).is("year"):
		p.at += 2
	}
}

// bound limits days to those from one date to another.
func (p *parser) bound(d *days, from int, begin, end date) {
	switch {
	case p.err != nil:
	case (begin.year == 0) != (end.year == 0):
		p.fail(from, "write the year of both dates, or of neither")
	case begin.year == 0:
		d.season = season{annualOf(begin.month, begin.day), annualOf(end.month, end.day)}
		p.yearly()
	default:
		d.first, d.last = numberOf(begin.year, begin.month, begin.day), numberOf(end.year, end.month, end.day)
		if d.last < d.first {
			p.fail(from, "it ends before it begins")
		}
	}
}

// ofMonth reads days that are counted in a month: "1st and 15th of the month", "last friday of march"; or "2nd saturday
// from 2030-01-05", which are counted in weeks.
func (p *parser) ofMonth(from int, every bool) days {
	var set uint32
	many := 0
	for {
		n, _ := p.tok(0).ordinal()
		if n == lastOrdinal {
			set |= lastBit
		} else if n < 1 || n > 31 {
			p.at++
			p.fail(from, "no month has such a day")
			return days{}
		} else {
			set |= 1 << n
		}
		many++
		p.at++
		p.count(from)
		before := p.at
		if p.err != nil || !p.separator() {
			break
		}
		p.eat("the")
		if _, found := p.tok(0).ordinal(); !found || p.dateAt(p.at) > 0 {
			p.backTo(before)
			break
		}
	}
	d := allDays()
	named := p.at
	_, plural, weekday := p.tok(0).weekday()
	switch day, _, _ := p.tok(0).weekday(); {
	case p.eat("day", "days"):
		d.monthDays = set
	case weekday || p.tok(0).is("weekday"):
		if d.weekdays = 1 << day; !weekday {
			d.weekdays = workdays
		}
		p.at++
		d.nth = uint8(set & (1<<6 - 1))
		if set>>6 != 0 && p.tok(0).is("of") {
			p.fail(from, "a month has at most five of them")
		}
	case set == lastBit:
		p.at++
		p.fail(from, "the last what? Write the last day of the month, or the last friday of the month")
	default:
		d.monthDays = set
	}
	if p.ofTheMonth(&d) {
		return d
	}
	if n := bits.TrailingZeros32(set); p.err == nil && every && many == 1 && n > 0 && !plural && named < p.at {
		p.backTo(named)
		return p.stepped(from, n)
	}
	p.fail(from, "of which month? Write of the month, or the name of one")
	return days{}
}

// ofTheMonth reads which months it is that days are counted in, and reports whether they are named.
func (p *parser) ofTheMonth(d *days) bool {
	before := p.at
	if p.eat("monthly", "month") {
		return true
	}
	of := p.eat("of", "in")
	if of {
		p.eat("the", "each", "every", "a", "any")
		if p.eat("month", "months") {
			return true
		}
	}
	if _, found := p.tok(0).month(); found {
		d.months = p.months()
		p.yearly()
		return true
	}
	p.backTo(before)
	return false
}

// stepped reads the day that comes every so many weeks, or days.
func (p *parser) stepped(from, step int) days {
	d := allDays()
	day, plural, found := p.tok(0).weekday()
	switch {
	case found && !plural:
		p.at++
		d.weekdays = 1 << day
	case p.eat("day"):
	default:
		p.at++
		p.fail(from, "every other what? Write a day of the week, such as every 2nd saturday from 2030-01-05")
	}
	if step < 2 {
		p.fail(from, "every first one is every one: write so, or of the month")
	}
	d.step = int64(step)
	return d
}

// months reads one month or several.
func (p *parser) months() uint16 {
	from := p.at
	month, found := p.tok(0).month()
	if !found {
		p.at++
		p.fail(from, "here a month must stand, such as march")
		return 0
	}
	p.at++
	set := uint16(1) << month
	if last, found := p.tok(1).month(); found && isTo(p.tok(0)) && p.dateAt(p.at+1) == 0 {
		p.at += 2
		for ; month != last; month = month%12 + 1 {
			set |= 1 << (month%12 + 1)
		}
	}
	return set | p.moreMonths()
}

// moreMonths reads months that follow others with a separator.
func (p *parser) moreMonths() uint16 {
	before := p.at
	if p.err != nil || !p.separator() {
		return 0
	}
	p.eat("in", "of")
	if _, found := p.tok(0).month(); !found || p.dateAt(p.at) > 0 {
		p.backTo(before)
		return 0
	}
	return p.months()
}

// limits reads what limits the days before it: "in march", "from 2030-01-05 to 2030-03-01", "until 2030-03-01".
func (p *parser) limits(all *[]days) {
	for p.err == nil {
		from := p.at
		_, month := p.tok(1).month()
		switch t := p.tok(0); {
		case t.is("in") && month:
			p.at++
			months := p.months()
			p.each(all, from, func(d *days) bool { return d.months != everyMonth || d.single() }, func(d *days) {
				d.months = months
			})
		case isSince(t) && (p.dateAt(p.at+1) > 0 || p.tok(1).is("on") && p.dateAt(p.at+2) > 0):
			p.at++
			p.eat("on")
			p.since(all, from)
		case t.is("until", "till", "to") && p.dateAt(p.at+1) > 0:
			p.at++
			end := p.date()
			if p.err == nil && end.year == 0 {
				p.fail(from, "write the year as well")
			}
			p.each(all, from, func(d *days) bool { return d.last != noDay }, func(d *days) {
				d.last = numberOf(end.year, end.month, end.day)
			})
		default:
			return
		}
	}
}

// since reads the bounds of days, and gives them to all that are listed.
func (p *parser) since(all *[]days, from int) {
	bounded := func(d *days) bool { return d.first != noDay || d.last != noDay }
	begin := p.date()
	if isTo(p.tok(0)) && p.dateAt(p.at+1) > 0 {
		p.at++
		end := p.date()
		if begin.year == 0 {
			bounded = func(d *days) bool { return d.season != season{} || d.single() }
		}
		p.each(all, from, bounded, func(d *days) { p.bound(d, from, begin, end) })
		return
	}
	if p.err == nil && begin.year == 0 {
		p.fail(from, "write the year as well, or when it ends in each year")
	}
	p.each(all, from, bounded, func(d *days) { d.first = numberOf(begin.year, begin.month, begin.day) })
}

// each limits all days in a list that are not limited yet: "saturdays and sundays from ... to ..." is about both. The
// last of them must not be, because what has just been read is about that one at least.
func (p *parser) each(all *[]days, from int, limited func(d *days) bool, limit func(d *days)) {
	for i := range *all {
		d := &(*all)[i]
		switch {
		case p.err != nil:
			return
		case d.coming:
			p.fail(from, "on with one day of the week means the next such day only: write every %s", d.weekdayText())
		case !limited(d):
			limit(d)
		case i == len(*all)-1:
			p.fail(from, "these days are limited already")
		}
	}
}

// nth says a number in the way of dates: 1st, 22nd.
func nth(n int) string {
	switch {
	case n/10 == 1:
	case n%10 == 1:
		return fmt.Sprintf("%dst", n)
	case n%10 == 2:
		return fmt.Sprintf("%dnd", n)
	case n%10 == 3:
		return fmt.Sprintf("%drd", n)
	}
	return fmt.Sprintf("%dth", n)
}
