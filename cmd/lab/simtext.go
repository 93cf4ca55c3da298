package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"chronos/sim"
)

// paperWidth is how long the lines of a report are at most.
const paperWidth = 100

// paper is where a report is written. It keeps the first error, and writes nothing after it.
type paper struct {
	out io.Writer
	err error
}

// line writes a line.
func (p *paper) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

// labelled is how far what has a label is indented.
const labelled = 15

// words writes words that may be many, in lines that are indented alike; the first one begins with a label.
func (p *paper) words(indent int, label string, words ...string) {
	line := fmt.Sprintf("  %-*s", indent-2, label)
	empty := true
	for _, word := range words {
		if !empty && runes(line)+1+runes(word) > paperWidth {
			p.line("%s", line)
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	p.line("%s", strings.TrimRight(line, " "))
}

// figure writes a figure and its name.
func (p *paper) figure(label, format string, args ...any) {
	p.line("  %-*s%s", labelled-2, label, fmt.Sprintf(format, args...))
}

// paragraph writes text in lines that are not too long.
func (p *paper) paragraph(text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && runes(line)+1+runes(word) > paperWidth {
			p.line("%s", line)
			line = ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	p.line("%s", line)
}

func runes(s string) int { return len([]rune(s)) }

// options writes the options of a run: those that are not as usual.
func (p *paper) options(o *sim.Options) {
	var words []string
	for line := range strings.Lines(o.String()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		value = strings.ReplaceAll(value, ",", ", ")
		words = append(words, strings.Fields(name+" "+value+";")...)
	}
	if n := len(words); n > 0 {
		words[n-1] = strings.TrimSuffix(words[n-1], ";")
	}
	p.words(labelled, "options", joinPairs(words)...)
}

// joinPairs joins a name and its value, so that no line ends between them.
func joinPairs(words []string) []string {
	var joined []string
	pending := ""
	for _, word := range words {
		if pending == "" && !strings.HasSuffix(word, ";") && !strings.HasSuffix(word, ",") {
			pending = word + " "
			continue
		}
		joined, pending = append(joined, pending+word), ""
	}
	if pending != "" {
		joined = append(joined, strings.TrimSpace(pending))
	}
	return joined
}

// story writes steps of a run for a person to read. Of a long story the middle is left out.
func (p *paper) story(steps []sim.Step) {
	const most = 60
	for i := range steps {
		if left := len(steps) - most; left > 0 && i >= most/2 && i < most/2+left {
			if i == most/2 {
				p.line("        ...   %s more steps", thousands(left))
			}
			continue
		}
		p.step(&steps[i])
	}
}

// step writes a step as a line of a story, or as more if it is long.
func (p *paper) step(s *sim.Step) {
	who := ""
	switch {
	case s.Node > 0:
		who = fmt.Sprintf("node %d.%d", s.Node, s.Life)
	case s.Kind == sim.StepSubmit:
		who = "application"
	}
	text := s.Text
	if s.Kind == sim.StepFault {
		text = strings.TrimPrefix(strings.TrimPrefix(text, fmt.Sprintf("node %d ", s.Node)), "app ")
	} else if s.Op != "" {
		text = strings.TrimSpace(fmt.Sprintf("%s %d %s", s.Op, s.Nth, text))
	}
	for _, n := range s.Messages {
		if s.Kind != sim.StepBroken {
			text += fmt.Sprintf(" #%d", n)
		}
	}
	label := fmt.Sprintf("%9.3f s  %-11s  %-8s", s.At.Seconds(), who, s.Kind)
	p.words(len(label)+4, label, strings.Fields(text)...)
}

// occurred returns how often things of one class occurred, as "name count", the names without their class.
func occurred(coverage sim.Coverage, class string) []string {
	var words []string
	for _, name := range coverage.Names() {
		if rest, is := strings.CutPrefix(name, class+":"); is && coverage[name] > 0 {
			words = append(words, rest+" "+thousands(coverage[name])+",")
		}
	}
	if n := len(words); n > 0 {
		words[n-1] = strings.TrimSuffix(words[n-1], ",")
	}
	return words
}

// thousands returns a number with commas between groups of three digits.
func thousands[N int | int64 | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10) // nothing here is negative
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// plural returns a number of things.
func plural[N int | int64 | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return thousands(n) + " " + thing + "s"
}

// span returns a duration as a person would say it: three digits, or two units.
func span(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d < time.Second:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'g', 3, 64) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + " s"
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 2*day:
		d = d.Round(time.Minute)
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		d = d.Round(time.Hour)
		return fmt.Sprintf("%s days %d h", thousands(int64(d/day)), d%day/time.Hour)
	}
}
