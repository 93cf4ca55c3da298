package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/traces/tracestest"
)

// TestTraces delivers messages with all sorts of contexts while traces are sent, and stops the node. All spans have
// come by then, and every header is as it was: the context that the application has made is no business of ours, be it
// valid or not.
func TestTraces(t *testing.T) {
	const parentTrace, parentSpan = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	collector := tracestest.Start(t)
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+collector.URL)
	p, address := dev(t, "--log-level", "info")
	p.stderr.await(t, `msg="traces are sent" exporter="otlp over http/protobuf" sampler=parentbased_always_on`, 1)
	contexts := [][]kgo.RecordHeader{
		{
			{Key: "traceparent", Value: []byte("00-" + parentTrace + "-" + parentSpan + "-01")},
			{Key: "tracestate", Value: []byte("b=2,a=1")},
			{Key: "baggage", Value: []byte("user=%20x ,y=1;p")},
		},
		{{Key: "traceparent", Value: []byte{0, 0xff}}, {Key: "traceparent"}, {Key: "tracestate", Value: []byte{}}},
		{{Key: "Traceparent", Value: []byte("x")}, {Key: "baggage", Value: []byte("a")}, {Key: "baggage"}},
		nil,
	}
	deadline := time.Now().Add(300 * time.Millisecond)
	for i, headers := range contexts {
		produce(t, address, submission(fmt.Sprint("m-", i), deadline, []byte("v"), headers...))
	}
	got := consume(t, address, "chronos.out", len(contexts))
	for _, record := range got {
		var i int
		if _, err := fmt.Sscanf(string(record.Headers[0].Value), "m-%d", &i); err != nil {
			t.Fatal(err)
		}
		relayed := record.Headers[2:] // behind the id and the deadline, which "chronos dev" relays too
		if want := contexts[i]; !slices.EqualFunc(relayed, want, func(a, b kgo.RecordHeader) bool {
			return a.Key == b.Key && string(a.Value) == string(b.Value) && (a.Value == nil) == (b.Value == nil)
		}) {
			t.Errorf("the headers of message %d are %q, want %q", i, relayed, want)
		}
	}
	p.stop()
	if code := p.code(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr)
	}
	taken, published := collector.Named("take chronos.in"), collector.Named("publish chronos.out")
	if len(taken) != len(contexts) || len(published) != len(contexts) {
		t.Fatalf("%d spans of %d submissions and %d of publishes have come", len(taken), len(contexts), len(published))
	}
	for _, span := range taken {
		id := tracestest.Attribute(span, "messaging.message.id")
		parent, of := "", fmt.Sprintf("%x %x", span.GetTraceId(), span.GetSpanId())
		if id == "m-0" {
			parent, of = parentSpan, parentTrace+" "+parentSpan
		}
		if got := fmt.Sprintf("%x", span.GetParentSpanId()); got != parent {
			t.Errorf("%s was taken in by a child of %q, want %q", id, got, parent)
		}
		for _, p := range published {
			if tracestest.Attribute(p, "messaging.message.id") != id {
				continue
			}
			if links := p.GetLinks(); len(links) != 1 ||
				fmt.Sprintf("%x %x", links[0].GetTraceId(), links[0].GetSpanId()) != of {
				t.Errorf("the publish of %s links to %v, want %s", id, links, of)
			}
			if p.GetStartTimeUnixNano() < span.GetEndTimeUnixNano() {
				t.Errorf("%s was published before it was taken in", id)
			}
		}
	}
}

// TestTracesCollectorHangs has the collector never answer. Messages come out all the same, and the node stops.
func TestTracesCollectorHangs(t *testing.T) {
	answer := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answer }))
	defer server.Close()
	defer close(answer)
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL,
		"OTEL_BSP_SCHEDULE_DELAY=1", "OTEL_BSP_MAX_QUEUE_SIZE=10")
	p, address := dev(t)
	const count = 200
	var records []*kgo.Record
	for i := range count {
		records = append(records, submission(fmt.Sprint("m-", i), time.Now(), []byte("v")))
	}
	produce(t, address, records...)
	consume(t, address, "chronos.out", count)
	p.stop()
	if code := p.code(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr)
	}
	p.stderr.await(t, fmt.Sprintf(`msg="some traces could not be sent" spans=%d spans_sent=0`, 2*count), 1)
}

// TestTracesRefusesEnvironment asks for a sentence that names the variable.
func TestTracesRefusesEnvironment(t *testing.T) {
	tracestest.Environment(t, "OTEL_TRACES_EXPORTER=otlp", "OTEL_TRACES_SAMPLER=sometimes")
	got := run(t, "", "dev", "--listen", "127.0.0.1:0")
	if got.code != 2 || !strings.Contains(got.stderr, `OTEL_TRACES_SAMPLER is "sometimes": it must be always_on, `) {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}
