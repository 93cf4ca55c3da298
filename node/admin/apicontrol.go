package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/control"
	"chronos/node/store/inspect"
	"chronos/node/view"
)

// InstructRequest says which message is meant, and who wants something of it. The incarnation is that which a look at
// the message has shown: what has come since under the same id, with other content perhaps, is not touched.
type InstructRequest struct {
	Lane        string `json:"lane" minLength:"1" maxLength:"249" doc:"The lane of the message."`
	Incarnation string `json:"incarnation" format:"uuid" doc:"The one that you have seen; no other is touched."`
	By          string `json:"by,omitempty" maxLength:"200" doc:"Who does it. Default the name of the token."`
	Reason      string `json:"reason,omitempty" maxLength:"1000" doc:"What for. It goes into the log."`
}

// RescheduleRequest says when the message is to come out: by a deadline, or by a delay from now.
type RescheduleRequest struct {
	InstructRequest

	Deadline string `json:"deadline,omitempty" maxLength:"64" doc:"An instant, such as 2030-01-31T09:00:00Z."`
	Delay    string `json:"delay,omitempty" maxLength:"64" doc:"In how long from now, such as 90m or 1h30m or PT90M."`
}

type instructInput struct {
	ID   string `path:"id" maxLength:"512"`
	Body InstructRequest
}

type rescheduleInput struct {
	ID   string `path:"id" maxLength:"512"`
	Body RescheduleRequest
}

// Instructed is the outcome of an instruction.
type Instructed struct {
	ID      string `json:"id"`
	Lane    string `json:"lane"`
	Action  string `json:"action" enum:"cancel,reschedule,fire"`
	Outcome string `json:"outcome" enum:"cancelled,stopped,rescheduled,fired,too_late,not_found"`
	Says    string `json:"says" doc:"What the outcome means, in a sentence or two."`

	Deadline *time.Time `json:"deadline,omitempty" doc:"When it comes out, if it does."`
	Former   *time.Time `json:"former_deadline,omitempty" doc:"When it would have, where that is another instant."`
	Sequence int64      `json:"sequence,omitempty" doc:"Of a series: the first that does not come; stopped, the last."`

	Incarnation string `json:"incarnation,omitempty" doc:"That of the message now, for the next instruction."`
}

// controls registers what changes a message.
func (a *API) controls(api huma.API) {
	instruct := func(path, id, summary string, action node.Action) {
		write(a, api, http.MethodPost, path, id, summary,
			func(ctx context.Context, in *instructInput) (Instructed, error) {
				return a.instruct(ctx, in.ID, action, &in.Body, time.Time{})
			})
	}
	instruct("/v1/messages/{id}/cancel", "cancel",
		"Cancel a message: it does not come out, unless it is too late. A series ends", node.Cancel)
	instruct("/v1/messages/{id}/fire", "fire", "Fire a message: it comes out now", node.FireNow)
	write(a, api, http.MethodPost, "/v1/messages/{id}/reschedule", "reschedule",
		"Reschedule a message: it comes out at another time. Of a series this occurrence alone does",
		func(ctx context.Context, in *rescheduleInput) (Instructed, error) {
			deadline, err := a.newDeadline(&in.Body)
			if err != nil {
				return Instructed{}, huma.Error422UnprocessableEntity(err.Error())
			}
			return a.instruct(ctx, in.ID, node.Reschedule, &in.Body.InstructRequest, deadline)
		})
}

// newDeadline reads when a message is to come out.
func (a *API) newDeadline(request *RescheduleRequest) (deadline time.Time, err error) {
	now := a.now().UTC()
	switch {
	case (request.Deadline == "") == (request.Delay == ""):
		return deadline, errors.New("say when it is to come out: by deadline or by delay, and not by both")
	case request.Delay != "":
		delay, err := calendar.ParseDelay(request.Delay)
		if err != nil {
			return deadline, fmt.Errorf("the delay is %q: %w", request.Delay, err)
		}
		deadline = now.Add(delay).Truncate(time.Microsecond)
	default:
		if deadline, err = node.ParseDeadline([]byte(request.Deadline), node.EpochRejected); err != nil {
			return deadline, fmt.Errorf("the deadline is %q: %w", request.Deadline, err)
		}
	}
	if a.MaxDelay > 0 && deadline.After(now.Add(a.MaxDelay)) {
		return deadline, fmt.Errorf("it may come out within %v at the latest (max-delay), and the deadline is %s",
			a.MaxDelay, deadline.Format(time.RFC3339))
	}
	return deadline, nil
}

// instruct gives an instruction to the store, and answers with its outcome. Whether the client still waits for that
// makes no difference to what is written down.
func (a *API) instruct(
	ctx context.Context, id string, action node.Action, request *InstructRequest, deadline time.Time,
) (Instructed, error) {
	if slices.Contains(a.Own, request.Lane) {
		return Instructed{}, huma.Error422UnprocessableEntity("lane " + request.Lane + " is where Chronos puts dead " +
			"letters or outcomes: they always come out, because somebody was told so, or relies on it")
	}
	only, err := uuid.Parse(request.Incarnation)
	if err != nil || only == uuid.Nil {
		return Instructed{}, huma.Error422UnprocessableEntity("the incarnation must be the one that a look at the " +
			"message has shown")
	}
	seen, err := a.look(ctx, id, request.Lane, only)
	if err != nil {
		return Instructed{}, err
	}
	now := a.now().UTC().Truncate(time.Microsecond)
	if action == node.FireNow {
		deadline = now
	}
	if seen != nil && !seen.NotAfter.IsZero() && deadline.After(seen.NotAfter) {
		return Instructed{}, huma.Error422UnprocessableEntity(fmt.Sprintf("it is not to come out after %s "+
			"(chronosNotAfter), so at %s it would be dropped; replace it, if it is to come out nevertheless",
			shownTime(seen.NotAfter), shownTime(deadline)))
	}
	if request.By == "" {
		request.By = callerOf(ctx).Name()
	}
	item := node.Item{Action: action, Only: only, Message: node.Message{ID: id, Lane: request.Lane, Deadline: deadline}}
	if action != node.Cancel {
		item.Incarnation = uuid.New()
	}
	outcomes, err := control.Instruct(context.WithoutCancel(ctx), a.Taker, []node.Item{item})
	if err != nil {
		return Instructed{}, a.notTaken(ctx, &item, request, err)
	}
	outcome := outcomes[0]
	a.auditInstruction(ctx, &item, request, outcome.String(), nil)
	return a.instructed(&item, outcome, seen, a.isPaused(ctx, request.Lane)), nil
}

// look returns the message as it is before the instruction; nil if it is not there any more. What an incarnation holds
// never changes, so that this is true of whatever the instruction acts on.
func (a *API) look(ctx context.Context, id, lane string, only uuid.UUID) (*inspect.Message, error) {
	found, err := a.Store.Find(ctx, id, inspect.Parts{})
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i].Lane == lane && found[i].Incarnation == only {
			return &found[i], nil
		}
	}
	return nil, nil //nolint:nilnil // it is documented
}

// isPaused reports whether somebody has paused a lane, as far as that can be told.
func (a *API) isPaused(ctx context.Context, lane string) bool {
	pauses, err := a.Store.Pauses(ctx)
	return err == nil && slices.ContainsFunc(pauses, func(p node.Pause) bool { return p.Lane == lane })
}

// notTaken says why there is no outcome. A status of 409 or 422 says that nothing has changed, as
// does 503 with a time to retry after; 503 without one that nobody knows.
func (a *API) notTaken(ctx context.Context, item *node.Item, request *InstructRequest, err error) error {
	refused, isRefused := errors.AsType[*control.RefusedError](err)
	switch {
	case control.IsClosed(err):
		a.auditInstruction(ctx, item, request, "not taken", err)
		return huma.Error409Conflict(err.Error())
	case control.IsBusy(err):
		a.auditInstruction(ctx, item, request, "not taken", err)
		return huma.ErrorWithHeaders(huma.Error503ServiceUnavailable(err.Error()), http.Header{"Retry-After": {"1"}})
	case isRefused:
		a.auditInstruction(ctx, item, request, "refused", err)
		return huma.Error422UnprocessableEntity(refused.Error())
	}
	a.auditInstruction(ctx, item, request, "unknown", err)
	why := err.Error()
	if a.Explain != nil {
		why = a.Explain(err)
	}
	return huma.Error503ServiceUnavailable("Nobody knows whether that was done: look at the message again before you " +
		"repeat it. " + why)
}

// instructed returns the answer.
func (a *API) instructed(item *node.Item, outcome node.Outcome, seen *inspect.Message, paused bool) Instructed {
	answer := Instructed{ID: item.ID, Lane: item.Lane, Action: item.Action.String(), Outcome: outcome.String()}
	if seen == nil {
		seen = &inspect.Message{}
	}
	switch former := seen.Deadline; outcome {
	case node.Cancelled:
		answer.Former, answer.Sequence = instantOf(former), seen.Sequence
		answer.Says = "It does not come out. It was due at " + shownTime(former) + "."
		if seen.Recurs() {
			answer.Says = fmt.Sprintf("The series has ended: occurrence %d, which was due at %s, does not come out, "+
				"nor does any after it.", seen.Sequence, shownTime(former))
		}
	case node.Stopped:
		answer.Deadline, answer.Sequence, answer.Incarnation = instantOf(former), seen.Sequence, item.Only.String()
		answer.Says = fmt.Sprintf("The series has ended: no occurrence comes after %d, which may have come out just "+
			"now, or may yet.", seen.Sequence)
	case node.Rescheduled, node.FiredNow:
		deadline := item.Deadline
		if outcome == node.FiredNow && former.Before(deadline) {
			deadline = former // it was overdue, and keeps its place
		}
		answer.Deadline, answer.Former = &deadline, instantOf(former)
		answer.Incarnation = item.Moved(item.Only).String()
		answer.Says = a.moved(outcome, deadline, seen, paused)
	case node.TooLate:
		answer.Deadline, answer.Incarnation = instantOf(former), item.Only.String()
		answer.Says = "It comes out as it is, if it has not come out just now: a node has claimed it, or somebody " +
			"was told before that it comes out."
	default:
		answer.Says = "Nothing has changed, because the message that you have seen is not there any more: it has " +
			"come out, or somebody has changed it. Look again."
	}
	return answer
}

// moved says when a message comes out that was rescheduled or fired.
func (a *API) moved(outcome node.Outcome, deadline time.Time, seen *inspect.Message, paused bool) string {
	says := "It comes out at " + shownTime(deadline) + ", and no longer at " + shownTime(seen.Deadline) + "."
	closed, opens := a.closedAt(seen.Lane, maxTime(deadline, a.now()))
	if closed {
		says = "Its lane is closed then. It was due at " + shownTime(seen.Deadline) +
			", and comes out when the lane opens"
		if opens != nil {
			says += ", at " + shownTime(*opens)
		}
		says += "."
	} else if !deadline.After(a.now()) {
		says = "It comes out now. It was due at " + shownTime(seen.Deadline) + "."
		if paused {
			says = "It comes out as soon as its lane is resumed, which is paused."
		}
	}
	if outcome == node.FiredNow {
		says += " From here on nothing but replace can change that."
	}
	if next := view.Next(seen); seen.Recurs() && next != nil {
		says += fmt.Sprintf(" The series goes on as before, with occurrence %d at %s.", seen.Sequence+1,
			shownTime(*next))
	}
	return says
}

// closedAt reports whether a lane is closed at an instant by its window, and when it opens then; nil for never.
func (a *API) closedAt(lane string, at time.Time) (closed bool, opens *time.Time) {
	if a.Hours == nil {
		return false, nil
	}
	state, has := a.Hours(lane, at)
	if !has || state.Open {
		return false, nil
	}
	return true, instantOf(state.Changes)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func shownTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// auditInstruction writes down who has asked for what, and what came of it, and counts it.
func (a *API) auditInstruction(
	ctx context.Context, item *node.Item, request *InstructRequest, outcome string, err error,
) {
	if a.Count != nil {
		a.Count(item.Lane, item.Action.String(), countedAs(outcome))
	}
	attrs := []slog.Attr{
		slog.String("outcome", outcome), slog.String("id", item.ID), slog.String("lane", item.Lane),
		slog.String("incarnation", item.Only.String()),
	}
	if !item.Deadline.IsZero() && item.Action == node.Reschedule {
		attrs = append(attrs, slog.Time("deadline", item.Deadline))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", oneLine(err.Error())))
	}
	a.auditLine(ctx, "audit: somebody has given an instruction by the admin API", item.Action.String(), request.By,
		request.Reason, attrs...)
}

// countedAs returns an outcome as a label has it.
func countedAs(outcome string) string {
	if outcome == "not taken" {
		return "not_taken"
	}
	return outcome
}
