package kafka

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

const (
	// pollPause is the least time between two looks while consuming fails: franz-go asks again at once when
	// its error was taken note of.
	pollPause = 100 * time.Millisecond

	// silenceAllowed is how long no broker needs to have answered before Poll says so. It is longer than the
	// pause between two heartbeats of a member without partitions, by default.
	silenceAllowed = 4 * time.Second

	// inputsCheck is how often a member that receives nothing looks whether its input topics exist.
	inputsCheck = 5 * time.Second

	// unknownAllowed is how long a commit may be refused because the topic is unknown before that is believed:
	// a broker that has just started may not know it yet.
	unknownAllowed = 5 * time.Second
)

// consumer is one membership in the group, from joining it to leaving it. Its methods are called one at a time; what
// franz-go calls back is guarded by mu.
type consumer struct {
	client  *kgo.Client
	cancel  context.CancelFunc // ends client at once
	inputs  []string
	log     *slog.Logger
	repeats *repeats
	pulse   *pulse

	// fouled says that this consumer is not to be used any more.
	fouled atomic.Bool

	mu     sync.Mutex
	member string           // the member id that our partitions were assigned to; empty if none are ours
	stuck  map[string]error // partitions that franz-go has given up, and why

	idle         bool      // the last poll returned nothing
	nextCheck    time.Time // when to look for the input topics next
	inputTrouble error     // what came of the last look
	unknownSince time.Time // when a commit was first refused because of an unknown topic
}

// newConsumer makes a client that joins the group as soon as it can, and never stops trying.
func newConsumer(b *Broker) (*consumer, error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{
		cancel:  cancel,
		inputs:  b.config.Inputs,
		log:     b.log,
		repeats: &b.repeats,
		pulse:   new(pulse),
		stuck:   make(map[string]error),
	}
	client, err := kgo.NewClient(append(b.config.consumerOptions(),
		kgo.WithContext(ctx),
		kgo.WithHooks(c.pulse),
		kgo.OnPartitionsAssigned(c.onAssigned),
		kgo.OnPartitionsRevoked(c.onRevoked),
		kgo.OnPartitionsLost(c.onLost),
	)...)
	if err != nil {
		cancel()
		return nil, err
	}
	c.client = client
	return c, nil
}

// poll returns what came before ctx was done, and what went wrong if nothing came. If it returns records, it blocks
// rebalances until it is called again.
func (c *consumer) poll(ctx context.Context, limit int) ([]node.Record, error) {
	if c.idle {
		c.lookForInputs(ctx)
	}
	var problem error
	for {
		c.client.AllowRebalance()
		fetches := c.client.PollRecords(ctx, limit)
		if err := c.examine(fetches); err != nil {
			problem = err
		}
		if c.fouled.Load() {
			return nil, nil
		}
		if fetches.NumRecords() > 0 {
			c.idle = false
			return records(fetches), nil
		}
		// A poll that returned nothing blocks rebalances as well.
		c.client.AllowRebalance()
		if ctx.Err() != nil {
			break
		}
		pause(ctx, pollPause)
	}
	c.idle = true
	if problem != nil {
		return nil, problem
	}
	if err := c.pulse.stopped(silenceAllowed); err != nil {
		return nil, fmt.Errorf("no broker answers: %w", err)
	}
	if err := c.anyStuck(); err != nil {
		return nil, err
	}
	return nil, c.inputTrouble
}

// examine returns what is wrong with consuming, of what came with fetches, and deals with what is not.
func (c *consumer) examine(fetches kgo.Fetches) error {
	var problem error
	fetches.EachError(func(topic string, partition int32, err error) {
		var loss *kgo.ErrDataLoss
		var session *kgo.ErrGroupSession
		var tooLarge *kgo.ErrDecompressTooLarge
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return // the end of the poll
		case errors.As(err, &session) && isEvicted(session.Err):
			return // onLost has said so, and we are joining again
		case errors.As(err, &session):
			problem = fmt.Errorf("join group: %w", session.Err)
			// That no broker answers is not said here: Poll does.
			if refusal := new(kerr.Error); errors.As(err, &refusal) && c.repeats.due("group") {
				c.log.LogAttrs(context.Background(), slog.LevelError, "cannot join the consumer group",
					slog.Any("error", session.Err))
			}
			return
		case errors.As(err, &loss):
			c.log.LogAttrs(context.Background(), slog.LevelError,
				"Kafka has lost records of an input topic, consuming goes on from an earlier offset",
				slog.String("topic", topic), slog.Int("partition", int(partition)),
				slog.Int64("offset", loss.ConsumedTo), slog.Int64("resumed_at", loss.ResetTo))
			return
		case errors.Is(err, kerr.UnknownTopicID):
			c.foul("an input topic was deleted, and perhaps created again")
			return
		case errors.As(err, &tooLarge):
			problem = err
			c.mu.Lock()
			c.stuck[partitionName(topic, partition)] = err
			c.mu.Unlock()
		case kerr.IsRetriable(err):
			return // franz-go is at it
		default:
			problem = fmt.Errorf("fetch topic %s partition %d: %w", topic, partition, err)
		}
		if problem != nil && c.repeats.due("fetch "+partitionName(topic, partition)) {
			c.log.LogAttrs(context.Background(), slog.LevelError, "cannot consume",
				slog.String("topic", topic), slog.Int("partition", int(partition)),
				slog.Any("error", err))
		}
	})
	return problem
}

// lookForInputs sets inputTrouble if it is time to: a topic that does not exist is no error to franz-go, which waits
// for it without a word.
func (c *consumer) lookForInputs(ctx context.Context) {
	if now := time.Now(); now.Before(c.nextCheck) || c.pulse.stopped(0) != nil {
		return
	}
	details, err := kadm.NewClient(c.client).ListTopics(ctx, c.inputs...)
	if err != nil {
		return // pulse says what is wrong
	}
	c.nextCheck = time.Now().Add(inputsCheck)
	c.inputTrouble = nil
	for _, topic := range c.inputs {
		err := details[topic].Err
		switch {
		case errors.Is(err, kerr.UnknownTopicOrPartition):
			err = &MissingTopicsError{[]string{topic}}
		case err == nil, kerr.IsRetriable(err):
			continue
		default:
			err = fmt.Errorf("topic %s: %w", topic, err)
		}
		c.inputTrouble = err
		if c.repeats.due("input " + topic) {
			c.log.LogAttrs(ctx, slog.LevelError, "cannot consume",
				slog.String("topic", topic), slog.Any("error", err))
		}
	}
}

// errLost says that a commit was not sent, because the partitions belong to others.
var errLost = errors.New("the group has given this member up")

// commit stores offsets for the partitions that are still ours.
func (c *consumer) commit(ctx context.Context, offsets map[string]map[int32]kgo.EpochOffset) error {
	// The member id can change until the very moment at which the request is put together:
	//
	//	the group gives us up; B takes our partition and commits 100
	//	franz-go finds out, and joins again with a new member id
	//	we commit 50, of a batch polled before
	//
	// Kafka checks the member and its generation, not whose partition it is: B's commit would be undone.
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		if c.fouled.Load() || request.MemberID != c.currentMember() {
			return errLost
		}
		return nil
	})
	var failed error
	c.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		if err == nil {
			err = commitError(request, response)
		} else if trouble := c.pulse.stopped(0); trouble != nil {
			err = fmt.Errorf("%w (%w)", err, trouble)
		}
		failed = err
	})
	if isUnknownTopic(failed) {
		if c.unknownSince.IsZero() {
			c.unknownSince = time.Now()
		}
		if time.Since(c.unknownSince) < unknownAllowed {
			return failed
		}
	} else {
		c.unknownSince = time.Time{}
		if !isEvicted(failed) {
			return failed
		}
	}
	c.foul("the group refused a commit")
	return nil
}

// commitError returns the first error in the answer to a commit. Those that say that the member or the topic is not
// known are about all partitions of the member or the topic; others come first, because they are worth a retry.
func commitError(request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse) error {
	names := make(map[[16]byte]string, len(request.Topics))
	for _, topic := range request.Topics {
		names[topic.TopicID] = topic.Topic
	}
	var first error
	for _, topic := range response.Topics {
		name := topic.Topic
		if name == "" { // from version 10 on there are ids only
			name = names[topic.TopicID]
		}
		for _, partition := range topic.Partitions {
			err := kerr.ErrorForCode(partition.ErrorCode)
			if err != nil && (first == nil || isUnknownTopic(first)) {
				first = fmt.Errorf("topic %s partition %d: %w", name, partition.Partition, err)
			}
		}
	}
	return first
}

// isUnknownTopic reports whether err says that a topic does not exist, or not any more.
func isUnknownTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID)
}

// isEvicted reports whether err says that the group has given this member up.
func isEvicted(err error) bool {
	for _, e := range []error{
		errLost, kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.FencedInstanceID,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// leave gives all partitions up and ends the client. When the group has not confirmed that in time, it is an error,
// and the client is ended all the same.
func (c *consumer) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	c.client.AllowRebalance()
	err := c.client.LeaveGroupContext(ctx)
	if err != nil {
		c.cancel() // or Close would wait for the requests that are under way
	}
	c.client.Close()
	c.cancel()
	return err
}

// onAssigned is called by franz-go when a session begins, with the partitions that are new in it.
func (c *consumer) onAssigned(ctx context.Context, client *kgo.Client, assigned map[string][]int32) {
	id, _ := client.GroupMetadata()
	c.mu.Lock()
	before := c.member
	c.member = id
	c.mu.Unlock()
	if before != "" && before != id {
		c.foul("the group has taken this node for dead meanwhile")
		return
	}
	if len(assigned) > 0 {
		c.log.LogAttrs(ctx, slog.LevelInfo, "partitions assigned",
			slog.String("partitions", partitionNames(assigned)))
	}
}

// onRevoked is called by franz-go when partitions are given up by arrangement. None of them is in a batch that the
// caller still has: rebalances wait for that.
func (c *consumer) onRevoked(ctx context.Context, _ *kgo.Client, revoked map[string][]int32) {
	c.unstick(revoked)
	if len(revoked) > 0 {
		c.log.LogAttrs(ctx, slog.LevelInfo, "partitions revoked",
			slog.String("partitions", partitionNames(revoked)))
	}
}

// onLost is called by franz-go when the group has given this member up. All its partitions are gone.
func (c *consumer) onLost(ctx context.Context, _ *kgo.Client, lost map[string][]int32) {
	c.unstick(lost)
	c.mu.Lock()
	c.member = ""
	c.mu.Unlock()
	if len(lost) > 0 {
		c.log.LogAttrs(ctx, slog.LevelWarn, "partitions lost: this node has lost touch with its group",
			slog.String("partitions", partitionNames(lost)))
	}
}

// foul has this consumer replaced by a new one at the next Poll.
func (c *consumer) foul(reason string) {
	if !c.fouled.Swap(true) {
		c.log.LogAttrs(context.Background(), slog.LevelWarn,
			"joining the consumer group anew, records since the last commit are delivered again",
			slog.String("reason", reason))
	}
}

// currentMember returns the member id that our partitions belong to.
func (c *consumer) currentMember() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member
}

// anyStuck returns why a partition is stuck, nil if none is.
func (c *consumer) anyStuck() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, err := range c.stuck {
		return err
	}
	return nil
}

// unstick forgets partitions that are not ours any more.
func (c *consumer) unstick(partitions map[string][]int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, numbers := range partitions {
		for _, n := range numbers {
			delete(c.stuck, partitionName(topic, n))
		}
	}
}

// records returns copies of what was fetched, one piece of memory for each record: franz-go hands out slices of a
// whole response, which a single message that waits for its deadline would keep.
func records(fetches kgo.Fetches) []node.Record {
	list := make([]node.Record, 0, fetches.NumRecords())
	fetches.EachRecord(func(r *kgo.Record) {
		size := len(r.Key) + len(r.Value)
		for _, h := range r.Headers {
			size += len(h.Value)
		}
		memory := make([]byte, 0, size)
		keep := func(b []byte) []byte {
			if b == nil {
				return nil // a null; an empty slice is an empty value
			}
			start := len(memory)
			memory = append(memory, b...)
			return memory[start:len(memory):len(memory)]
		}
		record := node.Record{
			Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, LeaderEpoch: r.LeaderEpoch,
			Key: keep(r.Key), Value: keep(r.Value),
		}
		if len(r.Headers) > 0 {
			record.Headers = make([]node.Header, len(r.Headers))
			for i, h := range r.Headers {
				record.Headers[i] = node.Header{Name: h.Key, Value: keep(h.Value)}
			}
		}
		list = append(list, record)
	})
	return list
}

// pause returns after d, or when ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func partitionName(topic string, partition int32) string {
	return fmt.Sprintf("%s/%d", topic, partition)
}

// partitionNames returns the names of partitions in order.
func partitionNames(partitions map[string][]int32) string {
	var names []string
	for topic, numbers := range partitions {
		for _, n := range numbers {
			names = append(names, partitionName(topic, n))
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
