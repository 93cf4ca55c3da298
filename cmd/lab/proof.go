package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"chronos/sim/proof"
	"chronos/sim/proof/solver"
)

// proofCommand has solvers check the proof of the algorithm.
type proofCommand struct {
	Variant string        `placeholder:"NAME" help:"Only show how this variant is refuted."`
	All     bool          `help:"Show each transition with each conjunct, and not only the sums."`
	Solver  []string      `enum:"z3,cvc5" default:"z3,cvc5" help:"Which solvers to ask."`
	Limit   time.Duration `default:"1m" help:"How long a solver may think about one question."`
	Text    bool          `help:"Print what a solver is asked, in SMT-LIB 2.6, and ask nobody."`
}

// Help says what the table is.
func (c *proofCommand) Help() string {
	return `The algorithm is stated as a transition system in first-order logic, for any number of nodes, messages,
claims, records and faults. Its invariant is inductive: it is true at the beginning, each transition keeps it, and the
promises of docs/CORRECTNESS.md follow from it. Two solvers that know nothing of each other check that; one that does
not know an answer counts as a failure. Then z3 shows of each variant of the algorithm which step breaks what.
docs/PROOF.md explains all of it.

A line of the table is a transition, with the number of conjuncts that it could break, and the time of each solver. It
takes less than two minutes.

Exit codes: 0 all is proved, and each variant refuted; 1 something is not; 2 could not run, as without the solvers.`
}

// Run prints the table, or one counterexample.
func (c *proofCommand) Run(ctx context.Context, w *world) error {
	t := proofTable{world: w, all: c.All}
	switch {
	case c.Text:
		return c.text(&t)
	case c.Variant != "":
		return c.show(ctx, &t)
	}
	var solvers []solver.Solver
	for _, name := range c.Solver {
		solvers = append(solvers, map[string]solver.Solver{
			"z3": solver.Z3(c.Limit), "cvc5": solver.CVC5(c.Limit),
		}[name])
	}
	if err := solver.Missing(append(solvers, solver.Z3(c.Limit))...); err != nil {
		return err
	}
	began := time.Now()
	if err := t.prove(ctx, solvers); err != nil {
		return err
	}
	if err := t.refute(ctx); err != nil {
		return err
	}
	t.printf("\n%d questions to each of %s, %d variants: %.0f s\n", t.asked, strings.Join(c.Solver, " and "),
		len(proof.Variants()), time.Since(began).Seconds())
	if t.err == nil && t.open > 0 {
		return brokenf("%d of these are not as they must be", t.open)
	}
	return t.err
}

// text prints the scripts.
func (c *proofCommand) text(t *proofTable) error {
	s := proof.Ours()
	if c.Variant != "" {
		v, err := proofVariant(c.Variant)
		if err != nil {
			return err
		}
		s = v.System()
	}
	t.printf("(set-logic ALL)\n%s", s.Declarations())
	step := ""
	for _, o := range s.Obligations() {
		if o.Step != step {
			if step != "" {
				t.printf("(pop 1)\n")
			}
			step = o.Step
			t.printf("\n; %s\n(push 1)\n%s", o.Step, o.Premises())
		}
		t.printf("; %s -> %s\n(push 1)\n%s(check-sat) ; unsat\n(pop 1)\n", o.Step, o.Claim, o.Denial())
	}
	t.printf("(pop 1)\n")
	return t.err
}

func proofVariant(name string) (*proof.Variant, error) {
	if v, known := proof.VariantByName(name); known {
		return v, nil
	}
	var names []string
	for _, v := range proof.Variants() {
		names = append(names, v.Name)
	}
	return nil, fmt.Errorf("there is no variant %q, but there are %s", name, strings.Join(names, ", "))
}

// show prints the counterexample of a variant.
func (c *proofCommand) show(ctx context.Context, t *proofTable) error {
	v, err := proofVariant(c.Variant)
	if err != nil {
		return err
	}
	found, err := refutation(ctx, v)
	if err != nil {
		return err
	}
	if found == nil {
		return brokenf("%s is not refuted: %s does not break %q", v.Name, v.By, v.Breaks)
	}
	t.printf("%s (%s): %s\n\n%v", v.Name, v.Of, v.Says, found)
	return t.err
}

// refutation finds what the variant is said to break.
func refutation(ctx context.Context, v *proof.Variant) (*proof.Counterexample, error) {
	s := v.System()
	for _, o := range s.Obligations() {
		if o.Step == v.By && o.Claim == v.Breaks {
			return solver.Refute(ctx, s, &o)
		}
	}
	return nil, nil //nolint:nilnil // nothing is found
}

// proofTable prints what was found.
type proofTable struct {
	world *world
	all   bool
	asked int
	open  int
	err   error // the first of writing
}

func (t *proofTable) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(t.world.stdout, format, args...); t.err == nil {
		t.err = err
	}
}

// proofStep is what has been found about one step.
type proofStep struct {
	expected, answered int
	took               map[string]time.Duration
	lines              []string
}

// prove prints a line for each step, as soon as all is said about it.
func (t *proofTable) prove(ctx context.Context, solvers []solver.Solver) error {
	const row = "%-22s  %9s"
	s := proof.Ours()
	if err := s.Check(); err != nil {
		return fmt.Errorf("the system is not well written: %w", err)
	}
	obligations := s.Obligations()
	t.asked = len(obligations)
	steps := map[string]*proofStep{}
	for _, o := range obligations {
		if steps[o.Step] == nil {
			steps[o.Step] = &proofStep{took: map[string]time.Duration{}}
		}
		steps[o.Step].expected += len(solvers)
	}
	t.printf(row, "transition", "conjuncts")
	for _, one := range solvers {
		t.printf("  %10s", one.Name)
	}
	t.printf("\n")
	err := solver.Prove(ctx, s, obligations, solvers, runtime.NumCPU(), func(r solver.Result) bool {
		step := steps[r.Step]
		step.answered++
		step.took[r.Solver] += r.Took
		switch {
		case !r.Proved():
			t.open++
			step.lines = append(step.lines, fmt.Sprintf("  NOT PROVED by %s: %s (%s)", r.Solver, r.Claim, r.Answer))
		case t.all:
			step.lines = append(step.lines,
				fmt.Sprintf("  %-52s  %-5s  %8s", r.Claim, r.Solver, milliseconds(r.Took)))
		}
		if step.answered < step.expected {
			return true
		}
		t.printf(row, r.Step, fmt.Sprint(step.expected/len(solvers)))
		for _, one := range solvers {
			t.printf("  %10s", milliseconds(step.took[one.Name]))
		}
		t.printf("\n")
		for _, line := range step.lines {
			t.printf("%s\n", line)
		}
		return t.err == nil
	})
	if err != nil {
		return fmt.Errorf("check the proof: %w", err)
	}
	for _, o := range obligations {
		if step := steps[o.Step]; t.err == nil && step.answered < step.expected {
			return fmt.Errorf("check the proof: of %d questions about %s, %d were answered", step.expected, o.Step,
				step.answered)
		}
	}
	return t.err
}

// refute prints a line for each variant.
func (t *proofTable) refute(ctx context.Context) error {
	t.printf("\n%-22s  %-18s  %s\n", "variant", "deviates from", "breaks")
	for _, v := range proof.Variants() {
		found, err := solver.Refutes(ctx, &v)
		switch {
		case err != nil:
			return fmt.Errorf("refute %s: %w", v.Name, err)
		case !found:
			t.open++
			t.printf("%-22s  %-18s  NOTHING, but %s was to break %q\n", v.Name, v.Of, v.By, v.Breaks)
		default:
			t.printf("%-22s  %-18s  %s -> %s\n", v.Name, v.Of, v.By, v.Breaks)
		}
	}
	return t.err
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
