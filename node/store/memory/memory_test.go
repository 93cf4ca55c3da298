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
			Store: store, Clock: clock,
			Dump:    func(testing.TB) []memory.Row { return store.Dump() },
			Promote: func(testing.TB) { store.Promote() },
			Upgrade: func(testing.TB) { store.Upgrade() },
		}
	})
}

// input is the partition that the messages of a test come from.
type input struct {
	store *memory.Store
	at    node.Place
}

// newInput returns a partition of the store that begins at offset 0.
func newInput(t testing.TB, store *memory.Store) *input {
	t.Helper()
	in := &input{store: store, at: node.Place{Partition: node.Partition{Topic: "input", TopicID: uuid.UUID{9}}}}
	if _, _, err := store.Positions(t.Context(), []node.Place{in.at}); err != nil {
		t.Fatal(err)
	}
	return in
}

// take takes messages in; claim says which of them as claimed.
func (in *input) take(t testing.TB, owner uuid.UUID, hold time.Duration, claim func() bool, list ...node.Message) {
	t.Helper()
	request := node.TakeRequest{Node: owner, Hold: hold, From: []node.Place{in.at}}
	for _, m := range list {
		request.Items = append(request.Items, node.Item{
			Offset: in.at.Offset, Action: node.Schedule, Message: m, Claim: claim(),
		})
		in.at.Offset++
	}
	if result, err := in.store.Take(t.Context(), request); err != nil || result.Taken != len(list) {
		t.Fatalf("took %d of %d, error %v", result.Taken, len(list), err)
	}
}

func never() bool { return false }

// TestOrder checks what the other stores cannot be asked to check: that Claim and Expired of the model itself take
// the right rows in the right order however many there are. It compares every call with a scan and a sort of a
// dump made just before. There are enough rows for the indexes to split and empty their chunks often.
func TestOrder(t *testing.T) {
	const rows, steps = 1200, 250
	random := rand.New(rand.NewPCG(1, 2))
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	store := memory.New(func() time.Time { return now })
	in := newInput(t, store)
	owner := uuid.UUID{1}
	next := 0
	stored := map[node.MessageID]node.Ref{}
	hold := func() time.Duration { return time.Duration(random.IntN(5)) * time.Second }

	insert := func(n int) {
		var list []node.Message
		for range n {
			next++
			m := message(next, now.Add(time.Duration(random.IntN(50))*time.Second))
			m.Value = make([]byte, random.IntN(20))
			list = append(list, m)
			stored[node.MessageID{ID: m.ID, Lane: m.Lane}] = m.Ref()
		}
		in.take(t, owner, hold(), func() bool { return random.IntN(4) == 0 }, list...)
	}
	insert(rows)

	for range steps {
		now = now.Add(time.Duration(random.IntN(100)) * time.Millisecond)
		before := store.Dump()
		switch random.IntN(5) {
		case 0:
			insert(random.IntN(40))
		case 1:
			request := node.ClaimRequest{
				Node: owner, Hold: hold(), Until: now.Add(time.Duration(random.IntN(50)) * time.Second),
			}
			for part := range 9 {
				share := node.Share{
					Lane: fmt.Sprint("topic-", part/3), Part: partNames()[part%3],
					Limit: 1 + random.IntN(200), Bytes: 1 + random.IntN(2000),
				}
				if random.IntN(3) == 0 {
					share.From = now.Add(time.Duration(random.IntN(50)) * time.Second)
				}
				request.Lanes = append(request.Lanes, share)
			}
			claimed := must(store.Claim(t.Context(), request))(t).Messages
			want := dueRows(before, request)
			if got := refs(claimed); !slices.Equal(got, want) {
				t.Fatalf("Claim(%+v) took\n%v\nbut the scan finds\n%v", request, got, want)
			}
		case 2:
			limit := 1 + random.IntN(300)
			expired := must(store.Expired(t.Context(), limit))(t)
			want := expiredRows(before, now, limit)
			if !slices.Equal(expired, want) {
				t.Fatalf("Expired(%d) returned\n%v\nbut the scan finds\n%v", limit, expired, want)
			}
		case 3:
			var releases []node.Release
			for range random.IntN(300) {
				r := before[random.IntN(len(before))]
				releases = append(releases, node.Release{
					Claim: node.Claim{Ref: r.Ref(), ReadiedAt: r.ReadiedAt, ReadiedBy: r.ReadiedBy},
					Part:  partNames()[random.IntN(3)],
					Due:   now.Add(time.Duration(random.IntN(50)) * time.Second),
				})
			}
			must(store.Reset(t.Context(), releases))(t)
		case 4:
			var gone []node.Ref
			for range random.IntN(40) {
				gone = append(gone, before[random.IntN(len(before))].Ref())
			}
			must(store.Settle(t.Context(), node.Removals(gone...)))(t)
			for _, ref := range gone {
				delete(stored, node.MessageID{ID: ref.ID, Lane: ref.Lane})
			}
		}
		if store.Len() != len(stored) {
			t.Fatalf("Len() is %d, but %d messages are stored", store.Len(), len(stored))
		}
	}

	// Whatever is left can be claimed and removed, so no index has lost or kept anything.
	must(store.Claim(t.Context(), node.ClaimRequest{
		Node: owner, Until: now.Add(time.Hour), Lanes: unlimited("topic-0", "topic-1"),
	}))(t)
	now = now.Add(time.Hour)
	claims := must(store.Expired(t.Context(), math.MaxInt))(t)
	if len(claims) != len(stored) {
		t.Fatalf("%d claims on %d messages", len(claims), len(stored))
	}
	var last []node.Ref
	for _, claim := range claims {
		last = append(last, claim.Ref)
	}
	if deleted := must(store.Settle(t.Context(), node.Removals(last...)))(t); slices.Contains(deleted, node.Gone) {
		t.Fatal("Delete did not find a message that Expired has returned")
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
	newInput(t, store).take(t, uuid.Nil, 0, never, m)
	want := store.Dump()

	spoiled := store.Dump()[0]
	spoiled.Key[0], spoiled.Value[0], spoiled.Headers[0].Value[0] = 'X', 'X', 'X'
	spoiled.Headers[0].Name = "X"
	if got := store.Dump(); !reflect.DeepEqual(got, want) {
		t.Fatalf("the store holds\n%v\nafter a dump was changed, and held\n%v", got, want)
	}
}

// TestRestore sets a store back and does again what was done since, twice: it ends up in the same state, because the
// snapshot holds all of it and does not change with the store.
func TestRestore(t *testing.T) {
	now := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	store := memory.New(func() time.Time { return now })
	in := newInput(t, store)
	ours := node.BindRequest{Cluster: "cluster", Group: "group"}
	must(store.Bind(t.Context(), ours))(t)
	for i := range 600 {
		in.take(t, uuid.UUID{1}, time.Minute, func() bool { return i%3 == 0 }, message(i, now))
	}
	mark := node.Extent{Partition: in.at.Partition, End: in.at.Offset + 50}
	begin := node.CatchUpRequest{Lineage: 1, Begin: true, Marks: []node.Extent{mark}}
	must(store.CatchUp(t.Context(), begin))(t)
	snapshot, rows, at := store.Snapshot(), store.Dump(), in.at

	type after struct {
		rows      []memory.Row
		positions []node.Position
		state     node.State
		bound     node.Bound
	}
	look := func() (a after) {
		var err error
		a.rows = store.Dump()
		if a.positions, a.state, err = store.Positions(t.Context(), []node.Place{at}); err != nil {
			t.Fatal(err)
		}
		a.bound = must(store.Bind(t.Context(), ours))(t)
		return a
	}
	var ends []after
	for range 3 {
		in.at = at
		for i := range 60 {
			in.take(t, uuid.UUID{2}, time.Minute, never, message(1000+i, now))
		}
		for _, r := range rows[:100] {
			must(store.Settle(t.Context(), node.Removals(r.Ref())))(t)
		}
		must(store.Claim(t.Context(), node.ClaimRequest{Until: now, Lanes: unlimited("topic-0")}))(t)
		must(store.CatchUp(t.Context(), node.CatchUpRequest{Lineage: 2, Begin: true}))(t)
		must(store.Bind(t.Context(), node.BindRequest{Cluster: "other", Force: true}))(t)
		ends = append(ends, look())

		store.Restore(snapshot)
		want := after{
			rows: rows, positions: []node.Position{at.Position}, state: node.State{Lineage: 2, CatchingUp: true},
			bound: node.Bound{Cluster: "cluster", Group: "group", Partitions: 1},
		}
		if got := look(); !reflect.DeepEqual(got, want) {
			t.Fatalf("the store was set back to\n%+v\nwant\n%+v", got, want)
		}
	}
	for _, end := range ends[1:] {
		if !reflect.DeepEqual(end, ends[0]) {
			t.Fatalf("what was done again led to\n%+v\nand before to\n%+v", end, ends[0])
		}
	}

	// Another server that was set back is suspect, and stays so through what happens to its data.
	store.Promote()
	store.Restore(snapshot)
	if state := look().state; !state.Suspect {
		t.Fatalf("after a promotion the state is %+v", state)
	}
}

// partNames are the names of parts, that of the lane itself first.
func partNames() []string { return []string{"", "1", "2"} }

// dueRows returns what Claim must take of rows.
func dueRows(rows []memory.Row, request node.ClaimRequest) []node.Ref {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b memory.Row) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	var due []node.Ref
	number, size := map[node.Part]int{}, map[node.Part]int{}
	for _, r := range rows {
		where := node.Part{Lane: r.Lane, Name: r.Part}
		at := slices.IndexFunc(request.Lanes, func(s node.Share) bool { return s.Where() == where })
		if r.ReadiedBy != uuid.Nil || r.Due.After(request.Until) || at < 0 || r.Due.Before(request.Lanes[at].From) ||
			number[where] == request.Lanes[at].Limit || size[where] >= request.Lanes[at].Bytes {
			continue
		}
		due = append(due, r.Ref())
		number[where]++
		size[where] += r.Size()
	}
	return due
}

// expiredRows returns what Expired must return of rows.
func expiredRows(rows []memory.Row, now time.Time, limit int) []node.Claim {
	var expired []node.Claim
	for _, r := range rows {
		if r.ReadiedBy != uuid.Nil && !now.Before(r.Expires) {
			expired = append(expired, node.Claim{
				Ref: r.Ref(), ReadiedAt: r.ReadiedAt, ReadiedBy: r.ReadiedBy, Expires: r.Expires,
			})
		}
	}
	slices.SortFunc(expired, func(a, b node.Claim) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return expired[:min(len(expired), limit)]
}

func unlimited(lanes ...string) []node.Share {
	var shares []node.Share
	for _, lane := range lanes {
		for _, part := range partNames() {
			shares = append(shares, node.Share{Lane: lane, Part: part, Limit: math.MaxInt, Bytes: math.MaxInt})
		}
	}
	return shares
}

func refs(messages []node.Ready) []node.Ref {
	var list []node.Ref
	for _, r := range messages {
		list = append(list, r.Ref())
	}
	return list
}

// message returns the n-th message. Ids come in no particular order, and each is used on two lanes.
func message(n int, deadline time.Time) node.Message {
	m := node.Message{
		ID:       fmt.Sprintf("id-%d", n/2*7919%10007),
		Lane:     fmt.Sprintf("topic-%d", n%2),
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

// BenchmarkCycle takes in, claims and deletes messages in batches of 100, with others waiting on the same lane.
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
	in := newInput(b, store)
	next := 0
	batch := func(n int, later time.Duration) {
		list := make([]node.Message, n)
		for i := range list {
			next++
			m := message(next, start.Add(later+time.Duration(random.Int64N(int64(time.Hour)))))
			m.ID, m.Lane = fmt.Sprint(next), "topic"
			m.Value = make([]byte, 200)
			list[i] = m
		}
		in.take(b, uuid.Nil, 0, never, list...)
	}
	batch(waiting, time.Hour)
	for b.Loop() {
		batch(100, 0)
		claimed, err := store.Claim(b.Context(), node.ClaimRequest{
			Node: uuid.UUID{1}, Hold: time.Second, Until: start.Add(time.Hour),
			Lanes: []node.Share{{Lane: "topic", Limit: 100, Bytes: math.MaxInt}},
		})
		if err != nil || len(claimed.Messages) != 100 {
			b.Fatal(len(claimed.Messages), err)
		}
		if _, err := store.Expired(b.Context(), 100); err != nil {
			b.Fatal(err)
		}
		if _, err := store.Settle(b.Context(), node.Removals(refs(claimed.Messages)...)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)*100/b.Elapsed().Seconds(), "messages/s")
}
