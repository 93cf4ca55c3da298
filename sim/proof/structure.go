package proof

import (
	"fmt"
	"slices"
)

// Element is a thing in a world: the place of its name in the list of all things.
type Element int32

// tuple are the arguments of a relation or a function, which has three at the most.
type tuple [3]Element

// Structure is a state: things of each sort, what is true of them, and what the functions say of them. It evaluates
// the same formulas that a solver is given.
type Structure struct {
	sorts  map[Sort][]Element
	facts  map[string]map[tuple]bool
	values map[string]map[tuple]Element

	// Computed are rigid relations that are not listed: orders.
	Computed map[string]func(a, b Element) bool

	next Element
}

// NewStructure returns a state of no things.
func NewStructure() *Structure {
	return &Structure{
		sorts: map[Sort][]Element{}, facts: map[string]map[tuple]bool{}, values: map[string]map[tuple]Element{},
		Computed: map[string]func(a, b Element) bool{},
	}
}

// Add adds a thing.
func (s *Structure) Add(sort Sort) Element {
	s.next++
	s.sorts[sort] = append(s.sorts[sort], s.next)
	return s.next
}

// Things returns the things of a sort.
func (s *Structure) Things(sort Sort) []Element { return s.sorts[sort] }

func tupleOf(args []Element) (t tuple) {
	copy(t[:], args)
	return t
}

// Set makes a relation true or false of things.
func (s *Structure) Set(relation string, to bool, args ...Element) {
	facts := s.facts[relation]
	if facts == nil {
		facts = map[tuple]bool{}
		s.facts[relation] = facts
	}
	if to {
		facts[tupleOf(args)] = true
	} else {
		delete(facts, tupleOf(args))
	}
}

// Clear makes a relation true of nothing.
func (s *Structure) Clear(relation string) { clear(s.facts[relation]) }

// Is reports whether a relation is true of things.
func (s *Structure) Is(relation string, args ...Element) bool {
	if compute := s.Computed[relation]; compute != nil {
		return compute(args[0], args[1])
	}
	return s.facts[relation][tupleOf(args)]
}

// Let gives a function its value.
func (s *Structure) Let(function string, value Element, args ...Element) {
	values := s.values[function]
	if values == nil {
		values = map[tuple]Element{}
		s.values[function] = values
	}
	values[tupleOf(args)] = value
}

// Value returns what a function says of things; zero for nothing.
func (s *Structure) Value(function string, args ...Element) Element {
	return s.values[function][tupleOf(args)]
}

// World is a part of a state in which formulas are evaluated: what is said of all things is said of these. It is the
// whole state, or what matters of it.
type World struct {
	*Structure

	// Only are the things of some sorts; those of the others are all that there are.
	Only map[Sort][]Element
}

// things returns the things that quantifiers range over.
func (w *World) things(sort Sort) []Element {
	if some, limited := w.Only[sort]; limited {
		return some
	}
	return w.sorts[sort]
}

// binding gives variables their values. A formula has few: a list is faster than a map.
type binding struct {
	name  string
	thing Element
}

// Holds reports whether a formula is true where its variables are things.
func (w *World) Holds(e Expr, values map[string]Element) bool {
	return w.holds(e, bindings(values))
}

func bindings(values map[string]Element) (bound []binding) {
	for name, thing := range values {
		bound = append(bound, binding{name, thing})
	}
	return bound
}

func (w *World) holds(e Expr, bound []binding) bool {
	switch e.op {
	case opApply:
		var args tuple
		for i, arg := range e.args {
			args[i] = w.term(arg, bound)
		}
		if compute := w.Computed[e.name]; compute != nil {
			return compute(args[0], args[1])
		}
		return w.facts[e.name][args]
	case opEqual:
		return w.term(e.args[0], bound) == w.term(e.args[1], bound)
	case opNot:
		return !w.holds(e.args[0], bound)
	case opAnd:
		for _, arg := range e.args {
			if !w.holds(arg, bound) {
				return false
			}
		}
		return true
	case opOr:
		for _, arg := range e.args {
			if w.holds(arg, bound) {
				return true
			}
		}
		return false
	case opForAll:
		return w.each(e, 0, bound, true)
	case opExists:
		return !w.each(e, 0, bound, false)
	default:
		panic("proof: this is no formula")
	}
}

// each reports whether the body of a quantifier is as wanted for all things.
func (w *World) each(e Expr, at int, bound []binding, wanted bool) bool {
	if at == len(e.bound) {
		return w.holds(e.args[0], bound) == wanted
	}
	v := e.bound[at]
	for _, thing := range w.things(v.sort) {
		if !w.each(e, at+1, append(bound, binding{v.name, thing}), wanted) {
			return false
		}
	}
	return true
}

// term returns the thing that a term is.
func (w *World) term(e Expr, bound []binding) Element {
	if e.op == opVariable {
		for _, v := range slices.Backward(bound) {
			if v.name == e.name {
				return v.thing
			}
		}
		panic(fmt.Sprintf("proof: nobody has said what %s is", e.name))
	}
	var args tuple
	for i, arg := range e.args {
		args[i] = w.term(arg, bound)
	}
	return w.values[e.name][args]
}

// Missing returns the name of the first guard of a transition that does not hold, or nothing.
func (w *World) Missing(t *Transition, params map[string]Element) string {
	bound := bindings(params)
	for _, guard := range t.Guards {
		if !w.holds(guard.Formula, bound) {
			return guard.Name
		}
	}
	return ""
}

// Change is one thing that a step has made true, or false.
type Change struct {
	Relation string
	Args     []Element
	To       bool
}

// Apply makes a step, and returns what it has changed of the things of this world. It does not look at the guards.
func (w *World) Apply(t *Transition, params map[string]Element) []Change {
	var changes []Change
	for _, u := range t.Update {
		w.outcomes(u, nil, bindings(params), &changes)
	}
	for _, c := range changes {
		w.Set(c.Relation, c.To, c.Args...)
	}
	return changes
}

// outcomes finds what an update changes.
func (w *World) outcomes(u Update, args []Element, bound []binding, changes *[]Change) {
	if len(args) == len(u.Of) {
		if to := w.holds(u.To, bound); to != w.facts[u.Symbol][tupleOf(args)] {
			*changes = append(*changes, Change{u.Symbol, slices.Clone(args), to})
		}
		return
	}
	v := u.Of[len(args)]
	for _, thing := range w.things(v.sort) {
		w.outcomes(u, append(args, thing), append(bound, binding{v.name, thing}), changes)
	}
}

// Count returns of how many things a relation is true.
func (s *Structure) Count(relation string) int { return len(s.facts[relation]) }
