package journal_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// leaderless is a Log of which a partition has no leader: whoever asks for it is told nothing, for as long as he waits.
// Reading brings so many entries before, one in each pause.
type leaderless struct {
	journal.Log

	entries int
	pause   time.Duration
}

var errNoLeader = errors.New("there is no leader")

func (l leaderless) hang(ctx context.Context) error {
	<-ctx.Done()
	return errNoLeader
}

func (l leaderless) Stable(ctx context.Context, _ int32) (int64, error) { return 0, l.hang(ctx) }

func (l leaderless) Begin(ctx context.Context, _ int32) (ledger.Place, error) {
	return ledger.Place{}, l.hang(ctx)
}

func (l leaderless) Own(ctx context.Context, _ int32, _ ledger.Entry) (ledger.Writer, error) {
	return nil, l.hang(ctx)
}

func (l leaderless) Read(ctx context.Context, _ ledger.Place, _ int64, each func(ledger.Committed) error) error {
	for range l.entries {
		select {
		case <-time.After(l.pause):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := each(ledger.Committed{}); err != nil {
			return err
		}
	}
	return l.hang(ctx)
}

// Whoever moves a journal of which a partition has no leader is told so when the limit has passed, whatever is asked;
// and not while entries come, however many there are. Who gives up by himself is told what was seen.
func TestSilenceEnds(t *testing.T) {
	t.Parallel()
	const limit, entries = time.Minute, 100
	log := journal.Limited(leaderless{entries: entries, pause: limit - time.Second}, limit)
	came := 0
	for name, c := range map[string]struct {
		ask  func(context.Context) error
		want time.Duration
	}{
		"stable": {func(ctx context.Context) error {
			_, err := log.Stable(ctx, 3)
			return err
		}, limit},
		"begin": {func(ctx context.Context) error {
			_, err := log.Begin(ctx, 3)
			return err
		}, limit},
		"own": {func(ctx context.Context) error {
			_, err := log.Own(ctx, 3, ledger.Entry{})
			return err
		}, limit},
		"read": {func(ctx context.Context) error {
			return log.Read(ctx, ledger.Place{Number: 3}, 1000, func(ledger.Committed) error {
				came++
				return nil
			})
		}, entries*(limit-time.Second) + limit},
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			err := c.ask(t.Context())
			silent, is := errors.AsType[*journal.SilentError](err)
			if !is || silent.Number != 3 || !errors.Is(err, errNoLeader) ||
				!strings.Contains(err.Error(), "journal has not answered for 1m0s (there is no leader): it has") {
				t.Errorf("%s: %v", name, err)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s took %v, want %v", name, took, c.want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, is := errors.AsType[*journal.SilentError](c.ask(ctx)); is {
				t.Errorf("%s: whoever gives up by himself is told that nothing has answered", name)
			}
		})
	}
	if came != entries {
		t.Errorf("%d entries came, want %d", came, entries)
	}
}

// An export of a journal of which a partition has no leader ends, before anything is sealed.
func TestMoverWithoutLeader(t *testing.T) {
	t.Parallel()
	m, err := journal.OpenMover(journal.MoveConfig{
		Log: leaderless{}, Partitions: 1, Dir: t.TempDir(), Now: time.Now, Silence: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Contents(t.Context())
	if _, is := errors.AsType[*journal.SilentError](err); !is {
		t.Errorf("contents: %v", err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

// unowned is a Log of which nobody can own a partition: it has no leader for that, and can be read.
type unowned struct {
	journal.Log

	asked int
}

func (u *unowned) Own(ctx context.Context, _ int32, _ ledger.Entry) (ledger.Writer, error) {
	u.asked++
	<-ctx.Done()
	return nil, errNoLeader
}

// Whoever moves a journal of which a partition is silent for too long hears of it then, and not ten times as late.
func TestMoverWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	log := &unowned{Log: w.cluster.Ledger(topicName, "chronos")}
	m, err := journal.OpenMover(journal.MoveConfig{
		Log: log, Partitions: 1, Dir: t.TempDir(), Now: w.clock.Now, Silence: 100 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Seal(t.Context(), uuid.New(), "test")
	if _, is := errors.AsType[*journal.SilentError](err); !is || log.asked != 1 {
		t.Errorf("seal: %v, after %d tries to own the partition", err, log.asked)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
