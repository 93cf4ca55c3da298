package sim

import (
	"math/rand/v2"
	"time"
)

// instruct makes the submission an instruction about the message of another one: while that waits, close to its
// deadline, when it has appeared, or at some time. One in eight has another key, and so may overtake it.
func instruct(r *rand.Rand, s, other *Submission, o Options) {
	s.Action = pick(r, actions()...)
	s.ID, s.Route, s.Target = other.ID, other.Route, other.Target
	if !oneIn(r, 8) {
		s.Key = other.Key
	}
	aim(r, s, other, o)
}

// aim has a submission come at some distance from another one.
func aim(r *rand.Rand, s, other *Submission, o Options) {
	near := between(r, 0, 2*(o.Lookahead+o.PollInterval)) - o.Lookahead - o.PollInterval
	switch r.IntN(4) {
	case 0:
		s.At = other.At + between(r, 0, max(other.In, 100*time.Millisecond))
	case 1:
		s.At = other.At + max(other.In+near, 0)
	case 2:
		s.After, s.At = other.Number, between(r, 0, 20*time.Millisecond).Round(10*time.Microsecond)
		return
	}
	s.At = min(s.At, o.Faulty).Round(time.Millisecond)
}
