package traces

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"chronos/node"
)

// Tracer makes spans of the events of one node.
type Tracer struct {
	deadLetters map[string]string // dead-letter topic by lane
	isDead      map[string]bool

	exporter *exporter
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sampler

	intake  []attribute.KeyValue // of all spans of their sort
	publish []attribute.KeyValue

	polled atomic.Pointer[time.Time] // when the records came that are being taken in
}

// Options are what a tracer is given besides the environment.
type Options struct {
	Log     *slog.Logger
	Version string
	Group   string // the consumer group
	Node    node.Config
}

const (
	// queueSize is how many spans wait to be sent at most, if OTEL_BSP_MAX_QUEUE_SIZE does not say otherwise.
	queueSize = sdktrace.DefaultMaxQueueSize

	// cleanUp is how long what is being sent is given to end when it has been told to.
	cleanUp = time.Second
)

// The attributes that OpenTelemetry has no convention for.
const (
	laneKey     = attribute.Key("chronos.lane")
	deadlineKey = attribute.Key("chronos.deadline")
	latenessKey = attribute.Key("chronos.lateness") // in seconds
	resultKey   = attribute.Key("chronos.result")
)

// Start returns a tracer that sends spans as the settings say. No collector needs to be there.
func Start(ctx context.Context, settings *Settings, options Options) (*Tracer, error) {
	otel.SetLogger(logr.FromSlogHandler(options.Log.Handler()))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		options.Log.Warn("traces: something is not as OpenTelemetry expects it", slog.String("error", oneLine(err)))
	}))
	other, err := settings.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the exporter of traces: %w", err)
	}
	instance, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("draw an id for this instance: %w", err)
	}
	described, err := resource.New(ctx,
		resource.WithAttributes(semconv.ServiceName("chronos"), semconv.ServiceVersion(options.Version),
			semconv.ServiceInstanceID(instance.String())),
		resource.WithHost(), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil { // described is what could be found out, and that is enough
		options.Log.Info("traces: could not find out all about this process", slog.String("error", oneLine(err)))
	}
	room := queueSize
	if n, err := strconv.Atoi(os.Getenv("OTEL_BSP_MAX_QUEUE_SIZE")); err == nil && n > 0 {
		room = n
	}
	e := watched(other, room, options.Log)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(described),
		sdktrace.WithIDGenerator(generator{}),
		sdktrace.WithSampler(sampler{settings.base}),
		sdktrace.WithSpanProcessor(gate{sdktrace.NewBatchSpanProcessor(e, sdktrace.WithMaxQueueSize(room)), e}),
	)
	t := &Tracer{
		deadLetters: map[string]string{}, isDead: map[string]bool{},
		exporter: e, provider: provider, sampler: sampler{settings.base},
		tracer: provider.Tracer("chronos/node/traces", trace.WithInstrumentationVersion(options.Version),
			trace.WithSchemaURL(semconv.SchemaURL)),
		intake: []attribute.KeyValue{
			semconv.MessagingSystemKafka, semconv.MessagingOperationTypeProcess, semconv.MessagingOperationName("take"),
			semconv.MessagingConsumerGroupName(options.Group),
		},
		publish: []attribute.KeyValue{
			semconv.MessagingSystemKafka, semconv.MessagingOperationTypeSend, semconv.MessagingOperationName("publish"),
		},
	}
	for _, lane := range options.Node.Callbacks.DeadLetters() {
		t.isDead[lane] = true
	}
	for _, route := range options.Node.Routes {
		if route.DeadLetter != "" {
			t.deadLetters[route.Output] = route.DeadLetter
			t.isDead[route.DeadLetter] = true
		}
	}
	how := settings.Exporter
	if settings.Protocol != "" {
		how += " over " + settings.Protocol
	}
	options.Log.Info("traces are sent", slog.String("exporter", how), slog.String("sampler", settings.Sampler))
	return t, nil
}

// open returns the exporter.
func (s *Settings) open(ctx context.Context) (sdktrace.SpanExporter, error) {
	switch {
	case s.Exporter == console:
		return stdouttrace.New()
	case s.Protocol == overGRPC:
		return otlptracegrpc.New(ctx)
	default:
		return otlptracehttp.New(ctx)
	}
}

// Close sends what is left, until ctx is done.
func (t *Tracer) Close(ctx context.Context) {
	_ = t.provider.Shutdown(ctx) // What could not be sent is counted, which says more.
	t.exporter.stop()
	limit := time.NewTimer(cleanUp)
	defer limit.Stop()
	select {
	case <-t.exporter.done:
	case <-limit.C:
	}
	t.exporter.finish()
}

// Observe takes an event of the engine. It is called in the middle of an operation, and waits for nothing.
func (t *Tracer) Observe(event node.Event) {
	now := time.Now()
	switch e := event.(type) {
	case node.Started:
		id := attribute.String("chronos.node_id", e.NodeID.String())
		t.intake, t.publish = append(t.intake, id), append(t.publish, id) // the first event: nothing runs yet
	case node.Polled:
		t.polled.Store(&now)
	case node.Enqueued:
		t.takenAll(e.Messages, "scheduled", now)
	case node.Ignored:
		t.takenAll(e.Messages, "duplicate", now)
	case node.Rejected:
		t.rejected(&e, now)
	case node.Fired:
		for i := range e.Messages {
			t.published(&e.Messages[i], attempt{began: e.At.Add(-e.Took), ended: e.At, result: "fired"})
		}
	case node.DeadLettered:
		for i := range e.Messages {
			t.published(&e.Messages[i], attempt{began: now.Add(-e.Took), ended: now, result: "dead_lettered"})
		}
	case node.GaveUp:
		t.published(&e.Message, attempt{began: now.Add(-e.Took), ended: now, result: "gave_up", err: e.Err})
	case node.Unpublished:
		for i := range e.Messages {
			t.published(&e.Messages[i], attempt{
				began: now.Add(-e.Took), ended: now, result: "unpublished", err: e.Err,
			})
		}
	}
}

func (t *Tracer) takenAll(messages []node.Message, result string, now time.Time) {
	for i := range messages {
		if m := &messages[i]; !t.isDead[m.Lane] { // a copy of what was rejected, which has a span already
			t.taken(m, result, now)
		}
	}
}

// taken makes the span of a message that was taken in.
func (t *Tracer) taken(m *node.Message, result string, now time.Time) {
	ctx := context.Background()
	if parent := creation(m.Headers); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	} else {
		id, span := identity(m.Incarnation)
		ctx = context.WithValue(ctx, identityKey{}, ids{id, span})
	}
	span := t.startIntake(ctx, m.Origin, now)
	if span.IsRecording() {
		span.SetAttributes(append(t.about(nil, m), laneKey.String(m.Lane), resultKey.String(result))...)
	}
	span.End(trace.WithTimestamp(now))
}

// rejected makes the span of a record that is no valid submission.
func (t *Tracer) rejected(e *node.Rejected, now time.Time) {
	ctx := context.Background()
	if parent := creation(e.Record.Headers); parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	span := t.startIntake(ctx, node.Origin{
		Topic: e.Record.Topic, Partition: e.Record.Partition, Offset: e.Record.Offset,
	}, now)
	span.SetAttributes(resultKey.String("rejected"), semconv.ErrorTypeKey.String(string(e.Reason)))
	span.SetStatus(codes.Error, "the record was rejected: "+string(e.Reason))
	span.End(trace.WithTimestamp(now))
}

// startIntake begins the span of a record that is taken in, at the instant at which it came.
func (t *Tracer) startIntake(ctx context.Context, origin node.Origin, now time.Time) trace.Span {
	began := now
	if polled := t.polled.Load(); polled != nil {
		began = *polled
	}
	_, span := t.tracer.Start(ctx, name("take", origin.Topic),
		trace.WithSpanKind(trace.SpanKindConsumer), trace.WithTimestamp(began), trace.WithAttributes(t.intake...))
	if span.IsRecording() && origin.Topic != "" {
		span.SetAttributes(
			semconv.MessagingDestinationName(origin.Topic),
			semconv.MessagingDestinationPartitionID(strconv.Itoa(int(origin.Partition))),
			semconv.MessagingKafkaOffset(int(origin.Offset)),
		)
	}
	return span
}

// attempt is one publish of a message.
type attempt struct {
	began, ended time.Time
	result       string
	err          error
}

// published makes the span of a publish: in a trace of its own, with a link to the submission. Its kind is that of a
// client, because its context goes to nobody: the consumer is given the one that the application has made.
func (t *Tracer) published(m *node.Message, a attempt) {
	id, span := identity(m.Incarnation)
	submission := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: span, TraceFlags: trace.FlagsSampled, Remote: true,
	})
	parent := context.Background()
	if made := creation(m.Headers); made.IsValid() {
		submission, parent = made, trace.ContextWithRemoteSpanContext(parent, made)
	}
	if !t.sampler.submitted(parent, submission.TraceID()) {
		return
	}
	topic := m.Lane
	if dead := t.deadLetters[m.Lane]; a.result == "dead_lettered" && dead != "" {
		topic = dead
	}
	attributes := t.about(t.publish, m)
	attributes = append(attributes,
		semconv.MessagingDestinationName(topic), laneKey.String(m.Lane), resultKey.String(a.result))
	if a.err == nil {
		attributes = append(attributes, latenessKey.Float64(a.ended.Sub(m.Deadline).Seconds()))
	} else {
		attributes = append(attributes, semconv.ErrorTypeKey.String(errorType(a.err)))
	}
	_, s := t.tracer.Start(context.WithValue(context.Background(), decidedKey{}, true), name("publish", topic),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(a.began),
		trace.WithLinks(trace.Link{SpanContext: submission}), trace.WithAttributes(attributes...))
	if a.err != nil {
		s.SetStatus(codes.Error, strings.ToValidUTF8(oneLine(a.err), "?"))
	}
	s.End(trace.WithTimestamp(a.ended))
}

// about returns the attributes of a message, behind others. There is room for a few more.
func (t *Tracer) about(others []attribute.KeyValue, m *node.Message) []attribute.KeyValue {
	attributes := make([]attribute.KeyValue, 0, len(others)+8)
	attributes = append(attributes, others...)
	attributes = append(attributes,
		semconv.MessagingMessageID(m.ID), semconv.MessagingMessageBodySize(len(m.Value)),
		deadlineKey.String(m.Deadline.UTC().Format(time.RFC3339Nano)))
	if m.Value == nil {
		attributes = append(attributes, semconv.MessagingKafkaMessageTombstone(true))
	}
	return attributes
}

// name is what the conventions call a span: the operation, and where.
func name(operation, destination string) string {
	if destination == "" {
		return operation
	}
	return operation + " " + destination
}

// errorType says what sort of error a publish has met.
func errorType(err error) string {
	switch {
	case node.KindOf(err) == node.RecordRejected:
		return "rejected"
	case node.KindOf(err) == node.TopicMissing:
		return "no_topic"
	case node.KindOf(err).Untried():
		return "not_sent"
	default:
		return "unknown_outcome"
	}
}
