package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/listener"
	"chronos/node/store/inspect"
)

// Outcome is what became of a request. It is durable when it is given.
type Outcome struct {
	ID      string `json:"id"`
	Lane    string `json:"lane"`
	Outcome Word   `json:"outcome"`

	Deadline    *time.Time `json:"deadline,omitempty" doc:"When it comes out, if it does."`
	Former      *time.Time `json:"former_deadline,omitempty" doc:"When it would have, where that is another instant."`
	Incarnation string     `json:"incarnation,omitempty" doc:"That of the message now: the ETag."`
	Sequence    int64      `json:"sequence,omitempty" doc:"Of a series: of the first that does not come, or the last."`
	MayAppear   bool       `json:"may_appear,omitempty" doc:"Content that was replaced may come out all the same."`
	Lineage     int64      `json:"lineage" doc:"Of the store: where they differ, the higher one counts."`
	Repeated    bool       `json:"repeated,omitempty" doc:"An earlier request of that Idempotency-Key was told so."`
}

// Word is what became of a request, in a word: an outcome as the header chronosOutcome has it.
type Word string

// Schema implements huma.SchemaProvider.
func (Word) Schema(huma.Registry) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString, Description: "scheduled: it is stored. ignored: another message of that " +
		"id " +
		"waits, and stays. stopped: of a series, one occurrence comes out, or may have, and none after it. fired: it " +
		"comes " +
		"out now. too_late: it comes out as it is, or has."}
	for outcome := node.Scheduled; outcome <= node.NotFound; outcome++ {
		if word := outcome.String(); word != "" {
			s.Enum = append(s.Enum, word)
		}
	}
	return s
}

// LaneInput is what requests have in common that bring a message, or change one.
type LaneInput struct {
	Lane string `path:"lane" maxLength:"249" doc:"Where the message comes out: a topic, or http:NAME."`
	Key  string `header:"Idempotency-Key" maxLength:"255" doc:"Names the request: repeated, it has the same answer."`
}

// IDInput is what requests have in common that are for one message.
type IDInput struct {
	LaneInput

	ID      string `path:"id" maxLength:"512" doc:"The name of the message on its lane: 1 to 128 bytes."`
	IfMatch string `header:"If-Match" maxLength:"64" doc:"The ETag of the message that is meant, and no other."`
}

// asked is a request that has been read.
type asked struct {
	LaneInput

	caller caller
	id     string
	action node.Action
	record node.Record
	only   string // an ETag; "" for whichever message there is
	raw    []byte // the body
	made   bool   // the id is made here
}

type putInput struct {
	IDInput

	OnDuplicate string `query:"on-duplicate" enum:"ignore,replace" default:"ignore" doc:"What to do where one waits."`
	IfNoneMatch string `header:"If-None-Match" maxLength:"64" doc:"Not with on-duplicate=replace."`
	Body        Body
	RawBody     []byte
}

// conditions returns the problem of a request that asks for what no store can do in one step: what is not done is not
// to be ignored, since something else would be overwritten.
func (in *putInput) conditions(action node.Action) *ProblemError {
	switch {
	case in.IfNoneMatch != "" && action == node.Replace:
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, "on-duplicate=replace stores the message "+
			"whatever waits there, and If-None-Match asks for the opposite: leave one of them out").
			at("header.If-None-Match")
	case strings.TrimSpace(in.IfMatch) == anyETag:
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, "If-Match: * with a message to be stored is "+
			"not understood here: give the ETag of the one that it is to replace").at("header.If-Match")
	}
	return nil
}

// anyETag is the value of If-Match for whatever message there is.
const anyETag = "*"

type postInput struct {
	LaneInput

	Body    Body
	RawBody []byte
}

type patchInput struct {
	IDInput

	Body    When
	RawBody []byte
}

// output is the answer to a request that has had an effect, or none is needed.
type output struct {
	Status   int
	ETag     string `header:"ETag"`
	Location string `header:"Location"`
	Body     Outcome
}

const (
	messagesPath = "/v1/lanes/{lane}/messages"
	messagePath  = messagesPath + "/{id}"
)

// unnamedKept is how long the answer to a request without an Idempotency-Key is remembered: while the node itself may
// repeat it.
const unnamedKept = time.Minute

// writes registers what brings a message, or changes one.
func (a *API) writes(api huma.API) {
	operation := func(method, path, id, summary string) huma.Operation {
		return huma.Operation{
			OperationID: id, Method: method, Path: path, Summary: summary, Tags: []string{"messages"},
			DefaultStatus: http.StatusOK,
		}
	}
	put := operation(http.MethodPut, messagePath, "put",
		"Store a message under an id, unless one waits there: 201 scheduled, 200 ignored or replaced")
	post := operation(http.MethodPost, messagesPath, "post", "Store a message under an id that is made here")
	conflicts := []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}
	handle(a, api, put, conflicts, func(ctx context.Context, in *putInput) (*output, error) {
		action := node.Schedule
		if in.OnDuplicate == "replace" {
			action = node.Replace
		}
		if p := in.conditions(action); p != nil {
			return nil, p
		}
		return a.bring(ctx, asked{LaneInput: in.LaneInput, only: in.IfMatch, raw: in.RawBody}, in.ID, action, &in.Body)
	})
	unmade := []int{http.StatusNotFound, http.StatusPreconditionFailed}
	handle(a, api, post, unmade, func(ctx context.Context, in *postInput) (*output, error) {
		made := asked{LaneInput: in.LaneInput, raw: in.RawBody, made: true}
		id := uuid.NewString()
		if a.Through != nil && in.Key != "" { // repeated, it has to find who has been told of it
			id = hashed("made", callerOf(ctx).name, in.Key).String()
		}
		return a.bring(ctx, made, id, node.Schedule, &in.Body)
	})
	listener.DescribeCreated(api, put.Method, put.Path)
	listener.DescribeCreated(api, post.Method, post.Path)
	handle(a, api, operation(http.MethodPatch, messagePath, "reschedule", "Have a message come out at another time"),
		conflicts, func(ctx context.Context, in *patchInput) (*output, error) {
			return a.change(ctx, &in.IDInput, node.Reschedule, &in.Body, in.RawBody)
		})
	handle(a, api, operation(http.MethodDelete, messagePath, "cancel",
		"Cancel a message: it does not come out, unless it is too late. A series ends"),
		conflicts, func(ctx context.Context, in *IDInput) (*output, error) {
			return a.change(ctx, in, node.Cancel, &When{}, nil)
		})
	handle(a, api, operation(http.MethodPost, messagePath+":fire", "fire", "Have a message come out now"),
		conflicts, func(ctx context.Context, in *IDInput) (*output, error) {
			return a.change(ctx, in, node.FireNow, &When{}, nil)
		})
}

// bring brings a message.
func (a *API) bring(ctx context.Context, in asked, id string, action node.Action, body *Body) (*output, error) {
	in.caller, in.id, in.action = callerOf(ctx), id, action
	var p *ProblemError
	if in.record, p = body.record(id, action, a.Now()); p != nil {
		return nil, p
	}
	if !utf8.Valid(in.raw) {
		return nil, newProblem(http.StatusBadRequest, codeInvalid, "the body is not UTF-8: bytes that are no text go "+
			"in as {\"base64\": …}").at("body")
	}
	if p := a.checkCallback(in.Lane, body, &in.record); p != nil {
		return a.toldOr(ctx, &in, p, 0) // by the settings of this node, as they are by now
	}
	if p := a.full(ctx, &in); p != nil {
		return a.toldOr(ctx, &in, p, 0)
	}
	out, err := a.instruct(ctx, &in)
	if err == nil && out.Status == http.StatusCreated && !out.Body.Repeated {
		a.quotas.brought(in.caller.name)
	}
	return out, err
}

// full returns the problem of one message more where too many wait already; nil if there is room for it.
func (a *API) full(ctx context.Context, in *asked) *ProblemError {
	if a.found.full(ctx, in.caller.name, in.Lane, time.Now()) {
		return newProblem(http.StatusTooManyRequests, string(node.TooManyTargets), "messages for so many other lanes "+
			"that nobody has named wait already that this token may add none: there may be "+
			strconv.Itoa(node.MostFound)+", shared out among tokens and routes").after(countInterval).at("path.lane")
	}
	who, limit := &in.caller, a.Limits.Waiting
	if who.scopes.Waiting > 0 {
		limit = who.scopes.Waiting
	}
	if full, waiting := a.quotas.full(ctx, who.name, &who.scopes, limit, time.Now()); full {
		return newProblem(http.StatusTooManyRequests, codeFull, "about "+strconv.Itoa(waiting)+" messages wait "+
			"already on the lanes that this token may write to, and "+strconv.Itoa(limit)+" may").after(countInterval)
	}
	return nil
}

// checkCallback returns the problem of a message for a callback lane whose request would never be made, and of one for
// another lane that says what to request; nil for none.
func (a *API) checkCallback(lane string, body *Body, record *node.Record) *ProblemError {
	switch {
	case !node.IsCallback(lane) && (body.URL != "" || body.Method != ""):
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, "a message for a topic is no request: url and "+
			"method are for lanes that begin with "+node.CallbackPrefix).at("body.url")
	case !node.IsCallback(lane) || a.Callback == nil:
		return nil
	}
	if err := a.Callback(lane, record.Headers); err != nil {
		field := "body.url"
		if strings.Contains(err.Error(), node.HeaderMethod) {
			field = "body.method"
		}
		return newProblem(http.StatusUnprocessableEntity, codeInvalid, asFields(err.Error())).at(field)
	}
	return nil
}

// change changes a message that is there.
func (a *API) change(
	ctx context.Context, in *IDInput, action node.Action, when *When, raw []byte,
) (*output, error) {
	return a.instruct(ctx, &asked{
		LaneInput: in.LaneInput, caller: callerOf(ctx), id: in.ID, action: action,
		record: when.record(in.ID, action, a.Now()),
		only:   in.IfMatch, raw: raw,
	})
}

// instruct gives an instruction to the store, and answers with its outcome.
func (a *API) instruct(ctx context.Context, in *asked) (*output, error) {
	item, err := a.Node.Read(in.record, in.Lane, a.Now)
	if err != nil {
		return a.unread(ctx, in, unfit(err))
	}
	if in.conditional() {
		if item.Only, err = parseETag(in.only); err != nil || item.Only == uuid.Nil {
			return nil, newProblem(http.StatusPreconditionFailed, codeChanged, "the ETag is none that a look at the "+
				"message "+
				"has shown, so nothing was done").at("header.If-Match")
		}
	}
	beyond, err := a.beyond(ctx, &item)
	if err != nil {
		return nil, a.unseen(err)
	}
	if beyond != nil {
		return a.toldOr(ctx, in, beyond, node.AnswerKept)
	}
	item.Incarnation, item.Request = uuid.New(), in.request()
	result, err := a.give(ctx, item, in.record)
	if err != nil {
		return nil, a.untaken(err, in.Key != "")
	}
	if result.Told.Print == item.Request.Print {
		if !in.isOf(result.Told) {
			return nil, a.untaken(errors.New("the answer is about another message"), in.Key != "")
		}
		return a.answer(in, result.Told)
	}
	if p := in.refused(result.Told); p != nil {
		return nil, p
	}
	return nil, newProblem(http.StatusUnprocessableEntity, codeKeyUsed, "another request has had that "+
		"Idempotency-Key "+
		"within a day, so nothing was done: a new request needs a new one").at("header.Idempotency-Key")
}

// give gives an item to whoever decides on it.
func (a *API) give(ctx context.Context, item node.Item, record node.Record) (node.ItemResult, error) {
	if a.Through != nil {
		return a.Through(ctx, item, record)
	}
	return a.intake.Ask(ctx, item)
}

// answer returns the answer to a request that was decided on, now or before.
func (a *API) answer(in *asked, told *node.Told) (*output, error) {
	a.observe(Instruction{Lane: in.Lane, Action: in.action, Outcome: told.Outcome, Again: told.Again})
	return answer(told, in.conditional())
}

// conditional reports whether one message is meant, and no other.
func (in *asked) conditional() bool { return in.only != "" && strings.TrimSpace(in.only) != anyETag }

// beyond returns the problem of having a message come out after the last instant at which it may: it would expire, and
// the answer would say that it comes. Nil for none. It looks before the store decides, and so it does not see a message
// that takes the other's place in between, and has a limit of its own.
func (a *API) beyond(ctx context.Context, item *node.Item) (*ProblemError, error) {
	if item.Action != node.Reschedule && item.Action != node.FireNow {
		return nil, nil
	}
	found, err := a.Store.Find(ctx, item.ID, inspect.Parts{})
	if err != nil {
		return nil, err
	}
	for i := range found {
		m := &found[i]
		if m.Lane != item.Lane || m.NotAfter.IsZero() || !item.Deadline.After(m.NotAfter) ||
			item.Only != uuid.Nil && item.Only != m.Incarnation {
			continue
		}
		last, deadline := m.NotAfter.UTC().Format(time.RFC3339Nano), item.Deadline.UTC().Format(time.RFC3339Nano)
		return newProblem(http.StatusUnprocessableEntity, string(node.InvalidNotAfter), "the message may come out "+
			"until "+last+" (not_after), so at "+deadline+" it would be dropped: replace it, if it is to come out "+
			"nevertheless").at("body.deadline"), nil
	}
	return nil, nil
}

// request names a request. Two clients that happen to choose the same key do not meet: each has a token of its own. The
// print is of all that makes a difference; an id that is made here makes none.
func (in *asked) request() *node.Request {
	id := in.id
	if in.made {
		id = ""
	}
	request := &node.Request{
		ID: uuid.New(), Keep: unnamedKept,
		Print: hashed("print", in.Lane, id, strconv.FormatBool(in.made), in.action.String(), in.only, string(in.raw)),
	}
	if in.Key != "" {
		request.ID, request.Keep = hashed("request", in.caller.name, in.Key), node.AnswerKept
	}
	return request
}

// isOf reports whether an answer is about the lane and the id of a request. An id that is made here is another one when
// the request is repeated.
func (in *asked) isOf(told *node.Told) bool {
	return told.Message.Lane == in.Lane && (in.made || told.Message.ID == in.id)
}

// hashed returns a UUID that is a hash of words: of their bytes, whether they are UTF-8 or not.
func hashed(words ...string) uuid.UUID {
	space, before, text := uuid.NameSpaceURL, "chronos:[", words
	if slices.ContainsFunc(words, func(word string) bool { return !utf8.ValidString(word) }) {
		before, text = "chronos bytes:[", make([]string, len(words)) // JSON has one sign for all bytes that are none
		for i, word := range words {
			text[i] = hex.EncodeToString([]byte(word))
		}
	}
	// The hash is of an array in JSON, which is as long as all messages: it is made piece by piece.
	sum := sha256.New()
	sum.Write(space[:])
	for _, word := range text {
		sum.Write([]byte(before + `"`))
		for len(word) > 0 {
			n := min(len(word), 32<<10)
			for n < len(word) && !utf8.RuneStart(word[n]) {
				n--
			}
			piece, err := json.Marshal(word[:n])
			if err != nil {
				panic(err) // strings always can be
			}
			sum.Write(piece[1 : len(piece)-1])
			word = word[n:]
		}
		before = `",`
	}
	sum.Write([]byte(`"]`))
	id := uuid.UUID(sum.Sum(nil)[:16])
	id[6], id[8] = id[6]&0x0f|8<<4, id[8]&0x3f|0x80
	return id
}

// answer returns the answer to a request.
func answer(told *node.Told, only bool) (*output, error) {
	out := &output{Status: http.StatusOK, Body: Outcome{
		ID: told.Message.ID, Lane: told.Message.Lane, Outcome: Word(told.Outcome.String()),
		Deadline: instantOf(told.Deadline), Former: instantOf(told.Former), Sequence: told.Sequence,
		MayAppear: told.MayAppear, Lineage: told.Lineage, Repeated: told.Again,
	}}
	if told.Incarnation != uuid.Nil {
		out.Body.Incarnation, out.ETag = told.Incarnation.String(), etag(told.Incarnation)
	}
	problem := func(status int, code, detail string) error {
		p := newProblem(status, code, detail)
		p.Outcome = &out.Body
		if out.ETag != "" {
			p.headers = http.Header{"Etag": {out.ETag}}
		}
		return p
	}
	switch {
	case told.Outcome == node.Scheduled:
		out.Status, out.Location = http.StatusCreated, path(told.Message.Lane, told.Message.ID)
	case told.Outcome == node.TooLate:
		return nil, problem(http.StatusConflict, told.Outcome.String(), "It is too late: the message comes out as it "+
			"is, if it "+
			"has not come out just now. A node has claimed it, or somebody was told before that it comes out.")
	case told.Outcome == node.NotFound && only:
		return nil, problem(http.StatusPreconditionFailed, codeChanged, "Nothing was done, because the message of "+
			"that ETag is "+
			"not there any more: it has come out, or somebody has changed it.")
	case told.Outcome == node.NotFound:
		return nil, problem(http.StatusNotFound, codeNotFound, "No message of that id waits on that lane: it has "+
			"come out, or "+
			"there never was one.")
	}
	return out, nil
}

// path returns where a message is to be found.
func path(lane, id string) string {
	return "/v1/lanes/" + escape(lane) + "/messages/" + escape(id)
}

// escape returns a part of a path that stands for itself, also where it is a dot or two.
func escape(part string) string {
	if part == "." || part == ".." {
		return strings.ReplaceAll(part, ".", "%2E")
	}
	return url.PathEscape(part)
}

func etag(incarnation uuid.UUID) string { return `"` + incarnation.String() + `"` }

func parseETag(text string) (uuid.UUID, error) {
	return uuid.Parse(strings.Trim(strings.TrimSpace(text), `"`))
}

// instantOf returns an instant; nil for the zero value.
func instantOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
