package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
	"chronos/node/listener"
	"chronos/node/store/inspect"
)

// ProblemError is an answer that says what is wrong (RFC 9457).
type ProblemError struct {
	Title  string              `json:"title" doc:"The status in words."`
	Status int                 `json:"status"`
	Detail string              `json:"detail" doc:"What is wrong, and what to do, in a sentence or two."`
	Code   string              `json:"code,omitempty" doc:"The same for programs, such as too_late."`
	Errors []*huma.ErrorDetail `json:"errors,omitempty" doc:"The fields that are to blame."`

	Outcome *Outcome `json:"outcome,omitempty" doc:"What became of the request, where it was decided on."`

	headers http.Header
}

// Error returns the sentence.
func (p *ProblemError) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *ProblemError) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *ProblemError) GetHeaders() http.Header { return p.headers }

// ContentType implements huma.ContentTypeFilter.
func (p *ProblemError) ContentType(string) string { return problemType }

const problemType = "application/problem+json"

// newProblem returns a problem.
func newProblem(status int, code, detail string) *ProblemError {
	return &ProblemError{Title: http.StatusText(status), Status: status, Code: code, Detail: detail}
}

// at names the field that is to blame.
func (p *ProblemError) at(location string) *ProblemError {
	p.Errors = append(p.Errors, &huma.ErrorDetail{Message: p.Detail, Location: location})
	return p
}

// after says when to come again.
func (p *ProblemError) after(wait time.Duration) *ProblemError {
	p.headers = http.Header{}
	retryAfter(p.headers, wait)
	return p
}

// write answers a request with a problem, where none of huma's handlers does.
func (p *ProblemError) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), p.headers)
	w.Header().Set("Content-Type", problemType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(p.Status)
	_ = json.NewEncoder(w).Encode(p.bounded()) // whoever has gone gets no answer
}

// bounded returns the problem as it is answered.
func (p *ProblemError) bounded() *ProblemError {
	bounded := *p
	bounded.Detail, bounded.Errors = listener.Bound(p.Detail, p.Errors)
	return &bounded
}

// uniform is a huma.Transformer: it gives the problems that huma finds itself, before any handler of ours, the form of
// ours, and bounds all.
func uniform(_ huma.Context, _ string, answer any) (any, error) {
	switch found := answer.(type) {
	case *ProblemError:
		return found.bounded(), nil
	case *huma.ErrorModel:
		code := codeInvalid
		if found.Status == http.StatusInternalServerError {
			code = codeInternal
		}
		p := newProblem(found.Status, code, found.Detail)
		p.Errors = make([]*huma.ErrorDetail, len(found.Errors))
		for i, one := range found.Errors {
			told := *one
			told.Message = sentence(one)
			p.Errors[i] = &told
		}
		if len(p.Errors) > 0 { // huma says that there are errors, and no more
			first := p.Errors[0]
			p.Detail = strings.TrimPrefix(strings.TrimPrefix(first.Location, "body."), "query.") + ": " + first.Message
		}
		return p.bounded(), nil
	}
	return answer, nil
}

// sentence returns what an error of huma says: for values that people write in a form of their own, what to write.
func sentence(found *huma.ErrorDetail) string {
	field := found.Location[strings.LastIndex(found.Location, ".")+1:]
	switch found.Message {
	case validation.MsgExpectedMatchExactlyOneSchema:
		return `write a text, or JSON as {"json": {"order":1}}, or bytes as {"base64": "AP8="}`
	case validation.MsgExpectedArray:
		if field == "headers" {
			return `write a list, such as [{"name":"a","value":"b"}]`
		}
	case validation.MsgExpectedString:
		switch field {
		case "delay":
			return `write how long as a text with its unit, such as "3600s", "1h" or "PT1H"`
		case "deadline", "not_after", "until":
			return `write an instant as a text, such as "2099-12-31T23:59:59Z"`
		}
	}
	if strings.HasPrefix(found.Message, "invalid date/time") {
		return "write an instant such as 2099-12-31T23:59:59Z"
	}
	return found.Message
}

// refuse is a listener.Refusal.
func refuse(w http.ResponseWriter, status int, sentence string) {
	code, known := map[int]string{
		http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
		http.StatusRequestEntityTooLarge: string(node.TooLarge), http.StatusTooManyRequests: codeRate,
	}[status]
	if !known {
		code = codeInvalid
	}
	newProblem(status, code, sentence).write(w)
}

// The code of problems that no node.Reason is for.
const (
	codeScope     = "out_of_scope"
	codeLane      = "unknown_lane"
	codeKeyUsed   = "idempotency_key_reused"
	codeRate      = "too_many_requests"
	codeFull      = "too_many_waiting"
	codeClosed    = "not_taken"
	codeBusy      = "busy"
	codeUnknown   = "unknown"
	codeAway      = "store_unavailable"
	codeNotFound  = "not_found"
	codeChanged   = "changed"
	codeConflict  = "conflict"
	codeElsewhere = "elsewhere"
	codeInvalid   = "invalid"
	codeInternal  = "internal"
)

// closedWait is when to come again where the store takes nothing in.
const closedWait = 5 * time.Second

// unfit returns the problem for a request that is no valid instruction. Its sentence calls a field by its name in the
// body, where the rules speak of headers of records.
func unfit(err error) *ProblemError {
	wrong, is := errors.AsType[*node.UnfitError](err)
	if !is {
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, err.Error())
	}
	p := newProblem(http.StatusUnprocessableEntity, string(wrong.Reason), asFields(wrong.Detail))
	if wrong.Header != "" {
		return p.at(location(wrong.Header))
	}
	return p.at("body")
}

// fields are the headers of a record by which it asks for something, and the fields of a body that are the same.
func fields() [][2]string {
	return [][2]string{
		{node.HeaderRepeatZone, "recurrence.zone"},
		{node.HeaderRepeatCount, "recurrence.count"},
		{node.HeaderRepeatUntil, "recurrence.until"},
		{node.HeaderMissed, "recurrence.missed"},
		{node.HeaderRepeat, "recurrence.repeat"},
		{node.HeaderNotAfter, "not_after"},
		{node.HeaderDeadline, "deadline"},
		{node.HeaderDelay, "delay"},
		{node.HeaderURL, "url"},
		{node.HeaderMethod, "method"},
	}
}

// asFields returns a sentence with the names of fields for those of headers.
func asFields(detail string) string {
	detail = strings.NewReplacer("the header "+node.HeaderID, "the id", "header "+node.HeaderID, "id",
		"the header "+node.HeaderTopic, "the lane").Replace(detail)
	for _, f := range fields() {
		detail = strings.ReplaceAll(detail, "header "+f[0], "field "+f[1])
		detail = strings.ReplaceAll(detail, f[0], f[1])
	}
	return strings.ReplaceAll(detail, "there are both headers", "there are both")
}

// location returns where in a request something is that a record has in a header.
func location(header string) string {
	switch header {
	case node.HeaderID:
		return "path.id"
	case node.HeaderTopic:
		return "path.lane"
	}
	for _, f := range fields() {
		if f[0] == header {
			return "body." + f[1]
		}
	}
	return "body"
}

// untaken returns the problem where the store has not answered with an outcome.
func (a *API) untaken(err error, named bool) *ProblemError {
	_, refused := errors.AsType[*control.RefusedError](err)
	switch {
	case errors.Is(err, intake.ErrBusy) || control.IsBusy(err):
		return newProblem(http.StatusServiceUnavailable, codeBusy, err.Error()).after(time.Second)
	case control.IsClosed(err):
		return newProblem(http.StatusServiceUnavailable, codeClosed, err.Error()).after(closedWait)
	case refused:
		return newProblem(http.StatusUnprocessableEntity, string(node.StoreRefused), err.Error()).at("body")
	}
	what := "Nobody knows whether that was done: repeat the request, with the same Idempotency-Key, to hear. "
	if !named {
		what = "Nobody knows whether that was done: look at the message before you repeat it, and send an " +
			"Idempotency-Key the next time. "
	}
	return newProblem(http.StatusServiceUnavailable, codeUnknown, what+a.explain(err)).after(time.Second)
}

// unseen returns the problem where the store has not shown what somebody wants to see.
func (a *API) unseen(err error) error {
	if inspect.IsCursor(err) {
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, err.Error()).at("query.cursor")
	}
	if errors.Is(err, inspect.ErrTooLong) {
		return newProblem(http.StatusServiceUnavailable, codeBusy, err.Error()).after(time.Second)
	}
	return newProblem(http.StatusServiceUnavailable, codeAway, a.explain(err)).after(time.Second)
}

func (a *API) explain(err error) string {
	if a.Explain != nil {
		return a.Explain(err)
	}
	return "The store does not answer: " + err.Error()
}

// outOfScope returns the problem of a token that may not do something on a lane.
func outOfScope(name, what, lane string, scopes *Scopes) *ProblemError {
	if name == "" {
		name = "of this listener"
	}
	return newProblem(http.StatusForbidden, codeScope, fmt.Sprintf("the token %s may not %s lane %s: its scopes in "+
		"api-token-file are %s, and would have to name %s:%s", name, what, lane, scopes, what, lane)).at("path.lane")
}
