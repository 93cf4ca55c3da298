package main_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

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
	ask := func(method, path, key, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, api+"/v1/lanes/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if key != "" {
			request.Header.Set("Idempotency-Key", key)
		}
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }() // it was read
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.Status[:3] + " " + string(got)
	}
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
		if got := ask(one.method, one.path, one.key, one.body); !regexp.MustCompile(one.want).MatchString(got) {
			t.Errorf("%s %s: %s, want %s", one.method, one.path, got, one.want)
		}
	}
	for _, r := range consume(t, address, "chronos.out", 2) {
		for _, h := range r.Headers {
			if h.Key == node.HeaderRequest {
				t.Errorf("the message has the mark of its request: %s", h.Value)
			}
		}
	}
	// What was refused because it is behind the last instant stays refused under its key. What a look is to show has
	// come from the journal by then.
	const l = "chronos.out/messages/l"
	limited := `{"delay":"10m","not_after":"` + time.Now().Add(20*time.Minute).Format(time.RFC3339) + `"}`
	ask("PUT", l, "", limited)
	within(t, func() bool { return strings.Contains(ask("GET", l, "", ""), "not_after") },
		func() string { return "the message is not seen" })
	refused := ask("PATCH", l, "beyond", `{"delay":"30m"}`)
	ask("PUT", l+"?on-duplicate=replace", "", `{"delay":"1h"}`)
	within(t, func() bool { return !strings.Contains(ask("GET", l, "", ""), "not_after") },
		func() string { return "the message that has replaced it is not seen" })
	for _, got := range []string{refused, ask("PATCH", l, "beyond", `{"delay":"30m"}`)} {
		if !strings.HasPrefix(got, "422 ") || !strings.Contains(got, "invalid_not_after") {
			t.Errorf("moved behind the last instant: %s", got)
		}
	}
	if got := ask("PATCH", l, "another", `{"delay":"30m"}`); !strings.HasPrefix(got, "200 ") {
		t.Errorf("moved under another key: %s", got)
	}

	// Repeated when its time has gone by, which the same request under another id shows, it is told what was done.
	soon := `{"delay":"1s","not_after":"` + time.Now().Add(2*time.Second).Format(time.RFC3339Nano) + `"}`
	first := ask("POST", "chronos.out/messages", "soon", soon)
	for n := 0; !strings.HasPrefix(ask("PUT", fmt.Sprint("chronos.out/messages/other-", n), "", soon), "422 "); n++ {
	}
	again := ask("POST", "chronos.out/messages", "soon", soon)
	if !strings.HasPrefix(first, "201 ") || strings.Replace(again, `,"repeated":true`, "", 1) != first {
		t.Errorf("first %s, then %s", first, again)
	}
}

// Goal: whoever may write to the input topic answers no request of the API. Method: the attack that worked before marks
// were signed: under the Idempotency-Key that somebody will choose, and the print of the request, a decoy is cancelled.
func TestDevJournalForgedAnswer(t *testing.T) {
	t.Parallel()
	p, address := dev(t, "--data-dir", t.TempDir(), "--store", "journal:chronos.journal", "--api-listen", "127.0.0.1:0")
	api := p.stdout.await(t, `curl -X PUT (\S+)/v1/lanes`, 1)[1]
	hashed := func(words ...string) string {
		text, err := json.Marshal(words)
		if err != nil {
			t.Fatal(err)
		}
		return uuid.NewHash(sha256.New(), uuid.NameSpaceURL, append([]byte("chronos:"), text...), 8).String()
	}
	ask := func(method, id, key, body string) string {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, api+"/v1/lanes/chronos.out/messages/"+id,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Idempotency-Key", key)
		if body != "" {
			request.Header.Set("Content-Type", "application/json")
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }() // it was read
		got, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.Status[:3] + " " + string(got)
	}
	within(t, func() bool { return strings.HasPrefix(ask("PUT", "order", "put-order", `{"delay":"1h"}`), "20") },
		func() string { return "the message is not stored" })
	mark := hashed("request", "", "cancel-order") + " " +
		hashed("print", "chronos.out", "order", "false", node.Cancel.String(), "", "") + " 24h0m0s " +
		uuid.Nil.String() + " " + uuid.NewString()
	for i, forged := range []string{mark, strings.Repeat("0", 64) + " " + mark} {
		decoy := submission(fmt.Sprint("decoy", i), time.Now().Add(time.Hour), nil)
		cancel := &kgo.Record{Topic: "chronos.in", Headers: []kgo.RecordHeader{
			{Key: node.HeaderID, Value: decoy.Headers[0].Value},
			{Key: node.HeaderAction, Value: []byte("cancel")},
			{Key: node.HeaderTopic, Value: []byte("chronos.out")},
			{Key: node.HeaderRequest, Value: []byte(forged)},
		}}
		produce(t, address, decoy, cancel)
	}
	consume(t, address, "chronos.dead", 2) // so both were read
	if got := ask("DELETE", "order", "cancel-order", ""); !strings.HasPrefix(got, "200 ") ||
		!strings.Contains(got, `"outcome":"cancelled"`) || !strings.Contains(got, `"id":"order"`) ||
		strings.Contains(got, "repeated") {
		t.Errorf("the answer is %s", got)
	}
	if got := ask("GET", "order", "look", ""); !strings.HasPrefix(got, "404 ") {
		t.Errorf("it was said to be cancelled, and a look finds %s", got)
	}
}
