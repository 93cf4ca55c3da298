package calendar

import (
	"math/bits"
	"strconv"
	"strings"
)

// cron is a cron expression as sets: bit n of a field is set if n is in it. It says which readings of a wall clock it
// matches, and knows nothing of zones.
type cron struct {
	seconds, minutes, hours, days, months, weekdays uint64

	lastDay     bool   // L
	lastWorkday bool   // LW
	workdays    uint64 // 15W: bit 15

	lastWeekdays uint64    // friL: bit 5
	nthWeekdays  [5]uint64 // fri#2: bit 5 of the second

	starDay, starWeekday bool // the field begins with *, or is ?
}

// field is what a place in a cron expression may hold.
type field struct {
	name     string
	min, max int
	names    string // of the values from min on, in full; three letters are enough
}

const (
	monthNames   = "january february march april may june july august september october november december"
	weekdayNames = "sunday monday tuesday wednesday thursday friday saturday"
)

// nicknames are the expressions with a name.
func nickname(text string) (string, bool) {
	switch text {
	case "@hourly":
		return "0 * * * *", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	}
	return "", false
}

// parseCron reads an expression of five fields, or six with the seconds first. One that was stored is read although it
// would be refused by now: a range may end at 0, which it leaves out, and it may be that it never comes again.
func parseCron(text string, stored bool) (cron, *SeriesError) {
	var c cron
	fields := strings.Fields(text)
	switch len(fields) {
	case 5:
		fields = append([]string{"0"}, fields...)
	case 6:
	default:
		return c, refuse(InvalidRepeat, PartRepeat,
			"a cron expression has five fields, or six with the seconds first, and this has %d", len(fields))
	}
	for i, place := range []struct {
		field field
		set   *uint64
		star  *bool // where ? is allowed
		extra func(string) bool
	}{
		{field{"second", 0, 59, ""}, &c.seconds, nil, nil},
		{field{"minute", 0, 59, ""}, &c.minutes, nil, nil},
		{field{"hour", 0, 23, ""}, &c.hours, nil, nil},
		{field{"day of the month", 1, 31, ""}, &c.days, &c.starDay, c.specialDay},
		{field{"month", 1, 12, monthNames}, &c.months, nil, nil},
		{field{"day of the week", 0, 7, weekdayNames}, &c.weekdays, &c.starWeekday, c.specialWeekday},
	} {
		if place.star != nil {
			if fields[i] == "?" {
				fields[i] = "*"
			}
			*place.star = strings.HasPrefix(fields[i], "*")
		}
		for item := range strings.SplitSeq(strings.ToLower(fields[i]), ",") {
			if place.extra != nil && place.extra(item) {
				continue
			}
			set, err := place.field.parse(item, stored)
			if err != nil {
				return c, err
			}
			*place.set |= set
		}
	}
	c.weekdays |= c.weekdays >> 7 & 1
	c.weekdays &= 1<<7 - 1
	if !stored && !c.everMatches() {
		return c, refuse(RepeatNever, PartRepeat, "no month that it names has such a day: it would never come")
	}
	return c, nil
}

// specialDay takes L, LW and 15W among the days of the month, and reports whether it was one.
func (c *cron) specialDay(item string) bool {
	switch item {
	case "l":
		c.lastDay = true
		return true
	case "lw", "wl":
		c.lastWorkday = true
		return true
	}
	digits, found := strings.CutSuffix(item, "w")
	day, err := field{"day of the month", 1, 31, ""}.value(digits)
	if !found || err != nil {
		return false
	}
	c.workdays |= 1 << day
	return true
}

// specialWeekday takes friL and fri#2 among the days of the week, and reports whether it was one.
func (c *cron) specialWeekday(item string) bool {
	week := field{"day of the week", 0, 7, weekdayNames}
	if name, n, found := strings.Cut(item, "#"); found {
		day, err := week.value(name)
		if err != nil || len(n) != 1 || n[0] < '1' || n[0] > '5' {
			return false
		}
		c.nthWeekdays[n[0]-'1'] |= 1 << (day % 7)
		return true
	}
	name, found := strings.CutSuffix(item, "l")
	if !found || name == "" {
		return false
	}
	day, err := week.value(name)
	if err != nil {
		return false
	}
	c.lastWeekdays |= 1 << (day % 7)
	return true
}

// parse reads an item of a list: a value, a range or all there is, with or without a step.
func (f field) parse(item string, stored bool) (uint64, *SeriesError) {
	body, by, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		var err error
		if step, err = strconv.Atoi(by); err != nil || len(by) > 2 || by[0] == '+' || by[0] == '-' {
			return 0, f.syntax(item)
		}
		if step < 1 || step > f.max {
			return 0, refuse(RepeatOutOfRange, PartRepeat,
				"a step of %d in the field for the %s is not between 1 and %d", step, f.name, f.max)
		}
	}
	low, high, ranged := strings.Cut(body, "-")
	first, last := f.min, f.last()
	if body != "*" {
		var err *SeriesError
		if first, err = f.value(low); err != nil {
			return 0, err
		}
		switch {
		case ranged:
			if last, err = f.value(high); err != nil {
				return 0, err
			}
			if last == 0 && first > 0 && (stored || f.names == weekdayNames) {
				last = f.max // mon-sun
			}
		case !stepped:
			last = first
		}
	}
	if first > last {
		return 0, refuse(RepeatOutOfRange, PartRepeat,
			"the range %s of the %s runs backwards: write two, with a comma", quoted(body), f.name)
	}
	var set uint64
	for n := first; n <= last; n += step {
		set |= 1 << n
	}
	return set, nil
}

// last is where * ends: on Saturday, because Sunday has two numbers.
func (f field) last() int {
	if f.names == weekdayNames {
		return 6
	}
	return f.max
}

// value reads a number or a name.
func (f field) value(text string) (int, *SeriesError) {
	if text == "" {
		return 0, f.syntax(text)
	}
	if strings.Trim(text, "0123456789") == "" {
		n, err := strconv.Atoi(text)
		if err != nil || len(text) > 2 || n < f.min || n > f.max {
			return 0, refuse(RepeatOutOfRange, PartRepeat, "%s %s is not between %d and %d",
				f.name, strings.Trim(quoted(text), `"`), f.min, f.max)
		}
		return n, nil
	}
	n := f.min
	for name := range strings.FieldsSeq(f.names) {
		if text == name || text == name[:3] {
			return n, nil
		}
		n++
	}
	return 0, f.syntax(text)
}

func (f field) syntax(text string) *SeriesError {
	return refuse(InvalidRepeat, PartRepeat, "%s is nothing that the field for the %s can hold", quoted(text), f.name)
}

// hourly reports whether it comes in every hour of the day.
func (c *cron) hourly() bool { return c.hours == 1<<24-1 }

// daily counts how often it comes on a day on which it comes.
func (c *cron) daily() int64 {
	return int64(bits.OnesCount64(c.hours)) * int64(bits.OnesCount64(c.minutes)) * int64(bits.OnesCount64(c.seconds))
}
