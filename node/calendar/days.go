package calendar

import "time"

// What a window is made of once its words are understood: days, and hours of each of them. Both are about the readings
// of a clock on a wall, which wall.go explains; here they are counted in minutes.

const (
	dayMinutes  = 24 * 60
	weekMinutes = 7 * dayMinutes

	everyWeekday = 1<<7 - 1  // all seven days of the week
	workdays     = 1<<6 - 2  // Monday to Friday
	weekend      = 1<<6 | 1  // Saturday and Sunday
	everyMonth   = 1<<13 - 2 // bits 1 to 12

	// lastBit stands for the last in the sets of days of the month and of weeks of the month.
	lastBit = 1

	// The years that a window may name. Earlier ones are slips of the pen.
	firstYear, lastWindowYear = 1970, 2199
)

// noDay is the bound of days that have none.
const noDay = int64(-1) << 40

// days is a set of days: those that meet all of its conditions. It can be compared.
type days struct {
	weekdays  uint8  // bit 0 is Sunday
	nth       uint8  // bits 1 to 5, and lastBit: which of these weekdays of a month; 0 is each
	monthDays uint32 // bits 1 to 31, and lastBit: which days of a month; 0 is each
	months    uint16 // bits 1 to 12

	season season // the part of each year

	first, last int64 // the first and the last day, counted from 1970-01-01; noDay is no bound

	// step is how many weeks, or days if weekdays are all, lie between one and the next, counted from first. 0 is each.
	step int64

	// coming marks a weekday that means the next one only, until it is known which day that is.
	coming bool
}

// season is a part of each year: from a day on and up to another, which may lie in the next year.
type season struct{ from, to annual }

// annual is a day of each year, as month*32 + day. So they can be compared.
type annual int

func annualOf(month time.Month, day int) annual { return annual(int(month)*32 + day) }

func (a annual) month() time.Month { return time.Month(a / 32) }
func (a annual) day() int          { return int(a % 32) }

// allDays is every day there is.
func allDays() days {
	return days{weekdays: everyWeekday, months: everyMonth, first: noDay, last: noDay}
}

// onlyDay is one day.
func onlyDay(number int64) days {
	d := allDays()
	d.first, d.last = number, number
	return d
}

// single reports whether it is a day that is named by its date, and nothing else.
func (d *days) single() bool { return d.first != noDay && *d == onlyDay(d.first) }

// civil is a day with its place in the calendar.
type civil struct {
	number      int64 // since 1970-01-01
	year        int
	month       time.Month
	day, length int // of the month
	weekday     time.Weekday
}

func civilOf(number int64) civil {
	t := time.Unix(number*daySeconds, 0).UTC()
	year, month, day := t.Date()
	return civil{number, year, month, day, monthLength(year, month), t.Weekday()}
}

// numberOf returns the number of a day.
func numberOf(year int, month time.Month, day int) int64 {
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / daySeconds
}

// next returns the day after c.
func (c civil) next() civil {
	c.number++
	c.weekday = (c.weekday + 1) % 7
	if c.day < c.length {
		c.day++
		return c
	}
	c.day = 1
	if c.month++; c.month > time.December {
		c.year, c.month = c.year+1, time.January
	}
	c.length = monthLength(c.year, c.month)
	return c
}

// has reports whether a day is in the set.
func (d *days) has(c civil) bool {
	switch {
	case d.weekdays>>c.weekday&1 == 0, d.months>>c.month&1 == 0,
		d.first != noDay && c.number < d.first,
		d.last != noDay && c.number > d.last:
		return false
	case d.monthDays != 0 && d.monthDays>>c.day&1 == 0 && (d.monthDays&lastBit == 0 || c.day != c.length):
		return false
	case d.nth != 0 && !d.hasNth(c):
		return false
	case d.step > 0:
		since := c.number - d.first
		if d.weekdays != everyWeekday {
			since /= 7
		}
		return since%d.step == 0
	}
	return d.season.has(c)
}

// hasNth reports whether c, which is one of the weekdays, is the right one of its month.
func (d *days) hasNth(c civil) bool {
	n := 0 // how many there have been, with this one
	for day := c.day; day >= 1; day-- {
		n += int(d.weekdays >> ((int(c.weekday) + 35 - (c.day - day)) % 7) & 1)
	}
	if n <= 5 && d.nth>>n&1 == 1 {
		return true
	}
	if d.nth&lastBit == 0 {
		return false
	}
	for day := c.day + 1; day <= c.length; day++ {
		if d.weekdays>>((int(c.weekday)+day-c.day)%7)&1 == 1 {
			return false
		}
	}
	return true
}

func (s season) has(c civil) bool {
	if s == (season{}) {
		return true
	}
	today := annualOf(c.month, c.day)
	if s.from <= s.to {
		return s.from <= today && today <= s.to
	}
	return s.from <= today || today <= s.to
}

// hours are minutes of a day, and, if there are more than are left of it, of the days after. They belong to the day on
// which they begin.
type hours struct{ start, length int64 }

// wholeDay is from midnight to midnight.
func wholeDay() hours { return hours{0, dayMinutes} }

// clause is the same hours on some days.
type clause struct {
	hours []hours
	days  []days
}

// whole reports whether it is whole days.
func (c *clause) whole() bool { return len(c.hours) == 1 && c.hours[0] == wholeDay() }

// always reports whether it is every minute there is.
func (c *clause) always() bool { return c.whole() && len(c.days) == 1 && c.days[0] == allDays() }

// reach is how many days after the one that it belongs to a minute of a clause may lie, unless it is on one day only.
const reach = 8

// recent is a day and those before it, the latest first, each when it is looked at.
type recent struct {
	days  [reach + 1]civil
	known int
}

func recentOf(number int64) *recent {
	r := new(recent)
	r.days[0], r.known = civilOf(number), 1
	return r
}

// today returns the number of the day.
func (r *recent) today() int64 { return r.days[0].number }

// back returns a day so many days before.
func (r *recent) back(n int64) civil {
	for ; r.known <= int(n); r.known++ {
		r.days[r.known] = civilOf(r.days[0].number - int64(r.known))
	}
	return r.days[n]
}

// advance goes on to the next day.
func (r *recent) advance() {
	next := r.days[0].next()
	copy(r.days[1:], r.days[:])
	r.days[0], r.known = next, min(r.known+1, len(r.days))
}

// minutes is a set of the minutes of a day.
type minutes [dayMinutes/64 + 1]uint64

// set puts the minutes from from on and before to in, or takes them out.
func (m *minutes) set(from, to int64, in bool) {
	for from, to = max(from, 0), min(to, dayMinutes); from < to; {
		word, bit := from/64, from%64
		n := min(64-bit, to-from)
		mask := (^uint64(0) >> (64 - n)) << bit
		if in {
			m[word] |= mask
		} else {
			m[word] &^= mask
		}
		from += n
	}
}

func (m *minutes) has(minute int64) bool { return m[minute/64]>>(minute%64)&1 == 1 }

// mark puts what a clause has on the latest day of r in the set, or takes it out.
func (c *clause) mark(r *recent, m *minutes, in bool) {
	for i := range c.days {
		d := &c.days[i]
		if d.single() {
			for _, h := range c.hours {
				start := (d.first-r.today())*dayMinutes + h.start
				m.set(start, start+h.length, in)
			}
			continue
		}
		longest := int64(0)
		for _, h := range c.hours {
			longest = max(longest, h.start+h.length)
		}
		for back := int64(0); back*dayMinutes < longest; back++ {
			if !d.has(r.back(back)) {
				continue
			}
			for _, h := range c.hours {
				start := h.start - back*dayMinutes
				m.set(start, start+h.length, in)
			}
		}
	}
}
