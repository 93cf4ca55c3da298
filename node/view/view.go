// Package view is what a message that is stored looks like to a client of the HTTP listeners of a node, in JSON: to
// operators (package admin) and to applications (package api) alike.
package view

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"chronos/node/calendar"
	"chronos/node/store/inspect"
)

// Message is a message that is stored.
type Message struct {
	ID          string    `json:"id"`
	Lane        string    `json:"lane" doc:"Where it comes out: a topic."`
	State       string    `json:"state" enum:"waiting,parked,claimed,overdue,put-off,stuck"`
	Deadline    time.Time `json:"deadline"`
	Due         time.Time `json:"due" doc:"The deadline, unless it could not be published and was put off."`
	Part        string    `json:"part,omitempty" doc:"The output partition that does not answer, where it is parked."`
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

// encoded begins bytes in base64 where bytes are one text.
const encoded = "base64:"

// String returns the bytes for a person. ParseBytes reads them again, also those of a text that looks like base64.
func (b *Bytes) String() string {
	switch {
	case b == nil:
		return "null"
	case b.Text != nil && strings.HasPrefix(*b.Text, encoded):
		return encoded + base64.StdEncoding.EncodeToString([]byte(*b.Text))
	case b.Text != nil:
		return *b.Text
	case b.Base64 != nil:
		return encoded + *b.Base64
	}
	return ""
}

// BytesOf returns bytes for a client; nil for a null.
func BytesOf(b []byte) *Bytes {
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

// Trouble is why a message, or a lane, could not be published last.
type Trouble struct {
	Error     string    `json:"error"`
	Cause     string    `json:"cause,omitempty" doc:"The same in words, for people."`
	At        time.Time `json:"at"`
	Tries     int       `json:"tries" doc:"How many publishes have failed since one came through."`
	Permanent bool      `json:"permanent" doc:"Somebody has to act: the topic is missing, or rejects it."`
}

// Of returns a message for a client. now is the clock that deadlines are compared with. What is due is overdue then,
// unless it is excused: its lane is closed.
func Of(m *inspect.Message, now time.Time, excused bool) Message {
	s := Message{
		ID: m.ID, Lane: m.Lane, Deadline: m.Deadline, Due: m.Due, Part: m.Part, Incarnation: m.Incarnation.String(),
		Attempts: m.Attempts, Bytes: m.Bytes, Key: BytesOf(m.Key), Value: BytesOf(m.Value),
		State: stateOf(m, now, excused), Bound: m.Bound, Former: m.Former,
	}
	if !m.NotAfter.IsZero() {
		s.NotAfter = &m.NotAfter
	}
	if !m.Waits() {
		s.Claim = &Claim{m.Claim.ReadiedBy.String(), m.Claim.ReadiedAt, m.Claim.Expires}
	}
	if m.Recurs() {
		s.Series = &Series{m.Series, m.Sequence, Next(m), m.Stopped}
	}
	if m.Origin.Topic != "" {
		s.Origin = &Origin{m.Origin.Topic, m.Origin.Partition, m.Origin.Offset}
	}
	for _, h := range m.Headers {
		s.Headers = append(s.Headers, Header{h.Name, BytesOf(h.Value)})
	}
	return s
}

// stateOf returns the word for the state of a message that says most.
func stateOf(m *inspect.Message, now time.Time, excused bool) string {
	switch {
	case !m.Waits() && m.Claim.Expires.Before(now):
		return string(inspect.Stuck)
	case !m.Waits():
		return string(inspect.Claimed)
	case m.Part != "":
		return string(inspect.Parked)
	case m.Due.After(m.Deadline):
		return string(inspect.PutOff)
	case m.Due.Before(now.Add(-time.Second)) && !excused:
		return string(inspect.Overdue)
	}
	return string(inspect.Waiting)
}

// Next returns when the occurrence after this one comes, if it is one of a series, and one follows; nil for none.
func Next(m *inspect.Message) *time.Time {
	if !m.Recurs() || m.Stopped {
		return nil
	}
	series, err := calendar.Parse(m.Series)
	if err != nil {
		return nil
	}
	following, more := series.Following(calendar.Occurrence{Sequence: m.Sequence, At: m.At})
	if !more {
		return nil
	}
	return &following.At
}

// Filter reads what messages are to have: a key, and a header, NAME or NAME=VALUE. What is "" asks for nothing.
func Filter(key, header string) (query inspect.Query, err error) {
	if key != "" {
		if query.Key, err = ParseBytes(key); err != nil {
			return query, fmt.Errorf("key: %w", err)
		}
	}
	if header == "" {
		return query, nil
	}
	name, value, has := strings.Cut(header, "=")
	if query.Header = name; name == "" {
		return query, fmt.Errorf("header: %q has no name", header)
	}
	if has {
		if query.HeaderValue, err = ParseBytes(value); err != nil {
			return query, fmt.Errorf("header: %w", err)
		}
	}
	return query, nil
}

// ParseBytes reads what Bytes.String writes.
func ParseBytes(text string) ([]byte, error) {
	if rest, is := strings.CutPrefix(text, encoded); is {
		b, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return nil, fmt.Errorf("%q is not base64", rest)
		}
		return b, nil
	}
	return []byte(text), nil
}
