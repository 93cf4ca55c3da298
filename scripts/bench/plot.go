package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// plot is a plot of some cells of a table. It is written in the language of Mermaid, which GitHub and most readers of
// Markdown draw; in all others its numbers stand there.
type plot struct {
	title string      // what is plotted; with several lines, in which order: Mermaid draws no legend
	unit  string      // of the y-axis
	over  string      // what the places on the x-axis are
	xs    []string    // their names, in order
	lines [][]float64 // a value for each place
}

// plotLateness plots a table that begins with lateHead. What comes beyond its p99.9 depends on a few messages.
func (t *table) plotLateness(over string) {
	p := plot{title: "p50, p99 and p99.9, from below", unit: "ms after the deadline", over: over}
	t.plotColumns(p, "p50", "p99", "p99.9")
}

// plotColumns plots columns of a table against its first one. It plots nothing if a cell is no number, or if there is
// only one row: that is no curve. What stands in brackets behind a name or a number is left out.
func (t *table) plotColumns(p plot, columns ...string) {
	for _, row := range t.rows {
		p.xs = append(p.xs, row[0])
	}
	for i, name := range t.head {
		for _, wanted := range columns {
			if name != wanted && !strings.HasPrefix(name, wanted+" (") {
				continue
			}
			var cells []string
			for _, row := range t.rows {
				cells = append(cells, row[i])
			}
			if !p.add(cells) {
				return
			}
		}
	}
	t.draw(p)
}

// plotRows plots rows of a table whose first cells are names, against its head, in the same way.
func (t *table) plotRows(p plot, names ...string) {
	p.xs = t.head[1:]
	for _, name := range names {
		for _, row := range t.rows {
			if row[0] == name && !p.add(row[1:]) {
				return
			}
		}
	}
	t.draw(p)
}

// draw adds a plot.
func (t *table) draw(p plot) {
	if len(p.xs) > 1 && len(p.lines) > 0 {
		t.plots = append(t.plots, p)
	}
}

// add adds a line, and reports whether its cells are numbers.
func (p *plot) add(cells []string) bool {
	var l []float64
	for _, cell := range cells {
		cell, _, _ = strings.Cut(cell, " (")
		value, err := strconv.ParseFloat(strings.ReplaceAll(cell, ",", ""), 64)
		if err != nil {
			return false
		}
		l = append(l, value)
	}
	p.lines = append(p.lines, l)
	return true
}

// palette is the colours of lines, in order; Mermaid's first one is nearly white.
const palette = "#1f77b4, #ff7f0e, #d62728"

// markdown writes the plot.
func (p *plot) markdown() string {
	var b strings.Builder
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	var xs []string
	for _, x := range p.xs {
		xs = append(xs, strconv.Quote(x))
	}
	say("```mermaid")
	say(`%%%%{init: {"themeVariables": {"xyChart": {"plotColorPalette": "%s"}}}}%%%%`, palette)
	say("xychart-beta")
	say("  title %q", p.title)
	say("  x-axis %q [%s]", p.over, strings.Join(xs, ", "))
	say("  y-axis %q 0 --> %s", p.unit, number(p.top()))
	for _, l := range p.lines {
		var values []string
		for _, v := range l {
			values = append(values, number(v))
		}
		say("  line [%s]", strings.Join(values, ", "))
	}
	say("```")
	return b.String()
}

// top returns where the y-axis ends: a little above the highest point.
func (p *plot) top() float64 {
	highest := 0.0
	for _, l := range p.lines {
		for _, v := range l {
			highest = max(highest, v)
		}
	}
	if highest == 0 {
		return 1
	}
	return highest * 1.1
}

// number writes a number with as many digits as anybody sees in a plot, and no exponent, which Mermaid does not know.
func number(v float64) string { return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64) }
