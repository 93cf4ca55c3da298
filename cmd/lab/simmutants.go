package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"chronos/sim"
)

// The hunt for mutants: so many disjoint series of seeds, of so many seeds each.
const (
	huntSeries  = 5
	huntSeeds   = 2000
	huntSpacing = 1_000_000 // from the first seed of a series to that of the next
)

// kill is how a mutant was caught in one series.
type kill struct {
	invariant     string // "" if it was not
	seeds         int
	virtual, wall time.Duration
}

// hunt hunts each mutant with each series of seeds, and writes a table in Markdown.
func (c *simCommand) hunt(ctx context.Context, w *world) error {
	mutants := sim.Mutants()
	began := time.Now()
	kills := c.huntAll(ctx, w.stderr, mutants, huntSeries)
	if ctx.Err() != nil {
		return fmt.Errorf("interrupted after %s", span(time.Since(began)))
	}
	p := &paper{out: w.stdout}
	p.paragraph(fmt.Sprintf("Each mutant in %d disjoint series of seeds, from 1, from %s and so on: least / median / "+
		"most to the seed that catches it. Virtual and wall time are those of all seeds up to then.",
		huntSeries, thousands(huntSpacing+1)))
	p.line("")
	p.line("| mutant | what is wrong with it | caught by | seeds | virtual time | wall time |")
	p.line("|---|---|---|---|---|---|")
	var medians []int
	var survivors []string
	most := 0
	for i, m := range mutants {
		of := kills[i]
		seeds := column(of, func(k kill) int { return k.seeds })
		virtual := column(of, func(k kill) time.Duration { return k.virtual })
		wall := column(of, func(k kill) time.Duration { return k.wall })
		p.line("| %s | %s | %s | %d / %d / %d | %s | %s |", m.Name, m.About, invariantsOf(of),
			seeds[0], seeds[len(seeds)/2], seeds[len(seeds)-1], spans(virtual), spans(wall))
		medians, most = append(medians, seeds[len(seeds)/2]), max(most, seeds[len(seeds)-1])
		if slices.ContainsFunc(of, func(k kill) bool { return k.invariant == "" }) {
			survivors = append(survivors, m.Name)
		}
	}
	slices.Sort(medians)
	p.line("")
	p.line("%s, %s in all: median %s, most %s. It took %s on %s.", plural(len(mutants), "mutant"),
		plural(len(mutants)*huntSeries, "hunt"), plural(medians[len(medians)/2], "seed"), thousands(most),
		span(time.Since(began)), plural(workers(), "core"))
	if len(survivors) > 0 {
		p.line("")
		p.paragraph("FAILED: survived a series: " + strings.Join(survivors, ", "))
		return brokenf("mutants survive: %s", strings.Join(survivors, ", "))
	}
	return p.err
}

// column returns one figure of all kills, in order.
func column[T cmp.Ordered](kills []kill, of func(kill) T) []T {
	figures := make([]T, len(kills))
	for i, k := range kills {
		figures[i] = of(k)
	}
	slices.Sort(figures)
	return figures
}

// spans returns the least, the median and the most of durations in order.
func spans(d []time.Duration) string {
	return span(d[0]) + " / " + span(d[len(d)/2]) + " / " + span(d[len(d)-1])
}

// invariantsOf names what has caught a mutant, most often first.
func invariantsOf(kills []kill) string {
	count := map[string]int{}
	var names []string
	for _, k := range kills {
		name := cmp.Or(k.invariant, "**nothing**")
		if count[name]++; count[name] == 1 {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b))
	})
	return strings.Join(names, ", ")
}

// huntAll hunts mutants on all cores, and returns the kills of each, by series.
func (c *simCommand) huntAll(ctx context.Context, terminal io.Writer, mutants []*sim.Mutant, series int) [][]kill {
	kills := make([][]kill, len(mutants))
	for i := range kills {
		kills[i] = make([]kill, series)
	}
	shown := isTerminal(terminal)
	hunting := atOnce(workers())
	for n := range len(mutants) * series {
		hunting.Go(func() error {
			kills[n/series][n%series] = c.huntOne(ctx, mutants[n/series], uint64(n%series)*huntSpacing+1)
			return nil
		})
		if shown { // it has just begun
			_, _ = fmt.Fprintf(terminal, "\r\x1b[Khunt %d of %d: %s", n+1, len(mutants)*series, mutants[n/series].Name)
		}
	}
	_ = hunting.Wait() // no hunt returns an error
	if shown {
		_, _ = io.WriteString(terminal, "\r\x1b[K")
	}
	return kills
}

// huntOne hunts a mutant with one series of seeds, as sim.Hunt does.
func (c *simCommand) huntOne(ctx context.Context, m *sim.Mutant, first uint64) kill {
	var k kill
	began := time.Now()
	for k.seeds < huntSeeds && k.invariant == "" && ctx.Err() == nil {
		result := c.run(swarm(first+uint64(k.seeds), m))
		k.seeds++
		k.virtual += result.Stats.Virtual
		if v := result.Violation; v != nil {
			k.invariant = v.Among(m.Kills)
		}
	}
	k.wall = time.Since(began)
	return k
}
