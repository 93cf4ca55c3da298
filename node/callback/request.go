package callback

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"golang.org/x/net/http/httpguts"

	"chronos/node"
)

// The headers of each request. Those of Standard Webhooks are named by its library.
const (
	headerID       = "Chronos-Message-Id"
	headerDeadline = "Chronos-Deadline"
	headerAttempt  = "Chronos-Attempt"
	headerSequence = "Chronos-Sequence"
	headerNumber   = "X-Sequence-Number" // the same for those who are used to Metaswitch's Chronos
)

// Methods returns the methods that a message may ask for.
func Methods() []string {
	return []string{
		http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodGet, http.MethodHead,
	}
}

// folded returns the name of a header as receivers may read it: in any case, and many take an underscore for a hyphen,
// as CGI does. Two names are one if they are equal then.
func folded(name string) string { return http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")) }

// taken reports whether a header is none that a message may bring: it is set for each request by us or by the client,
// or is about the connection, or the lane has a header of that name.
func taken(name string, own []node.Header) bool {
	name = folded(name)
	if slices.ContainsFunc(own, func(h node.Header) bool { return folded(h.Name) == name }) {
		return true
	}
	switch name {
	case "Host", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Connection", "Keep-Alive", "Upgrade",
		"Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Expect", "Http2-Settings", headerNumber:
		return true
	}
	for _, prefix := range []string{"Chronos", "Webhook-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// relayable reports whether a header of a message is sent along, on a lane that has headers of its own. A header that
// is no valid field, for one because there is the end of a line in it, is not.
func relayable(h node.Header, own []node.Header) bool {
	return h.Value != nil && httpguts.ValidHeaderFieldName(h.Name) && httpguts.ValidHeaderFieldValue(string(h.Value)) &&
		!taken(h.Name, own)
}

// headers are those of a record by which a request is made.
type headers struct{ id, deadline, attempt, sequence, url, method string }

// read sorts out the headers of a record. The last one of a name counts: the engine's stand behind the message's own.
func read(record *node.Record) (h headers) {
	for _, field := range []struct {
		name  string
		value *string
	}{
		{node.HeaderID, &h.id},
		{node.HeaderDeadline, &h.deadline},
		{node.HeaderAttempt, &h.attempt},
		{node.HeaderSequence, &h.sequence},
		{node.HeaderURL, &h.url},
		{node.HeaderMethod, &h.method},
	} {
		for i := range record.Headers {
			if record.Headers[i].Name == field.name {
				*field.value = string(record.Headers[i].Value)
			}
		}
	}
	h.url, h.method = string(node.HeaderText([]byte(h.url))), string(node.HeaderText([]byte(h.method)))
	return h
}

// request returns the request of a record. The error says what of the record allows none.
func (l *lane) request(ctx context.Context, record *node.Record, h headers, agent string) (*http.Request, error) {
	target := h.url
	if target == "" {
		target = l.URL
	}
	if target == "" {
		return nil, errors.New("there is no header " + node.HeaderURL + ", and the lane has no URL of its own")
	}
	if l.URLOnly && target != l.URL {
		return nil, fmt.Errorf("the lane requests its own URL only (url-only): leave the header %s out", node.HeaderURL)
	}
	u, err := l.allowed.parse(target)
	if err != nil {
		return nil, err
	}
	method := h.method
	if method == "" {
		method = http.MethodPost
	}
	if !slices.Contains(Methods(), method) {
		return nil, fmt.Errorf("the header %s is %.20q: it must be one of %s", node.HeaderMethod, method,
			strings.Join(Methods(), ", "))
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(record.Value))
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	for _, relayed := range record.Headers {
		if relayable(relayed, l.Headers) {
			r.Header.Add(relayed.Name, string(relayed.Value))
		}
	}
	trusted := l.names(u)
	if trusted {
		for _, own := range l.Headers {
			r.Header.Add(own.Name, string(own.Value))
		}
	}
	if r.Header.Get("Content-Type") == "" && len(record.Value) > 0 {
		r.Header.Set("Content-Type", "application/octet-stream")
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", agent)
	}
	r.Header.Set(headerID, oneLine(h.id))
	r.Header.Set(headerDeadline, oneLine(h.deadline))
	r.Header.Set(headerAttempt, oneLine(h.attempt))
	if r.Header[repeatable] == nil {
		r.Header[repeatable] = []string{} // nothing is sent of it
	}
	if h.sequence != "" {
		r.Header.Set(headerSequence, oneLine(h.sequence))
		r.Header[headerNumber] = []string{oneLine(h.sequence)}
	}
	if !trusted {
		return r, nil
	}
	return r, l.sign(r, record, h)
}

// repeatable is a header whose entry has net/http take a request for one that may be repeated. It is repeated at once,
// on another connection, where one that was kept open is closed or reset before the first byte of an answer. Receivers
// close connections that are idle, and a request may meet the end of one. That is no failure of the receiver, and no
// attempt. A receiver that gets a request twice sees the same webhook-id and the same attempt.
const repeatable = "X-Idempotency-Key"

// names reports whether the lane names the host of a URL that can be requested, so that its headers and its signature
// go there: by its own URL, with the same scheme and port, or among those that are allowed. What a name leads to makes
// no difference. That is known only when it is dialled, and others may change it.
func (l *lane) names(u *url.URL) bool {
	if own, err := url.Parse(l.URL); l.URL != "" && err == nil && own.Scheme == u.Scheme && hostOf(own) == hostOf(u) {
		return true
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		return l.allowed.contains(address, portOf(u))
	}
	return l.allowed.names(u.Hostname(), portOf(u))
}

// oneLine returns a text as the value of a header: what is neither printable ASCII nor a space, and %, is written as a
// URL has it. Ids may be any text.
func oneLine(text string) string {
	var value strings.Builder
	for i := range len(text) {
		edge := text[i] == ' ' && (i == 0 || i == len(text)-1)
		if c := text[i]; c < ' ' || c > '~' || c == '%' || edge {
			fmt.Fprintf(&value, "%%%02X", c)
		} else {
			value.WriteByte(c)
		}
	}
	return value.String()
}

// webhookID returns the id of a message and its content. The number of the attempt is no part of it.
func webhookID(record *node.Record, h headers) string {
	digest := sha256.New()
	add := func(part []byte) {
		_ = binary.Write(digest, binary.BigEndian, uint64(len(part))) // a hash takes anything
		_, _ = digest.Write(part)
	}
	for _, part := range []string{record.Topic, h.id, h.deadline, h.sequence} {
		add([]byte(part))
	}
	add(record.Value)
	for _, header := range record.Headers {
		if header.Name != node.HeaderAttempt {
			add([]byte(header.Name))
			add(header.Value)
		}
	}
	return "msg_" + hex.EncodeToString(digest.Sum(nil)[:16])
}

// sign adds the headers of Standard Webhooks, if the lane has secrets. The id is the same for all attempts on a
// message, and another one for each occurrence of a series, and for a later message that has the same id and another
// deadline or another content: to a receiver that has seen the id before, that would be the former one once more.
func (l *lane) sign(r *http.Request, record *node.Record, h headers) error {
	if l.secrets == nil {
		return nil
	}
	id, now := webhookID(record, h), time.Now()
	var signatures []string
	for _, secret := range l.secrets.get() {
		signature, err := secret.Sign(id, now, record.Value)
		if err != nil {
			return fmt.Errorf("sign: %w", err)
		}
		signatures = append(signatures, signature)
	}
	r.Header.Set(standardwebhooks.HeaderWebhookID, id)
	r.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	return nil
}
