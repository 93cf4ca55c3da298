// Package page draws a run of the simulator as one self-contained page: lanes for the application, the input
// partitions, the nodes, the row of each chosen message and the output topics, over virtual time. Crashes, pauses, cut
// links and outages are bars and marks on the lanes, the life of a message is a line through them, and what breaks an
// invariant is red. A person who looks for the reason of a failure should need nothing else.
//
// picture.go turns steps into a Picture, which is data; page.html draws it. The picture needs a script in the page, so
// that one can zoom into it; the story below it is a table that needs none.
package page

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"chronos/sim"
)

// source is the template of the page.
//
//go:embed page.html
var source string

// Page is what Write draws.
type Page struct {
	// Title and Command stand at the top: what it is, and how it is run again.
	Title, Command string

	// Setup is run once more, and Result is what its run has shown.
	Setup  sim.Setup
	Result sim.Result

	// Messages are the submissions whose life is drawn. None means those of the violation, or else those to which
	// most happens.
	Messages []int
}

// content is what the template is given.
type content struct {
	Page

	Options string
	Outcome string
	Broken  bool
	Hash    string
	Picture *Picture
	Story   []line
}

// line is a step of the story.
type line struct {
	At, Who, What, Text string
	Messages            string
	Broken              bool
}

// Write writes the page. The same run gives the same bytes. An error is one of out.
func Write(out io.Writer, p Page) error {
	var steps []sim.Step
	setup := p.Setup
	setup.Observe = func(s *sim.Step) { steps = append(steps, *s) }
	sim.Run(setup)
	if len(p.Messages) == 0 {
		p.Messages = choose(p.Result, steps)
	}
	c := content{
		Page:    p,
		Options: strings.Join(strings.Split(strings.TrimSpace(p.Setup.Options.String()), "\n"), "; "),
		Outcome: "Passed: no invariant is broken.",
		Hash:    fmt.Sprintf("%016x", p.Result.Hash),
		Picture: newPicture(&p.Setup, steps, p.Messages),
	}
	if v := p.Result.Violation; v != nil {
		c.Broken = true
		c.Outcome = fmt.Sprintf("%s is broken at %v: %s", v.Invariant, v.At, v.Detail)
	}
	for _, s := range sim.Story(p.Setup, p.Messages...) {
		l := line{At: s.At.String(), What: string(s.Kind), Text: s.Text, Broken: s.Kind == sim.StepBroken}
		if s.Node > 0 {
			l.Who = fmt.Sprintf("node %d.%d", s.Node, s.Life)
		}
		if s.Op != "" {
			l.Text = strings.TrimSpace(fmt.Sprintf("%s %d %s", s.Op, s.Nth, s.Text))
		}
		chosen := slices.DeleteFunc(slices.Clone(s.Messages), func(n int) bool {
			return !slices.Contains(p.Messages, n)
		})
		l.Messages = strings.Trim(fmt.Sprint(chosen), "[]")
		c.Story = append(c.Story, l)
	}
	t, err := template.New("page").Parse(source)
	if err != nil {
		return fmt.Errorf("read the template of the page: %w", err)
	}
	if err := t.Execute(out, &c); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// choose returns the submissions to draw: those of the violation, or the few to which most happens.
func choose(result sim.Result, steps []sim.Step) []int {
	const few = 5
	if v := result.Violation; v != nil && len(v.Messages) > 0 {
		return v.Messages
	}
	counts := map[int]int{}
	for i := range steps {
		for _, n := range steps[i].Messages {
			counts[n]++
		}
	}
	var numbers []int
	for i := range steps {
		for _, n := range steps[i].Messages {
			if n > 0 && !slices.Contains(numbers, n) {
				numbers = append(numbers, n)
			}
		}
	}
	slices.SortStableFunc(numbers, func(a, b int) int { return counts[b] - counts[a] })
	numbers = numbers[:min(few, len(numbers))]
	slices.Sort(numbers)
	return numbers
}
