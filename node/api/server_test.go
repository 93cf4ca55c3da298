package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/api"
)

// The tokens of the tests.
const s1, s2, s3, s4 = "secret-number-1.", "secret-number-2.", "secret-number-3.", "secret-number-4."

// newServer returns the listener over a world of its own.
func newServer(t *testing.T, config api.Config, change func(*api.API)) (*api.Server, *world) {
	t.Helper()
	server, err := api.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, change)
	if err := server.Mount(w.api); err != nil {
		t.Fatal(err)
	}
	w.handler = server
	return server, w
}

// Goal: scopes are read as a person means them and written so that they are read the same; what is none is refused
// without showing a token.
func TestParseScopes(t *testing.T) {
	t.Parallel()
	for list, allows := range map[string]string{
		"read":                                 "r:out r:mails.a r:http:a",
		"write":                                "w:out w:mails.a w:http:a",
		"read,write:out":                       "r:out r:mails.a r:http:a w:out",
		"read:mails.*,write:http:*":            "r:mails.a w:http:a",
		"write:http:a,rate=5,waiting=10":       "w:http:a",
		"read:*,write:mails.a":                 "r:out r:mails.a r:http:a w:mails.a",
		"read:ma*,write:o*,read:out":           "r:out r:mails.a w:out",
		"write:http:a,write:http:b*,read:outx": "w:http:a",
		"read:ou,write:mails.,write:o":         "",
		"read:mails,write:http:aa,write:o":     "",
	} {
		scopes, err := api.ParseScopes(list)
		if err != nil {
			t.Errorf("%q: %v", list, err)
			continue
		}
		var got []string
		for _, lane := range []string{"out", "mails.a", "http:a"} {
			if scopes.MayRead(lane) {
				got = append(got, "r:"+lane)
			}
		}
		for _, lane := range []string{"out", "mails.a", "http:a"} {
			if scopes.MayWrite(lane) {
				got = append(got, "w:"+lane)
			}
		}
		if strings.Join(got, " ") != allows {
			t.Errorf("%q allows %v, want %s", list, got, allows)
		}
		if again, err := api.ParseScopes(scopes.String()); err != nil || again.String() != scopes.String() {
			t.Errorf("%q is written as %q, and read as %q, %v", list, scopes.String(), again.String(), err)
		}
	}
	for _, list := range []string{
		"", "admin", "read,", "read:", "read: out", "write:a b", "read:a*b", "rate=5", "read,rate=0", "read,rate=x",
		"read,waiting=-1", "read,burst=5", "Read", "write:http:", "write:é",
	} {
		if scopes, err := api.ParseScopes(list); err == nil {
			t.Errorf("%q is read as %q", list, scopes.String())
		}
	}
}

// Goal: a token lets its holder do what its scopes say on the lanes that they name, and nothing else; nobody gets in
// without one; and a file that is changed counts from the next request on. Method: every operation with every token.
func TestTokens(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "orders read:out,write:out "+s1+"\nmails write:mails.* "+s2+"\nviewer read "+s3+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, nil)
	as := func(token, method, path, body string) *reply {
		t.Helper()
		return w.ask(t, method, path, body, "Authorization", "Bearer "+token)
	}
	may := map[string]string{
		s1: "r:out w:out", s2: "w:mails.x", s3: "r:out r:mails.x r:http:a r:other",
	}
	for token, allowed := range may {
		for _, lane := range []string{"out", "mails.x", "http:a", "other"} {
			base := "/v1/lanes/" + lane
			for _, c := range []struct{ right, method, path, body string }{
				{"w", "PUT", base + "/messages/x", `{"delay":"1h","url":""}`},
				{"w", "POST", base + "/messages", `{"delay":"1h"}`},
				{"w", "PATCH", base + "/messages/x", `{"delay":"1h"}`},
				{"w", "POST", base + "/messages/x:fire", ``},
				{"w", "DELETE", base + "/messages/x", ``},
				{"r", "GET", base + "/messages/x", ``},
				{"r", "GET", base + "/messages", ``},
				{"r", "GET", base + "/count", ``},
			} {
				got := as(token, c.method, c.path, c.body)
				refused := got.code == 403 && got.Code == "out_of_scope"
				if want := !strings.Contains(" "+allowed+" ", " "+c.right+":"+lane+" "); refused != want {
					t.Errorf("%s: %s %s: status %d, want refused: %v: "+
						"%s", token, c.method, c.path, got.code, want, got.text)
				}
			}
		}
	}
	for _, headers := range [][]string{nil, {"Authorization", "Bearer " + s4}, {"Authorization", "Basic " + s1}} {
		got := w.ask(t, "GET", "/v1/lanes/out/count", "", headers...)
		if got.code != 401 || got.header.Get("WWW-Authenticate") == "" || got.Code != "unauthorized" {
			t.Errorf("%v: %d %s", headers, got.code, got.text)
		}
	}
	if err := os.WriteFile(file, []byte("orders write:mails.* "+s1+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	as(s1, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h"}`).want(t, 403, "")
	as(s1, "PUT", "/v1/lanes/mails.x/messages/y", `{"delay":"1h"}`).want(t, 201, "scheduled")
	as(s2, "PUT", "/v1/lanes/mails.x/messages/y", `{"delay":"1h"}`).want(t, 401, "")
}

// Goal: what one token has been told under an Idempotency-Key is not told to another one that chooses the same key.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "a write "+s1+"\nb write "+s2+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, nil)
	for _, token := range []string{s1, s2} {
		got := w.ask(t, "PUT", "/v1/lanes/out/messages/"+token, `{"delay":"1h"}`, "Authorization", "Bearer "+token,
			"Idempotency-Key", "the same").want(t, 201, "scheduled")
		if got.ID != token || got.Repeated {
			t.Errorf("%s: %s", token, got.text)
		}
	}
}

// Goal: a listener without tokens is for this machine alone, for what names it as that, and for no page of another
// site; probes and the description are for everybody who reaches a listener.
func TestWithoutToken(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "192.0.2.1:0", "example.com:80", "nonsense"} {
		if _, err := api.New(api.Config{Listen: address}); err == nil {
			t.Errorf("it listens on %s without a token", address)
		}
	}
	server, w := newServer(t, api.Config{Listen: "127.0.0.1:0"}, nil)
	const x = "/v1/lanes/out/messages/x"
	w.ask(t, "PUT", x, `{"delay":"1h"}`).want(t, 201, "scheduled")
	w.ask(t, "PUT", x, `{"delay":"1h"}`, "Sec-Fetch-Site", "cross-site").want(t, 403, "")
	w.ask(t, "PUT", x, `{"delay":"1h"}`, "Origin", "https://evil.example").want(t, 403, "")
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, x, nil)
	r.Host = "rebound.example"
	recorder := httptest.NewRecorder()
	if server.ServeHTTP(recorder, r); recorder.Code != http.StatusForbidden {
		t.Errorf("by a foreign name: status %d", recorder.Code)
	}
	ready := true
	file := write(t, "tokens", "averylongtokenindeed\n")
	_, w = newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, func(a *api.API) {
		a.Ready = func() bool { return ready }
	})
	if got := w.ask(t, "GET", "/openapi.json", ""); got.code != 200 || !strings.Contains(got.text, `"openapi":"3.1`) {
		t.Errorf("the description: %d %.100s", got.code, got.text)
	}
	for _, want := range []int{200, 503} {
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if recorder.Code != want {
			t.Errorf("ready: status %d, want %d", recorder.Code, want)
		}
		ready = false
	}
}

// Goal: more requests in a second than a token may make are told when to come again, and cost others nothing.
func TestRate(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "slow write,read,rate=3 "+s1+"\nother read "+s2+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, func(a *api.API) { a.Limits.Rate = 50 })
	count := func(token string, n int) (refused int) {
		for range n {
			got := w.ask(t, "GET", "/v1/lanes/out/count", "", "Authorization", "Bearer "+token)
			if got.code == http.StatusTooManyRequests {
				if refused++; got.header.Get("Retry-After") != "1" || got.Code != "too_many_requests" {
					t.Errorf("refused by %v: %s", got.header, got.text)
				}
			}
		}
		return refused
	}
	if refused := count(s1, 20); refused < 10 {
		t.Errorf("%d of 20 requests are refused to a token with 3 a second", refused)
	}
	if refused := count(s2, 20); refused != 0 {
		t.Errorf("%d of 20 requests are refused to a token that has made none before", refused)
	}
	if refused := count(s2, 500); refused == 0 {
		t.Error("a token without a limit of its own has none")
	}
}

// However many callers there are, none gets back what it has used up, and those that have gone are forgotten.
func TestRateOfMany(t *testing.T) {
	refused, known := api.SpentAfter(25_000, time.Now())
	if !refused || known > 40_000 {
		t.Errorf("refused: %v, known: %d", refused, known)
	}
}

// Goal: a token that fills the lanes it may write to is stopped, and goes on when they are emptier; another one that
// may write elsewhere is not. What changes messages is never stopped by that.
func TestWaiting(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "a write:out,waiting=10 "+s1+"\nb write:mails.* "+s2+"\nall write "+s3+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, nil)
	put := func(token, lane string, i int) *reply {
		return w.ask(t, "PUT", fmt.Sprintf("/v1/lanes/%s/messages/m-%d", lane, i), `{"delay":"1h"}`,
			"Authorization", "Bearer "+token)
	}
	for i := range 10 {
		put(s1, "out", i).want(t, 201, "scheduled")
	}
	full := put(s1, "out", 10).want(t, 429, "")
	if full.Code != "too_many_waiting" || full.header.Get("Retry-After") != "2" {
		t.Errorf("full: %v %s", full.header, full.text)
	}
	put(s2, "mails.x", 0).want(t, 201, "scheduled")
	put(s3, "out", 11).want(t, 201, "scheduled")
	w.ask(t, "DELETE", "/v1/lanes/out/messages/m-0", "", "Authorization", "Bearer "+s1).want(t, 200, "cancelled")
}

// Goal: nobody makes up lanes without end, and those that there are go on taking messages in. Method: more names than
// are allowed: all but those that the route always gets, which are half of its share.
func TestManyLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.ask(t, "PUT", "/v1/lanes/out/messages/x", `{"delay":"1h"}`).want(t, 201, "scheduled") // which a route names
	refused := 0
	for i := range node.MostFound + 20 {
		got := w.ask(t, "PUT", fmt.Sprintf("/v1/lanes/mails.%d/messages/x", i), `{"delay":"1h"}`)
		if got.code == http.StatusTooManyRequests {
			if refused++; got.Code != "too_many_targets" || got.field() != "path.lane" {
				t.Errorf("refused: %s", got.text)
			}
		}
	}
	if kept := node.MostFound / 4; refused != 20+kept {
		t.Errorf("%d of %d lanes are refused, and %d may be there", refused, node.MostFound+20, node.MostFound-kept)
	}
	w.ask(t, "PUT", "/v1/lanes/mails.0/messages/y", `{"delay":"1h"}`).want(t, 201, "scheduled")
	w.ask(t, "PUT", "/v1/lanes/out/messages/y", `{"delay":"1h"}`).want(t, 201, "scheduled")
}

// Goal: neither a header nor an id of a message becomes one of an answer. Method: line breaks wherever they fit.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	made := w.ask(t, "PUT", "/v1/lanes/out/messages/a%0D%0ASet-Cookie:%20x=1", `{"delay":"1h",
		"headers":[{"name":"a\r\nSet-Cookie: y=2","value":"b\r\nSet-Cookie: z=3"}],"key":"\r\n\r\n<html>"}`)
	made.want(t, 201, "scheduled")
	got := w.ask(t, "GET", made.header.Get("Location"), "").want(t, 200, "")
	for _, r := range []*reply{made, got} {
		for name, values := range r.header {
			if strings.ContainsAny(name+strings.Join(values, ""), "\r\n") || name == "Set-Cookie" {
				t.Errorf("header %q: %q", name, values)
			}
		}
		if r.header.Get("Content-Type") != "application/json" {
			t.Errorf("the body: %s", r.text)
		}
	}
	if row := w.store.Dump()[0]; row.Headers[0].Name != "a\r\nSet-Cookie: y=2" {
		t.Errorf("stored: %+v", row)
	}
}

// FuzzBodies sends bodies, ids and queries of all kinds. Nothing panics; what is answered with a 5xx has a reason; and
// what is scheduled is stored.
func FuzzBodies(f *testing.F) {
	f.Add("PUT", "x", "", `{"delay":"1h","key":"k","value":{"json":[1]},"headers":[{"name":"a","value":"b"}]}`)
	f.Add("PUT", "x:fire", "on-duplicate=replace",
		`{"deadline":"2030-02-01T00:00:00.123456789+01","not_after":"9999-12-31"}`)
	f.Add("PUT", "%00", "", `{"recurrence":{"repeat":"0 0 29 2 *","zone":"Europe/Berlin","count":1,"missed":"all"}}`)
	f.Add("PATCH", "x", "", `{"delay":"PT1H","deadline":null}`)
	f.Add("POST", "x:fire", "", ``)
	f.Add("GET", "x", "cursor=e30&key=base64:&header==&limit=1", ``)
	f.Add("DELETE", "..", "", `{"value":{"base64":"////"}}`)
	f.Add("PUT", "x", "", `{"delay":"1h","value":{"text":"a","text":"b"},"value":null,"headers":[{}]}`)
	f.Add("PUT", "x", "", `{"delay":"999999999h"}`)
	f.Fuzz(func(t *testing.T, method, id, query, body string) {
		switch method {
		case "GET", "PUT", "POST", "PATCH", "DELETE":
		default:
			t.Skip("no method of the API")
		}
		w := newWorld(t, func(a *api.API) { a.Node.Limits = node.Limits{} })
		for _, path := range []string{
			"/v1/lanes/out/messages/" + id, "/v1/lanes/out/messages", "/v1/lanes/" + id + "/count",
		} {
			r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			at, err := r.URL.Parse(path + "?" + query)
			if err != nil {
				t.Skip("no URL")
			}
			r.URL = at
			recorder := httptest.NewRecorder()
			w.handler.ServeHTTP(recorder, r)
			if recorder.Code >= 500 || recorder.Code < 200 {
				t.Errorf("%s %s: status %d: %s", method, path, recorder.Code, recorder.Body)
			}
			if recorder.Code == http.StatusCreated && len(w.store.Dump()) == 0 {
				t.Errorf("%s %s: created, and nothing is stored", method, path)
			}
		}
		for _, row := range w.store.Dump() {
			if row.Deadline.Year() < 1 || row.Deadline.Year() > 9999 || row.Deadline.Nanosecond()%1000 != 0 ||
				row.Deadline.Location() != time.UTC || row.Refusal() != "" {
				t.Errorf("stored: %+v", row)
			}
		}
	})
}
