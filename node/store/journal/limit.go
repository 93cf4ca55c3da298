package journal

import (
	"context"
	"fmt"
	"time"

	"chronos/node/ledger"
)

// defaultSilence is how long Kafka may say nothing of a partition to whoever moves a journal: longer than it takes a
// cluster to get over the loss of a broker.
const defaultSilence = time.Minute

// limited is a Log that nobody waits for longer than a limit while it says nothing: an adapter tries for as long as it
// may, and a person at a terminal would look at nothing for as long as a partition has no leader.
type limited struct {
	Log

	limit time.Duration
}

// SilentError says that Kafka has said nothing of a partition of the journal for too long.
type SilentError struct {
	Number int32
	For    time.Duration
	Err    error // what was seen last; nil if nothing was
}

// Error returns the sentence for a person.
func (e *SilentError) Error() string {
	why := ""
	if e.Err != nil {
		why = fmt.Sprintf(" (%v)", e.Err)
	}
	return fmt.Sprintf("partition %s of the journal has not answered for %v%s: it has no leader, or its brokers "+
		"cannot be reached, as kafka-topics.sh --describe shows; do the same again when that is mended",
		ledger.Name(e.Number), e.For, why)
}

// Unwrap returns what was seen last.
func (e *SilentError) Unwrap() error { return e.Err }

// ask has something asked about a partition, until the limit has passed since it began, or since heard was called last.
func (l *limited) ask(ctx context.Context, number int32, do func(ctx context.Context, heard func()) error) error {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(l.limit, cancel)
	defer timer.Stop()
	err := do(asking, func() { timer.Reset(l.limit) })
	if err != nil && asking.Err() != nil && ctx.Err() == nil {
		return &SilentError{Number: number, For: l.limit, Err: err}
	}
	return err
}

// Stable implements Log.
func (l *limited) Stable(ctx context.Context, number int32) (end int64, err error) {
	err = l.ask(ctx, number, func(ctx context.Context, _ func()) error {
		end, err = l.Log.Stable(ctx, number)
		return err
	})
	return end, err
}

// Begin implements ledger.Ledger.
func (l *limited) Begin(ctx context.Context, number int32) (place ledger.Place, err error) {
	err = l.ask(ctx, number, func(ctx context.Context, _ func()) error {
		place, err = l.Log.Begin(ctx, number)
		return err
	})
	return place, err
}

// Own implements ledger.Ledger.
func (l *limited) Own(ctx context.Context, number int32, fence ledger.Entry) (writer ledger.Writer, err error) {
	err = l.ask(ctx, number, func(ctx context.Context, _ func()) error {
		writer, err = l.Log.Own(ctx, number, fence)
		return err
	})
	return writer, err
}

// Read implements ledger.Ledger.
func (l *limited) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	return l.ask(ctx, from.Number, func(ctx context.Context, heard func()) error {
		return l.Log.Read(ctx, from, until, func(entry ledger.Committed) error {
			heard()
			return each(entry)
		})
	})
}
