package proof

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Counterexample is a state in which the invariant holds, and a step from it after which it does not: either the step
// is wrong, or the state is one that cannot be, and the invariant is too weak to say so.
type Counterexample struct {
	system *System
	step   *Transition
	claim  Named
	before *Structure
	params map[string]Element

	changes []Change
	names   map[Element]string
}

// NewCounterexample makes the step.
func NewCounterexample(s *System, o *Obligation, before *Structure, params map[string]Element) *Counterexample {
	e := &Counterexample{system: s, before: before.clone(), params: params, names: map[Element]string{}}
	for _, claim := range slices.Concat(s.Invariant, s.Promises) {
		if claim.Name == o.Claim {
			e.claim = claim
		}
	}
	e.naming()
	if o.Step != Beginning && o.Step != Promised {
		e.step = s.Transition(o.Step)
		after := World{Structure: before.clone()}
		e.changes = after.Apply(e.step, params)
	}
	return e
}

// Check evaluates what the solver has found, by the same formulas: the axioms and the invariant hold before, the step
// is possible, and the claim does not hold after it. It returns what is otherwise.
func (e *Counterexample) Check() error {
	w := World{Structure: e.before.clone()}
	for _, formula := range slices.Concat(e.system.Axioms, e.system.Invariant) {
		if !w.Holds(formula.Formula, nil) {
			return fmt.Errorf("%q does not hold before", formula.Name)
		}
	}
	if e.step != nil {
		if missing := w.Missing(e.step, e.params); missing != "" {
			return fmt.Errorf("the step is not possible: not %q", missing)
		}
		w.Apply(e.step, e.params)
	}
	if w.Holds(e.claim.Formula, nil) {
		return fmt.Errorf("%q holds after it", e.claim.Name)
	}
	return nil
}

// naming gives each thing a name that people can tell from others.
func (e *Counterexample) naming() {
	letters := map[Sort]string{
		Node: "ABCDEFGH", Name: "xyzuvw", Partition: "PQRS", Image: "IJKL", Time: "abcdefgh",
	}
	for _, sort := range e.system.Sorts {
		for number, thing := range e.before.Things(sort) {
			name := fmt.Sprintf("%s %d", sort, number+1)
			if alphabet := letters[sort]; alphabet != "" {
				name = alphabet[number : number+1]
			}
			e.names[thing] = name
		}
	}
	count := map[Element]int{}
	for _, i := range e.before.Things(Incarnation) {
		name := e.before.Value("name", i)
		count[name]++
		e.names[i] = fmt.Sprintf("%s#%d", e.names[name], count[name])
	}
	for number, c := range e.before.Things(Claim) {
		e.names[c] = fmt.Sprintf("claim %d (of %s on %s)", number+1, e.names[e.before.Value("owner", c)],
			e.names[e.before.Value("on", c)])
	}
}

// String tells it in words.
func (e *Counterexample) String() string {
	var text strings.Builder
	line := func(indent, words string) { text.WriteString(indent + words + "\n") }
	text.WriteString("before\n")
	for _, fact := range e.facts() {
		line("  ", fact)
	}
	if e.step != nil {
		args := make([]any, len(e.step.Params))
		for i, p := range e.step.Params {
			args[i] = e.names[e.params[p.name]]
		}
		line("", fmt.Sprintf("the step: %s", e.step.Name))
		line("  ", sentence(e.step.Says, args))
		text.WriteString("after\n")
		for _, change := range e.changes {
			symbol, _ := e.system.Symbol(change.Relation)
			if strings.HasPrefix(symbol.Name, of) {
				continue
			}
			words := sentence(symbol.Says, e.named(change.Args))
			if !change.To {
				words = "no more: " + words
			}
			line("  ", words)
		}
	}
	line("", fmt.Sprintf("which breaks %q: %s", e.claim.Name, e.claim.Says))
	return text.String()
}

// facts tells what is true before, except of images. Orders and what is the same of all things are left out.
func (e *Counterexample) facts() (facts []string) {
	for _, symbol := range e.system.Symbols {
		if strings.HasPrefix(symbol.Name, of) || symbol.Name == "origin" || symbol.Result != Truth {
			continue
		}
		for _, args := range slices.SortedFunc(maps.Keys(e.before.facts[symbol.Name]), compareTuples) {
			facts = append(facts, sentence(symbol.Says, e.named(args[:len(symbol.Args)])))
		}
	}
	for _, r := range e.before.Things(Record) {
		if !e.before.Is("written", r) {
			continue // it has no place in a log
		}
		facts = append(facts, fmt.Sprintf("%s has %s and %s in partition %s", e.names[r],
			e.names[e.before.Value("offset", r)], e.names[e.before.Value("epoch", r)],
			e.names[e.before.Value("partition", r)]))
	}
	return facts
}

func (e *Counterexample) named(things []Element) []any {
	named := make([]any, len(things))
	for i, thing := range things {
		named[i] = e.names[thing]
	}
	return named
}

// sentence puts names into words, as many as these have room for.
func sentence(words string, names []any) string {
	if !strings.Contains(words, "[") {
		names = names[:min(len(names), strings.Count(words, "%s"))]
		return fmt.Sprintf(words, names...)
	}
	return strings.Split(fmt.Sprintf(words, names...), "%!")[0]
}

func compareTuples(a, b tuple) int { return slices.Compare(a[:], b[:]) }

func (s *Structure) clone() *Structure {
	copied := *s
	copied.facts = map[string]map[tuple]bool{}
	for name, facts := range s.facts {
		copied.facts[name] = maps.Clone(facts)
	}
	return &copied
}
