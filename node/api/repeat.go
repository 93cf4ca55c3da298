package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/control"
)

// toldOr returns what a request was told before, if it repeats one that was carried out, and its problem otherwise. The
// problem alone would be no answer to a request that is repeated:
//
//	9:00:00  PUT x, in 10 minutes, not after 9:10:05     scheduled; the reply is lost
//	9:00:06  the same, under the same key                in 10 minutes is too late by now
//
// Who is told of that takes x for refused, and it comes out. So the store is asked what the request was told, by an
// instruction that changes nothing.
//
// Keep is how long the problem is the answer to the request. A problem that comes of the hour at which the request is
// asked has to be that for as long as an answer is: the first request may still be on its way, by a node that was
// frozen, and must not be carried out any more when the second one was refused. Another problem may be gone when
// somebody asks again, and is remembered for no time.
func (a *API) toldOr(ctx context.Context, in *asked, p *ProblemError, keep time.Duration) (*output, error) {
	if in.Key == "" {
		return nil, p
	}
	item := node.Item{From: node.NoPlace, Action: node.Cancel, Only: uuid.New()} // of a message that there is not
	item.ID, item.Lane, item.Incarnation = in.id, in.Lane, uuid.New()
	item.Request = in.request()
	own := item.Request.Print
	item.Request.Print, item.Request.Keep = refusedPrint(own, p.Code), keep
	result, err := a.give(ctx, item, (&When{}).record(in.id, node.Cancel, a.Now()))
	if _, refused := errors.AsType[*control.RefusedError](err); refused {
		return nil, p
	}
	if err != nil {
		return nil, a.untaken(err, true)
	}
	if result.Told.Print == own {
		return a.answer(in, result.Told)
	}
	return nil, p
}

// unread answers a request that is no valid instruction now.
func (a *API) unread(ctx context.Context, in *asked, p *ProblemError) (*output, error) {
	limits := []node.Reason{node.TooFar, node.TooLarge, node.TooManyHeaders, node.HeadersTooLarge}
	switch {
	case slices.Contains(limits, node.Reason(p.Code)): // those of this node, as they are by now
		return a.toldOr(ctx, in, p, 0)
	case a.wasFit(in):
		return a.toldOr(ctx, in, p, node.AnswerKept)
	}
	return nil, p
}

// wasFit reports whether a request that is no valid instruction now was one when it was asked first, if it is a
// repeated one: as long ago as can be, since what is counted from then comes later each time.
func (a *API) wasFit(in *asked) bool {
	first := func() time.Time { return a.Now().Add(-node.AnswerKept) }
	record := in.record
	record.Timestamp = first()
	_, err := a.Node.Read(record, in.Lane, first)
	return err == nil
}

// refused returns the problem by which a request was refused before, if that was the answer; nil if it was not.
func (in *asked) refused(told *node.Told) *ProblemError {
	own := in.request().Print
	for _, code := range []string{string(node.InvalidNotAfter), string(calendar.UntilBeforeFirst)} {
		if told.Print == refusedPrint(own, code) {
			return newProblem(http.StatusUnprocessableEntity, code, "the request was refused before under that "+
				"Idempotency-Key, because the message was to come out later than it may, so nothing was done: a new "+
				"request needs a new one").at("header.Idempotency-Key")
		}
	}
	return nil
}

// refusedPrint returns the print of a request that is refused, in place of its own.
func refusedPrint(own uuid.UUID, code string) uuid.UUID { return hashed("refused", own.String(), code) }
