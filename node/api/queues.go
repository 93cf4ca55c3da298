package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// queues registers what applications ask of queues. Their scopes are those of the lane of tasks (allowed): to read it
// is to see queues, tasks and actions; to write it, to change them. An action that has a topic needs the scope for that
// as well.
func (a *API) queues(api huma.API) {
	mount := desk.Mount{
		Desk: a.Queues, Name: func(operation string) string { return operation }, Problem: a.queueProblem,
		Payload: func(context.Context) bool { return true },
		Done:    func(context.Context, string, string) {},
		Describe: func(operation *huma.Operation, writes bool) {
			statuses := []int{http.StatusNotFound}
			if writes {
				statuses = append(statuses, http.StatusConflict, http.StatusPreconditionFailed)
			}
			a.describe(api, operation, statuses)
		},
		May: func(ctx context.Context, topic string) error {
			if !node.IsTopic(topic) {
				return newProblem(http.StatusUnprocessableEntity, codeLane, "topic must be the name of a topic: a "+
					"request has a uri").at("body.topic")
			}
			if p := a.writable(callerOf(ctx), topic); p != nil {
				return p
			}
			return nil
		},
		Owns: func(ctx context.Context, topic string) error {
			if who := callerOf(ctx); !who.scopes.MayWrite(topic) {
				return outOfScope(who.name, "write", topic, &who.scopes)
			}
			return nil
		},
	}
	mount.Register(api)
}

// describe completes the description of an operation: its problems are those with the statuses given, and those that
// each may have.
func (a *API) describe(api huma.API, operation *huma.Operation, statuses []int) {
	operation.MaxBodyBytes = -1 // listener.Doorman minds Limits.Bytes
	operation.Responses = map[string]*huma.Response{}
	statuses = append(slices.Clone(statuses), http.StatusUnauthorized, http.StatusForbidden,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable)
	for _, status := range statuses {
		operation.Responses[statusText(status)] = refused(api, status)
	}
	operation.Responses[statusText(http.StatusRequestHeaderFieldsTooLarge)] = &huma.Response{
		Description: "The header is larger than 16 kB. What answers so is no problem, but a text.",
	}
}

// refused returns the description of a problem.
func refused(api huma.API, status int) *huma.Response {
	problem := api.OpenAPI().Components.Schemas.Schema(typeOf[ProblemError](), true, "Problem")
	return &huma.Response{
		Description: http.StatusText(status), Content: map[string]*huma.MediaType{problemType: {Schema: problem}},
	}
}

// queueProblem returns the problem for an error of the desk.
func (a *API) queueProblem(err error) error {
	if told, is := errors.AsType[*ProblemError](err); is {
		return told
	}
	refusal, is := errors.AsType[*queue.Refusal](err)
	if !is {
		return newProblem(http.StatusServiceUnavailable, codeUnknown, "Nobody knows whether that was done: ask for it "+
			"again, by the same id. "+a.explain(err)).after(time.Second)
	}
	switch refusal.Code {
	case queue.NotFound:
		return newProblem(http.StatusNotFound, codeNotFound, refusal.Detail)
	case queue.Conflict, queue.Changed:
		return newProblem(http.StatusConflict, codeConflict, refusal.Detail)
	case queue.Closed:
		return newProblem(http.StatusServiceUnavailable, codeClosed, refusal.Detail).after(closedWait)
	case queue.Invalid:
	}
	return newProblem(http.StatusUnprocessableEntity, codeInvalid, refusal.Detail)
}
