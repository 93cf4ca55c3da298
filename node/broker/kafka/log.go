package kafka

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"
)

// quiet returns a logger for franz-go that says at level debug what franz-go says at any level from info: it warns
// of every single connection that fails, several times a second while a broker is away.
func quiet(logger *slog.Logger) kgo.Logger {
	return kslog.New(slog.New(demoting{logger.Handler()}))
}

// demoting hands records on at level debug, and drops those that were at it already, or that come with every Publish.
type demoting struct{ slog.Handler }

// Enabled reports whether records of this level are handed on.
func (d demoting) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && d.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle hands r on.
func (d demoting) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "flushing" {
		return nil
	}
	r.Level = slog.LevelDebug
	return d.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that adds attributes.
func (d demoting) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoting{d.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that opens a group.
func (d demoting) WithGroup(name string) slog.Handler { return demoting{d.Handler.WithGroup(name)} }

// repeats remembers what was said already.
type repeats struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// repeatAfter is how long a thing that goes on is not said again.
const repeatAfter = time.Minute

// due reports whether it is time to say what key stands for, and takes it as said.
func (r *repeats) due(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if last, said := r.last[key]; said && now.Sub(last) < repeatAfter {
		return false
	}
	if r.last == nil {
		r.last = make(map[string]time.Time)
	}
	r.last[key] = now
	return true
}
