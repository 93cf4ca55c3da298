package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"chronos/cmd/chronos/bench"
)

// againstRounds is how often both binaries are measured, in turns: what a noisy machine does to one figure, it does
// hardly to the median of so many ratios.
const againstRounds = 3

// against is a comparison with another commit.
type against struct {
	binaries [2]string // of that commit, and of this one
	rows     []againstRow
}

// againstRow is one figure of both, in each round.
type againstRow struct {
	what   string
	better string // more or less
	of     [2][]float64
}

// note adds a figure to its row.
func (a *against) note(what, better string, which int, x float64) {
	i := slices.IndexFunc(a.rows, func(r againstRow) bool { return r.what == what })
	if i < 0 {
		i = len(a.rows)
		a.rows = append(a.rows, againstRow{what: what, better: better})
	}
	a.rows[i].of[which] = append(a.rows[i].of[which], x)
}

// cells are the row: both medians, and the ratios of the rounds.
func (r *againstRow) cells() []string {
	var ratios []float64
	for i := range min(len(r.of[0]), len(r.of[1])) {
		ratios = append(ratios, r.of[1][i]/r.of[0][i])
	}
	if len(ratios) == 0 {
		return []string{r.what, "-", "-", "-", r.better}
	}
	return []string{
		r.what, figure(median(r.of[0])), figure(median(r.of[1])),
		fmt.Sprintf("%.2f (%.2f to %.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios)), r.better,
	}
}

func median(xs []float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// figure writes a number of any size.
func figure(x float64) string {
	if x >= 100 {
		return count(x)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// measureAgainst measures this binary and that of another commit in turns, on sites of their own, with the same load
// from the same generator. Both go without a timing advance, whatever their defaults are.
func measureAgainst(ctx context.Context, g *ground, t *table) error {
	other, err := g.buildCommit(ctx, g.options.against)
	if err != nil {
		return err
	}
	a := &against{binaries: [2]string{other, g.binary}}
	t.head = []string{"one node", g.options.against, "this", "ratio, median (range)", "better"}
	for range againstRounds {
		for which := range a.binaries {
			if err := g.measureOne(ctx, t, a, which); err != nil {
				return err
			}
		}
	}
	for i := range a.rows {
		t.add(a.rows[i].cells()...)
	}
	return nil
}

// measureOne measures one binary: a burst, and two steady rates.
func (g *ground) measureOne(ctx context.Context, t *table, a *against, which int) error {
	if err := g.on(ctx, 1, func(s *site) error {
		s.program = a.binaries[which]
		t.on("%s, burst", t.head[1+which])
		b, err := s.burst(ctx, t, 1, burstOf)
		if err != nil {
			return err
		}
		a.note("intake, messages/s", "more", which, b.result.Intake.PerSecond)
		a.note("firing of a burst, messages/s", "more", which, b.result.Fired.PerSecondStamped)
		for _, p := range []struct {
			what string
			of   phase
		}{{"intake", b.intake}, {"firing", b.firing}} {
			for _, group := range []string{"nodes", "Postgres", "Kafka"} {
				if used, known := p.of.used[group]; known {
					a.note(p.what+" of a burst, CPU of "+group+" for a message, µs", "less", which,
						float64(used.Microseconds())/p.of.messages)
				}
			}
		}
		a.note("peak resident memory of the node in a burst, MB", "less", which, float64(b.peak)/1e6)
		return nil
	}); err != nil {
		return err
	}
	for _, rate := range []int{1000, 5000} {
		if err := g.on(ctx, 1, func(s *site) error {
			s.program = a.binaries[which]
			if err := s.start(ctx, 1); err != nil {
				return err
			}
			t.on("%s, %s messages/s", t.head[1+which], count(float64(s.messages(rate))))
			r, err := s.bench(ctx, t, "--rate", strconv.Itoa(s.messages(rate)), "--delay", s.delays(),
				"--duration", s.duration(usual).String(), "--max-messages", "10000000")
			if err != nil {
				return err
			}
			return a.steady(which, fmt.Sprintf("%s messages/s: ", count(float64(s.messages(rate)))), r)
		}); err != nil {
			return err
		}
	}
	return nil
}

// steady notes what a steady rate has shown.
func (a *against) steady(which int, rate string, r *bench.Result) error {
	if r.Received == nil {
		return errors.New("nothing came")
	}
	late := r.Received.AfterDue
	a.note(rate+"p50 after the deadline, ms", "less", which, float64(late.P50))
	a.note(rate+"p99 after the deadline, ms", "less", which, float64(late.P99))
	a.note(rate+"p99.9 after the deadline, ms", "less", which, float64(late.P999))
	for _, name := range []string{"nodes", "Postgres", "Kafka"} {
		if p := process(r, name); p != nil {
			a.note(rate+"CPU of "+name+", cores", "less", which, p.CPUs)
		}
	}
	if p := process(r, "nodes"); p != nil {
		a.note(rate+"peak resident memory of the node, MB", "less", which, float64(p.Peak)/1e6)
	}
	return nil
}

// buildCommit builds the binary of another commit, from a work tree that is taken away afterwards.
func (g *ground) buildCommit(ctx context.Context, commit string) (binary string, err error) {
	dir := filepath.Join(g.dir, "tree-"+strconv.FormatInt(time.Now().UnixNano(), 36))
	git := func(args ...string) error {
		if out, err := exec.CommandContext(ctx, "git", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("git %s: %w: %s", args[1], err, out)
		}
		return nil
	}
	if err := git("worktree", "add", "--detach", dir, commit); err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, git("worktree", "remove", "--force", dir), os.RemoveAll(dir))
	}()
	binary = filepath.Join(g.dir, "chronos-"+commit)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "./cmd/chronos")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build chronos of %s: %w: %s", commit, err, out)
	}
	return binary, nil
}
