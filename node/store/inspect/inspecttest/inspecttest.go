// Package inspecttest is what every store has to show to people who ask.
package inspecttest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
)

// Store is a store that shows what is in it.
type Store interface {
	node.Store
	inspect.Store
}

// Run tests a store; open returns an empty one.
func Run(t *testing.T, open func(t *testing.T) Store) {
	RunOwned(t, open)
	t.Run("marks", func(t *testing.T) { marks(t, fill(t, open(t))) })
}

// RunOwned tests a store whose partitions have owners, and that is never set back; open returns an empty one that owns
// partition 3.
func RunOwned(t *testing.T, open func(t *testing.T) Store) {
	for name, test := range map[string]func(*testing.T, *filled){
		"a message by its id":                     find,
		"what instructions have left behind":      control,
		"pages show everything once and in order": pages,
		"states":                                     states,
		"what is parked":                             parked,
		"deadlines, keys and headers":                filters,
		"a cursor that is none":                      badCursor,
		"lanes and positions":                        places,
		"lanes on which something waits":             lanes,
		"nodes come and go":                          roster,
		"messages that come and go between pages":    moving,
		"a page without a match says where to go on": scanned,
	} {
		t.Run(name, func(t *testing.T) { test(t, fill(t, open(t))) })
	}
}

// filled is a store with messages: on lane "a" and on lane "b", 25 each, due a minute apart, the first of them an hour
// ago.
type filled struct {
	Store

	now      time.Time
	messages []node.Message
	place    node.Place
	node     uuid.UUID
}

func fill(t *testing.T, store Store) *filled {
	t.Helper()
	f := &filled{
		Store: store, now: time.Now().UTC().Truncate(time.Microsecond), node: uuid.New(),
		place: node.Place{
			Partition: node.Partition{Topic: "input", TopicID: uuid.New(), Number: 3},
			Position:  node.Position{Epoch: 2, Offset: 100},
		},
	}
	if _, _, err := store.Positions(t.Context(), []node.Place{f.place}); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		f.messages = append(f.messages, node.Message{
			ID: fmt.Sprintf("m-%02d", i), Lane: []string{"a", "b"}[i%2], Incarnation: uuid.New(),
			Deadline: f.now.Add(-time.Hour + time.Duration(i/2)*time.Minute*5),
			Origin:   node.Origin{Topic: "input", Partition: 3, Offset: 100 + int64(i)},
			Key:      fmt.Appendf(nil, "key %d", i%10), Value: []byte("payload"),
			Headers: []node.Header{{Name: "tenant", Value: fmt.Appendf(nil, "%d", i%5)}, {Name: "null"}},
		})
	}
	f.take(t, f.messages...)
	return f
}

// take takes messages in as waiting.
func (f *filled) take(t *testing.T, messages ...node.Message) {
	t.Helper()
	request := node.TakeRequest{Node: f.node, Hold: time.Minute, From: []node.Place{f.place}}
	for _, m := range messages {
		request.Items = append(request.Items, node.Item{
			Epoch: f.place.Epoch, Offset: f.place.Offset, Action: node.Schedule, Message: m,
		})
		f.place.Offset++
	}
	result, err := f.Take(t.Context(), request)
	if err != nil || result.Taken != len(messages) {
		t.Fatalf("take: %+v, %v", result, err)
	}
}

// claim claims up to n messages of a lane.
func (f *filled) claim(t *testing.T, lane string, n int, hold time.Duration) []node.Ready {
	t.Helper()
	result, err := f.Claim(t.Context(), node.ClaimRequest{
		Node: f.node, Hold: hold, Until: f.now, Lanes: []node.Share{{Lane: lane, Limit: n, Bytes: 1 << 30}},
	})
	if err != nil || len(result.Messages) != n {
		t.Fatalf("claimed %d of %d, %v", len(result.Messages), n, err)
	}
	return result.Messages
}

// list returns the ids of all pages of a query.
func (f *filled) list(t *testing.T, q inspect.Query) (ids []string) {
	t.Helper()
	for range 1000 {
		page, err := inspect.List(t.Context(), f, q, f.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page.Messages {
			ids = append(ids, m.ID)
			if m.Value != nil {
				t.Errorf("a list shows the value of %s", m.ID)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return ids
		}
	}
	t.Fatal("there is no last page")
	return nil
}

// ids returns those of the messages that match.
func (f *filled) ids(match func(i int, m *node.Message) bool) (ids []string) {
	for _, lane := range []string{"a", "b"} {
		for i := range f.messages {
			if m := &f.messages[i]; m.Lane == lane && match(i, m) {
				ids = append(ids, m.ID)
			}
		}
	}
	return ids
}

func check(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// control replaces a message that is claimed, limits it, and fires it.
func control(t *testing.T, f *filled) {
	f.claim(t, "a", 1, time.Hour)
	notAfter := f.now.Add(time.Hour)
	next := f.messages[0]
	next.Incarnation, next.NotAfter = uuid.New(), notAfter
	fire := node.Message{ID: next.ID, Lane: next.Lane, Incarnation: uuid.New(), Deadline: f.now}
	request := node.TakeRequest{Node: f.node, From: []node.Place{f.place}}
	for i, item := range []node.Item{{Action: node.Replace, Message: next}, {Action: node.FireNow, Message: fire}} {
		item.Epoch, item.Offset = f.place.Epoch, f.place.Offset+int64(i)
		request.Items = append(request.Items, item)
	}
	result, err := f.Take(t.Context(), request)
	if err != nil || result.Taken != 2 || result.Results[1].Outcome != node.FiredNow {
		t.Fatalf("take: %+v, %v", result, err)
	}
	found, err := f.Find(t.Context(), next.ID, inspect.Parts{})
	if err != nil || len(found) != 1 {
		t.Fatalf("found %+v, %v", found, err)
	}
	slice, err := f.Slice(t.Context(), inspect.SliceRequest{Lane: "a", Until: f.now, Limit: 2})
	if err != nil || len(slice) != 2 || slice[0].ID != next.ID {
		t.Fatalf("the slice is %+v, %v", slice, err)
	}
	fired := request.Items[1].Moved(next.Incarnation)
	for _, m := range []inspect.Message{found[0], slice[0]} {
		if !m.Bound || !m.Former || !m.NotAfter.Equal(notAfter) || m.Incarnation != fired || !m.Waits() ||
			m.Attempts != 0 {
			t.Errorf("it is %+v", m)
		}
	}
	if m := slice[1]; m.Bound || m.Former || !m.NotAfter.IsZero() {
		t.Errorf("the next is %+v", m)
	}
}

func find(t *testing.T, f *filled) {
	twin := f.messages[0]
	twin.Lane, twin.Incarnation = "b", uuid.New()
	f.take(t, twin)
	claimed := f.claim(t, "a", 1, time.Hour)[0]
	for _, payload := range []bool{false, true} {
		found, err := f.Find(t.Context(), "m-00", inspect.Parts{Payload: payload})
		if err != nil || len(found) != 2 || found[0].Lane != "a" || found[1].Lane != "b" {
			t.Fatalf("found %+v, %v", found, err)
		}
		m, want := found[0], f.messages[0]
		if m.Incarnation != want.Incarnation || !m.Deadline.Equal(want.Deadline) || !m.Due.Equal(want.Deadline) ||
			!bytes.Equal(m.Key, want.Key) || len(m.Headers) != 2 || m.Headers[1].Value != nil || m.Attempts != 1 ||
			m.Bytes != want.Size() || m.Claim != claimed.Claim || m.Waits() {
			t.Errorf("it is %+v, want %+v claimed by %+v", m, want, claimed.Claim)
		}
		if m.Origin != want.Origin && m.Origin != (node.Origin{}) {
			t.Errorf("it comes from %+v", m.Origin)
		}
		if shown := m.Value != nil; shown != payload || payload && string(m.Value) != "payload" {
			t.Errorf("its value is %q", m.Value)
		}
		if !found[1].Waits() || found[1].Attempts != 0 {
			t.Errorf("its twin is %+v", found[1])
		}
	}
	for _, id := range []string{"", "M-00", "m-0", "nul\x00", "bad\xff"} {
		if found, err := f.Find(t.Context(), id, inspect.Parts{}); err != nil || len(found) > 0 {
			t.Errorf("%q: found %d, %v", id, len(found), err)
		}
	}
}

func pages(t *testing.T, f *filled) {
	all := f.ids(func(int, *node.Message) bool { return true })
	for _, limit := range []int{1, 7, 25, 100} {
		check(t, fmt.Sprint("pages of ", limit), f.list(t, inspect.Query{Limit: limit}), all)
	}
	check(t, "one lane", f.list(t, inspect.Query{Lanes: []string{"b"}, Limit: 4}), all[25:])
	check(t, "one lane, named twice", f.list(t, inspect.Query{Lanes: []string{"b", "b"}, Limit: 4}), all[25:])
	check(t, "no lane", f.list(t, inspect.Query{Lanes: []string{"c"}}), nil)
}

func states(t *testing.T, f *filled) {
	f.claim(t, "a", 3, time.Hour)
	off := f.claim(t, "b", 2, time.Hour)
	releases := []node.Release{
		{Claim: off[0].Claim, Due: f.now.Add(30 * time.Second)},
		{Claim: off[1].Claim, Due: f.now.Add(-30 * time.Second)},
	}
	if _, err := f.Reset(t.Context(), releases); err != nil {
		t.Fatal(err)
	}
	held := func(i int, m *node.Message) bool { return m.Lane == "a" && i < 6 }
	check(t, "claimed", f.list(t, inspect.Query{State: inspect.Claimed, Limit: 2}), f.ids(held))
	check(t, "claimed on b", f.list(t, inspect.Query{State: inspect.Claimed, Lanes: []string{"b"}}), nil)
	onA := inspect.Query{State: inspect.Claimed, Lanes: []string{"a"}, Limit: 2}
	check(t, "claimed on a", f.list(t, onA), f.ids(held))
	// Whoever may see one lane is not told of others by how many were looked at, or by where to go on.
	page, err := inspect.List(t.Context(), f, inspect.Query{State: inspect.Claimed, Lanes: []string{"b"}}, f.now)
	if err != nil || page.Scanned > 0 || page.Next != "" {
		t.Errorf("claimed on b: %d were looked at, and the page goes on at %q; %v", page.Scanned, page.Next, err)
	}
	check(t, "stuck", f.list(t, inspect.Query{State: inspect.Stuck}), nil)
	check(t, "put off", f.list(t, inspect.Query{State: inspect.PutOff, Limit: 1}), []string{off[1].ID, off[0].ID})
	// It is asked for by its deadline, and falls due after that.
	check(t, "put off, by deadline",
		f.list(t, inspect.Query{Lanes: []string{"b"}, From: off[0].Deadline, Until: off[0].Deadline.Add(1)}),
		[]string{off[0].ID})
	waits := f.list(t, inspect.Query{State: inspect.Waiting})
	slices.Sort(waits)
	want := f.ids(func(i int, m *node.Message) bool { return !held(i, m) })
	slices.Sort(want)
	check(t, "waiting", waits, want)
	late := f.list(t, inspect.Query{State: inspect.Overdue})
	slices.Sort(late)
	want = f.ids(func(i int, m *node.Message) bool {
		return !held(i, m) && m.Deadline.Before(f.now.Add(-time.Second)) && m.ID != off[0].ID
	})
	slices.Sort(want)
	check(t, "overdue", late, want)

	stuck := f.claim(t, "b", 1, -time.Second)
	check(t, "stuck", f.list(t, inspect.Query{State: inspect.Stuck}), []string{stuck[0].ID})
}

// parked parks messages on two parts of one lane: they are found by their id and by their part, are shown behind the
// others of their lane and before the next one, and can be asked for alone.
func parked(t *testing.T, f *filled) {
	var releases []node.Release
	for i, r := range f.claim(t, "a", 5, time.Hour) {
		releases = append(releases, node.Release{Claim: r.Claim, Part: []string{"3", "1"}[i%2], Unsent: true})
	}
	if _, err := f.Reset(t.Context(), releases); err != nil {
		t.Fatal(err)
	}
	one, three := []string{"m-02", "m-06"}, []string{"m-00", "m-04", "m-08"}
	onB := f.ids(func(_ int, m *node.Message) bool { return m.Lane == "b" })
	onA := slices.Concat(f.ids(func(i int, m *node.Message) bool { return m.Lane == "a" && i >= 10 }), one, three)
	for _, limit := range []int{1, 3, 100} {
		check(t, "all", f.list(t, inspect.Query{Limit: limit}), slices.Concat(onA, onB))
		check(t, "one lane", f.list(t, inspect.Query{Lanes: []string{"a"}, Limit: limit}), onA)
		check(t, "parked", f.list(t, inspect.Query{State: inspect.Parked, Limit: limit}), slices.Concat(one, three))
	}
	check(t, "parked on b", f.list(t, inspect.Query{State: inspect.Parked, Lanes: []string{"b"}}), nil)
	for part, want := range map[string][]string{"1": one, "3": three, "2": nil, "nul\x00": nil} {
		slice, err := f.Slice(t.Context(), inspect.SliceRequest{Lane: "a", Part: part, Until: f.now, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range slice {
			ids = append(ids, m.ID)
			if m.Part != part || !m.Waits() {
				t.Errorf("on part %q is %+v", part, m)
			}
		}
		check(t, "part "+part, ids, want)
	}
	found, err := f.Find(t.Context(), "m-04", inspect.Parts{})
	if err != nil || len(found) != 1 || found[0].Part != "3" {
		t.Errorf("found %+v, %v", found, err)
	}
}

func filters(t *testing.T, f *filled) {
	from, until := f.messages[10].Deadline, f.messages[20].Deadline
	check(t, "deadlines", f.list(t, inspect.Query{From: from, Until: until, Limit: 3}),
		f.ids(func(i int, _ *node.Message) bool { return i >= 10 && i < 20 }))
	check(t, "from", f.list(t, inspect.Query{From: from}), f.ids(func(i int, _ *node.Message) bool { return i >= 10 }))
	check(t, "key", f.list(t, inspect.Query{Key: []byte("key 7")}),
		f.ids(func(i int, _ *node.Message) bool { return i%10 == 7 }))
	check(t, "no such key", f.list(t, inspect.Query{Key: []byte("key")}), nil)
	check(t, "header", f.list(t, inspect.Query{Header: "tenant", HeaderValue: []byte("3"), Limit: 2}),
		f.ids(func(i int, _ *node.Message) bool { return i%5 == 3 }))
	check(t, "any value", f.list(t, inspect.Query{Header: "null", Lanes: []string{"a"}}),
		f.ids(func(_ int, m *node.Message) bool { return m.Lane == "a" }))
	check(t, "no such header", f.list(t, inspect.Query{Header: "Tenant"}), nil)
}

func badCursor(t *testing.T, f *filled) {
	for _, cursor := range []string{"x", "!", "e30x", "bnVsbA!!"} {
		if _, err := inspect.List(t.Context(), f, inspect.Query{Cursor: cursor}, f.now); !inspect.IsCursor(err) {
			t.Errorf("cursor %q: error %v", cursor, err)
		}
	}
}

func places(t *testing.T, f *filled) {
	parts, err := f.Parts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	check(t, "lanes", node.LanesOf(parts), []string{"a", "b"})
	got, state, err := f.Places(t.Context())
	if err != nil || len(got) != 1 || got[0] != (inspect.Place{Place: f.place, Mark: -1}) || state.Lineage != 1 {
		t.Errorf("places %+v, state %+v, %v", got, state, err)
	}
}

// marks are shown with the positions that they are of.
func marks(t *testing.T, f *filled) {
	if _, err := f.CatchUp(t.Context(), node.CatchUpRequest{
		Lineage: 1, Begin: true, Marks: []node.Extent{{Partition: f.place.Partition, End: 400}},
	}); err != nil {
		t.Fatal(err)
	}
	got, state, err := f.Places(t.Context())
	if err != nil || len(got) != 1 || got[0].Mark != 400 || state.Lineage != 2 || !state.CatchingUp {
		t.Errorf("places %+v, state %+v, %v", got, state, err)
	}
}

// lanes are those on which something waits, be it due in a thousand years, and no others: not those where all is
// claimed, or gone.
func lanes(t *testing.T, f *filled) {
	want := func(name string, want ...string) {
		t.Helper()
		parts, err := f.Parts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		check(t, name, node.LanesOf(parts), want)
	}
	message := func(id, lane string, deadline time.Time) node.Message {
		return node.Message{ID: id, Lane: lane, Incarnation: uuid.New(), Deadline: deadline}
	}
	late := message("late", "aa", f.now.AddDate(1000, 0, 0))
	f.take(t, message("held", "A", f.now), late, message("one", "to.b", f.now), message("two", "to.b", f.now))
	held := f.claim(t, "A", 1, time.Hour)
	want("all but the one where all is claimed", "a", "aa", "b", "to.b")
	if _, err := f.Reset(t.Context(), []node.Release{{Claim: held[0].Claim}}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Settle(t.Context(), node.Removals(late.Ref())); err != nil {
		t.Fatal(err)
	}
	want("one is given back, and one is gone", "A", "a", "b", "to.b")
}

func roster(t *testing.T, f *filled) {
	one := inspect.Node{
		ID: uuid.New(), Host: "host", Version: "v1", Settings: []byte(`{"hold-time": "5s"}`), Status: []byte(`{}`),
	}
	two := one
	two.ID, two.Host = uuid.New(), "another"
	for _, n := range []inspect.Node{one, two, one} {
		if err := f.Beat(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	nodes, now, err := f.Nodes(t.Context())
	if err != nil || len(nodes) != 2 || nodes[0].ID != two.ID || nodes[1].Version != "v1" ||
		string(nodes[1].Settings) != `{"hold-time": "5s"}` || nodes[1].Seen.Before(nodes[0].Seen) ||
		nodes[1].Started.After(nodes[0].Started) || now.Before(nodes[1].Seen) {
		t.Errorf("nodes %+v at %v, %v", nodes, now, err)
	}
	if err := f.Gone(t.Context(), two.ID); err != nil {
		t.Fatal(err)
	}
	if nodes, _, err = f.Nodes(t.Context()); err != nil || len(nodes) != 1 || nodes[0].ID != one.ID {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
}

// moving deletes what a page has shown, and adds what comes before and after: what stays is shown once.
func moving(t *testing.T, f *filled) {
	q := inspect.Query{Lanes: []string{"a"}, Limit: 5}
	seen := map[string]int{}
	for turn := 0; ; turn++ {
		page, err := inspect.List(t.Context(), f, q, f.now)
		if err != nil {
			t.Fatal(err)
		}
		var refs []node.Ref
		for _, m := range page.Messages {
			seen[m.ID]++
			refs = append(refs, m.Ref())
		}
		if _, err := f.Settle(t.Context(), node.Removals(refs...)); err != nil {
			t.Fatal(err)
		}
		early := f.messages[0]
		early.ID, early.Incarnation, early.Deadline = fmt.Sprint("early-", turn), uuid.New(), f.now.Add(-2*time.Hour)
		f.take(t, early)
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	for _, id := range f.ids(func(_ int, m *node.Message) bool { return m.Lane == "a" }) {
		if seen[id] != 1 {
			t.Errorf("%s was shown %d times", id, seen[id])
		}
	}
}

func scanned(t *testing.T, f *filled) {
	var more []node.Message
	for i := range 3 * inspect.MaxSlice {
		m := f.messages[0]
		m.ID, m.Incarnation = fmt.Sprintf("more-%06d", i), uuid.New()
		more = append(more, m)
	}
	for chunk := range slices.Chunk(more, 500) {
		f.take(t, chunk...)
	}
	q := inspect.Query{Key: []byte("none has it")}
	total := 0
	for range 100 {
		page, err := inspect.List(t.Context(), f, q, f.now)
		if err != nil {
			t.Fatal(err)
		}
		total += page.Scanned
		if q.Cursor = page.Next; q.Cursor == "" {
			break
		}
	}
	if want := len(f.messages) + len(more); total != want {
		t.Errorf("%d messages were looked at, want %d", total, want)
	}
}
