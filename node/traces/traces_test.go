package traces_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"chronos/node"
	"chronos/node/traces"
	"chronos/node/traces/tracestest"
)

// start returns a tracer of a node with a route from "in" to "out", and what it logs.
func start(t *testing.T) (*traces.Tracer, *bytes.Buffer) {
	t.Helper()
	settings, err := traces.Environment()
	if err != nil || settings == nil {
		t.Fatalf("settings %v, error %v", settings, err)
	}
	config := node.Default()
	config.Routes = []node.Route{{Input: "in", Output: "out", DeadLetter: "dead"}}
	log := &bytes.Buffer{}
	tracer, err := traces.Start(t.Context(), settings, traces.Options{
		Log: slog.New(slog.NewTextHandler(log, nil)), Version: "1.2.3", Group: "a-group", Node: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	return tracer, log
}

// finish closes a tracer, which sends all that is left.
func finish(t *testing.T, tracer *traces.Tracer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tracer.Close(ctx)
}

// message returns a message of route "in" with these headers, name and value by turns.
func message(id string, headers ...string) node.Message {
	m := node.Message{
		ID: id, Lane: "out", Incarnation: uuid.New(), Deadline: time.Now().Add(-time.Second).UTC(),
		Origin: node.Origin{Topic: "in", Partition: 3, Offset: 42},
		Key:    []byte("secret key"), Value: []byte("secret value"),
	}
	for i := 0; i < len(headers); i += 2 {
		m.Headers = append(m.Headers, node.Header{Name: headers[i], Value: []byte(headers[i+1])})
	}
	return m
}

const (
	parentTrace = "0af7651916cd43dd8448eb211c80319c"
	parentSpan  = "b7ad6b7169203331"
	sampled     = "00-" + parentTrace + "-" + parentSpan + "-01"
)

// TestEnvironment gives it every variable that decides something.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct {
		set  string
		want string // "" for no traces, "!" and a part of the error
	}{
		{"", ""},
		{"OTEL_SERVICE_NAME=x OTEL_TRACES_SAMPLER=nonsense", ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://h:4318", "otlp http/protobuf parentbased_always_on"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://h/x", "otlp http/protobuf parentbased_always_on"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "otlp grpc parentbased_always_on"},
		{
			"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=x OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=grpc",
			"otlp grpc parentbased_always_on",
		},
		{"OTEL_TRACES_EXPORTER=console", "console  parentbased_always_on"},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://h", ""},
		{"OTEL_SDK_DISABLED=True OTEL_EXPORTER_OTLP_ENDPOINT=http://h", ""},
		{"OTEL_TRACES_EXPORTER=console OTEL_TRACES_SAMPLER=always_off", "console  always_off"},
		{
			"OTEL_TRACES_EXPORTER=console OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=0.1",
			"console  traceidratio",
		},
		{"OTEL_TRACES_EXPORTER=zipkin", `!OTEL_TRACES_EXPORTER is "zipkin": it must be otlp, console or none`},
		{
			"OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4317",
			"!OTEL_EXPORTER_OTLP_ENDPOINT is wrong: it must be a URL such as",
		},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://u:hunter2@:x", "!OTEL_EXPORTER_OTLP_ENDPOINT is wrong"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_EXPORTER_OTLP_PROTOCOL=http/json", "!must be http/protobuf or grpc"},
		{"OTEL_TRACES_EXPORTER=otlp OTEL_TRACES_SAMPLER=some", `!OTEL_TRACES_SAMPLER is "some": it must be always_on`},
		{
			"OTEL_TRACES_EXPORTER=otlp OTEL_TRACES_SAMPLER=traceidratio OTEL_TRACES_SAMPLER_ARG=NaN",
			`!OTEL_TRACES_SAMPLER_ARG is "NaN": it must be a share from 0 to 1`,
		},
		{
			"OTEL_TRACES_EXPORTER=otlp OTEL_TRACES_SAMPLER=parentbased_traceidratio OTEL_TRACES_SAMPLER_ARG=2",
			`!OTEL_TRACES_SAMPLER_ARG is "2"`,
		},
	} {
		t.Run(c.set, func(t *testing.T) {
			tracestest.Environment(t, strings.Fields(c.set)...)
			settings, err := traces.Environment()
			got := ""
			switch {
			case err != nil:
				got = "!" + err.Error()
			case settings != nil:
				got = settings.Exporter + " " + settings.Protocol + " " + settings.Sampler
			}
			want, isError := strings.CutPrefix(c.want, "!")
			if got != c.want && (!isError || !strings.HasPrefix(got, "!") || !strings.Contains(got, want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if strings.Contains(got, "hunter2") {
				t.Errorf("%q shows a password", got)
			}
		})
	}
}

// TestSubmissionAndPublish takes two messages in on one node and publishes them on another. The one that came with a
// context is taken in by a child of it, and its publish links to it; that of the other links to what took it in.
func TestSubmissionAndPublish(t *testing.T) {
	r := tracestest.Start(t)
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_SERVICE_NAME=delays",
		"OTEL_RESOURCE_ATTRIBUTES=a=b")
	with := message("with",
		"traceparent", "nonsense", "baggage", "secret=1", "traceparent", sampled, "tracestate", "v=1")
	without := message("without", "traceparent", "nonsense")
	without.Value = nil
	id := uuid.New()

	taking, _ := start(t)
	taking.Observe(node.Started{NodeID: id})
	before := time.Now()
	taking.Observe(node.Polled{Records: 2})
	taking.Observe(node.Enqueued{Messages: []node.Message{with, without}})
	taking.Observe(node.Ignored{Messages: []node.Message{message("twin")}})
	finish(t, taking)
	publishing, _ := start(t)
	publishing.Observe(node.Started{NodeID: uuid.New()})
	at := before.Add(time.Hour)
	publishing.Observe(node.Fired{Messages: []node.Message{with, without}, At: at, Took: 20 * time.Millisecond})
	finish(t, publishing)

	taken, published := r.Named("take in"), r.Named("publish out")
	if len(taken) != 3 || len(published) != 2 {
		t.Fatalf("%d were taken in and %d published", len(taken), len(published))
	}
	of := fmt.Sprintf("%x %x", taken[0].GetTraceId(), taken[0].GetParentSpanId())
	if want := parentTrace + " " + parentSpan; of != want {
		t.Errorf("what came with a context is a child of %s", of)
	}
	for i, want := range []string{
		parentTrace + " " + parentSpan, fmt.Sprintf("%x %x", taken[1].GetTraceId(), taken[1].GetSpanId()),
	} {
		p := published[i]
		links := p.GetLinks()
		if len(links) != 1 || fmt.Sprintf("%x %x", links[0].GetTraceId(), links[0].GetSpanId()) != want {
			t.Errorf("publish %d links to %v, want %s", i, links, want)
		}
		if len(p.GetParentSpanId()) != 0 || slices.Equal(p.GetTraceId(), taken[i].GetTraceId()) ||
			p.GetKind() != v1.Span_SPAN_KIND_CLIENT || p.GetTraceState() != "" {
			t.Errorf("publish %d: %v", i, p)
		}
		if took := p.GetEndTimeUnixNano() - p.GetStartTimeUnixNano(); took != 20e6 ||
			p.GetEndTimeUnixNano() != uint64(at.UnixNano()) {
			t.Errorf("publish %d took %d ns until %d", i, took, p.GetEndTimeUnixNano())
		}
	}
	if len(taken[1].GetParentSpanId()) != 0 || taken[0].GetTraceState() != "v=1" ||
		taken[0].GetKind() != v1.Span_SPAN_KIND_CONSUMER {
		t.Errorf("taken in: %v", taken)
	}
	for key, want := range map[string]string{
		"messaging.system": "kafka", "messaging.operation.type": "process", "messaging.operation.name": "take",
		"messaging.destination.name": "in", "messaging.destination.partition.id": "3",
		"messaging.kafka.offset": "int_value:42",
		"messaging.message.id":   "with", "messaging.consumer.group.name": "a-group", "chronos.node_id": id.String(),
		"messaging.message.body.size": "int_value:12", "chronos.lane": "out", "chronos.result": "scheduled",
		"messaging.kafka.message.tombstone": "",
	} {
		if got := tracestest.Attribute(taken[0], key); got != want {
			t.Errorf("taken in: %s is %q, want %q", key, got, want)
		}
	}
	if got := tracestest.Attribute(taken[2], "chronos.result"); got != "duplicate" {
		t.Errorf("the twin's result is %q", got)
	}
	for key, want := range map[string]string{
		"messaging.operation.type": "send", "messaging.operation.name": "publish", "messaging.destination.name": "out",
		"messaging.message.id": "without", "messaging.kafka.message.tombstone": "bool_value:true",
		"chronos.result": "fired",
	} {
		if got := tracestest.Attribute(published[1], key); got != want {
			t.Errorf("published: %s is %q, want %q", key, got, want)
		}
	}
	if r.Resource("service.name") != "delays" || r.Resource("service.version") != "1.2.3" || r.Resource("a") != "b" ||
		r.Resource("service.instance.id") == "" {
		t.Errorf("the resource is service %q", r.Resource("service.name"))
	}
	for _, body := range r.Bodies() {
		if bytes.Contains(body, []byte("secret")) {
			t.Errorf("a key, a header or a value is sent: %q", body)
		}
	}
}

// grpcCollector takes traces over gRPC, and passes on how many spans came.
type grpcCollector struct {
	collector.UnimplementedTraceServiceServer

	spans chan int
}

// Export implements collector.TraceServiceServer.
func (c *grpcCollector) Export(
	_ context.Context, export *collector.ExportTraceServiceRequest,
) (*collector.ExportTraceServiceResponse, error) {
	for _, resource := range export.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			c.spans <- len(scope.GetSpans())
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestGRPC sends traces by the other protocol.
func TestGRPC(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &grpcCollector{spans: make(chan int, 10)}
	server := grpc.NewServer()
	collector.RegisterTraceServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+listener.Addr().String(),
		"OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	tracer, log := start(t)
	tracer.Observe(node.Enqueued{Messages: []node.Message{message("a"), message("b")}})
	finish(t, tracer)
	server.Stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(c.spans) != 1 || <-c.spans != 2 || !strings.Contains(log.String(), `exporter="otlp over grpc"`) {
		t.Errorf("%d batches came; the log says\n%s", len(c.spans), log)
	}
}

// TestTroubles looks at the spans of what does not go well.
func TestTroubles(t *testing.T) {
	r := tracestest.Start(t)
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL)
	tracer, _ := start(t)
	refused, late := message("refused"), message("late", "traceparent", sampled)
	copied := message("copied", "traceparent", sampled)
	copied.Lane = "dead"
	record := node.Record{Topic: "in", Partition: 1, Offset: 7, Value: []byte("secret"), Headers: copied.Headers}
	for _, e := range []node.Event{
		node.Polled{Records: 1},
		node.Rejected{Record: record, Reason: node.InvalidDeadline, Detail: `it is "secret"`},
		node.Enqueued{Messages: []node.Message{copied}}, // the copy of what was rejected
		node.DeadLettered{Messages: []node.Message{copied, refused}},
		node.Unpublished{Messages: []node.Message{late}, Err: fmt.Errorf("a\n b: %w", node.TopicMissing)},
		node.Unpublished{Messages: []node.Message{late}, Err: node.NotSent},
		node.Unpublished{Messages: []node.Message{late}, Err: node.RecordRejected},
		node.Unpublished{Messages: []node.Message{late}, Err: io.ErrUnexpectedEOF},
		node.CaughtUp{},
	} {
		tracer.Observe(e)
	}
	finish(t, tracer)
	taken := r.Named("take in")
	if len(taken) != 1 || tracestest.Attribute(taken[0], "error.type") != "invalid_deadline" ||
		taken[0].GetStatus().GetCode() != v1.Status_STATUS_CODE_ERROR ||
		fmt.Sprintf("%x", taken[0].GetTraceId()) != parentTrace {
		t.Errorf("taken in: %v", taken)
	}
	dead := r.Named("publish dead")
	if len(dead) != 2 || tracestest.Attribute(dead[0], "chronos.lane") != "dead" ||
		tracestest.Attribute(dead[1], "chronos.lane") != "out" ||
		tracestest.Attribute(dead[1], "chronos.result") != "dead_lettered" {
		t.Errorf("dead letters: %v", dead)
	}
	var errs []string
	for _, s := range r.Named("publish out") {
		errs = append(errs, tracestest.Attribute(s, "error.type")+": "+s.GetStatus().GetMessage())
	}
	if want := []string{
		"no_topic: a b: topic missing or forbidden", "not_sent: not sent", "rejected: rejected by the broker",
		"unknown_outcome: unexpected EOF",
	}; !slices.Equal(errs, want) {
		t.Errorf("the failures are %q, want %q", errs, want)
	}
	if body := bytes.Join(r.Bodies(), nil); bytes.Contains(body, []byte("secret")) {
		t.Errorf("a key, a header or a value is sent: %q", body)
	}
}

// TestSampledTogether asks each sampler for the submissions and the publishes of many messages, on two nodes: of every
// message both are sampled, or neither is.
func TestSampledTogether(t *testing.T) {
	const half, count = "OTEL_TRACES_SAMPLER_ARG=0.5", 400
	for _, c := range []struct {
		sampler     string
		least, most int
	}{
		{"parentbased_traceidratio", 210, 290}, // 200 whose parents are, and some of 100 without one
		{"traceidratio", 130, 270},
		{"always_on", count, count},
		{"parentbased_always_off", 200, 200},
		{"always_off", 0, 0},
	} {
		t.Run(c.sampler, func(t *testing.T) {
			r := tracestest.Start(t)
			tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_TRACES_SAMPLER="+c.sampler, half)
			var messages []node.Message
			for i := range count {
				id, random := fmt.Sprint(i), strings.ReplaceAll(uuid.NewString(), "-", "")
				// Not the bits of a UUID that are always the same: a sampler looks at them.
				made := "00-" + random[20:] + random[20:] + random[20:28] + "-" + parentSpan
				switch i % 4 {
				case 0:
					messages = append(messages, message(id))
				case 1:
					messages = append(messages, message(id, "traceparent", made+"-00"))
				default:
					messages = append(messages, message(id, "traceparent", made+"-01"))
				}
			}
			for _, e := range []node.Event{
				node.Enqueued{Messages: messages}, node.Fired{Messages: messages, At: time.Now()},
			} {
				tracer, _ := start(t)
				tracer.Observe(e)
				finish(t, tracer)
			}
			ids := func(name string) (found []string) {
				for _, s := range r.Named(name) {
					found = append(found, tracestest.Attribute(s, "messaging.message.id"))
				}
				slices.Sort(found)
				return found
			}
			taken, published := ids("take in"), ids("publish out")
			if !slices.Equal(taken, published) {
				t.Errorf("%d submissions and %d publishes are sampled, not of the same messages",
					len(taken), len(published))
			}
			if len(taken) < c.least || len(taken) > c.most {
				t.Errorf("%d of %d are sampled, want %d to %d", len(taken), count, c.least, c.most)
			}
		})
	}
}

// TestCollectorHangs has a collector that takes a request and never answers. The node is told of 20,000 publishes
// meanwhile, which all return: what waits is bounded. Closing waits as long as it is told to, and says what was lost.
func TestCollectorHangs(t *testing.T) {
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		<-answer
	}))
	defer server.Close()
	defer close(answer)
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=1")
	tracer, log := start(t)
	tracer.Observe(node.Fired{Messages: []node.Message{message("first")}, At: time.Now()})
	<-asked
	for range 20_000 {
		tracer.Observe(node.Fired{Messages: []node.Message{message("more")}, At: time.Now()})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tracer.Close(ctx)
	if want := `msg="some traces could not be sent" spans=20001 spans_sent=0`; !strings.Contains(log.String(), want) {
		t.Errorf("the log does not say %s:\n%s", want, log)
	}
}

// TestCollectorAway has a collector that is not there and then is, and reads what the log says of it.
func TestCollectorAway(t *testing.T) {
	var mu sync.Mutex
	away := true
	got := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if away {
			w.WriteHeader(http.StatusBadRequest) // which is not tried again
		}
		got <- struct{}{}
	}))
	defer server.Close()
	tracestest.Environment(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_BSP_SCHEDULE_DELAY=1")
	tracer, log := start(t)
	for range 3 {
		tracer.Observe(node.Fired{Messages: []node.Message{message("lost")}, At: time.Now()})
		<-got
	}
	mu.Lock()
	away = false
	mu.Unlock()
	tracer.Observe(node.Fired{Messages: []node.Message{message("sent")}, At: time.Now()})
	<-got
	finish(t, tracer)
	for want, times := range map[string]int{
		`level=WARN msg="traces can't be sent, and are dropped; messages don't depend on them" spans=1 error=`: 1,
		`level=INFO msg="traces are sent again" spans_dropped=2`:                                               1,
		`level=WARN msg="some traces could not be sent" spans=3 spans_sent=1`:                                  1,
	} {
		if got := strings.Count(log.String(), want); got != times {
			t.Errorf("the log says %d times %s, want %d:\n%s", got, want, times, log)
		}
	}
}

// BenchmarkObserve measures what a batch of 500 messages costs the loop that publishes them.
func BenchmarkObserve(b *testing.B) {
	for _, c := range []struct{ name, sampler string }{{"sampled", "always_on"}, {"not sampled", "always_off"}} {
		b.Run(c.name, func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			defer server.Close()
			b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
			b.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
			settings, err := traces.Environment()
			if err != nil {
				b.Fatal(err)
			}
			tracer, err := traces.Start(b.Context(), settings, traces.Options{
				Log: slog.New(slog.DiscardHandler), Node: node.Default(),
			})
			if err != nil {
				b.Fatal(err)
			}
			defer tracer.Close(b.Context())
			fired := node.Fired{At: time.Now()}
			for range 500 {
				fired.Messages = append(fired.Messages, message("m", "traceparent", sampled))
			}
			for b.Loop() {
				tracer.Observe(fired)
			}
		})
	}
}
