package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"chronos/node"
)

// receivers are the hosts that callbacks are made to. Each takes the requests of some messages, and does what is asked,
// unless it is in a mood not to (Options.Unhelpful).
type receivers struct{ hosts [receiverHosts]receiver }

const (
	// receiverHosts is how many hosts there are. A message has always the same.
	receiverHosts = 5

	// maxCallbackBytes is the largest value that a receiver accepts: it answers 410 to more.
	maxCallbackBytes = maxRecordBytes

	// standsBack is how long nothing is sent to a host that did not answer, before one request is tried.
	standsBack = time.Second
)

// receiver is one host.
type receiver struct {
	hangs int64 // until when it takes requests and answers none
}

// callPort is the sink of callbacks of one life.
type callPort struct{ life *life }

var _ node.Sink = (*callPort)(nil)

var errBusy = errors.New("the receiver has answered that it has no time")

// calling is one request on its way.
type calling struct {
	*call

	life   *life
	record node.Record
	under  held
	host   *receiver
	name   string    // of the host
	due    time.Time // its deadline
	mood   string    // what the receiver does with it
	after  time.Duration
	result error
	timed  bool
}

// The moods of a receiver, beside the one in which it does what is asked and says so.
const (
	moodBusy   = "busy"   // it does nothing, and answers 503, perhaps with Retry-After
	moodFailed = "failed" // it does what is asked, and answers 500
	moodGone   = "gone"   // it does what is asked, and the connection dies
	moodSlow   = "slow"   // it does what is asked, and answers after the time limit
	moodHangs  = "hangs"  // it answers nobody for a while
)

// Publish implements node.Sink. The engine hands over one record at a time.
func (p *callPort) Publish(ctx context.Context, records []node.Record) []error {
	l := p.life
	w := l.host.world
	if len(records) != 1 {
		w.broken("engine", fmt.Sprintf("%d callbacks at once", len(records)))
	}
	due, _ := node.ParseDeadline([]byte(valueOf(records[0].Headers, node.HeaderDeadline)), node.EpochRejected)
	records = mapped(records, asRequested)
	number := numberIn(records[0].Headers)
	l.passes(records[0].Topic, "window-called", true)
	l.keepsPace(records[0].Topic)
	c := &calling{
		under: w.recorder.publishing(l, records)[0],
		call:  l.begin(opCall, &l.host.callLink, func() []int { return numbersOf(records) }),
		life:  l, record: records[0], host: &w.receivers.hosts[number%receiverHosts],
		name: "host" + strconv.Itoa(number%receiverHosts), due: due,
	}
	c.size = len(c.record.Value)
	err := c.unsent()
	if err == nil {
		w.calls[number]++
		c.feel(stream(w.options.Seed, forReceivers, number, w.calls[number]))
		if err = c.perform(ctx, w.options.publishTimeout(), c); err != nil {
			failed := &node.PublishError{Err: err}
			refused := errors.Is(err, errRefused) // there was no connection
			if w.now >= c.deadline || refused {
				l.silent[c.host] = w.now + int64(standsBack)
				failed.Part = c.name
			}
			if refused {
				failed.Kind = node.PartUnavailable
			}
			err = failed
		} else {
			delete(l.silent, c.host)
			err = c.result
		}
	}
	err = c.verdict(err)
	w.recorder.outcome(l, records, []error{err}, []held{c.under})
	return []error{err}
}

// asRequested returns a record without the headers that tell a receiver of the message: the rest must be what was
// submitted.
func asRequested(r node.Record) node.Record {
	r.Headers = slices.DeleteFunc(slices.Clone(r.Headers), func(h node.Header) bool {
		return h.Name == node.HeaderID || h.Name == node.HeaderDeadline || h.Name == node.HeaderAttempt
	})
	return r
}

// verdict says what becomes of a callback that has failed: it is given up when the time is over for which it is tried,
// by the clock of the node.
func (c *calling) verdict(err error) error {
	w := c.life.host.world
	if w.options.RetryFor == 0 || err == nil || node.KindOf(err) == node.RecordRejected {
		return err
	}
	if c.life.host.clock.wall(w.now).Before(c.due.Add(w.options.RetryFor)) {
		return err
	}
	w.count("callback-exhausted")
	return &node.PublishError{Kind: node.RecordRejected, Part: node.FailureOf(err).Part, Err: err}
}

// unsent returns an error if nothing is sent to the host for now: it did not answer a moment ago, and was not asked
// since.
func (c *calling) unsent() error {
	w := c.life.host.world
	again, silent := c.life.silent[c.host]
	if !silent {
		return nil
	}
	if w.now < again {
		w.count("callback-unsent")
		return &node.PublishError{
			Kind: node.PartUnavailable, Part: c.name, After: time.Duration(again - w.now),
		}
	}
	c.life.silent[c.host] = w.now + int64(w.options.publishTimeout()+standsBack)
	return nil
}

// feel draws the mood of the receiver.
func (c *calling) feel(r *rand.Rand) {
	w := c.life.host.world
	if w.faultsOver || r.IntN(100) >= w.options.Unhelpful {
		return
	}
	c.mood = pick(r, moodBusy, moodBusy, moodFailed, moodGone, moodSlow, moodHangs)
	w.count("callback-" + c.mood)
	switch c.mood {
	case moodBusy:
		c.after = pick(r, 0, 0, between(r, time.Second, 5*time.Second))
	case moodHangs:
		c.host.hangs = max(c.host.hangs, w.now+int64(between(r, 10*time.Millisecond, 10*time.Second)))
	}
}

// arrive implements served.
func (c *calling) arrive() bool {
	w := c.life.host.world
	switch {
	case w.now < c.host.hangs && !w.faultsOver:
		w.at(c.host.hangs, action(func() { c.goesOn() }), 0)
		c.end()
		return false
	case c.mood == moodBusy:
		c.result = &node.PublishError{Err: errBusy, After: c.after}
		return true
	case len(c.record.Value) > maxCallbackBytes:
		c.result = &node.PublishError{
			Kind: node.RecordRejected, Err: errors.New("410 Gone"), Status: 410, Answer: []byte("gone"),
		}
		return true
	}
	c.execute()
	switch c.mood {
	case moodFailed:
		c.result = &node.PublishError{Err: errBusy}
	case moodGone:
		c.answer = errDisconnected
	case moodSlow:
		c.end()
		return false
	}
	return true
}

// goesOn lets a host that has hung do what it was asked, whether somebody still waits for it or not.
func (c *calling) goesOn() {
	if c.arrive() && !c.replied && c.life.host.world.now < c.deadline {
		c.answered()
	}
}

// end sees to it that the caller learns at its time limit that there is no answer.
func (c *calling) end() {
	if !c.timed {
		c.timed = true
		c.life.host.world.at(c.deadline, c.call, callExpires)
	}
}

// execute does what a request asks.
func (c *calling) execute() {
	for range 1 + number(c.duplicated) {
		c.life.host.world.app.published(appending{c.life, c.under.incarnation, c.under.claim, c.duplicated}, c.record)
	}
}
