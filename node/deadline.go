package node

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseDeadline reads an instant, as the header chronosDeadline has it:
//
//	deadline = date ("T" / "t" / " ") time [zone]  /  [day-name ","] D month YYYY time zone   of RFC 1123 and 5322
//	date     = YYYY "-" MM "-" DD                  a day of the Gregorian calendar
//	time     = hh ":" mm [":" ss [("." / ",") 1*9DIGIT]]   00:00 to 23:59; ss may be 60 in a leap second
//	zone     = [" "] ("Z" / "z" / "UTC" / "GMT" / ("+" / "-") hh [[":"] mm])   hh to 23, mm to 59; none means UTC
//
// A zone of "+0000 UTC" is that of an instant in UTC as Go prints it. The instant, in UTC, lies in the years 1 to 9999.
// Digits after the sixth of the fraction are rounded up, never down, so that a message is not early. A leap second,
// 23:59:60 in UTC, is the first second of the next day, for the same reason. A bare number, with a fraction or without,
// is read in unit, unless that is EpochRejected.
//
// The error is one sentence without the value. It says what is accepted, with an example.
func ParseDeadline(value []byte, unit EpochUnit) (time.Time, error) {
	if isNumber(value) {
		return parseEpoch(string(value), unit)
	}
	d, ok := splitDeadline(value)
	if !ok {
		if d, ok = splitNamed(string(value)); !ok {
			return time.Time{}, notDeadline(value)
		}
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
	if named := t.Weekday().String()[:3]; d.weekday != "" && d.weekday != named {
		return time.Time{}, fmt.Errorf("that day is a %s", t.Weekday())
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

// isNumber reports whether value is a bare number: digits after a sign or none, and perhaps a fraction.
func isNumber(value []byte) bool {
	whole, fraction, cut := bytes.Cut(value, []byte("."))
	whole = bytes.TrimPrefix(whole, []byte("-"))
	return len(whole) > 0 && isDigits(whole) && (!cut || len(fraction) > 0 && isDigits(fraction))
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

// deadlineParts are the numbers of a deadline as it is written, the name of its day ("" for none), and its zone: an
// offset of which only the form is known, or nothing for UTC.
type deadlineParts struct {
	year, month, day, hour, minute, second, nanos int
	weekday                                       string
	zone                                          []byte
}

// splitDeadline reads the grammar of a deadline, and reports whether value is of it. It is written by hand because
// every record has a deadline, and a regular expression allocates.
func splitDeadline(value []byte) (d deadlineParts, ok bool) {
	d, zone, ok := splitInstant(value)
	if !ok {
		return d, false
	}
	d.zone, ok = offsetOf(zone)
	return d, ok
}

// splitInstant reads date and time of a deadline. The rest is its zone, of which nothing is known.
func splitInstant(value []byte) (d deadlineParts, rest []byte, ok bool) {
	rest, ok = value, true
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
		if len(rest) > 0 && (rest[0] == '.' || rest[0] == ',') {
			length := 0
			for length < len(rest)-1 && isDigits(rest[length+1:length+2]) {
				length++
			}
			ok = ok && length >= 1 && length <= maxFraction
			d.nanos = next(min(length, maxFraction), ".,")
			for ; length < maxFraction; length++ {
				d.nanos *= 10
			}
		}
	}
	return d, rest, ok
}

// maxFraction is how many digits a fraction of a second may have.
const maxFraction = 9

// offsetOf returns the offset of a zone in writing, nothing for UTC, and whether it is of the form of a zone.
func offsetOf(zone []byte) (offset []byte, ok bool) {
	if len(zone) > 1 && zone[0] == ' ' {
		zone = zone[1:]
	}
	switch string(zone) {
	case "", "Z", "z", "UTC", "GMT", "+0000 UTC":
		return nil, true
	}
	if zone[0] != '+' && zone[0] != '-' {
		return nil, false
	}
	switch digits := zone[1:]; len(digits) {
	case 2, 4:
		return zone, isDigits(digits)
	case 5:
		return zone, isDigits(digits[:2]) && digits[2] == ':' && isDigits(digits[3:])
	}
	return nil, false
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
	if len(zone) == 0 {
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

// errBareNumber is for a bare number where nothing says what numbers count.
var errBareNumber = errors.New("bare numbers are not accepted, because they do not tell their unit: " + deadlineForm)

// parseEpoch reads a bare number. A fraction is rounded up to whole microseconds.
func parseEpoch(value string, unit EpochUnit) (time.Time, error) {
	if unit == EpochRejected {
		return time.Time{}, errBareNumber
	}
	whole, fraction, _ := strings.Cut(value, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || len(strings.TrimPrefix(whole, "-")) > 18 {
		return time.Time{}, errors.New("the number is too large")
	}
	kept := (fraction + "000000000")[:maxFraction]
	below := time.Duration(number([]byte(kept))) // billionths of the unit
	up := strings.Trim(fraction[min(len(fraction), maxFraction):], "0") != ""
	if unit == EpochMilliseconds {
		up = up || below%1000 != 0
		below /= 1000
	}
	switch {
	case whole[0] == '-':
		below = -below // what was cut off made it earlier
	case up:
		below++
	}
	switch unit {
	case EpochSeconds:
		return inRange(time.Unix(n, 0).UTC().Add(below))
	case EpochMilliseconds:
		return inRange(time.UnixMilli(n).UTC().Add(below))
	case EpochRejected:
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
