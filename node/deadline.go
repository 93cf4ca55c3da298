package node

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// deadlinePattern is the grammar of a deadline: RFC 3339, with the zone optional, the seconds optional, and the
// shorter forms +hhmm and +hh of ISO 8601 for the offset. Its groups are year, month, day, hour, minute,
// second, fraction, offset.
var deadlinePattern = regexp.MustCompile(
	`^(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?([Zz]|[+-]\d\d(?::?\d\d)?)?$`)

// epochPattern is a bare number.
var epochPattern = regexp.MustCompile(`^-?\d{1,18}$`)

// ParseDeadline reads the value of the header chronosDeadline:
//
//	deadline = date ("T" / "t" / " ") time [zone]
//	date     = YYYY "-" MM "-" DD                  a day of the Gregorian calendar
//	time     = hh ":" mm [":" ss ["." 1*9DIGIT]]   00:00 to 23:59; ss may be 60 in a leap second
//	zone     = "Z" / "z" / ("+" / "-") hh [[":"] mm]   hh to 23, mm to 59; none means UTC
//
// The instant, in UTC, lies in the years 1 to 9999. Digits after the sixth of the fraction are rounded up, never
// down, so that a message is not early. A leap second, 23:59:60 in UTC, is the first second of the next day,
// for the same reason. A bare number is read in unit, unless that is EpochRejected.
//
// The error is one sentence without the value.
func ParseDeadline(value []byte, unit EpochUnit) (time.Time, error) {
	if epochPattern.Match(value) {
		return parseEpoch(string(value), unit)
	}
	groups := deadlinePattern.FindSubmatch(value)
	if groups == nil {
		return time.Time{}, errors.New("it is not of the form 2006-01-02T15:04:05.000Z")
	}
	year, month, day := number(groups[1]), number(groups[2]), number(groups[3])
	hour, minute, second := number(groups[4]), number(groups[5]), number(groups[6])
	nanos := number(append(groups[7], "000000000"[len(groups[7]):]...))
	offset, err := parseOffset(groups[8])
	if err != nil {
		return time.Time{}, err
	}
	leap := second == 60
	if leap {
		second = 59
	}
	if hour > 23 || minute > 59 || second > 59 {
		return time.Time{}, errors.New("there is no such time of day")
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	if t.Month() != time.Month(month) || t.Day() != day {
		return time.Time{}, errors.New("there is no such day")
	}
	t = t.Add(-offset)
	if leap {
		if t.Hour() != 23 || t.Minute() != 59 {
			return time.Time{}, errors.New("a leap second comes at 23:59:60 UTC only")
		}
		t = t.Add(time.Second)
	}
	return inRange(t)
}

// number reads decimal digits that the grammar has bounded; none is 0.
func number(digits []byte) int {
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return n
}

func parseOffset(zone []byte) (time.Duration, error) {
	if len(zone) <= 1 {
		return 0, nil
	}
	hours, minutes := number(zone[1:3]), 0
	if len(zone) > 3 {
		minutes = number(zone[len(zone)-2:])
	}
	if hours > 23 || minutes > 59 {
		return 0, fmt.Errorf("there is no zone %s", zone)
	}
	offset := time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if zone[0] == '-' {
		return -offset, nil
	}
	return offset, nil
}

func parseEpoch(digits string, unit EpochUnit) (time.Time, error) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return time.Time{}, errors.New("the number is too large")
	}
	switch unit {
	case EpochRejected:
		return time.Time{}, errors.New("bare numbers are not accepted, because they do not tell their unit")
	case EpochSeconds:
		return inRange(time.Unix(n, 0).UTC())
	case EpochMilliseconds:
		return inRange(time.UnixMilli(n).UTC())
	}
	panic("unknown epoch unit")
}

// inRange rounds t up to whole microseconds and checks the year.
func inRange(t time.Time) (time.Time, error) {
	if rest := t.Nanosecond() % 1000; rest != 0 {
		t = t.Add(time.Duration(1000 - rest))
	}
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, errors.New("its year in UTC is not between 1 and 9999")
	}
	return t, nil
}
