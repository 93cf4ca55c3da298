package sim_test

import (
	"os"
	"strings"
	"testing"

	"chronos/sim"
)

// TestScenarios runs each scenario as it is, which must pass and come by all of its points, and against each of its
// mutants, which must break the invariant that the scenario names.
func TestScenarios(t *testing.T) {
	scripts, err := sim.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	if len(scripts) < 40 {
		t.Fatalf("there are %d scenarios only", len(scripts))
	}
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) {
			result := runScript(t, s)
			v := result.Violation
			switch {
			case v != nil && v.Invariant != s.Expect:
				t.Errorf("breaks %s at %v: %s", v.Invariant, v.At, v.Detail)
			case v == nil && s.Expect != "":
				t.Errorf("does not break %s", s.Expect)
			}
			if v == nil && result.Stats.Drained < 0 && !strings.Contains(s.Name, "poison") {
				t.Error("is not drained in the end")
			}
			if len(result.Plan.Faults) == 0 && len(s.Plan.Faults) > 0 {
				t.Error("none of its faults has struck")
			}
			for _, point := range s.Sometimes {
				if result.Coverage[point] == 0 {
					t.Errorf("does not come by %s", point)
				}
			}
			for _, point := range s.Never {
				if result.Coverage[point] > 0 {
					t.Errorf("comes by %s", point)
				}
			}
			for _, against := range s.Against {
				broken := *s
				broken.Break = against.Mutant
				v := runScript(t, &broken).Violation
				if v == nil || v.Invariant != against.Invariant {
					t.Errorf("with %s it breaks %v, want %s", against.Mutant, v, against.Invariant)
				}
			}
		})
	}
}

// TestKept runs the plans that have found a mistake. They are kept forever, and must pass, or, where the mistake
// is not mended yet, break what they say.
func TestKept(t *testing.T) {
	scripts, err := sim.Scripts(os.DirFS("testdata/kept"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		t.Run(s.Name, func(t *testing.T) {
			v := runScript(t, s).Violation
			switch {
			case v == nil && s.Expect != "":
				t.Errorf("does not break %s any more: take its expect line out", s.Expect)
			case v != nil && v.Invariant != s.Expect:
				t.Errorf("breaks %s at %v: %s", v.Invariant, v.At, v.Detail)
			}
		})
	}
}

func runScript(t *testing.T, s *sim.Script) sim.Result {
	t.Helper()
	setup, err := s.Setup()
	if err != nil {
		t.Fatal(err)
	}
	return sim.Run(setup)
}
