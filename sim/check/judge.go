package check

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// Violation says which invariant was broken, when, and how.
type Violation struct {
	Invariant string
	Detail    string
	At        time.Duration
	Event     int   // the place of the event in the history, from 1
	Messages  []int // the submissions of the id concerned, in order
}

// Judge looks at a history, event by event, and says which invariants it breaks. It keeps what it needs of each
// submission until the end.
type Judge struct {
	state      *state
	invariants []Invariant
	at         map[Kind][]int // which of them an event can break
	events     int
	tally      tally
	verdict    Verdict
}

// New returns a judge that has seen nothing.
func New() *Judge {
	return &Judge{state: newState(), invariants: Invariants(), at: map[Kind][]int{}, tally: newTally()}
}

// Add takes the next event. It returns the violations by it, which it keeps too. Events come in the order in which they
// took effect; the first one is Configure, which says which invariants can be judged, and the last one End.
func (j *Judge) Add(e *Event) []Violation {
	if e.Kind == Configure {
		j.choose(e.Config)
	}
	j.events++
	var found []Violation
	for _, i := range j.at[e.Kind] {
		if f := j.invariants[i].broken(j.state, e); f.detail != "" {
			found = append(found, j.violation(j.invariants[i].Name, f, e))
		}
	}
	j.tally.add(j.state, e)
	j.state.apply(e)
	j.verdict.Violations = append(j.verdict.Violations, found...)
	return found
}

// choose leaves out what can't be judged.
func (j *Judge) choose(c *Config) {
	recorded := map[Kind]bool{}
	for _, k := range c.Recorded {
		recorded[k] = true
	}
	clear(j.at)
	j.verdict = Verdict{}
	for i := range j.invariants {
		invariant := &j.invariants[i]
		judged, missing := invariant.judged(recorded)
		if !judged {
			j.verdict.NotJudged = append(j.verdict.NotJudged, NotJudged{invariant.Name, missing})
			continue
		}
		j.verdict.Judged = append(j.verdict.Judged, invariant.Name)
		for _, kind := range invariant.at {
			j.at[kind] = append(j.at[kind], i)
		}
	}
}

func (j *Judge) violation(name string, f finding, e *Event) Violation {
	v := Violation{Invariant: name, Detail: f.detail, At: e.At, Event: j.events}
	if f.about == nil {
		return v
	}
	v.Detail = fmt.Sprintf("submission %d, id %s: %s", f.about.number, f.about.key.id, f.detail)
	for _, sub := range j.state.inOrder() {
		if sub.key == f.about.key {
			v.Messages = append(v.Messages, sub.number)
		}
	}
	return v
}

// Verdict returns what the history has shown so far.
func (j *Judge) Verdict() Verdict {
	v := j.verdict
	v.Violations = slices.Clone(j.verdict.Violations)
	v.Summary = j.tally.summary(j.state)
	if !slices.Contains(v.Judged, "S1") {
		v.Summary.Lost = 0 // nobody can tell
	}
	return v
}

// Check reads a history and judges it. An error says that it can't be judged: what is wrong, and in which line.
func Check(in io.Reader) (Verdict, error) {
	j := New()
	last := &Event{}
	err := Read(in, func(e *Event) error {
		switch {
		case j.events == 0 && e.Kind != Configure:
			return fmt.Errorf("the first event is %s: it must be %s", e.Kind, Configure)
		case j.events > 0 && e.Kind == Configure:
			return fmt.Errorf("there is a second %s", Configure)
		case last.Kind == End:
			return fmt.Errorf("there is a %s after the %s", e.Kind, End)
		case e.At < last.At:
			return fmt.Errorf("the time goes back from %v to %v", last.At, e.At)
		}
		j.Add(e)
		last = e
		return nil
	})
	if err == nil && last.Kind != End {
		err = fmt.Errorf("the history breaks off: its last event is %q instead of %q", last.Kind, End)
	}
	return j.Verdict(), err
}
