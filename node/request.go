package node

import (
	"time"

	"github.com/google/uuid"
)

// Request names what somebody asks for past Kafka, so that the same can be asked again. What comes from Kafka has a
// place there, by which a record that is delivered twice takes effect once; what comes past it has none. So the store
// remembers the answer under the ID, in the transaction that has the effect:
//
//	cancel x: cancelled; the reply is lost
//	                                          cancel x again, under the same ID: cancelled
//
// Without that the second answer would be not_found, which tells nobody whether x has come out.
type Request struct {
	// ID names the request. Whoever makes it sees to it that nobody else's request has the same.
	ID uuid.UUID

	// Print tells what is asked for from everything else that somebody may ask for under the same ID, by mistake. The
	// store keeps it with the answer (Told.Print), and compares nothing.
	Print uuid.UUID

	// Keep is how long the answer is kept, by the store's clock. One that is older is not given any more, and is
	// deleted some time after that, by requests that come later: a few for each.
	Keep time.Duration
}

// AnswerKept is how long the answer to a request is kept that somebody else may repeat.
const AnswerKept = 24 * time.Hour

// Told is the answer to a request: what became of it, and what is true of the message from then on, as far as the
// request was about that one (Item.Only).
type Told struct {
	Outcome Outcome

	// Message is the id and the lane that it was about.
	Message MessageID

	// Incarnation and Deadline are those of the message after it, and Former is the deadline of before, where there was
	// a message, and it is another one. They are zero where there is none.
	Incarnation      uuid.UUID
	Deadline, Former time.Time

	// Sequence is the number of the occurrence, of a series: the last one that may come, where it was stopped; the
	// first one that does not come, where it was cancelled. It is 0 otherwise.
	Sequence int64

	// MayAppear says that content which was replaced, now or before, may come out all the same.
	MayAppear bool

	// Lineage is that of the store in which this is true.
	Lineage int64

	// Print is that of the request that was answered, and Again says that this is the answer which an earlier request
	// of the same ID was given. If the prints differ, it is the answer to something else, and nothing was done.
	Print uuid.UUID
	Again bool
}

// Tell returns what whoever made the request of an item is told of a verdict on it.
func (i *Item) Tell(v Verdict, lineage int64) Told {
	told := Told{
		Outcome: v.Outcome, Message: MessageID{ID: i.ID, Lane: i.Lane}, Lineage: lineage, Print: i.Request.Print,
	}
	if v.Outcome == NotFound {
		return told // what is stored is none of what was asked about
	}
	if v.After != nil {
		told.Incarnation, told.Deadline, told.Sequence = v.After.Incarnation, v.After.Deadline, v.After.Sequence
		told.MayAppear = v.After.Former
	}
	if v.Before != nil {
		if v.After == nil || !v.After.Deadline.Equal(v.Before.Deadline) {
			told.Former = v.Before.Deadline
		}
		if v.After == nil {
			told.Sequence = v.Before.Sequence
		}
		told.MayAppear = told.MayAppear || v.Before.Former
	}
	return told
}
