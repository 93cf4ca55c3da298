package chaos

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"chronos/sim/check"
)

// WriteTable writes a line for each result, for a terminal.
func WriteTable(out io.Writer, results []*Result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(w, "scenario\tfaults\tsubmitted\tfired\tduplicates\tlost\tp50\tp99.9\t"+
		"p50 in trouble\tp99.9 in trouble\tresumed\tdrained\tverdict")
	for _, r := range results {
		if err != nil {
			break
		}
		_, err = fmt.Fprintln(w, strings.Join(r.cells(), "\t"))
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// WriteMarkdown writes the same as Markdown, for docs/CHAOS.md.
func WriteMarkdown(out io.Writer, results []*Result) error {
	var text strings.Builder
	text.WriteString("| scenario | faults | submitted | fired | duplicates | lost | p50 | p99.9 | p50 in trouble | " +
		"p99.9 in trouble | resumed | drained | verdict |\n" +
		"|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|---|\n")
	for _, r := range results {
		text.WriteString("| " + strings.Join(r.cells(), " | ") + " |\n")
	}
	if _, err := io.WriteString(out, text.String()); err != nil {
		return fmt.Errorf("write the table: %w", err)
	}
	return nil
}

// cells are the columns of a result in a table.
func (r *Result) cells() []string {
	s := &r.Verdict.Summary
	return []string{
		r.Scenario, fmt.Sprint(r.Faults), fmt.Sprint(r.Submitted), fmt.Sprint(s.Fired), r.duplicates(),
		fmt.Sprint(s.Lost), latency(s.Quiet.Median, s.Quiet.Count), latency(s.Quiet.P999, s.Quiet.Count),
		latency(s.Rough.Median, s.Rough.Count), latency(s.Rough.P999, s.Rough.Count),
		seconds(r.Resumed), seconds(s.Drained), r.verdict(),
	}
}

// verdict is one word, and the first thing that was broken.
func (r *Result) verdict() string {
	switch {
	case r.Passed():
		return "passed"
	case len(r.Verdict.Violations) > 0:
		return "BROKEN " + r.Verdict.Violations[0].Invariant
	}
	return "BROKEN demand"
}

// duplicates counts them with their excuses.
func (r *Result) duplicates() string {
	s := &r.Verdict.Summary
	if s.Duplicates == 0 {
		return "0"
	}
	var excuses []string
	for _, reason := range slices.Sorted(maps.Keys(s.Excuses)) {
		excuses = append(excuses, fmt.Sprintf("%s %d", reason, s.Excuses[reason]))
	}
	return fmt.Sprintf("%d (%s)", s.Duplicates, strings.Join(excuses, ", "))
}

func latency(d time.Duration, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func seconds(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// source is the template of the report.
//
//go:embed report.html
var source string

// Report is what the page shows.
type Report struct {
	Title   string
	Machine string
	Results []*Result
}

// timeline is what a picture of a result is made of: each message as a point, where it fired and how late it was.
type timeline struct {
	End    float64
	Points []point
	Marks  []mark
}

// entry is a result on the page.
type entry struct {
	*Result
	timeline

	Cells  []string
	Broken []string
}

// point is a message that has fired: when, and how late, in seconds.
type point struct{ At, Late float64 }

// mark is a fault: when it struck or was mended.
type mark struct {
	At   float64
	Text string
}

// WriteHTML writes a self-contained page with a timeline of each result.
func (r *Report) WriteHTML(out io.Writer) error {
	t, err := template.New("report").Parse(source)
	if err != nil {
		return fmt.Errorf("read the template of the report: %w", err)
	}
	var rows, pictures []entry
	for i, result := range r.Results {
		one := entry{result, result.timeline, result.cells(), slices.Clone(result.Broken)}
		for i := range result.Verdict.Violations {
			one.Broken = append(one.Broken, result.Verdict.Violations[i].String())
		}
		rows = append(rows, one)
		if !result.Passed() || i >= len(r.Results)-mostPictures {
			pictures = append(pictures, one)
		}
	}
	data := struct {
		*Report

		Rows, Pictures []entry
	}{r, rows, pictures}
	if err := t.Execute(out, data); err != nil {
		return fmt.Errorf("write the report: %w", err)
	}
	return nil
}

// mostPictures is how many results the page has pictures of, the last ones, besides those that are broken: it has to
// open in a browser after a night, too.
const mostPictures = 50

// draw makes the timeline of a history.
func draw(events []check.Event) timeline {
	var t timeline
	due := map[int]time.Duration{}
	for i := range events {
		e := &events[i]
		t.End = max(t.End, e.At.Seconds())
		switch e.Kind {
		case check.Submit:
			due[e.Message] = max(e.Deadline, e.At)
		case check.Fire:
			if d, first := due[e.Message]; first {
				t.Points = append(t.Points, point{e.At.Seconds(), (e.At - d).Seconds()})
				delete(due, e.Message)
			}
		case check.Fault:
			t.Marks = append(t.Marks, mark{e.At.Seconds(), e.Text})
		case check.Heal:
			t.Marks = append(t.Marks, mark{e.At.Seconds(), "healed"})
		default:
		}
	}
	return t
}
