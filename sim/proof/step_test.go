package proof_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"chronos/sim/proof"
)

// TestStepsAreWhatSolversAreAsked makes each transition in worlds that are drawn at random, and compares what each
// conjunct and each promise says afterwards with what its weakest precondition said before. Solvers are given the
// latter, and the follower of the simulator makes the former: both must mean the same step. In most of these worlds the
// step could not be made, which does not matter here.
func TestStepsAreWhatSolversAreAsked(t *testing.T) {
	s := proof.Ours()
	random := rand.New(rand.NewPCG(17, 1))
	changed := map[string]bool{}
	for range 24 {
		for at := range s.Transitions {
			transition := &s.Transitions[at]
			w, params := draw(s, transition, random)
			before := map[string]bool{}
			for _, claim := range append(s.Invariant, s.Promises...) {
				before[claim.Name] = w.Holds(transition.After(claim.Formula), params)
			}
			for _, change := range w.Apply(transition, params) {
				changed[transition.Name+": "+change.Relation] = true
			}
			for _, claim := range append(s.Invariant, s.Promises...) {
				if after := w.Holds(claim.Formula, nil); after != before[claim.Name] {
					t.Fatalf("%s: %q is %v after it, and was to be %v", transition.Name, claim.Name, after,
						before[claim.Name])
				}
			}
		}
	}
	for at := range s.Transitions {
		for _, update := range s.Transitions[at].Update {
			if what := s.Transitions[at].Name + ": " + update.Symbol; !changed[what] {
				t.Errorf("no world shows the update %s: it may change nothing", what)
			}
		}
	}
}

// draw returns a world of two things of each sort in which anything may be true, and what a transition is about.
func draw(s *proof.System, t *proof.Transition, random *rand.Rand) (*proof.World, map[string]proof.Element) {
	state := proof.NewStructure()
	for _, sort := range s.Sorts {
		for range 2 {
			state.Add(sort)
		}
	}
	pick := func(sort proof.Sort) proof.Element { return state.Things(sort)[random.IntN(2)] }
	for _, symbol := range s.Symbols {
		tuples := [][]proof.Element{nil}
		for _, sort := range symbol.Args {
			var longer [][]proof.Element
			for _, tuple := range tuples {
				for _, thing := range state.Things(sort) {
					longer = append(longer, append(slices.Clip(tuple), thing))
				}
			}
			tuples = longer
		}
		for _, tuple := range tuples {
			if symbol.Result != proof.Truth {
				state.Let(symbol.Name, pick(symbol.Result), tuple...)
			} else {
				state.Set(symbol.Name, random.IntN(2) == 0, tuple...)
			}
		}
	}
	params := map[string]proof.Element{}
	for _, p := range t.Params {
		params[p.Name()] = pick(p.Sort())
	}
	return &proof.World{Structure: state}, params
}
