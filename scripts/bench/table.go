package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/cmd/chronos/bench"
	"chronos/cmd/chronos/bench/machine"
)

// table is one table of BENCHMARKS.md, with what it takes to believe it.
type table struct {
	name    string
	head    []string
	rows    [][]string
	plots   []plot
	more    []*section
	machine string
	commit  string
	began   time.Time
	scale   float64

	commands []string
	faults   []string
	notes    []string
	others   float64 // CPUs that others used, at most
	row      string  // what is measured just now: many rows have the same command line
}

// section is a table below the table, with what explains it.
type section struct {
	about string
	head  []string
	rows  [][]string
}

// add adds a row.
func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// explain begins a table below the table.
func (t *table) explain(about string, head ...string) *section {
	s := &section{about: about, head: head}
	t.more = append(t.more, s)
	return s
}

// add adds a row.
func (s *section) add(cells ...string) { s.rows = append(s.rows, cells) }

// on names the row, or the column, that is measured from now on: what is wrong with a run is said of it.
func (t *table) on(format string, args ...any) { t.row = fmt.Sprintf(format, args...) }

// of names what a run was for.
func (t *table) of(line string) string {
	if t.row == "" {
		return "`" + line + "`"
	}
	return t.row + " (`" + line + "`)"
}

// measured notes a run, and what is wrong with it.
func (t *table) measured(line string, r *bench.Result) {
	t.ran(line)
	t.others = max(t.others, r.Others)
	for _, f := range r.Faults {
		t.faults = append(t.faults, t.of(line)+": "+f)
	}
	// What a table says about all of its runs is not repeated for each.
	for _, n := range r.Notes {
		if slices.ContainsFunc([]string{"The load was", "Kafka ", "The burst was", "The run was"}, func(p string) bool {
			return strings.HasPrefix(n, p)
		}) {
			t.notes = append(t.notes, t.of(line)+": "+n)
		}
	}
}

// ran notes a command line.
func (t *table) ran(line string) {
	if !slices.Contains(t.commands, line) {
		t.commands = append(t.commands, line)
	}
}

// markdown writes the table.
func (t *table) markdown() string {
	var b strings.Builder
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(&b, format+"\n", args...) }
	line("Measured %s at %s on %s; processes that had nothing to do with it used up to %.1f CPUs meanwhile.",
		t.began.Format(time.DateOnly), t.commit, t.machine, max(t.others, 0))
	if t.scale != 1 {
		line("**All numbers of messages were multiplied by %v: this shows that the command works, and nothing else.**",
			t.scale)
	}
	rows := func(head []string, rows [][]string) {
		line("")
		line("| %s |", strings.Join(head, " | "))
		line("|---%s|", strings.Repeat("|--:", len(head)-1))
		for _, row := range rows {
			line("| %s |", strings.Join(row, " | "))
		}
		line("")
	}
	rows(t.head, t.rows)
	for i := range t.plots {
		line("%s", t.plots[i].markdown())
	}
	for _, s := range t.more {
		line("%s", s.about)
		rows(s.head, s.rows)
	}
	for _, f := range t.faults {
		line("**Wrong:** %s.\n", f)
	}
	for _, n := range t.notes {
		line("%s\n", n)
	}
	line("By `go run ./scripts/bench`, which ran, with brokers, routes, group and processes of its own:\n")
	for _, c := range t.commands {
		line("    %s", c)
	}
	return b.String()
}

// The marks in a file between which a table stands.
func marks(name string) (begin, end string) {
	return "<!-- make bench: " + name + " -->\n", "<!-- end of " + name + " -->\n"
}

// replace puts a table between its marks.
func replace(text string, t *table) (string, error) {
	begin, end := marks(t.name)
	before, rest, found := strings.Cut(text, begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", fmt.Errorf("there is no place for the table %s: it stands between the lines %q and %q",
			t.name, strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + t.markdown() + end + after, nil
}

// hasPlaces checks, before the first minute of many, that a file has a place for each of the tables; there may be none.
func hasPlaces(file string, cases []measurement) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read where the tables go: %w", err)
	}
	for _, c := range cases {
		if _, err := replace(string(text), &table{name: c.name, head: []string{""}}); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// writeTable puts a table into a file.
func writeTable(file string, t *table) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read where the tables go: %w", err)
	}
	replaced, err := replace(string(text), t)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(replaced), 0o644); err != nil { //nolint:gosec // everybody may read it
		return fmt.Errorf("write the tables: %w", err)
	}
	return nil
}

// commit returns which commit this is.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "an unknown commit"
	}
	return "commit " + strings.TrimSpace(string(out))
}

// count writes a number with commas.
func count(x float64) string {
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// ms writes milliseconds.
func ms(m bench.Millis) string {
	if m >= 100 || m <= -100 {
		return count(float64(m))
	}
	return fmt.Sprintf("%.1f", float64(m))
}

// quantiles are the cells of a distribution.
func quantiles(q *bench.Quantiles) []string {
	return []string{ms(q.P50), ms(q.P99), ms(q.P999), ms(q.P9999), ms(q.Max)}
}

// lateHead is the head of a table of lateness.
func lateHead(what string) []string {
	return []string{what, "p50", "p99", "p99.9", "p99.99", "max", "nodes' CPUs", "Postgres' CPUs", "largest node, MB"}
}

// lateRow is a row of one: when messages were received, after they were due. The nodes have no timing advance.
func lateRow(what string, r *bench.Result) []string {
	if r.Received == nil {
		return []string{what, "nothing came", "-", "-", "-", "-", "-", "-", "-"}
	}
	row := append([]string{what}, quantiles(r.Received.AfterDue)...)
	nodes, postgres := process(r, "nodes"), process(r, "Postgres")
	cpus := func(p *bench.Process) string {
		if p == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", p.CPUs)
	}
	return append(row, cpus(nodes), cpus(postgres), memory(nodes))
}

// parts are the groups of processes that share the cores, in the order in which tables have them.
var parts = []string{"nodes", "Postgres", "Kafka", machine.Self}

// cpusOf returns how many CPUs each part has used at the full rate (see busy); a - for what was not measured. Together
// with the cores of the machine they say whether these are what a rate ends at.
func cpusOf(r *bench.Result) string {
	var all []string
	for _, name := range parts {
		cell := "-"
		if r != nil {
			if cpus, known := busy(r, name); known {
				cell = fmt.Sprintf("%.2f", cpus)
			}
		}
		all = append(all, cell)
	}
	return strings.Join(all, ", ")
}

// sumOf returns how many CPUs all parts have used together, at the full rate.
func sumOf(r *bench.Result) string {
	if r == nil {
		return "-"
	}
	sum := 0.0
	for _, name := range parts {
		cpus, known := busy(r, name)
		if !known {
			return "-"
		}
		sum += cpus
	}
	return fmt.Sprintf("%.2f", sum)
}

// process returns what a group has used; nil if it was not measured.
func process(r *bench.Result, name string) *bench.Process {
	i := slices.IndexFunc(r.Processes, func(p bench.Process) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return &r.Processes[i]
}

// memory writes the peak of the largest process.
func memory(p *bench.Process) string {
	if p == nil {
		return "-"
	}
	return count(float64(p.Peak) / 1e6)
}
