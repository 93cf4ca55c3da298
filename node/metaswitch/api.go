package metaswitch

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
	"chronos/node/listener"
)

// Lane is where timers wait, and come out as callbacks.
const Lane = node.CallbackPrefix + "metaswitch"

// API answers requests.
type API struct {
	// Node says by what rules and limits a timer is taken in.
	Node *node.Config

	Taker control.Taker

	// Callback returns why the callback of a message would never be made, as far as its headers tell; nil for nobody.
	Callback func(lane string, headers []node.Header) error

	// Explain says in a sentence why the store has not answered; nil for the error as it is.
	Explain func(error) string

	// Observe is told of every request; nil for nobody. It must be quick.
	Observe func(Request)

	// Now is the clock that intervals count from; nil for the wall clock.
	Now func() time.Time

	intake intake.Intake
}

// Request is a request that was answered.
type Request struct {
	Operation string // post, put, delete or ping; "" for none of them
	Status    int
	Took      time.Duration

	// Action and Outcome are those of the instruction; the zero values if it came to none.
	Action  node.Action
	Outcome node.Outcome
}

const (
	// maxBody is how large the body of a request may be: more than a message may be, with every byte escaped.
	maxBody = 8 << 20

	// maxText bounds the text of an answer, in characters: there may be a URI in it, or what a member is called.
	maxText = 1_000

	// maxYear is the last year in which a timer may pop.
	maxYear = 9999

	// unnamedKept is how long the store remembers what a request was answered: while this node may repeat it.
	unnamedKept = time.Minute
)

// Handler returns the handler.
func (a *API) Handler() http.Handler {
	if a.Now == nil {
		a.Now = time.Now
	}
	if a.Observe == nil {
		a.Observe = func(Request) {}
	}
	a.intake.Store = a.Taker
	named := regexp.MustCompile(`^/timers/([[:xdigit:]]{16})-([[:digit:]]+)`)
	// There is no http.ServeMux: it answers paths that are not clean with a redirect, which nobody expects here.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		began := a.Now()
		asked := &asked{answer: answer{status: http.StatusNotFound, text: "there is nothing at that path: timers are " +
			"at /timers, and each at /timers/ID, which is 16 hexadecimal digits, a hyphen and a number"}}
		name := named.FindStringSubmatch(r.URL.Path)
		switch {
		case r.URL.Path == "/ping":
			asked.Operation, asked.answer = "ping", answer{status: http.StatusOK, text: "OK"}
		case strings.HasPrefix(r.URL.Path+"/", "/timers/") && r.Method == http.MethodGet:
			asked.answer = refused("timers are not shown here: GET is how nodes of Metaswitch's Chronos ask each " +
				"other for theirs, and these nodes share a store. chronos list --lane " + Lane + " shows what waits")
		case r.URL.Path == "/timers" || r.URL.Path == "/timers/":
			a.post(w, r, asked)
		case name != nil:
			a.named(w, r, asked, strings.ToLower(name[1]), name[2])
		}
		asked.answer.write(w)
		asked.Status, asked.Took = asked.answer.status, a.Now().Sub(began)
		a.Observe(asked.Request)
	})
}

// asked is a request on its way, and its answer.
type asked struct {
	Request

	answer answer
}

// answer is what a request is answered with.
type answer struct {
	status   int
	text     string
	location string // of the timer; "" for none
	again    bool   // it is of use to come again
}

func (a answer) write(w http.ResponseWriter) {
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.again {
		w.Header().Set("Retry-After", "1")
	}
	if a.text != "" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	w.WriteHeader(a.status)
	_, _ = io.WriteString(w, listener.Cut(a.text, maxText)) // whoever has gone gets no answer
}

// done is the answer to a request that has had its effect.
func done(id string, factor uint32) answer {
	return answer{status: http.StatusOK, location: fmt.Sprintf("/timers/%s-%d", id, factor)}
}

// refused is the answer to a request that makes no sense.
func refused(why string) answer { return answer{status: http.StatusBadRequest, text: why} }

// wrongMethod is the answer to a request with a method that is none for its path.
func wrongMethod(w http.ResponseWriter, allowed string) answer {
	w.Header().Set("Allow", allowed)
	return answer{status: http.StatusMethodNotAllowed, text: "the method must be " + allowed + " for that path"}
}

// post serves POST /timers.
func (a *API) post(w http.ResponseWriter, r *http.Request, in *asked) {
	if r.Method != http.MethodPost {
		in.answer = wrongMethod(w, http.MethodPost)
		return
	}
	in.Operation = "post"
	var random [8]byte
	_, _ = rand.Read(random[:]) // it never fails
	a.set(w, r, in, hex.EncodeToString(random[:]), 0)
}

// named serves PUT and DELETE /timers/ID.
func (a *API) named(w http.ResponseWriter, r *http.Request, in *asked, id, digits string) {
	if r.Method != http.MethodPut && r.Method != http.MethodDelete {
		in.answer = wrongMethod(w, "PUT, DELETE")
		return
	}
	in.Operation = strings.ToLower(r.Method)
	factor, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		in.answer = refused("the replication factor " + digits + " at the end of the timer's name is too large")
		return
	}
	if r.Method == http.MethodDelete {
		a.end(r.Context(), in, id, uint32(factor))
		return
	}
	a.set(w, r, in, id, uint32(factor))
}

// set stores a timer, in place of the one of its id, if there is one.
func (a *API) set(w http.ResponseWriter, r *http.Request, in *asked, id string, factor uint32) {
	body, release, err := listener.ReadBody(w, r, maxBody)
	if err != nil {
		listener.RefuseBody(w, err, func(_ http.ResponseWriter, status int, sentence string) {
			in.answer = answer{status: status, text: sentence}
		})
		return
	}
	defer release()
	if err := listener.CheckValues(body); err != nil {
		in.answer = refused(err.Error())
		return
	}
	now := a.Now()
	t, err := parse(body, factor, now)
	if err != nil {
		in.answer = refused(err.Error())
		return
	}
	if t.tombstone() {
		a.end(r.Context(), in, id, t.factor)
		return
	}
	item, err := a.item(t, id, now)
	if err != nil {
		in.answer = refused(err.Error())
		return
	}
	in.Action = item.Action
	result, err := a.intake.Ask(r.Context(), item)
	if err != nil {
		in.answer = a.untaken(err)
		return
	}
	in.Outcome, in.answer = result.Outcome, done(id, t.factor)
}

// item returns the instruction to store a timer. The error is a sentence for whoever has sent the request.
func (a *API) item(t *timer, id string, now time.Time) (node.Item, error) {
	record := t.record(id, now)
	if t.next().Year() > maxYear || t.first().Year() > maxYear {
		return node.Item{}, fmt.Errorf("timing leads beyond the year %d", maxYear)
	}
	if t.uri == "" {
		return node.Item{}, errors.New("callback.http.uri is empty")
	}
	if a.Callback != nil {
		if err := a.Callback(Lane, record.Headers); err != nil {
			return node.Item{}, refusedURI(err)
		}
	}
	item, err := a.Node.Read(record, Lane, a.Now)
	if err != nil {
		return item, fmt.Errorf("the timer is not taken: %w", err)
	}
	if t.sequence > 0 { // the pops before were another cluster's
		item.Sequence += t.sequence
		item.At = upTo(t.next()).UTC()
		item.Deadline = item.At
	}
	item.Incarnation, item.Request = uuid.New(), request()
	return item, nil
}

// refusedURI says why a URI is refused and, where that is for what the lane allows, who says so.
func refusedURI(err error) error {
	if strings.Contains(err.Error(), "allowed") {
		return fmt.Errorf("callback.http.uri is refused: %w. The lane is %s, in the list lanes of the configuration "+
			"of the nodes", err, Lane)
	}
	return fmt.Errorf("callback.http.uri is refused: %w", err)
}

func request() *node.Request { return &node.Request{ID: uuid.New(), Keep: unnamedKept} }

// end has nothing more come of a timer. Whether there was one makes no difference to the answer.
func (a *API) end(ctx context.Context, in *asked, id string, factor uint32) {
	in.Action = node.Cancel
	if _, why := a.Node.CheckName(id, Lane); why != "" {
		in.answer = refused("the timer is not deleted: " + why)
		return
	}
	item := node.Item{From: node.NoPlace, Action: node.Cancel, Message: node.Message{ID: id, Lane: Lane}}
	item.Incarnation, item.Request = uuid.New(), request()
	result, err := a.intake.Ask(ctx, item)
	if err == nil && (result.Outcome == node.TooLate || result.Outcome == node.Stopped) {
		err = a.takeOut(context.WithoutCancel(ctx), item)
	}
	if err != nil {
		in.answer = a.untaken(err)
		return
	}
	in.Outcome, in.answer = result.Outcome, done(id, factor)
}

// takeOut removes a timer that a node has claimed or has tried to call back: a replacement takes it over, whatever has
// become of it, and can itself be cancelled. What a node is about to request at this moment it still requests; but
// not again.
func (a *API) takeOut(ctx context.Context, cancel node.Item) error {
	const never = 100 * 365 * 24 * time.Hour
	over := cancel
	over.Action = node.Replace
	over.Deadline = a.Now().Add(never).UTC().Truncate(time.Microsecond)
	over.Incarnation, over.Request = uuid.New(), request()
	cancel.Incarnation, cancel.Request = uuid.New(), request()
	result, err := a.intake.Insist(ctx, node.TakeRequest{Items: []node.Item{over, cancel}})
	switch {
	case err != nil:
		return err //nolint:wrapcheck // it is explained
	case result.Taken < 2:
		return &control.RefusedError{ID: cancel.ID, Reason: result.Refusal}
	case result.Results[1].Outcome == node.Untaken:
		return &control.ClosedError{State: result.State}
	case result.Results[1].Outcome == node.Blocked:
		return &control.BusyError{ID: cancel.ID}
	}
	return nil
}

// untaken returns the answer where the store has not taken something in.
func (a *API) untaken(err error) answer {
	away := answer{status: http.StatusServiceUnavailable, text: err.Error(), again: true}
	_, refusal := errors.AsType[*control.RefusedError](err)
	switch {
	case refusal:
		return refused(err.Error())
	case errors.Is(err, intake.ErrBusy) || control.IsClosed(err) || control.IsBusy(err):
	case a.Explain != nil:
		away.text = "nobody knows whether that was done, so do it again: " + a.Explain(err)
	default:
		away.text = "nobody knows whether that was done, so do it again: " + err.Error()
	}
	return away
}
