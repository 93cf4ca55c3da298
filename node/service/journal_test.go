package service_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
	"chronos/node/service"
	journalstore "chronos/node/store/journal"
	"chronos/node/store/storetest"
)

// journalOn opens stores in a journal on the real Kafka that the environment names, each with a local copy of its own.
type journalOn struct {
	testing.TB

	brokers []string
	cluster *brokertest.Cluster
	topic   string
	output  string
	nodes   int // that were run
}

func newJournalOn(t testing.TB, partitions int32) *journalOn {
	t.Helper()
	addresses := os.Getenv("CHRONOS_TEST_KAFKA")
	if addresses == "" {
		if testing.Short() {
			t.Skip("CHRONOS_TEST_KAFKA names no broker")
		}
		t.Fatal("CHRONOS_TEST_KAFKA names no broker: set it, or run make test")
	}
	j := &journalOn{TB: t, brokers: strings.Split(addresses, ",")}
	j.cluster = brokertest.NewCluster(t, kgo.SeedBrokers(j.brokers...))
	j.topic = j.cluster.Topic(t, partitions, "cleanup.policy", "compact")
	j.output = j.cluster.Topic(t, 3)
	return j
}

// input creates an input topic, and returns its name and a client that produces there.
func (j *journalOn) input(partitions int32) (*kgo.Client, string) {
	j.Helper()
	client, err := kgo.NewClient(append(kafka.ProducerOptions(), kgo.SeedBrokers(j.brokers...))...)
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(client.Close)
	return client, j.cluster.Topic(j, partitions)
}

func (j *journalOn) open(now func() time.Time) *journalstore.Store {
	j.Helper()
	return j.openBy(now, kafka.Connection{Brokers: j.brokers})
}

func (j *journalOn) openBy(now func() time.Time, connection kafka.Connection) *journalstore.Store {
	j.Helper()
	log, err := kafka.NewLedger(kafka.LedgerConfig{Connection: connection, Topic: j.topic, Name: j.topic})
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(log.Close)
	store, err := journalstore.Open(journalstore.Config{Ledger: log, Dir: j.TempDir(), Now: now})
	if err != nil {
		j.Fatal(err)
	}
	j.Cleanup(func() { _ = store.Close() })
	poster, err := log.NewSender(j.topic)
	if err != nil {
		j.Fatal(err)
	}
	board := journalstore.NewSwitchboard(log, poster, journalstore.AskerLimits{Wait: 30 * time.Second})
	j.Cleanup(poster.Close)
	j.Cleanup(board.Close)
	store.SwitchBy(board)
	return store
}

// listen has a store do what is wished, until the test ends.
func (j *journalOn) listen(store *journalstore.Store) {
	ctx, stop := context.WithCancel(context.WithoutCancel(j.Context()))
	var running sync.WaitGroup
	running.Go(func() { store.Listen(ctx, 100*time.Millisecond) })
	j.Cleanup(func() {
		stop()
		running.Wait()
	})
}

// What a store with owners promises, on a journal in a real Kafka. The simulated one passes the same cases, and some
// with larger messages than a topic with default settings takes.
func TestJournalStore(t *testing.T) {
	t.Parallel()
	storetest.RunOwned(t, func(t *testing.T) storetest.Instance {
		t.Helper()
		clock := storetest.NewClock()
		j := newJournalOn(t, 5)
		store := j.open(clock.Now)
		j.listen(store)
		var owning sync.WaitGroup
		for number := range int32(5) {
			owning.Go(func() {
				if err := store.Own(t.Context(), number, uuid.New()); err != nil {
					t.Error(err)
				}
			})
		}
		owning.Wait()
		return storetest.Instance{Store: store, Clock: clock, Largest: 850_000}
	})
}

// How many messages a second one partition takes in, and fires, in transactions of 500.
func BenchmarkJournal(b *testing.B) {
	j := newJournalOn(b, 1)
	store := j.open(time.Now)
	j.own(store)
	place := node.Place{
		Partition: node.Partition{TopicID: uuid.New()}, Position: node.Position{Epoch: node.UnknownEpoch},
	}
	if _, _, err := store.Positions(b.Context(), []node.Place{place}); err != nil {
		b.Fatal(err)
	}
	const batch = 500
	var taking, firing time.Duration
	messages := 0
	for b.Loop() {
		request := node.TakeRequest{From: []node.Place{place}}
		for range batch {
			request.Items = append(request.Items, node.Item{
				Epoch: 1, Offset: place.Offset, Action: node.Schedule, Message: node.Message{
					ID: uuid.NewString(), Lane: j.output, Incarnation: uuid.New(), Deadline: time.Now(),
					Key: []byte("key"), Value: make([]byte, 100),
				},
			})
			place.Offset++
		}
		started := time.Now()
		if result, err := store.Take(b.Context(), request); err != nil || result.Taken != batch {
			b.Fatalf("take: %+v, %v", result, err)
		}
		taken := time.Now()
		j.fire(store, j.claim(store, batch), nil)
		taking, firing = taking+taken.Sub(started), firing+time.Since(taken)
		messages += batch
	}
	b.ReportMetric(float64(messages)/taking.Seconds(), "taken/s")
	b.ReportMetric(float64(messages)/firing.Seconds(), "fired/s")
}

// How many waiting messages of 100 bytes a new owner without a local copy reads in a second, and how many bytes of disk
// its copy has for each of them, before Pebble has compacted it.
func BenchmarkJournalReplay(b *testing.B) {
	j := newJournalOn(b, 1)
	store := j.open(time.Now)
	j.own(store)
	place := node.Place{
		Partition: node.Partition{TopicID: uuid.New()}, Position: node.Position{Epoch: node.UnknownEpoch},
	}
	if _, _, err := store.Positions(b.Context(), []node.Place{place}); err != nil {
		b.Fatal(err)
	}
	const messages = 200_000
	for place.Offset < messages {
		request := node.TakeRequest{From: []node.Place{place}}
		for range 1000 {
			request.Items = append(request.Items, node.Item{
				Epoch: 1, Offset: place.Offset, Action: node.Schedule, Message: node.Message{
					ID: uuid.NewString(), Lane: j.output, Incarnation: uuid.New(), Deadline: time.Now(),
					Key: []byte("key"), Value: []byte(strings.Repeat(uuid.NewString(), 3)[:100]),
				},
			})
			place.Offset++
		}
		if _, err := store.Take(b.Context(), request); err != nil {
			b.Fatal(err)
		}
	}
	var bytes int64
	runs := 0
	for b.Loop() {
		fresh := j.open(time.Now)
		j.own(fresh)
		size, err := fresh.DiskSize()
		if err != nil {
			b.Fatal(err)
		}
		bytes += int64(size)
		runs++
	}
	b.ReportMetric(float64(messages*runs)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64(bytes)/float64(messages*runs), "bytes/message")
}

// S24 on a real Kafka: a node is cut off in the middle of its work, its peer takes the partition over and fires all
// that is left, and the first one goes on with what it held: a consumer that reads what was committed sees each message
// once.
func TestJournalTakeover(t *testing.T) {
	t.Parallel()
	j := newJournalOn(t, 1)
	stores := []*journalstore.Store{j.open(time.Now), j.open(time.Now)}
	const messages = 500
	from := node.Place{
		Partition: node.Partition{TopicID: uuid.New()}, Position: node.Position{Epoch: node.UnknownEpoch},
	}
	request := node.TakeRequest{Node: uuid.New(), Hold: time.Minute, From: []node.Place{from}}
	for i := range messages {
		id := fmt.Sprintf("message-%04d", i)
		request.Items = append(request.Items, node.Item{
			Epoch: 1, Offset: int64(i), Action: node.Schedule, Message: node.Message{
				ID: id, Lane: j.output, Incarnation: uuid.New(), Deadline: time.Now(),
				Key: []byte(id), Value: []byte(id),
			},
		})
	}
	j.own(stores[0])
	if _, _, err := stores[0].Positions(t.Context(), request.From); err != nil {
		t.Fatal(err)
	}
	result, err := stores[0].Take(t.Context(), request)
	if err != nil || result.Taken != messages {
		t.Fatalf("take: %d of %d, %v", result.Taken, messages, err)
	}
	j.fire(stores[0], j.claim(stores[0], 100), nil)
	held := j.claim(stores[0], 200)

	j.own(stores[1])
	j.fire(stores[1], j.claim(stores[1], 50), nil)
	j.fire(stores[0], held, node.NotSent) // of its claims the peer knows nothing, and need not
	again, err := stores[0].Take(t.Context(), request)
	if err != nil || !again.Refused[0] {
		t.Fatalf("the node that has lost the partition takes in: %+v, %v", again, err)
	}
	j.fire(stores[1], j.claim(stores[1], messages), nil)

	came := j.came(messages)
	slices.Sort(came)
	if distinct := slices.Compact(slices.Clone(came)); len(came) != messages || len(distinct) != messages {
		t.Fatalf("%d messages came out, of them %d different ones, want %d", len(came), len(distinct), messages)
	}
}

// A node whose messages are claimed long before they fall due, as its settings say, takes a partition over: what falls
// due as soon as that may have been claimed by the owner of before, and to cancel it is too late.
func TestServiceClaimsAhead(t *testing.T) {
	t.Parallel()
	fake, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Close)
	j := &journalOn{TB: t, brokers: fake.ListenAddrs()}
	j.cluster = brokertest.NewCluster(t, kgo.SeedBrokers(j.brokers...))
	j.topic, j.output = j.cluster.Topic(t, 1, "cleanup.policy", "compact"), j.cluster.Topic(t, 1)
	_, input := j.input(1)
	config := service.Config{Node: node.Default(), Kafka: kafka.Connection{Brokers: j.brokers}, Group: j.topic}
	config.Node.TimingAdvance, config.Node.Routes = time.Hour, []node.Route{{Input: input, Output: j.output}}
	config.Store = service.InJournal(service.Journal{
		Topic: j.topic, Input: input, Kafka: config.Kafka, Group: config.Group, Dir: t.TempDir(),
	})
	s, err := service.Open(t.Context(), config, service.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		over, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Run(over) // closes the ports
	})

	before := j.open(time.Now)
	from := node.Place{
		Partition: node.Partition{TopicID: uuid.New()}, Position: node.Position{Epoch: node.UnknownEpoch},
	}
	const lane = node.CallbackPrefix + "hook"
	var items, cancels []node.Item
	for offset, due := range []time.Duration{time.Hour / 2, 2 * time.Hour} {
		name := due.String()
		items = append(items, node.Item{Epoch: 1, Offset: int64(offset), Action: node.Schedule, Message: node.Message{
			ID: name, Lane: lane, Incarnation: uuid.New(), Deadline: time.Now().Add(due).UTC(),
		}})
		cancels = append(cancels, node.Item{
			From: node.NoPlace, Action: node.Cancel, Message: node.Message{ID: name, Lane: lane},
		})
	}
	j.own(before)
	if _, _, err := before.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	taken, err := before.Take(t.Context(), node.TakeRequest{From: []node.Place{from}, Items: items})
	if err != nil || taken.Taken != len(items) {
		t.Fatalf("take: %+v, %v", taken, err)
	}
	j.own(s.Journal())
	for i, want := range []node.Outcome{node.TooLate, node.Cancelled} {
		result, err := s.Journal().Take(t.Context(), node.TakeRequest{Items: cancels[i : i+1]})
		if err != nil || len(result.Results) != 1 || result.Results[0].Outcome != want {
			t.Errorf("cancel what is due in %s: %+v, %v, want %v", cancels[i].ID, result, err, want)
		}
	}
}

func (j *journalOn) own(store *journalstore.Store) {
	j.Helper()
	if err := store.Own(j.Context(), 0, uuid.New()); err != nil {
		j.Fatal(err)
	}
}

func (j *journalOn) claim(store *journalstore.Store, limit int) []node.Ready {
	j.Helper()
	result, err := store.Claim(j.Context(), node.ClaimRequest{
		Node: uuid.New(), Hold: time.Minute, Until: time.Now().Add(time.Hour),
		Lanes: []node.Share{{Lane: j.output, Limit: limit, Bytes: 1 << 30}},
	})
	if err != nil {
		j.Fatal(err)
	}
	return result.Messages
}

// fire fires what was claimed, and expects that each comes to that.
func (j *journalOn) fire(store *journalstore.Store, claimed []node.Ready, want error) {
	j.Helper()
	records, next := make([]node.Record, len(claimed)), make([]node.Next, len(claimed))
	for i, m := range claimed {
		records[i] = node.Record{Topic: j.output, Key: m.Key, Value: m.Value}
		next[i] = node.Next{Of: m.Ref()}
	}
	_, errs := store.Fire(j.Context(), records, next)
	for i, err := range errs {
		if !errors.Is(err, want) {
			j.Fatalf("firing %s: %v, want %v", claimed[i].ID, err, want)
		}
	}
}

// came returns what a consumer sees that reads what was committed, which is n messages, and up to the ends of the
// partitions.
func (j *journalOn) came(n int) []string {
	j.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(j.brokers...), kgo.ConsumeTopics(j.output),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		j.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(j.Context(), j.output)
	if err != nil {
		j.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	var values []string
	for len(left) > 0 {
		client.PollFetches(j.Context()).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
		if len(values) > 2*n {
			break
		}
	}
	return values
}
