package listener_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"chronos/node/listener"
)

// Goal: JSON with more values than anything here has is refused before it is decoded, and so are names that no member
// has; what may be anything does not count.
func TestCheckJSON(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("{},", 20_000), ",")
	for _, c := range []struct {
		body            string
		values, members string // a part of the error; "" for none
	}{
		{`{"a":1}`, "", ""},
		{``, "", ""},
		{`{`, "", ""},
		{`"`, "", ""},
		{`{"a\`, "", ""},
		{`{"a":"` + strings.Repeat("[,{", 20_000) + `"}`, "", ""},
		{`{"a":"\"` + strings.Repeat("[,{", 20_000) + `"}`, "", ""},
		{`[` + many + `]`, "10000 values", "10000 values"},
		{`{"a":[` + many, "10000 values", "10000 values"},
		{strings.Repeat("[", 20_000), "10000 values", "10000 values"},
		{`{"value":{"json":[` + many + `]}}`, "10000 values", ""},
		{`{"value":{"\u006ason" : [` + many + `]}, "b": 1}`, "10000 values", ""},
		{`{"json":[` + many + `]}`, "10000 values", "10000 values"},
		{`{"value":{"json":1},"b":[` + many + `]}`, "10000 values", "10000 values"},
		{`{"value":{"json":{"a.b":1}}}`, "", ""},
		{`{"a.b":1}`, "", `no member "a.b"`},
		{`{"a\u002eb":1}`, "", `no member "a.b"`},
		{`{"a":[{"b[":1}]}`, "", `no member "b["`},
		{`{"` + strings.Repeat("x", 200) + `":1}`, "", `no member "xx`},
		{`{"` + strings.Repeat("x", 2_000) + `":1}`, "", `no member "xx`},
	} {
		for check, want := range map[string]string{"values": c.values, "members": c.members} {
			err := map[string]func([]byte) error{
				"values": listener.CheckValues, "members": listener.CheckMembers,
			}[check]([]byte(c.body))
			said := fmt.Sprint(err)
			if (err == nil) != (want == "") || !strings.Contains(said, want) || len(said) > 300 {
				t.Errorf("%s of %.60s: %v, want %q", check, c.body, err, want)
			}
		}
	}
}

// Goal: the validator is shown all but what may be anything. Method: the same JSON with and without that.
func TestFormatJSON(t *testing.T) {
	read := listener.FormatJSON()["application/json"].Unmarshal
	for body, want := range map[string]string{
		`{"a":[1,"x",null]}`:                                         `{"a":[1,"x",null]}`,
		`{"value":{"json":{"a":[1,2]}}}`:                             `{"value":{"json":0}}`,
		`{"value": {"json" : "a]}\"," } ,"b":{"c":[{"json":[]},2]}}`: `{"b":{"c":[{"json":0},2]},"value":{"json":0}}`,
		`{"json":[1],"value":{"json":-1.5e3,"x":{"json":null}}}`:     `{"json":[1],"value":{"json":0,"x":{"json":0}}}`,
	} {
		var got any
		if err := read([]byte(body), &got); err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		if text, err := json.Marshal(got); err != nil || string(text) != want {
			t.Errorf("%s is shown as %s, %v; want %s", body, text, err, want)
		}
	}
	var got any
	if err := read([]byte(`{"value":{"json":[1,}}`), &got); err == nil {
		t.Errorf("JSON that is malformed within a member json is shown as %v", got)
	}
	var whole struct {
		Value struct{ JSON json.RawMessage }
	}
	if err := read([]byte(`{"value":{"json":[1,2]}}`), &whole); err != nil || string(whole.Value.JSON) != "[1,2]" {
		t.Errorf("what is decoded is %+v, %v", whole, err)
	}
}

// Goal: what an answer says of errors is bounded, whatever they are, and says how many more there are.
func TestBound(t *testing.T) {
	var found []*huma.ErrorDetail
	for i := range 5_000 {
		found = append(found, &huma.ErrorDetail{
			Message: strings.Repeat("\x01<&", 10_000), Location: strings.Repeat("é", 10_000),
			Value: []any{i, map[string]any{"all": strings.Repeat("x", 10_000)}, strings.Repeat("<", 10_000), 1.5}[i%4],
		})
	}
	for name, c := range map[string]struct {
		found []*huma.ErrorDetail
		more  string
	}{
		"none": {nil, ""}, "one": {found[:1], ""}, "many": {found, " more errors are not shown)"},
		"small": {[]*huma.ErrorDetail{
			{Message: "a"},
			{Message: "b"},
			{Message: "c"},
			{Message: "d"},
			{Message: "e"},
			{Message: "f"},
			{Message: "g"},
			{Message: "h"},
			{Message: "i"},
			{Message: "j", Value: "v"},
			{Message: "k"},
			{Message: "l"},
		}, " (2 more errors are not shown)"},
	} {
		said, shown := listener.Bound(strings.Repeat("\x01", 100_000), c.found)
		text, err := json.Marshal(map[string]any{"detail": said, "errors": shown})
		if err != nil || len(text) > 16<<10-500 || len(shown) > 10 || !strings.HasSuffix(said, c.more) {
			t.Errorf("%s: %d errors in %d bytes, %v; the sentence ends with %q", name, len(shown), len(text), err,
				said[max(0, len(said)-40):])
		}
		for _, one := range shown {
			if value := fmt.Sprint(one.Value); len([]rune(value)) > 101 || strings.HasPrefix(value, "map") {
				t.Errorf("%s: a value is shown as %s", name, value)
			}
		}
	}
}
