package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/admin"
)

// call asks the listener with a token, and reads the answer into result, if it is one.
func (l *listener) call(t *testing.T, token, method, path string, body, result any) (status int, text string) {
	t.Helper()
	sent, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.address+path, bytes.NewReader(sent))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }() // It was read.
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if result != nil && response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(content, result); err != nil {
			t.Fatal(err)
		}
	}
	return response.StatusCode, string(content)
}

// Goal: with a real Postgres a message that somebody cancels by the API does not come out, one that is fired or
// rescheduled does, at its time and once, a series ends, and who may not, may not; and the log and the metrics say so.
// Method: a node on a real Postgres with two tokens; what comes out is read from Kafka.
func TestControlByAPI(t *testing.T) {
	t.Parallel()
	database := database(t)
	g := newGate(t, database.Host)
	g.unlock(t)
	store, password := through(t, g, database)
	c, address := cluster(t, "")
	defer c.Close()
	l := &listener{freeAddress(t)}
	p := start(t, "run", "--migrate", "--create-topics", "--brokers", address, "--store", store,
		"--store-password-file", password, "--dead-letter-topic", "chronos.dead", "--admin-listen", l.address,
		"--admin-allow", "read,control", "--admin-token-file",
		writeFile(t, "tokens", "reader read a-reader-s-token\nann read,control the-token-of-ann\n"))
	l.awaitStatus(t, "/readyz", http.StatusOK, "ok")
	later := time.Now().Add(time.Hour)
	repeat := kgo.RecordHeader{Key: node.HeaderRepeat, Value: []byte("every 2h")}
	series := submission("series", later, []byte("series"), repeat)
	produce(t, address, submission("cancelled", later, []byte("cancelled")),
		submission("fired", later, []byte("fired")), submission("moved", later, []byte("moved")), series)
	const ann = "the-token-of-ann"
	seen := func(id string) (m admin.Message) {
		t.Helper()
		eventually(t, func() string {
			var found admin.Messages
			if l.call(t, ann, http.MethodGet, "/v1/messages/"+id, nil, &found); len(found.Messages) != 1 {
				return fmt.Sprintf("%s: %+v", id, found)
			}
			m = found.Messages[0]
			return ""
		})
		return m
	}
	instruct := func(action, id, delay, want string) {
		t.Helper()
		body := map[string]string{"lane": "chronos.out", "incarnation": seen(id).Incarnation, "reason": "a test"}
		if delay != "" {
			body["delay"] = delay
		}
		path := "/v1/messages/" + id + "/" + action
		status, text := l.call(t, "a-reader-s-token", http.MethodPost, path, body, nil)
		if status != http.StatusForbidden ||
			!strings.Contains(text, "the token reader may not do that") {
			t.Errorf("a reader may %s: %d %s", action, status, text)
		}
		var got admin.Instructed
		if status, text := l.call(t, ann, http.MethodPost, path, body, &got); got.Outcome != want {
			t.Errorf("%s %s: %d %s, want %s", action, id, status, text, want)
		}
		if status, text := l.call(t, ann, http.MethodPost, path, body, &got); got.Outcome != node.NotFound.String() {
			t.Errorf("%s %s once more, of the same incarnation: %d %s", action, id, status, text)
		}
	}
	if s := seen("series").Series; s == nil || s.Sequence != 1 || s.Next == nil || !s.Next.After(later.Add(time.Hour)) {
		t.Errorf("the series is %+v", s)
	}
	instruct("cancel", "cancelled", "", "cancelled")
	instruct("cancel", "series", "", "cancelled")
	instruct("reschedule", "moved", "1500ms", "rescheduled")
	instruct("fire", "fired", "", "fired")
	out := consume(t, address, "chronos.out", 2)
	for i, want := range []string{"fired", "moved"} {
		if string(out[i].Value) != want {
			t.Errorf("message %d is %q, want %q", i, out[i].Value, want)
		}
	}
	p.stderr.await(t, `audit: somebody has given an instruction by the admin API","action":"fire","outcome":"fired",`+
		`"id":"fired",.*"claimed_by":"ann","authenticated":"by the token ann"`, 1)
	l.awaitMetric(t, "chronos_operator_instructions_total", "action=cancel", "lane=chronos.out", "outcome=cancelled")

	// Nothing more comes out, a second on; and while the store is away nobody is told of an outcome.
	produce(t, address, submission("last", time.Now().Add(time.Second), []byte("last")))
	if out = consume(t, address, "chronos.out", 3); string(out[2].Value) != "last" {
		t.Errorf("a third message came out: %q", out[2].Value)
	}
	g.shut()
	body := map[string]string{"lane": "chronos.out", "incarnation": "6f0c3d6e-6d5f-4f7e-9d0b-0a4c2f1f9a51"}
	status, text := l.call(t, ann, http.MethodPost, "/v1/messages/x/cancel", body, nil)
	if status != http.StatusServiceUnavailable || !strings.Contains(text, "The store has not answered") {
		t.Errorf("while the store is away: %d %s", status, text)
	}
	g.unlock(t)
	l.awaitStatus(t, "/readyz", http.StatusOK, "ok")
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
