// Package control gives instructions to a store past Kafka, for operators: by the admin API, its page, and the
// commands.
//
// The store decides on them like on those that come as records, by the same table and under the same locks
// (node.NoPlace). Two things differ. The answer is the outcome, and nobody else is told of it. And Kafka does not keep
// the instruction: a store that is set back has lost it, and what it was about comes out as if nobody had said
// anything.
package control

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// Taker is the part of node.Store that instructions are given to.
type Taker interface {
	Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error)
}

// Instruct gives instructions, all in one transaction, and returns the outcome of each, in order. An instruction needs
// its action, and of the message ID and Lane, a deadline where it moves the message, and all of it where it brings one;
// Item.Only, where whoever gives it has looked at the message before. What else an item needs is filled in.
//
// The outcome of one among several whose message another session has locked is node.Blocked: nothing has happened to
// it. Where it is the only one, the error is a *BusyError. The error is a *ClosedError where the store takes nothing in
// now, and a *RefusedError where it can never store one of the messages: then nothing has happened. After any other
// error nobody knows what has: the call may be repeated, and answers not_found for what it has cancelled before.
func Instruct(ctx context.Context, store Taker, items []node.Item) ([]node.Outcome, error) {
	items = slices.Clone(items)
	for i := range items {
		item := &items[i]
		item.From, item.Epoch, item.Offset = node.NoPlace, 0, 0
		if item.Incarnation == uuid.Nil && item.Action != node.Cancel {
			item.Incarnation = uuid.New()
		}
		if reason := item.Refusal(); reason != "" {
			return nil, &RefusedError{ID: item.ID, Reason: reason}
		}
	}
	result, err := store.Take(ctx, node.TakeRequest{Items: items})
	if err != nil {
		return nil, err
	}
	if result.Refusal != "" && result.Taken < len(items) {
		if result.Taken > 0 {
			return nil, fmt.Errorf("the instructions before that for message %q were carried out, that one was not, "+
				"and none behind it: %s", items[result.Taken].ID, result.Refusal)
		}
		return nil, &RefusedError{ID: items[0].ID, Reason: result.Refusal}
	}
	if len(result.Results) != len(items) {
		return nil, fmt.Errorf("the store has answered %d of %d instructions", len(result.Results), len(items))
	}
	outcomes := make([]node.Outcome, len(items))
	for i, r := range result.Results {
		if outcomes[i] = r.Outcome; r.Outcome == node.Untaken {
			return nil, &ClosedError{State: result.State}
		}
	}
	if len(outcomes) == 1 && outcomes[0] == node.Blocked {
		return nil, &BusyError{ID: items[0].ID}
	}
	return outcomes, nil
}

// BusyError says that another session has locked the row of a message. Nothing has happened to that message.
type BusyError struct{ ID string }

// Error says why, and what to do.
func (e *BusyError) Error() string {
	return fmt.Sprintf("another session of the database holds a lock on the row of message %q, so nothing is changed: "+
		"try again, or end that session (the view pg_stat_activity shows it)", e.ID)
}

// IsBusy reports whether err says that another session has locked the row of a message.
func IsBusy(err error) bool {
	_, is := errors.AsType[*BusyError](err)
	return is
}

// ClosedError says that the store takes nothing in now. Nothing has changed.
type ClosedError struct{ State node.State }

// Error says why, and what to do.
func (e *ClosedError) Error() string {
	switch {
	case e.State.IntakePaused:
		return "the intake is paused, so nothing is changed: resume it, and do this again"
	case e.State.Suspect:
		return "the server of the store has another history than before, a failover perhaps, so nothing is changed " +
			"until a node has seen that: try again in some seconds"
	case e.State.Holding:
		return "the store was set back a moment ago, and nodes may still publish what they had claimed before, so " +
			"nothing is changed until they cannot: try again in some seconds"
	}
	return "the store took nothing in at that moment, so nothing is changed: try again"
}

// IsClosed reports whether err says that the store takes nothing in now.
func IsClosed(err error) bool {
	_, is := errors.AsType[*ClosedError](err)
	return is
}

// RefusedError says that the store can never store a message, or has none of that name. Nothing has changed.
type RefusedError struct{ ID, Reason string }

// Error returns the reason.
func (e *RefusedError) Error() string { return fmt.Sprintf("message %q: %s", e.ID, e.Reason) }
