package calendar

import (
	"errors"
	"math"
	"strings"
	"time"
)

// Form says what a duration looks like, to somebody who wrote another one.
const Form = "a time such as 100ms, 1m30s or 1d12h"

// ErrForm is the error of what is no duration.
var ErrForm = errors.New("it must be " + Form)

// ErrRange is the error of a duration of more than 292 years.
var ErrRange = errors.New("it must be less than 292 years, or 15,250 weeks")

// ParseDuration reads a duration. Its error is one sentence without the text.
func ParseDuration(text string) (time.Duration, error) {
	rest, negative := strings.CutPrefix(text, "-")
	if !negative {
		rest = strings.TrimPrefix(rest, "+")
	}
	if rest == "0" {
		return 0, nil
	}
	if rest == "" {
		return 0, ErrForm
	}
	sum := time.Duration(0)
	for rest != "" {
		var part time.Duration
		var err error
		if part, rest, err = component(rest); err != nil {
			return 0, err
		}
		if sum > math.MaxInt64-part {
			return 0, ErrRange
		}
		sum += part
	}
	if negative {
		sum = -sum
	}
	return sum, nil
}

// component reads the number and the unit that text begins with, and returns what follows them.
func component(text string) (time.Duration, string, error) {
	const digits = "0123456789."
	unit := strings.TrimLeft(text, digits)
	number := text[:len(text)-len(unit)]
	rest := ""
	if next := strings.IndexAny(unit, digits); next >= 0 {
		unit, rest = unit[:next], unit[next:]
	}
	factor := int64(1)
	switch unit {
	case "w":
		factor, unit = 7*24, "h"
	case "d":
		factor, unit = 24, "h"
	case "h", "m", "s", "ms", "us", "µs", "μs", "ns": // Both letters for micro are about.
	default:
		return 0, "", ErrForm
	}
	if strings.Trim(number, ".") == "" || strings.Count(number, ".") > 1 {
		return 0, "", ErrForm
	}
	d, err := time.ParseDuration(number + unit)
	if err != nil || int64(d) > math.MaxInt64/factor { // What is of the form can only be too long.
		return 0, "", ErrRange
	}
	return time.Duration(int64(d) * factor), rest, nil
}
