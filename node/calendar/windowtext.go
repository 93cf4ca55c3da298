package calendar

import (
	"fmt"
	"math/bits"
	"strings"
	"time"
)

// String returns the window in its normal form: words for ParseWindow which mean the same, and which leave nothing to
// guess.
func (w *Window) String() string {
	switch {
	case w.never:
		return "never"
	case w.always && len(w.except) == 0:
		return "always"
	}
	text := "always"
	if !w.always {
		text = clausesText(w.base, false)
	}
	if len(w.except) > 0 {
		text += " except " + clausesText(w.except, true)
	}
	return text + " in " + w.name
}

func clausesText(clauses []clause, except bool) string {
	texts := make([]string, len(clauses))
	for i := range clauses {
		texts[i] = clauses[i].text(except)
	}
	return strings.Join(texts, "; ")
}

// text says a clause. Exceptions leave out what goes without saying.
func (c *clause) text(except bool) string {
	if d := &c.days[0]; c.hours[0].length > dayMinutes {
		return c.hours[0].spanText(d)
	}
	var on []string
	for i := range c.days {
		on = append(on, c.days[i].text())
	}
	when := listed(on)
	switch {
	case c.whole() && except:
		return when
	case c.whole():
		return "all day " + when
	}
	var ranges []string
	for _, h := range c.hours {
		ranges = append(ranges, clockText(h.start)+" to "+endText(h.start+h.length))
	}
	if except && len(c.days) == 1 && c.days[0] == allDays() {
		return listed(ranges)
	}
	return listed(ranges) + " " + when
}

// spanText says hours that are more than a day: from a day and time to another.
func (h hours) spanText(d *days) string {
	end := h.start + h.length
	clock := endText(end)
	if end%dayMinutes == 0 {
		end-- // 24:00 is of the day before
	}
	if d.single() {
		return "from " + dateText(d.first) + " " + clockText(h.start) +
			" to " + dateText(d.first+end/dayMinutes) + " " + clock
	}
	weekday := int64(bits.TrailingZeros8(d.weekdays))
	return weekdayText(weekday) + " " + clockText(h.start) +
		" to " + weekdayText((weekday+end/dayMinutes)%7) + " " + clock
}

// text says on which days.
func (d *days) text() string {
	var text string
	switch {
	case d.coming:
		text = "on " + d.weekdayText()
	case d.single():
		return "on " + dateText(d.first)
	case d.step > 0 && d.weekdays == everyWeekday:
		text = "every " + nth(int(d.step)) + " day"
	case d.step > 0:
		text = "every " + nth(int(d.step)) + " " + d.weekdayText()
	case d.nth != 0:
		return "on the " + ordinalsText(uint32(d.nth), false) + " " + d.weekdayText() + " of " + d.monthsText() +
			d.boundsText()
	case d.monthDays != 0:
		return d.monthDaysText() + d.boundsText()
	default:
		text = "every " + d.weekdayText()
	}
	if d.months != everyMonth {
		text += " in " + d.monthsText()
	}
	return text + d.boundsText()
}

func (d *days) monthDaysText() string {
	if bits.OnesCount16(d.months) == 1 && bits.OnesCount32(d.monthDays) == 1 && d.monthDays != lastBit {
		return fmt.Sprintf("every %d %s", bits.TrailingZeros32(d.monthDays), d.monthsText())
	}
	text := "on the " + ordinalsText(d.monthDays, true)
	if d.monthDays&lastBit != 0 {
		text += " day"
	}
	return text + " of " + d.monthsText()
}

// boundsText says from when on and until when.
func (d *days) boundsText() string {
	text := ""
	if d.season != (season{}) {
		text += " from " + d.season.from.text() + " to " + d.season.to.text()
	}
	switch {
	case d.first != noDay && d.last != noDay:
		return text + " from " + dateText(d.first) + " to " + dateText(d.last)
	case d.first != noDay:
		return text + " from " + dateText(d.first)
	case d.last != noDay:
		return text + " until " + dateText(d.last)
	}
	return text
}

func (a annual) text() string { return fmt.Sprintf("%d %s", a.day(), monthText(a.month())) }

// weekdayText says which days of the week.
func (d *days) weekdayText() string {
	switch d.weekdays {
	case everyWeekday:
		return "day"
	case workdays:
		return "weekday"
	}
	var names []string
	for i := range int64(7) { // from Monday on
		if day := (i + 1) % 7; d.weekdays>>day&1 == 1 {
			names = append(names, weekdayText(day))
		}
	}
	return listed(names)
}

// monthsText says which months.
func (d *days) monthsText() string {
	if d.months == everyMonth {
		return "the month"
	}
	var names []string
	for month := time.January; month <= time.December; month++ {
		if d.months>>month&1 == 1 {
			names = append(names, monthText(month))
		}
	}
	return listed(names)
}

// ordinalsText says which of a month: in figures or in words, and the last at the end.
func ordinalsText(set uint32, figures bool) string {
	var names []string
	for n := 1; n <= 31; n++ {
		if set>>n&1 == 0 {
			continue
		}
		name := nth(n)
		if !figures {
			name = strings.Fields("first second third fourth fifth")[n-1]
		}
		names = append(names, name)
	}
	if set&lastBit != 0 {
		names = append(names, "last")
	}
	return listed(names)
}

// listed joins texts with commas, and the last with and.
func listed(texts []string) string {
	last := len(texts) - 1
	if last < 1 {
		return strings.Join(texts, "")
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

func weekdayText(day int64) string { return strings.Fields(weekdayNames)[day] }

func monthText(month time.Month) string { return strings.Fields(monthNames)[month-1] }

// dateText says a date without doubt about which number is the month.
func dateText(number int64) string {
	c := civilOf(number)
	return fmt.Sprintf("%d %s %d", c.day, monthText(c.month), c.year)
}

// clockText says a minute of the day.
func clockText(minute int64) string {
	minute %= dayMinutes
	return fmt.Sprintf("%02d:%02d", minute/60, minute%60)
}

// endText says a minute at which something ends: midnight is the end of a day.
func endText(minute int64) string {
	if minute%dayMinutes == 0 {
		return "24:00"
	}
	return clockText(minute)
}

// halfText says a minute with am or pm.
func halfText(minute int64) string {
	minute %= dayMinutes
	half := "am"
	if minute >= dayMinutes/2 {
		half = "pm"
	}
	hour := (minute/60+11)%12 + 1
	if minute%60 == 0 {
		return fmt.Sprintf("%d%s", hour, half)
	}
	return fmt.Sprintf("%d:%02d%s", hour, minute%60, half)
}

// normal makes clauses of which nobody can read the text in two ways: days with bounds or in some months stand alone,
// because what limits days is about those that are listed before as well.
func normal(clauses []clause) []clause {
	var all []clause
	for i := range clauses {
		c := clauses[i]
		var free []days
		var limited []clause
		for _, d := range c.days {
			if d.limited() {
				limited = append(limited, clause{c.hours, []days{d}})
			} else {
				free = append(free, d)
			}
		}
		if len(free) > 0 {
			all = append(all, clause{c.hours, free})
		}
		all = append(all, limited...)
	}
	return all
}

// limited reports whether the text of days ends with something that limits them.
func (d *days) limited() bool {
	inMonths := d.months != everyMonth && d.nth == 0 && d.monthDays == 0
	bounded := (d.first != noDay || d.last != noDay) && !d.single()
	return inMonths || bounded || d.season != season{}
}
