package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"chronos/node/api"
)

// unknown returns a body with that many members that no schema has.
func unknown(members int, name string) string {
	var b strings.Builder
	for i := range members {
		fmt.Fprintf(&b, `,"%s%d":1`, name, i)
	}
	return "{" + strings.TrimPrefix(b.String(), ",") + "}"
}

// allocated returns how many bytes a call allocates.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Goal: what a request costs that is refused is in proportion to its size, and its answer is short. Method: bodies that
// have very many errors. What they allocate stands for their work: it does not depend on the machine.
func TestRefusedIsCheap(t *testing.T) {
	w := newWorld(t, nil)
	for name, body := range map[string]string{
		"unknown members":        unknown(3_000, "m"),
		"more unknown members":   unknown(100_000, "m"),
		"members with a dot":     unknown(100_000, "a."),
		"one long name":          unknown(1, strings.Repeat("x", 1<<20)),
		"headers that are none":  `{"headers":[` + strings.Repeat("0,", 500_000) + `0]}`,
		"headers":                `{"headers":[` + strings.Repeat("{},", 300_000) + `{}]}`,
		"2,000 headers":          `{"headers":[` + strings.Repeat(`{"x":1},`, 2_000) + `{}]}`,
		"a value in a value":     strings.Repeat(`{"value":`, 5_000) + "1" + strings.Repeat("}", 5_000),
		"a long text":            `{"delay":"` + strings.Repeat("<", 1<<20) + `"}`,
		"unknown, in a value":    `{"value":{"json":1,"x":{"json":` + unknown(100_000, "m") + `}}}`,
		"a delay that is a list": `{"delay":{"json":[` + strings.Repeat("[],", 200_000) + `[]]}}`,
	} {
		var got *reply
		bytes := allocated(func() { got = w.ask(t, "PUT", "/v1/lanes/out/messages/x", body) })
		if got.code != 422 {
			t.Errorf("%s: status %d, %.200s", name, got.code, got.text)
		}
		if len(got.text) > 16<<10 || len(got.Errors) > 10 {
			t.Errorf("%s: %d errors in %d bytes", name, len(got.Errors), len(got.text))
		}
		if most := uint64(4<<20 + 30*len(body)); bytes > most {
			t.Errorf("%s: %d bytes are allocated for a body of %d, want %d at most", name, bytes, len(body), most)
		}
	}
	some := w.ask(t, "PUT", "/v1/lanes/out/messages/x", unknown(100, "m"))
	if len(some.Errors) != 10 || !strings.Contains(some.Detail, "90 more errors") {
		t.Errorf("of 100 errors %d are shown, and the sentence is %q", len(some.Errors), some.Detail)
	}
}

// Goal: what may be any JSON is still taken whole, however many values it has.
func TestAnyJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	value := `[` + strings.Repeat(`{"a.b":[1,"x"]},`, 40_000) + `{}]`
	body := `{"delay":"1h","value":{"json":` + value + `},"headers":[{"name":"h","value":{"json":{"x[0]":1}}}]}`
	w.ask(t, "PUT", "/v1/lanes/out/messages/x", body).want(t, 201, "scheduled")
	rows := w.store.Dump()
	if len(rows) != 1 || string(rows[0].Value) != value || string(rows[0].Headers[0].Value) != `{"x[0]":1}` {
		t.Errorf("%d messages are stored, the first with %d bytes", len(rows), len(rows[0].Value))
	}
}

// unread is a body that nobody may read.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, io.EOF
}

// Goal: whoever may not ask for something is told so before anything of the request is read. Method: every operation
// with a body, by tokens whose scopes do not allow it, with a body that must not be read.
func TestScopesBeforeBodies(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "reader read "+s1+"\nother write:mails.* "+s2+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, nil)
	for _, c := range []struct{ method, path string }{
		{"PUT", "/v1/lanes/out/messages/x"},
		{"POST", "/v1/lanes/out/messages"},
		{"PATCH", "/v1/lanes/out/messages/x"},
		{"PUT", "/v1/queues/q"},
		{"POST", "/v1/queues"},
		{"PUT", "/v1/tasks/x"},
		{"POST", "/v1/tasks"},
		{"POST", "/v1/tasks/x/complete"},
		{"PUT", "/v1/actions/x"},
		{"POST", "/v1/actions"},
	} {
		for _, token := range []string{s1, s2, "nobody-s-token.."} {
			r := httptest.NewRequestWithContext(t.Context(), c.method, c.path, unread{t})
			r.Header.Set("Authorization", "Bearer "+token)
			r.ContentLength = 1 << 20
			recorder := httptest.NewRecorder()
			w.handler.ServeHTTP(recorder, r)
			if want := map[bool]int{true: 401, false: 403}[token == "nobody-s-token.."]; recorder.Code != want {
				t.Errorf("%s %s with %s: status %d, want %d", c.method, c.path, token, recorder.Code, want)
			}
		}
	}
}

// Goal: nothing is done for a client that has gone before its body was read.
func TestClientThatHasGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx, gone := context.WithCancel(t.Context())
	gone()
	for _, body := range []string{`{"delay":"1h"}`, unknown(3_000, "m")} {
		r := httptest.NewRequestWithContext(ctx, "PUT", "/v1/lanes/out/messages/x", strings.NewReader(body))
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		if got := recorder.Body.String(); !strings.Contains(got, "the client has gone") || len(w.store.Dump()) != 0 {
			t.Errorf("%d %s, and %d messages are stored", recorder.Code, got, len(w.store.Dump()))
		}
	}
}

// Goal: a condition that is empty is none that a message meets, and a name that is empty names no request. Method:
// every operation that has them, on a message that is there.
func TestEmptyHeaders(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x = "/v1/lanes/out/messages/x"
	w.ask(t, "PUT", x, `{"delay":"1h"}`).want(t, 201, "scheduled")
	for _, c := range [][3]string{
		{"DELETE", x, ""},
		{"PATCH", x, `{"delay":"2h"}`},
		{"PUT", x + "?on-duplicate=replace", `{"delay":"2h"}`},
		{"POST", x + ":fire", ""},
	} {
		for _, value := range []string{"", " ", "\t"} {
			got := w.ask(t, c[0], c[1], c[2], "If-Match", value)
			if got.code != 412 || got.field() != "header.If-Match" {
				t.Errorf("%s with If-Match %q: %d %s", c[0], value, got.code, got.text)
			}
			got = w.ask(t, c[0], c[1], c[2], "Idempotency-Key", value)
			if got.code != 422 || got.field() != "header.Idempotency-Key" {
				t.Errorf("%s with Idempotency-Key %q: %d %s", c[0], value, got.code, got.text)
			}
		}
	}
	w.ask(t, "DELETE", x, "").want(t, 200, "cancelled")
}

// Goal: Idempotency-Keys are the same only if their bytes are. Method: keys that are no UTF-8, and one that looks like
// how another is written.
func TestKeysAreBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i, key := range []string{"\xff\xfe", "\xfe\xff", "\xff", "�", "fffe", "\xc3", "é"} {
		path := fmt.Sprintf("/v1/lanes/out/messages/x%d", i)
		w.ask(t, "PUT", path, `{"delay":"1h"}`, "Idempotency-Key", key).want(t, 201, "scheduled")
		again := w.ask(t, "PUT", path, `{"delay":"1h"}`, "Idempotency-Key", key).want(t, 201, "scheduled")
		if !again.Repeated {
			t.Errorf("%q: the second request is not known as the first: %s", key, again.text)
		}
	}
}

// Goal: a filter that cannot be read is refused, and no list is of everything in its place.
func TestMalformedFilters(t *testing.T) {
	t.Parallel()
	_, w := newServer(t, api.Config{Listen: "127.0.0.1:0"}, nil)
	for _, query := range []string{
		"key=base64:%%%", "key=base64:!!", "key=base64:%25%25", "header=x=base64:%%%", "header=x=base64:!!",
		"header==x", "header=%zz", "key=a;header=b",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/lanes/out/messages", nil)
		r.URL.RawQuery, r.Host = query, "127.0.0.1"
		recorder := httptest.NewRecorder()
		if w.handler.ServeHTTP(recorder, r); recorder.Code != 422 {
			t.Errorf("%s: status %d, %s", query, recorder.Code, recorder.Body)
		}
	}
}

// Goal: listener.CheckMembers and FormatJSON take for granted what these schemas are: an object in a body has less than
// 100 members and no others, a list is bounded, a name has no dot, and what may be anything is called json.
func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	text, err := api.Describe()
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Paths      map[string]map[string]struct{ RequestBody any }
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	looked := 0
	var look func(at string, schema map[string]any)
	look = func(at string, schema map[string]any) {
		looked++
		if ref, is := schema["$ref"].(string); is {
			look(at, all.Components.Schemas[ref[strings.LastIndex(ref, "/")+1:]].(map[string]any))
		}
		properties, _ := schema["properties"].(map[string]any)
		if schema["type"] == "object" && (schema["additionalProperties"] != false || len(properties) > 99) {
			t.Errorf("%s takes any members, or very many: %v", at, schema)
		}
		if items, is := schema["items"].(map[string]any); is {
			if most, is := schema["maxItems"].(float64); !is || most > 1000 {
				t.Errorf("%s is a list without a bound: %v", at, schema)
			}
			look(at+"[]", items)
		}
		for name, property := range properties {
			anything := len(property.(map[string]any)) == 0
			if strings.ContainsAny(name, ".[") || len(name) > 100 || (name == "json") != anything {
				t.Errorf("%s.%s: %v", at, name, property)
			}
			look(at+"."+name, property.(map[string]any))
		}
		alternatives, _ := schema["oneOf"].([]any)
		for _, one := range alternatives {
			look(at, one.(map[string]any))
		}
	}
	for path, operations := range all.Paths {
		for method, operation := range operations {
			body, is := operation.RequestBody.(map[string]any)
			if !is {
				continue
			}
			for kind, content := range body["content"].(map[string]any) {
				look(method+" "+path+" "+kind, content.(map[string]any)["schema"].(map[string]any))
			}
		}
	}
	if looked < 50 {
		t.Errorf("%d schemas are looked at", looked)
	}
}
