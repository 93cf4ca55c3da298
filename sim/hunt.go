package sim

// Hunt runs a mutant with the seeds from first on, at most so many, until one of the invariants that it counts for is
// broken. It returns the setup and the result of that run, and how many seeds it took; 0 if the mutant survives.
func Hunt(m *Mutant, first uint64, most int) (Setup, Result, int) {
	for n := range most {
		setup := m.Drawn(first + uint64(n))
		result := Run(setup)
		if v := result.Violation; v != nil && v.Among(m.Kills) != "" {
			return setup, result, n + 1
		}
	}
	return Setup{}, Result{}, 0
}

// Drawn draws a run that gives the mutant a chance.
func (m *Mutant) Drawn(seed uint64) Setup {
	if m.Scenario != "" {
		script, err := ScenarioByName(m.Scenario)
		if err != nil {
			panic("sim: " + err.Error())
		}
		setup, err := script.Setup() // which draws the submissions where the scenario names none
		if err != nil {
			panic("sim: " + err.Error())
		}
		setup.Break = m
		return setup
	}
	o := Swarm(seed)
	if m.Options != nil {
		m.Options(&o)
	}
	return Setup{Options: o, Break: m}
}
