package admin

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node"
)

// Pause is what somebody has paused.
type Pause struct {
	Lane   string    `json:"lane,omitempty" doc:"The lane; none for the intake."`
	Since  time.Time `json:"since"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Pauses are all of them.
type Pauses struct {
	Pauses []Pause `json:"pauses"`
}

func pauseOf(p node.Pause) *Pause { return &Pause{p.Lane, p.Since, p.By, p.Why} }

// PauseRequest says who pauses something and why.
type PauseRequest struct {
	By     string `json:"by,omitempty" maxLength:"200" doc:"Who does it."`
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"What for."`
}

type pauseInput struct {
	Lane string `path:"lane" minLength:"1" maxLength:"249"`
	Body PauseRequest
}

type pauseIntakeInput struct{ Body PauseRequest }

type resumeInput struct {
	Lane string `path:"lane" minLength:"1" maxLength:"249"`
	By   string `query:"by" maxLength:"200" doc:"Who does it."`
}

type resumeIntakeInput struct {
	By string `query:"by" maxLength:"200" doc:"Who does it."`
}

// Resumed reports whether there was a pause.
type Resumed struct {
	Was   bool       `json:"was" doc:"Whether it was paused."`
	Opens *time.Time `json:"opens,omitempty" doc:"When the lane opens, which its window keeps closed until then."`
}

func (a *API) pauses(api huma.API) {
	read(a, api, "/v1/pauses", "pauses", "What is paused", func(ctx context.Context, _ *nothing) (Pauses, error) {
		pauses, err := a.Store.Pauses(ctx)
		all := Pauses{Pauses: []Pause{}}
		for _, p := range pauses {
			all.Pauses = append(all.Pauses, *pauseOf(p))
		}
		return all, err
	})
	write(a, api, http.MethodPut, "/v1/pauses/lanes/{lane}", "pauseLane",
		"Pause a lane: nothing is claimed on it, from the answer on; what is claimed already may come out for a moment",
		func(ctx context.Context, in *pauseInput) (Pause, error) { return a.pause(ctx, in.Lane, in.Body) })
	write(a, api, http.MethodDelete, "/v1/pauses/lanes/{lane}", "resumeLane", "Resume a lane",
		func(ctx context.Context, in *resumeInput) (Resumed, error) { return a.resume(ctx, in.Lane, in.By) })
	write(a, api, http.MethodPut, "/v1/pauses/intake", "pauseIntake",
		"Pause the intake: nothing is taken in from any topic, and what waits comes out",
		func(ctx context.Context, in *pauseIntakeInput) (Pause, error) {
			return a.pause(ctx, node.Intake, in.Body)
		})
	write(a, api, http.MethodDelete, "/v1/pauses/intake", "resumeIntake", "Resume the intake",
		func(ctx context.Context, in *resumeIntakeInput) (Resumed, error) {
			return a.resume(ctx, node.Intake, in.By)
		})
}

// write registers something that changes something.
func write[I, O any](
	a *API, api huma.API, method, path, id, summary string, handle func(context.Context, *I) (O, error),
) {
	operation := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary,
		MaxBodyBytes: -1, // listener.Doorman minds maxBody
		Errors: []int{
			http.StatusForbidden, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusServiceUnavailable,
		},
	}
	huma.Register(api, operation, func(ctx context.Context, in *I) (*answer[O], error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.problem(err)
		}
		return &answer[O]{out}, nil
	})
}

func (a *API) pause(ctx context.Context, lane string, request PauseRequest) (Pause, error) {
	if request.By == "" {
		request.By = callerOf(ctx).Name()
	}
	if lane != node.Intake && !a.serves(lane) {
		if err := a.waits(ctx, lane); err != nil {
			return Pause{}, err
		}
	}
	p, err := a.Store.Pause(ctx, node.Pause{Lane: lane, By: request.By, Why: request.Reason})
	if err != nil {
		return Pause{}, err
	}
	a.audit(ctx, "pause", lane, request.By, request.Reason)
	return *pauseOf(p), nil
}

// waits returns an error unless something waits on a lane: there is none of that name then, as far as can be told by
// who does not serve it.
func (a *API) waits(ctx context.Context, lane string) error {
	stored, err := a.Store.Parts(ctx)
	switch {
	case err != nil:
		return err
	case slices.Contains(node.LanesOf(stored), lane):
		return nil
	case len(a.Lanes) == 0:
		return huma.Error404NotFound("there is no lane " + lane + " in the store: nothing waits there, and it is not " +
			"paused")
	}
	return huma.Error404NotFound("there is no lane " + lane + ": no route of this node has it, and nothing waits there")
}

func (a *API) resume(ctx context.Context, lane, by string) (Resumed, error) {
	if by == "" {
		by = callerOf(ctx).Name()
	}
	was, err := a.Store.Resume(ctx, lane)
	if err != nil {
		return Resumed{}, err
	}
	// What was paused is there, whatever it is. A name that nothing has is a mistake: the lane that was meant stays
	// paused.
	if !was && lane != node.Intake && (len(a.Lanes) == 0 || !a.serves(lane)) {
		if err := a.waits(ctx, lane); err != nil {
			return Resumed{}, err
		}
	}
	a.audit(ctx, "resume", lane, by, "")
	closed, opens := a.closedAt(lane, a.now())
	resumed := Resumed{Was: was}
	if closed {
		resumed.Opens = opens
	}
	return resumed, nil
}
