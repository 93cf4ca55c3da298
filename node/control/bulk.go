package control

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
)

// Tally counts what has become of messages that were chosen by what they say.
type Tally struct {
	Scanned int `json:"scanned" doc:"Messages that were looked at."`
	Matched int `json:"matched" doc:"Of them, those that were meant."`

	Cancelled int `json:"cancelled" doc:"Those do not come out."`
	Stopped   int `json:"stopped" doc:"Occurrences of series that come out, or may have; none comes after them."`
	TooLate   int `json:"too_late" doc:"Those come out as they are, if they have not just now."`
	Changed   int `json:"changed" doc:"Had come out, or been changed by somebody, since they were looked at."`
	Busy      int `json:"busy,omitempty" doc:"Another session of the database has locked them: do it again."`
	Left      int `json:"left" doc:"Outcomes and dead letters, which Chronos itself has made: they always come out."`
}

// Add adds what has become of others.
func (t *Tally) Add(o Tally) {
	t.Scanned += o.Scanned
	t.Matched += o.Matched
	t.Cancelled += o.Cancelled
	t.Stopped += o.Stopped
	t.TooLate += o.TooLate
	t.Changed += o.Changed
	t.Busy += o.Busy
	t.Left += o.Left
}

// Cancelled is what has become of the messages of one page.
type Cancelled struct {
	Tally

	Next string `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`

	Stops []uuid.UUID `json:"stops,omitempty" doc:"The incarnations of those that are counted as stopped."`
	Stays []uuid.UUID `json:"stays,omitempty" doc:"The incarnations of those that are counted as too late."`
}

// CancelPage cancels what is on one page of a list, in one short transaction. If dry, it changes nothing, and counts
// what would become of the messages.
//
// Each message is cancelled only if it is still the one that the page shows (node.Item.Only): what has come since under
// its id may say something else. So a page may be repeated, and a walk that was broken off may begin anew: what is
// cancelled is not there any more, and nobody has to remember how far it had come.
//
// What comes in while a walk is under way, or moves to a place behind it, is not met by that walk. A message is either
// on a page of those that wait or on one of those that are claimed, and goes from the one to the other by itself:
// whoever means both walks along both, and again as long as that finds something to cancel. So what is not cancelled
// may be met twice: by the incarnations one can tell.
func CancelPage(
	ctx context.Context, source inspect.Source, store Taker, query inspect.Query, now time.Time, dry bool,
) (done Cancelled, err error) {
	query.Limit, query.Slice = inspect.MaxLimit, inspect.MaxSlice
	page, err := inspect.List(ctx, source, query, now)
	if err != nil {
		return done, err
	}
	done.Scanned, done.Matched = page.Scanned, len(page.Messages)
	var items []node.Item
	for i := range page.Messages {
		m := &page.Messages[i]
		switch {
		case made(m):
			done.Left++
		case dry:
			done.count(expected(m), m.Incarnation)
		default:
			items = append(items, node.Item{
				Action: node.Cancel, Only: m.Incarnation, Message: node.Message{ID: m.ID, Lane: m.Lane},
			})
		}
	}
	if len(items) > 0 {
		outcomes, err := Instruct(ctx, store, items)
		if err != nil {
			return done, err // the outcomes are missing in it
		}
		for i, outcome := range outcomes {
			done.count(outcome, items[i].Only)
		}
	}
	done.Next = page.Next
	return done, nil
}

func (c *Cancelled) count(outcome node.Outcome, of uuid.UUID) {
	switch outcome {
	case node.Cancelled:
		c.Cancelled++
	case node.Stopped:
		c.Stopped++
		c.Stops = append(c.Stops, of)
	case node.TooLate:
		c.TooLate++
		c.Stays = append(c.Stays, of)
	case node.Blocked:
		c.Busy++
	default: // not found
		c.Changed++
	}
}

// expected returns what a cancel would come to now.
func expected(m *inspect.Message) node.Outcome {
	item := node.Item{Action: node.Cancel}
	return item.Decide(&node.Kept{
		Incarnation: m.Incarnation, Claimed: !m.Waits(), Attempts: m.Attempts, Bound: m.Bound, Sequence: m.Sequence,
	}).Outcome
}

// made reports whether Chronos itself has made a message: an outcome, or the copy of a record that was rejected.
// Somebody relies on that it comes out, and on its lane there is nothing else. The names of their headers are no
// applications': whoever relays an outcome as a message of his own has to cancel that by its id.
func made(m *inspect.Message) bool {
	has := func(name string) bool {
		return slices.ContainsFunc(m.Headers, func(h node.Header) bool { return h.Name == name })
	}
	return has(node.HeaderOutcome) && has(node.HeaderLineage) || has(node.HeaderReason) && has(node.HeaderSourceTopic)
}
