package memory_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// TestStore runs the conformance suite.
func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Instance {
		clock := storetest.NewClock()
		store := memory.New(clock.Now)
		return storetest.Instance{
			Store: store, Clock: clock, Dump: func(testing.TB) []memory.Row { return store.Dump() },
		}
	})
}

// TestOrder checks what the other stores cannot be asked to check: that Ready and Stuck of the model itself take
// the right rows in the right order however many there are. It compares every call with a scan and a sort of a
// dump made just before. There are enough rows for the indexes to split and empty their chunks often.
func TestOrder(t *testing.T) {
	const rows, steps = 1200, 250
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	store := memory.New(func() time.Time { return now })
	owner := uuid.UUID{1}
	next := 0
	stored := map[node.MessageID]node.Ref{}

	insert := func(n int) {
		request := node.InsertRequest{Node: owner}
		for range n {
			next++
			m := message(next, now.Add(time.Duration(random.IntN(50))*time.Second))
			m.Value = make([]byte, random.IntN(20))
			request.Messages = append(request.Messages, node.Insertion{
				Message: m, Readied: random.IntN(4) == 0,
			})
			stored[node.MessageID{ID: m.ID, Topic: m.Topic}] = m.Ref()
		}
		must(store.Insert(t.Context(), request))(t)
	}
	insert(rows)

	for range steps {
		now = now.Add(time.Duration(random.IntN(100)) * time.Millisecond)
		before := store.Dump()
		switch random.IntN(5) {
		case 0:
			insert(random.IntN(40))
		case 1:
			request := node.ReadyRequest{
				Node:  owner,
				Until: now.Add(time.Duration(random.IntN(50)) * time.Second),
				Limit: 1 + random.IntN(300),
				Bytes: 1 + random.IntN(3000),
			}
			readied := must(store.Ready(t.Context(), request))(t)
			want := dueRows(before, request)
			if got := refs(readied); !slices.Equal(got, want) {
				t.Fatalf("Ready(%+v) took\n%v\nbut the scan finds\n%v", request, got, want)
			}
		case 2:
			request := node.StuckRequest{
				Hold:  time.Duration(random.IntN(5)) * time.Second,
				Limit: 1 + random.IntN(300),
			}
			stuck := must(store.Stuck(t.Context(), request))(t)
			want := stuckRows(before, now, request)
			if !slices.Equal(stuck, want) {
				t.Fatalf("Stuck(%+v) returned\n%v\nbut the scan finds\n%v", request, stuck, want)
			}
		case 3:
			var releases []node.Release
			for range random.IntN(300) {
				r := before[random.IntN(len(before))]
				releases = append(releases, node.Release{
					Claim: node.Claim{Ref: r.Ref(), ReadiedAt: r.ReadiedAt, ReadiedBy: r.ReadiedBy},
					Due:   now.Add(time.Duration(random.IntN(50)) * time.Second),
				})
			}
			must(store.Reset(t.Context(), releases))(t)
		case 4:
			var gone []node.Ref
			for range random.IntN(40) {
				gone = append(gone, before[random.IntN(len(before))].Ref())
			}
			must(store.Delete(t.Context(), gone))(t)
			for _, ref := range gone {
				delete(stored, node.MessageID{ID: ref.ID, Topic: ref.Topic})
			}
		}
		if store.Len() != len(stored) {
			t.Fatalf("Len() is %d, but %d messages are stored", store.Len(), len(stored))
		}
	}

	// Whatever is left can be claimed and removed, so no index has lost or kept anything.
	all := node.ReadyRequest{
		Node: owner, Until: now.Add(time.Hour), Limit: math.MaxInt, Bytes: math.MaxInt,
	}
	must(store.Ready(t.Context(), all))(t)
	claims := must(store.Stuck(t.Context(), node.StuckRequest{Limit: math.MaxInt}))(t)
	if len(claims) != len(stored) {
		t.Fatalf("%d claims on %d messages", len(claims), len(stored))
	}
	var last []node.Ref
	for _, claim := range claims {
		last = append(last, claim.Ref)
	}
	if deleted := must(store.Delete(t.Context(), last))(t); slices.Contains(deleted, false) {
		t.Fatal("Delete did not find a message that Stuck has returned")
	}
	if store.Len() != 0 || len(store.Dump()) != 0 {
		t.Fatalf("%d messages are left", store.Len())
	}
}

// TestDumpSharesNothing checks that a test which changes what it was handed does not change the store.
func TestDumpSharesNothing(t *testing.T) {
	store := memory.New(func() time.Time { return time.Unix(0, 0) })
	m := message(1, time.Unix(100, 0))
	m.Key, m.Value = []byte("key"), []byte("value")
	m.Headers = []node.Header{{Name: "name", Value: []byte("header")}}
	must(store.Insert(t.Context(), node.InsertRequest{Messages: []node.Insertion{{Message: m}}}))(t)
	want := store.Dump()

	spoiled := store.Dump()[0]
	spoiled.Key[0], spoiled.Value[0], spoiled.Headers[0].Value[0] = 'X', 'X', 'X'
	spoiled.Headers[0].Name = "X"
	if got := store.Dump(); !reflect.DeepEqual(got, want) {
		t.Fatalf("the store holds\n%v\nafter a dump was changed, and held\n%v", got, want)
	}
}

// dueRows returns what Ready must claim of rows.
func dueRows(rows []memory.Row, request node.ReadyRequest) []node.Ref {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r memory.Row) bool {
		return r.ReadiedBy != uuid.Nil || r.Due.After(request.Until)
	})
	slices.SortFunc(rows, func(a, b memory.Row) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Topic, b.Topic))
	})
	var due []node.Ref
	size := 0
	for _, r := range rows {
		if len(due) == request.Limit || size >= request.Bytes {
			break
		}
		due = append(due, r.Ref())
		size += r.Size()
	}
	return due
}

// stuckRows returns what Stuck must return of rows.
func stuckRows(rows []memory.Row, now time.Time, request node.StuckRequest) []node.Claim {
	var stuck []node.Claim
	for _, r := range rows {
		if r.ReadiedBy != uuid.Nil && now.Sub(r.ReadiedAt) >= request.Hold {
			stuck = append(stuck, node.Claim{
				Ref: r.Ref(), ReadiedAt: r.ReadiedAt, ReadiedBy: r.ReadiedBy,
			})
		}
	}
	slices.SortFunc(stuck, func(a, b node.Claim) int {
		return cmp.Or(
			a.ReadiedAt.Compare(b.ReadiedAt), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Topic, b.Topic),
		)
	})
	return stuck[:min(len(stuck), request.Limit)]
}

func refs(readied []node.Readied) []node.Ref {
	var list []node.Ref
	for _, r := range readied {
		list = append(list, r.Ref())
	}
	return list
}

// message returns the n-th message. Ids come in no particular order, and each is used on two topics.
func message(n int, deadline time.Time) node.Message {
	m := node.Message{
		ID:       fmt.Sprintf("id-%d", n/2*7919%10007),
		Topic:    fmt.Sprintf("topic-%d", n%2),
		Deadline: deadline,
	}
	binary.BigEndian.PutUint64(m.Incarnation[:], uint64(n))
	return m
}

func must[T any](result T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

// BenchmarkCycle inserts, claims and deletes messages in batches of 100, with others waiting.
func BenchmarkCycle(b *testing.B) {
	for _, waiting := range []int{0, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			benchmarkCycle(b, waiting)
		})
	}
}

func benchmarkCycle(b *testing.B, waiting int) {
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Unix(0, 0)
	store := memory.New(func() time.Time { return start })
	next := 0
	batch := func(n int, later time.Duration) {
		request := node.InsertRequest{Messages: make([]node.Insertion, n)}
		for i := range request.Messages {
			next++
			m := message(next, start.Add(later+time.Duration(random.Int64N(int64(time.Hour)))))
			m.ID = fmt.Sprint(next)
			m.Value = make([]byte, 200)
			request.Messages[i].Message = m
		}
		if _, err := store.Insert(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
	batch(waiting, time.Hour)
	for b.Loop() {
		batch(100, 0)
		readied, err := store.Ready(b.Context(), node.ReadyRequest{
			Node: uuid.UUID{1}, Until: start.Add(time.Hour), Limit: 100, Bytes: math.MaxInt,
		})
		if err != nil || len(readied) != 100 {
			b.Fatal(len(readied), err)
		}
		if _, err := store.Stuck(b.Context(), node.StuckRequest{Hold: time.Second, Limit: 100}); err != nil {
			b.Fatal(err)
		}
		if _, err := store.Delete(b.Context(), refs(readied)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "messages/s")
}
