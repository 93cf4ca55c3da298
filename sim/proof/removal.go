package proof

import (
	"slices"
	"strings"
)

// Removal takes something away from a system: a conjunct of its invariant, or, where Transition is not empty, a guard
// of that transition.
type Removal struct {
	Transition, Name string

	// Images says that what the conjunct says of images is taken away with it. Each of the two alone is needed to keep
	// the other one, by save or by restore: that shows only that they belong together.
	Images bool
}

// imaged ends the name of a conjunct about images.
const imaged = ", images"

// Removals returns everything that can be taken away, each by itself.
func (s *System) Removals() (all []Removal) {
	for _, conjunct := range s.Invariant {
		all = append(all, Removal{Name: conjunct.Name})
		if name, image := strings.CutSuffix(conjunct.Name, imaged); image {
			all = append(all, Removal{Name: name, Images: true})
		}
	}
	for i := range s.Transitions {
		for _, guard := range s.Transitions[i].Guards {
			all = append(all, Removal{Transition: s.Transitions[i].Name, Name: guard.Name})
		}
	}
	return all
}

// Without returns the system without something.
func (s *System) Without(r Removal) *System {
	less := *s
	lacks := func(all []Named) []Named {
		return slices.DeleteFunc(slices.Clone(all), func(n Named) bool {
			return n.Name == r.Name || r.Images && n.Name == r.Name+imaged
		})
	}
	if r.Transition == "" {
		less.Invariant = lacks(s.Invariant)
		return &less
	}
	less.Transitions = slices.Clone(s.Transitions)
	t := less.Transition(r.Transition)
	t.Guards = lacks(t.Guards)
	return &less
}

// Concerned returns the obligations that may fail without it, those that fail most easily first: a step that needs a
// guard is that of its transition, and a conjunct can also be needed for a promise.
func (r Removal) Concerned(all []Obligation) []Obligation {
	var some []Obligation
	for _, o := range all {
		if r.Transition == "" && o.Step != Beginning || o.Step == r.Transition {
			some = append(some, o)
		}
	}
	if r.Transition == "" {
		slices.Reverse(some) // the promises first
	}
	return some
}
