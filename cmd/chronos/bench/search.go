package bench

import (
	"context"
	"fmt"
	"math"
)

// Search looks for the highest steady rate that a service holds.
type Search struct {
	// From is the first rate that is tried, and To the last.
	From, To float64

	// Within is how near the answer is to the limit, as a share: with 0.05 a rate that is 5 % higher has failed.
	Within float64

	// Tries is how often a rate is tried before it counts as failed: a hiccup of the machine shall not decide. Once is
	// enough for a rate to count as held.
	Tries int
}

// Step is one try of a rate.
type Step struct {
	Rate float64 `json:"rate"`
	Held bool    `json:"held"`
	Why  string  `json:"why,omitempty"` // why it was not

	Result *Result `json:"result,omitempty"`
}

// Found is what a search has found.
type Found struct {
	Rate  float64 `json:"rate"` // the highest that was held; 0 for none
	Bound string  `json:"bound"`
	Open  bool    `json:"open"`            // even To was held, so that the limit is higher
	Ended string  `json:"ended,omitempty"` // why the search has ended before it was done
	Steps []Step  `json:"steps"`
	Best  *Result `json:"best,omitempty"`
}

// lowestRate is where a search that only goes down gives up.
const lowestRate = 1

// Find doubles the rate until one is not held, or halves it until one is, and then halves the gap between the two.
func (s *Search) Find(ctx context.Context, try func(ctx context.Context, rate float64) (Step, error)) (*Found, error) {
	found := new(Found)
	held := func(rate float64) (bool, error) {
		for range max(s.Tries, 1) {
			step, err := try(ctx, rate)
			if err != nil {
				return false, err
			}
			found.Steps = append(found.Steps, step)
			if step.Held {
				if rate > found.Rate {
					found.Rate, found.Best = rate, step.Result
				}
				return true, nil
			}
		}
		return false, nil
	}
	low, high, rate := 0.0, 0.0, s.From // the highest held, the lowest failed
	for {
		ok, err := held(rate)
		switch {
		case err != nil:
			return found, err
		case ok:
			low = rate
		default:
			high = rate
		}
		switch {
		case high == 0 && low >= s.To:
			found.Open = true
			return found, nil
		case high == 0:
			rate = min(2*low, s.To)
		case low == 0 && high/2 < lowestRate:
			return found, nil
		case low == 0:
			rate = high / 2
		case high <= low*(1+s.Within):
			return found, nil
		default:
			rate = math.Round(math.Sqrt(low * high))
			if rate <= low || rate >= high {
				return found, nil
			}
		}
	}
}

// Holds reports whether a result holds a bound on the p99.9 of what was received, after it was due; why is why not.
func (r *Result) Holds(p999 Millis) (held bool, why string) {
	switch {
	case !r.Passed():
		return false, r.Faults[0]
	case r.Integrity.Waiting > 0:
		return false, fmt.Sprintf("it was cut short, and %d messages had not come", r.Integrity.Waiting)
	case r.Sent.Acknowledged < r.Sent.Planned:
		return false, fmt.Sprintf("%d of %d messages were acknowledged by Kafka", r.Sent.Acknowledged, r.Sent.Planned)
	case r.Received == nil:
		return false, "nothing came"
	case !r.KeptUp() || r.Sent.Overdue > 0:
		return false, fmt.Sprintf("the generator sent %.0f messages/s, up to %.0f ms late: "+
			"it, this machine or Kafka is the limit", r.Sent.PerSecond, r.Sent.Late.Max)
	case r.Received.AfterDue.P999 >= p999:
		return false, fmt.Sprintf("p99.9 was %.1f ms", r.Received.AfterDue.P999)
	}
	return true, ""
}
