package proof

import (
	"fmt"
	"maps"
	"slices"
)

// Sort is a kind of thing that there may be any number of.
type Sort string

// Truth is the sort of what is true or false: of relations and formulas.
const Truth Sort = ""

// Symbol is a relation, or a function where Result is not Truth. Its first letter is small; its name may have spaces.
type Symbol struct {
	Name   string
	Args   []Sort
	Result Sort

	// Says is how people say it: "%s is stored". Each verb stands for an argument.
	Says string

	// Rigid says that no transition changes it: it is what things are, and not what becomes of them.
	Rigid bool

	// Kept says that it is a part of the store, and so of the store's images: it is set back with the store.
	Kept bool
}

// Expr is a term or a formula of first-order logic: a value that is built once and read by several readers, of which
// one writes it for a solver (Script) and one evaluates it in a given world (Structure.Holds). The zero value is none.
type Expr struct {
	op    operator
	name  string // of a variable or a symbol
	sort  Sort   // of a variable
	bound []Expr // by a quantifier
	args  []Expr
}

type operator int

const (
	opVariable operator = iota + 1
	opApply
	opEqual
	opNot
	opAnd
	opOr
	opForAll
	opExists
)

// Var returns a variable.
func Var(name string, sort Sort) Expr { return Expr{op: opVariable, name: name, sort: sort} }

// Apply returns a relation or a function of arguments.
func Apply(symbol string, args ...Expr) Expr { return Expr{op: opApply, name: symbol, args: args} }

// Equal says that two things are one.
func Equal(a, b Expr) Expr { return Expr{op: opEqual, args: []Expr{a, b}} }

// Not denies.
func Not(a Expr) Expr {
	if a.op == opNot {
		return a.args[0]
	}
	return Expr{op: opNot, args: []Expr{a}}
}

// And says all of several things; of nothing it is true.
func And(all ...Expr) Expr { return join(opAnd, all) }

// Or says one of several things; of nothing it is false.
func Or(all ...Expr) Expr { return join(opOr, all) }

func join(op operator, all []Expr) Expr {
	var flat []Expr
	for _, e := range all {
		if e.op == op {
			flat = append(flat, e.args...)
			continue
		}
		flat = append(flat, e)
	}
	if len(flat) == 1 {
		return flat[0]
	}
	return Expr{op: op, args: flat}
}

// Implies says that one thing follows from another.
func Implies(a, b Expr) Expr { return Or(Not(a), b) }

// If says one thing or another, by a third.
func If(condition, then, otherwise Expr) Expr {
	return And(Implies(condition, then), Implies(Not(condition), otherwise))
}

// ForAll says something of all things.
func ForAll(body Expr, bound ...Expr) Expr { return quantified(opForAll, body, bound) }

// Exists says that there is something.
func Exists(body Expr, bound ...Expr) Expr { return quantified(opExists, body, bound) }

func quantified(op operator, body Expr, bound []Expr) Expr {
	if len(bound) == 0 {
		return body
	}
	if body.op == op {
		return Expr{op: op, bound: append(slices.Clone(bound), body.bound...), args: body.args}
	}
	return Expr{op: op, bound: bound, args: []Expr{body}}
}

// False is never so.
func False() Expr { return Or() }

// rewrite returns the expression with everything replaced that change returns something for, the innermost first.
func (e Expr) rewrite(change func(Expr) (Expr, bool)) Expr {
	args := make([]Expr, len(e.args))
	for i, arg := range e.args {
		args[i] = arg.rewrite(change)
	}
	e.args = args
	if to, changed := change(e); changed {
		return to
	}
	return e
}

// with returns the expression with variables replaced by terms. No variable that is bound in it may have the name of
// one of them: names of parameters are not used for anything else.
func (e Expr) with(values map[string]Expr) Expr {
	return e.rewrite(func(e Expr) (Expr, bool) {
		if e.op != opVariable {
			return Expr{}, false
		}
		to, found := values[e.name]
		return to, found
	})
}

// apart returns the expression with other names for what is bound in it, which end with a mark, so that terms can take
// the place of its free variables: a variable of such a term would be bound otherwise.
func (e Expr) apart(mark string) Expr {
	names := map[string]bool{}
	e.bindings(names)
	return e.rewrite(func(e Expr) (Expr, bool) {
		switch {
		case e.op == opVariable && names[e.name]:
			return Var(e.name+mark, e.sort), true
		case e.op == opForAll || e.op == opExists:
			e.bound = slices.Clone(e.bound)
			for i, v := range e.bound {
				e.bound[i] = Var(v.name+mark, v.sort)
			}
			return e, true
		}
		return Expr{}, false
	})
}

// bindings adds the names of the variables that are bound in an expression to a set.
func (e Expr) bindings(names map[string]bool) {
	for _, v := range e.bound {
		names[v.name] = true
	}
	for _, arg := range e.args {
		arg.bindings(names)
	}
}

// mentions adds the names of the symbols in an expression to a set.
func (e Expr) mentions(names map[string]bool) {
	if e.op == opApply {
		names[e.name] = true
	}
	for _, arg := range e.args {
		arg.mentions(names)
	}
}

// check returns what is wrong with an expression: a symbol that does not exist, or arguments that do not fit it. bound
// are the variables that it may use.
func (e Expr) check(symbols map[string]Symbol, bound map[string]Sort) (Sort, error) {
	switch e.op {
	case opVariable:
		if sort, known := bound[e.name]; !known || sort != e.sort {
			return "", fmt.Errorf("the variable %s, of sort %q, is not bound", e.name, e.sort)
		}
		return e.sort, nil
	case opForAll, opExists:
		inner := map[string]Sort{}
		maps.Copy(inner, bound)
		for _, v := range e.bound {
			if _, twice := inner[v.name]; twice {
				return "", fmt.Errorf("the variable %s is bound twice", v.name)
			}
			inner[v.name] = v.sort
		}
		bound = inner
	default:
	}
	var sorts []Sort
	for _, arg := range e.args {
		sort, err := arg.check(symbols, bound)
		if err != nil {
			return "", err
		}
		sorts = append(sorts, sort)
	}
	switch e.op {
	case opApply:
		symbol, known := symbols[e.name]
		if !known {
			return "", fmt.Errorf("there is no symbol %q", e.name)
		}
		if !slices.Equal(sorts, symbol.Args) {
			return "", fmt.Errorf("%q is about %v, not %v", e.name, symbol.Args, sorts)
		}
		return symbol.Result, nil
	case opEqual:
		if sorts[0] != sorts[1] {
			return "", fmt.Errorf("a %s is compared with a %s", sorts[0], sorts[1])
		}
	default:
		for _, sort := range sorts {
			if sort != Truth {
				return "", fmt.Errorf("a %s is neither true nor false", sort)
			}
		}
	}
	return Truth, nil
}
