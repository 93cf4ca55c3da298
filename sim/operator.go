package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// How an operator gives an instruction to the store.
const (
	PastAny  = "any"  // to whichever message has the id then
	PastSame = "same" // to the one that had it when he looked, and to no other (node.Item.Only)
	PastLane = "lane" // to each that was stored on the lane when he looked, as a bulk command does

	// PastAsked is how a client of the HTTP API does, who has never looked: to whichever message has the id, by a
	// request with a name, under which it asks again until it is answered, also when it was started again. In this way
	// messages can be brought, too.
	PastAsked = "asked"
)

// mostSeen is how many messages an operator picks when he looks at a lane.
const mostSeen = 20

// operator is a process that gives one instruction to the store, past Kafka, and ends when it has heard the outcome. It
// looks first, where it is to, thinks for a while, and then calls Take. A call without an answer is repeated, and so is
// one for which the store takes nothing in at that moment, but not forever. If the process crashes, somebody may start
// it again: it begins with another look.
type operator struct {
	app        *application
	submission *Submission
	life       *life
	times      int // how often it was started

	command queue.Command // of one that asks something of a queue

	brings *node.Item // of one that brings a message: what it asks for, each time it is started
}

// tries is how often an operator calls the store.
const tries = 4

// operate starts an operator.
func (a *application) operate(s *Submission) {
	a.busy++
	o := &operator{app: a, submission: s}
	if s.stores() {
		o.brings = a.bring(s)
	}
	o.start()
}

// bring returns what a client of the HTTP API asks for that brings a message: it is read by the rules of the engine, as
// the API has it read. From now on there is that submission, although nobody has promised anything yet.
func (a *application) bring(s *Submission) *node.Item {
	w := a.world
	deadline, last := w.instant().Add(s.In).Truncate(time.Microsecond), time.Time{}
	if s.NotAfter > 0 {
		last = w.instant().Add(max(s.In, s.NotAfter)).Truncate(time.Microsecond) // or nobody would take that in
	}
	asked := *s
	asked.Target = 0 // the lane is in the path, and not in a header
	if s.Action == node.Schedule.String() {
		asked.Action = ""
	}
	r := payload(&w.options, &asked, deadline, last)
	r.Timestamp = w.instant()
	config := w.options.config([32]byte{1}, w.edition)
	item, err := config.Read(r, w.recorder.output(s), w.instant)
	if err != nil {
		panic("sim: a client asks for what cannot be: " + err.Error())
	}
	a.sent[s.Number] = &sent{submission: s}
	w.digest.number(uint64(s.Number))
	w.stats.Submitted++
	w.recorder.brought(s, &r, deadline, last)
	if w.observe != nil {
		w.step(&Step{
			Kind: StepSubmit, Messages: []int{s.Number},
			Text: fmt.Sprintf("asks to %s %s, in %v", s.Action, s.ID, s.In),
		})
	}
	return &item
}

// start begins a process.
func (o *operator) start() {
	h := o.app.host
	l := &life{host: h, number: len(o.app.operators) + 1, operator: o, mono: h.clock.mono(h.world.now)}
	o.life, l.loops = l, newLoops(l)
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	o.times++
	o.app.operators = append(o.app.operators, l)
	random := stream(h.world.options.Seed, forOperators, -o.submission.Number, o.times)
	l.begins(newTask(l, "operator", func() { o.run(ctx, random) }))
}

// ended is the end of a process: it has done what it could, or has crashed, and is started again in a while.
func (o *operator) ended(again time.Duration) {
	w := o.app.world
	if again > 0 && !w.faultsOver && o.times < tries {
		w.after(again, o.start)
		return
	}
	o.app.busy--
}

func (o *operator) run(ctx context.Context, random *rand.Rand) {
	if o.command != nil {
		o.asks(ctx, random)
		return
	}
	w := o.app.world
	items := o.items()
	if len(items) == 0 {
		return // there was nothing to see
	}
	clock := nodeClock{o.life}
	clock.Sleep(ctx, between(random, 0, pick(random, 0, time.Millisecond, 300*time.Millisecond, 3*time.Second)))
	for try := range tries {
		for i := range items {
			if try == 0 || items[i].Only == uuid.Nil { // it may act once more, and no incarnation comes twice
				o.draw(&items[i], random)
			}
		}
		result, err := (&storePort{o.life}).Take(ctx, node.TakeRequest{Items: items})
		if err == nil {
			var again []node.Item
			for i := range items {
				switch outcome := result.Results[i].Outcome; outcome {
				case node.Untaken, node.Blocked:
					again = append(again, items[i])
				default:
					w.recorder.heard(&items[i], outcome, result.State.Lineage)
				}
			}
			if items = again; len(items) == 0 {
				return
			}
			w.count("past-untaken")
		}
		clock.Sleep(ctx, between(random, 10*time.Millisecond, time.Second))
	}
}

// draw gives an instruction an incarnation.
func (o *operator) draw(item *node.Item, random *rand.Rand) {
	for i := range item.Incarnation {
		item.Incarnation[i] = byte(random.Uint32())
	}
	o.app.world.recorder.past[item.Incarnation] = o.submission.Number
}

// items returns what to ask for. A look shows what is committed.
func (o *operator) items() (items []node.Item) {
	w, s := o.app.world, o.submission
	lane := w.recorder.output(s)
	now := nodeClock{o.life}.Now().UTC().Truncate(time.Microsecond)
	if o.brings != nil {
		item := *o.brings
		item.Request = o.request()
		return []node.Item{item}
	}
	add := func(id string, only uuid.UUID) {
		item := node.Item{From: node.NoPlace, Action: actionOf(s.Action), Only: only}
		item.ID, item.Lane = id, lane
		switch item.Action {
		case node.Reschedule:
			item.Deadline = w.instant().Add(s.In).Truncate(time.Microsecond)
		case node.FireNow:
			item.Deadline = now
		default:
		}
		items = append(items, item)
	}
	switch s.Past {
	case PastAny:
		add(s.ID, uuid.Nil)
	case PastAsked:
		add(s.ID, uuid.Nil)
		items[0].Request = o.request()
	case PastSame:
		if c, found := w.store.truth.stored[node.MessageID{ID: s.ID, Lane: lane}]; found {
			add(s.ID, c.Incarnation)
		}
	default:
		for _, c := range w.store.truth.claims() {
			if c.Lane == lane && len(items) < mostSeen {
				add(c.ID, c.Incarnation)
			}
		}
	}
	return items
}

// request names what a client of the HTTP API asks for.
func (o *operator) request() *node.Request {
	r := &node.Request{Keep: node.AnswerKept}
	binary.BigEndian.PutUint64(r.ID[8:], uint64(o.submission.Number))
	return r
}

// actionOf returns the action of that name.
func actionOf(word string) node.Action {
	for _, a := range []node.Action{node.Schedule, node.Replace, node.Reschedule, node.Cancel, node.FireNow} {
		if a.String() == word {
			return a
		}
	}
	panic("sim: an operator asks for " + word)
}

// heal sets right where operators work.
func (a *application) heal() {
	now := a.world.now
	a.host.correctWall()
	a.host.storeLink.heal(now)
	a.clients.heal()
	for _, l := range a.operators {
		if !l.dead && now < l.pausedUntil {
			l.wake()
		}
	}
}

// operated draws an instruction past Kafka about the message of another submission.
func operated(r *rand.Rand, s, other *Submission, o Options) Submission {
	past := Submission{
		Number: s.Number, At: s.At, In: s.In, ID: other.ID, Route: other.Route, Target: other.Target,
		Action: pick(r, node.Cancel, node.Cancel, node.Reschedule, node.FireNow).String(),
		Past: pick(r, PastAny, PastAny, PastSame, PastSame, PastSame, PastLane, PastLane,
			PastAsked, PastAsked, PastAsked),
	}
	if other.Flaw != "" && other.Flaw != Poison {
		past.ID = "m" + past.ID // it is no message
	}
	aim(r, &past, other, o)
	if past.Past == PastAsked && oneIn(r, 2) {
		bring(r, &past, other, o)
	}
	return past
}

// bring has a client of the HTTP API bring a message, in place of one that waits, perhaps, or under an id of its own.
func bring(r *rand.Rand, s, other *Submission, o Options) {
	s.Action = pick(r, node.Schedule, node.Replace).String()
	s.In = drawDelay(r, o)
	if oneIn(r, 2) {
		s.ID, s.Route, s.Target = "m"+strconv.Itoa(s.Number), r.IntN(o.Routes), 0
		s.After, s.At = 0, between(r, 0, o.Faulty).Round(time.Millisecond)
		if r.IntN(100) < o.Callbacks {
			s.Target = callbacks
		}
	}
	if !oneIn(r, 3) {
		s.Key = other.Key
	}
	if r.IntN(100) < o.Recurring {
		s.Every, s.Times = time.Duration(1+r.IntN(3))*time.Second, 1+r.IntN(5)
	}
	limit(r, s, o)
	s.Delayed = false // a client that asks again asks for the same instant
}
