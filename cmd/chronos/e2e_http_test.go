package main_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	web "chronos/node/client"
)

// api returns a client of the API of a node.
func (p *nodeProcess) api(t *testing.T) *web.Client {
	t.Helper()
	at := p.log.await(t, `"msg":"taking messages in by HTTP","url":"([^"]+)"`, 1)[1]
	p.log.await(t, `"msg":"started"`, 1)
	c, err := web.New(web.Config{URL: at, Tries: 2})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// either asks one node, and another one if that one is gone: with the same key, so that it is done once.
func either(
	t *testing.T, nodes []*web.Client, i int, ask func(c *web.Client, key web.Option) (web.Outcome, error),
) web.Outcome {
	t.Helper()
	key := web.WithKey(fmt.Sprint(t.Name(), i))
	var err error
	for n := range nodes {
		var outcome web.Outcome
		if outcome, err = ask(nodes[(i+n)%len(nodes)], key); err == nil {
			return outcome
		}
	}
	t.Errorf("request %d: %v", i, err)
	return web.Outcome{}
}

// TestE2EHTTP takes messages in by the API of two nodes on real servers, each request at both at once under one key,
// and kills a node while they come. Goal: both nodes give the same answer, what was answered comes out on its topic
// once and with every byte, and what was cancelled does not.
func TestE2EHTTP(t *testing.T) {
	t.Parallel()
	const messages = 120
	s := newService(t)
	killed, staying := s.start(t, "--api-listen", "127.0.0.1:0"), s.start(t, "--api-listen", "127.0.0.1:0")
	nodes := []*web.Client{killed.api(t), staying.api(t)}
	// Longer than all that is asked before takes.
	deadline := time.Now().Add(12 * time.Second).Truncate(time.Millisecond)
	var asking sync.WaitGroup
	for i := range messages {
		if i == messages/2 {
			asking.Go(func() { killed.end(t, syscall.SIGKILL) })
		}
		id := fmt.Sprintf("m-%03d", i)
		message := web.Message{
			When: web.At(deadline.Add(time.Duration(i) * time.Millisecond)), Key: []byte(id),
			Value: []byte("value of " + id + "\x00\xff"),
		}
		put := func(c *web.Client, key web.Option) (web.Outcome, error) {
			return c.Put(t.Context(), s.output, id, message, key)
		}
		var told [2]web.Outcome
		for n := range told {
			asking.Go(func() {
				order := nodes
				if n == 1 {
					order = []*web.Client{nodes[1], nodes[0]}
				}
				told[n] = either(t, order, i, put)
			})
		}
		if i%10 == 9 {
			asking.Wait()
			for n := range told {
				told[n].Repeated = false
			}
			if told[0] != told[1] || told[0].Outcome != "scheduled" {
				t.Errorf("%s: one node says %+v, and the other %+v", id, told[0], told[1])
			}
		}
	}
	asking.Wait()
	cancelled := map[string]bool{}
	for i := 0; i < messages; i += 4 {
		id := fmt.Sprintf("m-%03d", i)
		outcome := either(t, nodes[1:], messages+i, func(c *web.Client, key web.Option) (web.Outcome, error) {
			return c.Cancel(t.Context(), s.output, id, key)
		})
		if cancelled[id] = outcome.Outcome == "cancelled"; !cancelled[id] {
			t.Errorf("cancel %s: %+v", id, outcome)
		}
	}
	came := map[string]int{}
	for _, r := range s.read(t, s.output, patience, distinct(messages-len(cancelled))) {
		id := string(r.Key)
		if came[id]++; cancelled[id] || string(r.Value) != "value of "+id+"\x00\xff" || r.at.Before(deadline) {
			t.Errorf("%s came at %v with value %q; cancelled: %v", id, r.at, r.Value, cancelled[id])
		}
	}
	s.drained(t)
	twice := 0
	for _, n := range came {
		twice += n - 1
	}
	t.Logf("%d of %d messages came, %d were cancelled, %d came twice", len(came), messages, len(cancelled), twice)
}

// TestE2EWithoutKafka runs two nodes with a database, no Kafka, and nothing said of one. Goal: they are ready, take
// messages in, and call back at the deadline, each message at least once, also when one of them is killed; and what was
// cancelled is not called back.
func TestE2EWithoutKafka(t *testing.T) {
	t.Parallel()
	const messages = 100
	var mu sync.Mutex
	calls := map[string]int{}
	done := make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		id := r.Header.Get("Chronos-Message-Id")
		if calls[id]++; string(body) != "value of "+id {
			t.Errorf("%s is called back with %q", id, body)
		}
		if len(calls) == messages-messages/4 {
			select {
			case <-done:
			default:
				close(done)
			}
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer target.Close()
	lanes := filepath.Join(t.TempDir(), "chronos.yaml")
	if err := os.WriteFile(lanes, []byte("lanes: [{name: \"http:*\", allowed: [127.0.0.0/8]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := newService(t)
	launch := func() *nodeProcess {
		return s.launch(t, "--config", lanes, "--api-listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	}
	killed, staying := launch(), launch()
	nodes := []*web.Client{killed.api(t), staying.api(t)}
	admin := staying.log.await(t, `"msg":"serving metrics and health","url":"([^"]+)"`, 1)[1]
	if got := run(t, "", "health", "--admin-listen", admin[len("http://"):]); got.code != 0 {
		t.Errorf("a node without Kafka is not ready: %s%s", got.stdout, got.stderr)
	}
	for i := range messages {
		id := fmt.Sprintf("m-%03d", i)
		outcome := either(t, nodes, i, func(c *web.Client, key web.Option) (web.Outcome, error) {
			return c.Put(t.Context(), "http:orders", id, web.Message{
				When: web.In(10 * time.Second), URL: target.URL + "/hook",
				Value: []byte("value of " + id),
			}, key)
		})
		if outcome.Outcome != "scheduled" {
			t.Errorf("%s: %+v", id, outcome)
		}
		if i%4 != 0 {
			continue
		}
		// At once, and not after all of them: a busy machine takes its time for each request, and a message that has
		// been called back meanwhile is rightly too late to cancel.
		outcome, err := nodes[(i/4)%2].Cancel(t.Context(), "http:orders", id)
		if err != nil || outcome.Outcome != "cancelled" {
			t.Errorf("cancel %s: %+v, %v", id, outcome, err)
		}
	}
	killed.end(t, syscall.SIGKILL)
	select {
	case <-done:
	case <-time.After(2 * patience):
		t.Error("not all are called back")
	}
	s.drained(t)
	mu.Lock()
	defer mu.Unlock()
	twice := 0
	for id, n := range calls {
		var number int
		if _, err := fmt.Sscanf(id, "m-%d", &number); err != nil || number%4 == 0 {
			t.Errorf("%s was cancelled, and is called back", id)
		}
		twice += n - 1
	}
	t.Logf("%d of %d messages were called back, %d of them twice", len(calls), messages-messages/4, twice)
	if code := staying.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a node that is asked to stop exits with %d", code)
	}
}
