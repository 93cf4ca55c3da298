package admin

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/store/inspect"
)

// BulkCancelRequest says which messages are to be cancelled: those of a lane that have what the other fields ask for.
// Each request is about one page of them: it takes a fraction of a second, and says where to go on. A key or a header
// that is empty is refused: a script whose variable is not set must not cancel all of the lane.
type BulkCancelRequest struct {
	Lane    string    `json:"lane" minLength:"1" maxLength:"249" doc:"The lane of the messages."`
	Claimed bool      `json:"claimed,omitempty" doc:"Those that nodes hold, in place of those that wait."`
	From    time.Time `json:"from,omitzero" doc:"Deadlines from this instant on."`
	Until   time.Time `json:"until,omitzero" doc:"Deadlines before this instant."`
	Key     string    `json:"key,omitempty" minLength:"1" doc:"With this key; base64:... for one that is no text."`
	Header  string    `json:"header,omitempty" minLength:"1" doc:"Those with this header: NAME or NAME=VALUE."`
	DryRun  bool      `json:"dry_run,omitempty" doc:"Change nothing, and count what would become of them."`
	Cursor  string    `json:"cursor,omitempty" doc:"Where the page before said to go on."`
	By      string    `json:"by,omitempty" maxLength:"200" doc:"Who does it. Default the name of the token."`
	Reason  string    `json:"reason,omitempty" maxLength:"1000" doc:"What for. It goes into the log."`
}

// BulkCancelled is what has become of the messages of one page.
type BulkCancelled struct{ control.Cancelled }

type bulkCancelInput struct{ Body BulkCancelRequest }

// bulk registers what changes many messages.
func (a *API) bulk(api huma.API) {
	write(a, api, http.MethodPost, "/v1/bulk/cancel", "bulkCancel",
		"Cancel messages by what they say, one page at a time: each only if it is still the one that was looked at",
		func(ctx context.Context, in *bulkCancelInput) (BulkCancelled, error) {
			return a.bulkCancel(ctx, &in.Body)
		})
}

func (a *API) bulkCancel(ctx context.Context, request *BulkCancelRequest) (BulkCancelled, error) {
	if slices.Contains(a.Own, request.Lane) {
		return BulkCancelled{}, huma.Error422UnprocessableEntity("lane " + request.Lane + " is where Chronos puts " +
			"dead letters or outcomes: they always come out, because somebody was told so, or relies on it")
	}
	query, err := listQuery(request.Key, request.Header)
	if err != nil {
		return BulkCancelled{}, err
	}
	query.Lanes, query.From, query.Until = []string{request.Lane}, request.From, request.Until
	query.Cursor = request.Cursor
	if request.Claimed {
		query.State = inspect.Claimed
	}
	if request.By == "" {
		request.By = callerOf(ctx).Name()
	}
	// A page that is begun is finished: what is half done nobody could count.
	done, err := control.CancelPage(context.WithoutCancel(ctx), a.Store, a.Taker, query, a.now(), request.DryRun)
	if !request.DryRun {
		a.auditBulk(ctx, request, &done.Tally, err)
	}
	switch {
	case control.IsClosed(err):
		return BulkCancelled{}, huma.Error409Conflict(err.Error())
	case err != nil:
		return BulkCancelled{}, err
	}
	return BulkCancelled{done}, nil
}

// auditBulk writes down what somebody has cancelled, and counts it. Where nobody knows what has become of a page, no
// number says so: only how many messages were meant.
func (a *API) auditBulk(ctx context.Context, request *BulkCancelRequest, tally *control.Tally, err error) {
	if tally.Matched == tally.Left {
		return // nothing was asked of the store
	}
	if a.Count != nil {
		for outcome, n := range map[node.Outcome]int{
			node.Cancelled: tally.Cancelled, node.Stopped: tally.Stopped, node.TooLate: tally.TooLate,
			node.NotFound: tally.Changed,
		} {
			for range n {
				a.Count(request.Lane, node.Cancel.String(), outcome.String())
			}
		}
	}
	outcome := "done"
	switch {
	case control.IsClosed(err):
		outcome = "not taken"
	case err != nil:
		outcome = "unknown"
	}
	attrs := []slog.Attr{
		slog.String("outcome", outcome), slog.String("lane", request.Lane), slog.Bool("claimed", request.Claimed),
	}
	for _, bound := range []struct {
		name string
		at   time.Time
	}{{"from", request.From}, {"until", request.Until}} {
		if !bound.at.IsZero() {
			attrs = append(attrs, slog.Time(bound.name, bound.at))
		}
	}
	for _, asked := range []struct{ name, value string }{{"key", request.Key}, {"header", request.Header}} {
		if asked.value != "" {
			attrs = append(attrs, slog.String(asked.name, asked.value))
		}
	}
	attrs = append(attrs, slog.Int("matched", tally.Matched-tally.Left))
	if err == nil {
		attrs = append(attrs, slog.Int("cancelled", tally.Cancelled), slog.Int("stopped", tally.Stopped),
			slog.Int("too_late", tally.TooLate), slog.Int("changed", tally.Changed))
	}
	if err != nil {
		attrs = append(attrs, slog.String("error", oneLine(err.Error())))
	}
	a.auditLine(ctx, "audit: somebody has cancelled messages in bulk by the admin API", "cancel", request.By,
		request.Reason, attrs...)
}
