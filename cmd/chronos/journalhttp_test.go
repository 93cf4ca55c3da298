package main_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"chronos/node"
)

// Messages by HTTP where the store is a journal: requests go through the input topic, and are answered with what the
// owner has committed, as with a database. What comes out has no trace of that.
func TestDevJournalHTTP(t *testing.T) {
	t.Parallel()
	p, address := dev(t, "--data-dir", t.TempDir(), "--store", "journal:chronos.journal", "--api-listen", "127.0.0.1:0")
	api := p.stdout.await(t, `curl -X PUT (\S+)/v1/lanes`, 1)[1]
	produce(t, address, submission("now", time.Now(), []byte("now")))
	p.stdout.await(t, firedLine, 1) // it owns the partition
	for _, one := range []struct {
		method, path, key, body, want string
	}{
		{"PUT", "chronos.out/messages/x", "", `{"delay":"1h","value":"x","key":"k"}`, `^201 .*"outcome":"scheduled"`},
		{"PUT", "chronos.out/messages/x", "", `{"delay":"1h","value":"y"}`, `^200 .*"outcome":"ignored"`},
		{"PUT", "chronos.out/messages/x?on-duplicate=replace", "", `{"delay":"2h"}`, `^200 .*"outcome":"replaced"`},
		{"GET", "chronos.out/messages/x", "", "", `^200 .*"state":"waiting"`},
		{"PATCH", "chronos.out/messages/x", "", `{"delay":"3h"}`, `^200 .*"outcome":"rescheduled"`},
		{"DELETE", "chronos.out/messages/x", "one", "", `^200 .*"outcome":"cancelled"`},
		{"DELETE", "chronos.out/messages/x", "one", "", `^200 .*"outcome":"cancelled".*"repeated":true`},
		{"DELETE", "chronos.out/messages/x", "two", "", `^404 .*"outcome":"not_found"`},
		{"DELETE", "chronos.out/messages/z", "two", "", `^422 .*idempotency_key_reused`},
		{"PUT", "nowhere/messages/x", "", `{"delay":"1h"}`, `^404 .*unknown_lane`},
		{"PUT", "chronos.out/messages/x", "", `{"delay":"tomorrow"}`, `^422 .*invalid`},
		{"POST", "chronos.out/messages", "made", `{"delay":"0s","value":"made"}`, `^201 .*"outcome":"scheduled"`},
		{"POST", "chronos.out/messages", "made", `{"delay":"0s","value":"made"}`, `^201 .*"repeated":true`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), one.method, api+"/v1/lanes/"+one.path,
			strings.NewReader(one.body))
		if err != nil {
			t.Fatal(err)
		}
		if one.key != "" {
			request.Header.Set("Idempotency-Key", one.key)
		}
		if one.body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		got := response.Status[:3] + " " + string(body)
		if err != nil || !regexp.MustCompile(one.want).MatchString(got) {
			t.Errorf("%s %s: %s (%v), want %s", one.method, one.path, got, err, one.want)
		}
	}
	for _, r := range consume(t, address, "chronos.out", 2) {
		for _, h := range r.Headers {
			if h.Key == node.HeaderRequest {
				t.Errorf("the message has the mark of its request: %s", h.Value)
			}
		}
	}
}
