package node

import (
	"math/rand/v2"
	"time"

	"github.com/google/uuid"
)

// Asked is what a record asks for, for tests that look at nothing but that.
type Asked struct {
	Action  Action
	Message Message
	ID      string
	Told    bool
	Reason  Reason // "" for a valid instruction
	Detail  string
}

// Decode reads a record of the input topic of a route.
func (c *Config) Decode(r Record, route Route) Asked {
	in := c.decode(r, route)
	asked := Asked{Action: in.action, Message: in.message, ID: in.id, Told: in.told}
	if in.rejected != nil {
		asked.Reason, asked.Detail = in.rejected.reason, in.rejected.detail
	}
	return asked
}

// DeadLetter returns the copy of a message that was given up.
func DeadLetter(m *Message, cause error, topic string) Record {
	return deadLetterOfMessage(m, cause, topic)
}

// GoesAnyway reports whether the dead letter of a message need not name its lane.
func GoesAnyway(c *Config, m *Message) bool {
	p := publisher{firer: &firer{core: &core{config: *c}}}
	return p.goesAnyway(m)
}

// DerivedID is derivedID.
var DerivedID = derivedID

// RequestOf is requestOf, and says whether the record is rejected.
func (m *Marks) RequestOf(r Record) (request *Request, only uuid.UUID, rejected bool) {
	request, only, forged := m.requestOf(&r)
	return request, only, forged != nil
}

// Backlog is backlog, for tests that make the claims themselves.
type Backlog struct{ b backlog }

// Look is look.
type Look = look

// The looks of a backlog.
const (
	FromOldest = fromOldest
	ForLate    = forLate
)

// Ask is ask.
func (b *Backlog) Ask(now time.Duration) (l Look, from time.Time) { return b.b.ask(now) }

// Oldest is oldest.
func (b *Backlog) Oldest(n int, started time.Duration, lapsed time.Time, interval time.Duration, more bool) {
	b.b.oldest(n, started, lapsed, interval, more)
}

// Lately is lately.
func (b *Backlog) Lately(n int, started time.Duration, lapsed, from time.Time, interval time.Duration, more bool) {
	b.b.lately(n, started, lapsed, from, interval, more)
}

// Failed is failed.
func (b *Backlog) Failed(started, ended time.Duration, lapsed time.Time) {
	b.b.failed(started, ended, lapsed)
}

// Undone hands items to a store that answers that some are locked, one call of most items after the other, until no
// more are to be tried at an instant. It returns how many items are left, and how many were dropped.
func Undone(items []int, most int, locked func(int) bool, now time.Duration) (left, dropped int) {
	u := undone[int]{ready: items}
	random := rand.NewChaCha8([32]byte{1})
	for part := u.next(now, most); len(part) > 0; part = u.next(now, most) {
		answers := make([]Settled, len(part))
		for i, item := range part {
			if answers[i] = Removed; locked(item) {
				answers[i] = Busy
			}
		}
		dropped += u.done(part, answers, now, random)
	}
	return u.len(), dropped
}

// LaneSchedule is schedule, for tests that publish nothing.
type LaneSchedule struct{ s *schedule }

// NewLaneSchedule returns one of topics with some lanes, each of at most so many batches at the same time.
func NewLaneSchedule(c *Config, clock Clock, lanes []string, most int) *LaneSchedule {
	return &LaneSchedule{newSchedule(c, clock, lanes, topicPace(c), func(string) int { return most })}
}

// Hold has it hold n messages of a part that are due now.
func (s *LaneSchedule) Hold(at Part, n int) {
	for range n {
		var h holding
		h.Lane, h.Part, h.Deadline, h.since = at.Lane, at.Name, s.s.now(), s.s.mono()
		h.Incarnation = uuid.New()
		s.s.add([]*holding{&h})
	}
}

// Take takes out a batch and returns how many messages of each part are in it, and what gives it back: all of it has
// failed, or has come through.
func (s *LaneSchedule) Take() (taken map[Part]int, done func(failed bool)) {
	b := s.s.take(s.s.now(), 500, batchBytes)
	taken = map[Part]int{}
	for _, h := range b.holdings {
		taken[h.Where()]++
	}
	return taken, func(failed bool) {
		for _, l := range b.lanes {
			if l.Name != "" {
				s.s.doubt(l.Part, failed)
			}
		}
		s.s.done(b, func(Part) (bool, bool) { return failed, true })
	}
}

// Room returns how many messages fit in on a part.
func (s *LaneSchedule) Room(at Part) int {
	messages, _ := s.s.room(at)
	return messages
}
