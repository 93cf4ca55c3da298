package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"chronos/sim"
	"chronos/sim/check"
	"chronos/sim/page"
)

// single runs one run and reports on it.
func (c *simCommand) single(w *world, s *subject) error {
	p := &paper{out: w.stdout}
	if c.Trace == "-" {
		p.out = w.stderr // Standard output is for the trace alone.
	}
	p.line("%s", s.name)
	if s.about != "" {
		p.line("")
		p.paragraph(s.about)
	}
	p.line("")
	p.options(&s.setup.Options)
	if b := s.setup.Break; b != nil {
		p.words(labelled, "broken", strings.Fields(b.Name+": "+b.About)...)
	}
	p.line("")
	result, wall, err := c.recorded(w, s.setup)
	if err != nil {
		return err
	}
	if c.Twice {
		if again := c.run(s.setup); again.Hash != result.Hash {
			return c.nondeterministic(p, s, result.Hash, again.Hash)
		}
	}
	p.summary(&s.setup.Options, &result, wall)
	p.line("")
	if err := c.verdict(p, s, &result); err != nil || p.err != nil {
		return errors.Join(err, p.err)
	}
	return nil
}

// recorded runs a setup, and writes a history of it if that was asked for.
func (c *simCommand) recorded(w *world, setup sim.Setup) (sim.Result, time.Duration, error) {
	if c.History == "" {
		return c.traced(w, setup)
	}
	file, err := os.Create(c.History)
	if err != nil {
		return sim.Result{}, 0, fmt.Errorf("--history is %s: %w", c.History, errors.Unwrap(err))
	}
	history := check.NewWriter(file)
	setup.History = history.Add
	result, wall, err := c.traced(w, setup)
	if v := result.Violation; v != nil {
		// The run has ended there. The history has its end too, so that it can be judged.
		history.Add(&check.Event{At: v.At, Kind: check.End})
	}
	return result, wall, errors.Join(err, history.Flush(), file.Close())
}

// traced runs a setup, and writes a trace of it if that was asked for.
func (c *simCommand) traced(w *world, setup sim.Setup) (result sim.Result, wall time.Duration, err error) {
	if c.Trace == "" {
		began := time.Now()
		return c.run(setup), time.Since(began), nil
	}
	out := w.stdout
	if c.Trace != "-" {
		file, err := os.Create(c.Trace)
		if err != nil {
			return result, 0, fmt.Errorf("--trace is %s: %w", c.Trace, errors.Unwrap(err))
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		out = file
	}
	buffer := bufio.NewWriterSize(out, 1<<16)
	observe, failed := sim.TraceTo(buffer)
	setup.Observe = observe
	began := time.Now()
	result = c.run(setup)
	wall = time.Since(began)
	if err := errors.Join(failed(), buffer.Flush()); err != nil {
		return result, wall, fmt.Errorf("write the trace: %w", err)
	}
	return result, wall, nil
}

// summary writes the figures of a run.
func (p *paper) summary(o *sim.Options, r *sim.Result, wall time.Duration) {
	p.figure("virtual time", "%s", span(r.Stats.Virtual))
	p.figure("wall time", "%s, %s times faster", span(wall),
		thousands(int64(r.Stats.Virtual.Seconds()/max(wall.Seconds(), 1e-6))))
	p.figure("events", "%s, of which %s", thousands(r.Stats.Events), plural(r.Stats.Calls, "call"))
	p.figure("submitted", "%s", plural(r.Stats.Submitted, "record"))
	p.figure("fired", "%s", plural(r.Stats.Appended, "record"))
	p.words(labelled, "faults", append([]string{thousands(len(r.Plan.Faults)) + ":"},
		occurred(r.Coverage, "fault")...)...)
	switch {
	case r.Stats.Drained >= 0:
		p.figure("drained", "%s after the world has healed", span(r.Stats.Drained))
	case r.Violation == nil && o.Poison > 0 && !o.DeadLetter:
		p.figure("drained", "no: what its topic rejects stays, without a dead-letter topic")
	default:
		p.figure("drained", "no")
	}
	p.figure("trace hash", "%016x", r.Hash)
}

// verdict writes whether a run has passed, and all that there is to say if it has not.
func (c *simCommand) verdict(p *paper, s *subject, r *sim.Result) error {
	v, expected := r.Violation, ""
	if s.script != nil {
		expected = s.script.Expect
	}
	if v == nil || v.Invariant == expected {
		if err := c.draw(p, s.name, s.replay, s.setup, r); err != nil {
			return err
		}
	}
	switch {
	case v != nil && v.Invariant == expected:
		p.paragraph(fmt.Sprintf("PASSED: %s breaks %s, as it is meant to: %s", s.name, v.Invariant, v.Detail))
		return nil
	case v != nil:
		return c.broken(p, s, r)
	case expected != "":
		p.paragraph(fmt.Sprintf("FAILED: %s does not break %s, though it is meant to", s.name, expected))
		return brokenf("%s does not break %s", s.name, expected)
	}
	if s.script != nil {
		if missing := absent(s.script.Sometimes, r.Coverage); len(missing) > 0 {
			p.paragraph("FAILED: never occurred: " + strings.Join(missing, ", "))
			return brokenf("%s has never come by %s", s.name, strings.Join(missing, ", "))
		}
	}
	p.line("PASSED: no invariant is broken")
	return nil
}

// absent returns the names that have not occurred.
func absent(names []string, coverage sim.Coverage) []string {
	var missing []string
	for _, name := range names {
		if coverage[name] == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// broken tells how an invariant was broken: a run that was drawn from a seed is made as small as it gets, and
// kept in a file. That an invariant is broken is what counts: files that cannot be written do not hide it.
func (c *simCommand) broken(p *paper, s *subject, r *sim.Result) error {
	v := r.Violation
	p.paragraph(fmt.Sprintf("FAILED: %s is broken after %s: %s", v.Invariant, span(v.At), v.Detail))
	if len(v.Also) > 0 {
		p.paragraph("The same event breaks " + strings.Join(v.Also, ", ") + " as well.")
	}
	p.line("")
	for _, i := range check.Invariants() {
		if i.Name == v.Invariant {
			p.words(labelled, i.Name, strings.Fields(i.Title+": "+i.Statement)...)
			p.line("")
		}
	}
	setup, result, file := s.setup, r, ""
	if s.script == nil {
		if small, found := shrink(p, s); found {
			setup, result = small.Setup, &small.Result
			var err error
			if file, err = keep(s, v, &small); err != nil {
				p.paragraph(err.Error())
				p.line("")
			}
		}
	}
	if about := result.Violation.Messages; len(about) > 0 {
		p.line("The story of %s:", submissions(about))
		p.line("")
		p.story(sim.Story(setup, about...))
		p.line("")
	}
	command := s.replay
	if file != "" {
		command = self + " sim --plan " + file
		if c.Proof {
			command += " --proof"
		}
	}
	if err := c.draw(p, s.name, command, setup, result); err != nil {
		p.paragraph(err.Error())
		p.line("")
	}
	p.line("Replay it:")
	p.line("")
	if file == "" {
		p.line("  %s", s.replay)
	} else {
		p.line("  %-*s   the small run above", len(s.replay), command)
		p.line("  %-*s   the run in which it was found", len(command), s.replay)
		if s.setup.Break == nil {
			p.line("")
			p.line("When it is mended, move %s to sim/testdata/kept: it is run first, forever.", file)
		}
	}
	return brokenf("%s breaks %s", s.name, v.Invariant)
}

// draw writes a run as a page, if that was asked for.
func (c *simCommand) draw(p *paper, name, command string, setup sim.Setup, r *sim.Result) (err error) {
	if c.HTML == "" {
		return nil
	}
	file, err := os.Create(c.HTML)
	if err != nil {
		return fmt.Errorf("--html is %s: %w", c.HTML, errors.Unwrap(err))
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := page.Write(file, page.Page{Title: name, Command: command, Setup: setup, Result: *r}); err != nil {
		return err
	}
	p.line("The picture is in %s.", c.HTML)
	p.line("")
	return nil
}

// submissions names some submissions.
func submissions(numbers []int) string {
	if len(numbers) == 1 {
		return fmt.Sprintf("submission #%d", numbers[0])
	}
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprintf("#%d", n)
	}
	return "submissions " + strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// shrink makes a run smaller that breaks an invariant, and shows what is left of it. Its bounds are of what is
// simulated: the clock is only shown, so that a seed leaves the same file on every machine.
func shrink(p *paper, s *subject) (sim.Shrinking, bool) {
	began := time.Now()
	small, found := sim.Shrink(s.setup, 2000)
	if !found {
		p.paragraph("The plan of this run does not break the same invariant when it is replayed, so it could " +
			"not be made smaller.")
		p.line("")
		return small, false
	}
	plan := small.Setup.Plan
	p.line("Made smaller: %s and %s on %s are enough (%s, %s).", plural(len(plan.Faults), "fault"),
		plural(len(plan.Messages), "submission"), plural(small.Setup.Options.Nodes, "node"),
		plural(small.Runs, "run"), span(time.Since(began)))
	p.line("")
	const shown = 10
	for i, m := range plan.Messages {
		if i == shown {
			p.line("  ... %s more", thousands(len(plan.Messages)-shown))
			break
		}
		p.line("  %v", m)
	}
	for i, f := range plan.Faults {
		if i == shown {
			p.line("  ... %s more", thousands(len(plan.Faults)-shown))
			break
		}
		p.line("  %-40s # %s", f.String(), f.Kind.About())
	}
	p.line("")
	return small, true
}

// keep writes a small run to a file in the current folder, and returns its name. It makes sure that the file gives
// the same run.
func keep(s *subject, v *sim.Violation, small *sim.Shrinking) (string, error) {
	script := &sim.Script{
		About:   fmt.Sprintf("Breaks %s. Found by %s:\n%s", v.Invariant, s.replay, small.Result.Violation.Detail),
		Options: small.Setup.Options,
		Plan:    *small.Setup.Plan,
	}
	if s.setup.Break != nil {
		script.Break = s.setup.Break.Name
	}
	name := fmt.Sprintf("chronos-sim-%d.txt", s.setup.Options.Seed)
	var text strings.Builder
	if _, err := script.WriteTo(&text); err != nil {
		return "", err
	}
	again, err := sim.ReadScript(strings.NewReader(text.String()))
	if err != nil {
		return "", fmt.Errorf("read %s back: %w", name, err)
	}
	setup, err := again.Setup()
	if err != nil {
		return "", fmt.Errorf("read %s back: %w", name, err)
	}
	if got := sim.Run(setup); got.Hash != small.Result.Hash {
		return "", fmt.Errorf("write %s: what it says gives another run", name)
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o644); err != nil {
		return "", fmt.Errorf("keep the plan: %w", err)
	}
	return name, nil
}

// nondeterministic tells where two runs of one setup differ first.
func (c *simCommand) nondeterministic(p *paper, s *subject, first, second uint64) error {
	p.paragraph(fmt.Sprintf("NONDETERMINISM: %s has given the hash %016x, and then %016x", s.name, first, second))
	p.line("")
	// What differs by luck may not differ the next time.
	for range 20 {
		a, b, same := firstDifference(c.steps(s.setup), c.steps(s.setup))
		if same {
			continue
		}
		p.line("The first step in which two runs differ:")
		p.line("")
		p.line("  %s", a)
		p.line("  %s", b)
		break
	}
	p.line("")
	p.line("Run it again:")
	p.line("")
	p.line("  %s --twice", s.replay)
	return errors.Join(&exitError{exitNondeterministic, fmt.Errorf("%s has two traces", s.name)}, p.err)
}

// steps returns the trace of a run.
func (c *simCommand) steps(setup sim.Setup) string {
	var text strings.Builder
	observe, _ := sim.TraceTo(&text) // A builder does not fail.
	setup.Observe = observe
	hash := c.run(setup).Hash
	_, _ = fmt.Fprintf(&text, "the end, with the hash %016x\n", hash)
	return text.String()
}

// firstDifference returns the first lines in which two texts differ.
func firstDifference(a, b string) (inA, inB string, same bool) {
	linesA, linesB := bufio.NewScanner(strings.NewReader(a)), bufio.NewScanner(strings.NewReader(b))
	for {
		inA, inB := "(nothing more)", "(nothing more)"
		moreA, moreB := linesA.Scan(), linesB.Scan()
		if moreA {
			inA = linesA.Text()
		}
		if moreB {
			inB = linesB.Text()
		}
		if !moreA && !moreB {
			return "", "", true
		}
		if inA != inB {
			return inA, inB, false
		}
	}
}
