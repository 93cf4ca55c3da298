package admin

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node/store/inspect"
)

// Message is a message that is stored.
type Message struct {
	ID          string    `json:"id"`
	Lane        string    `json:"lane" doc:"Where it comes out: a topic."`
	State       string    `json:"state" enum:"waiting,claimed,overdue,put-off,stuck"`
	Deadline    time.Time `json:"deadline"`
	Due         time.Time `json:"due" doc:"The deadline, unless it could not be published and was put off."`
	Incarnation string    `json:"incarnation"`
	Attempts    int       `json:"attempts" doc:"How many claims may have led to a publish."`
	Bytes       int       `json:"bytes" doc:"The size of key, value and headers."`
	Claim       *Claim    `json:"claim,omitempty"`
	Series      *Series   `json:"series,omitempty" doc:"Where it recurs: which occurrence it is."`
	Bound       bool      `json:"bound,omitempty" doc:"Somebody was told that it comes out: only replace changes it."`
	Former      bool      `json:"former,omitempty" doc:"What it has replaced may have come out, or may yet."`

	NotAfter *time.Time `json:"not_after,omitempty" doc:"From then on it is not published any more."`

	Origin  *Origin  `json:"origin,omitempty" doc:"The record that it was submitted by, where that is known."`
	Key     *Bytes   `json:"key,omitempty"`
	Headers []Header `json:"headers,omitempty"`
	Value   *Bytes   `json:"value,omitempty" doc:"Only where it was asked for, and the node allows that."`
	Trouble *Trouble `json:"trouble,omitempty" doc:"Why this node could not publish it last, if it could not."`
}

// Series is what a message is an occurrence of.
type Series struct {
	Rule     string     `json:"rule" doc:"When it recurs, from when on, and what becomes of what was missed."`
	Sequence int64      `json:"sequence" doc:"The number of this occurrence, from 1."`
	Next     *time.Time `json:"next,omitempty" doc:"When the occurrence after this one comes, if one does."`
	Stopped  bool       `json:"stopped,omitempty" doc:"It was cancelled: no other occurrence follows."`
}

// Claim is who holds a message.
type Claim struct {
	Node    string    `json:"node"`
	Since   time.Time `json:"since"`
	Expires time.Time `json:"expires"`
}

// Origin names a record.
type Origin struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Header is one header of a message. A null value has neither text nor base64.
type Header struct {
	Name  string `json:"name"`
	Value *Bytes `json:"value,omitempty"`
}

// Bytes are text, or, where they are not UTF-8, base64.
type Bytes struct {
	Text   *string `json:"text,omitempty"`
	Base64 *string `json:"base64,omitempty"`
}

// String returns the bytes for a person.
func (b *Bytes) String() string {
	switch {
	case b == nil:
		return "null"
	case b.Text != nil:
		return *b.Text
	case b.Base64 != nil:
		return "base64:" + *b.Base64
	}
	return ""
}

func bytesOf(b []byte) *Bytes {
	if b == nil {
		return nil
	}
	if utf8.Valid(b) {
		text := string(b)
		return &Bytes{Text: &text}
	}
	text := base64.StdEncoding.EncodeToString(b)
	return &Bytes{Base64: &text}
}

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
	State  string    `query:"state" enum:"waiting,claimed,overdue,put-off,stuck"`
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
	query.State, query.Lanes = inspect.State(in.State), in.Lane
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

// listQuery reads what messages are to have: a key, and a header, NAME or NAME=VALUE. What is "" asks for nothing.
func listQuery(key, header string) (query inspect.Query, err error) {
	if key != "" {
		if query.Key, err = parseBytes(key); err != nil {
			return query, huma.Error422UnprocessableEntity("key: " + err.Error())
		}
	}
	if header == "" {
		return query, nil
	}
	name, value, has := strings.Cut(header, "=")
	if query.Header = name; name == "" {
		return query, huma.Error422UnprocessableEntity(fmt.Sprintf("header: %q has no name", header))
	}
	if has {
		if query.HeaderValue, err = parseBytes(value); err != nil {
			return query, huma.Error422UnprocessableEntity("header: " + err.Error())
		}
	}
	return query, nil
}

// parseBytes reads what Bytes.String writes.
func parseBytes(text string) ([]byte, error) {
	if encoded, is := strings.CutPrefix(text, "base64:"); is {
		b, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			return nil, fmt.Errorf("%q is not base64", encoded)
		}
		return b, nil
	}
	return []byte(text), nil
}

// shown returns a message for a client.
func (a *API) shown(m *inspect.Message) Message {
	s := Message{
		ID: m.ID, Lane: m.Lane, Deadline: m.Deadline, Due: m.Due, Incarnation: m.Incarnation.String(),
		Attempts: m.Attempts, Bytes: m.Bytes, Key: bytesOf(m.Key), Value: bytesOf(m.Value), State: a.state(m),
		Bound: m.Bound, Former: m.Former, NotAfter: instantOf(m.NotAfter),
	}
	if !m.Waits() {
		s.Claim = &Claim{m.Claim.ReadiedBy.String(), m.Claim.ReadiedAt, m.Claim.Expires}
	}
	if m.Recurs() {
		s.Series = &Series{m.Series, m.Sequence, next(m), m.Stopped}
	}
	if m.Origin.Topic != "" {
		s.Origin = &Origin{m.Origin.Topic, m.Origin.Partition, m.Origin.Offset}
	}
	for _, h := range m.Headers {
		s.Headers = append(s.Headers, Header{h.Name, bytesOf(h.Value)})
	}
	if a.Troubles != nil {
		s.Trouble = a.Troubles.of(m.Incarnation)
	}
	return s
}

// state returns the word for the state of a message that says most.
func (a *API) state(m *inspect.Message) string {
	switch now := a.now(); {
	case !m.Waits() && m.Claim.Expires.Before(now):
		return string(inspect.Stuck)
	case !m.Waits():
		return string(inspect.Claimed)
	case m.Due.After(m.Deadline):
		return string(inspect.PutOff)
	case m.Due.Before(now.Add(-time.Second)):
		return string(inspect.Overdue)
	}
	return string(inspect.Waiting)
}
