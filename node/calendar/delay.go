package calendar

import (
	"errors"
	"math"
	"strings"
	"time"
)

// DelayForm says what a delay looks like, to somebody who wrote something else.
const DelayForm = Form + ", or PT1M30S of ISO 8601"

// The errors of ParseDelay.
var (
	ErrDelayForm = errors.New("it must be " + DelayForm)
	ErrNegative  = errors.New("it must not be negative")
	ErrMonths    = errors.New("months and years have no fixed length: count in days, such as P30D")
)

// ParseDelay reads a duration that is not negative, as Go writes it, with days and weeks, or in the form of ISO 8601.
// Fractions are exact down to the nanosecond. Its error is one sentence without the text.
func ParseDelay(text string) (time.Duration, error) {
	unsigned := strings.TrimLeft(text, "+-")
	if strings.HasPrefix(unsigned, "P") || strings.HasPrefix(unsigned, "p") {
		if unsigned != text {
			return 0, signed(text)
		}
		return parseISO(strings.Map(upper, text[1:]))
	}
	d, err := ParseDuration(text)
	switch {
	case errors.Is(err, ErrForm):
		return 0, ErrDelayForm
	case err != nil:
		return 0, err
	case d < 0:
		return 0, ErrNegative
	}
	return d, nil
}

// upper has ASCII only: elsewhere there are letters whose capital is an S.
func upper(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}

// signed tells what is wrong with a duration of ISO 8601 that begins with a sign.
func signed(text string) error {
	if strings.HasPrefix(text, "-P") || strings.HasPrefix(text, "-p") {
		return ErrNegative
	}
	return ErrDelayForm
}

// parseISO reads what follows the P.
func parseISO(text string) (time.Duration, error) {
	days, times, clock := strings.Cut(text, "T")
	if clock && times == "" {
		return 0, ErrDelayForm
	}
	sum, fraction, err := isoParts(days, "YMWD", times == "")
	if err != nil {
		return 0, err
	}
	if fraction && clock {
		return 0, ErrDelayForm // Only the last part may have one.
	}
	rest, _, err := isoParts(times, "HMS", true)
	if err != nil {
		return 0, err
	}
	if text == "" {
		return 0, ErrDelayForm
	}
	if sum > math.MaxInt64-rest {
		return 0, ErrRange
	}
	return sum + rest, nil
}

// isoParts adds numbers with units, each of which comes at most once and in the order of units. It reports whether
// there was a fraction, which only the last number may have, and only if these parts are the last.
func isoParts(text, units string, last bool) (time.Duration, bool, error) {
	sum, fraction := time.Duration(0), false
	for text != "" {
		end := strings.IndexFunc(text, func(r rune) bool { return r != '.' && r != ',' && (r < '0' || r > '9') })
		if end <= 0 || fraction {
			return 0, false, ErrDelayForm
		}
		number, unit := strings.Replace(text[:end], ",", ".", 1), text[end:end+1]
		at := strings.Index(units, unit)
		if at < 0 {
			return 0, false, ErrDelayForm
		}
		if fraction = strings.Contains(number, "."); fraction && !last {
			return 0, false, ErrDelayForm
		}
		if units[at] == 'Y' || units == "YMWD" && units[at] == 'M' {
			return 0, false, ErrMonths
		}
		part, _, err := component(number + strings.ToLower(unit))
		if errors.Is(err, ErrForm) {
			return 0, false, ErrDelayForm
		}
		if err != nil || sum > math.MaxInt64-part {
			return 0, false, ErrRange
		}
		sum += part
		units, text = units[at+1:], text[end+1:]
	}
	return sum, fraction, nil
}
