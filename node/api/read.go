package api

import (
	"context"
	"net/http"
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node"
	"chronos/node/store/inspect"
	"chronos/node/store/outlook"
	"chronos/node/view"
)

// Messages is a page of messages.
type Messages struct {
	Messages []view.Message `json:"messages" doc:"Without their values."`
	Next     string         `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`
	Scanned  int            `json:"scanned" doc:"How many messages were looked at, with those that do not match."`
}

// Count is how many messages there are on a lane. Above 10,000 a number is an estimate.
type Count struct {
	Lane      string     `json:"lane"`
	Waiting   int        `json:"waiting" doc:"Messages that no node has claimed."`
	Claimed   int        `json:"claimed" doc:"Messages that a node is about to publish."`
	Overdue   int        `json:"overdue" doc:"Of both, those that fell due more than a second ago."`
	Next      *time.Time `json:"next,omitempty" doc:"When the next one falls due that is not overdue."`
	Estimated bool       `json:"estimated,omitempty" doc:"Some of these numbers are estimates."`
}

type getInput struct {
	Lane string `path:"lane" maxLength:"249"`
	ID   string `path:"id" maxLength:"512"`
}

type getOutput struct {
	ETag string `header:"ETag"`
	Body view.Message
}

type listInput struct {
	Lane   string    `path:"lane" maxLength:"249"`
	State  string    `query:"state" enum:"waiting,parked,claimed,overdue,put-off,stuck"`
	From   time.Time `query:"from" doc:"Deadlines from this instant on."`
	Until  time.Time `query:"until" doc:"Deadlines before this instant."`
	Key    string    `query:"key" maxLength:"4096" doc:"Those with this key; base64:... for one that is no text."`
	Header string    `query:"header" maxLength:"4096" doc:"Those with this header: NAME or NAME=VALUE."`
	Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string    `query:"cursor" maxLength:"4096" doc:"Where the page before said to go on."`
}

type listOutput struct{ Body Messages }

type countInput struct {
	Lane string `path:"lane" maxLength:"249"`
}

type countOutput struct{ Body Count }

// reads registers what shows something.
func (a *API) reads(api huma.API) {
	operation := func(path, id, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"messages"},
		}
	}
	handle(a, api, operation(messagePath, "get", "The message of an id, with its value"),
		[]int{http.StatusNotFound, http.StatusMisdirectedRequest}, a.get)
	handle(a, api, operation(messagesPath, "list", "A page of the messages of a lane. It takes a tenth of a second at "+
		"most, may be short or empty, and then says by its cursor where to go on"), nil, a.list)
	handle(a, api, operation("/v1/lanes/{lane}/count", "count", "How many messages there are on a lane"), nil, a.count)
}

func (a *API) get(ctx context.Context, in *getInput) (*getOutput, error) {
	found, err := a.Store.Find(ctx, in.ID, inspect.Parts{Payload: true})
	if err != nil {
		return nil, a.unseen(err)
	}
	for i := range found {
		if found[i].Lane == in.Lane {
			return &getOutput{etag(found[i].Incarnation), a.shown(&found[i])}, nil
		}
	}
	if a.Elsewhere != nil {
		elsewhere, err := a.Elsewhere(ctx, node.MessageID{ID: in.ID, Lane: in.Lane})
		if err != nil {
			return nil, a.unseen(err)
		}
		if elsewhere {
			return nil, newProblem(http.StatusMisdirectedRequest, codeElsewhere, "Messages of that id are with "+
				"another node, and this one sees what it has itself: ask the others.")
		}
	}
	return nil, newProblem(http.StatusNotFound, codeNotFound, "No message of that id waits on that lane: it has come "+
		"out, or "+
		"there never was one.")
}

func (a *API) list(ctx context.Context, in *listInput) (*listOutput, error) {
	query, err := view.Filter(in.Key, in.Header)
	if err != nil {
		return nil, newProblem(http.StatusUnprocessableEntity, codeInvalid, err.Error()).at("query")
	}
	query.State, query.Lanes = inspect.State(in.State), []string{in.Lane}
	query.From, query.Until, query.Limit, query.Cursor = in.From, in.Until, in.Limit, in.Cursor
	query.Excused = a.excused
	page, err := inspect.List(ctx, a.Store, query, a.Now())
	if err != nil {
		return nil, a.unseen(err)
	}
	all := Messages{Messages: make([]view.Message, 0, len(page.Messages)), Next: page.Next, Scanned: page.Scanned}
	for i := range page.Messages {
		all.Messages = append(all.Messages, a.shown(&page.Messages[i]))
	}
	return &listOutput{all}, nil
}

// excused reports whether nothing on a lane is overdue now, because of its window.
func (a *API) excused(lane string) bool { return a.Excused != nil && a.Excused(lane, a.Now()) }

// shown returns a message for a client.
func (a *API) shown(m *inspect.Message) view.Message { return view.Of(m, a.Now(), a.excused(m.Lane)) }

func (a *API) count(ctx context.Context, in *countInput) (*countOutput, error) {
	seen, err := a.Outlook.Outlook(ctx, outlook.Request{Now: a.Now(), Lanes: []string{in.Lane}})
	if err != nil || seen.Incomplete || len(seen.Lanes) != 1 {
		if err == nil {
			err = inspect.ErrTooLong
		}
		return nil, a.unseen(err)
	}
	lane := &seen.Lanes[0]
	return &countOutput{Count{
		Lane: in.Lane, Waiting: lane.Waiting.N, Claimed: lane.Claimed.N, Overdue: lane.Overdue.N,
		Next: instantOf(lane.Next), Estimated: lane.Estimated(),
	}}, nil
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

func statusText(status int) string { return strconv.Itoa(status) }

func utf8Valid(text string) bool { return utf8.ValidString(text) }
