package calendar

import (
	"math/bits"
	"time"
)

// A wall time is a reading of a clock with a date, as the number of seconds since 1970-01-01 00:00:00 on that clock. It
// is no instant: a zone may show it once, twice or not at all.

const (
	daySeconds = 24 * 60 * 60

	// lastYear is the last year in which something comes: a deadline lies in the years 1 to 9999.
	lastYear = 9999
)

// next returns the first wall time from from on that the expression matches. There may be none up to the year 9999.
func (c *cron) next(from int64) (int64, bool) {
	t := time.Unix(from, 0).UTC()
	year, month, day := t.Date()
	for ; year <= lastYear; month, day = month+1, 1 {
		if month > 12 {
			year, month = year+1, 0 // The loop makes it January.
			continue
		}
		if c.months>>month&1 == 0 {
			continue
		}
		for rest := c.daysOf(year, month) &^ (1<<day - 1); rest != 0; rest &= rest - 1 {
			start := time.Date(year, month, bits.TrailingZeros64(rest), 0, 0, 0, 0, time.UTC).Unix()
			if second, found := c.timeOfDay(max(0, from-start)); found {
				return start + second, true
			}
		}
	}
	return 0, false
}

// count counts the wall times from from on and before to that the expression matches. It takes a step for each month.
func (c *cron) count(from, to int64) int64 {
	if from >= to {
		return 0
	}
	first, last := dayOf(from), dayOf(to)
	n := c.countDays(first, last) * c.daily()
	if c.matchesDay(last) {
		n += c.before(to - last*daySeconds)
	}
	if c.matchesDay(first) {
		n -= c.before(from - first*daySeconds)
	}
	return n
}

// matches reports whether the expression matches a wall time.
func (c *cron) matches(wall int64) bool {
	next, found := c.next(wall)
	return found && next == wall
}

// dayOf returns the number of the day since 1970-01-01.
func dayOf(wall int64) int64 {
	day := wall / daySeconds
	if wall%daySeconds < 0 {
		day--
	}
	return day
}

// countDays counts the days from first on and before last that the expression matches.
func (c *cron) countDays(first, last int64) int64 {
	n := int64(0)
	for first < last {
		year, month, day := time.Unix(first*daySeconds, 0).UTC().Date()
		length := int64(monthLength(year, month))
		end := min(int64(day)+last-first, length+1) // the first day of this month that does not count
		if c.months>>month&1 == 1 {
			n += int64(bits.OnesCount64(c.daysOf(year, month) & (1<<end - 1) &^ (1<<day - 1)))
		}
		first += end - int64(day)
	}
	return n
}

func (c *cron) matchesDay(number int64) bool {
	year, month, day := time.Unix(number*daySeconds, 0).UTC().Date()
	return c.months>>month&1 == 1 && c.daysOf(year, month)>>day&1 == 1
}

// everMatches reports whether a day matches in any year. The calendar repeats itself after 400 years, day of the week
// and all.
func (c *cron) everMatches() bool {
	for year := 2000; year < 2400; year++ {
		for months := c.months; months != 0; months &= months - 1 {
			if c.daysOf(year, time.Month(bits.TrailingZeros64(months))) != 0 {
				return true
			}
		}
	}
	return false
}

// daysOf returns the days that match in a month of the expression, as bits 1 to 31. Of the two fields for days either
// is enough, unless one of them begins with a *: then both have to match. So it is since Vixie's cron, and by it
// 1-7 * */7 is the first Sunday.
func (c *cron) daysOf(year int, month time.Month) uint64 {
	length := monthLength(year, month)
	all := uint64(1)<<(length+1) - 2
	first := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).Weekday()
	weekday := func(day int) time.Weekday { return (first + time.Weekday(day-1)) % 7 }
	days := c.days
	if c.lastDay {
		days |= 1 << length
	}
	if c.lastWorkday {
		days |= 1 << nearestWorkday(length, length, weekday)
	}
	for rest := c.workdays & all; rest != 0; rest &= rest - 1 {
		days |= 1 << nearestWorkday(bits.TrailingZeros64(rest), length, weekday)
	}
	var weekdays uint64
	for day := 1; day <= length; day++ {
		here := c.weekdays | c.nthWeekdays[(day-1)/7]
		if day+7 > length {
			here |= c.lastWeekdays
		}
		weekdays |= here >> weekday(day) & 1 << day
	}
	if c.starDay || c.starWeekday {
		return days & weekdays & all
	}
	return (days | weekdays) & all
}

// nearestWorkday returns the nearest day from Monday to Friday in the same month.
func nearestWorkday(day, length int, weekday func(day int) time.Weekday) int {
	switch off := weekday(day); {
	case off == time.Saturday && day == 1:
		return 3
	case off == time.Saturday:
		return day - 1
	case off == time.Sunday && day == length:
		return day - 2
	case off == time.Sunday:
		return day + 1
	}
	return day
}

func monthLength(year int, month time.Month) int {
	return time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
}

// timeOfDay returns the first time of the day, in seconds, from from on that matches.
func (c *cron) timeOfDay(from int64) (int64, bool) {
	hour, minute, second := from/3600, from/60%60, from%60
	if hour >= 24 {
		return 0, false
	}
	if c.hours>>hour&1 == 1 {
		if c.minutes>>minute&1 == 1 {
			if rest := c.seconds >> second; rest != 0 {
				return from + int64(bits.TrailingZeros64(rest)), true
			}
		}
		if rest := c.minutes >> (minute + 1); rest != 0 {
			minute += 1 + int64(bits.TrailingZeros64(rest))
			return hour*3600 + minute*60 + int64(bits.TrailingZeros64(c.seconds)), true
		}
	}
	rest := c.hours >> (hour + 1)
	if rest == 0 {
		return 0, false
	}
	hour += 1 + int64(bits.TrailingZeros64(rest))
	return hour*3600 + int64(bits.TrailingZeros64(c.minutes))*60 + int64(bits.TrailingZeros64(c.seconds)), true
}

// before counts the times of the day before second number to that match.
func (c *cron) before(to int64) int64 {
	hour, minute, second := to/3600, to/60%60, to%60
	below := func(set uint64, n int64) int64 { return int64(bits.OnesCount64(set & (1<<n - 1))) }
	minutes, seconds := int64(bits.OnesCount64(c.minutes)), int64(bits.OnesCount64(c.seconds))
	n := below(c.hours, hour) * minutes * seconds
	if c.hours>>hour&1 == 1 {
		n += below(c.minutes, minute) * seconds
		if c.minutes>>minute&1 == 1 {
			n += below(c.seconds, second)
		}
	}
	return n
}
