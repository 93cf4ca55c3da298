package api_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"chronos/node/api"
)

// description returns the operations of docs/openapi.json: by path and method, the statuses that they answer.
var description = sync.OnceValue(func() map[string]map[string]map[string]bool {
	text, err := api.Describe()
	if err != nil {
		panic(err)
	}
	var all struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err)
	}
	statuses := map[string]map[string]map[string]bool{}
	for path, operations := range all.Paths {
		statuses[path] = map[string]map[string]bool{}
		for method, operation := range operations {
			statuses[path][method] = map[string]bool{}
			for status := range operation.Responses {
				statuses[path][method][status] = true
			}
		}
	}
	return statuses
})

// documented asks that the description has the status that an operation has answered: of all that the tests of this
// package ask.
func documented(t *testing.T, r *http.Request, code int) {
	t.Helper()
	for path, operations := range description() {
		operation, is := operations[strings.ToLower(r.Method)]
		if is && isAt(r.URL.EscapedPath(), path) && !operation[strconv.Itoa(code)] {
			t.Errorf("%s %s: status %d, which docs/openapi.json does not have for %s", r.Method, r.URL, code, path)
		}
	}
}

// isAt reports whether a path is one of a template.
func isAt(path, template string) bool {
	parts, wanted := strings.Split(path, "/"), strings.Split(template, "/")
	if len(parts) != len(wanted) {
		return false
	}
	for i, part := range wanted {
		name, word, _ := strings.Cut(part, "}")
		switch {
		case name[:min(1, len(name))] != "{" && part != parts[i]:
			return false
		case word != "" && !strings.HasSuffix(parts[i], word):
			return false
		case word == "" && i == len(wanted)-1 && strings.HasSuffix(parts[i], ":fire"):
			return false
		}
	}
	return true
}

// Goal: what stores something new is described with a 201 that has the schema of its 200, and what has no body without
// the answers to a body.
func TestDescribesCreated(t *testing.T) {
	t.Parallel()
	text, err := api.Describe()
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Paths map[string]map[string]struct {
			RequestBody any
			Responses   map[string]struct{ Content map[string]any }
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	show := func(of map[string]any) string { text, _ := json.Marshal(of); return string(text) }
	for path, operations := range all.Paths {
		for method, operation := range operations {
			stores := method == "put" || method == "post" && !strings.HasSuffix(path, ":fire") &&
				!strings.HasSuffix(path, "/complete")
			created, is := operation.Responses["201"]
			if is != stores || is && show(created.Content) != show(operation.Responses["200"].Content) {
				t.Errorf("%s %s: 201 is %v, 200 is %v", method, path, created, operation.Responses["200"])
			}
			for _, status := range []string{"400", "408", "413", "415"} {
				if _, is := operation.Responses[status]; is != (operation.RequestBody != nil) {
					t.Errorf("%s %s has an answer %s: %v", method, path, status, is)
				}
			}
		}
	}
	if strings.Contains(string(text), "ErrorModel") {
		t.Error("there is a schema that nothing is of")
	}
}

// Goal: who writes a value in a form of their own is told in one sentence what to write.
func TestForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const data = `write a text, or JSON as {"json": {"order":1}}, or bytes as {"base64": "AP8="}`
	const instant = `write an instant as a text, such as "2099-12-31T23:59:59Z"`
	const headers = `headers: write a list, such as [{"name":"a","value":"b"}]`
	const delay = `delay: write how long as a text with its unit, such as "3600s", "1h" or "PT1H"`
	for body, want := range map[string]string{
		`{"delay":"1h","value":{"order":1}}`:                    "value: " + data,
		`{"delay":"1h","value":17}`:                             "value: " + data,
		`{"delay":"1h","value":[1]}`:                            "value: " + data,
		`{"delay":"1h","value":{"json":1,"text":"x"}}`:          "value: " + data,
		`{"delay":"1h","key":true}`:                             "key: " + data,
		`{"delay":"1h","headers":[{"name":"a","value":17}]}`:    "headers[0].value: " + data,
		`{"delay":"1h","headers":{"a":"b"}}`:                    headers,
		`{"delay":3600}`:                                        delay,
		`{"deadline":1795900401}`:                               "deadline: " + instant,
		`{"delay":"1h","not_after":1795900401}`:                 "not_after: " + instant,
		`{"recurrence":{"repeat":"@daily","until":1795900401}}`: "recurrence.until: " + instant,
		`{"delay":"1h","surprise":1}`:                           "surprise: unexpected property",
	} {
		got := w.ask(t, "PUT", "/v1/lanes/out/messages/x", body)
		if got.code != 422 || got.Detail != want {
			t.Errorf("%s: status %d, %s\nwant %s", body, got.code, got.Detail, want)
		}
	}
	for query, want := range map[string]string{
		"from=2030":       "from: write an instant such as 2099-12-31T23:59:59Z",
		"until=":          "until is empty: give an instant, such as 2099-12-31T23:59:59Z, or leave it out",
		"limit=1&from=":   "from is empty: give an instant, such as 2099-12-31T23:59:59Z, or leave it out",
		"limit=1&until=x": "until: write an instant such as 2099-12-31T23:59:59Z",
	} {
		if got := w.ask(t, "GET", "/v1/lanes/out/messages?"+query, ""); got.code != 422 || got.Detail != want {
			t.Errorf("%s: status %d, %s", query, got.code, got.Detail)
		}
	}
}

// Goal: what is not for a method says for which there is something at that path.
func TestAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, c := range []struct{ method, path, want string }{
		{"POST", "/v1/lanes/out/messages/x", "DELETE, GET, HEAD, PATCH, PUT"},
		{"OPTIONS", "/v1/lanes/out/messages/x", "DELETE, GET, HEAD, PATCH, PUT"},
		{"OPTIONS", "/v1/lanes/out/messages/x:fire", "DELETE, GET, HEAD, PATCH, POST, PUT"},
		{"DELETE", "/v1/lanes/out/messages", "GET, HEAD, POST"},
		{"PUT", "/v1/lanes/out/count", "GET, HEAD"},
	} {
		if got := w.ask(t, c.method, c.path, ""); got.code != 405 || got.header.Get("Allow") != c.want {
			t.Errorf("%s %s: status %d, Allow: %s", c.method, c.path, got.code, got.header.Get("Allow"))
		}
	}
}

// Goal: an id that has quotes itself stays as it is by HTTP, although the header of a record that is a JSON string in
// quotes is read as the string in it.
func TestQuotedID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	const x = "/v1/lanes/out/messages/%22x%22"
	if got := w.ask(t, "PUT", x, `{"delay":"1h"}`).want(t, 201, "scheduled"); got.ID != `"x"` {
		t.Errorf("it is stored as %s", got.ID)
	}
	w.ask(t, "GET", x, "").want(t, 200, "")
	w.ask(t, "DELETE", "/v1/lanes/out/messages/x", "").want(t, 404, "not_found")
	w.ask(t, "DELETE", x, "").want(t, 200, "cancelled")
}
