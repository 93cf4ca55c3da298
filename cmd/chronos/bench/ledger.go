package bench

import (
	"bytes"
	"sync"
	"time"
)

// Arrival is a record that has come out, on one of the output topics of the run.
type Arrival struct {
	Route            int
	Key, Value, Mark []byte // Mark is the value of MarkHeader; nil if there is none, or more than one

	At    time.Time // when the receiver had it, by the clock of this machine
	Stamp time.Time // that of the record, in whole milliseconds

	// ByBroker says that the broker has made the stamp when it appended the record. Otherwise the service has.
	ByBroker bool
}

// ledger is what is known of a run. Of each message it has one byte.
type ledger struct {
	mu    sync.Mutex
	plan  *Plan
	start time.Time
	state []byte

	sent, acknowledged, repeats         int // messages; of those, submitted a second time
	refused                             int // submissions
	came, doubled, repeated, foreign    int
	damaged                             damages
	overdue                             int // messages that were acknowledged when they were due already
	open                                int // messages that were acknowledged and have not come
	refusal                             error
	samples                             []Sample
	firstSent, lastSent, lastAck        time.Time
	firstCame, lastCame                 time.Time // of what is measured
	firstStamp, lastStamp               time.Time
	stamped, byBroker, measured         int
	sendLate, ack                       *signed // of what is measured
	received, appended                  *signed // after they were due
	second                              *signed // of what came in this second
	cameInSecond, lastSentN, lastAckedN int
	seconds                             []Second
}

// damages counts what came out otherwise than it went in. A message may have several.
type damages struct{ Value, Key, Header, Route int }

// Sample is a message that shows what is wrong.
type Sample struct {
	ID   string `json:"id"`
	What string `json:"what"`
}

// The bits of the state of a message.
const (
	isSent byte = 1 << iota
	isAcknowledged
	hasCome
)

// newLedger returns a ledger for a plan.
func newLedger(plan *Plan) *ledger {
	return &ledger{
		plan: plan.Clone(), start: plan.start, state: make([]byte, plan.Messages()),
		sendLate: newSigned(), ack: newSigned(), received: newSigned(), appended: newSigned(), second: newSigned(),
	}
}

// submit notes that a message is sent now; again says that it is a second time.
func (l *ledger) submit(i int, at time.Time, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if again {
		l.repeats++
		return
	}
	if l.sent++; l.sent == 1 {
		l.firstSent = at
	}
	l.lastSent = at
	l.state[i] |= isSent
	if l.plan.Measured(i) {
		l.sendLate.record(at.Sub(l.start.Add(l.plan.SendAt(i))))
	}
}

// answer notes what became of a submission.
func (l *ledger) answer(i int, sent, at time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.refused++
		l.refusal = err
		return
	}
	if l.state[i]&isAcknowledged != 0 {
		return // the second of two
	}
	l.state[i] |= isAcknowledged
	l.acknowledged++
	l.lastAck = at
	if l.state[i]&hasCome == 0 { // A message may come before Kafka acknowledges its submission.
		l.open++
	}
	if !l.plan.Measured(i) {
		return
	}
	l.ack.record(at.Sub(sent))
	if at.After(l.plan.Due(i)) {
		l.overdue++
	}
}

// arrive notes what has come out.
func (l *ledger) arrive(arrivals []Arrival) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range arrivals {
		l.arriveOne(&arrivals[n])
	}
}

func (l *ledger) arriveOne(a *Arrival) {
	i, marked := l.plan.number(a.Mark)
	inValue, named := l.plan.number(a.Value)
	switch {
	case !marked && !named:
		l.foreign++ // of somebody else, or of another run
		return
	case !marked:
		i = inValue
	}
	l.compare(i, a)
	l.cameInSecond++
	if l.state[i]&hasCome != 0 {
		if l.plan.Twice(i) {
			l.repeated++
			return
		}
		l.doubled++
		l.show(i, "came again")
		return
	}
	if l.state[i]&isAcknowledged != 0 {
		l.open--
	}
	l.state[i] |= hasCome
	l.came++
	due := l.plan.Due(i)
	late := a.At.Sub(due)
	l.second.record(late)
	if !l.plan.Measured(i) {
		return
	}
	if l.measured++; l.measured == 1 {
		l.firstCame, l.firstStamp, l.lastStamp = a.At, a.Stamp, a.Stamp
	}
	l.lastCame = a.At
	l.received.record(late)
	l.stamped++
	if a.ByBroker {
		l.byBroker++
	}
	l.appended.record(a.Stamp.Sub(due))
	if a.Stamp.Before(l.firstStamp) {
		l.firstStamp = a.Stamp
	}
	if a.Stamp.After(l.lastStamp) {
		l.lastStamp = a.Stamp
	}
}

// compare looks whether a message has come out as it went in.
func (l *ledger) compare(i int, a *Arrival) {
	mark := l.plan.mark(i)
	for _, part := range []struct {
		same  bool
		count *int
		what  string
	}{
		{l.plan.isValue(i, mark, a.Value), &l.damaged.Value, "its value has changed"},
		{bytes.Equal(l.plan.Key(i), a.Key), &l.damaged.Key, "its key has changed"},
		{bytes.Equal(mark, a.Mark), &l.damaged.Header, "its header has changed"},
		{l.plan.Route(i) == a.Route, &l.damaged.Route, "it came on another topic"},
	} {
		if !part.same {
			*part.count++
			l.show(i, part.what)
		}
	}
}

// show keeps the first few of what is wrong, for somebody who looks into it.
func (l *ledger) show(i int, what string) {
	const few = 10
	if len(l.samples) < few {
		l.samples = append(l.samples, Sample{l.plan.ID(i), what})
	}
}

// missing counts what was acknowledged and has not come.
func (l *ledger) missing() (count int) {
	for i, s := range l.state {
		if s&isAcknowledged != 0 && s&hasCome == 0 {
			if count++; count <= 5 {
				l.show(i, "has not come; it was due at "+l.plan.Due(i).UTC().Format(deadlineForm))
			}
		}
	}
	return count
}

// complete reports whether all that was acknowledged so far has come.
func (l *ledger) complete() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open == 0
}

// Progress is how far a run is.
type Progress struct {
	Since        time.Duration
	Messages     int // all of the load
	Sent         int
	Acknowledged int
	Taken        int64 // -1 if nobody knows
	Came         int
	Doubled      int
	Damaged      int

	Second Second // the last one
}

// progress closes the second that ends now, and says how far it is.
func (l *ledger) progress(now time.Time, taken int64, usage []Use) Progress {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Second{
		At: millis(now.Sub(l.start)), Sent: l.sent - l.lastSentN, Acknowledged: l.acknowledged - l.lastAckedN,
		Came: l.cameInSecond, Waiting: l.open, Taken: taken, Use: usage,
	}
	if l.second.count() > 0 {
		s.P50, s.P99, s.Max = new(millis(l.second.at(0.5))), new(millis(l.second.at(0.99))), new(millis(l.second.max))
	}
	l.seconds = append(l.seconds, s)
	l.second.reset()
	l.lastSentN, l.lastAckedN, l.cameInSecond = l.sent, l.acknowledged, 0
	d := l.damaged
	return Progress{
		Since: now.Sub(l.start), Messages: l.plan.Messages(), Sent: l.sent, Acknowledged: l.acknowledged, Taken: taken,
		Came: l.came, Doubled: l.doubled + l.repeated, Damaged: d.Value + d.Key + d.Header + d.Route, Second: s,
	}
}
