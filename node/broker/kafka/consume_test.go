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
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// With all brokers absent, New succeeds, Poll says what is wrong, and Close has nothing to wait for.
func TestPollWithoutBrokers(t *testing.T) {
	t.Parallel()
	log := new(memoryLog)
	b := open(t, config{
		SourceConfig: kafka.SourceConfig{
			Connection: kafka.Connection{Brokers: []string{"127.0.0.1:1"}, Logger: slog.New(log)},
			Group:      "group", Inputs: []string{"in"},
		},
		PublishTimeout: time.Second,
	})
	for range 3 {
		if err := pollError(t, b); !strings.Contains(err.Error(), "connection refused") {
			t.Fatalf("poll: %v, want the reason", err)
		}
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
	if lines := log.all(); len(lines) > 0 {
		t.Errorf("logged %q, want nothing: the error of Poll says it", lines)
	}
}

// A cluster that is stopped and started again, with its records and groups: consuming goes on where it was.
func TestPollAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cluster, plain := newFake(t, kfake.DataDir(dir), kfake.NumBrokers(1))
	input := plain.Topic(t, 1)
	config := configFor(cluster, "group", input)
	log := new(memoryLog)
	config.Logger = slog.New(log)
	b := open(t, config)
	plain.Produce(t, texts(input, "before", 3)...)
	batch := pollBatch(t, b)
	if err := b.Commit(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	quiet := len(log.all())

	cluster.Close()
	if err := pollError(t, b); !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("poll: %v, want the reason", err)
	}
	if lines := log.all()[quiet:]; len(lines) > 5 {
		t.Errorf("logged %d lines in an outage: %q", len(lines), lines)
	}
	var port int
	if _, err := fmt.Sscanf(config.Brokers[0], "127.0.0.1:%d", &port); err != nil {
		t.Fatal(err)
	}
	again, err := kfake.NewCluster(
		kfake.DataDir(dir), kfake.NumBrokers(1), kfake.Ports(port), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	plain.Produce(t, texts(input, "after", 1)...)
	if got := pollValues(t, b, 1); got[0] != "after-0" {
		t.Fatalf("polled %q after the restart, want after-0", got)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := pollValues(t, open(t, config), 1); got[0] != "after-0" {
		t.Fatalf("another node polled %q after the restart, want what was not committed: after-0", got)
	}
}

// An input topic that does not exist is worth an error, not silence; when it is created, it is consumed.
func TestPollMissingInput(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	b := open(t, configFor(cluster, "group", "not-there"))
	err := pollError(t, b)
	var missing *kafka.MissingTopicsError
	if !errors.As(err, &missing) || !slices.Equal(missing.Topics, []string{"not-there"}) {
		t.Fatalf("poll: %v, want that the topic is missing", err)
	}
	plain.CreateTopic(t, "not-there", 2)
	plain.Produce(t, texts("not-there", "text", 1)...)
	if got := pollValues(t, b, 1); got[0] != "text-0" {
		t.Fatalf("polled %q", got)
	}
}

// One topic that cannot be read is reported, and does not keep the others from being consumed.
func TestPollWithOneTopicFailing(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	good, bad := plain.Topic(t, 1), plain.Topic(t, 1)
	config := configFor(cluster, "group", good, bad)
	log := new(memoryLog)
	config.Logger = slog.New(log)
	b := open(t, config)
	fault := cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Fetch}, Topic: bad, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	plain.Produce(t, texts(bad, "bad", 1)...)
	if err := pollError(t, b); !errors.Is(err, kerr.TopicAuthorizationFailed) || !strings.Contains(err.Error(), bad) {
		t.Fatalf("poll: %v, want the topic that is forbidden", err)
	}
	for i := range 10 {
		plain.Produce(t, texts(good, fmt.Sprint(i), 1)...)
		if got := pollValues(t, b, 1); got[0] != fmt.Sprintf("%d-0", i) {
			t.Fatalf("polled %q", got)
		}
	}
	count := 0
	for _, line := range log.all() {
		if strings.Contains(line, "cannot consume") {
			count++
		}
	}
	if count != 1 {
		t.Errorf("the failure was logged %d times, want once", count)
	}
	fault.Remove()
	if got := pollValues(t, b, 1); got[0] != "bad-0" {
		t.Fatalf("polled %q once the topic can be read", got)
	}
}

// Coordinators of the group that move are found again: a commit succeeds, and nothing is delivered twice.
func TestPollWhileCoordinatorsMove(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", input))
	var want, got []string
	for round := range 20 {
		text := fmt.Sprintf("%02d", round)
		want = append(want, text)
		plain.Produce(t, node.Record{Topic: input, Value: []byte(text)})
		batch := pollBatch(t, b)
		got = append(got, values(batch)...)
		cluster.RehashCoordinators()
		if err := b.Commit(t.Context(), batch); err != nil {
			t.Fatalf("commit: %v", err)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("polled %q, want each once: %q", got, want)
	}
}

// Partitions that change their leader are consumed to the end. The fake broker does not say where an epoch has ended
// while the next one is empty, so that the client has to read again what may have been lost.
func TestPollWhileLeadersMove(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 3)
	b := open(t, configFor(cluster, "group", input))
	seen := make(map[string]bool)
	for round := range 10 {
		for p := range int32(3) {
			plain.Produce(t, node.Record{Topic: input, Partition: p, Value: fmt.Append(nil, 3*round+int(p))})
		}
		await(t, "all records are polled", func() bool {
			records, err := b.Poll(t.Context())
			if err != nil {
				t.Fatalf("poll: %v", err)
			}
			for _, r := range records {
				seen[string(r.Value)] = true
			}
			return len(seen) == 3*round+3
		})
		cluster.ShufflePartitionLeaders()
	}
}

// Records that Kafka has deleted before they were consumed are gone; everything that is left is consumed.
func TestPollBehindTheStartOfTheLog(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	plain.Produce(t, texts(input, "text", 3)...)
	config := configFor(cluster, "group", input)
	b := open(t, config)
	batch := pollBatch(t, b)
	if err := b.Commit(t.Context(), batch[:1]); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	plain.Produce(t, texts(input, "more", 3)...)
	if err := cluster.DeleteRecords(input, 0, 4); err != nil {
		t.Fatal(err)
	}
	if got := pollValues(t, open(t, config), 2); got[0] != "more-1" {
		t.Fatalf("polled %q, want all from the start of the log", got)
	}
}

// An input topic that is deleted and created again is another topic, which is consumed from its start.
func TestPollRecreatedInput(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	other := plain.Topic(t, 1)
	plain.CreateTopic(t, "again", 1)
	b := open(t, configFor(cluster, "group", "again", other))
	plain.Produce(t, texts("again", "first", 5)...)
	for n := 0; n < 5; {
		batch := pollBatch(t, b)
		n += len(batch)
		if err := b.Commit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := cluster.DeleteTopic("again"); err != nil {
		t.Fatal(err)
	}
	plain.CreateTopic(t, "again", 1)
	plain = plain.Fresh(t)
	plain.Produce(t, texts("again", "second", 2)...)
	plain.Produce(t, texts(other, "other", 1)...)
	var got []string
	await(t, "records of both topics", func() bool {
		records, err := b.Poll(t.Context())
		if err == nil {
			err = b.Commit(t.Context(), records)
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, values(records)...)
		return len(got) >= 3
	})
	slices.Sort(got)
	if want := []string{"other-0", "second-0", "second-1"}; !slices.Equal(got, want) {
		t.Fatalf("polled %q, want %q", got, want)
	}
}

// What has piled up in one partition is half of what a broker sends at most: the others come with it.
func TestFetchLeavesRoom(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 2)
	plain.Produce(t, texts(input, "text", 1)...)
	var mu sync.Mutex
	asked := 0
	cluster.ControlKey(int16(kmsg.Fetch), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		fetch := request.(*kmsg.FetchRequest)
		for _, topic := range fetch.Topics {
			for _, p := range topic.Partitions {
				asked++
				if p.PartitionMaxBytes > fetch.MaxBytes/2 {
					t.Errorf("of %d bytes, partition %d may have %d", fetch.MaxBytes, p.Partition, p.PartitionMaxBytes)
				}
			}
		}
		return nil, nil, false
	})
	pollValues(t, open(t, configFor(cluster, "group", input)), 1)
	mu.Lock()
	defer mu.Unlock()
	if asked == 0 {
		t.Error("no broker was asked for records")
	}
}

// A commit that fails says so, and can be repeated.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	plain.Produce(t, texts(input, "text", 3)...)
	for i, cause := range []*kerr.Error{
		kerr.RebalanceInProgress, kerr.GroupAuthorizationFailed, kerr.UnknownTopicOrPartition,
		kerr.InvalidCommitOffsetSize,
	} {
		// A group for each: after some of these the member joins anew, and has no partitions for a moment.
		group := fmt.Sprintf("group-%d", i)
		b := open(t, configFor(cluster, group, input))
		batch := pollBatch(t, b)
		fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: cause})
		if err := b.Commit(t.Context(), batch); !errors.Is(err, cause) {
			t.Errorf("commit: %v, want %v", err, cause)
		}
		if fault.Hits() != 1 {
			t.Errorf("%v: %d commits arrived, want 1", cause, fault.Hits())
		}
		if got := plain.Committed(t, group, input); len(got) > 0 {
			t.Fatalf("%v: committed %v", cause, got)
		}
	}
	b := open(t, configFor(cluster, "group", input))
	batch := pollBatch(t, b)
	if err := b.Commit(t.Context(), batch); err != nil {
		t.Fatalf("commit: %v", err)
	}
	if got := plain.Committed(t, "group", input)[0]; got != batch[len(batch)-1].Offset+1 {
		t.Fatalf("committed %d", got)
	}
}

// The batch in hand is of a topic that has been deleted. Nobody can ever commit it, and it must not stop the node.
func TestCommitToDeletedTopic(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input, other := plain.Topic(t, 1), plain.Topic(t, 1)
	plain.Produce(t, texts(input, "text", 3)...)
	b := open(t, configFor(cluster, "group", input, other))
	batch := pollBatch(t, b)
	if err := cluster.DeleteTopic(input); err != nil {
		t.Fatal(err)
	}
	if err := b.Commit(t.Context(), batch); err == nil {
		t.Error("a commit to a topic that does not exist has passed")
	}
	plain.Produce(t, texts(other, "other", 1)...)
	if got := pollValues(t, b, 1); got[0] != "other-0" {
		t.Fatalf("polled %q", got)
	}
	await(t, "poll says that the topic is missing", func() bool {
		_, err := b.Poll(t.Context())
		var missing *kafka.MissingTopicsError
		return errors.As(err, &missing) && slices.Equal(missing.Topics, []string{input})
	})
}

// The group refuses a member with these errors: its partitions are lost. The commit passes, and the next Poll begins
// where the group is.
func TestCommitRefused(t *testing.T) {
	t.Parallel()
	for _, cause := range []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration} {
		cluster, plain := newFake(t)
		input := plain.Topic(t, 1)
		plain.Produce(t, texts(input, "text", 3)...)
		b := open(t, configFor(cluster, "group", input))
		batch := pollBatch(t, b)
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: cause})
		if err := b.Tell(t.Context(), batch); err != nil {
			t.Errorf("%v: commit: %v, want that it passes", cause, err)
		}
		if got := pollValues(t, b, 3); got[0] != "text-0" {
			t.Errorf("%v: polled %q, want all again", cause, got)
		}
	}
}

// The member id changes while a batch is in hand:
//
//	a second member joins; the first hears of it and asks to join again, which takes a while
//	it polls on meanwhile, as cooperative balancing lets it
//	the group has forgotten it, and franz-go joins as a new member
//	it commits the batch
//
// By then the partition may be another's, who has gone further. The commit must not be sent, and what was polled
// comes again from where the group is.
func TestCommitAfterChangeOfMember(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	config := configFor(cluster, "group", input)
	first := open(t, config)
	plain.Produce(t, texts(input, "one", 1)...)
	if err := first.Commit(t.Context(), pollBatch(t, first)); err != nil {
		t.Fatal(err)
	}

	joining, forget := forgetMember(cluster, "group")
	second := open(t, config)
	go func() { _, _ = second.Poll(t.Context()) }()
	var batch []node.Record
	await(t, "the first member asks to join again", func() bool {
		records, _ := first.Poll(t.Context())
		batch = append(batch, records...)
		select {
		case <-joining:
			return true
		default:
			return false
		}
	})
	plain.Produce(t, texts(input, "two", 1)...)
	batch = append(batch, pollBatch(t, first)...)
	if len(batch) != 1 || string(batch[0].Value) != "two-0" {
		t.Fatalf("polled %q, want two-0", values(batch))
	}
	forget()
	for {
		err := first.Tell(t.Context(), batch)
		if err == nil {
			break
		}
		if !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "not answered") {
			t.Fatal(err)
		}
	}
	if got := plain.Committed(t, "group", input)[0]; got != 1 {
		t.Fatalf("committed %d as another member, want what was there: 1", got)
	}
	var again []string
	await(t, "the record comes again", func() bool {
		for _, b := range []*broker{first, second} {
			records, _ := b.Poll(t.Context())
			again = append(again, values(records)...)
		}
		return len(again) > 0
	})
	if again[0] != "two-0" {
		t.Fatalf("polled %q, want two-0 again", again)
	}
}

// As above, but nothing is in hand, and the second member has had the partition for a while. franz-go would go on from
// where it was in memory; it is to begin where the group is.
func TestPollAfterChangeOfMember(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	config := configFor(cluster, "group", input)
	log := new(memoryLog)
	config.Logger = slog.New(log)
	first := open(t, config)
	config.Logger = nil
	plain.Produce(t, texts(input, "one", 1)...)
	if err := first.Commit(t.Context(), pollBatch(t, first)); err != nil {
		t.Fatal(err)
	}
	if records, err := first.Poll(t.Context()); len(records) > 0 || err != nil {
		t.Fatalf("polled %q: %v", values(records), err)
	}
	_, forget := forgetMember(cluster, "group")
	second := open(t, config)
	if _, err := second.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The first member hears of it, and asks to join again, in vain, until its session ends.
	plain.Produce(t, texts(input, "two", 1)...)
	if err := second.Commit(t.Context(), pollBatch(t, second)); err != nil {
		t.Fatal(err)
	}
	if err := second.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	forget()
	await(t, "the first member finds out", func() bool {
		return slices.ContainsFunc(log.all(), func(line string) bool { return strings.Contains(line, "anew") })
	})
	plain.Produce(t, texts(input, "three", 1)...)
	if got := pollValues(t, first, 1); !slices.Equal(got, []string{"three-0"}) {
		t.Fatalf("polled %q, want what the group has not committed: three-0", got)
	}
}

// forgetMember has the group delay the next request of its only member to join again, closing joining when it comes,
// until forget is called, and then say that it does not know the member.
func forgetMember(cluster *kfake.Cluster, group string) (joining <-chan struct{}, forget func()) {
	member := cluster.GroupInfo(group).Members[0].MemberID
	came, forgotten := make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.JoinGroup), func(request kmsg.Request) (kmsg.Response, error, bool) {
		join := request.(*kmsg.JoinGroupRequest)
		if join.MemberID != member {
			cluster.KeepControl()
			return nil, nil, false // somebody else, or the member as a new one
		}
		close(came)
		cluster.SleepControl(func() { <-forgotten })
		response := join.ResponseKind().(*kmsg.JoinGroupResponse)
		response.ErrorCode = kerr.UnknownMemberID.Code
		return response, nil, true
	})
	return came, func() { close(forgotten) }
}

// Close ends a Poll that waits, and everything after it is an error.
func TestClose(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	input := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", input))
	if _, err := b.Poll(t.Context()); err != nil {
		t.Fatal(err)
	}
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for {
			if _, err := b.Poll(context.Background()); err != nil {
				return
			}
		}
	}()
	for range 2 {
		if err := b.Close(t.Context()); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	<-polled
	if _, members := plain.GroupState(t, "group"); members != 0 {
		t.Errorf("the group has %d members after Close", members)
	}
	if _, err := b.Poll(t.Context()); err == nil {
		t.Error("poll after Close succeeds")
	}
	if errs := b.Publish(t.Context(), texts(input, "text", 2)); errs[0] == nil || errs[1] == nil {
		t.Error("publish after Close succeeds")
	}
	if err := b.admin.EnsureTopics(t.Context(), false); err == nil {
		t.Error("a look-up after Close succeeds")
	}
	if err := b.Commit(t.Context(), texts(input, "text", 1)); err != nil {
		t.Errorf("commit after Close, when all partitions are lost: %v", err)
	}
	if err := b.Leave(t.Context()); err != nil {
		t.Errorf("leave after Close: %v", err)
	}
}

// A source asks its group for a session as long as it is told, and sends several heartbeats in each.
func TestSession(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	c := configFor(cluster, "group", plain.Topic(t, 1))
	c.SessionTimeout = 3 * time.Second
	asked := make(chan time.Duration, 100)
	cluster.ControlKey(int16(kmsg.JoinGroup), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		join := request.(*kmsg.JoinGroupRequest)
		asked <- time.Duration(join.SessionTimeoutMillis) * time.Millisecond
		return nil, nil, false
	})
	beats := make(chan time.Time, 1000)
	cluster.ControlKey(int16(kmsg.Heartbeat), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		beats <- time.Now()
		return nil, nil, false
	})
	b := open(t, c)
	go func() {
		for t.Context().Err() == nil {
			_, _ = b.Poll(t.Context()) // what comes does not matter
		}
	}()
	await(t, "two heartbeats", func() bool { return len(beats) > 1 })
	if got := <-asked; got != c.SessionTimeout {
		t.Errorf("it asks for a session of %v, want %v", got, c.SessionTimeout)
	}
	first, second := <-beats, <-beats
	if apart := second.Sub(first); apart > c.SessionTimeout*2/3 {
		t.Errorf("heartbeats are %v apart, and a session is %v", apart, c.SessionTimeout)
	}
}
