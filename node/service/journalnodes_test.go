package service_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
	"chronos/node/clock/system"
	"chronos/node/store/inspect"
	journalstore "chronos/node/store/journal"
)

// S24 with the engine on a real Kafka: of three nodes one freezes in the middle of its work, as far as the brokers can
// tell, is taken for dead, and goes on when its peers have taken over; another one stops. A consumer that reads what
// was committed sees each message once, and none that was cancelled. The one that freezes, and the one that comes
// later, keep copies of what the others own.
func TestJournalNodes(t *testing.T) {
	t.Parallel()
	j := newJournalOn(t, 4)
	client, input := j.input(4)
	network := brokertest.NewNetwork(t)
	j.run(input, kafka.Connection{Brokers: j.brokers, Dialer: network.Dial})
	stopSecond := j.run(input, kafka.Connection{Brokers: j.brokers})

	seen := j.consume()
	const first = 40
	want := make([]string, 0, first+3000)
	send := func(id string, due time.Time) {
		deadline := []byte(due.UTC().Format(time.RFC3339Nano))
		j.submit(client, input, id, node.Header{Name: node.HeaderDeadline, Value: deadline})
	}
	for i := range first { // when these have come out, the nodes have joined
		want = append(want, fmt.Sprintf("first-%04d", i))
		send(want[i], time.Now())
	}
	seen.await(first)

	const messages = 3000
	begin := time.Now().Add(4 * time.Second)
	due := func(i int) time.Time { return begin.Add(time.Duration(i) * 4 * time.Millisecond) } // 12 s of them
	cancelled := func(i int) bool { return i > messages/2 && i%10 == 9 }
	for i := range messages { // before the others, so that each is taken in long before its message is due
		if id := fmt.Sprintf("message-%04d", i); cancelled(i) {
			send(id, due(i))
			j.submit(client, input, id, node.Header{Name: node.HeaderAction, Value: []byte("cancel")})
		}
	}
	for i := range messages {
		if id := fmt.Sprintf("message-%04d", i); !cancelled(i) {
			want = append(want, id)
			send(id, due(i))
		}
	}
	if err := client.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen.await(messages / 10)
	network.Freeze()
	seen.await(messages / 4)
	j.run(input, kafka.Connection{Brokers: j.brokers})
	seen.await(messages / 2)
	stopSecond()
	seen.await(len(want) * 3 / 4) // with what the frozen one had, which its peers have taken over
	network.Heal()
	seen.await(len(want))
	came := seen.all()
	slices.Sort(came)
	if !slices.Equal(came, want) {
		for i, id := range came {
			if _, known := slices.BinarySearch(want, id); !known || i > 0 && came[i-1] == id {
				t.Errorf("%s came out, which was cancelled, or came out before", id)
			}
		}
		t.Fatalf("%d messages came out, want %d", len(came), len(want))
	}
}

// S25 with two engines on a real Kafka: one of them is asked to pause the lane, and both mind it; then one freezes, its
// peer takes over and minds the pause as well, and so does the one that was frozen when it goes on. What was due
// meanwhile comes out when the lane is resumed, once. The intake is paused and resumed in the same way: nothing is
// taken in while it is.
func TestJournalPauses(t *testing.T) {
	t.Parallel()
	j := newJournalOn(t, 4)
	client, input := j.input(4)
	network := brokertest.NewNetwork(t)
	first, _ := j.runStore(input, kafka.Connection{Brokers: j.brokers})
	second, _ := j.runStore(input, kafka.Connection{Brokers: j.brokers, Dialer: network.Dial})
	var want []string
	submit := func(part string) {
		for i := range 40 {
			id := fmt.Sprintf("%s-%02d", part, i)
			want = append(want, id)
			now := []byte(time.Now().UTC().Format(time.RFC3339Nano))
			j.submit(client, input, id, node.Header{Name: node.HeaderDeadline, Value: now})
		}
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seen := j.consume()
	submit("before")
	seen.await(40)

	lane := node.Pause{Lane: j.output, By: "anna", Why: "a test"}
	j.untilDone(func() error {
		pause, err := first.Pause(t.Context(), lane)
		if err == nil && pause.By != "anna" {
			t.Errorf("paused: %+v", pause)
		}
		return err
	})
	submit("while")
	j.untilStored(40, first, second)
	network.Freeze()
	j.untilDone(func() error { // the peer takes over, and answers
		_, err := first.Pause(t.Context(), lane)
		return err
	})
	j.untilStored(40, first)
	network.Heal()
	j.untilDone(func() error {
		_, err := second.Pause(t.Context(), node.Pause{Lane: node.Intake})
		return err
	})
	submit("kept")
	if came := seen.all(); len(came) != 40 {
		t.Fatalf("%d messages came out, and the lane is paused: %q", len(came), came[40:])
	}
	j.untilDone(func() error {
		_, err := first.Resume(t.Context(), j.output)
		return err
	})
	seen.await(80)
	if came := seen.all(); len(came) != 80 {
		t.Fatalf("%d messages came out, and the intake is paused: %q", len(came), came[80:])
	}
	j.untilDone(func() error {
		_, err := first.Resume(t.Context(), node.Intake)
		return err
	})
	seen.await(120)
	came := seen.all()
	slices.Sort(came)
	slices.Sort(want)
	if !slices.Equal(came, want) {
		t.Fatalf("%q came out, want %q", came, want)
	}
}

// An output topic is deleted, and created again, while a node runs. What falls due then comes out on the new one, each
// message once, without a restart.
func TestJournalRecreatedOutput(t *testing.T) {
	t.Parallel()
	j := newJournalOn(t, 2)
	client, input := j.input(2)
	j.run(input, kafka.Connection{Brokers: j.brokers})
	const messages = 20
	var want []string
	submit := func(part string) {
		want = nil
		for i := range messages {
			id := fmt.Sprintf("%s-%02d", part, i)
			want = append(want, id)
			now := []byte(time.Now().UTC().Format(time.RFC3339Nano))
			j.submit(client, input, id, node.Header{Name: node.HeaderDeadline, Value: now})
		}
		if err := client.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	submit("former")
	j.consume().await(messages)
	j.recreate()
	submit("after")
	seen := j.consume()
	seen.await(messages)
	came := seen.all()
	slices.Sort(came)
	if !slices.Equal(came, want) {
		t.Fatalf("%q came out, want %q", came, want)
	}
}

// recreate deletes the output topic, waits until it is gone, and creates it again.
func (j *journalOn) recreate() {
	j.Helper()
	j.cluster.DeleteTopic(j, j.output)
	j.cluster.Fresh(j).CreateTopic(j, j.output, 3)
}

// untilDone repeats something until it is done by all.
func (j *journalOn) untilDone(do func() error) {
	j.Helper()
	var err error
	for range 5 { // each waits for half a minute
		if err = do(); err == nil {
			return
		}
	}
	j.Fatal(err)
}

// untilStored waits until nodes have so many messages that wait on the lane, together.
func (j *journalOn) untilStored(want int, stores ...*journalstore.Store) {
	j.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for range 1200 {
		stored := 0
		for _, store := range stores {
			slice, err := store.Slice(j.Context(), inspect.SliceRequest{
				Lane: j.output, Until: time.Now().Add(time.Hour), Limit: 1000,
			})
			if err != nil {
				j.Fatal(err)
			}
			stored += len(slice)
		}
		if stored == want {
			return
		}
		<-ticker.C
	}
	j.Fatalf("there are not %d messages within a minute", want)
}

// run runs a node until it is stopped, or the test ends.
func (j *journalOn) run(input string, connection kafka.Connection) (stop func()) {
	_, stop = j.runStore(input, connection)
	return stop
}

// runStore is run, and returns the store of the node.
func (j *journalOn) runStore(input string, connection kafka.Connection) (*journalstore.Store, func()) {
	j.Helper()
	config := node.Default()
	copy(config.Seed[:], uuid.NewString())
	config.Routes = []node.Route{{Input: input, Output: j.output}}
	store := j.openBy(time.Now, connection)
	inner, err := kafka.NewSource(kafka.SourceConfig{Connection: connection, Group: j.topic, Inputs: []string{input}})
	if err != nil {
		j.Fatal(err)
	}
	const session = 6 * time.Second
	source := journalstore.NewSource(inner, store, uuid.New(), session, func(int32, error) {})
	n, err := node.New(config, node.Ports{
		Clock: system.New(), Store: store, Source: source, Settling: store,
	}, func(node.Event) {})
	if err != nil {
		j.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(j.Context()))
	var running sync.WaitGroup
	running.Go(func() { n.Run(ctx, node.Goroutines()) })
	running.Go(func() { store.Listen(ctx, 100*time.Millisecond) })
	if j.nodes++; j.nodes%2 == 1 {
		running.Go(func() { store.Follow(ctx, func([]journalstore.Standby) {}) })
	}
	stop := sync.OnceFunc(func() {
		cancel()
		running.Wait()
		source.Close()
		_ = inner.Close(context.WithoutCancel(ctx))
	})
	j.Cleanup(stop)
	return store, stop
}

// submit has a record be sent.
func (j *journalOn) submit(client *kgo.Client, input, id string, header node.Header) {
	client.Produce(j.Context(), &kgo.Record{
		Topic: input, Key: []byte(id), Value: []byte(id), Headers: []kgo.RecordHeader{
			{Key: node.HeaderID, Value: []byte(id)}, {Key: header.Name, Value: header.Value},
		},
	}, nil)
}

// consumed is what a consumer has seen that reads what was committed.
type consumed struct {
	*journalOn

	client *kgo.Client
	values []string
}

func (j *journalOn) consume() *consumed {
	j.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(j.brokers...), kgo.ConsumeTopics(j.output),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(client.Close)
	return &consumed{j, client, nil}
}

// await consumes until there are n messages.
func (c *consumed) await(n int) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	for len(c.values) < n {
		c.client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { c.values = append(c.values, string(r.Value)) })
		if ctx.Err() != nil {
			c.Fatalf("%d messages came out within a minute, want %d", len(c.values), n)
		}
	}
}

// all returns what there is, and what comes out by the time that all logs have been read to their ends.
func (c *consumed) all() []string {
	c.Helper()
	return c.came(len(c.values))
}
