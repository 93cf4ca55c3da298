package sim

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Plan is what happens to a cluster in one run: the submissions and the faults. With the options it determines the
// whole run.
type Plan struct {
	Messages []Submission
	Faults   []Fault
}

// Clone returns a copy that shares nothing with p.
func (p *Plan) Clone() *Plan {
	return &Plan{Messages: slices.Clone(p.Messages), Faults: slices.Clone(p.Faults)}
}

// Script is a run as text: lines of the form "name value" set options, lines that begin with "at" or "after" are
// submissions, lines that begin with "node" or "app" are faults. What follows # is a comment.
type Script struct {
	// Name is the name of the file that it comes from, without its ending.
	Name string

	// About is the comment at the top of the file, which tells a person what the run shows.
	About string

	// Break names the mutant that is run; "" for none. Expect is the invariant that must be broken; "" for none.
	Break  string
	Expect string

	Options Options
	Plan    Plan

	// Sometimes are the points that the run must come by: names that Coverage counts.
	Sometimes []string

	// Never are the points that it must not come by.
	Never []string

	// Against are the mutants that the script must catch, and by which invariant.
	Against []Against
}

// Against says that a run with a mutant must break an invariant.
type Against struct{ Mutant, Invariant string }

// WriteTo writes the script as ReadScript reads it.
func (s *Script) WriteTo(out io.Writer) (int64, error) {
	var text strings.Builder
	for line := range strings.Lines(s.About) {
		text.WriteString("# " + strings.TrimSpace(line) + "\n")
	}
	if s.Break != "" {
		text.WriteString("break " + s.Break + "\n")
	}
	if s.Expect != "" {
		text.WriteString("expect " + s.Expect + "\n")
	}
	for _, point := range s.Sometimes {
		text.WriteString("sometimes " + point + "\n")
	}
	for _, point := range s.Never {
		text.WriteString("never " + point + "\n")
	}
	for _, a := range s.Against {
		text.WriteString("against " + a.Mutant + " " + a.Invariant + "\n")
	}
	text.WriteString(s.Options.String())
	for _, m := range s.Plan.Messages {
		text.WriteString(m.String() + "\n")
	}
	for _, f := range s.Plan.Faults {
		text.WriteString(f.String() + "\n")
	}
	n, err := io.WriteString(out, text.String())
	return int64(n), err
}

// ReadScript reads a script. Options that it does not set are those of DefaultOptions.
func ReadScript(in io.Reader) (*Script, error) {
	s := &Script{Options: DefaultOptions()}
	lines := bufio.NewScanner(in)
	top := true
	for n := 1; lines.Scan(); n++ {
		code, comment, commented := strings.Cut(lines.Text(), "#")
		code = strings.TrimSpace(code)
		if code == "" {
			top = top && commented
			if top {
				s.About += strings.TrimSpace(comment) + "\n"
			}
			continue
		}
		top = false
		if err := s.line(code); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read a script: %w", err)
	}
	if err := s.Options.Validate(); err != nil {
		return nil, fmt.Errorf("options: %w", err)
	}
	return s, nil
}

func (s *Script) line(line string) error {
	name, value, _ := strings.Cut(line, " ")
	value = strings.TrimSpace(value)
	switch name {
	case "at", "after":
		m, err := ParseSubmission(line)
		s.Plan.Messages = append(s.Plan.Messages, m)
		return err
	case "node", "app":
		f, err := ParseFault(line)
		s.Plan.Faults = append(s.Plan.Faults, f)
		return err
	case "break":
		s.Break = value
		return nil
	case "expect":
		s.Expect = value
		return nil
	case "against":
		mutant, invariant, _ := strings.Cut(value, " ")
		s.Against = append(s.Against, Against{mutant, strings.TrimSpace(invariant)})
		return nil
	case "never":
		s.Never = append(s.Never, value)
		return nil
	case "sometimes":
		s.Sometimes = append(s.Sometimes, value)
		return nil
	}
	return s.Options.Set(name, value)
}

// Setup returns the setup that runs the script. A script without submissions has those that its options draw.
func (s *Script) Setup() (Setup, error) {
	setup := Setup{Options: s.Options, Plan: s.Plan.Clone()}
	if len(setup.Plan.Messages) == 0 {
		setup.Plan.Messages = Workload(s.Options)
	}
	if s.Break != "" {
		mutant, err := MutantByName(s.Break)
		if err != nil {
			return Setup{}, err
		}
		setup.Break = mutant
	}
	return setup, nil
}
