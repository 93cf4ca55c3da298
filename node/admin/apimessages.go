package admin

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node/store/inspect"
	"chronos/node/view"
)

// Message is a message that is stored.
type Message = view.Message

// Series is what a message is an occurrence of.
type Series = view.Series

// Header is one header of a message.
type Header = view.Header

// Bytes are text, or, where they are not UTF-8, base64.
type Bytes = view.Bytes

// Trouble is why a message, or a lane, could not be published last.
type Trouble = view.Trouble

// Messages is a page of messages.
type Messages struct {
	Messages []Message `json:"messages"`
	Next     string    `json:"next,omitempty" doc:"The cursor of the next page; empty when this is the last."`
	Scanned  int       `json:"scanned" doc:"How many messages were looked at: these, and those that did not match."`
}

type findInput struct {
	ID      string `path:"id" maxLength:"512"`
	Lane    string `query:"lane" doc:"Only on this lane."`
	Payload bool   `query:"payload" doc:"With its value, if the node allows that."`
}

type listInput struct {
	State  string    `query:"state" enum:"waiting,parked,claimed,overdue,put-off,stuck"`
	Lane   []string  `query:"lane" doc:"Only on these lanes."`
	From   time.Time `query:"from" doc:"Deadlines from this instant on."`
	Until  time.Time `query:"until" doc:"Deadlines before this instant."`
	Key    string    `query:"key" doc:"Those with this key; base64:... for one that is no text. No index serves it."`
	Header string    `query:"header" doc:"Those with this header: NAME or NAME=VALUE. No index serves it."`
	Limit  int       `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor string    `query:"cursor" doc:"Where the page before said to go on."`
}

func (a *API) messages(api huma.API) {
	read(a, api, "/v1/messages/{id}", "find", "The messages of an id, one on each lane at most", a.find)
	read(a, api, "/v1/messages", "list", "A page of messages. It takes a tenth of a second at most, may be short or "+
		"empty, and then says by its cursor where to go on", a.list)
}

func (a *API) find(ctx context.Context, in *findInput) (Messages, error) {
	if who := callerOf(ctx); in.Payload && !who.may(a.Rights).Payload {
		return Messages{}, huma.Error403Forbidden(who.lacks(a.Rights.Payload, "payload"))
	}
	found, err := a.Store.Find(ctx, in.ID, inspect.Parts{Payload: in.Payload})
	if err != nil {
		return Messages{}, err
	}
	all := Messages{Messages: []Message{}, Scanned: len(found)}
	for i := range found {
		if in.Lane == "" || in.Lane == found[i].Lane {
			all.Messages = append(all.Messages, a.shown(&found[i]))
		}
	}
	return all, nil
}

func (a *API) list(ctx context.Context, in *listInput) (Messages, error) {
	query, err := listQuery(in.Key, in.Header)
	if err != nil {
		return Messages{}, err
	}
	query.State, query.Lanes, query.Excused = inspect.State(in.State), in.Lane, a.excused
	query.From, query.Until, query.Limit, query.Cursor = in.From, in.Until, in.Limit, in.Cursor
	page, err := inspect.List(ctx, a.Store, query, a.now())
	if err != nil {
		return Messages{}, err
	}
	all := Messages{Messages: make([]Message, 0, len(page.Messages)), Next: page.Next, Scanned: page.Scanned}
	for i := range page.Messages {
		all.Messages = append(all.Messages, a.shown(&page.Messages[i]))
	}
	return all, nil
}

// excused reports whether nothing on a lane is overdue now, because of its window.
func (a *API) excused(lane string) bool {
	if a.Hours == nil {
		return false
	}
	now := a.now()
	state, has := a.Hours(lane, now)
	return has && state.Excuses(now)
}

// shown returns a message for a client.
func (a *API) shown(m *inspect.Message) Message {
	s := view.Of(m, a.now(), a.excused(m.Lane))
	if a.Troubles != nil {
		s.Trouble = a.Troubles.of(m.Incarnation)
	}
	return s
}

// listQuery reads what messages are to have: a key, and a header, NAME or NAME=VALUE. What is "" asks for nothing.
func listQuery(key, header string) (inspect.Query, error) {
	query, err := view.Filter(key, header)
	if err != nil {
		return query, huma.Error422UnprocessableEntity(err.Error())
	}
	return query, nil
}
