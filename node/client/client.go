// Package client is the HTTP API of Chronos for programs in Go: see docs/HTTP.md.
//
//	c, err := client.New(client.Config{URL: "https://chronos.example:8081", Token: token})
//	outcome, err := c.Put(ctx, "http:orders", "order-1", client.Message{
//		When: client.In(15 * time.Minute), URL: "https://shop.example/expire", Value: []byte("1"),
//	})
//
// Each call that changes something has an Idempotency-Key, and is repeated under it while nobody knows what has become
// of it, or while the node says that it is to come again: the effect is there once. IsUnknown tells the errors after
// which nobody knows; they may be met with the same call and the same key (WithKey).
package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"chronos/node/view"
)

// Config says where the API is.
type Config struct {
	// URL is where a node, or a balancer in front of several, listens, such as https://chronos.example:8081.
	URL string

	// Token is what the API asks for; empty for none.
	Token string

	// HTTP makes the requests; nil for one of its own with a time limit of 30 s.
	HTTP *http.Client

	// Tries is how often a request is made that is not answered, or answered with "come again"; 0 for 4.
	Tries int
}

// Client makes requests. It is safe for concurrent use.
type Client struct {
	config Config
	base   string
}

// maxAnswer bounds what is read of an answer: a message in base64, and what is around it.
const maxAnswer = 64 << 20

// New returns a client. It makes no request.
func New(config Config) (*Client, error) {
	at, err := url.Parse(config.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("the URL of Chronos is %q: it must be http://HOST:PORT or https://HOST:PORT", config.URL)
	}
	if config.HTTP == nil {
		config.HTTP = &http.Client{Timeout: 30 * time.Second, Transport: transport()}
	}
	if config.Tries <= 0 {
		config.Tries = 4
	}
	return &Client{config: config, base: strings.TrimSuffix(config.URL, "/")}, nil
}

// maxIdle is how many connections are kept between requests. That of net/http is two for each host, which makes a new
// connection for nearly every request of a busy program.
const maxIdle = 100

// transport makes the connections of a client that is not given any.
func transport() http.RoundTripper {
	standard, is := http.DefaultTransport.(*http.Transport)
	if !is {
		return http.DefaultTransport // somebody has put another one there, and knows why
	}
	own := standard.Clone()
	own.MaxIdleConnsPerHost = maxIdle
	return own
}

// When says when a message is to come out: see At and In.
type When struct {
	Deadline string `json:"deadline,omitempty"`
	Delay    string `json:"delay,omitempty"`
}

// At is an instant.
func At(t time.Time) When { return When{Deadline: t.UTC().Format(time.RFC3339Nano)} }

// In is so long from when the node reads the request.
func In(d time.Duration) When { return When{Delay: d.String()} }

// Message is a message that is to come out later.
type Message struct {
	When

	NotAfter   time.Time   // the last instant at which it may come out; the zero value for no end
	Recurrence *Recurrence // nil for a message that comes out once
	Key, Value []byte      // nil is a null
	Headers    []Header    // of the record, or of the request
	URL        string      // on a lane http:NAME: where to send the request
	Method     string      // of that; POST if empty
}

// Header is a header of a record, or of a request.
type Header struct {
	Name  string
	Value []byte
}

// Recurrence makes a message a series.
type Recurrence struct {
	Repeat string `json:"repeat"` // such as "every 20s", "30 9 * * mon-fri" or "@daily"
	Zone   string `json:"zone,omitempty"`
	Count  int64  `json:"count,omitempty"`
	Until  string `json:"until,omitempty"`
	Missed string `json:"missed,omitempty"` // one, all or skip
}

// MarshalJSON writes the body of a request.
func (m *Message) MarshalJSON() ([]byte, error) {
	type header struct {
		Name  string `json:"name"`
		Value any    `json:"value,omitempty"`
	}
	body := struct {
		When
		NotAfter   string      `json:"not_after,omitempty"`
		Recurrence *Recurrence `json:"recurrence,omitempty"`
		Key        any         `json:"key,omitempty"`
		Value      any         `json:"value,omitempty"`
		Headers    []header    `json:"headers,omitempty"`
		URL        string      `json:"url,omitempty"`
		Method     string      `json:"method,omitempty"`
	}{
		When: m.When, Recurrence: m.Recurrence, Key: data(m.Key), Value: data(m.Value), URL: m.URL, Method: m.Method,
	}
	if !m.NotAfter.IsZero() {
		body.NotAfter = m.NotAfter.UTC().Format(time.RFC3339Nano)
	}
	for _, h := range m.Headers {
		body.Headers = append(body.Headers, header{h.Name, data(h.Value)})
	}
	return json.Marshal(body)
}

// data returns bytes as the API has them; nil for a null.
func data(b []byte) any {
	switch {
	case b == nil:
		return nil
	case utf8.Valid(b):
		return map[string]string{"text": string(b)}
	}
	return map[string]string{"base64": base64.StdEncoding.EncodeToString(b)}
}

// Outcome is what became of a request. It is durable.
type Outcome struct {
	ID      string `json:"id"`
	Lane    string `json:"lane"`
	Outcome string `json:"outcome"` // scheduled, ignored, replaced, rescheduled, cancelled, stopped, fired, ...

	Deadline    time.Time `json:"deadline"`        // when the message comes out; zero if it does not
	Former      time.Time `json:"former_deadline"` // when it would have, where that is another instant
	Incarnation string    `json:"incarnation"`     // that of the message now, for IfMatch; empty if there is none
	Sequence    int64     `json:"sequence"`        // of a series
	MayAppear   bool      `json:"may_appear"`      // content that was replaced may come out all the same
	Lineage     int64     `json:"lineage"`         // of the store
	Repeated    bool      `json:"repeated"`        // an earlier request under the same key was answered so
}

// ProblemError is an answer that says what is wrong.
type ProblemError struct {
	Status int      `json:"status"`
	Detail string   `json:"detail"`
	Code   string   `json:"code"`
	Fields []Field  `json:"errors"`
	Then   *Outcome `json:"outcome"` // what became of the request, where it was decided on: too_late, not_found

	retryAfter time.Duration
	unknown    bool // nobody knows what has become of this try, or of one before it
}

// Field is what is wrong with one part of a request.
type Field struct {
	Location string `json:"location"` // such as body.deadline
	Message  string `json:"message"`
}

// Error returns the sentence.
func (p *ProblemError) Error() string {
	says := []string{fmt.Sprintf("chronos answers %d: %s", p.Status, p.Detail)}
	for _, f := range p.Fields {
		if f.Message != p.Detail {
			says = append(says, f.Location+": "+f.Message)
		}
	}
	return strings.Join(says, "; ")
}

// IsTooLate reports whether err says that a message comes out as it is, or has come out.
func IsTooLate(err error) bool { return hasStatus(err, http.StatusConflict) }

// IsNotFound reports whether err says that there is no message of that id, or not the one that was meant (IfMatch).
func IsNotFound(err error) bool {
	return hasStatus(err, http.StatusNotFound) || hasStatus(err, http.StatusPreconditionFailed)
}

// IsUnknown reports whether err leaves open whether the request was carried out, or is yet to be. After any other error
// it was not, or the error says what has become of it.
func IsUnknown(err error) bool {
	p, is := errors.AsType[*ProblemError](err)
	return err != nil && (!is || p.unknown)
}

func hasStatus(err error, status int) bool {
	p, is := errors.AsType[*ProblemError](err)
	return is && p.Status == status
}

// Option is something that a request may say besides.
type Option func(*request)

// WithKey names the request, in place of a key that is drawn: whoever may have to repeat it after a crash keeps the
// key. An empty one is none, and leaves that which is drawn: without any, a repetition could do the same twice.
func WithKey(key string) Option { return func(r *request) { r.key = cmp.Or(key, r.key) } }

// IfMatch says which incarnation is meant; no other is touched.
func IfMatch(incarnation string) Option { return func(r *request) { r.match = incarnation } }

// Replace has a message take the place of one that waits under its id.
func Replace() Option { return func(r *request) { r.query.Set("on-duplicate", "replace") } }

// Put stores a message under an id, unless one waits there: scheduled, ignored, or replaced (Replace).
func (c *Client) Put(ctx context.Context, lane, id string, m Message, options ...Option) (Outcome, error) {
	return c.change(ctx, http.MethodPut, messagePath(lane, id), &m, options)
}

// Post stores a message under an id that the node makes.
func (c *Client) Post(ctx context.Context, lane string, m Message, options ...Option) (Outcome, error) {
	return c.change(ctx, http.MethodPost, messagesPath(lane), &m, options)
}

// Reschedule has a message come out at another time.
func (c *Client) Reschedule(ctx context.Context, lane, id string, when When, options ...Option) (Outcome, error) {
	return c.change(ctx, http.MethodPatch, messagePath(lane, id), when, options)
}

// Cancel keeps a message from coming out. A series ends.
func (c *Client) Cancel(ctx context.Context, lane, id string, options ...Option) (Outcome, error) {
	return c.change(ctx, http.MethodDelete, messagePath(lane, id), nil, options)
}

// Fire has a message come out now.
func (c *Client) Fire(ctx context.Context, lane, id string, options ...Option) (Outcome, error) {
	return c.change(ctx, http.MethodPost, messagePath(lane, id)+":fire", nil, options)
}

// Get returns a message that waits.
func (c *Client) Get(ctx context.Context, lane, id string) (view.Message, error) {
	var m view.Message
	err := c.do(ctx, &request{method: http.MethodGet, path: messagePath(lane, id)}, &m)
	return m, err
}

// Query says which messages of a lane are meant. The zero value is all of them.
type Query struct {
	State       string // waiting, parked, claimed, overdue, put-off or stuck
	From, Until time.Time
	Key, Header string // a key; NAME or NAME=VALUE
}

// List returns the messages of a lane, without their values. It asks for a page at a time. An error ends it.
func (c *Client) List(ctx context.Context, lane string, query Query) iter.Seq2[view.Message, error] {
	values := url.Values{"limit": {"500"}}
	for name, value := range map[string]string{"state": query.State, "key": query.Key, "header": query.Header} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, at := range map[string]time.Time{"from": query.From, "until": query.Until} {
		if !at.IsZero() {
			values.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return func(yield func(view.Message, error) bool) {
		for {
			var page struct {
				Messages []view.Message
				Next     string
			}
			err := c.do(ctx, &request{method: http.MethodGet, path: messagesPath(lane), query: values}, &page)
			if err != nil {
				yield(view.Message{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			values.Set("cursor", page.Next)
		}
	}
}

// Count is how many messages there are on a lane.
type Count struct {
	Waiting, Claimed, Overdue int
	Next                      time.Time // when the next one falls due; zero if none does
	Estimated                 bool
}

// Count returns how many messages there are on a lane.
func (c *Client) Count(ctx context.Context, lane string) (count Count, err error) {
	err = c.do(ctx, &request{method: http.MethodGet, path: "/v1/lanes/" + escape(lane) + "/count"}, &count)
	return count, err
}

func messagesPath(lane string) string { return "/v1/lanes/" + escape(lane) + "/messages" }

func messagePath(lane, id string) string { return messagesPath(lane) + "/" + escape(id) }

// escape returns a part of a path that stands for itself, also where it is a dot or two.
func escape(part string) string {
	if part == "." || part == ".." {
		return strings.ReplaceAll(part, ".", "%2E")
	}
	return url.PathEscape(part)
}

// request is one request, which may be made several times.
type request struct {
	method, path string
	query        url.Values
	key, match   string
	body         []byte
}

// change makes a request that changes something.
func (c *Client) change(
	ctx context.Context, method, path string, body any, options []Option,
) (outcome Outcome, err error) {
	r := &request{method: method, path: path, query: url.Values{}, key: uuid.NewString()}
	for _, option := range options {
		option(r)
	}
	if body != nil {
		if r.body, err = json.Marshal(body); err != nil {
			return outcome, fmt.Errorf("write the request: %w", err)
		}
	}
	return outcome, c.do(ctx, r, &outcome)
}

// do makes a request, again while it is not answered or the answer is to come again, and reads the answer.
func (c *Client) do(ctx context.Context, r *request, answer any) (err error) {
	wait, lost := 100*time.Millisecond, false
	for try := 1; ; try++ {
		if err = c.once(ctx, r, answer); err == nil {
			return nil
		}
		p, is := errors.AsType[*ProblemError](err)
		if is && p.passes() {
			p.unknown = p.unknown || lost // it says nothing of the tries before
		}
		lost = lost || IsUnknown(err)
		if try >= c.config.Tries || ctx.Err() != nil || is && !p.again() {
			return err
		}
		pause := wait
		if is {
			pause = max(pause, p.retryAfter)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return err
		case <-timer.C:
		}
		wait *= 2
	}
}

// again reports whether it is of use to come again. A balancer says so, too, if a node does not answer it.
func (p *ProblemError) again() bool {
	switch p.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// passes reports whether an answer is no more than that this try has come to nothing: another one could have come to
// something.
func (p *ProblemError) passes() bool {
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests:
		return true
	}
	return p.Status >= http.StatusInternalServerError
}

// undone reports whether an answer says that this try has done nothing.
func (p *ProblemError) undone() bool {
	switch p.Code {
	case "busy", "not_taken", "store_unavailable":
		return true
	}
	return p.Status < http.StatusInternalServerError
}

func (c *Client) once(ctx context.Context, r *request, answer any) error {
	at := c.base + r.path
	if len(r.query) > 0 {
		at += "?" + r.query.Encode()
	}
	asked, err := http.NewRequestWithContext(ctx, r.method, at, bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("ask Chronos: %w", err)
	}
	for name, value := range map[string]string{"Idempotency-Key": r.key, "If-Match": r.match} {
		if value != "" {
			asked.Header.Set(name, value)
		}
	}
	if len(r.body) > 0 {
		asked.Header.Set("Content-Type", "application/json")
	}
	if c.config.Token != "" {
		asked.Header.Set("Authorization", "Bearer "+c.config.Token)
	}
	response, err := c.config.HTTP.Do(asked)
	if err != nil {
		return fmt.Errorf("ask Chronos: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // it was only read
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("read the answer of Chronos: %w", err)
	}
	if response.StatusCode < http.StatusBadRequest {
		if err := json.Unmarshal(text, answer); err != nil {
			return fmt.Errorf("read the answer of Chronos: %w", err)
		}
		return nil
	}
	p := &ProblemError{}
	if json.Unmarshal(text, p) != nil || p.Detail == "" {
		p.Detail = strings.TrimSpace(string(text[:min(len(text), 200)])) // of a proxy, perhaps
	}
	p.Status = response.StatusCode
	p.unknown = !p.undone()
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds >= 0 {
		p.retryAfter = min(time.Duration(seconds)*time.Second, time.Minute)
	}
	return p
}
