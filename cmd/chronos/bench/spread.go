package bench

import (
	"errors"
	"math"
	"strings"
)

// Spread is a distribution of sizes or delays: one value, all values of a range alike, or exponential.
type Spread struct {
	Low, High float64 // the same for one value
	Mean      float64 // of an exponential one, which is cut at Low and High; 0 for the others
}

// ParseSpread reads 5s, 3s..6s or exp:5s, of which parse reads the values.
func ParseSpread(text string, parse func(string) (float64, error)) (Spread, error) {
	if mean, is := strings.CutPrefix(text, "exp:"); is {
		value, err := parse(mean)
		if err == nil && value <= 0 {
			err = errors.New("the mean of an exponential distribution is above 0")
		}
		// What is beyond ten times the mean, one in 22,000, is cut, so that a run has an end.
		return Spread{Low: 0, High: 10 * value, Mean: value}, err
	}
	low, high, isRange := strings.Cut(text, "..")
	if !isRange {
		high = low
	}
	var s Spread
	var err error
	if s.Low, err = parse(low); err != nil {
		return s, err
	}
	if s.High, err = parse(high); err != nil {
		return s, err
	}
	if s.Low > s.High || s.Low < 0 {
		return s, errors.New("a range begins with its lower end, and not below 0")
	}
	return s, nil
}

// One returns the distribution of one value.
func One(value float64) Spread { return Spread{Low: value, High: value} }

// at returns the value at a quantile.
func (s *Spread) at(quantile float64) float64 {
	if s.Mean > 0 {
		return max(min(-s.Mean*math.Log1p(-quantile), s.High), s.Low)
	}
	return s.Low + quantile*(s.High-s.Low)
}
