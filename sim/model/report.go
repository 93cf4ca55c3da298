package model

import (
	"fmt"
	"io"
	"strings"
)

// Result is what a walk through the states has found.
type Result struct {
	// Broken is the property that is broken, 0 if there is none.
	Broken Property

	// Story is the shortest way to break it.
	Story Story

	// States is the number of states that were met, and Depth how many steps the farthest is away, when nothing
	// was broken.
	States, Depth int
}

// Search looks for the shortest way in which a variant breaks one of the properties in its scope.
func (v *Variant) Search(want Property) Result { return walk(v.Rules, v.Scope, want) }

// Explore goes through all states of our algorithm in a scope, and checks all properties that we promise.
func Explore(scope Scope) Result { return walk(Rules{}, scope, Promised) }

func walk(rules Rules, scope Scope, want Property) Result {
	s := search{machine: machine{rules: rules, scope: scope}, want: want}
	f := s.walk()
	result := Result{Broken: f.broken, States: f.states, Depth: f.depth}
	if f.broken != 0 {
		result.Story = s.machine.tell(f)
	}
	return result
}

// Worst is the last of the expected properties: the one whose story is told.
func (v *Variant) Worst() Property { return v.Expected[len(v.Expected)-1] }

// Document writes the counter-examples as a page of docs/. Explored are the results of the large scopes, in the order
// of Scopes; the part of the page that is about them comes last.
func Document(w io.Writer, explored []Result) error {
	var b strings.Builder
	b.WriteString(documentHead)
	for _, v := range Variants() {
		b.WriteString(v.Section())
	}
	b.WriteString(documentControls)
	b.WriteString("| scope | states | steps to the farthest | found |\n|---|---|---|---|\n")
	for _, scope := range SmallScopes() {
		documentScope(&b, scope, Explore(scope))
	}
	b.WriteString(documentLarge)
	b.WriteString("| scope | states | steps to the farthest | found |\n|---|---|---|---|\n")
	for i, scope := range Scopes() {
		documentScope(&b, scope, explored[i])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

const documentHead = `<!-- Generated: see "To add one" in sim/model/doc.go. Do not edit. -->

# Counter-examples

Each section changes one thing in the algorithm and shows the shortest way in which that goes wrong, in a world of
two nodes, one partition and one id that is used again and again. They come out of a breadth-first walk through all
states of a model of the algorithm, package ` + "`sim/model`" + `, whose doc.go says what is modelled and what is
not. Time goes down; what stands between two steps of a node is a pause, as long as you like.

The records of the partition are called s0, s1 and so on where they schedule a message, and c1, r1, m1, f1 where they
cancel, replace, reschedule (move) or fire what is there. A record with a mark, s1', was written by a later leader,
after Kafka had lost its tail. The position is how far the store says that the partition has been taken in; 1' is one
behind such a record, 1? one of which the epoch is not known; and "mark 2" says that nothing is claimed before the
position gets there. #1, #2 count the rows inserted. The model command of the laboratory shows one section with
"--variant NAME".

S1, no loss: what was taken in came out, or has a row, or was ignored for one, or was cancelled or replaced. S2,
justified delete: nothing is deleted before it came out. S3, exclusive claim. S4, justified reset: only the claim that
was found too old, or is given back. S5: nothing comes out twice without an excuse. S9: nothing is published past the
store. S13: no publish starts with a claim that is too old. S14: what was acknowledged and deleted is gone. S17: a
record is taken in once. S18: behind the position there is no gap. S19: what was cancelled does not come out. S20:
what was too late to cancel, or was fired, comes out. S21: what was taken in has its outcome. "undone" is a cancel
that a set back of the store has undone. "loss" is S1 or S18 broken for good: nobody has the message any more. L2:
everything drains, once there are no more faults. L9: also after the store was set back or rewound. U1, that a message
whose id was seen to fire before is not ignored for the row that fired, is not promised by anybody; U2, that it is not
ignored for a row that a second delivery has put there, is.

In the same worlds, and in much larger ones, the walk through all states of the algorithm as it is finds
nothing: see the end.

`

const documentControls = `## The algorithm as it is

All states of our own algorithm, with all promised properties, in the worlds of the counter-examples:

`

const documentLarge = `
## The algorithm as it is, in large worlds

"make model" goes through all of these states each time. A reply can be lost after the call took effect, before, and
with the call still on its way. Claims are not counted; neither are false suspicions in the first four worlds and in
the first one with a failover. A failover that loses commits is the same as a restore from a backup.

`

// Section returns what there is to say about a variant, with the picture of how it goes wrong: text that is also
// Markdown.
func (v *Variant) Section() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: %s\n\n", v.Hazard, v.Name)
	b.WriteString(folded(v.Title))
	b.WriteString(folded("What goes wrong: " + v.Story))
	var broken []string
	var worst Story // the last one
	for _, p := range v.Expected {
		worst = v.Search(p).Story
		broken = append(broken, fmt.Sprintf("%v after %d steps", p, len(worst.Lines)))
	}
	for line := range strings.Lines(worst.String()) {
		b.WriteString("    " + line)
	}
	b.WriteString("\n" + folded("Ours: "+v.Ours))
	b.WriteString(folded("Broken: " + strings.Join(broken, ", ") + ". World: " + v.Scope.Name + "."))
	return b.String()
}

// folded breaks a paragraph into lines.
func folded(text string) string {
	const columns = 110
	var b strings.Builder
	width := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case width == 0:
		case width+1+len(word) > columns:
			b.WriteString("\n")
			width = 0
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += len(word)
	}
	return b.String() + "\n\n"
}

func documentScope(b *strings.Builder, scope Scope, r Result) {
	found := "nothing"
	if r.Broken != 0 {
		found = r.Broken.String()
	}
	fmt.Fprintf(b, "| %s | %d | %d | %s |\n", scope.Name, r.States, r.Depth, found)
}
