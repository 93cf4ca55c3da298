package sqlite_test

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/sqlite"
)

// batch is how many messages go into one call of a benchmark.
const batch = 500

// BenchmarkInsert stores messages with 500 bytes and three headers each, beside others that wait.
func BenchmarkInsert(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			f := newFeed(b, waiting)
			for b.Loop() {
				f.insert(b, batch, false)
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkFire claims messages and deletes them.
func BenchmarkFire(b *testing.B) {
	for _, waiting := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			f := newFeed(b, waiting)
			for b.Loop() {
				b.StopTimer()
				f.insert(b, batch, false)
				b.StartTimer()
				f.fire(b)
			}
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
		})
	}
}

// BenchmarkCycle does what a node does with messages that are due at once: it takes them in as claimed, and deletes
// them.
func BenchmarkCycle(b *testing.B) {
	f := newFeed(b, 0)
	for b.Loop() {
		f.delete(b, f.insert(b, batch, true))
	}
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "messages/s")
}

// feed is a store and the messages that a benchmark puts into it.
type feed struct {
	store *sqlite.Store
	next  int
}

func newFeed(b *testing.B, waiting int) *feed {
	b.Helper()
	f := &feed{store: open(b, filepath.Join(b.TempDir(), "chronos.db"), sqlite.Options{Timeout: time.Minute})}
	for range waiting / 10_000 {
		f.insert(b, 10_000, false)
	}
	// The others fall due long after those of the benchmark.
	later := `UPDATE messages SET due_at = due_at + 1000000000000`
	if _, err := f.store.DB().ExecContext(b.Context(), later); err != nil {
		b.Fatal(err)
	}
	return f
}

// insert stores n messages, due in an order that is not that of their ids, and returns their names.
func (f *feed) insert(b *testing.B, n int, claim bool) []node.Ref {
	b.Helper()
	messages := make([]item, n)
	refs := make([]node.Ref, n)
	for i := range messages {
		f.next++
		random := uuid.New()
		messages[i] = item{claim: claim, Message: node.Message{
			ID: random.String(), Lane: "output", Incarnation: random,
			Deadline: time.UnixMicro(int64(f.next*7919%1_000_003) * 1000),
			Key:      random[:], Value: make([]byte, 500),
			Headers: []node.Header{
				{Name: "content-type", Value: []byte("application/json")},
				{Name: "source", Value: []byte("orders")},
				{Name: "attempt", Value: []byte("1")},
			},
		}}
		refs[i] = messages[i].Ref()
	}
	insert(b, f.store, messages...)
	return refs
}

// fire claims a batch and deletes it.
func (f *feed) fire(b *testing.B) {
	b.Helper()
	claimed, err := f.store.Claim(b.Context(), node.ClaimRequest{
		Node: uuid.UUID{1}, Hold: time.Minute, Until: time.UnixMicro(1_000_000_000_000 - 1),
		Lanes: []node.Share{{Lane: "output", Limit: batch, Bytes: math.MaxInt}},
	})
	if err != nil || len(claimed.Messages) != batch {
		b.Fatalf("%d messages, error %v", len(claimed.Messages), err)
	}
	refs := make([]node.Ref, len(claimed.Messages))
	for i, r := range claimed.Messages {
		refs[i] = r.Ref()
	}
	f.delete(b, refs)
}

func (f *feed) delete(b *testing.B, refs []node.Ref) {
	b.Helper()
	deleted, err := f.store.Settle(b.Context(), node.Removals(refs...))
	if err != nil {
		b.Fatal(err)
	}
	for i, did := range deleted {
		if did != node.Removed {
			b.Fatalf("%+v was not there", refs[i])
		}
	}
}
