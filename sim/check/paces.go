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
	l.begun = append(l.begun, e.At)
}

// unsent takes back what was noted of a publish that sent nothing, since where it goes does not answer.
func (s *state) unsent(e *Event) {
	p := s.process(e.Node)
	begun := p.begun[e.Topic]
	i := slices.IndexFunc(begun, func(b beginning) bool { return b.message == e.Message })
	if e.Text != Unsent || i < 0 {
		return
	}
	l := s.lane(e.Topic)
	if at := slices.Index(l.begun, begun[i].at); at >= 0 {
		l.begun = slices.Delete(l.begun, at, at+1)
	}
	p.begun[e.Topic] = slices.Delete(begun, i, i+1)
}

// within returns those of some publishes that have begun less than a second ago.
func within(begun []beginning, now time.Duration) []beginning {
	return slices.DeleteFunc(begun, func(b beginning) bool { return now-b.mono >= time.Second })
}

// behind bounds what the pace of a lane adds to the time for which a message waits that could come out since then: a
// beat, and one for each so many others as the pace says that have gone before it meanwhile.
func (s *state) behind(topic string, since, now time.Duration) time.Duration {
	pace := s.config.pace(topic)
	if pace == 0 {
		return 0
	}
	others := 0
	for _, at := range s.lane(topic).begun {
		if at > since-time.Second && at <= now {
			others++
		}
	}
	beat := s.config.Beat()
	if w := s.window(topic); w != nil {
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
