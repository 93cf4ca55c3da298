package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// A failure to stay in the group that is over by the time of the next Poll is no reason to say that no broker answers,
// from then on until something comes. Method: a heartbeat fails, and the node joins again, while nobody polls.
func TestFailureToJoinIsOver(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	s := openSource(t, configFor(cluster, "group", input))
	assigned := 0
	wait := func() {
		pollFor(t, s, patience, func(b node.Batch, _ error) bool {
			assigned += len(b.Assigned)
			return assigned > 0
		})
	}
	wait()
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.GroupAuthorizationFailed, Count: 1})
	joins := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: 2})
	if err := joins.Wait(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	await(t, "the node is in its group again", s.Joined)
	for range 3 {
		if _, err := s.Poll(t.Context()); err != nil {
			t.Errorf("poll: %v", err)
		}
	}
	if !s.Joined() {
		t.Error("the node says that it is not in its group")
	}
}

// Reading goes on after each of very many changes of the place, as close together as they can be.
func TestSeekOften(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	plain.Produce(t, texts(input, "text", 10)...)
	s := openSource(t, configFor(cluster, "group", input))
	var assigned []node.Assignment
	pollFor(t, s, patience, func(b node.Batch, _ error) bool {
		assigned = append(assigned, b.Assigned...)
		return len(assigned) > 0
	})
	for i := range 1000 {
		offset := int64(i*7) % 10
		startAll(t, s, assigned, node.Position{Epoch: node.UnknownEpoch, Offset: offset})
		pollFor(t, s, patience, func(b node.Batch, _ error) bool {
			if len(b.Assigned) > 0 { // a busy machine has cost us the session
				assigned = b.Assigned
				startAll(t, s, assigned, node.Position{Epoch: node.UnknownEpoch, Offset: offset})
			}
			if len(b.Records) > 0 && b.Records[0].Offset != offset {
				t.Fatalf("started at %d, the first record has offset %d", offset, b.Records[0].Offset)
			}
			return len(b.Records) > 0
		})
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
		if len(b.Assigned) > 0 { // however slow the machine is: it fetches before anybody polls
			await(t, "something is held", func() bool { return s.Buffered() > 0 })
			most = s.Buffered()
		}
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
	if most > 2*bound+size || most == 0 {
		t.Errorf("%d bytes were held with a bound of %d", most, bound)
	}
}

// openTooLarge opens a source on a topic whose first partition begins with a batch that is larger than any that is
// read.
func openTooLarge(t *testing.T, partitions int32) (b *broker, plain *brokertest.Cluster, input string) {
	t.Helper()
	cluster, plain := newFake(t)
	input = plain.Topic(t, partitions, "max.message.bytes", "16777216")
	plain.Produce(t, node.Record{Topic: input, Value: make([]byte, 3<<20)})
	plain.Produce(t, node.Record{Topic: input, Value: []byte("behind")})
	c := configFor(cluster, "group", input)
	c.BatchMemory = 1 << 20
	return open(t, c), plain, input
}

// A batch that is larger than any that is read stops its partition only, and is said again and again; from behind it,
// reading goes on.
func TestBatchTooLarge(t *testing.T) {
	t.Parallel()
	b, plain, input := openTooLarge(t, 2)
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

// The way out that the log names: without the records before the one behind the batch, the partition is read on, and
// what is missing is told.
func TestBatchTooLargeIsDeleted(t *testing.T) {
	t.Parallel()
	b, plain, input := openTooLarge(t, 1)
	const wayOut = "the records before offset 1, by kafka-delete-records.sh"
	if err := pollError(t, b); !strings.Contains(err.Error(), wayOut) {
		t.Fatalf("poll: %v, want the way out", err)
	}
	plain.DeleteRecords(t, input, 0, 1)
	if got := pollValues(t, b, 1); got[0] != "behind" {
		t.Fatalf("polled %q, want what comes behind the batch", got)
	}
	var lost []node.Loss
	for _, event := range b.Events {
		lost = append(lost, event.Lost...)
	}
	if len(lost) != 1 || lost[0].From != 0 || lost[0].To != 1 {
		t.Fatalf("%v is said to be lost, want the batch", lost)
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
	if err := b.Reader.Commit(t.Context(), batch); err == nil {
		t.Error("a commit that nobody has answered has passed")
	}
	for i := range 5 {
		plain.Produce(t, texts(input, "text", 1)...)
		batch = pollBatch(t, b)
		if err := b.Reader.Commit(t.Context(), batch); err == nil {
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
	if err := b.Commit(t.Context(), pollBatch(t, b)); err != nil { // or a new member of the group would poll it again
		t.Fatal(err)
	}
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
