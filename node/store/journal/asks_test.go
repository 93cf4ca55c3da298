package journal_test

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/journal"
	"chronos/sim/check"
)

// counter is where a life can be asked by HTTP. What the API does before it asks, and with the answer, has tests of
// its own.
type counter struct {
	asker *journal.Asker
	gate  *gate
}

// sender puts the records of a life on the input topic. Some get lost, and of some nobody hears that they did not.
type sender struct {
	world *engines
	gate  *gate
	order inlets // in which the life names the input topics
}

var _ journal.Sender = sender{}

var errUnsure = errors.New("nobody knows whether the record is there")

// Partition implements journal.Sender.
func (s sender) Partition(_ context.Context, _ string, key []byte) (int32, error) {
	return s.order.at(s.world.home(string(key))), nil
}

// Send implements journal.Sender.
func (s sender) Send(_ context.Context, number int32, r node.Record) error {
	what := 99
	if !s.world.healed.Load() {
		what = s.world.intN(12)
	}
	return s.gate.through(func() error {
		if what == 0 {
			return errUnsure
		}
		asked, _ := s.world.recorder.asks(headerOf(r.Headers, node.HeaderRequest))
		s.world.group.put(s.order.number(number), r, asked)
		if what == 1 {
			return errUnsure
		}
		return nil
	})
}

// ask has somebody ask for what a submission asks for, by HTTP: a life that is drawn, and again, under the same
// request, another one, until he has heard an answer, and now and then once more.
func (w *engines) ask(s *submission, r node.Record) {
	s.request, s.confirmed = w.drawn(), s.action == ""
	w.background.Go(func() {
		left := 1 + w.intN(2) // how often an answer is to be heard
		for try := 0; left > 0; try++ {
			if try == 60 {
				w.Errorf("request %v about %s has never been answered", s.request, s.id)
				return
			}
			if d := w.desk(); d != nil && w.askAt(d, s, r) {
				left--
			}
			<-time.After(w.between(50*time.Millisecond, 2*time.Second))
		}
	})
}

// drawn draws an identity.
func (w *engines) drawn() (id uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range id {
		id[i] = byte(w.random.IntN(256))
	}
	return id
}

// desk returns a life that can be asked, nil if there is none.
func (w *engines) desk() *counter {
	n := w.nodes[w.intN(len(w.nodes))]
	w.mu.Lock()
	defer w.mu.Unlock()
	return n.counter
}

// askAt asks once, and reports whether there was an answer.
func (w *engines) askAt(d *counter, s *submission, r node.Record) bool {
	item := node.Item{
		From: node.NoPlace, Message: node.Message{ID: s.id, Lane: s.lane, Deadline: s.deadline, Incarnation: w.drawn()},
	}
	for action := node.Schedule; action <= node.FireNow; action++ {
		if action.String() == s.action {
			item.Action = action
		}
	}
	if item.Action < node.Schedule {
		item.Action = node.Schedule
	}
	item.Request = &node.Request{
		ID: s.request, Print: uuid.UUID{1}, Keep: node.AnswerKept, Ask: item.Incarnation,
	}
	one := *s
	one.ask = item.Incarnation
	w.recorder.asking(&one)
	result, err := d.asker.Ask(w.Context(), item, r)
	if err == nil {
		err = d.gate.pass()
	}
	if err != nil || !w.healed.Load() && w.intN(5) == 0 { // it gets lost on its last way
		return false
	}
	w.recorder.hears(s, result.Told)
	return true
}

// requests is what the recorder knows of requests by HTTP: the submission of each record that asks for one, by the
// name of the record, and what was committed as the answer to each.
type requests struct {
	asked   map[uuid.UUID]*submission
	told    map[uuid.UUID]node.Told
	repeats int // records that have found an answer
	heard   int
}

func newRequests() requests {
	return requests{asked: map[uuid.UUID]*submission{}, told: map[uuid.UUID]node.Told{}}
}

// asking notes the submission of a record that is about to be sent.
func (j *recorder) asking(s *submission) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.http.asked[s.ask] = s
}

// asks returns the submission of a record by its mark.
func (j *recorder) asks(mark string) (s *submission, some bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(mark) < 36 {
		return nil, false
	}
	s = j.http.asked[uuid.MustParse(mark[len(mark)-36:])]
	return s, s != nil
}

// hears tells that somebody is answered: with what was committed, or S21 is broken.
func (j *recorder) hears(s *submission, told *node.Told) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.http.heard++
	j.add(&check.Event{
		Kind: check.Hear, Message: s.number, ID: s.id, Topic: s.lane, Text: told.Outcome.String(), Lineage: 1,
	})
	if was, some := j.http.told[s.request]; !some || plainly(was) != plainly(*told) {
		j.world.Errorf("S21: the request about %s is answered %+v, and %+v was committed", s.id, *told, was)
	}
}

// plainly returns an answer without the word that it was given before.
func plainly(told node.Told) node.Told {
	told.Again = false
	told.Deadline, told.Former = told.Deadline.UTC(), told.Former.UTC()
	return told
}

// repeated looks at the answer to a record whose request was decided before: it is the one that there was, or S17 is
// broken.
func (x *transaction) repeated(s *submission) {
	x.http.repeats++
	was, now := x.http.told[s.request], x.answers[s.ask]
	if now == nil {
		x.world.Errorf("S17: a record of the request about %s is taken in, and not answered", s.id)
	} else if plainly(was) != plainly(now.Told) {
		x.world.Errorf("S17: the request about %s is answered %+v, and was answered %+v before", s.id, now.Told, was)
	}
}

// first finds which records of a transaction are the first ones of their requests. The others have no effect.
func (x *transaction) first(records []*submission) {
	seen := map[uuid.UUID]bool{}
	for _, s := range records {
		if s.request == uuid.Nil {
			continue
		}
		_, before := x.http.told[s.request]
		s.again = before || seen[s.request]
		seen[s.request] = true
	}
}

// closeDesk ends the desk of a life: whoever asks there hears nothing any more.
func (n *engine) closeDesk() {
	n.world.mu.Lock()
	d := n.counter
	n.counter = nil
	n.world.mu.Unlock()
	if d != nil {
		d.asker.Close()
	}
}
