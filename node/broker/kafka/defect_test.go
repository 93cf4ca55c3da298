package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// leaderless takes the leader of a partition away, until the fault is removed.
func leaderless(cluster *kfake.Cluster, topic string, partition int32) *kfake.FaultHandle {
	return cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{
			kmsg.Metadata, kmsg.Fetch, kmsg.Produce, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch,
		},
		Topic: topic, Partitions: []int32{partition}, Err: kerr.LeaderNotAvailable, Count: -1,
	})
}

// openSource opens a source until the test ends.
func openSource(t *testing.T, c config) *kafka.Source {
	t.Helper()
	source, err := kafka.NewSource(c.SourceConfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close(context.Background()) })
	return source
}

// pollFor polls until done is true of a batch, and fails if that takes longer than the limit.
func pollFor(t *testing.T, s node.Source, limit time.Duration, done func(node.Batch, error) bool) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		batch, err := s.Poll(t.Context())
		if err != nil {
			last = err
		}
		if done(batch, err) {
			return
		}
	}
	t.Fatalf("still not after %v; the last error was: %v", limit, last)
}

// startAll has partitions be read from an offset.
func startAll(t *testing.T, s node.Source, assigned []node.Assignment, position node.Position) {
	t.Helper()
	var places []node.Place
	for _, a := range assigned {
		places = append(places, node.Place{Partition: a.Partition, Position: position})
	}
	if err := s.Start(t.Context(), places); err != nil {
		t.Fatal(err)
	}
}

var unknownStart = node.Position{Epoch: node.UnknownEpoch}

// Retention takes records of a partition that is read, faster than it is read: the next Poll says which, once.
func TestRetentionOvertakesReading(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	c := configFor(cluster, "group", input)
	log := new(memoryLog)
	c.Logger = slog.New(log)
	b := open(t, c)
	plain.Produce(t, texts(input, "text", 3)...)
	pollValues(t, b, 3)
	b.Events = nil
	held := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: input, Err: kerr.NotLeaderForPartition, Count: -1,
	})
	if err := held.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	plain.Produce(t, texts(input, "more", 5)...)
	plain.DeleteRecords(t, input, 0, 6)
	held.Remove()
	if got := pollValues(t, b, 2); got[0] != "more-3" {
		t.Fatalf("polled %q, want what is left", got)
	}
	if len(b.Events) != 1 || len(b.Events[0].Lost) != 1 ||
		b.Events[0].Lost[0].From != 3 || b.Events[0].Lost[0].To != 6 {
		t.Fatalf("told %+v, want that 3 to 6 are lost", b.Events)
	}
	said := 0
	for _, line := range log.all() {
		if strings.Contains(line, "retention") && strings.Contains(line, "at_most=3") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("the loss was logged %d times, want once: %q", said, log.all())
	}
}

// Kafka has lost the end of a log, and other records are there now: reading goes on where the logs part, and the caller
// is told; when a partition is assigned, and when it goes on from another place.
func TestTruncation(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	plain.Produce(t, texts(input, "text", 10)...)
	cluster.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := request.(*kmsg.OffsetForLeaderEpochRequest)
		response := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, topic := range asked.Topics {
			answer := kmsg.NewOffsetForLeaderEpochResponseTopic()
			answer.Topic = topic.Topic
			for _, p := range topic.Partitions {
				end := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				end.Partition, end.LeaderEpoch, end.EndOffset = p.Partition, p.LeaderEpoch, 4
				answer.Partitions = append(answer.Partitions, end)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, true
	})
	s := openSource(t, configFor(cluster, "group", input))
	var assigned []node.Assignment
	pollFor(t, s, patience, func(b node.Batch, _ error) bool {
		assigned = append(assigned, b.Assigned...)
		return len(assigned) > 0
	})
	for range 2 {
		startAll(t, s, assigned, node.Position{Epoch: 0, Offset: 7})
		var moved []node.Place
		pollFor(t, s, patience, func(b node.Batch, _ error) bool {
			moved = append(moved, b.Moved...)
			if len(b.Records) > 0 && b.Records[0].Offset != 4 {
				t.Fatalf("the first record has offset %d, want 4", b.Records[0].Offset)
			}
			return len(b.Records) > 0
		})
		want := node.Place{Partition: assigned[0].Partition, Position: node.Position{Epoch: 0, Offset: 4}}
		if !slices.Equal(moved, []node.Place{want}) {
			t.Fatalf("moved %+v, want %+v", moved, want)
		}
	}
}

// An input partition without a leader is said within seconds, by its name. The others are read meanwhile, and itself
// when it has a leader again.
func TestLeaderlessInput(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"the beginning", "later on"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t)
			input := plain.Topic(t, 3)
			record := func(p int32, text string) node.Record {
				return node.Record{Topic: input, Partition: p, Value: []byte(text)}
			}
			c := configFor(cluster, "group", input)
			log := new(memoryLog)
			c.Logger = slog.New(log)
			var fault *kfake.FaultHandle
			var b *broker
			if from == "the beginning" {
				plain.Produce(t, record(1, "dead"))
				fault = leaderless(cluster, input, 1)
				b = open(t, c)
			} else {
				b = open(t, c)
				plain.Produce(t, record(0, "first"))
				pollValues(t, b, 1)
				plain.Produce(t, record(1, "dead"))
				pollValues(t, b, 1)
				fault = leaderless(cluster, input, 1)
			}
			start := time.Now()
			err := pollError(t, b)
			for !strings.Contains(err.Error(), "partition 1") {
				err = pollError(t, b)
			}
			if took := time.Since(start); took > 10*time.Second {
				t.Errorf("it took %v until Poll has said: %v", took, err)
			}
			for i := range 5 {
				start := time.Now()
				plain.Produce(t, record(int32(i%2*2), "alive"))
				pollValues(t, b, 1)
				if took := time.Since(start); took > 5*time.Second {
					t.Errorf("a record of a healthy partition took %v", took)
				}
			}
			fault.Remove()
			if from == "the beginning" {
				if got := pollValues(t, b, 1); got[0] != "dead" {
					t.Fatalf("polled %q, want the record of the partition that was dead", got)
				}
			} else {
				plain.Produce(t, record(1, "back"))
				if got := pollValues(t, b, 1); got[0] != "back" {
					t.Fatalf("polled %q, want the record of the partition that was dead", got)
				}
			}
			await(t, "it is said that all is well", func() bool {
				_, _ = b.Poll(t.Context())
				return slices.ContainsFunc(log.all(), func(line string) bool {
					return strings.Contains(line, "can be read again")
				})
			})
		})
	}
}

// Batches that decompress to far more than they were sent as are held within the bound, and all of them come through,
// in polls that are bounded too.
func TestFetchMemory(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 4, "max.message.bytes", "16777216")
	const batches, size, bound = 40, 2 << 20, 6 << 20
	for _, codec := range []kgo.CompressionCodec{
		kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ProducerBatchCompression(codec),
			kgo.ProducerBatchMaxBytes(16<<20), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		for i := range batches / 4 {
			value := append(fmt.Append(nil, i), make([]byte, size)...)
			record := &kgo.Record{Topic: input, Partition: int32(i % 4), Value: value}
			if err := client.ProduceSync(t.Context(), record).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		client.Close()
	}
	c := configFor(cluster, "group", input)
	c.FetchMemory, c.MaxPollBytes = bound, 5<<20
	s := openSource(t, c)
	got, most := 0, int64(0)
	pollFor(t, s, patience, func(b node.Batch, err error) bool {
		if err != nil {
			t.Error(err)
		}
		startAll(t, s, b.Assigned, unknownStart)
		bytes := 0
		for _, r := range b.Records {
			bytes += len(r.Value)
			got++
		}
		if bytes > 5<<20 {
			t.Errorf("a poll returned %d bytes", bytes)
		}
		most = max(most, s.Buffered())
		return got >= batches
	})
	if got != batches {
		t.Errorf("polled %d records, want %d", got, batches)
	}
	if most > bound+size || most == 0 {
		t.Errorf("%d bytes were held with a bound of %d", most, bound)
	}
}

// A batch that is larger than any that is read stops its partition only, and is said again and again; from behind it,
// reading goes on.
func TestBatchTooLarge(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 2, "max.message.bytes", "16777216")
	plain.Produce(t, node.Record{Topic: input, Value: make([]byte, 3<<20)})
	plain.Produce(t, node.Record{Topic: input, Value: []byte("behind")})
	c := configFor(cluster, "group", input)
	c.BatchMemory = 1 << 20
	b := open(t, c)
	err := pollError(t, b)
	if !strings.Contains(err.Error(), "offset 0") || !strings.Contains(err.Error(), "partition 0") {
		t.Fatalf("poll: %v, want the batch", err)
	}
	for range 3 {
		plain.Produce(t, node.Record{Topic: input, Partition: 1, Value: []byte("other")})
		if got := pollValues(t, b, 1); got[0] != "other" {
			t.Fatalf("polled %q", got)
		}
	}
	if err := pollError(t, b); !strings.Contains(err.Error(), "offset 0") {
		t.Fatalf("poll: %v, want the batch again", err)
	}
	for _, p := range b.Owned() {
		if p.Number == 0 {
			place := node.Place{Partition: p, Position: node.Position{Epoch: node.UnknownEpoch, Offset: 1}}
			if err := b.Start(t.Context(), []node.Place{place}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := pollValues(t, b, 1); got[0] != "behind" {
		t.Fatalf("polled %q, want what comes behind the batch", got)
	}
}

// While the group has no coordinator, every Poll says so: one that returns nothing is no sign that all is well.
func TestNoCoordinator(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	fault := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: -1,
	})
	b := open(t, configFor(cluster, "group", input))
	err := pollError(t, b)
	for range 5 {
		if _, again := b.Poll(t.Context()); again == nil {
			t.Fatalf("poll returns nothing, and no error, after: %v", err)
		}
	}
	if !errors.Is(err, kerr.CoordinatorNotAvailable) {
		t.Errorf("poll: %v, want the reason", err)
	}
	fault.Remove()
	plain.Produce(t, texts(input, "text", 1)...)
	pollValues(t, b, 1)
}

// A coordinator that does not answer holds up a commit, but not intake.
func TestCommitHangs(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", input))
	plain.Produce(t, texts(input, "text", 1)...)
	batch := pollBatch(t, b)
	hang := make(chan struct{})
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { <-hang })
		return nil, nil, false
	})
	start := time.Now()
	if err := b.Commit(t.Context(), batch); err == nil {
		t.Error("a commit that nobody has answered has passed")
	}
	for i := range 5 {
		plain.Produce(t, texts(input, "text", 1)...)
		batch = pollBatch(t, b)
		if err := b.Commit(t.Context(), batch); err == nil {
			t.Errorf("commit %d has passed", i)
		}
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	close(hang)
	await(t, "what was committed meanwhile arrives", func() bool {
		return plain.Committed(t, "group", input)[0] == batch[len(batch)-1].Offset+1
	})
}

// keyFor returns a key whose records go to a partition.
func keyFor(t *testing.T, b *broker, plain *brokertest.Cluster, topic string, partition int32) []byte {
	t.Helper()
	var records []node.Record
	for i := range 100 {
		records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i)})
	}
	for _, err := range b.Publish(t.Context(), records) {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range plain.Read(t, topic) {
		if r.Partition == partition {
			return r.Key
		}
	}
	t.Fatalf("no key of 100 goes to partition %d", partition)
	return nil
}

// One output partition does not accept anything: after the first publish that runs into its time limit, it holds up
// nobody, and its records are known not to be sent. When it is back, they are published soon.
func TestSilentPartition(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(*kfake.Cluster, string) *kfake.FaultHandle{
		"no leader": func(c *kfake.Cluster, topic string) *kfake.FaultHandle { return leaderless(c, topic, 1) },
		"too few replicas": func(c *kfake.Cluster, topic string) *kfake.FaultHandle {
			return c.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{1},
				Err: kerr.NotEnoughReplicas, Count: -1,
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t)
			topic, other := plain.Topic(t, 3), plain.Topic(t, 1)
			c := configFor(cluster, "group", "in")
			c.PublishTimeout = 2 * time.Second
			b := open(t, c)
			dead, alive := keyFor(t, b, plain, topic, 1), keyFor(t, b, plain, topic, 0)
			batch := func() []node.Record {
				records := texts(other, "other", 50)
				records = append(records, node.Record{Topic: topic, Key: alive, Value: []byte("alive")})
				for range 30 {
					records = append(records, node.Record{Topic: topic, Key: dead, Value: []byte("dead")})
				}
				return records
			}
			fault := fail(cluster, topic)
			for i, err := range b.Publish(t.Context(), batch()) { // runs into its time limit
				if (err == nil) != (i <= 50) {
					t.Errorf("record %d: %v", i, err)
				}
			}
			unsent, unknown := 0, 0
			for round := range 8 {
				start := time.Now()
				for i, err := range b.Publish(t.Context(), batch()) {
					switch {
					case i <= 50 && err != nil:
						t.Errorf("round %d, record %d of a healthy partition: %v", round, i, err)
					case i > 50 && errors.Is(err, node.ErrUnsent):
						unsent++
					case i > 50:
						unknown++
					}
				}
				if took := time.Since(start); took > c.PublishTimeout/2 {
					t.Errorf("round %d took %v with one dead partition", round, took)
				}
			}
			if unknown > 30 || unsent < 200 {
				t.Errorf("%d records were not sent, and the outcome of %d is unknown", unsent, unknown)
			}
			fault.Remove()
			start := time.Now()
			await(t, "the partition accepts records again", func() bool {
				return b.Publish(t.Context(), []node.Record{{Topic: topic, Key: dead, Value: []byte("back")}})[0] == nil
			})
			t.Logf("publishing worked again after %v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// Over a slow connection, six messages that do not arrive together within the time limit arrive some at a time.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 6)
	network := brokertest.NewNetwork(t)
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 2 * time.Second
	c.Dialer = network.Dial
	b := open(t, c)
	if err := publishOne(t, b, topic, "first"); err != nil {
		t.Fatal(err)
	}
	network.Limit(2_000_000)
	var left []node.Record
	for i := range 6 {
		left = append(left, node.Record{Topic: topic, Key: fmt.Append(nil, i), Value: noise(900_000)})
	}
	rounds, unknown := 0, 0
	for start := time.Now(); len(left) > 0; rounds++ {
		if time.Since(start) > patience {
			t.Fatalf("%d of 6 messages have not arrived after %v and %d rounds", len(left), patience, rounds)
		}
		var again []node.Record
		for i, err := range b.Publish(t.Context(), left) {
			if err != nil {
				again = append(again, left[i])
			}
			if err != nil && !errors.Is(err, node.ErrUnsent) {
				unknown++
			}
		}
		if len(again) == len(left) {
			timer := time.NewTimer(100 * time.Millisecond) // as an engine that stands back
			<-timer.C
		}
		left = again
	}
	t.Logf("%d rounds, %d unknown outcomes", rounds, unknown)
}

// A topic that was deleted is published on soon after it is there again, whichever client is used.
func TestPublishSoonAfterTopicIsBack(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	plain.CreateTopic(t, "back", 1)
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 2 * time.Second
	b := open(t, c)
	all := func() (failed int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 4 {
			wg.Go(func() {
				for _, err := range b.Publish(t.Context(), texts("back", "text", 1)) {
					if err != nil {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		return failed
	}
	if failed := all(); failed > 0 {
		t.Fatal("publishing fails")
	}
	if err := cluster.DeleteTopic("back"); err != nil {
		t.Fatal(err)
	}
	await(t, "the topic is missing", func() bool {
		return errors.Is(publishOne(t, b, "back", "text"), node.ErrNoTopic)
	})
	plain.CreateTopic(t, "back", 1)
	start := time.Now()
	await(t, "all clients publish", func() bool { return all() == 0 })
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}

// What waiting does not mend is told apart, in a sentence that says what to do.
func TestPermanent(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		kerr.SaslAuthenticationFailed, kerr.TopicAuthorizationFailed, kerr.GroupAuthorizationFailed,
		kerr.ClusterAuthorizationFailed, kerr.UnsupportedSaslMechanism,
	} {
		if sentence, is := kafka.Permanent(fmt.Errorf("poll: %w", err)); !is || !strings.HasSuffix(sentence, ".") {
			t.Errorf("%v: %q, %v", err, sentence, is)
		}
	}
	for _, err := range []error{
		nil, errors.New("connection refused"), context.DeadlineExceeded, kerr.CoordinatorNotAvailable,
		kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition,
	} {
		if sentence, is := kafka.Permanent(err); is {
			t.Errorf("%v is permanent: %q", err, sentence)
		}
	}
}

// What commands ask of a cluster.
func TestAdmin(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 2)
	plain.Produce(t, texts(input, "before", 2)...)
	b := open(t, configFor(cluster, "group", input))
	if id, err := b.admin.ClusterID(t.Context()); err != nil || id == "" {
		t.Errorf("cluster id %q: %v", id, err)
	}
	if places, err := b.admin.Committed(t.Context(), "group", input); err != nil || len(places) > 0 {
		t.Errorf("committed %v: %v", places, err)
	}
	batch := pollBatch(t, b)
	if err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	places, err := b.admin.Committed(t.Context(), "group", input)
	if err != nil || len(places) != 1 || places[0].Number != 0 || places[0].Offset != batch[len(batch)-1].Offset+1 {
		t.Errorf("committed %+v: %v", places, err)
	}
	for instant, want := range map[time.Time][]int64{
		time.Now().Add(-time.Hour): {0, 0}, time.Now().Add(time.Hour): {2, 0},
	} {
		places, err := b.admin.PlacesAt(t.Context(), instant, input)
		if err != nil || len(places) != 2 {
			t.Fatalf("places at %v: %v, %v", instant, places, err)
		}
		for i, p := range places {
			// An empty partition has no record: its end is its start.
			if p.Offset != want[i] || p.Epoch != node.UnknownEpoch || p.TopicID.String() == "" {
				t.Errorf("place at %v of partition %d: %+v, want offset %d", instant, i, p, want[i])
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var missing *kafka.MissingTopicsError
	if _, err := b.admin.Extents(ctx, "not-there"); !errors.As(err, &missing) {
		t.Errorf("extents of a topic that does not exist: %v", err)
	}
}

// Brokers that know no topic ids are refused, in a sentence that says what to do.
func TestBrokersWithoutTopicIDs(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.MaxVersions(kversion.V2_7_0()))
	input := plain.Topic(t, 1)
	err := pollError(t, open(t, configFor(cluster, "group", input)))
	if sentence, is := kafka.Permanent(err); !is || !strings.Contains(sentence, "topic ids") {
		t.Errorf("poll: %v, want that the brokers are too old", err)
	}
}

// A transaction that stays open holds up what comes behind it, and that is said.
func TestOpenTransaction(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.TransactionalID("hanging"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c := configFor(cluster, "group", input)
	log := new(memoryLog)
	c.Logger = slog.New(log)
	b := open(t, c)
	plain.Produce(t, texts(input, "text", 1)...)
	pollValues(t, b, 1)
	if err := client.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: input}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	plain.Produce(t, texts(input, "behind", 1)...)
	await(t, "it is said that a transaction holds the partition up", func() bool {
		records, err := b.Poll(t.Context())
		if len(records) > 0 || err != nil {
			t.Fatalf("polled %q: %v", values(records), err)
		}
		return slices.ContainsFunc(log.all(), func(line string) bool {
			return strings.Contains(line, "open transaction") && strings.Contains(line, "waiting_at_most=2")
		})
	})
}
