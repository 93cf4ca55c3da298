package proof

import (
	"fmt"
	"maps"
	"slices"
)

// System is a transition system: states, the ones that it may begin with, and steps from one to the next. A state is
// a set of things of each sort and what is true of them.
type System struct {
	Sorts   []Sort
	Symbols []Symbol

	// Axioms are true of what is rigid: that offsets are in an order, say.
	Axioms []Named

	// Initial is what is true before anything has happened.
	Initial []Named

	Transitions []Transition

	// Invariant is what is true in every state. It is inductive: true at the beginning, and kept by each transition.
	// None of it follows from the rest.
	Invariant []Named

	// Promises are statements of docs/CORRECTNESS.md about states. They follow from the invariant.
	Promises []Named
}

// Named is a formula with a name, and with words that say what it says.
type Named struct {
	Name    string
	Says    string
	Formula Expr
}

// Transition is one kind of step. It is possible where its guards hold, and it changes what its updates say, all at
// once, and nothing else.
type Transition struct {
	Name   string
	Says   string
	Params []Expr
	Guards []Named
	Update []Update
}

// Update gives a relation another meaning: from now on it is true of Of whatever To says, which is about the state
// before.
type Update struct {
	Symbol string
	Of     []Expr
	To     Expr
}

// Symbol finds a symbol.
func (s *System) Symbol(name string) (Symbol, bool) {
	i := slices.IndexFunc(s.Symbols, func(symbol Symbol) bool { return symbol.Name == name })
	if i < 0 {
		return Symbol{}, false
	}
	return s.Symbols[i], true
}

// Transition finds a transition. It panics if there is none: names are written in code.
func (s *System) Transition(name string) *Transition {
	i := slices.IndexFunc(s.Transitions, func(t Transition) bool { return t.Name == name })
	if i < 0 {
		panic(fmt.Sprintf("proof: there is no transition %q", name))
	}
	return &s.Transitions[i]
}

// Guard returns everything that a transition needs, as one formula.
func (t *Transition) Guard() Expr {
	all := make([]Expr, len(t.Guards))
	for i, guard := range t.Guards {
		all[i] = guard.Formula
	}
	return And(all...)
}

// changes reports whether the transition may change what a formula says.
func (t *Transition) changes(e Expr) bool {
	names := map[string]bool{}
	e.mentions(names)
	return slices.ContainsFunc(t.Update, func(u Update) bool { return names[u.Symbol] })
}

// after returns the formula that is true before the transition exactly if e is true after it.
func (t *Transition) after(e Expr) Expr {
	return e.apart("*").rewrite(func(e Expr) (Expr, bool) {
		if e.op != opApply {
			return Expr{}, false
		}
		for _, u := range t.Update {
			if u.Symbol == e.name {
				values := map[string]Expr{}
				for i, v := range u.Of {
					values[v.name] = e.args[i]
				}
				return u.To.apart("'").with(values), true
			}
		}
		return Expr{}, false
	})
}

// Check returns what is wrong with how a system is written down: unknown symbols, sorts that do not fit, names that
// come twice, or a rigid symbol that is changed. It says nothing about whether the system is right.
func (s *System) Check() error {
	symbols := map[string]Symbol{}
	for _, symbol := range s.Symbols {
		if _, twice := symbols[symbol.Name]; twice {
			return fmt.Errorf("the symbol %q comes twice", symbol.Name)
		}
		symbols[symbol.Name] = symbol
	}
	fits := func(what string, all []Named, bound map[string]Sort) error {
		names := map[string]bool{}
		for _, named := range all {
			if names[named.Name] {
				return fmt.Errorf("%s: %q comes twice", what, named.Name)
			}
			names[named.Name] = true
			sort, err := named.Formula.check(symbols, bound)
			if err != nil || sort != Truth {
				return fmt.Errorf("%s, %q: %w", what, named.Name, err)
			}
		}
		return nil
	}
	for what, all := range map[string][]Named{
		"axioms": s.Axioms, "initial states": s.Initial, "invariant": s.Invariant, "promises": s.Promises,
	} {
		if err := fits(what, all, nil); err != nil {
			return err
		}
	}
	for i := range s.Transitions {
		t := &s.Transitions[i]
		bound := map[string]Sort{}
		for _, p := range t.Params {
			bound[p.name] = p.sort
		}
		if err := fits(t.Name, t.Guards, bound); err != nil {
			return err
		}
		if err := t.checkUpdates(symbols, bound); err != nil {
			return err
		}
	}
	return nil
}

func (t *Transition) checkUpdates(symbols map[string]Symbol, params map[string]Sort) error {
	seen := map[string]bool{}
	for _, u := range t.Update {
		symbol, known := symbols[u.Symbol]
		if !known || symbol.Rigid || seen[u.Symbol] || len(u.Of) != len(symbol.Args) {
			return fmt.Errorf("%s cannot change %q", t.Name, u.Symbol)
		}
		seen[u.Symbol] = true
		bound := map[string]Sort{}
		maps.Copy(bound, params)
		for i, v := range u.Of {
			if _, taken := bound[v.name]; taken {
				return fmt.Errorf("%s, what %q becomes: the variable %s stands for two things", t.Name, u.Symbol,
					v.name)
			}
			if v.sort != symbol.Args[i] {
				return fmt.Errorf("%s changes %q of a %s", t.Name, u.Symbol, v.sort)
			}
			bound[v.name] = v.sort
		}
		if sort, err := u.To.check(symbols, bound); err != nil || sort != Truth {
			return fmt.Errorf("%s, what %q becomes: %w", t.Name, u.Symbol, err)
		}
	}
	return nil
}
