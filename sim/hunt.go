package sim

import "slices"

// Hunt runs a mutant with the seeds from first on, at most so many, until one of the invariants that it counts for is
// broken. It returns the setup and the result of that run, and how many seeds it took; 0 if the mutant survives.
func Hunt(m *Mutant, first uint64, most int) (Setup, Result, int) {
	for n := range most {
		setup := Setup{Options: m.swarm(first + uint64(n)), Break: m}
		result := Run(setup)
		if v := result.Violation; v != nil && slices.Contains(m.Kills, v.Invariant) {
			return setup, result, n + 1
		}
	}
	return Setup{}, Result{}, 0
}

// swarm draws the options of a run that gives the mutant a chance.
func (m *Mutant) swarm(seed uint64) Options {
	o := Swarm(seed)
	if m.Options != nil {
		m.Options(&o)
	}
	return o
}
