package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/hours"
	"chronos/node/listener"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/inspect"
	"chronos/node/store/outlook"
)

// API is what operators ask a node, or a store: a handler for /v1/ and /openapi.json. Everything in it is bounded: see
// package inspect. It is described by OpenAPI 3.1, made from the types; errors are problem+json (RFC 9457).
type API struct {
	// Store and Outlook are the store; they may be one value.
	Store   inspect.Store
	Outlook outlook.Source

	// Taker is the store, too: what instructions are given to.
	Taker control.Taker

	// Queues answers for queues and tasks; nil where the store keeps none.
	Queues *desk.Desk

	// Dead answers for dead letters; nil where there is no Kafka.
	Dead DeadLetters

	// Lanes are the lanes that are served; others are shown as long as something waits there.
	Lanes []string

	// Finds reports whether the node serves a lane that is none of these; nil for none.
	Finds func(lane string) bool

	// Hours returns how a lane is by its window, and false if it has none; nil where nobody knows.
	Hours func(lane string, at time.Time) (hours.State, bool)

	// Own are the lanes of dead letters and outcomes, which nobody may take back.
	Own []string

	// MaxDelay is how far ahead somebody may reschedule a message; 0 for as far as they like.
	MaxDelay time.Duration

	// Count counts an instruction by its outcome; nil for nobody.
	Count func(lane, action, outcome string)

	Rights Rights // of all who ask; a token may have less
	Info   func() Info
	Log    *slog.Logger // for the audit; nil for none

	// Troubles is what could not be published lately, and Problems what is not well; nil where no node tells.
	Troubles *Troubles
	Problems func() []Problem

	// History is what the node has fired lately; nil where no node tells.
	History *History

	// Explain says in a sentence why the store has not answered; nil to tell the error as it is.
	Explain func(error) string

	// Now is the clock that deadlines are compared with; nil for the wall clock.
	Now func() time.Time
}

// Info is what a node says of itself.
type Info struct {
	Node     string            `json:"node,omitempty" doc:"The node id; empty where the store is asked directly."`
	Version  string            `json:"version,omitempty"`
	Settings map[string]string `json:"settings,omitempty" doc:"The settings in force. Secrets are masked."`
	Payload  bool              `json:"payload" doc:"Whether whoever asks may see values of messages."`
	Control  bool              `json:"control" doc:"Whether whoever asks may change something."`
	Caller   string            `json:"caller,omitempty" doc:"The name of the token of whoever asks."`
	Problems []Problem         `json:"problems,omitempty" doc:"What is not well, as this node sees it."`
}

// Handler returns the handler.
func (a *API) Handler() http.Handler {
	mux := http.NewServeMux()
	config := huma.DefaultConfig("Chronos", "1")
	config.Info.Description = "What operators ask a node of Chronos. Instants are RFC 3339; all lists are pages."
	config.DocsPath, config.SchemasPath = "", ""
	config.CreateHooks = nil // no $schema links in the answers
	config.OpenAPIPath = "/openapi"
	config.Formats, config.Transformers = listener.FormatJSON(), []huma.Transformer{listener.BoundErrors}
	api := humago.New(mux, config)
	api.UseMiddleware(listener.Doorman(maxBody, func(ctx huma.Context) bool { return a.allow(api, ctx) },
		refuse))
	a.info(api)
	a.history(api)
	a.messages(api)
	a.lanes(api)
	a.nodes(api)
	a.pauses(api)
	a.controls(api)
	a.bulk(api)
	a.deadLetters(api)
	a.queues(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		if _, known := listener.CallerOf[Rights](r.Context()); !known { // it has come past the guard
			r = r.WithContext(listener.Caller[Rights]{Remote: r.RemoteAddr}.In(r.Context()))
		}
		mux.ServeHTTP(w, r)
	})
}

// maxBody is how large the body of a request may be.
const maxBody = 1 << 20

// allow reports whether the caller may ask for an operation, and answers the request if not. It is asked before the
// body is read: whatever is no question takes the right control.
func (a *API) allow(api huma.API, ctx huma.Context) bool {
	who := callerOf(ctx.Context())
	if ctx.Operation().Method == http.MethodGet || who.may(a.Rights).Control {
		return true
	}
	_ = huma.WriteErr(api, ctx, http.StatusForbidden, who.lacks(a.Rights.Control, "control"))
	return false
}

// refuse is a listener.Refusal, in the form of the API.
func refuse(w http.ResponseWriter, status int, sentence string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(&huma.ErrorModel{ // whoever has gone gets no answer
		Title: http.StatusText(status), Status: status, Detail: listener.Cut(sentence, maxSentence),
	})
}

// maxSentence bounds the sentence of a refusal, in characters.
const maxSentence = 1_000

// Mount mounts the API on the listener, for those who have the token.
func (s *Server) Mount(a *API) {
	handler := a.Handler()
	s.Handle("/v1/", Guarded, handler)
	s.Handle("GET /openapi.json", Guarded, handler)
	s.Handle("GET /openapi.yaml", Guarded, handler)
}

func (a *API) now() time.Time {
	if a.Now != nil {
		return a.Now()
	}
	return time.Now()
}

// answer is what huma wants an answer to be.
type answer[T any] struct{ Body T }

// read registers a question.
func read[I, O any](
	a *API, api huma.API, path, id, summary string, handle func(context.Context, *I) (O, error),
) {
	operation := huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary,
		Errors: []int{http.StatusUnprocessableEntity, http.StatusServiceUnavailable},
	}
	huma.Register(api, operation, func(ctx context.Context, in *I) (*answer[O], error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, a.problem(err)
		}
		return &answer[O]{out}, nil
	})
}

// problem returns the error for a client.
func (a *API) problem(err error) error {
	var told huma.StatusError
	var refusal *queue.Refusal
	var unable *inspect.UnableError
	var partly *inspect.PartlyError
	switch {
	case errors.As(err, &told):
		return err
	case errors.As(err, &refusal):
		return refused(refusal)
	case errors.As(err, &unable):
		return huma.Error501NotImplemented(unable.Sentence)
	case errors.As(err, &partly):
		return huma.Error503ServiceUnavailable(partly.Sentence)
	case inspect.IsCursor(err):
		return huma.Error422UnprocessableEntity(err.Error())
	case a.Explain != nil && !errors.Is(err, inspect.ErrTooLong):
		return huma.Error503ServiceUnavailable(a.Explain(err))
	}
	return huma.Error503ServiceUnavailable(err.Error())
}

type nothing struct{}

func (a *API) info(api huma.API) {
	read(a, api, "/v1/info", "info", "What this node is, its settings, and what does not answer it", a.about)
}

// about asks neither the store nor Kafka: it is what a client reads when these are away.
func (a *API) about(ctx context.Context, _ *nothing) (Info, error) {
	var info Info
	if a.Info != nil {
		info = a.Info()
	}
	who := callerOf(ctx)
	rights := who.may(a.Rights)
	info.Payload, info.Control, info.Caller = rights.Payload, rights.Control, who.Name()
	if a.Problems != nil {
		info.Problems = a.Problems()
	}
	return info, nil
}

// audit writes down who has changed what. Anybody can claim to be anybody: what is known stands beside it.
func (a *API) audit(ctx context.Context, action, lane, by, why string) {
	what := "lane " + lane
	if lane == node.Intake {
		what = "the intake"
	}
	a.auditLine(ctx, "audit: somebody has changed something by the admin API", action, by, why,
		slog.String("what", what))
}

// auditLine writes a line of the audit: the action and what it was about, who has claimed to have done it, what is
// known of them, and what for.
func (a *API) auditLine(ctx context.Context, sentence, action, by, why string, about ...slog.Attr) {
	if a.Log == nil {
		return
	}
	who := callerOf(ctx)
	attrs := append([]slog.Attr{slog.String("action", action)}, about...)
	a.Log.LogAttrs(ctx, slog.LevelWarn, sentence, append(attrs, //nolint:sloglint // one of two
		slog.String("claimed_by", by), slog.String("authenticated", who.authenticated()),
		slog.String("remote", who.Remote), slog.String("reason", why))...)
}
