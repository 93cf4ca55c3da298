package chaos

import (
	"fmt"
	"slices"

	"chronos/sim/check"
)

// once looks at what a consumer has seen that reads what was committed, and returns what is broken of exactly once
// (S24): a submission that has come out more than once, on an output topic or as a dead letter, whatever went wrong.
// That it has come out at all is for S1. "" if nothing is broken.
func once(events []check.Event) string {
	copies := map[int]int{}
	for i := range events {
		if e := &events[i]; (e.Kind == check.Fire || e.Kind == check.Copy) && e.Message > 0 {
			copies[e.Message]++
		}
	}
	var twice []int
	for message, n := range copies {
		if n > 1 {
			twice = append(twice, message)
		}
	}
	if len(twice) == 0 {
		return ""
	}
	first := slices.Min(twice)
	return fmt.Sprintf("S24: %d submissions have come out more than once, such as %d, %d times",
		len(twice), first, copies[first])
}

// exactlyOnce demands that every message comes out once, and that nobody is told of an outcome twice: that is a record
// of the same transactions.
func exactlyOnce(r *run, _ *Result) string {
	if broken := once(r.events); broken != "" {
		return broken
	}
	for _, i := range r.submitter.instructed {
		if told := len(r.history.told[i.place]); told > 1 {
			return fmt.Sprintf("S24: the outcome of %s %s was told %d times", i.action, i.target.id, told)
		}
	}
	return ""
}
