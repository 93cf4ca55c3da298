package calendar

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A window's words are cut into tokens, without regard to capitals, and whether there are spaces between them or not:
// "9am-5pm mon-fri" has six.

type tokenKind int

const (
	endToken     tokenKind = iota // of the text, and all there is behind it
	wordToken                     // letters
	numberToken                   // digits: an hour, a day or a year
	ordinalToken                  // 1st, 2nd
	timeToken                     // 9am, 9:30, 21.30
	dateToken                     // 2030-03-06, 06/03, 06/03/2030
	alwaysToken                   // 24/7
	symbolToken                   // any other character
)

type token struct {
	kind       tokenKind
	text       string // in lower case; dashes of all kinds are -
	start, end int    // where in the text, in bytes
	number     int
	clock      clock
	date       date
}

// clock is a time of the day as it was written.
type clock struct {
	hour, minute int
	half         string // am, pm or nothing
	minutes      bool   // minutes were given
	sure         bool   // of the 24 hours without am and pm: 17, 0 or 09:00
	full         bool   // two digits for the hour and two for the minutes: 11:30
	named        bool   // noon or midnight
}

// date is a day as it was written. Its year may be 0: then it is of each year.
type date struct {
	year  int
	month time.Month
	day   int
}

// The forms of tokens, in the order in which they are tried. They look at text in lower case.
var (
	alwaysForm  = regexp.MustCompile(`^24/7(?:$|[^/0-9])`)
	isoForm     = regexp.MustCompile(`^(\d{4})-(\d{1,2})-(\d{1,2})`)
	slashForm   = regexp.MustCompile(`^(\d{1,2})/(\d{1,2})(?:/(\d+))?`)
	ordinalForm = regexp.MustCompile(`^(\d{1,2})(?:st|nd|rd|th)\b`)
	timeForm    = regexp.MustCompile(`^(\d{1,2})(?:[:.](\d\d))?(?:[ \t]*(am\b|pm\b|a\.m\.|p\.m\.))?`)
	numberForm  = regexp.MustCompile(`^\d+`)
	wordForm    = regexp.MustCompile(`^[a-z]+`)
)

// tokens cuts a text up. The last of them is an endToken.
func tokens(text string) []token {
	lower := []byte(text)
	for i, b := range lower {
		if 'A' <= b && b <= 'Z' {
			lower[i] = b - 'A' + 'a'
		}
	}
	var all []token
	for at := 0; at < len(text); {
		if size := spaceAt(text[at:]); size > 0 {
			at += size
			continue
		}
		t := tokenAt(string(lower[at:]))
		if t.kind == symbolToken {
			r, size := utf8.DecodeRuneInString(text[at:])
			t.text, t.end = string(simple(r)), size
		}
		t.start, t.end = at, at+t.end
		all = append(all, t)
		at = t.end
	}
	return append(all, token{kind: endToken, start: len(text), end: len(text)})
}

// simple makes all dashes one.
func simple(r rune) rune {
	switch r {
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return '-'
	}
	return r
}

// spaceAt returns the size of the space that text begins with, if it does.
func spaceAt(text string) int {
	r, size := utf8.DecodeRuneInString(text)
	if unicode.IsSpace(r) {
		return size
	}
	return 0
}

// tokenAt returns the token that text, in lower case, begins with. Its end is its size.
func tokenAt(text string) token {
	if alwaysForm.MatchString(text) {
		return token{kind: alwaysToken, text: "24/7", end: len("24/7")}
	}
	if m := isoForm.FindStringSubmatch(text); m != nil && !digitAt(text, len(m[0])) {
		day := date{max(number(m[1]), 1), time.Month(number(m[2])), number(m[3])}
		return token{kind: dateToken, text: m[0], end: len(m[0]), date: day}
	}
	if m := slashForm.FindStringSubmatch(text); m != nil {
		day := date{0, time.Month(number(m[2])), number(m[1])}
		if m[3] != "" {
			day.year = max(number(m[3]), 1) // 0 means none
		}
		return token{kind: dateToken, text: m[0], end: len(m[0]), date: day}
	}
	if m := ordinalForm.FindStringSubmatch(text); m != nil {
		return token{kind: ordinalToken, text: m[0], end: len(m[0]), number: number(m[1])}
	}
	if m := timeForm.FindStringSubmatch(text); m != nil && (m[2] != "" || m[3] != "") && !digitAt(text, len(m[0])) {
		c := clock{hour: number(m[1]), minutes: m[2] != "", half: strings.ReplaceAll(m[3], ".", "")}
		if c.minutes {
			c.minute = number(m[2])
		}
		c.full = c.minutes && len(m[1]) == 2
		c.sure = c.half == "" && (c.hour > 12 || c.hour == 0 || m[1][0] == '0')
		return token{kind: timeToken, text: m[0], end: len(m[0]), clock: c}
	}
	if digits := numberForm.FindString(text); digits != "" {
		n := number(digits)
		c := clock{hour: n, sure: n > 12 || n == 0 || digits[0] == '0'}
		return token{kind: numberToken, text: digits, end: len(digits), number: n, clock: c}
	}
	if word := wordForm.FindString(text); word != "" {
		return token{kind: wordToken, text: word, end: len(word)}
	}
	return token{kind: symbolToken}
}

func digitAt(text string, at int) bool {
	return at < len(text) && '0' <= text[at] && text[at] <= '9'
}

// number returns the value of digits, or one that is too great for all that a number may be here.
func number(digits string) int {
	if len(digits) > 6 {
		return 1_000_000
	}
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 1_000_000
	}
	return n
}

// is reports whether the token is one of some words or symbols.
func (t *token) is(texts ...string) bool {
	if t.kind != wordToken && t.kind != symbolToken {
		return false
	}
	return slices.Contains(texts, t.text)
}

// month returns the month that the token names.
func (t *token) month() (time.Month, bool) {
	if t.kind != wordToken {
		return 0, false
	}
	month := time.January
	for name := range strings.FieldsSeq(monthNames) {
		if t.text == name || t.text == name[:3] || t.text == "sept" && month == time.September {
			return month, true
		}
		month++
	}
	return 0, false
}

// weekday returns the day of the week that the token names, and whether it is in the plural.
func (t *token) weekday() (day time.Weekday, plural, found bool) {
	if t.kind != wordToken {
		return 0, false, false
	}
	for name := range strings.FieldsSeq(weekdayNames) {
		switch t.text {
		case name + "s":
			return day, true, true
		case name, name[:3]:
			return day, false, true
		}
		day++
	}
	switch t.text {
	case "tues":
		return time.Tuesday, false, true
	case "weds":
		return time.Wednesday, false, true
	case "thur", "thurs":
		return time.Thursday, false, true
	}
	return 0, false, false
}

// lastOrdinal is the number of the ordinal "last".
const lastOrdinal = -1

// ordinal returns the number that the token says: 1st, first, last.
func (t *token) ordinal() (int, bool) {
	switch t.kind {
	case ordinalToken:
		return t.number, true
	case wordToken:
		for i, name := range []string{"first", "second", "third", "fourth", "fifth"} {
			if t.text == name {
				return i + 1, true
			}
		}
		return lastOrdinal, t.text == "last"
	default:
		return 0, false
	}
}
