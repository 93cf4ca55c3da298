package service_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/admin"
	"chronos/node/broker/embedded"
	"chronos/node/service"
)

// ask makes a request, and reads the answer into result.
func ask(t *testing.T, method, url, body string, result any) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", method, url, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(result); err != nil {
		t.Fatal(err)
	}
}

// Goal: a node that runs keeps the history of what it fires, and shows and puts back the dead letters of its routes.
// Method: a node on an embedded broker, a message that is due and a record that is none.
func TestNodeServesItsPage(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed with the broker
	if err != nil {
		t.Fatal(err)
	}
	broker, err := embedded.Start(embedded.Config{Listener: listener, Topics: []string{"in", "out", "dead"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	flags := map[string]service.Value{}
	for name, value := range map[string]string{
		"brokers": broker.Address(), "store": "sqlite:" + filepath.Join(t.TempDir(), "chronos.db"), "migrate": "true",
		"input-topic": "in", "output-topic": "out", "dead-letter-topic": "dead", "admin-listen": "127.0.0.1:0",
		"admin-allow": "read,control",
	} {
		flags[name] = service.FlagValue(name, value)
	}
	settings, err := service.Read(service.Run, flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	s, err := service.Open(ctx, config, service.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Address()), kgo.ConsumeTopics("out", "dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	record := func(id, deadline string) *kgo.Record {
		return &kgo.Record{Topic: "in", Headers: []kgo.RecordHeader{
			{Key: "chronosMessageId", Value: []byte(id)}, {Key: "chronosDeadline", Value: []byte(deadline)},
		}}
	}
	if err := client.ProduceSync(ctx, record("due", time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)),
		record("bad", "tomorrow")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	came := map[string]int{}
	await := func(topic string, n int) {
		t.Helper()
		for came[topic] < n {
			fetches := client.PollFetches(ctx)
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			fetches.EachRecord(func(r *kgo.Record) { came[r.Topic]++ })
		}
	}
	await("dead", 1)
	await("out", 1)
	var page admin.DeadPage
	ask(t, "GET", s.URL()+"/v1/dead-letters/dead", "", &page)
	if page.Matched != 1 || page.Letters[0].ID != "bad" || page.Letters[0].Source != "in" {
		t.Errorf("the dead letters are %+v", page)
	}
	var done admin.ReplayedPage
	ask(t, "POST", s.URL()+"/v1/dead-letters/dead/replay", "{}", &done)
	if len(done.Back) != 1 || done.Back[0].What != "in" || len(done.Again) != 1 {
		t.Errorf("put back: %+v", done)
	}
	await("dead", 2) // it is rejected again, because it is what it was
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for fired := uint64(0); fired < 1; <-ticker.C { // a moment of the history is five seconds
		var past admin.Past
		ask(t, "GET", s.URL()+"/v1/history", "", &past)
		fired = 0
		for _, m := range past.Moments {
			fired += m.Fired
		}
		if fired > 1 {
			t.Errorf("one was fired, and the history has %d: %+v", fired, past)
		}
	}
}
