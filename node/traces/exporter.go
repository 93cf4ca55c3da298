package traces

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// exporter is another exporter, watched: what it can't send is counted and told, not more often than every
// reminderInterval. Nobody else would tell: the SDK drops spans silently.
type exporter struct {
	sdktrace.SpanExporter

	log  *slog.Logger
	stop context.CancelFunc // ends what is being sent
	done chan struct{}      // closed when the SDK has finished with it

	room     int64 // how many spans may wait to be sent
	waiting  atomic.Int64
	overflow atomic.Int64 // dropped, because there was no room

	mu      sync.Mutex
	stopped context.Context //nolint:containedctx // of the exporter itself, not of a call
	sent    int64
	lost    int64 // could not be sent, or there was no room
	told    int64 // of lost
	saidAt  time.Time
	failing bool
}

// reminderInterval is how often it is said that spans are lost.
const reminderInterval = 30 * time.Second

var _ sdktrace.SpanExporter = (*exporter)(nil)

func watched(other sdktrace.SpanExporter, room int, log *slog.Logger) *exporter {
	stopped, stop := context.WithCancel(context.Background())
	return &exporter{
		SpanExporter: other, log: log, stopped: stopped, stop: stop, done: make(chan struct{}), room: int64(room),
	}
}

// admit reports whether there is room for one more span.
func (e *exporter) admit() bool {
	if e.waiting.Add(1) <= e.room {
		return true
	}
	e.waiting.Add(-1)
	e.overflow.Add(1)
	return false
}

// ExportSpans implements sdktrace.SpanExporter. It returns no error: what there is to say has been said.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.stopped, cancel)()
	err := e.SpanExporter.ExportSpans(ctx, spans)
	e.waiting.Add(-int64(len(spans)))
	e.account(int64(len(spans)), err)
	return nil
}

// account takes note of what became of spans.
func (e *exporter) account(spans int64, err error) {
	overflow := e.overflow.Swap(0)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lost += overflow
	if err != nil {
		e.lost += spans
	} else {
		e.sent += spans
	}
	due := time.Since(e.saidAt) >= reminderInterval
	switch fresh := e.lost - e.told; {
	case e.stopped.Err() != nil: // finish says it
		return
	case err != nil && (due || !e.failing):
		e.log.Warn("traces can't be sent, and are dropped; messages don't depend on them",
			slog.Int64("spans", fresh), slog.String("error", oneLine(err)))
	case err == nil && e.failing:
		e.log.Info("traces are sent again", slog.Int64("spans_dropped", fresh))
	case err == nil && fresh > 0 && due:
		e.log.Warn("there are more traces than the collector takes: some are dropped; "+
			"sample fewer with OTEL_TRACES_SAMPLER, or raise OTEL_BSP_MAX_QUEUE_SIZE", slog.Int64("spans", fresh))
	default:
		return
	}
	e.failing, e.told, e.saidAt = err != nil, e.lost, time.Now()
}

// Shutdown implements sdktrace.SpanExporter.
func (e *exporter) Shutdown(ctx context.Context) error {
	defer close(e.done)
	return e.SpanExporter.Shutdown(ctx)
}

// finish says, when the SDK has finished, what could not be sent.
func (e *exporter) finish() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if lost := e.lost + e.overflow.Load() + e.waiting.Load(); lost > 0 {
		e.log.Warn("some traces could not be sent", slog.Int64("spans", lost), slog.Int64("spans_sent", e.sent))
	}
}

// gate lets spans through to another processor as long as there is room for them. The SDK's own processor would drop
// the others too, and not say so.
type gate struct {
	sdktrace.SpanProcessor

	exporter *exporter
}

// OnEnd implements sdktrace.SpanProcessor.
func (g gate) OnEnd(span sdktrace.ReadOnlySpan) {
	if span.SpanContext().IsSampled() && g.exporter.admit() {
		g.SpanProcessor.OnEnd(span)
	}
}

// oneLine returns what err says, on one line.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
