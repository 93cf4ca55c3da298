package check

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Verdict is what a history has shown.
type Verdict struct {
	// Violations are in the order of the events. An invariant that is broken once may be broken often.
	Violations []Violation

	// Judged are the names of the invariants that the history could have broken.
	Judged []string

	// NotJudged are the others: the history does not record what they are about.
	NotJudged []NotJudged

	Summary Summary
}

// NotJudged says which events an invariant would need that are not recorded.
type NotJudged struct {
	Invariant string
	Missing   []Kind
}

// Summary are the figures of a history.
type Summary struct {
	Events     int
	Submitted  int // submissions, each counted once
	Fired      int // those that fired at least once
	Records    int // on the output topics
	Duplicates int // records beyond the first of each submission
	Excuses    map[string]int
	Rejected   int
	Copied     int // to a dead-letter topic
	Covered    int // duplicates of what was stored
	Lost       int // at the end of the history, where S1 is judged
	Faults     int

	// Quiet is the lateness after the deadline while nothing had gone wrong, or a recovery bound after the healing;
	// Rough is that of the rest. A message that was submitted after its deadline is late from then on.
	Quiet, Rough Lateness

	// Drained is how long after the healing the last message fired that had been submitted or due before it; -1 when
	// nothing has healed.
	Drained time.Duration
}

// Lateness are the quantiles of the lateness of messages; negative is early, by the timing advance.
type Lateness struct {
	Count                 int
	Median, P999, Largest time.Duration
}

// tally collects what the summary needs.
type tally struct {
	events       int
	quiet, rough []time.Duration
	excuses      map[string]int
	drained      time.Duration
	end          time.Duration // -1 before
}

func newTally() tally { return tally{excuses: map[string]int{}, drained: -1, end: -1} }

// add counts an event, before it is applied.
func (t *tally) add(s *state, e *Event) {
	t.events++
	switch e.Kind {
	case Heal:
		t.drained = 0
	case End:
		t.end = e.At
	default:
	}
	sub := s.submissions[e.Message]
	if e.Kind != Fire || sub == nil {
		return
	}
	if sub.fires > 0 {
		t.excuses[cmp.Or(s.excuseOf(sub, e), "none")]++
		return
	}
	late := e.At - max(sub.deadline, sub.at)
	if s.faults == 0 && s.healed < 0 || s.healed >= 0 && max(sub.at, sub.deadline) > s.healed+s.config.Recovery() {
		t.quiet = append(t.quiet, late)
	} else {
		t.rough = append(t.rough, late)
	}
	if s.healed >= 0 && max(sub.at, sub.deadline) <= s.healed {
		t.drained = e.At - s.healed
	}
}

func (t *tally) summary(s *state) Summary {
	sum := Summary{
		Events: t.events, Faults: s.faults, Excuses: maps.Clone(t.excuses),
		Quiet: lateness(t.quiet), Rough: lateness(t.rough), Drained: t.drained,
	}
	for _, sub := range s.inOrder() {
		sum.Submitted++
		sum.Records += int(sub.fires)
		sum.Duplicates += max(int(sub.fires)-1, 0)
		sum.Fired += count(sub.fires > 0)
		sum.Rejected += count(sub.rejected)
		sum.Copied += count(sub.copies > 0)
		nothing := sub.fires == 0 && sub.copies == 0 && !sub.rejected && sub.flaw == ""
		sum.Covered += count(nothing && (sub.covered || s.coveredByOthers(sub)))
		sum.Lost += count(t.end >= 0 && s.lost(sub, t.end) != "")
	}
	return sum
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lateness returns the quantiles of a sample.
func lateness(sample []time.Duration) Lateness {
	if len(sample) == 0 {
		return Lateness{}
	}
	sorted := slices.Sorted(slices.Values(sample))
	at := func(perMille int) time.Duration { return sorted[(len(sorted)*perMille+999)/1000-1] }
	return Lateness{len(sorted), at(500), at(999), sorted[len(sorted)-1]}
}

// WriteTo writes the verdict for a person.
func (v *Verdict) WriteTo(out io.Writer) (int64, error) {
	var text strings.Builder
	s := &v.Summary
	fmt.Fprintf(&text, "%d events, %d faults\n", s.Events, s.Faults)
	fmt.Fprintf(&text, "submitted  %d: fired %d, rejected %d, dead-lettered %d, covered by another %d",
		s.Submitted, s.Fired, s.Rejected, s.Copied, s.Covered)
	if s.Lost > 0 {
		fmt.Fprintf(&text, ", LOST %d", s.Lost)
	}
	text.WriteString("\n")
	fmt.Fprintf(&text, "duplicates %d\n", s.Duplicates)
	for _, reason := range slices.Sorted(maps.Keys(s.Excuses)) {
		fmt.Fprintf(&text, "  %6d   %s\n", s.Excuses[reason], reason)
	}
	for _, l := range []struct {
		name string
		Lateness
	}{{"quiet", s.Quiet}, {"rough", s.Rough}} {
		if l.Count > 0 {
			fmt.Fprintf(&text, "late       %s: median %v, p99.9 %v, most %v, of %d messages\n",
				l.name, l.Median.Round(time.Microsecond), l.P999.Round(time.Microsecond),
				l.Largest.Round(time.Microsecond), l.Count)
		}
	}
	const inLine = 24 // names, so that a line has 100 letters at most
	for i, names := range slices.Collect(slices.Chunk(v.Judged, inLine)) {
		fmt.Fprintf(&text, "%-10s %s\n", []string{"judged", ""}[min(i, 1)], strings.Join(names, " "))
	}
	for _, n := range v.NotJudged {
		fmt.Fprintf(&text, "not judged %s, because the history does not record %s\n", n.Invariant, joined(n.Missing))
	}
	for i := range v.Violations {
		fmt.Fprintln(&text, v.Violations[i].String())
	}
	if len(v.Violations) == 0 {
		fmt.Fprintln(&text, "all that was judged holds")
	}
	n, err := io.WriteString(out, text.String())
	if err != nil {
		return int64(n), fmt.Errorf("write the verdict: %w", err)
	}
	return int64(n), nil
}

// String returns the violation as a line.
func (v *Violation) String() string {
	return fmt.Sprintf("BROKEN %s at %v, event %d: %s", v.Invariant, v.At, v.Event, v.Detail)
}
