package bench

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// signed is a histogram of times that may be negative: exact to a microsecond and to three digits, whichever is
// coarser, up to a week on both sides. HdrHistogram counts what is not negative, so there are two of them.
type signed struct {
	before, after *hdrhistogram.Histogram // in microseconds; before has the absolute values
	min, max      time.Duration
}

// widest is the largest time that is told apart; what is beyond counts as this.
const widest = 7 * 24 * time.Hour

func newSigned() *signed {
	fresh := func() *hdrhistogram.Histogram { return hdrhistogram.New(1, widest.Microseconds(), 3) }
	return &signed{before: fresh(), after: fresh()}
}

// record counts a time.
func (s *signed) record(d time.Duration) {
	if s.count() == 0 {
		s.min, s.max = d, d
	}
	s.min, s.max = min(s.min, d), max(s.max, d)
	half, µs := s.after, d.Microseconds()
	if d < 0 {
		half, µs = s.before, -µs
	}
	if err := half.RecordValue(min(µs, widest.Microseconds())); err != nil {
		panic("a time within the bounds of the histogram: " + err.Error())
	}
}

func (s *signed) count() int64 { return s.before.TotalCount() + s.after.TotalCount() }

// at returns the value at a quantile from 0 to 1: the smallest that at least that share of all values does not exceed.
func (s *signed) at(quantile float64) time.Duration {
	all, early := s.count(), s.before.TotalCount()
	if all == 0 {
		return 0
	}
	rank := min(max(int64(math.Ceil(quantile*float64(all)-1e-9)), 1), all)
	of := func(h *hdrhistogram.Histogram, rank int64) time.Duration {
		return time.Duration(h.ValueAtQuantile(100*float64(rank)/float64(h.TotalCount()))) * time.Microsecond
	}
	d := of(s.after, max(rank-early, 1))
	if rank <= early {
		d = -of(s.before, early-rank+1)
	}
	return min(max(d, s.min), s.max)
}

// earlierThan counts the values that are below -bound for certain, which is not below 0.
func (s *signed) earlierThan(bound time.Duration) (count int64) {
	for _, bar := range s.before.Distribution() {
		if bar.From > bound.Microseconds() {
			count += bar.Count
		}
	}
	return count
}

// reset forgets all values.
func (s *signed) reset() {
	if s.count() == 0 {
		return
	}
	s.before.Reset()
	s.after.Reset()
	s.min, s.max = 0, 0
}

// Millis is a time in milliseconds, to the microsecond, as JSON has it.
type Millis float64

func millis(d time.Duration) Millis { return Millis(d.Microseconds()) / 1000 }

// Duration returns the time.
func (m Millis) Duration() time.Duration {
	return time.Duration(float64(m) * float64(time.Millisecond))
}

// Quantiles sum up a distribution of times, in milliseconds; negative ones are early.
type Quantiles struct {
	Count int64  `json:"count"`
	Min   Millis `json:"min_ms"`
	P50   Millis `json:"p50_ms"`
	P90   Millis `json:"p90_ms"`
	P99   Millis `json:"p99_ms"`
	P999  Millis `json:"p999_ms"`
	P9999 Millis `json:"p9999_ms"`
	Max   Millis `json:"max_ms"`
}

// quantiles sums up; nil if there is nothing.
func (s *signed) quantiles() *Quantiles {
	if s.count() == 0 {
		return nil
	}
	return &Quantiles{
		Count: s.count(), Min: millis(s.min), P50: millis(s.at(0.5)), P90: millis(s.at(0.9)), P99: millis(s.at(0.99)),
		P999: millis(s.at(0.999)), P9999: millis(s.at(0.9999)), Max: millis(s.max),
	}
}

// later returns the quantiles of what is d more.
func (q *Quantiles) later(d time.Duration) *Quantiles {
	if q == nil {
		return nil
	}
	by, moved := millis(d), *q
	for _, m := range []*Millis{
		&moved.Min, &moved.P50, &moved.P90, &moved.P99, &moved.P999, &moved.P9999, &moved.Max,
	} {
		*m = Millis(math.Round(float64(*m+by)*1000) / 1000)
	}
	return &moved
}

// A CurvePoint is a point of a cumulative distribution: that share of all values is at most this late.
type CurvePoint struct {
	Share float64 `json:"share"`
	Late  Millis  `json:"late_ms"`
}

// curve returns points for a picture that shows the slowest ones as well as the median: nine for each power of ten
// of what is beyond, as long as that is a value at least, and
// the latest value.
func (s *signed) curve() (points []CurvePoint) {
	n := float64(s.count())
	for beyond := 1.0; beyond*n >= 1; beyond /= 10 {
		for tenths := 10; tenths > 1 && n*beyond*float64(tenths)/10 >= 1; tenths-- {
			share := 1 - beyond*float64(tenths)/10
			points = append(points, CurvePoint{share, millis(s.at(share))})
		}
	}
	if n > 0 {
		points = append(points, CurvePoint{1 - 1/(2*n), millis(s.max)})
	}
	return points
}
