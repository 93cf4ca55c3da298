package api_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/api"
)

// fill puts messages on a lane, and has a node claim some of them.
func (w *world) fill(t *testing.T, lane string, messages, claimed int) {
	t.Helper()
	for i := range messages {
		w.ask(t, "PUT", fmt.Sprintf("/v1/lanes/%s/messages/m%d", lane, i), `{"delay":"1s"}`).want(t, 201, "scheduled")
	}
	if claimed == 0 {
		return
	}
	result, err := w.store.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.New(), Hold: time.Hour, Until: w.now.Add(time.Hour),
		Lanes: []node.Share{{Lane: lane, Limit: claimed, Bytes: 1 << 20}},
	})
	if err != nil || len(result.Messages) != claimed {
		t.Fatalf("claimed %d, %v", len(result.Messages), err)
	}
}

// What a count counts.
func TestCount(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fill(t, "out", 5, 2)
	w.ask(t, "PUT", "/v1/lanes/out/messages/later", `{"delay":"1h"}`).want(t, 201, "scheduled")
	w.fill(t, "mails.a", 4, 0)
	w.now = w.now.Add(10 * time.Second)
	const want = `{"lane":"out","waiting":4,"claimed":2,"overdue":5,"next":"2030-01-31T10:00:00Z"}`
	if got := w.ask(t, "GET", "/v1/lanes/out/count", "").want(t, 200, ""); got.text != want+"\n" {
		t.Errorf("%s, want %s", got.text, want)
	}
}

// Goal: what counts against a token is what waits or is claimed on the lanes that it may write to, counted anew every
// other second. Method: a clock of the test's own.
func TestQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.fill(t, "mails.a", 20, 0)
	w.fill(t, "out", 5, 5)
	scopes, err := api.ParseScopes("write:out")
	if err != nil {
		t.Fatal(err)
	}
	q := api.NewQuotas(w.store, func(context.Context) ([]string, error) { return []string{"mails.a", "out"}, nil })
	check := func(at time.Duration, want int) {
		t.Helper()
		full, waiting := q.Full(t.Context(), &scopes, 6, w.now.Add(at))
		if waiting != want || full != (want >= 6) {
			t.Errorf("after %v %d wait, full: %v; want %d", at, waiting, full, want)
		}
	}
	check(0, 5)
	w.ask(t, "PUT", "/v1/lanes/out/messages/more", `{"delay":"1h"}`).want(t, 201, "scheduled")
	check(1999*time.Millisecond, 5)
	check(2*time.Second, 6)
	w.ask(t, "DELETE", "/v1/lanes/out/messages/more", "").want(t, 200, "cancelled")
	check(3999*time.Millisecond, 6)
	check(4*time.Second, 5)
}

// A request that is repeated brings nothing, and costs nothing of what may wait; and callers who may ask as often as
// each other do not share it.
func TestLimitsOfOne(t *testing.T) {
	t.Parallel()
	file := write(t, "tokens", "a write:out,waiting=3 "+s1+"\nb read,rate=2 "+s2+"\nc read,rate=2 "+s3+"\n")
	_, w := newServer(t, api.Config{Listen: "0.0.0.0:0", TokenFile: file}, nil)
	put := func(id, key string) *reply {
		return w.ask(t, "PUT", "/v1/lanes/out/messages/"+id, `{"delay":"1h"}`, "Authorization", "Bearer "+s1,
			"Idempotency-Key", key)
	}
	for range 10 {
		put("x", "x").want(t, 201, "scheduled")
	}
	put("y", "y").want(t, 201, "scheduled")
	for _, token := range []string{s2, s3} {
		for range 2 {
			w.ask(t, "GET", "/v1/lanes/out/count", "", "Authorization", "Bearer "+token).want(t, 200, "")
		}
	}
}
