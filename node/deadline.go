package node

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

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
	if isEpoch(value) {
		return parseEpoch(string(value), unit)
	}
	d, ok := splitDeadline(value)
	if !ok {
		return time.Time{}, errors.New("it is not of the form 2006-01-02T15:04:05.000Z")
	}
	year, month, day, hour, minute, second, nanos := d.year, d.month, d.day, d.hour, d.minute, d.second, d.nanos
	offset, err := parseOffset(d.zone)
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

// isEpoch reports whether value is a bare number of at most 18 digits.
func isEpoch(value []byte) bool {
	digits := value
	if len(digits) > 0 && digits[0] == '-' {
		digits = digits[1:]
	}
	return len(digits) >= 1 && len(digits) <= 18 && isDigits(digits)
}

// isDigits reports whether all of value is decimal digits.
func isDigits(value []byte) bool {
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// deadlineParts are the numbers of a deadline as it is written, and its zone, of which only the form is known.
type deadlineParts struct {
	year, month, day, hour, minute, second, nanos int
	zone                                          []byte
}

// splitDeadline reads the grammar of a deadline, and reports whether value is of it. It is written by hand because
// every record has a deadline, and a regular expression allocates.
func splitDeadline(value []byte) (d deadlineParts, ok bool) {
	rest, ok := value, true
	next := func(digits int, before string) int { // one of the characters, if any, and so many digits
		if before != "" {
			if len(rest) == 0 || strings.IndexByte(before, rest[0]) < 0 {
				ok = false
				return 0
			}
			rest = rest[1:]
		}
		if len(rest) < digits || !isDigits(rest[:digits]) {
			ok = false
			return 0
		}
		n := number(rest[:digits])
		rest = rest[digits:]
		return n
	}
	d.year, d.month, d.day = next(4, ""), next(2, "-"), next(2, "-")
	d.hour, d.minute = next(2, "Tt "), next(2, ":")
	if len(rest) > 0 && rest[0] == ':' {
		d.second = next(2, ":")
		if len(rest) > 0 && rest[0] == '.' {
			length := 0
			for length < len(rest)-1 && isDigits(rest[length+1:length+2]) {
				length++
			}
			ok = ok && length >= 1 && length <= 9
			d.nanos = next(length, ".")
			for ; length < 9; length++ {
				d.nanos *= 10
			}
		}
	}
	d.zone = rest
	return d, ok && isZone(rest)
}

// isZone reports whether zone is of the form of one, or empty: Z, +hhmm, +hh:mm or +hh.
func isZone(zone []byte) bool {
	switch {
	case len(zone) == 0, len(zone) == 1 && (zone[0] == 'Z' || zone[0] == 'z'):
		return true
	case zone[0] != '+' && zone[0] != '-':
		return false
	}
	switch digits := zone[1:]; len(digits) {
	case 2, 4:
		return isDigits(digits)
	case 5:
		return isDigits(digits[:2]) && digits[2] == ':' && isDigits(digits[3:])
	}
	return false
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
