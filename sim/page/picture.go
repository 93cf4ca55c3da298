package page

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/sim"
)

// Picture is what is drawn, as data. Times are seconds since the start.
type Picture struct {
	End, Heal float64 // Heal is negative when the world does not heal
	Broken    float64 // when an invariant is broken; negative for never
	Reason    string

	Lanes    []Lane
	Bars     []Bar
	Marks    []Mark
	Links    []Link
	Messages []Message
}

// Lane is a row of the picture. Kind is world, app, partition, node, row or output.
type Lane struct{ Label, Kind string }

// Bar is something that lasts: the life of a process, a pause, a cut link, an outage, the state of a row.
type Bar struct {
	Lane       int
	From, To   float64
	Kind, Text string
	Message    int
}

// Mark is something that happens at an instant.
type Mark struct {
	Lane       int
	At         float64
	Kind, Text string
	Message    int
}

// Link is a part of the life of a message: from one lane to another.
type Link struct {
	From, To int
	At       float64
	Message  int
}

// Message is one of those whose lives are drawn.
type Message struct {
	Number   int
	ID       string
	Deadline float64
}

// drawing is a picture in the making.
type drawing struct {
	*Picture

	setup    *sim.Setup
	messages []int
	lanes    map[string]int
	open     map[string]int // the bar that is open, by what it is
	where    map[int]string // the lane of the partition that a submission is in
}

// newPicture draws what the steps say of the chosen messages, and of everything that goes wrong.
func newPicture(setup *sim.Setup, steps []sim.Step, messages []int) *Picture {
	d := &drawing{
		Picture: &Picture{Heal: -1, Broken: -1},
		setup:   setup, messages: messages,
		lanes: map[string]int{}, open: map[string]int{}, where: map[int]string{},
	}
	d.layOut(steps)
	for i := range steps {
		d.End = max(d.End, seconds(steps[i].At))
		d.draw(&steps[i])
	}
	for i := range d.Bars {
		if d.Bars[i].To < 0 {
			d.Bars[i].To = d.End
		}
	}
	return d.Picture
}

func seconds(t time.Duration) float64 { return float64(t.Microseconds()) / 1e6 }

// layOut gives everything that is drawn a lane.
func (d *drawing) layOut(steps []sim.Step) {
	const all = 8 // so many nodes are drawn even if they have nothing to do with it
	d.lane("servers", "world")
	d.lane("application", "app")
	var partitions, outputs []string
	var nodes []int
	for i := range steps {
		s := &steps[i]
		about := d.about(s)
		switch {
		case s.Kind == sim.StepSubmit && about >= 0:
			partitions = append(partitions, wordAfter(s.Text, " to "))
		case s.Kind == sim.StepAppend && about >= 0:
			outputs = append(outputs, wordAfter(s.Text, " to "))
		}
		if s.Node > 0 && (about >= 0 || d.setup.Options.Nodes <= all) {
			nodes = append(nodes, s.Node)
		}
	}
	for _, name := range sorted(partitions) {
		d.lane(name, "partition")
	}
	for _, n := range sorted(nodes) {
		d.lane(nodeLane(n), "node")
	}
	for _, n := range d.messages {
		m := Message{Number: n, Deadline: -1}
		for i := range steps {
			if s := &steps[i]; s.Kind == sim.StepSubmit && slices.Contains(s.Messages, n) {
				m.ID = wordAfter(s.Text, "submits ")
				if in, err := time.ParseDuration(wordAfter(s.Text, " in ")); err == nil {
					m.Deadline = seconds(s.At + in)
				}
				d.where[n] = wordAfter(s.Text, " to ")
				break
			}
		}
		d.Messages = append(d.Messages, m)
		d.lane(rowLane(m.ID), "row")
	}
	for _, name := range sorted(outputs) {
		d.lane(name, "output")
	}
}

func sorted[T int | string](values []T) []T {
	return slices.Compact(slices.Sorted(slices.Values(values)))
}

func nodeLane(n int) string { return fmt.Sprintf("node %d", n) }

func rowLane(id string) string { return "row " + id }

// wordAfter returns the word that follows in a text, without a comma; "" if there is none.
func wordAfter(text, before string) string {
	_, rest, _ := strings.Cut(text, before)
	word, _, _ := strings.Cut(rest, " ")
	return strings.TrimSuffix(word, ",")
}

// lane adds a lane, if it is new.
func (d *drawing) lane(label, kind string) {
	if _, known := d.lanes[label]; !known {
		d.lanes[label] = len(d.Lanes)
		d.Lanes = append(d.Lanes, Lane{label, kind})
	}
}

// about returns the first chosen message that a step is about; -1 for none.
func (d *drawing) about(s *sim.Step) int {
	for _, n := range s.Messages {
		if slices.Contains(d.messages, n) {
			return n
		}
	}
	return -1
}

// draw adds what a step shows.
func (d *drawing) draw(s *sim.Step) {
	n := d.about(s)
	switch s.Kind {
	case sim.StepWorld:
		d.heal(seconds(s.At))
	case sim.StepBroken:
		d.Broken, d.Reason = seconds(s.At), s.Text
	case sim.StepStart, sim.StepStop, sim.StepCrash, sim.StepPause, sim.StepResume, sim.StepExpelled:
		d.life(s)
	case sim.StepFault:
		d.fault(s)
	case sim.StepSubmit:
		d.mark(s, "application", n)
		d.mark(s, d.where[n], n)
		d.link(s, "application", d.where[n], n)
	case sim.StepRow:
		d.row(s, n)
	case sim.StepAppend:
		out := wordAfter(s.Text, " to ")
		d.mark(s, out, n)
		d.link(s, nodeLane(s.Node), out, n)
	case sim.StepApplied, sim.StepFailed, sim.StepEngine:
		d.mark(s, nodeLane(s.Node), n)
	case sim.StepCommit:
	}
}

// heal ends everything that is wrong by itself.
func (d *drawing) heal(at float64) {
	d.Heal = at
	for i := range d.Bars {
		if b := &d.Bars[i]; strings.HasPrefix(b.Kind, "cut") || b.Kind == "outage" || b.Kind == "pause" {
			b.To = min(b.To, at)
		}
	}
}

// life draws the processes of a node.
func (d *drawing) life(s *sim.Step) {
	lane, known := d.lanes[nodeLane(s.Node)]
	if !known {
		return
	}
	name := fmt.Sprintf("life %d", s.Node)
	at := seconds(s.At)
	switch s.Kind {
	case sim.StepStart:
		d.open[name] = len(d.Bars)
		d.Bars = append(d.Bars, Bar{lane, at, -1, "life", fmt.Sprintf("node %d.%d %s", s.Node, s.Life, s.Text), 0})
		return
	case sim.StepPause:
		for_, _ := time.ParseDuration(strings.TrimPrefix(s.Text, "is stopped for "))
		d.Bars = append(d.Bars, Bar{lane, at, at + seconds(for_), "pause", s.Text, 0})
		return
	case sim.StepStop, sim.StepCrash:
		if i, open := d.open[name]; open {
			d.Bars[i].To = at
			delete(d.open, name)
		}
		for i := range d.Bars {
			if b := &d.Bars[i]; b.Lane == lane && b.Kind == "pause" {
				b.To = min(b.To, at)
			}
		}
	default: // the process goes on
	}
	d.Marks = append(d.Marks, Mark{lane, at, string(s.Kind), fmt.Sprintf("node %d.%d %s", s.Node, s.Life, s.Text), 0})
}

// fault draws a fault, and how long it lasts where it does.
func (d *drawing) fault(s *sim.Step) {
	lane, known := d.lanes[nodeLane(s.Node)]
	if !known && s.Node > 0 {
		return
	}
	at := seconds(s.At)
	d.Marks = append(d.Marks, Mark{lane, at, "fault", s.Text, 0})
	f, err := sim.ParseFault(s.Text)
	if err != nil {
		return
	}
	bar := Bar{lane, at, at + seconds(f.For), "", s.Text, 0}
	switch f.Kind {
	case sim.CutStore, sim.CutStoreReplies:
		bar.Kind = "cut-store"
	case sim.CutBroker, sim.CutBrokerAcks:
		bar.Kind = "cut-broker"
	case sim.StoreDown, sim.StoreSilent, sim.Failover, sim.BrokerDown, sim.LeaderChange, sim.TopicMissing:
		bar.Kind, bar.Lane = "outage", 0
	default:
		return
	}
	d.Bars = append(d.Bars, bar)
}

// row draws what has become of a row.
func (d *drawing) row(s *sim.Step, n int) {
	if n < 0 {
		return
	}
	id, state, _ := strings.Cut(s.Text, " is ")
	lane, known := d.lanes[rowLane(id)]
	if !known {
		return
	}
	at := seconds(s.At)
	if i, open := d.open[rowLane(id)]; open {
		d.Bars[i].To = at
		delete(d.open, rowLane(id))
	}
	text := fmt.Sprintf("#%d %s, by node %d.%d", n, s.Text, s.Node, s.Life)
	if state != "deleted" {
		kind := "ready"
		if strings.HasPrefix(state, "waiting") {
			kind = "waiting"
		}
		d.open[rowLane(id)] = len(d.Bars)
		d.Bars = append(d.Bars, Bar{lane, at, -1, kind, text, n})
	}
	d.Marks = append(d.Marks, Mark{lane, at, "row", text, n})
	if state == "waiting" || state == "ready" && d.firstRow(n) {
		d.link(s, d.where[n], nodeLane(s.Node), n)
	}
	d.link(s, nodeLane(s.Node), rowLane(id), n)
}

// firstRow reports whether the message has had no row before the one that was added last.
func (d *drawing) firstRow(n int) bool {
	rows := 0
	for i := range d.Bars {
		if b := &d.Bars[i]; b.Message == n && (b.Kind == "waiting" || b.Kind == "ready") {
			rows++
		}
	}
	return rows == 1
}

// mark adds an instant in the life of a chosen message. A suspicion or a give-back is shown whomever it is about.
func (d *drawing) mark(s *sim.Step, label string, n int) {
	lane, known := d.lanes[label]
	kind := string(s.Kind)
	if s.Kind == sim.StepEngine && strings.HasPrefix(s.Text, "Suspected") {
		kind = "suspicion"
	} else if n < 0 {
		return
	}
	if !known {
		return
	}
	text := s.Text
	if s.Op != "" {
		text = strings.TrimSpace(fmt.Sprintf("%s %d %s", s.Op, s.Nth, s.Text))
	}
	if s.Kind == sim.StepApplied {
		text += " takes effect"
	}
	d.Marks = append(d.Marks, Mark{lane, seconds(s.At), kind, fmt.Sprintf("#%s %s",
		strings.Trim(fmt.Sprint(s.Messages), "[]"), text), max(n, 0)})
}

// link adds a part of the life of a chosen message.
func (d *drawing) link(s *sim.Step, from, to string, n int) {
	a, known := d.lanes[from]
	b, also := d.lanes[to]
	if n >= 0 && known && also {
		d.Links = append(d.Links, Link{a, b, seconds(s.At), n})
	}
}
