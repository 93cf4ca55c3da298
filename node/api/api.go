package api

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
	"chronos/node/listener"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/inspect"
	"chronos/node/store/outlook"
)

// API is what applications ask: a handler for /v1/ and /openapi.json.
type API struct {
	// Node says which lanes are served, and by what rules and limits a message is taken in.
	Node *node.Config

	// Taker, Store and Outlook are the store; they may be one value.
	Taker   control.Taker
	Store   inspect.Source
	Outlook outlook.Source

	// Callback returns why the request of a message on a callback lane would never be made, as far as its headers tell;
	// nil where nobody can say.
	Callback func(lane string, headers []node.Header) error

	// Queues answers for queues and tasks; nil where the store keeps none.
	Queues *desk.Desk

	// Limits are those of callers whose token does not say otherwise.
	Limits Limits

	// Ready reports whether the node does its work; nil if it always does. It is told to balancers.
	Ready func() bool

	// Explain says in a sentence why the store has not answered; nil for the error as it is.
	Explain func(error) string

	// Observe is told of every request and of every instruction; nil for nobody. It must be quick.
	Observe func(Event)

	// Excused reports whether nothing on a lane is overdue at an instant, since its window keeps it closed; nil for no
	// lane.
	Excused func(lane string, at time.Time) bool

	// Through gives an instruction to whichever node decides on it, with the record that it was read from, and returns
	// what became of it, with the errors of intake.Intake.Ask; nil where Taker decides on all of them. Where it is set,
	// what a look shows is what this node has.
	Through func(ctx context.Context, item node.Item, record node.Record) (node.ItemResult, error)

	// Elsewhere reports whether a message of an id on a lane is with another node, and not to be seen here; nil for
	// never.
	Elsewhere func(ctx context.Context, of node.MessageID) (bool, error)

	// Now is the clock that delays count from; nil for the wall clock.
	Now func() time.Time

	intake intake.Intake
	rates  rates
	quotas quotas
	found  found
}

// Limits bound what one caller may do.
type Limits struct {
	// Bytes is how large the body of a request may be; 0 for DefaultBytes.
	Bytes int64

	// Rate is how many requests a second one token may make; 0 for any number.
	Rate int

	// Waiting is how many messages may wait on the lanes that a token may write to, when it brings another; 0 for any
	// number.
	Waiting int
}

// DefaultBytes is how large the body of a request may be, if nobody says otherwise: more than the records that a Kafka
// takes that nobody has told otherwise, in base64.
const DefaultBytes = 2 << 20

// Event is something that Observe is told: a Request or an Instruction.
type Event any

// Request is a request that was answered.
type Request struct {
	Operation string // as OpenAPI calls it; "" for one that none of them has served
	Status    int
	Took      time.Duration
}

// Instruction is an instruction that was decided on.
type Instruction struct {
	Lane    string
	Action  node.Action
	Outcome node.Outcome
	Again   bool // it was decided on by an earlier request of the same Idempotency-Key
}

// Handler returns the handler. A request has come past the guard of a listener, or may do everything.
func (a *API) Handler() http.Handler {
	if a.Now == nil {
		a.Now = time.Now
	}
	if a.Limits.Bytes == 0 {
		a.Limits.Bytes = DefaultBytes
	}
	a.intake.Store = a.Taker
	a.quotas.source, a.quotas.lanes = a.Outlook, a.known
	a.found.node, a.found.store = a.Node, a.Store.Parts
	mux := &colons{mux: http.NewServeMux()}
	api := humago.New(mux, specification())
	api.UseMiddleware(listener.Doorman(a.Limits.Bytes, a.allow, refuse))
	a.register(api)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		seen := &seen{ResponseWriter: w}
		started := time.Now()
		a.limited(mux).ServeHTTP(seen, r.WithContext(context.WithValue(r.Context(), seenKey{}, seen)))
		a.observe(Request{Operation: seen.operation, Status: seen.status, Took: time.Since(started)})
	})
}

// specification returns what the description in OpenAPI begins with.
func specification() huma.Config {
	config := huma.DefaultConfig("Chronos", "1")
	config.Info.Description = "Messages that come out later. What has been answered is stored. Instants are RFC " +
		"3339; " +
		"errors are problem+json (RFC 9457), and name the field."
	config.Servers = []*huma.Server{{URL: "http://127.0.0.1:8081", Description: "A node with api-listen, by default."}}
	config.DocsPath, config.SchemasPath = "", ""
	config.CreateHooks = nil // no $schema links in the answers
	config.Transformers = []huma.Transformer{uniform}
	config.Formats = listener.FormatJSON()
	config.OpenAPIPath = "" // it is served to those without a token, too
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {
		Type: "http", Scheme: "bearer", Description: "A token of api-token-file. Its scopes say on which lanes it " +
			"may read " +
			"and write. A listener without that file asks for none, and is on loopback.",
	}}
	config.Security = []map[string][]string{{"token": {}}}
	return config
}

// Describe returns the description of the API in OpenAPI 3.1, as JSON.
func Describe() ([]byte, error) {
	api := humago.New(&colons{mux: http.NewServeMux()}, specification())
	(&API{}).register(api)
	return api.OpenAPI().MarshalJSON()
}

// limited lets a caller make so many requests a second.
func (a *API) limited(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := callerOf(r.Context())
		limit := a.Limits.Rate
		if who.scopes.Rate > 0 {
			limit = who.scopes.Rate
		}
		if wait := a.rates.wait(who.name, limit, time.Now()); wait > 0 {
			newProblem(http.StatusTooManyRequests, codeRate, "there are more requests than one token may make in a "+
				"second").
				after(wait).write(w)
			return
		}
		handler.ServeHTTP(w, r)
	})
}

// caller is whoever sends a request.
type caller struct {
	name   string // of the token; "" for none, or the only one
	scopes Scopes
}

func callerOf(ctx context.Context) caller {
	who, known := listener.CallerOf[Scopes](ctx)
	if !known || who.Token == nil {
		return caller{scopes: All()}
	}
	return caller{who.Token.Name, who.Token.Rights}
}

func (a *API) observe(event Event) {
	if a.Observe != nil {
		a.Observe(event)
	}
}

// known returns the lanes that are served by name, and those on which something waits.
func (a *API) known(ctx context.Context) ([]string, error) {
	stored, err := a.Store.Parts(ctx)
	if err != nil {
		return nil, err
	}
	lanes := slices.Concat(a.Node.Lanes(), node.LanesOf(stored))
	slices.Sort(lanes)
	return slices.Compact(lanes), nil
}

// writable returns the problem of bringing something to a lane, or changing something there; nil if that is all right.
func (a *API) writable(who caller, lane string) *ProblemError {
	if !who.scopes.MayWrite(lane) {
		return outOfScope(who.name, "write", lane, &who.scopes)
	}
	if why := a.Node.CheckLane(lane); why != "" {
		return newProblem(http.StatusForbidden, codeLane, why).at("path.lane")
	}
	if !a.Node.Serves(lane) {
		return newProblem(http.StatusNotFound, codeLane, "no node serves a lane of that name: it must be an output "+
			"topic or a "+
			"target of a route, or begin with "+node.CallbackPrefix).at("path.lane")
	}
	return nil
}

// readable returns the problem of looking at a lane; nil if that is all right.
func (a *API) readable(who caller, lane string) *ProblemError {
	if !who.scopes.MayRead(lane) {
		return outOfScope(who.name, "read", lane, &who.scopes)
	}
	return nil
}

// colons is a mux that also has patterns whose last part is {name}:word, which net/http takes for a mistake: of the
// requests for {name} it takes those that end so, and does not give the word to the handler as a part of the name.
type colons struct {
	mux *http.ServeMux

	words map[string]string // by pattern: what its requests end with
}

// HandleFunc implements humago.Mux.
func (c *colons) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	at := strings.LastIndex(pattern, "}:")
	if at < 0 {
		c.mux.HandleFunc(pattern, handler)
		return
	}
	name, word := pattern[strings.LastIndex(pattern, "{")+1:at], pattern[at+1:]
	if c.words == nil {
		c.words = map[string]string{}
	}
	c.words[pattern[:at+1]] = word
	c.mux.HandleFunc(pattern[:at+1], func(w http.ResponseWriter, r *http.Request) {
		value, is := strings.CutSuffix(r.PathValue(name), word)
		if !is {
			w.Header().Set("Allow", c.allowed(r))
			newProblem(http.StatusMethodNotAllowed, codeInvalid, "POST is for …"+word+" here; PUT brings a "+
				"message").write(w)
			return
		}
		r.SetPathValue(name, value)
		handler(w, r)
	})
}

// ServeHTTP implements http.Handler. What nothing is registered for has a problem for an answer, too.
func (c *colons) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if handler, pattern := c.mux.Handler(r); pattern == "" {
		told := &seen{ResponseWriter: discard{http.Header{}}}
		handler.ServeHTTP(told, r)
		if told.status == http.StatusNotFound || told.status == http.StatusMethodNotAllowed {
			if told.status == http.StatusMethodNotAllowed {
				w.Header().Set("Allow", c.allowed(r))
			}
			newProblem(told.status, codeNotFound, "there is nothing at that path, or not for "+r.Method+
				": see /openapi.json; what operators ask is answered at admin-listen").write(w)
			return
		}
	}
	c.mux.ServeHTTP(w, r)
}

// allowed returns the methods that there are at the path of a request, as the header Allow has them.
func (c *colons) allowed(r *http.Request) string {
	var methods []string
	for _, method := range []string{
		http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPatch, http.MethodPost, http.MethodPut,
	} {
		other := *r
		other.Method = method
		if _, pattern := c.mux.Handler(&other); pattern != "" && strings.HasSuffix(r.URL.Path, c.words[pattern]) {
			methods = append(methods, method)
		}
	}
	return strings.Join(methods, ", ")
}

// discard is an answer that nobody gets.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// seen is an answer whose status is looked at.
type seen struct {
	http.ResponseWriter

	status    int
	operation string
}

type seenKey struct{}

// WriteHeader implements http.ResponseWriter.
func (s *seen) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
	s.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (s *seen) Write(b []byte) (int, error) {
	if s.status == 0 {
		s.status = http.StatusOK
	}
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s *seen) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// register registers all operations.
func (a *API) register(api huma.API) {
	a.writes(api)
	a.reads(api)
	a.queues(api)
	listener.DescribeBodies(api, func(status int) *huma.Response { return refused(api, status) })
	delete(api.OpenAPI().Components.Schemas.Map(), "ErrorModel") // uniform leaves none of huma's own
}

// handle registers an operation. Its problems are those with the statuses given, and those that each may have.
func handle[I, O any](
	a *API, api huma.API, operation huma.Operation, statuses []int, call func(context.Context, *I) (*O, error),
) {
	a.describe(api, &operation, statuses)
	huma.Register(api, operation, call)
}

// allow reports whether the caller may ask for an operation, and answers the request if not. It is asked before the
// body is read, and before anything else is looked at: nothing is computed for callers who may not ask.
func (a *API) allow(ctx huma.Context) bool {
	operation := ctx.Operation()
	if s, is := ctx.Context().Value(seenKey{}).(*seen); is {
		s.operation = operation.OperationID
	}
	if p := a.allowed(ctx, operation); p != nil {
		_, w := humago.Unwrap(ctx)
		p.write(w)
		return false
	}
	return true
}

// allowed returns the problem of an operation that the caller may not ask for, or with headers that are empty; nil for
// none. The scopes for queues are those of the lane of tasks.
func (a *API) allowed(ctx huma.Context, operation *huma.Operation) *ProblemError {
	who, lane, reads := callerOf(ctx.Context()), ctx.Param("lane"), operation.Method == http.MethodGet
	switch ofLane := strings.Contains(operation.Path, "{lane}"); {
	case ofLane && reads:
		if p := a.readable(who, lane); p != nil {
			return p
		}
		return emptyQuery(ctx.URL())
	case ofLane:
		if p := a.writable(who, lane); p != nil {
			return p
		}
	case reads && !who.scopes.MayRead(queue.Lane):
		return outOfScope(who.name, "read", queue.Lane, &who.scopes)
	case !reads && !who.scopes.MayWrite(queue.Lane):
		return outOfScope(who.name, "write", queue.Lane, &who.scopes)
	}
	if r, _ := humago.Unwrap(ctx); !reads {
		return emptyHeader(r.Header)
	}
	return nil
}

// emptyQuery returns the problem of an instant that is empty in the query of a URL, which would be no bound at all; nil
// for none.
func emptyQuery(url url.URL) *ProblemError {
	query := url.Query()
	for _, name := range []string{"from", "until"} {
		if values := query[name]; slices.ContainsFunc(values, func(value string) bool { return value == "" }) {
			return newProblem(http.StatusUnprocessableEntity, codeInvalid, name+" is empty: give an instant, such as "+
				"2099-12-31T23:59:59Z, or leave it out").at("query." + name)
		}
	}
	return nil
}

// emptyHeader returns the problem of a condition, or the name of a request, that is empty: a script whose variable is
// not set must not change whatever message there is. Nil for none.
func emptyHeader(h http.Header) *ProblemError {
	for _, name := range []string{"If-Match", "Idempotency-Key"} {
		values := h.Values(name)
		if !slices.ContainsFunc(values, func(value string) bool { return strings.TrimSpace(value) == "" }) {
			continue
		}
		if name == "If-Match" {
			return newProblem(http.StatusPreconditionFailed, codeChanged, "If-Match is empty, so no message has "+
				"that ETag, and nothing was done: give an ETag, or leave the header out").at("header.If-Match")
		}
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, "Idempotency-Key is empty, so nothing was "+
			"done: give the request a name, or leave the header out").at("header.Idempotency-Key")
	}
	return nil
}
