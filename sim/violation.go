package sim

import (
	"slices"
	"time"
)

// Violation says which invariant was broken, when, and how.
type Violation struct {
	Invariant string
	Detail    string
	At        time.Duration
	Messages  []int // the submissions of the id concerned

	// Also are the other invariants that the same event breaks.
	Also []string
}

// Among returns the first of the invariants broken that is one of names; "" if none is.
func (v *Violation) Among(names []string) string {
	for _, broken := range append([]string{v.Invariant}, v.Also...) {
		if slices.Contains(names, broken) {
			return broken
		}
	}
	return ""
}
