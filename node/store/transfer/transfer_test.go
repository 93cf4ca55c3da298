package transfer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/inspect"
	"chronos/node/store/memory"
	"chronos/node/store/transfer"
)

// everything is what is in a store that is moved.
type everything struct {
	cluster, group string
	lineage        int64
	places         []inspect.Place
	pauses         []node.Pause
	answers        []transfer.Answer
	messages       []transfer.Message
	queues         []queue.Queue
	actions        []queue.Action
	tasks          []queue.Task
}

// drawEverything draws contents of every kind, in the order in which a store tells of them.
func drawEverything(t *rapid.T) everything {
	e := everything{cluster: "cluster", group: "group", lineage: rapid.Int64Range(1, 9).Draw(t, "lineage")}
	if rapid.Bool().Draw(t, "without Kafka") {
		e.cluster, e.group = "", ""
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "partitions") {
		p := inspect.Place{Mark: -1, Place: node.Place{
			Partition: node.Partition{Topic: "in", TopicID: uuid.UUID{0: 1, 6: 0x40, 8: 0x80}, Number: int32(i)},
			Position: node.Position{
				Epoch: rapid.Int32Range(-1, 5).Draw(t, "epoch"), Offset: rapid.Int64Range(0, 1<<40).Draw(t, "offset"),
			},
		}}
		if rapid.Bool().Draw(t, "marked") {
			p.Mark = p.Offset + 7
		}
		e.places = append(e.places, p)
	}
	for _, lane := range []string{"", "http:x", "topic"} {
		if rapid.Bool().Draw(t, "paused") {
			e.pauses = append(e.pauses, node.Pause{
				Lane: lane, Since: drawTime(t), Why: "\"<why>\" – \\ 100 %",
				By: rapid.SampledFrom([]string{"", "anna", "\u2028 ä"}).Draw(t, "by"),
			})
		}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "answers") {
		a := transfer.Answer{Request: uuid.UUID{0: byte(i + 1)}, Expires: drawTime(t), Told: node.Told{
			Outcome: rapid.SampledFrom([]node.Outcome{node.Scheduled, node.Cancelled, node.TooLate}).Draw(t, "outcome"),
			Message: node.MessageID{ID: drawName(t), Lane: "topic"}, Print: uuid.UUID{15: byte(i)}, Lineage: 3,
		}}
		if rapid.Bool().Draw(t, "full") {
			a.Told.Incarnation, a.Told.Deadline, a.Told.Former = uuid.UUID{1: 1}, drawTime(t), drawTime(t)
			a.Told.Sequence, a.Told.MayAppear = 9, true
		}
		e.answers = append(e.answers, a)
	}
	for range rapid.IntRange(0, 12).Draw(t, "messages") {
		m := drawMessage(t)
		if !slices.ContainsFunc(e.messages, func(o transfer.Message) bool { return o.ID == m.ID && o.Lane == m.Lane }) {
			e.messages = append(e.messages, m)
		}
	}
	slices.SortFunc(e.messages, func(a, b transfer.Message) int {
		if order := strings.Compare(a.ID, b.ID); order != 0 {
			return order
		}
		return strings.Compare(a.Lane, b.Lane)
	})
	e.drawQueues(t)
	return e
}

// drawQueues draws queues, root among them, with tasks and actions.
func (e *everything) drawQueues(t *rapid.T) {
	some := func(label string) bool { return rapid.Bool().Draw(t, label) }
	at := func(label string) (at time.Time) {
		if some(label) {
			at = drawTime(t)
		}
		return at
	}
	e.queues = []queue.Queue{queue.NewRoot()}
	if some("used root") {
		e.queues[0].Arrivals, e.queues[0].Running, e.queues[0].Look = 7, 1, drawTime(t)
	}
	action := queue.Action{ID: uuid.UUID{0: 1}, Topic: "t", Key: drawBytes(t, "key"), Payload: drawBytes(t, "payload")}
	if some("with headers") {
		action.Tags, action.Headers = []string{"a"}, []node.Header{{Name: "\xff", Value: drawBytes(t, "header")}}
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "queues") {
		q := queue.Queue{
			ID: uuid.UUID{0: byte(i + 1)}, Name: fmt.Sprint("s", i), Kind: queue.Sync, Window: "never",
			Drain:     some("drain"),
			TimeLimit: time.Duration(rapid.Int64Range(1, 1<<38).Draw(t, "limit")) * time.Millisecond,
			State: queue.State{
				Deleting: some("deleting"), Arrivals: 9, Pending: 2, Running: 1, Relieved: at("relieved"),
				Look: at("look"),
			},
		}
		if some("with lists") {
			q.Paths, q.Tags, q.Depth, q.Relief = []string{"/b", "/a"}, []string{"z", "ä"}, 3, action.ID
		}
		e.queues = append(e.queues, q)
		task := queue.Task{
			ID: uuid.UUID{0: byte(i + 1)}, Queue: q.ID, Name: strings.ReplaceAll(drawName(t), "\t", ""),
			Priority: -i, When: at("when"), Arrival: 9,
			Status: queue.Pending, Arrived: drawTime(t), Fates: "",
		}
		if task.Inline = nil; some("inline") {
			inline := action
			inline.ID, inline.Tags = uuid.Nil, nil
			task.Inline = &inline
		} else {
			task.Execution, task.Promise, task.Fates = action.ID, []uuid.UUID{action.ID}, "."
		}
		if some("done") {
			task.Status, task.Reason, task.Run = queue.Failure, "no", uuid.UUID{5: 5}
			task.Started, task.Ended, task.Tags = drawTime(t), drawTime(t), []string{"x"}
		}
		e.tasks = append(e.tasks, task)
	}
	if len(e.tasks) > 0 {
		e.actions = append(e.actions, action)
	}
}

func drawTime(t *rapid.T) time.Time {
	return time.UnixMicro(rapid.Int64Range(-62135596800000000+1, 253402300799999999).Draw(t, "time")).UTC()
}

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "ä", "\"", "\u2028", "z\t<&>", "\U0001F680"}).Draw(t, "name") +
		rapid.StringMatching(`[a-c]{0,2}`).Draw(t, "suffix")
}

func drawBytes(t *rapid.T, label string) []byte {
	return rapid.OneOf(
		rapid.Just([]byte(nil)), rapid.Just([]byte{}), rapid.Just([]byte("text \u0000 \u2028 \"\\")),
		rapid.Just([]byte{0xff, 0, 0xfe}), rapid.SliceOfN(rapid.Byte(), 1, 40),
	).Draw(t, label)
}

func drawMessage(t *rapid.T) transfer.Message {
	some := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) == 0 }
	m := transfer.Message{Message: node.Message{
		ID: drawName(t), Lane: rapid.SampledFrom([]string{"topic", "http:x", "other"}).Draw(t, "lane"),
		Incarnation: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "incarnation")), Deadline: drawTime(t),
		Key: drawBytes(t, "key"), Value: drawBytes(t, "value"),
	}}
	m.Incarnation[0] |= 1
	if m.Due = m.Deadline; some("put off") {
		m.Due = m.Deadline.Add(-time.Microsecond)
	}
	if some("ends") {
		m.NotAfter = drawTime(t)
	}
	if some("in a line") {
		m.Line, m.Behind = uuid.UUID{3: 9}, rapid.Bool().Draw(t, "behind")
	}
	if some("series") {
		m.Recurrence = node.Recurrence{
			Series: "every 1h from 2026-11-22T09:00:00Z missed one", Sequence: 1 << 40, At: drawTime(t),
		}
		m.Stopped = rapid.Bool().Draw(t, "stopped")
	}
	if some("origin") {
		m.Origin = node.Origin{Topic: "in", Partition: 3, Offset: 1 << 41}
	}
	if some("attempted") {
		m.Attempts = rapid.IntRange(1, 1<<20).Draw(t, "attempts")
		m.Bound, m.Former = rapid.Bool().Draw(t, "bound"), rapid.Bool().Draw(t, "former")
	}
	for range rapid.IntRange(0, 3).Draw(t, "headers") {
		name := rapid.SampledFrom([]string{"", "h", "\xff", "nameBase64"}).Draw(t, "header")
		m.Headers = append(m.Headers, node.Header{Name: name, Value: drawBytes(t, "header value")})
	}
	return m
}

// batch returns all of it as one batch.
func (e *everything) batch() transfer.Batch {
	return transfer.Batch{
		ID: uuid.UUID{0: 0xee}, By: "test", Cluster: e.cluster, Group: e.group, Lineage: e.lineage, Last: true,
		To: int64(len(e.places) + len(e.pauses) + len(e.answers) + len(e.messages) + len(e.queues) + len(e.actions) +
			len(e.tasks)),
		Places: e.places, Pauses: e.pauses, Answers: e.answers, Messages: e.messages,
		Queues: e.queues, Actions: e.actions, Tasks: e.tasks,
	}
}

// of reads what is in a store.
func of(t fataler, store transfer.Store) everything {
	ctx := context.Background()
	contents, err := store.Contents(ctx)
	check(t, err)
	answers, err := store.Told(ctx, uuid.Nil, 1000)
	check(t, err)
	e := everything{
		cluster: contents.Bound.Cluster, group: contents.Bound.Group, lineage: contents.State.Lineage,
		places: contents.Places, pauses: contents.Pauses, answers: answers,
	}
	e.queues, err = store.QueuesBehind(ctx, "", 10_000)
	check(t, err)
	e.tasks, err = store.TasksBehind(ctx, uuid.Nil, 10_000, 1<<30)
	check(t, err)
	e.actions, err = store.ActionsBehind(ctx, uuid.Nil, 10_000, 1<<30)
	check(t, err)
	if list, is := store.(queue.Store); is {
		checkPaths(t, list, e.queues)
	}
	var after node.MessageID
	for {
		next, err := store.Messages(ctx, after, 1000, 1<<20)
		check(t, err)
		if len(next) == 0 {
			return e
		}
		e.messages = append(e.messages, next...)
		after = node.MessageID{ID: next[len(next)-1].ID, Lane: next[len(next)-1].Lane}
	}
}

// checkPaths checks that each queue is found where it lies.
func checkPaths(t fataler, store queue.Store, queues []queue.Queue) {
	t.Helper()
	var paths []string
	for i := range queues {
		paths = append(paths, queues[i].Paths...)
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		filter := queue.Filter{Paths: []string{path}, Limit: len(queues)}
		var want []queue.Queue
		for i := range queues {
			if filter.Queues(&queues[i]) {
				want = append(want, queues[i])
			}
		}
		got, err := store.Queues(context.Background(), filter)
		if check(t, err); !reflect.DeepEqual(got, want) {
			t.Fatalf("at %s lie\n%+v, want\n%+v", path, got, want)
		}
	}
}

// fataler is a test or a check of rapid.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func check(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// same ends the test unless both are the same, except for the lineage; and, where a store has lost them on the way, for
// the records that messages were submitted by.
func same(t fataler, where string, got, want everything, origins bool) {
	t.Helper()
	got.lineage, want.lineage = 0, 0
	if !origins {
		want.messages = slices.Clone(want.messages)
		for i := range want.messages {
			want.messages[i].Origin = node.Origin{}
		}
	}
	if !reflect.DeepEqual(got, want) {
		for i := range min(len(got.messages), len(want.messages)) {
			if !reflect.DeepEqual(got.messages[i], want.messages[i]) {
				t.Fatalf("%s: message %d is\n%#v, want\n%#v", where, i, got.messages[i], want.messages[i])
			}
		}
		t.Fatalf("%s has\n%+v, want\n%+v", where, got, want)
	}
}

// exported seals a store and returns the file.
func exported(t fataler, source transfer.Store) []byte {
	t.Helper()
	_, err := source.Seal(context.Background(), uuid.New(), "test")
	check(t, err)
	var file bytes.Buffer
	_, _, err = transfer.Export(context.Background(), source, transfer.Header{Store: "source"}, &file, quiet)
	check(t, err)
	return file.Bytes()
}

func quiet(transfer.Progress) {}

// TestMemoryToMemory moves contents of every kind. Goal: all of it arrives, in a later lineage, and the file that the
// second store is exported to has the same lines.
func TestMemoryToMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEverything(t)
		source, target := memory.New(time.Now), memory.New(time.Now)
		_, err := source.Receive(context.Background(), e.batch())
		check(t, err)
		same(t, "the source", of(t, source), e, true)
		file := exported(t, source)
		header, counts, err := transfer.Check(bytes.NewReader(file), quiet)
		check(t, err)
		if counts.Messages != int64(len(e.messages)) || header.Lineage != e.lineage+2 {
			t.Fatalf("%+v %+v", header, counts)
		}
		seal, err := transfer.Import(context.Background(), target, bytes.NewReader(file), "test", quiet)
		check(t, err)
		if seal.Kind != transfer.Imported || seal.Lineage != header.Lineage+1 {
			t.Fatalf("the seal is %+v", seal)
		}
		same(t, "the target", of(t, target), e, true)
		if again := exported(t, target); !bytes.Equal(lines(again), lines(file)) {
			t.Fatalf("the second file is\n%s, the first\n%s", again, file)
		}
	})
}

// lines returns a file without its first and last line.
func lines(file []byte) []byte {
	_, rest, _ := bytes.Cut(file, []byte("\n"))
	return rest[:bytes.LastIndexByte(rest[:len(rest)-1], '\n')+1]
}

// many is a source with several batches of messages.
func many(t fataler, n int) *memory.Store {
	store := memory.New(time.Now)
	place := node.Place{
		Partition: node.Partition{Topic: "in", TopicID: uuid.UUID{0: 1}}, Position: node.Position{Offset: int64(n)},
	}
	e := everything{
		cluster: "cluster", group: "group", lineage: 4, places: []inspect.Place{{Mark: -1, Place: place}},
	}
	e.answers = []transfer.Answer{{
		Request: uuid.UUID{0: 5}, Expires: time.UnixMicro(9e15).UTC(),
		Told: node.Told{Message: node.MessageID{ID: "x", Lane: "topic"}},
	}}
	e.answers[0].Told.Outcome = node.Scheduled
	for i := range n {
		m := transfer.Message{Message: node.Message{
			ID: fmt.Sprintf("message-%06d", i), Lane: "topic",
			Incarnation: uuid.UUID{0: byte(i), 1: byte(i >> 8), 15: 1},
			Deadline:    time.UnixMicro(int64(i) * 1e9).UTC(), Value: []byte(fmt.Sprint("value ", i)),
		}}
		m.Due = m.Deadline
		e.messages = append(e.messages, m)
	}
	_, err := store.Receive(context.Background(), e.batch())
	check(t, err)
	return store
}

// dying is a store whose process dies at a call: from that one on each fails, and that one may have had its effect.
type dying struct {
	transfer.Store

	calls, at int
	after     bool
}

var errDied = errors.New("died")

func (d *dying) dies(call func()) error {
	d.calls++
	if d.at > 0 && d.calls >= d.at {
		if d.calls == d.at && d.after {
			call()
		}
		return errDied
	}
	call()
	return nil
}

func (d *dying) Receive(ctx context.Context, b transfer.Batch) (seal transfer.Seal, err error) {
	if died := d.dies(func() { seal, err = d.Store.Receive(ctx, b) }); died != nil {
		return transfer.Seal{}, died
	}
	return seal, err
}

func (d *dying) Messages(ctx context.Context, after node.MessageID, limit, size int) (m []transfer.Message, err error) {
	if died := d.dies(func() { m, err = d.Store.Messages(ctx, after, limit, size) }); died != nil {
		return nil, died
	}
	return m, err
}

// TestImportDies has an import die at each of its calls, before and after the effect, then go on, die again at the next
// one, and go on to its end. Goal: the target is what it would be without that, and is not open before.
func TestImportDies(t *testing.T) {
	ctx := context.Background()
	source := many(t, 2100)
	want, file := of(t, source), exported(t, source)
	count := &dying{Store: memory.New(time.Now)}
	_, err := transfer.Import(ctx, count, bytes.NewReader(file), "test", quiet)
	check(t, err)
	if count.calls < 3 {
		t.Fatalf("an import makes %d calls: too few to be worth dying in", count.calls)
	}
	for at := 1; at <= count.calls; at++ {
		for _, after := range []bool{false, true} {
			target := memory.New(time.Now)
			for try := range 2 {
				dies := &dying{target, 0, max(1, at-try), after}
				_, err := transfer.Import(ctx, dies, bytes.NewReader(file), "test", quiet)
				seal, _ := target.Sealed(ctx)
				if ended := seal.Kind == transfer.Imported; ended {
					break // its last effect was there, and only the answer was not
				}
				if !errors.Is(err, errDied) || seal.Kind == transfer.Importing && !seal.Sealed() {
					t.Fatalf("died at %d: %v, sealed %+v", at, err, seal)
				}
			}
			seal, err := transfer.Import(ctx, target, bytes.NewReader(file), "test", quiet)
			if err != nil || seal.Kind != transfer.Imported {
				t.Fatalf("died at %d, after its effect %v; then: %v, sealed %+v", at, after, err, seal)
			}
			same(t, fmt.Sprint("died at ", at), of(t, target), want, true)
		}
	}
}

// TestImportTwice runs a second import of a file after messages of the first have come out, and one of another file.
func TestImportTwice(t *testing.T) {
	ctx := context.Background()
	source, target := many(t, 2100), memory.New(time.Now)
	file := exported(t, source)
	_, err := transfer.Import(ctx, target, bytes.NewReader(file), "test", quiet)
	check(t, err)
	first := of(t, target).messages[0].Ref()
	if gone, err := target.Settle(ctx, node.Removals(first)); err != nil || gone[0] != node.Removed {
		t.Fatalf("delete: %v %v", gone, err)
	}
	seal, err := transfer.Import(ctx, target, bytes.NewReader(file), "test", quiet)
	if err != nil || seal.Kind != transfer.Imported || target.Len() != 2099 {
		t.Fatalf("the second import: %+v %v, and %d messages", seal, err, target.Len())
	}
	other := exported(t, many(t, 3))
	if _, err = transfer.Import(ctx, target, bytes.NewReader(other), "test", quiet); !transfer.IsRefused(err) {
		t.Fatalf("another file: %v", err)
	}
	if _, err = transfer.Import(ctx, source, bytes.NewReader(file), "test", quiet); !transfer.IsRefused(err) {
		t.Fatalf("into its own source: %v", err)
	}
}

// TestExportDies has an export die at each of its calls. Goal: what it has written is refused, and a repeated export
// writes what the first one would have.
func TestExportDies(t *testing.T) {
	ctx := context.Background()
	source := many(t, 2100)
	want := exported(t, source)
	for at := 1; at <= 4; at++ {
		var file bytes.Buffer
		_, _, err := transfer.Export(ctx, &dying{source, 0, at, true}, transfer.Header{Store: "source"}, &file, quiet)
		if !errors.Is(err, errDied) {
			t.Fatalf("died at %d: %v", at, err)
		}
		if _, _, err = transfer.Check(&file, quiet); err == nil {
			t.Fatalf("the file of an export that died at %d is taken for complete", at)
		}
		if again := exported(t, source); !bytes.Equal(again, want) {
			t.Fatal("a repeated export writes something else")
		}
	}
}

// TestUndoneMeanwhile opens the source while it is read: what is read then is of no one instant.
func TestUndoneMeanwhile(t *testing.T) {
	source := many(t, 2100)
	_, err := source.Seal(t.Context(), uuid.New(), "test")
	check(t, err)
	var file bytes.Buffer
	_, _, err = transfer.Export(t.Context(), source, transfer.Header{}, &file, func(transfer.Progress) {
		_, _ = source.Unseal(t.Context()) // the first time does it
	})
	if !transfer.IsRefused(err) {
		t.Fatalf("the export returns %v", err)
	}
	if _, _, err = transfer.Check(&file, quiet); err == nil {
		t.Fatal("its file is taken for complete")
	}
}

// TestDamagedFiles cuts a file anywhere, changes a byte of it, repeats and leaves out lines. Goal: none is taken for
// complete.
func TestDamagedFiles(t *testing.T) {
	source := many(t, 100)
	file := exported(t, source)
	random := rand.New(rand.NewPCG(1, 2))
	rows := bytes.SplitAfter(file, []byte("\n"))
	rows = rows[:len(rows)-1]
	bad := map[string][]byte{
		"empty":                nil,
		"another file":         []byte("{\"message\":{}}\n"),
		"cut at the last line": bytes.Join(rows[:len(rows)-1], nil),
		"two in one":           slices.Concat(file, file),
		"a line more":          slices.Concat(file, rows[5]),
		"a line left out":      slices.Concat(bytes.Join(rows[:9], nil), bytes.Join(rows[10:], nil)),
		"two lines exchanged":  slices.Concat(bytes.Join(rows[:9], nil), rows[10], rows[9], bytes.Join(rows[11:], nil)),
		"of the future":        bytes.Replace(file, []byte(`"version":1`), []byte(`"version":2`), 1),
		"with more members":    bytes.Replace(file, []byte(`"incarnation"`), []byte(`"new":1,"incarnation"`), 1),
	}
	for i := range 30 {
		bad[fmt.Sprint("cut ", i)] = file[:random.IntN(len(file))]
		changed := slices.Clone(file)
		changed[random.IntN(len(changed)-1)] ^= 1 << random.IntN(7)
		bad[fmt.Sprint("changed ", i)] = changed
	}
	for name, content := range bad {
		if _, _, err := transfer.Check(bytes.NewReader(content), quiet); err == nil {
			t.Errorf("%s: taken for complete", name)
		}
	}
}

// TestDrain waits for what is claimed.
func TestDrain(t *testing.T) {
	now := time.UnixMicro(1e15).UTC()
	store := memory.New(func() time.Time { return now })
	e := everything{messages: of(t, many(t, 2)).messages}
	_, err := store.Receive(t.Context(), e.batch())
	check(t, err)
	result, err := store.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.UUID{1: 1}, Hold: 3 * time.Second, Until: now,
		Lanes: []node.Share{{Lane: "topic", Limit: 2, Bytes: 1 << 20}},
	})
	if check(t, err); len(result.Messages) != 2 {
		t.Fatalf("%d messages are claimed", len(result.Messages))
	}
	_, err = store.Seal(t.Context(), uuid.New(), "test")
	check(t, err)
	var told []transfer.Held
	var slept time.Duration
	err = transfer.Drain(t.Context(), store, func(_ context.Context, d time.Duration) error {
		now, slept = now.Add(d), slept+d
		return nil
	}, func(h transfer.Held) { told = append(told, h) })
	if err != nil || slept != 3*time.Second || len(told) != 3 || told[0] != (transfer.Held{Claims: 2, For: slept}) {
		t.Fatalf("waited %v, told %+v: %v", slept, told, err)
	}
}
