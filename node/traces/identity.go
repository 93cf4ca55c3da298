package traces

import (
	"context"
	"crypto/sha256"
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"chronos/node"
)

// identity is the trace and the span that a message is taken in by, where the application has said nothing. It is made
// from the incarnation, which every node that has to do with this message knows, and which no other message has.
func identity(incarnation uuid.UUID) (trace.TraceID, trace.SpanID) {
	var text [7 + 16]byte
	copy(text[:], "intake:")
	copy(text[7:], incarnation[:])
	sum := sha256.Sum256(text[:]) // A sampler looks at the bits of a trace id; some of a UUID's are always the same.
	return trace.TraceID(sum[:16]), trace.SpanID(sum[16:24])
}

// creation returns the context that the application has put into the headers; one that is not valid if there is none.
func creation(headers []node.Header) trace.SpanContext {
	for i := range headers {
		if headers[i].Name == "traceparent" {
			ctx := propagation.TraceContext{}.Extract(context.Background(), carrier(headers))
			return trace.SpanContextFromContext(ctx)
		}
	}
	return trace.SpanContext{}
}

// carrier reads headers as the propagators of OpenTelemetry do: of several with one name, the last one counts, as for
// OpenTelemetry in Java.
type carrier []node.Header

var _ propagation.TextMapCarrier = carrier(nil)

// Get implements propagation.TextMapCarrier.
func (c carrier) Get(name string) string {
	for _, h := range slices.Backward(c) {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// Set implements propagation.TextMapCarrier, and changes nothing: headers are relayed as they are.
func (c carrier) Set(string, string) {}

// Keys implements propagation.TextMapCarrier.
func (c carrier) Keys() []string {
	names := make([]string, len(c))
	for i := range c {
		names[i] = c[i].Name
	}
	return names
}

type (
	identityKey struct{} // of the ids that a root span gets
	decidedKey  struct{} // of a span that is to be sampled
)

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

// generator draws ids, except those that are made.
type generator struct{}

var _ sdktrace.IDGenerator = generator{}

// NewIDs implements sdktrace.IDGenerator.
func (g generator) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if made, ok := ctx.Value(identityKey{}).(ids); ok {
		return made.trace, made.span
	}
	var id trace.TraceID
	for !id.IsValid() {
		fill(id[:8])
		fill(id[8:])
	}
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(context.Context, trace.TraceID) trace.SpanID {
	var id trace.SpanID
	for !id.IsValid() {
		fill(id[:])
	}
	return id
}

// fill draws eight bytes. They need not be secret, only different.
func fill(eight []byte) {
	for i, n := 0, rand.Uint64(); i < len(eight); i, n = i+1, n>>8 {
		eight[i] = byte(n)
	}
}

// sampler decides for a publish what has been decided for its submission. Each begins a trace of its own, so that a
// sampler that looks at the trace id, or at the parent, would decide anew: of one percent of the submissions and of one
// percent of the publishes, next to none would belong together. A decision depends only on the parent and on the trace
// id of the submission, so any node comes to the same.
type sampler struct{ base sdktrace.Sampler }

var _ sdktrace.Sampler = sampler{}

// ShouldSample implements sdktrace.Sampler. For a publish it is asked only if submitted has said yes.
func (s sampler) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if p.ParentContext.Value(decidedKey{}) != nil {
		return sdktrace.SamplingResult{Decision: sdktrace.RecordAndSample}
	}
	return s.base.ShouldSample(p)
}

// Description implements sdktrace.Sampler.
func (s sampler) Description() string { return s.base.Description() }

// submitted reports whether the span was sampled that has taken a message in: in that trace, as a child of what is in
// ctx, if there is anything.
func (s sampler) submitted(ctx context.Context, id trace.TraceID) bool {
	p := sdktrace.SamplingParameters{ParentContext: ctx, TraceID: id, Kind: trace.SpanKindConsumer}
	return s.base.ShouldSample(p).Decision == sdktrace.RecordAndSample
}
