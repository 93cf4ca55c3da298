package node

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// deadlineForm says what is accepted. Its examples lie in the future for as long as this code may be in use.
const deadlineForm = "write an instant such as 2099-12-31T23:59:59Z, or with an offset, 2099-12-31T23:59:59+01:00"

// splitNamed reads an instant of RFC 1123 and 5322, such as Sat, 28 Nov 2026 21:24:45 GMT, as HTTP, mails and many
// languages have it, and reports whether value is one. Its zone must be there.
func splitNamed(value string) (d deadlineParts, ok bool) {
	words := strings.Split(value, " ")
	if day, named := strings.CutSuffix(words[0], ","); named {
		if !isName(day, weekdays) {
			return d, false
		}
		d.weekday, words = day, words[1:]
	}
	if len(words) != 5 || len(words[0]) < 1 || len(words[0]) > 2 || !isDigits([]byte(words[0])) ||
		!isName(words[1], months) || len(words[2]) != 4 || !isDigits([]byte(words[2])) || words[4] == "" {
		return d, false
	}
	month := strings.Index(months, words[1])/3 + 1
	clock, rest, ok := splitInstant([]byte("2000-01-01T" + words[3]))
	if !ok || len(rest) > 0 {
		return d, false
	}
	zone, ok := offsetOf([]byte(words[4]))
	clock.year, clock.month, clock.day = number([]byte(words[2])), month, number([]byte(words[0]))
	clock.weekday, clock.zone = d.weekday, zone
	return clock, ok
}

// The names of days and months, of three letters each.
const (
	weekdays = "SunMonTueWedThuFriSat"
	months   = "JanFebMarAprMayJunJulAugSepOctNovDec"
)

// isName reports whether a word is one of names, which are of three letters each.
func isName(word, names string) bool {
	at := strings.Index(names, word)
	return len(word) == 3 && at >= 0 && at%3 == 0
}

// notDeadline returns why value is not of the form of a deadline, and what is.
func notDeadline(value []byte) error {
	why := ""
	_, zone, ok := splitInstant(value)
	switch bracket := bytes.IndexByte(zone, '['); {
	case !ok && len(value) == len("2026-11-28") && isDate(value):
		why = "there is no time of day"
	case !ok:
		_, _, day := splitInstant(append([]byte("2000-01-01T"), value...))
		if day {
			why = "there is no date"
		}
	case bracket > 0 && isZone(zone[:bracket]):
		why = fmt.Sprintf("drop the %s at its end, since the zone before it says it all", quoted(zone[bracket:]))
	case bracket == 0:
		why = fmt.Sprintf("the %s at its end is no offset from UTC: write that of the instant in its place",
			quoted(zone))
	default:
		end := len(zone) - 1
		for end > 0 && !isZone(zone[:end]) {
			end--
		}
		why = fmt.Sprintf("drop the %s at its end, or write an offset from UTC there", quoted(zone[end:]))
		if end > 0 || strings.TrimSpace(string(zone)) == "" {
			why = fmt.Sprintf("drop the %s at its end", quoted(zone[end:]))
		}
	}
	if why == "" {
		return errors.New(deadlineForm)
	}
	return fmt.Errorf("%s: %s", why, deadlineForm)
}

// isZone reports whether zone is of the form of one, or empty.
func isZone(zone []byte) bool {
	_, ok := offsetOf(zone)
	return ok
}

// isDate reports whether value is a date as a deadline has it.
func isDate(value []byte) bool {
	_, err := time.Parse(time.DateOnly, string(value))
	return err == nil
}
