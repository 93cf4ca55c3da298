package admin

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// queues registers what operators ask of queues: the same as applications do. To change anything takes the right
// control, and to see what actions send, the right payload.
func (a *API) queues(api huma.API) {
	mount := desk.Mount{
		Desk: a.Queues, Name: func(operation string) string { return operation }, Problem: a.problem,
		Payload: func(ctx context.Context) bool { return callerOf(ctx).may(a.Rights).Payload },
		May:     func(context.Context, string) error { return nil },
		Owns:    func(context.Context, string) error { return nil },
		Done: func(ctx context.Context, operation, what string) {
			a.auditLine(ctx, "audit: somebody has changed something by the admin API", operation,
				callerOf(ctx).Name(), "", slog.String("what", what))
		},
		Describe: func(operation *huma.Operation, writes bool) {
			operation.MaxBodyBytes = -1 // listener.Doorman minds maxBody
			operation.Errors = []int{
				http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable,
			}
			if writes {
				operation.Errors = append(operation.Errors, http.StatusForbidden, http.StatusConflict)
			}
		},
	}
	mount.Register(api)
}

// refused returns the error for a client whose wish a store has refused.
func refused(refusal *queue.Refusal) error {
	switch refusal.Code {
	case queue.NotFound:
		return huma.Error404NotFound(refusal.Detail)
	case queue.Conflict, queue.Changed:
		return huma.Error409Conflict(refusal.Detail)
	case queue.Closed:
		return huma.Error503ServiceUnavailable(refusal.Detail)
	case queue.Invalid:
	}
	return huma.Error422UnprocessableEntity(refusal.Detail)
}
