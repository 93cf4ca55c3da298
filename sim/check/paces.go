package check

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pace bounds how many messages a node begins to publish on a lane in any second.
type Pace struct {
	Topic     string
	PerSecond int
}

// String returns the form in which a history has it.
func (p *Pace) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.PerSecond) }

func pacesText(paces []Pace) string {
	texts := make([]string, len(paces))
	for i := range paces {
		texts[i] = paces[i].String()
	}
	return strings.Join(texts, ",")
}

func parsePaces(s string) ([]Pace, error) {
	var paces []Pace
	for text := range strings.SplitSeq(s, ",") {
		topic, number, _ := strings.Cut(text, "/")
		perSecond, err := strconv.Atoi(number)
		if err != nil || perSecond < 1 {
			return nil, fmt.Errorf("%q is no pace: it must be TOPIC/NUMBER, with a number from 1 on", text)
		}
		paces = append(paces, Pace{topic, perSecond})
	}
	return paces, nil
}

// pace returns that of a lane; 0 for none.
func (c *Config) pace(topic string) int {
	for i := range c.Paces {
		if c.Paces[i].Topic == topic {
			return c.Paces[i].PerSecond
		}
	}
	return 0
}

// Beat bounds the time in which a node lets as many out on a lane as its pace says, if so many wait: what comes after
// that second is claimed by the next poll at the latest.
func (c *Config) Beat() time.Duration {
	return time.Second + c.Look()*11/10 + 4*c.StoreLatency + c.BrokerLatency
}

// beats bounds how often that is needed until everything has come out, in so many tries for each message.
func (c *Config) beats() int {
	const tries = 4
	slowest := 0
	for i := range c.Paces {
		if slowest == 0 || c.Paces[i].PerSecond < slowest {
			slowest = c.Paces[i].PerSecond
		}
	}
	if slowest == 0 {
		return 0
	}
	return 1 + tries*c.Messages/slowest
}

// paced bounds what the paces add to the time until everything has come out.
func (c *Config) paced() time.Duration { return time.Duration(c.beats()) * c.Beat() }

// beginning is a publish that a node begins, of a submission with that number, by its monotonic clock and by true time.
type beginning struct {
	mono, at time.Duration
	message  int
}

// begun is the same as the lane has it: when it began and was claimed by true time, and when it was due.
type begun struct{ at, claimed, due time.Duration }

// begins notes that a publish begins on a lane with a pace.
func (s *state) begins(e *Event) {
	if s.config.pace(e.Topic) == 0 {
		return
	}
	p, l := s.process(e.Node), s.lane(e.Topic)
	if p.begun == nil {
		p.begun = map[string][]beginning{}
	}
	p.begun[e.Topic] = append(within(p.begun[e.Topic], e.Mono), beginning{e.Mono, e.At, e.Message})
	b := begun{at: e.At} // what nobody knows more of was due before all others
	if i := s.incarnations[e.Incarnation]; i != nil {
		if r := s.rows[rowKey{i.key.id, e.Topic}]; r != nil && r.incarnation == i && r.ready() {
			// A node goes by the due time when it claims, and by the deadline when it publishes.
			b.claimed, b.due = r.since, min(r.due, r.deadline)
		}
	}
	l.begun = append(l.begun, b)
}

// unsent takes back what was noted of a publish that sent nothing, since where it goes does not answer.
func (s *state) unsent(e *Event) {
	p := s.process(e.Node)
	of := p.begun[e.Topic]
	i := slices.IndexFunc(of, func(b beginning) bool { return b.message == e.Message })
	if e.Text != Unsent || i < 0 {
		return
	}
	l := s.lane(e.Topic)
	if at := slices.IndexFunc(l.begun, func(b begun) bool { return b.at == of[i].at }); at >= 0 {
		l.begun = slices.Delete(l.begun, at, at+1)
	}
	p.begun[e.Topic] = slices.Delete(of, i, i+1)
}

// within returns those of some publishes that have begun less than a second ago.
func within(begun []beginning, now time.Duration) []beginning {
	return slices.DeleteFunc(begun, func(b beginning) bool { return now-b.mono >= time.Second })
}

// behind bounds what the pace of a lane adds to the time for which a message waits that could come out since then: a
// beat, and one for each so many others as the pace says that have rightly gone before it meanwhile. Those are what was
// due no later than it, and what was claimed before any node can have heard of it:
//
//	node 1  looks, and leaves nothing in the store
//	node 2  stores x, which is due, and has no room for it
//	node 1  stores y, which is due later, as claimed, and publishes it; it knows nothing of x
//	node 1  looks: there is no room for x. What it stores as claimed from now on jumps the queue
//
// Where the lane opens and closes, or its messages stand in lines, what waits can't always be claimed, and whatever has
// gone before it counts.
func (s *state) behind(topic string, due, since, now time.Duration) time.Duration {
	c := &s.config
	pace := c.pace(topic)
	if pace == 0 {
		return 0
	}
	w := s.window(topic)
	unheard := since + c.Fair()
	if w != nil || c.Ordered && isCallback(topic) {
		unheard = now
	}
	others := 0
	for _, b := range s.lane(topic).begun {
		first := b.due <= due || b.claimed <= unheard
		if b.at > since-time.Second && b.at <= now && (b.at <= since || first) {
			others++
		}
	}
	beat := c.Beat()
	if w != nil {
		beat += w.Period // the lane may be closed when there is room again
	}
	return time.Duration(1+others/pace) * beat
}

// s30 is the invariant S30, paced.
func s30(s *state, e *Event) finding {
	pace := s.config.pace(e.Topic)
	if pace == 0 {
		return holds()
	}
	lately := within(slices.Clone(s.process(e.Node).begun[e.Topic]), e.Mono)
	if len(lately) >= pace {
		return brokenBy(s.submissions[e.Message], "%s begins %d publishes on %s within %v, and its pace is %d a second",
			e.Node, len(lately)+1, e.Topic, e.Mono-lately[0].mono, pace)
	}
	return holds()
}
