package service_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/broker/kafka"
	journalstore "chronos/node/store/journal"
)

// watched is a store on a real Kafka, and how many entries its last takeover has read.
type watched struct {
	*journalstore.Store

	read int64
}

func (j *journalOn) watch() *watched {
	j.Helper()
	log, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: j.brokers}, Topic: j.topic, Name: j.topic,
	})
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(log.Close)
	w := &watched{}
	w.Store, err = journalstore.Open(journalstore.Config{
		Ledger: log, Dir: j.TempDir(), Now: time.Now,
		Observe: func(r journalstore.Replay) { w.read = r.Read },
	})
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(func() { _ = w.Close() })
	return w
}

// takeOver has the store own partition 0, and returns how long that has taken, and how many entries were read.
func (w *watched) takeOver(j *journalOn) (took time.Duration, read int64) {
	j.Helper()
	w.read = 0
	began := time.Now()
	j.own(w.Store)
	return time.Since(began), w.read
}

// follow follows until the copy is warm. What follows it then follows until stop is called.
func (w *watched) follow(j *journalOn) (stop func()) {
	j.Helper()
	ctx, cancel := context.WithCancel(j.Context())
	warm := make(chan struct{})
	becomes := sync.OnceFunc(func() { close(warm) })
	var following sync.WaitGroup
	following.Go(func() {
		w.Follow(ctx, func(standbys []journalstore.Standby) {
			if len(standbys) == 1 && standbys[0].Warm {
				becomes()
			}
			for _, standby := range standbys {
				if standby.Err != nil {
					j.Errorf("a standby: %+v", standby)
				}
			}
		})
	})
	select {
	case <-warm:
	case <-ctx.Done():
	}
	return func() {
		cancel()
		following.Wait()
	}
}

// wait has n messages of 100 bytes wait in the journal, from a place on, which it moves on.
func (j *journalOn) wait(store *journalstore.Store, place *node.Place, n int64) {
	j.Helper()
	for until := place.Offset + n; place.Offset < until; {
		request := node.TakeRequest{From: []node.Place{*place}}
		for range min(1000, until-place.Offset) {
			id := uuid.NewString()
			request.Items = append(request.Items, node.Item{
				Epoch: 1, Offset: place.Offset, Action: node.Schedule, Message: node.Message{
					ID: id, Lane: j.output, Incarnation: uuid.New(), Deadline: time.Now(), Key: []byte("key"),
					Value: []byte(id + id + id)[:100],
				},
			})
			place.Offset++
		}
		if _, err := store.Take(j.Context(), request); err != nil {
			j.Fatal(err)
		}
	}
}

// begins returns the place from which messages come, once the store has a position for it.
func (j *journalOn) begins(store *journalstore.Store) *node.Place {
	j.Helper()
	place := &node.Place{
		Partition: node.Partition{TopicID: uuid.New()}, Position: node.Position{Epoch: node.UnknownEpoch},
	}
	if _, _, err := store.Positions(j.Context(), []node.Place{*place}); err != nil {
		j.Fatal(err)
	}
	return place
}

// On a real Kafka: of two nodes that take a partition over, with 10,000 messages waiting, the one with a standby's
// copy reads what has come since its last look, and the other one everything. Both have the same afterwards.
func TestStandbyTakeover(t *testing.T) {
	t.Parallel()
	standbyTakeover(t, 10_000)
}

// The same with 100,000, which takes 80 s of processor time under the race detector: too much for make test, which has
// the ten thousand. make test-long runs it.
func TestStandbyTakeoverOfMany(t *testing.T) {
	t.Parallel()
	standbyTakeover(t, 100_000)
}

func standbyTakeover(t *testing.T, waiting int64) {
	t.Helper()
	j := newJournalOn(t, 1)
	owner := j.watch()
	j.own(owner.Store)
	place := j.begins(owner.Store)
	j.wait(owner.Store, place, waiting)
	standby := j.watch()
	stop := standby.follow(j)
	j.wait(owner.Store, place, 1000)
	j.fire(owner.Store, j.claim(owner.Store, 100), nil)
	stop()
	tookWarm, readWarm := standby.takeOver(j)
	j.fire(standby.Store, j.claim(standby.Store, 100), nil)
	cold := j.watch()
	tookCold, readCold := cold.takeOver(j)
	t.Logf("with a standby: %d entries in %v; without: %d in %v", readWarm, tookWarm, readCold, tookCold)
	if readWarm > 1200 || readCold < waiting {
		t.Errorf("with a standby %d entries were read, and without one %d of %d", readWarm, readCold, waiting)
	}
	if got, want := len(j.claim(cold.Store, 1<<20)), int(waiting)+1000-200; got != want {
		t.Errorf("%d messages wait, want %d", got, want)
	}
}

// How long a takeover of a partition takes with a million messages waiting, of which each has 100 bytes (with -short
// 100,000), for a node without a copy, and for one that was a standby for as long as 1000 messages came after it was
// warm. "first" is how long a standby takes until it is warm.
func BenchmarkTakeover(b *testing.B) {
	j := newJournalOn(b, 1)
	owner := j.watch()
	j.own(owner.Store)
	waiting := int64(1_000_000)
	if testing.Short() {
		waiting = 100_000
	}
	place := j.begins(owner.Store)
	j.wait(owner.Store, place, waiting)
	b.Run("cold", func(b *testing.B) {
		var took time.Duration
		var read int64
		for b.Loop() {
			next := j.watch()
			tookOne, readOne := next.takeOver(j)
			took, read = took+tookOne, read+readOne
			owner.Release(0)
			owner = next
		}
		b.ReportMetric(took.Seconds()/float64(b.N), "s/takeover")
		b.ReportMetric(float64(read)/float64(b.N), "entries/takeover")
	})
	b.Run("standby", func(b *testing.B) {
		var took, first time.Duration
		var read int64
		for b.Loop() {
			next := j.watch()
			began := time.Now()
			stop := next.follow(j)
			first += time.Since(began)
			j.wait(owner.Store, place, 1000)
			stop()
			tookOne, readOne := next.takeOver(j)
			took, read = took+tookOne, read+readOne
			owner.Release(0)
			owner = next
		}
		b.ReportMetric(took.Seconds()/float64(b.N), "s/takeover")
		b.ReportMetric(float64(read)/float64(b.N), "entries/takeover")
		b.ReportMetric(first.Seconds()/float64(b.N), "s/first")
	})
}
