package callback

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"chronos/node"
)

// Function takes the messages of a lane within this program, in place of a receiver that is asked by HTTP. No error
// means that the message has come out. An error that is node.RecordRejected says that it is not to be tried again, and
// makes it a dead letter; any other error is a failure, and the message is tried again as a request would be, until the
// lane's RetryFor is over: a *node.PublishError may say when at the soonest. So is a panic, which ends with the call:
// the message would end one node after the other otherwise.
//
// As everything that comes out, a message may be handed over twice, also to two nodes at the same time. Functions are
// called concurrently, at most the lane's PerHost of them in one node. The context ends with the lane's Timeout. Who
// does not mind it keeps the place of another call until it returns, and what it returns then is not heard: the
// message has failed.
type Function func(ctx context.Context, m *Message) error

// Message is what a Function is handed. Its bytes must not be changed.
type Message struct {
	Lane, ID string
	Deadline time.Time
	Attempt  int   // from 1, as far as nodes know
	Sequence int64 // the number of the occurrence, of a series; 0 if it is none

	Key, Value []byte
	Headers    []node.Header // those of the message; the URL of a message that has one is in node.HeaderURL
}

// handOver hands a record to the function of its lane.
func (s *Sink) handOver(ctx context.Context, l *lane, function Function, record *node.Record) error {
	h := read(record)
	turn, err := s.enter(ctx, place{record.Topic, "the function"}, l, &h)
	if err != nil {
		return err
	}
	m := message(record, &h)
	ctx, cancel := context.WithTimeout(ctx, l.Timeout)
	defer cancel()
	began := time.Now()
	returned := make(chan error, 1)
	// Nobody waits for it after the time limit: a function that hangs must hold up its own messages only. The turn
	// that it keeps bounds how many of them there are.
	go func() {
		defer turn.leave(false, true)
		returned <- invoke(ctx, function, m)
	}()
	timely := true
	select {
	case err = <-returned:
	case <-ctx.Done():
		select {
		case err = <-returned: // at the same instant
		default:
			timely, err = false, fmt.Errorf("the function did not return within %v", l.Timeout)
		}
	}
	status := 0
	if err == nil {
		status = http.StatusOK
	}
	s.observe(Call{record.Topic, "function", m.Attempt, class(status, timely), time.Since(began)})
	if err == nil {
		return nil
	}
	if node.KindOf(err) == node.RecordRejected {
		return &node.PublishError{Kind: node.RecordRejected, Err: err}
	}
	return l.verdict(&h, &node.PublishError{After: node.FailureOf(err).After, Err: err})
}

// invoke calls a function, and makes a panic an error.
func invoke(ctx context.Context, function Function, m *Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the function panicked: %v", p)
		}
	}()
	return function(ctx, m)
}

// message returns a record as a function sees it.
func message(record *node.Record, h *headers) *Message {
	m := &Message{Lane: record.Topic, ID: h.id, Key: record.Key, Value: record.Value}
	m.Deadline, _ = node.ParseDeadline([]byte(h.deadline), node.EpochRejected) // the engine has written it
	m.Attempt, _ = strconv.Atoi(h.attempt)
	m.Sequence, _ = strconv.ParseInt(h.sequence, 10, 64)
	own := []string{node.HeaderID, node.HeaderDeadline, node.HeaderAttempt, node.HeaderSequence}
	for _, header := range record.Headers {
		if !slices.Contains(own, header.Name) {
			m.Headers = append(m.Headers, header)
		}
	}
	return m
}
