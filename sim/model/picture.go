package model

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Story is a counter-example that people can read: what happens in each step, and what the world is like after it.
type Story struct {
	Broken Property
	Lines  []Line
}

// Line is one step of a story. Each field but the first is what is seen in one lane, empty where nothing is.
type Line struct {
	Step                              int
	App, Partition, NodeA, NodeB, Row string
}

// teller retells a path.
type teller struct {
	machine machine
	rows    int // inserted so far
	row     int // the number of the row
	standby int
}

// tell retells the path of a counter-example.
func (m *machine) tell(f found) Story {
	t := teller{machine: machine{rules: m.rules, scope: m.scope}}
	story := Story{Broken: f.broken}
	at := initial(&m.scope)
	for i, a := range f.path {
		steps := t.machine.next(&at)
		taken := slices.IndexFunc(steps, func(s step) bool { return s.action == a })
		if taken < 0 {
			panic(fmt.Sprintf("model: step %d of a path cannot be taken: %+v", i+1, a))
		}
		after := steps[taken].state
		line := t.line(&at, &after, a)
		line.Step = i + 1
		story.Lines = append(story.Lines, line)
		at = after
	}
	return story
}

// line tells one step.
func (t *teller) line(before, after *state, a action) Line {
	var line Line
	text := t.what(before, after, a)
	switch a.kind {
	case actSubmit:
		line.App = text
	case actRebalance:
		line.Partition = text
	case actLag, actFailover:
		line.Row = text
	case actLate, actDrop:
		// The one who sent the request is not there any more, or has forgotten it.
		line.on(before.late.node, text)
	default:
		line.on(a.node, text)
	}
	if partition := partitionText(after); partition != partitionText(before) && line.Partition == "" {
		line.Partition = partition
	}
	if text := t.rowText(before, after, a); text != "" {
		line.Row = strings.TrimPrefix(line.Row+": "+text, ": ")
	}
	return line
}

func (l *Line) on(node uint8, text string) {
	if node == 1 {
		l.NodeB = text
	} else {
		l.NodeA = text
	}
}

// partitionText is the input partition as the broker has it.
func partitionText(s *state) string {
	text := "empty"
	if s.submitted > 0 {
		text = "s0"
	}
	if s.submitted > 1 {
		text = "s0 s1"
	}
	if s.committed > 0 {
		text += fmt.Sprintf(", committed %d", s.committed)
	}
	return text
}

// rowText is what the row has become, where it has changed, or was to change. Rows have numbers in the order of
// their inserts.
func (t *teller) rowText(before, after *state, a action) string {
	if a.kind == actLag {
		t.standby = t.row
		return ""
	}
	if a.kind == actFailover {
		t.row = t.standby
		return t.describe(after.row)
	}
	inserted := after.row.inc != none && (before.row.inc == none || before.row.src != after.row.src)
	if inserted {
		t.rows++
		t.row = t.rows
	}
	if !inserted && before.row.inc == after.row.inc && before.row.claim == after.row.claim &&
		before.row.owner == after.row.owner {
		return ""
	}
	return t.describe(after.row)
}

func (t *teller) describe(r row) string {
	if r.inc == none {
		return "(none)"
	}
	name := fmt.Sprintf("s%d #%d", r.src, t.row)
	if t.machine.rules.Sequence {
		name = fmt.Sprintf("s%d #%d", r.src, r.inc)
	}
	if r.claim == none {
		return name + " waiting"
	}
	return name + " ready, " + [...]string{"A", "B", "of a dead process"}[r.owner]
}

// what tells what happens, and to what.
func (t *teller) what(before, after *state, a action) string {
	c := before.consumers[a.node]
	l := before.slots[a.node][a.slot]
	switch a.kind {
	case actSubmit:
		return submitText(before)
	case actPoll:
		return pollText(before, after, a)
	case actInsert:
		return t.insertText(before, after, a)
	case actLook:
		if before.row.inc != none && after.consumers[a.node].phase == phaseAbsent {
			return fmt.Sprintf("s%d has lapsed: does not look", c.at)
		}
		if before.row.inc != none {
			return fmt.Sprintf("s%d has lapsed; a row is there: ignores s%d", c.at, c.at)
		}
		return fmt.Sprintf("s%d has lapsed; no row is there", c.at)
	case actDirect:
		return publishText(c.at, a.outcome)
	case actCommit:
		return "commits " + fmt.Sprint(c.last) + ending(a.outcome)
	case actSelect:
		return fmt.Sprintf("finds s%d waiting", before.row.src)
	case actClaim:
		return fmt.Sprintf("claims s%d", before.row.src) + ending(a.outcome)
	case actBegin:
		return fmt.Sprintf("begins to publish s%d", l.src)
	case actPublish:
		return publishText(l.src, a.outcome)
	case actGiveBack:
		return fmt.Sprintf("gives s%d back", l.src) + effectText(before.row != after.row, a.outcome)
	case actDelete:
		return t.deleteText(before, after, l.src) + ending(a.outcome)
	case actSuspect:
		return fmt.Sprintf("finds the claim on s%d too old", before.row.src)
	case actReset:
		return "resets the claim" + effectText(before.row != after.row, a.outcome)
	case actLate:
		return "the late " + lateText(before.late) + " takes effect"
	case actDrop:
		return "the late " + lateText(before.late) + " is lost"
	case actCrash:
		return crashText(a)
	case actRebalance:
		if a.option == rebalanceLeave {
			return nodeName(before.owner) + " leaves, given to " + nodeName(after.owner)
		}
		return "taken from " + nodeName(before.owner) + ", given to " + nodeName(after.owner)
	case actLag:
		return "the standby falls behind"
	case actFailover:
		return failoverText(before, after)
	}
	return ""
}

func submitText(before *state) string {
	switch {
	case before.submitted == 0:
		return "submits s0"
	case before.fired&1 == 1:
		return "sees s0, submits s1"
	default:
		return "submits s1"
	}
}

func pollText(before, after *state, a action) string {
	text := "polls s" + fmt.Sprint(before.position)
	if a.option == 2 {
		text += " s" + fmt.Sprint(before.position+1)
	}
	if after.committed != before.committed {
		text += ", and commits"
	}
	return text
}

func (t *teller) insertText(before, after *state, a action) string {
	c := before.consumers[a.node]
	text := fmt.Sprintf("inserts s%d", c.at)
	if c.phase == phaseStored {
		text += " again"
	}
	if a.option == insertReady {
		text += " as ready"
	}
	switch {
	case a.option == insertTakeUp:
		return text + ": there already, and takes up the claim"
	case a.outcome == outcomeLate:
	case before.row.inc != none && before.row == after.row && c.inc == before.row.inc:
		text += ": there already"
	case before.row.inc != none && before.row == after.row:
		text += fmt.Sprintf(": ignored for s%d", before.row.src)
	case before.row.inc != none:
		text += " in its place"
	}
	return text + ending(a.outcome)
}

// deleteText says what is deleted in the name of a submission.
func (t *teller) deleteText(before, after *state, src uint8) string {
	switch {
	case before.row.inc == none:
		return fmt.Sprintf("deletes s%d: not there", src)
	case before.row == after.row:
		return fmt.Sprintf("deletes s%d: no such row", src)
	case before.row.src != src:
		return fmt.Sprintf("deletes s%d: the row of s%d is gone", src, before.row.src)
	default:
		return fmt.Sprintf("deletes s%d", src)
	}
}

func publishText(src uint8, end outcome) string {
	switch end {
	case outcomeReplyLost:
		return fmt.Sprintf("s%d is published, acknowledgement lost", src)
	case outcomeLate:
		return fmt.Sprintf("gets no reply to the publish of s%d", src)
	default:
		return fmt.Sprintf("s%d is published, acknowledged", src)
	}
}

func ending(end outcome) string {
	return [...]string{"", ": reply lost", ": no reply, on its way"}[end]
}

func effectText(effect bool, end outcome) string {
	if end == outcomeReplied && !effect {
		return ": no effect"
	}
	return ending(end)
}

func lateText(r request) string {
	return [...]string{"", "insert", "claim", "publish", "delete", "reset", "release"}[r.kind]
}

func crashText(a action) string {
	switch a.option {
	case crashNothing:
		return "crashes, and starts anew"
	default:
		return "crashes with a call on its way, and starts anew"
	}
}

func failoverText(before, after *state) string {
	text := "failover"
	if before.committed != after.committed {
		text += ", offsets rewound"
	}
	return text
}

func nodeName(n uint8) string { return string(rune('A' + n)) }

// String returns the story as a table of text: one lane for each of those who take part, and time going down.
func (s Story) String() string {
	table := [][]string{{"", "application", "partition", "node A", "node B", "row of the id"}}
	for _, l := range s.Lines {
		table = append(table, []string{fmt.Sprint(l.Step), l.App, l.Partition, l.NodeA, l.NodeB, l.Row})
	}
	widths := make([]int, len(table[0]))
	for _, cells := range table {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for number, cells := range table {
		var line strings.Builder
		for i, cell := range cells {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(pad + cell + "  ")
				continue
			}
			line.WriteString(cell + pad + "  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if number == 0 {
			b.WriteString(strings.Repeat("-", utf8.RuneCountInString(strings.TrimRight(line.String(), " "))) + "\n")
		}
	}
	return b.String()
}
