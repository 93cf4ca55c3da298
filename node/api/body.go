package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node"
)

// Body is a message that is to come out later, and when. All that it asks for a record can ask for by its headers, and
// means the same there: docs/CONTROL.md, docs/SERIES.md.
type Body struct {
	When

	NotAfter   string       `json:"not_after,omitempty" maxLength:"64" doc:"The last instant at which it may come out."`
	Recurrence *Recurrence  `json:"recurrence,omitempty" doc:"Where it is to come out again and again."`
	Key        *Data        `json:"key,omitempty" doc:"The key of the record."`
	Value      *Data        `json:"value,omitempty" doc:"The value of the record, or the body of the callback."`
	Headers    []BodyHeader `json:"headers,omitempty" maxItems:"1000" doc:"Those of the record or the callback."`
	URL        string       `json:"url,omitempty" maxLength:"4096" doc:"On a lane http:NAME: where to."`
	Method     string       `json:"method,omitempty" maxLength:"16" doc:"Of that request. Default POST."`
}

// When says when a message is to come out: by a deadline or by a delay, and not by both.
type When struct {
	Deadline string `json:"deadline,omitempty" maxLength:"64" doc:"An instant, such as 2030-01-31T09:00:00Z."`
	Delay    string `json:"delay,omitempty" maxLength:"64" doc:"In how long from now, such as 90m, 1h30m or PT90M."`
}

// Recurrence makes a message a series.
type Recurrence struct {
	Repeat string `json:"repeat" maxLength:"256" doc:"Such as every 20s, 30 9 * * mon-fri or @daily."`
	Zone   string `json:"zone,omitempty" maxLength:"64" doc:"Such as Europe/Berlin. Default UTC."`
	Count  int64  `json:"count,omitempty" minimum:"1" doc:"How many occurrences there are. Default no end."`
	Until  string `json:"until,omitempty" maxLength:"64" doc:"The last instant at which there may be one."`
	Missed string `json:"missed,omitempty" enum:"one,all,skip" doc:"Which of those that were missed come out."`
}

// BodyHeader is a header of a record, or of a callback.
type BodyHeader struct {
	Name  string `json:"name" maxLength:"1024"`
	Value *Data  `json:"value,omitempty" doc:"Null where it is left out."`
}

// Data are bytes. In JSON they are a text, or an object that has one of text, json and base64: {"json": {"order": 1}}
// are the bytes of the JSON value as they stand in the body, and base64 may be any bytes.
type Data struct {
	Bytes []byte

	isJSON bool
}

// MarshalJSON writes a text, or base64 where the bytes are none.
func (d *Data) MarshalJSON() ([]byte, error) {
	if text := string(d.Bytes); utf8Valid(text) {
		return json.Marshal(text)
	}
	return json.Marshal(map[string][]byte{"base64": d.Bytes})
}

// dataForm says what data must be.
const dataForm = "it must be a text, or an object with one of text, json and base64"

// UnmarshalJSON reads one of the forms.
func (d *Data) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		d.Bytes = []byte(text)
		return whole(raw)
	}
	var forms struct {
		Text   *string         `json:"text"`
		JSON   json.RawMessage `json:"json"`
		Base64 *string         `json:"base64"`
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&forms); err != nil {
		return errors.New(dataForm)
	}
	switch {
	case forms.Text != nil && forms.JSON == nil && forms.Base64 == nil:
		d.Bytes = []byte(*forms.Text)
		return whole(raw)
	case forms.JSON != nil && forms.Text == nil && forms.Base64 == nil:
		d.Bytes, d.isJSON = forms.JSON, true
	case forms.Base64 != nil && forms.Text == nil && forms.JSON == nil:
		decoded, err := base64.StdEncoding.DecodeString(*forms.Base64)
		if err != nil {
			return errors.New("it is not base64")
		}
		d.Bytes = decoded
	default:
		return errors.New(dataForm)
	}
	return nil
}

// whole returns an error for a text in JSON, or an object with one, that has no character where it says that there is
// one.
func whole(raw []byte) error {
	if !node.WholeJSON(raw) {
		return errors.New("there is half a surrogate pair in it, which is no character")
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (*Data) Schema(huma.Registry) *huma.Schema {
	text := &huma.Schema{Type: huma.TypeString}
	one := func(name string, schema *huma.Schema) *huma.Schema {
		s := &huma.Schema{
			Type: huma.TypeObject, Properties: map[string]*huma.Schema{name: schema}, Required: []string{name},
			AdditionalProperties: false,
		}
		s.PrecomputeMessages()
		return s
	}
	s := &huma.Schema{
		Description: "Bytes: a text, or an object with one of text, json and base64.",
		OneOf: []*huma.Schema{
			text, one("text", &huma.Schema{Type: huma.TypeString}), one("json", &huma.Schema{}),
			// An extension, since the validator of huma takes no empty text for base64. UnmarshalJSON has looked at it.
			one("base64", &huma.Schema{
				Type: huma.TypeString, Extensions: map[string]any{"contentEncoding": "base64"},
			}),
		},
	}
	s.PrecomputeMessages()
	return s
}

func (d *Data) bytes() []byte {
	if d == nil {
		return nil
	}
	if d.Bytes == nil {
		return []byte{}
	}
	return d.Bytes
}

// contentType is the header that tells the receiver of a callback what it gets.
const contentType = "Content-Type"

// record returns the record that would ask for the same.
func (b *Body) record(id string, action node.Action, now time.Time) (node.Record, *ProblemError) {
	r := b.When.record(id, action, now)
	add := func(name, value string) {
		if value != "" {
			r.Headers = append(r.Headers, node.Header{Name: name, Value: []byte(value)})
		}
	}
	add(node.HeaderNotAfter, b.NotAfter)
	if s := b.Recurrence; s != nil {
		r.Headers = append(r.Headers, node.Header{Name: node.HeaderRepeat, Value: []byte(s.Repeat)})
		add(node.HeaderRepeatZone, s.Zone)
		if s.Count != 0 {
			add(node.HeaderRepeatCount, strconv.FormatInt(s.Count, 10))
		}
		add(node.HeaderRepeatUntil, s.Until)
		add(node.HeaderMissed, s.Missed)
	}
	add(node.HeaderURL, b.URL)
	add(node.HeaderMethod, b.Method)
	for i, h := range b.Headers {
		if node.IsRequest(h.Name) || h.Name == node.HeaderURL || h.Name == node.HeaderMethod {
			return r, newProblem(http.StatusUnprocessableEntity, codeInvalid, fmt.Sprintf(
				"the name %q is one of Chronos: what it asks for has a field of its own in the body", h.Name)).
				at(fmt.Sprintf("body.headers[%d].name", i))
		}
		r.Headers = append(r.Headers, node.Header{Name: h.Name, Value: h.Value.bytes()})
	}
	r.Key, r.Value = b.Key.bytes(), b.Value.bytes()
	if b.URL != "" && b.Value != nil && b.Value.isJSON && !slices.ContainsFunc(r.Headers, func(h node.Header) bool {
		return strings.EqualFold(h.Name, contentType)
	}) {
		r.Headers = append(r.Headers, node.Header{Name: contentType, Value: []byte("application/json")})
	}
	return r, nil
}

// record returns the record that would ask for an action then.
func (w *When) record(id string, action node.Action, now time.Time) node.Record {
	r := node.Record{Timestamp: now, Headers: []node.Header{{Name: node.HeaderID, Value: node.AsHeader(id)}}}
	if action != node.Schedule {
		r.Headers = append(r.Headers, node.Header{Name: node.HeaderAction, Value: []byte(action.String())})
	}
	if w.Deadline != "" {
		r.Headers = append(r.Headers, node.Header{Name: node.HeaderDeadline, Value: []byte(w.Deadline)})
	}
	if w.Delay != "" {
		r.Headers = append(r.Headers, node.Header{Name: node.HeaderDelay, Value: []byte(w.Delay)})
	}
	return r
}
