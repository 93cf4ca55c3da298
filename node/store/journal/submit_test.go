package journal_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
)

// The topics of a world beside output and the journal.
const (
	second      = "second"
	deadLetters = "dead"
	outcomes    = "outcomes"
)

// largest is the size of the largest record that the second topic takes.
const largest = 1000

// submit appends a record to the input: a message, a series, one with an id that has been used, or an instruction about
// an earlier one, some of which want to be told what has become of them; or what is no submission.
func (w *engines) submit() {
	id := fmt.Sprint("m", w.number+1)
	if w.number > 0 && w.intN(10) == 0 {
		id = fmt.Sprint("m", 1+w.intN(w.number))
	}
	w.message(id, "")
	switch {
	case w.intN(5) == 0:
		switch w.intN(4) {
		case 0: // about one that may be on its way, or have come out
			id = fmt.Sprint("m", max(1, w.number-w.intN(30)))
		case 1:
			id = w.nearest()
		}
		w.instruct(id)
	case w.intN(20) == 0:
		w.append(&submission{id: id, lane: w.lane(id), invalid: true}, "", node.Header{
			Name: node.HeaderDeadline, Value: []byte("some day"),
		})
	}
}

// nearest returns the id of a message that is about due: one that is on its way at this moment, as a rule.
func (w *engines) nearest() string {
	now := time.Now()
	return slices.MinFunc(w.recent, func(a, b *submission) int {
		return cmp.Compare(a.deadline.Sub(now).Abs(), b.deadline.Sub(now).Abs())
	}).id
}

// lane returns the topic of an id: that of an instruction must be that of its message.
func (w *engines) lane(id string) string {
	switch n := numberOf(id[1:]); { // not by the remainder that gives the partition, or each lane would have its own
	case n%4 == 0:
		return second
	case w.calls && n%4 == 1:
		return hook
	}
	return output
}

// message submits a message. Action is none, or that of a record that replaces.
func (w *engines) message(id, action string) {
	s := &submission{id: id, lane: w.lane(id), action: action, deadline: w.soon()}
	value := fmt.Sprintf("%s at %d", id, w.number+1)
	first := id == fmt.Sprint("m", w.number+1) // or it may be a duplicate
	var headers []node.Header
	switch {
	case action != "":
	case w.intN(3) == 0:
		s.confirmed = true
		headers = append(headers, node.Header{Name: node.HeaderConfirm, Value: []byte("true")})
	}
	switch {
	case s.lane != output && w.intN(10) == 0:
		s.poison, first, value = true, false, value+strings.Repeat(" ", largest)
	case w.intN(12) == 0:
		s.every, s.times = time.Duration(1+w.intN(8))*time.Second, 2+w.intN(4)
		headers = append(
			headers, node.Header{Name: node.HeaderRepeat, Value: []byte("every " + s.every.String())},
			node.Header{Name: node.HeaderRepeatCount, Value: []byte(strconv.Itoa(s.times))},
		)
		w.recurs[value] = true
	}
	w.must[value] = first
	headers = append(headers, node.Header{
		Name: node.HeaderDeadline, Value: []byte(s.deadline.Format("2006-01-02T15:04:05.000Z")),
	})
	w.append(s, value, headers...)
	w.recent = append(w.recent[max(0, len(w.recent)-100):], s)
}

// instruct asks for something about a message that was there, or may be there still.
func (w *engines) instruct(id string) {
	for value := range w.must { // or it may be too late for that
		if len(value) > len(id) && value[:len(id)+1] == id+" " {
			w.must[value] = false
		}
	}
	s := &submission{id: id, lane: w.lane(id)}
	switch w.intN(5) {
	case 0, 1:
		s.action = "cancel"
		w.append(s, "")
	case 2:
		s.action, s.deadline = "reschedule", w.soon()
		w.append(s, "", node.Header{
			Name: node.HeaderDeadline, Value: []byte(s.deadline.Format("2006-01-02T15:04:05.000Z")),
		})
	case 3:
		s.action = "fire"
		w.append(s, "")
	case 4:
		w.message(id, "replace")
		w.must[fmt.Sprintf("%s at %d", id, w.number)] = false
	}
}

// soon draws a deadline.
func (w *engines) soon() time.Time {
	return time.Now().Add(w.between(-time.Second, 20*time.Second)).UTC().Truncate(time.Millisecond)
}

// append appends a record of a submission; value "" is for none.
func (w *engines) append(s *submission, value string, headers ...node.Header) {
	w.number++
	s.number = w.number
	r := node.Record{Key: []byte(w.keyOf(s.id)), Headers: append([]node.Header{
		{Name: node.HeaderID, Value: []byte(s.id)}, {Name: headerNumber, Value: []byte(strconv.Itoa(s.number))},
	}, headers...)}
	if value != "" {
		r.Value = []byte(value)
	}
	if s.lane != output {
		r.Headers = append(r.Headers, node.Header{Name: node.HeaderTopic, Value: []byte(s.lane)})
	}
	if s.action != "" {
		r.Headers = append(r.Headers, node.Header{Name: node.HeaderAction, Value: []byte(s.action)})
	}
	if w.http && !s.invalid && w.desked(s.id) && w.intN(4) == 0 {
		if value != "" {
			w.must[value] = false // what is sent later may be taken in before
		}
		w.ask(s, r)
		return
	}
	w.group.put(w.home(s.id), r, s)
}
