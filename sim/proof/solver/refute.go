package solver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/sim/proof"
)

// most is how many things of a sort a counterexample may have. What the proof says has few variables: where there is a
// counterexample there is one of few things.
const most = 4

// Refute finds a small state from which the step of an obligation breaks its claim, and the things that the step is
// about. It returns nothing if there is none.
func Refute(ctx context.Context, s *proof.System, o *proof.Obligation) (*proof.Counterexample, error) {
	session, err := Z3(time.Minute).Start(ctx)
	if err != nil {
		return nil, err
	}
	found, err := refute(session, s, o)
	return found, errors.Join(err, session.Close())
}

func refute(session *Session, s *proof.System, o *proof.Obligation) (*proof.Counterexample, error) {
	if err := session.Tell(s.Declarations() + o.Premises() + o.Denial()); err != nil {
		return nil, err
	}
	sizes := make([]int, len(s.Sorts))
	fits := func() (bool, error) {
		answer, err := session.Try(universe(s, sizes))
		return answer == Satisfiable, err
	}
	enough := false
	for size := 1; size <= most && !enough; size++ {
		for i := range sizes {
			sizes[i] = size
		}
		var err error
		if enough, err = fits(); err != nil {
			return nil, err
		}
	}
	if !enough {
		return nil, nil //nolint:nilnil // there is no counterexample, and nothing is wrong
	}
	for i := range sizes {
		for less := 1; less < sizes[i]; less++ {
			before := sizes[i]
			sizes[i] = less
			if ok, err := fits(); err != nil {
				return nil, err
			} else if ok {
				break
			}
			sizes[i] = before
		}
	}
	if err := session.Tell(universe(s, sizes)); err != nil {
		return nil, err
	}
	if err := empty(session, s); err != nil {
		return nil, err
	}
	return read(session, s, o, sizes)
}

// empty has as many relations as possible be true of nothing, so that the state has only what matters.
func empty(session *Session, s *proof.System) error {
	for _, symbol := range s.Symbols {
		if symbol.Result != proof.Truth {
			continue
		}
		var of []proof.Expr
		for at, sort := range symbol.Args {
			of = append(of, proof.Var(fmt.Sprintf("e%d", at), sort))
		}
		nothing := "(assert " + proof.ForAll(proof.Not(proof.Apply(symbol.Name, of...)), of...).Text() + ")\n"
		answer, err := session.Try(nothing)
		if err != nil {
			return err
		}
		if answer == Satisfiable {
			if err := session.Tell(nothing); err != nil {
				return err
			}
		}
	}
	answer, err := session.Ask()
	if err == nil && answer != Satisfiable {
		return fmt.Errorf("%s does not find again what it has found", session.solver.Name)
	}
	return err
}

func thing(sort proof.Sort, number int) string { return fmt.Sprintf("|%s %d|", sort, number) }

// universe says that there are so many things of each sort.
func universe(s *proof.System, sizes []int) string {
	var text strings.Builder
	for i, sort := range s.Sorts {
		var all, one []string
		for number := range sizes[i] {
			fmt.Fprintf(&text, "(declare-const %s %s)\n", thing(sort, number), sort)
			all = append(all, thing(sort, number))
			one = append(one, "(= x "+thing(sort, number)+")")
		}
		if len(all) > 1 {
			fmt.Fprintf(&text, "(assert (distinct %s))\n", strings.Join(all, " "))
		}
		fmt.Fprintf(&text, "(assert (forall ((x %s)) (or %s)))\n", sort, strings.Join(one, " "))
	}
	return text.String()
}

// read reads the world that the solver has found, one fact after another.
func read(session *Session, s *proof.System, o *proof.Obligation, sizes []int) (*proof.Counterexample, error) {
	state := proof.NewStructure()
	texts := map[proof.Sort][]string{}
	for i, sort := range s.Sorts {
		for number := range sizes[i] {
			state.Add(sort)
			texts[sort] = append(texts[sort], thing(sort, number))
		}
	}
	is := func(question string) (bool, error) {
		line, err := session.Read("(get-value (" + question + "))\n")
		return strings.HasSuffix(line, " true))"), err
	}
	// which returns the thing that a term is.
	which := func(term string, sort proof.Sort) (proof.Element, error) {
		for number, text := range texts[sort] {
			if same, err := is("(= " + term + " " + text + ")"); err != nil || same {
				return state.Things(sort)[number], err
			}
		}
		return 0, fmt.Errorf("%s does not say what %s is", session.solver.Name, term)
	}
	for _, symbol := range s.Symbols {
		err := each(symbol.Args, texts, state, func(terms []string, things []proof.Element) error {
			term := "|" + symbol.Name + "|"
			if len(terms) > 0 {
				term = "(" + term + " " + strings.Join(terms, " ") + ")"
			}
			if symbol.Result != proof.Truth {
				value, err := which(term, symbol.Result)
				state.Let(symbol.Name, value, things...)
				return err
			}
			to, err := is(term)
			state.Set(symbol.Name, to, things...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	params := map[string]proof.Element{}
	for _, param := range o.Params() {
		value, err := which(param.Text(), param.Sort())
		if err != nil {
			return nil, err
		}
		params[param.Name()] = value
	}
	return proof.NewCounterexample(s, o, state, params), nil
}

// each calls do for all things that a symbol may be about.
func each(
	sorts []proof.Sort, texts map[proof.Sort][]string, state *proof.Structure,
	do func(terms []string, things []proof.Element) error,
) error {
	var extend func(terms []string, things []proof.Element) error
	extend = func(terms []string, things []proof.Element) error {
		if len(terms) == len(sorts) {
			return do(terms, things)
		}
		sort := sorts[len(terms)]
		for number, text := range texts[sort] {
			err := extend(append(slices.Clip(terms), text),
				append(slices.Clip(things), state.Things(sort)[number]))
			if err != nil {
				return err
			}
		}
		return nil
	}
	return extend(nil, nil)
}

// Refutes reports whether z3 finds that a variant breaks what it is said to break, by the step that is said to do so.
func Refutes(ctx context.Context, v *proof.Variant) (found bool, err error) {
	s := v.System()
	for _, o := range s.Obligations() {
		if o.Step != v.By || o.Claim != v.Breaks {
			continue
		}
		err = Prove(ctx, s, []proof.Obligation{o}, []Solver{Z3(time.Minute)}, 1, func(r Result) bool {
			found = r.Answer == Satisfiable
			return true
		})
	}
	return found, err
}
