package node

import (
	"slices"
	"sync"
	"time"
)

// advance is how long before its deadline a message is due. It is fixed, or follows the time that recent
// publishes took: the median of the last ones, so that one slow acknowledgement does not make the next hundred
// messages early.
type advance struct {
	adaptive bool
	most     time.Duration

	mu      sync.Mutex
	current time.Duration
	recent  []time.Duration // a ring once it is full
	oldest  int
}

const (
	// advanceSamples is how many recent publishes the adaptive advance looks at.
	advanceSamples = 31

	// advanceMinSamples is from how many on it does.
	advanceMinSamples = 5
)

// get returns the advance as it is now.
func (a *advance) get() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.current
}

// measured takes up the time from a publish to its acknowledgement.
func (a *advance) measured(latency time.Duration) {
	if !a.adaptive {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.recent) < advanceSamples {
		a.recent = append(a.recent, latency)
	} else {
		a.recent[a.oldest] = latency
		a.oldest = (a.oldest + 1) % advanceSamples
	}
	if len(a.recent) >= advanceMinSamples {
		sorted := slices.Sorted(slices.Values(a.recent))
		a.current = min(sorted[len(sorted)/2], a.most)
	}
}
