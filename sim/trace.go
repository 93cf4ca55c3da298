package sim

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"chronos/node"
)

// TraceTo returns an observer that writes each step as a line. It keeps the first error, and writes nothing after it.
func TraceTo(out io.Writer) (observe func(*Step), failed func() error) {
	var err error
	return func(s *Step) {
			if err == nil {
				_, err = io.WriteString(out, s.String()+"\n")
			}
		}, func() error {
			return err
		}
}

// Story returns the steps of a run that matter to some submissions: what happened to them, and what happened to the
// nodes that had to do with them, from their first step to their last. It runs the setup once more.
func Story(setup Setup, messages ...int) []Step {
	var steps []Step
	setup.Observe = func(s *Step) { steps = append(steps, *s) }
	Run(setup)
	about := func(s *Step) bool {
		return slices.ContainsFunc(s.Messages, func(n int) bool { return slices.Contains(messages, n) })
	}
	var nodes []int
	first, last := len(steps), 0
	for i := range steps {
		if !about(&steps[i]) {
			continue
		}
		first, last = min(first, i), i
		if !slices.Contains(nodes, steps[i].Node) {
			nodes = append(nodes, steps[i].Node)
		}
	}
	var story []Step
	for i := range steps {
		s := &steps[i]
		within := i >= first && i <= last
		switch {
		case about(s), s.Kind == StepBroken:
		case s.Kind == StepWorld && within:
		case s.Kind == StepFault && within && (slices.Contains(nodes, s.Node) || s.Node == 0):
		case within && slices.Contains(nodes, s.Node) && slices.Contains(
			[]StepKind{StepStart, StepStop, StepCrash, StepPause, StepResume, StepExpelled}, s.Kind):
		default:
			continue
		}
		story = append(story, *s)
	}
	return story
}

// eventMessages returns the submissions that an event of the engine is about.
func eventMessages(w *world, e node.Event) []int {
	switch e := e.(type) {
	case node.Rejected:
		return []int{numberIn(e.Record.Headers)}
	case node.Enqueued:
		return ofMessages(e.Messages)
	case node.Claimed:
		return mapped(e.Messages, func(m node.Ready) int { return numberIn(m.Headers) })
	case node.Fired:
		return ofMessages(e.Messages)
	case node.Unpublished:
		return ofMessages(e.Messages)
	case node.DeadLettered:
		return ofMessages(e.Messages)
	case node.GaveUp:
		return ofMessages([]node.Message{e.Message})
	case node.Deleted:
		return mapped(e.Refs, w.recorder.numberOf)
	case node.Missing:
		return mapped(e.Refs, w.recorder.numberOf)
	case node.Abandoned:
		return w.ofClaims(e.Claims)
	case node.Released:
		return w.ofClaims(e.Claims)
	case node.Suspected:
		return w.ofClaims(e.Claims)
	}
	return nil
}

func ofMessages(messages []node.Message) []int {
	return mapped(messages, func(m node.Message) int { return numberIn(m.Headers) })
}

func (w *world) ofClaims(claims []node.Claim) []int {
	return mapped(claims, func(c node.Claim) int { return w.recorder.numberOf(c.Ref) })
}

// eventText says what an event of the engine is, in a few words: its name, and the fields that say something.
func eventText(e node.Event) string {
	var text strings.Builder
	text.WriteString(e.Name())
	for _, f := range e.Fields() {
		switch value := fmt.Sprint(f.Value); value {
		case "", "0", "0s", "false":
		default:
			text.WriteString(" " + f.Name + "=" + value)
		}
	}
	return text.String()
}
