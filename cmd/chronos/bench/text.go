package bench

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// WriteText writes a result for a person at a terminal.
func (r *Result) WriteText(out io.Writer) error {
	t := &text{}
	t.line("%s", r.Load.String())
	for _, about := range []string{r.Service, r.Machine} {
		if about != "" {
			t.line("%s", about)
		}
	}
	t.line("")
	t.table(r.rates(), 0)
	t.line("")
	if r.Received != nil {
		t.table(r.lateRows(), 7)
		t.line("")
	}
	if len(r.Processes) > 0 {
		t.table(r.processRows(), 3)
		t.line("")
	}
	t.verdict(r)
	_, err := io.WriteString(out, t.String())
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// WriteText writes what a search has found.
func (f *Found) WriteText(out io.Writer) error {
	t := &text{}
	rows := [][]string{{"rate", "p50", "p99", "p99.9", "max", ""}}
	for _, s := range f.Steps {
		row := []string{count(int(s.Rate)) + "/s", "-", "-", "-", "-", "held"}
		if s.Result != nil && s.Result.Received != nil {
			q := s.Result.Received.AfterDue
			row = []string{row[0], ms(q.P50), ms(q.P99), ms(q.P999), ms(q.Max), row[5]}
		}
		if !s.Held {
			row[5] = "failed: " + s.Why
		}
		rows = append(rows, row)
	}
	t.line("Lateness in ms, when received, after the due instant; %s.", f.Bound)
	t.line("")
	t.table(rows, 4)
	t.line("")
	switch {
	case f.Rate == 0:
		t.line("No rate was held.")
	case f.Open:
		t.line("%s messages/s were held, which is the highest rate that was to be tried.", count(int(f.Rate)))
	default:
		t.line("The highest rate that was held is %s messages/s.", count(int(f.Rate)))
	}
	if f.Ended != "" {
		t.line("%s", f.Ended)
	}
	if f.Best != nil {
		t.line("")
		t.notes(f.Best)
	}
	if _, err := io.WriteString(out, t.String()); err != nil {
		return fmt.Errorf("write what was found: %w", err)
	}
	return nil
}

// text is what is written.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) { _, _ = fmt.Fprintf(t, format+"\n", args...) } // a Builder never fails

// table writes rows under a head. The first figures columns after the name are aligned to the right.
func (t *text) table(rows [][]string, figures int) {
	widths := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 && i <= figures {
				cell = gap + cell
			} else {
				cell += gap
			}
			line.WriteString("  " + cell)
		}
		t.line("%s", strings.TrimRight(line.String(), " "))
	}
}

// rates are the rows of what was sent, taken in and let out.
func (r *Result) rates() [][]string {
	s, in := &r.Sent, &r.Integrity
	sent := fmt.Sprintf("%s of %s, %s/s", count(s.Messages), count(s.Planned), count(int(s.PerSecond)))
	if s.Late != nil && (r.Load.Shape != Burst || r.Load.Rate > 0) {
		sent += fmt.Sprintf("; after their time by p50 %s, p99 %s, max %s ms",
			ms(s.Late.P50), ms(s.Late.P99), ms(s.Late.Max))
	}
	acknowledged := count(s.Acknowledged)
	if s.Acknowledge != nil {
		acknowledged += fmt.Sprintf(" by Kafka, in p50 %s, p99 %s, max %s ms",
			ms(s.Acknowledge.P50), ms(s.Acknowledge.P99), ms(s.Acknowledge.Max))
	}
	rows := [][]string{{"sent", sent}, {"acknowledged", acknowledged}}
	if r.Intake != nil {
		rows = append(rows, []string{"taken in", fmt.Sprintf("%s submissions, %s/s in %s; all by %s after the start",
			count(int(r.Intake.Taken)), count(int(r.Intake.PerSecond)), span(r.Intake.Took), span(r.Intake.Ended))})
	}
	fired := fmt.Sprintf("%s, of which %s are measured", count(in.Came), count(r.Fired.Messages))
	if r.Load.Shape == Burst && r.Fired.Messages > 1 {
		fired = fmt.Sprintf("%s, %s/s by their timestamps, %s/s as received",
			count(in.Came), count(int(r.Fired.PerSecondStamped)), count(int(r.Fired.PerSecond)))
	}
	return append(rows, []string{"came", fired})
}

// lateRows are the rows of lateness.
func (r *Result) lateRows() [][]string {
	rows := [][]string{{"lateness in ms", "min", "p50", "p90", "p99", "p99.9", "p99.99", "max"}}
	add := func(name string, q *Quantiles) {
		rows = append(rows, []string{
			name, ms(q.Min), ms(q.P50), ms(q.P90), ms(q.P99), ms(q.P999), ms(q.P9999), ms(q.Max),
		})
	}
	for _, by := range []*Lateness{r.Received, r.Stamped} {
		if by == nil {
			continue
		}
		name := map[string]string{
			"receiver": "received", "broker": "appended, by Kafka's clock", "service": "stamped by the service",
		}[by.Clock]
		add(name+", after due", by.AfterDue)
		if r.Load.Advance > 0 {
			add(name+", after the deadline", by.AfterDeadline)
		}
	}
	return rows
}

// processRows are the rows of what processes used.
func (r *Result) processRows() [][]string {
	rows := [][]string{{"process", "CPUs", "µs/message", "memory, peak MB"}}
	for _, p := range r.Processes {
		rows = append(rows, []string{
			p.Name, fmt.Sprintf("%.2f", p.CPUs), fmt.Sprintf("%.1f", p.PerSent),
			fmt.Sprintf("%.0f", float64(max(p.Memory, p.Peak))/1e6),
		})
	}
	if r.Others >= 0 {
		rows = append(rows, []string{"all others", fmt.Sprintf("%.2f", r.Others), "-", "-"})
	}
	return rows
}

// verdict says whether all is well, and what is not.
func (t *text) verdict(r *Result) {
	switch {
	case r.Filled || r.Integrity.Came == 0 && r.Passed():
	case r.Passed() && r.Integrity.Waiting > 0:
		t.line("Nothing doubled, early or damaged so far.")
	case r.Passed():
		t.line("Nothing missing, doubled, early or damaged.")
	}
	for _, f := range r.Faults {
		t.line("WRONG: %s.", f)
	}
	for _, s := range r.Integrity.Samples {
		t.line("  %s %s", s.ID, s.What)
	}
	t.notes(r)
}

func (t *text) notes(r *Result) {
	for _, c := range r.Clocks {
		t.line("Clock of %s: ahead of this machine's by %s to %s ms.", c.Broker, ms(c.Low), ms(c.High))
	}
	for _, n := range r.Notes {
		t.line("Note: %s", n)
	}
}

// String says what the load is, in words.
func (l *Load) String() string {
	var parts []string
	switch l.Shape {
	case Burst:
		parts = append(parts, fmt.Sprintf("%s messages due at one instant, %v after the start", count(l.Count), l.Lead))
		if l.Rate > 0 {
			parts = append(parts, fmt.Sprintf("sent at %s/s", number(l.Rate)))
		}
	case Ramp:
		parts = append(parts, fmt.Sprintf("from %s to %s messages/s in %v", number(l.From), number(l.Rate), l.Duration))
	default:
		parts = append(parts, fmt.Sprintf("%s messages/s for %v", number(l.Rate), l.Duration))
	}
	if l.Shape != Burst {
		parts = append(parts, "delays "+l.Delay.text(func(x float64) string { return time.Duration(x).String() }))
		parts = append(parts, fmt.Sprintf("%v of warm-up", l.WarmUp))
	}
	parts = append(parts, l.Size.text(number)+" bytes")
	if l.Keys > 0 {
		keys := count(l.Keys) + " keys"
		if l.Skew > 0 {
			keys += " skewed by " + number(l.Skew)
		}
		parts = append(parts, keys)
	}
	if l.Twice > 0 {
		parts = append(parts, number(100*l.Twice)+" % of them twice")
	}
	if l.Routes > 1 {
		parts = append(parts, fmt.Sprintf("%d routes", l.Routes))
	}
	if l.Advance > 0 {
		parts = append(parts, fmt.Sprintf("due %v before the deadline", l.Advance))
	}
	return fmt.Sprintf("%s; run %s, seed %d", strings.Join(parts, ", "), l.Run, l.Seed)
}

// text says what a distribution is.
func (s *Spread) text(value func(float64) string) string {
	switch {
	case s.Mean > 0:
		return "exponential around " + value(s.Mean)
	case s.Low == s.High:
		return value(s.Low)
	}
	return value(s.Low) + " to " + value(s.High)
}

// number writes a number without needless digits.
func number(x float64) string {
	if x == float64(int(x)) {
		return count(int(x))
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// count writes a number with commas.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// ms writes milliseconds with as many digits as matter.
func ms(m Millis) string {
	if m >= 100 || m <= -100 {
		return count(int(m))
	}
	return fmt.Sprintf("%.1f", float64(m))
}

// span writes a time in seconds.
func span(m Millis) string { return fmt.Sprintf("%.1f s", float64(m)/1000) }
