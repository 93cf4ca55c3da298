package proof

import (
	"fmt"
	"slices"
	"strings"
)

// symbolText writes a name as SMT-LIB has it: between bars it may be anything.
func symbolText(name string) string { return "|" + name + "|" }

// text writes an expression in SMT-LIB 2.6.
func (e Expr) text(s *strings.Builder) {
	list := func(head string, args []Expr) {
		s.WriteString("(" + head)
		for _, arg := range args {
			s.WriteByte(' ')
			arg.text(s)
		}
		s.WriteByte(')')
	}
	switch e.op {
	case opVariable:
		s.WriteString(symbolText(e.name))
	case opApply:
		if len(e.args) == 0 {
			s.WriteString(symbolText(e.name))
			return
		}
		list(symbolText(e.name), e.args)
	case opEqual:
		list("=", e.args)
	case opNot:
		list("not", e.args)
	case opAnd:
		if len(e.args) == 0 {
			s.WriteString("true")
			return
		}
		list("and", e.args)
	case opOr:
		if len(e.args) == 0 {
			s.WriteString("false")
			return
		}
		list("or", e.args)
	case opForAll, opExists:
		word := "forall"
		if e.op == opExists {
			word = "exists"
		}
		s.WriteString("(" + word + " (")
		for _, v := range e.bound {
			fmt.Fprintf(s, "(%s %s)", symbolText(v.name), v.sort)
		}
		s.WriteString(") ")
		e.args[0].text(s)
		s.WriteByte(')')
	}
}

// Text returns an expression in SMT-LIB 2.6.
func (e Expr) Text() string {
	var s strings.Builder
	e.text(&s)
	return s.String()
}

// Declarations returns the sorts, the symbols and the axioms of a system in SMT-LIB 2.6.
func (s *System) Declarations() string {
	var text strings.Builder
	for _, sort := range s.Sorts {
		fmt.Fprintf(&text, "(declare-sort %s 0)\n", sort)
	}
	for _, symbol := range s.Symbols {
		args := make([]string, len(symbol.Args))
		for i, arg := range symbol.Args {
			args[i] = string(arg)
		}
		result := string(symbol.Result)
		if symbol.Result == Truth {
			result = "Bool"
		}
		fmt.Fprintf(&text, "(declare-fun %s (%s) %s)\n", symbolText(symbol.Name), strings.Join(args, " "), result)
	}
	for _, axiom := range s.Axioms {
		text.WriteString(assert(axiom.Formula))
	}
	return text.String()
}

func assert(e Expr) string { return "(assert " + e.Text() + ")\n" }

// Obligation is one thing to be proved: that its claim follows from its premises. A solver is asked whether there is a
// world in which the premises are true and the claim is not.
type Obligation struct {
	// Step is the name of the transition, or Beginning, or Promised. Claim is the name of what is to be true after it.
	Step, Claim string

	premises []Expr
	params   []Expr
	claim    Expr
}

// The steps that are no transitions: that the invariant is true at the beginning, and that the promises follow.
const (
	Beginning = "the beginning"
	Promised  = "the promises"
)

// Obligations returns what is to be proved of a system. What a transition cannot change is not among it.
func (s *System) Obligations() []Obligation {
	var all []Obligation
	for _, claim := range s.Invariant {
		all = append(all, Obligation{
			Step: Beginning, Claim: claim.Name, premises: formulas(s.Initial),
			claim: claim.Formula,
		})
	}
	premises := formulas(s.Invariant)
	for i := range s.Transitions {
		t := &s.Transitions[i]
		before := append(slices.Clip(premises), t.Guard())
		for _, claim := range s.Invariant {
			if t.changes(claim.Formula) {
				all = append(all, Obligation{
					Step: t.Name, Claim: claim.Name, premises: before, params: t.Params, claim: t.after(claim.Formula),
				})
			}
		}
	}
	for _, claim := range s.Promises {
		all = append(all, Obligation{Step: Promised, Claim: claim.Name, premises: premises, claim: claim.Formula})
	}
	return all
}

// Possibilities returns an obligation for each transition that is not to be proved: that it is impossible. A transition
// that is impossible keeps everything, and says nothing.
func (s *System) Possibilities() []Obligation {
	premises := formulas(s.Invariant)
	all := []Obligation{{Step: Beginning, Claim: "it is possible", premises: formulas(s.Initial), claim: False()}}
	for i := range s.Transitions {
		t := &s.Transitions[i]
		all = append(all, Obligation{
			Step: t.Name, Claim: "it is possible", premises: append(slices.Clip(premises), t.Guard()), params: t.Params,
			claim: False(),
		})
	}
	return all
}

func formulas(all []Named) []Expr {
	list := make([]Expr, len(all))
	for i, named := range all {
		list[i] = named.Formula
	}
	return list
}

// Premises returns the part of the script of an obligation that it shares with all of the same step.
func (o *Obligation) Premises() string {
	var text strings.Builder
	for _, p := range o.params {
		fmt.Fprintf(&text, "(declare-const %s %s)\n", symbolText(p.name), p.sort)
	}
	for _, premise := range o.premises {
		text.WriteString(assert(premise))
	}
	return text.String()
}

// Denial returns the rest: that the claim is false.
func (o *Obligation) Denial() string { return assert(Not(o.claim)) }

// Params returns the things that its step is about: variables.
func (o *Obligation) Params() []Expr { return o.params }

// Sort returns the sort of a variable.
func (e Expr) Sort() Sort { return e.sort }

// Name returns the name of a variable.
func (e Expr) Name() string { return e.name }
