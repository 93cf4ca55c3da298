package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// With all brokers absent, Publish returns at its time limit and says what is wrong.
func TestPublishWithoutBrokers(t *testing.T) {
	t.Parallel()
	b := open(t, config{
		SourceConfig: kafka.SourceConfig{
			Connection: kafka.Connection{Brokers: []string{"127.0.0.1:1"}}, Group: "group", Inputs: []string{"in"},
		},
		PublishTimeout: time.Second,
	})
	for range 2 {
		start := time.Now()
		err := publishOne(t, b, "out", "text")
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("publish took %v with a limit of 1s", took)
		}
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("publish: %v, want the reason", err)
		}
		if node.KindOf(err).Permanent() {
			t.Errorf("publish: %v, want an unknown outcome", err)
		}
	}
}

// A broker that accepts connections and closes them, as one does that restarts behind a proxy, is tried again.
func TestPublishWhenConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	closing, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = closing.Close() })
	go func() {
		for {
			conn, err := closing.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	var dials atomic.Int32
	config := configFor(cluster, "group", topic)
	config.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		if dials.Add(1)%3 != 0 {
			address = closing.Addr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	b := open(t, config)
	if err := publishOne(t, b, topic, "text"); err != nil {
		t.Fatalf("publish: %v", err)
	}
	if got := pollValues(t, b, 1); got[0] != "text" {
		t.Fatalf("polled %q", got)
	}
	if dials.Load() < 3 {
		t.Fatalf("there were %d connections", dials.Load())
	}
}

// What a broker answers, and what Publish makes of it when the broker keeps to it.
func TestPublishErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause *kerr.Error
		want  node.PublishKind
	}{
		{kerr.MessageTooLarge, node.RecordRejected},
		{kerr.RecordListTooLarge, node.RecordRejected},
		{kerr.InvalidRecord, node.RecordRejected},
		{kerr.UnknownTopicOrPartition, node.TopicMissing},
		{kerr.TopicAuthorizationFailed, node.TopicMissing},
		{kerr.ClusterAuthorizationFailed, node.TopicMissing},
		{kerr.InvalidTopicException, node.TopicMissing},
		{kerr.NotEnoughReplicas, node.OutcomeUnknown},
		{kerr.NotEnoughReplicasAfterAppend, node.OutcomeUnknown},
		{kerr.RequestTimedOut, node.OutcomeUnknown},
		{kerr.NotLeaderForPartition, node.OutcomeUnknown},
		{kerr.KafkaStorageError, node.OutcomeUnknown},
		{kerr.UnknownServerError, node.OutcomeUnknown},
		{kerr.InvalidTimestamp, node.OutcomeUnknown},
		{kerr.CorruptMessage, node.OutcomeUnknown},
		{kerr.PolicyViolation, node.OutcomeUnknown},
	} {
		t.Run(c.cause.Message, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t)
			topic, other := plain.Topic(t, 1), plain.Topic(t, 1)
			config := configFor(cluster, "group", "in")
			config.PublishTimeout = 4 * time.Second // so long takes each outcome that nobody knows
			b := open(t, config)
			for _, topic := range []string{topic, other} {
				if err := publishOne(t, b, topic, "before"); err != nil {
					t.Fatal(err)
				}
			}
			fault := cluster.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: c.cause, Count: -1,
			})
			records := append(texts(topic, "failing", 1), texts(other, "good", 1)...)
			errs := b.Publish(t.Context(), records)
			if got := errs[0]; node.KindOf(got) != c.want {
				t.Errorf("publish: %v, want %v", got, c.want)
			}
			if fault.Hits() == 0 {
				t.Error("the broker was not asked")
			}
			// A client that starts over gives up what else it has: this is unknown then, but not wrong.
			if err := errs[1]; err != nil && node.KindOf(err).Permanent() {
				t.Errorf("publish on another topic: %v", err)
			}
			fault.Remove()
			await(t, "publishing works again", func() bool {
				return publishOne(t, b, topic, "after") == nil && publishOne(t, b, other, "after") == nil
			})
		})
	}
}

// A broker that answers too late what it has done: the next try of the client finds that out. The record is there once.
func TestPublishRetriesOnce(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", "in"))
	for _, cause := range []*kerr.Error{
		kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend, kerr.NotLeaderForPartition,
	} {
		fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: cause, Count: 2})
		if err := publishOne(t, b, topic, cause.Message); err != nil {
			t.Fatalf("%v: %v", cause, err)
		}
		if fault.Hits() != 2 {
			t.Errorf("%v was answered %d times, want 2", cause, fault.Hits())
		}
	}
	if got := plain.Read(t, topic); len(got) != 3 {
		t.Errorf("the topic holds %q, want each once", values(got))
	}
}

// A node that is not allowed to get a producer id, until somebody changes that. franz-go would never ask again.
func TestPublishAfterProducerIDRefused(t *testing.T) {
	t.Parallel()
	for _, cause := range []*kerr.Error{kerr.ClusterAuthorizationFailed, kerr.UnknownServerError} {
		cluster, plain := newFake(t)
		topic := plain.Topic(t, 1)
		fault := cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: cause, Count: -1,
		})
		b := open(t, configFor(cluster, "group", "in"))
		for range 2 {
			err := publishOne(t, b, topic, "during")
			if !errors.Is(err, cause) || (node.KindOf(err) == node.TopicMissing) !=
				(cause == kerr.ClusterAuthorizationFailed) {
				t.Errorf("publish: %v, want %v", err, cause)
			}
		}
		fault.Remove()
		if err := publishOne(t, b, topic, "after"); err != nil {
			t.Errorf("publish after %v: %v", cause, err)
		}
		if got := values(plain.Read(t, topic)); !slices.Equal(got, []string{"after"}) {
			t.Errorf("the topic holds %q", got)
		}
	}
}

// An output topic that is deleted and created again is published on again. franz-go would refuse the new one.
func TestPublishOnRecreatedTopic(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	plain.CreateTopic(t, "again", 1)
	config := configFor(cluster, "group", "in")
	config.PublishTimeout = 2 * time.Second
	b := open(t, config)
	for round := range 3 {
		await(t, "the topic accepts a record", func() bool {
			err := publishOne(t, b, "again", fmt.Sprint(round))
			if node.KindOf(err) == node.RecordRejected {
				t.Fatal(err)
			}
			return err == nil
		})
		if got := values(plain.Read(t, "again")); !slices.Contains(got, fmt.Sprint(round)) {
			t.Fatalf("the topic holds %q in round %d", got, round)
		}
		if err := cluster.DeleteTopic("again"); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // somebody notices before it is there again
			await(t, "the topic is missing", func() bool {
				return node.KindOf(publishOne(t, b, "again", "nowhere")) == node.TopicMissing
			})
		}
		plain.CreateTopic(t, "again", 1)
	}
}

// While a topic is known to be missing, publishing on it costs no time: others are not to wait for it.
func TestPublishOnMissingTopicIsQuick(t *testing.T) {
	t.Parallel()
	cluster, _ := newFake(t)
	b := open(t, configFor(cluster, "group", "in"))
	if err := publishOne(t, b, "missing", "text"); node.KindOf(err) != node.TopicMissing {
		t.Fatal(err)
	}
	start := time.Now()
	for range 1000 {
		if err := publishOne(t, b, "missing", "text"); node.KindOf(err) != node.TopicMissing {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("1000 calls took %v", took)
	}
}

// Leaders that move while publishing cost nothing: every record is acknowledged, and there once.
func TestPublishWhileLeadersMove(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 3)
	b := open(t, configFor(cluster, "group", "in"))
	stop := make(chan struct{})
	var moving sync.WaitGroup
	moving.Go(func() {
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				cluster.ShufflePartitionLeaders()
			}
		}
	})
	var want []string
	for round := range 30 {
		var records []node.Record
		for i := range 20 {
			text := fmt.Sprintf("%02d-%02d", round, i)
			want = append(want, text)
			records = append(records, node.Record{Topic: topic, Key: []byte(text), Value: []byte(text)})
		}
		for i, err := range b.Publish(t.Context(), records) {
			if err != nil {
				t.Errorf("round %d, record %d: %v", round, i, err)
			}
		}
	}
	close(stop)
	moving.Wait()
	if got := values(plain.Read(t, topic)); !slices.Equal(got, want) {
		t.Errorf("the topic holds %d records, want %d, each once", len(got), len(want))
	}
}

// One broker of three is frozen. What the others lead goes on, in both directions: its results are not withheld, and
// not taken for unknown because of those that are.
func TestOneBrokerFrozen(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 3)
	coordinator := cluster.CoordinatorFor("group")
	frozen := (coordinator + 1) % 3
	for p := range int32(3) {
		if err := cluster.MoveTopicPartition(topic, p, (coordinator+p)%3); err != nil {
			t.Fatal(err)
		}
	}
	network := brokertest.NewNetwork(t)
	config := configFor(cluster, "group", topic)
	config.PublishTimeout = 1500 * time.Millisecond
	config.Dialer = func(ctx context.Context, proto, address string) (net.Conn, error) {
		if address == cluster.ListenAddrs()[frozen] {
			return network.Dial(ctx, proto, address)
		}
		return new(net.Dialer).DialContext(ctx, proto, address)
	}
	b := open(t, config)
	var records []node.Record
	for i := range 60 {
		records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i), Value: fmt.Append(nil, i)})
	}
	// A client that connects may have no time left for some of it.
	for left := records; len(left) > 0; {
		var unsent []node.Record
		for i, err := range b.Publish(t.Context(), left) {
			switch {
			case node.KindOf(err).Untried():
				unsent = append(unsent, left[i])
			case err != nil:
				t.Fatalf("record %s: %v", left[i].Key, err)
			}
		}
		left = unsent
	}
	isFrozen := make(map[string]bool)
	for _, r := range plain.Read(t, topic) {
		isFrozen[string(r.Key)] = cluster.LeaderFor(topic, r.Partition) == frozen
	}
	for n := 0; n < len(records); {
		batch := pollBatch(t, b)
		n += len(batch)
		if err := b.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}

	network.Freeze()
	start := time.Now()
	for i, err := range b.Publish(t.Context(), records) {
		if (err != nil) != isFrozen[string(records[i].Key)] || node.KindOf(err) == node.TopicMissing {
			t.Errorf("record %d: %v, with its broker frozen: %v", i, err, isFrozen[string(records[i].Key)])
		}
	}
	if took := time.Since(start); took > config.PublishTimeout+500*time.Millisecond {
		t.Errorf("publish took %v with a limit of %v", took, config.PublishTimeout)
	}
	want := 0
	for _, r := range records {
		if !isFrozen[string(r.Key)] {
			want++
		}
	}
	if got := pollValues(t, b, want); len(got) != want {
		t.Errorf("polled %d records of the other brokers, want %d", len(got), want)
	}
}

// Close ends a Publish that waits.
func TestCloseEndsPublish(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	config := configFor(cluster, "group", "in")
	config.PublishTimeout = time.Minute
	b := open(t, config)
	fault := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.NotEnoughReplicas, Count: -1,
	})
	published := make(chan []error)
	go func() { published <- b.Publish(context.Background(), texts(topic, "text", 2)) }()
	if err := fault.Wait(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, err := range <-published {
		if err == nil || node.KindOf(err).Permanent() {
			t.Errorf("record %d: %v, want an unknown outcome", i, err)
		}
	}
}

// EnsureTopics names what is missing in one sentence, and creates it when told to, with the broker's defaults.
func TestEnsureTopics(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.DefaultNumPartitions(7))
	there := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", "in"))
	topics := []kafka.TopicSpec{{Name: there}, {Name: "a"}, {Name: "b", Partitions: 3}, {Name: "a"}}
	if err := b.admin.EnsureTopics(t.Context(), false, topics[:1]...); err != nil {
		t.Errorf("a topic that is there: %v", err)
	}
	err := b.admin.EnsureTopics(t.Context(), false, topics...)
	var missing *kafka.MissingTopicsError
	if !errors.As(err, &missing) || err.Error() != "topics a and b do not exist" {
		t.Errorf("two topics missing: %v", err)
	}
	err = b.admin.EnsureTopics(t.Context(), false, topics[:2]...)
	if err == nil || err.Error() != "topic a does not exist" {
		t.Errorf("one topic missing: %v", err)
	}
	for range 2 {
		if err := b.admin.EnsureTopics(t.Context(), true, topics...); err != nil {
			t.Fatalf("create: %v", err)
		}
	}
	for topic, want := range map[string]int{there: 1, "a": 7, "b": 3} {
		if got := len(cluster.PartitionInfos(topic)); got != want {
			t.Errorf("topic %s has %d partitions, want %d", topic, got, want)
		}
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Err: kerr.PolicyViolation})
	err = b.admin.EnsureTopics(t.Context(), true, kafka.TopicSpec{Name: "forbidden"})
	if !errors.Is(err, kerr.PolicyViolation) || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("a topic that must not be created: %v", err)
	}
}

// A topic that was created is there for whoever comes next, whichever broker that asks: each of them learns of it by
// itself, and here one of three is asked seven times before it knows.
func TestCreatedTopicIsKnownEverywhere(t *testing.T) {
	t.Parallel()
	cluster, _ := newFake(t)
	b := open(t, configFor(cluster, "group", "in"))
	const slow, ignorant = 2, 7
	var asked atomic.Int32
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		metadata := request.(*kmsg.MetadataRequest)
		if cluster.CurrentNode() != slow || len(metadata.Topics) == 0 || asked.Add(1) > ignorant {
			return nil, nil, false
		}
		response := metadata.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range metadata.Topics {
			unknown := kmsg.NewMetadataResponseTopic()
			unknown.Topic, unknown.ErrorCode = topic.Topic, kerr.UnknownTopicOrPartition.Code
			response.Topics = append(response.Topics, unknown)
		}
		return response, nil, true
	})
	if err := b.admin.EnsureTopics(t.Context(), true, kafka.TopicSpec{Name: "fresh"}); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n <= ignorant {
		t.Errorf("a broker that did not know of the topic %d times was asked %d times", ignorant, n)
	}
}

// While no broker answers, EnsureTopics waits as long as it may, and says why it gives up.
func TestEnsureTopicsWithoutBrokers(t *testing.T) {
	t.Parallel()
	b := open(t, config{
		SourceConfig: kafka.SourceConfig{
			Connection: kafka.Connection{Brokers: []string{"127.0.0.1:1"}}, Group: "group", Inputs: []string{"in"},
		},
		PublishTimeout: time.Second,
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := b.admin.EnsureTopics(ctx, true, kafka.TopicSpec{Name: "a"})
	if err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("ensure topics: %v, want the reason", err)
	}
}
