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
	ForMissed  = forMissed
)

// Ask is ask.
func (b *Backlog) Ask(now time.Duration, latest time.Time) (l Look, from, until time.Time) {
	return b.b.ask(now, latest)
}

// Oldest is oldest.
func (b *Backlog) Oldest(n int, started time.Duration, lapsed time.Time, interval time.Duration, more bool) {
	b.b.oldest(n, started, lapsed, interval, more)
}

// Lately is lately.
func (b *Backlog) Lately(n int, started time.Duration, lapsed, from time.Time, interval time.Duration, more bool) {
	b.b.lately(n, started, lapsed, from, interval, more)
}

// Sought is sought.
func (b *Backlog) Sought(n int, started time.Duration, more bool) { b.b.sought(n, started, more) }

// Failed is failed.
func (b *Backlog) Failed(started, ended time.Duration, lapsed time.Time) {
	b.b.failed(started, ended, lapsed)
}

// Rest is rest.
func (b *Backlog) Rest(started time.Duration, lapsed time.Time, interval time.Duration) {
	b.b.rest(started, lapsed, interval)
}

// Recurred is recurred.
func (b *Backlog) Recurred(at, lapsed time.Time) { b.b.recurred(at, lapsed) }

// Claimed is rounds.claimed.
func (b *Backlog) Claimed(started time.Duration, first *Ready, to time.Time) (over bool) {
	return b.b.rounds.claimed(started, first, to)
}

// Took is rounds.took.
func (b *Backlog) Took(took, most, ended time.Duration, until time.Time, whole, through bool) {
	b.b.rounds.took(took, most, ended, until, whole, through)
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
