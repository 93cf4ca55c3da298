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
	Step                                        int
	App, Partition, NodeA, NodeB, Position, Row string
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
	if m.scope.Adopt {
		t.rows, t.row = 1, 1
	}
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
	case actRebalance, actTruncate, actRecreate:
		line.Partition = text
	case actLag, actFailover, actHoldOver:
		line.Row = text
	case actRewind:
		line.Position = text
	case actLate, actDrop:
		// The one who sent the request is not there any more, or has forgotten it.
		line.on(before.late.node, text)
	default:
		line.on(a.node, text)
	}
	if partition := t.partitionText(after); partition != t.partitionText(before) {
		line.Partition = strings.TrimPrefix(line.Partition+": "+partition, ": ")
	}
	if position := t.positionText(after); position != t.positionText(before) {
		line.Position = strings.TrimPrefix(line.Position+": "+position, ": ")
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

// name is what a record is called: the letter of its instruction and its number.
func (t *teller) name(record uint8) string {
	return fmt.Sprintf("%c%d", t.machine.scope.kind(record), record)
}

// names are those of a batch.
func (t *teller) names(s *state, version, from, to uint8) string {
	var names []string
	for offset := from; offset < to; offset++ {
		names = append(names, t.name(s.log.at(version, offset)))
	}
	return strings.Join(names, " ")
}

// partitionText is the input partition as the broker has it: the records from the first on, each one that a later
// leader has written with a mark.
func (t *teller) partitionText(s *state) string {
	version := s.log.version()
	var names []string
	for offset := range s.log.length(version) {
		r := s.log.at(version, offset)
		name := t.name(r)
		if s.log.epoch(r) > 0 {
			name += "'"
		}
		names = append(names, name)
	}
	text := strings.Join(names, " ")
	if text == "" {
		text = "empty"
	}
	if s.committed > 0 {
		text += fmt.Sprintf(", committed %d", s.committed)
	}
	return text
}

// positionText is the position that the store has, with a mark if a later leader has written the record before it.
func (t *teller) positionText(s *state) string {
	if t.machine.rules.NoPositions {
		return ""
	}
	text := "none"
	if p := *t.machine.position(s, s.log.topic(s.log.version())); p.has == 1 {
		text = fmt.Sprint(p.offset) + [...]string{"", "'", "", "?"}[p.epoch]
		if p.offset == 0 {
			text = "0"
		}
	}
	if s.store.phase == phaseHold || s.store.phase == phaseCatching {
		text += fmt.Sprintf(", mark %d", s.store.mark.offset)
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
		return t.describe(after.store.row)
	}
	was, is := before.store.row, after.store.row
	inserted := is.inc != none && (was.inc == none || was.src != is.src)
	if inserted {
		t.rows++
		t.row = t.rows
	}
	if !inserted && was.inc == is.inc && was.by == is.by && was.claim == is.claim && was.owner == is.owner &&
		was.bound == is.bound {
		return ""
	}
	return t.describe(is)
}

func (t *teller) describe(r row) string {
	if r.inc == none {
		return "(none)"
	}
	name := fmt.Sprintf("%s #%d", t.name(r.src), t.row)
	if t.machine.rules.Sequence {
		name = fmt.Sprintf("%s #%d", t.name(r.src), r.inc)
	}
	if r.bound == 1 {
		name += " bound,"
	}
	if r.claim == none {
		return name + " waiting"
	}
	return name + " ready, " + [...]string{"A", "B", "of a dead process"}[r.owner]
}

// what tells what happens, and to what.
func (t *teller) what(before, after *state, a action) string {
	c := before.consumers[a.node]
	l := t.name(before.slots[a.node][a.slot].src)
	row := t.name(before.store.row.src)
	switch a.kind {
	case actSubmit:
		return t.submitText(before)
	case actAssign:
		return "begins at " + fmt.Sprint(after.consumers[a.node].next)
	case actPoll:
		if a.option == 0 {
			return "the topic is another one"
		}
		next := after.consumers[a.node]
		return "polls " + t.names(before, next.ver, next.next, next.last)
	case actTake:
		return t.takeText(before, after, a)
	case actCommit:
		return "commits " + fmt.Sprint(c.last) + ending(a.outcome)
	case actCompare:
		if before.consumers[a.node] == after.consumers[a.node] {
			return "is at the log end"
		}
		return "compares, begins at " + fmt.Sprint(after.consumers[a.node].next)
	case actDirect:
		return t.directText(before, c)
	case actSelect:
		return "finds " + row + " waiting"
	case actClaim:
		return "claims " + row + ending(a.outcome)
	case actBegin:
		return "begins to publish " + l
	case actPublish:
		return publishText(l, a.outcome)
	case actGiveBack:
		return "gives " + l + " back" + effectText(before.store.row != after.store.row, a.outcome)
	case actDelete:
		return t.deleteText(before, after, l) + ending(a.outcome)
	case actSuspect:
		return "finds the claim on " + row + " too old"
	case actReset:
		return "resets the claim" + effectText(before.store.row != after.store.row, a.outcome)
	case actLate:
		return "the late " + lateText(before.late) + " takes effect"
	case actDrop:
		return "the late " + lateText(before.late) + " is lost"
	case actConnect:
		return "connects: another timeline"
	case actHoldOver:
		return "one hold time has passed"
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
		return "failover"
	case actTruncate:
		return "Kafka loses the tail"
	case actRecreate:
		return "deleted and created again"
	case actRewind:
		return "rewound"
	}
	return ""
}

func (t *teller) directText(before *state, c consumer) string {
	name := t.names(before, c.ver, c.next, c.last)
	if c.phase == batchAbsent {
		return name + " is published past the store"
	}
	return name + " has lapsed; no row is there"
}

func (t *teller) submitText(before *state) string {
	sent := before.log.sent
	if t.machine.scope.Fired && sent > 0 {
		return "sees " + t.name(sent-1) + ", submits " + t.name(sent)
	}
	return "submits " + t.name(sent)
}

// takeText tells what a take did. What became of instructions stands in brackets.
func (t *teller) takeText(before, after *state, a action) string {
	c := before.consumers[a.node]
	text := "takes " + t.names(before, c.ver, c.next, c.last)
	if c.phase == batchTried {
		text += " again"
	}
	if a.option == takeReady {
		text += ", ready"
	}
	switch {
	case a.option == takeRefused:
		return text + ": refused, begins at " + fmt.Sprint(after.consumers[a.node].next)
	case a.option == takeHalf && t.machine.rules.UnlockedLook:
		return "looks at the position"
	case a.option == takeHalf && t.machine.rules.MoveFirst:
		return "moves the position"
	case t.machine.rules.MoveLast && c.phase == batchHalf:
		return "moves the position"
	case a.outcome == outcomeLate:
		return text + ending(a.outcome)
	case a.option == takeUp:
		text += ": there already, and takes up the claim"
	default:
		text += t.outcomes(before, c)
	}
	return text + ending(a.outcome)
}

// outcomes tells what became of the instructions of a batch.
func (t *teller) outcomes(before *state, c consumer) string {
	q := c.taking(0, false)
	at := *before
	seen := *t.machine.position(before, before.log.topic(c.ver))
	if c.phase == batchHalf && !t.machine.rules.MoveLast {
		seen = c.seen
	}
	var told []string
	for offset := q.from; offset < q.to; offset++ {
		r := at.log.at(q.ver, offset)
		if t.machine.skips(seen, offset, at.log.epoch(r)) {
			told = append(told, t.name(r)+" skipped")
			continue
		}
		was := at.store.row
		if c.phase != batchPast {
			t.machine.instruct(&at, q, r)
		}
		if text := t.outcome(was, at.store.row, r); text != "" {
			told = append(told, text)
		}
	}
	if len(told) == 0 {
		return ""
	}
	return ": " + strings.Join(told, ", ")
}

// outcome tells what became of one instruction. That a submission was stored goes without saying.
func (t *teller) outcome(was, is row, r uint8) string {
	name := t.name(r)
	switch kind := t.machine.scope.kind(r); {
	case kind == kindSchedule && was.inc != none && is.src != r:
		return fmt.Sprintf("%s ignored for %s", name, t.name(was.src))
	case kind == kindSchedule && was.inc != none && was.src != r:
		return name + " in its place"
	case schedules(kind) && was.inc == none:
		return ""
	case kind == kindSchedule:
		return name + " there already"
	case was.inc == none:
		return name + " not found"
	case kind == kindReplace && is.prev != was.prev:
		return fmt.Sprintf("%s replaced, former may come", name)
	case kind == kindReplace:
		return name + " replaced"
	case !t.machine.free(was):
		return name + " too late"
	default:
		return name + " " + map[byte]string{
			kindCancel: "cancelled", kindReschedule: "rescheduled", kindFire: "fired",
		}[kind]
	}
}

// deleteText says what is deleted in the name of a submission.
func (t *teller) deleteText(before, after *state, name string) string {
	row := t.name(before.store.row.src)
	switch {
	case before.store.row.inc == none:
		return fmt.Sprintf("deletes %s: not there", name)
	case before.store.row == after.store.row:
		return fmt.Sprintf("deletes %s: no such row", name)
	case row != name:
		return fmt.Sprintf("deletes %s: the row of %s is gone", name, row)
	default:
		return "deletes " + name
	}
}

func publishText(name string, end outcome) string {
	switch end {
	case outcomeReplyLost:
		return name + " is published, acknowledgement lost"
	case outcomeLate:
		return "gets no reply to the publish of " + name
	default:
		return name + " is published, acknowledged"
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
	return [...]string{"", "take", "claim", "publish", "delete", "reset", "release"}[r.kind]
}

func crashText(a action) string {
	switch a.option {
	case crashNothing:
		return "crashes, and starts anew"
	default:
		return "crashes with a call on its way, and starts anew"
	}
}

func nodeName(n uint8) string { return string(rune('A' + n)) }

// String returns the story as a table of text: one lane for each of those who take part, and time going down.
func (s Story) String() string {
	table := [][]string{{"", "application", "partition", "node A", "node B", "position", "row of the id"}}
	for _, l := range s.Lines {
		table = append(table, []string{fmt.Sprint(l.Step), l.App, l.Partition, l.NodeA, l.NodeB, l.Position, l.Row})
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
