package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// commits sends offsets to the group, one request at a time, and keeps what comes meanwhile for the next.
type commits struct {
	send func(context.Context, map[topicPartition]node.Place) error

	mu      sync.Mutex
	next    *commit // what is not sent yet; nil if there is nothing
	sent    *commit // the last one that was sent and whose outcome nobody was told; nil if there is none
	running bool
	since   time.Time // when the request that is under way was sent, or answered
	worker  sync.WaitGroup
}

// commit is one request.
type commit struct {
	places map[topicPartition]node.Place
	done   chan struct{}
	err    error // once done is closed
}

// errCommitPending says that it is not known yet what became of a commit.
var errCommitPending = errors.New("the group has not answered yet")

// commit has places sent, and waits for a moment for the answer; not if the group is silent for longer already. Who was
// told that there is no answer yet asks again. If the same places are on their way, or were answered meanwhile, they
// are not sent once more; otherwise a group that always takes longer than that would get them forever:
//
//	commit 7       sent; no answer within commitWait: pending
//	commit 7       waits behind it
//	               the answer to the first; the second is sent; no answer within commitWait: pending
//	commit 7       waits behind it; ...
func (c *commits) commit(ctx context.Context, places []node.Place) error {
	c.mu.Lock()
	mine := c.sent
	if c.next != nil || mine == nil || !mine.has(places) {
		mine = c.add(places)
	}
	silent := c.running && time.Since(c.since) > commitWait
	if c.next != nil && !c.running {
		c.running = true
		c.since = time.Now()
		c.worker.Go(c.run)
	}
	c.mu.Unlock()
	if silent && !mine.answered() {
		return errCommitPending
	}
	timer := time.NewTimer(commitWait)
	defer timer.Stop()
	select {
	case <-mine.done:
		c.told(mine)
		return mine.err
	case <-timer.C:
		return errCommitPending
	case <-ctx.Done():
		return ctx.Err()
	}
}

// add has places sent with the next request, and returns that. The caller holds mu.
func (c *commits) add(places []node.Place) *commit {
	if c.next == nil {
		c.next = &commit{places: make(map[topicPartition]node.Place), done: make(chan struct{})}
	}
	for _, place := range places {
		c.next.places[topicPartition{place.Topic, place.Number}] = place
	}
	return c.next
}

// told notes that somebody knows what has become of a request. Whoever asks for the same after that means it.
func (c *commits) told(one *commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent == one {
		c.sent = nil
	}
}

// renew has all places sent that are asked for from now on: somebody else may have the partitions meanwhile, and commit
// something else.
func (c *commits) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = nil
}

// has reports whether a request is for all of these places.
func (c *commit) has(places []node.Place) bool {
	for _, place := range places {
		if sent, some := c.places[topicPartition{place.Topic, place.Number}]; !some || sent != place {
			return false
		}
	}
	return true
}

// answered reports whether it is known what has become of it.
func (c *commit) answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// run sends until there is nothing to send.
func (c *commits) run() {
	for {
		c.mu.Lock()
		current := c.next
		if c.next = nil; current == nil {
			c.running = false
			c.mu.Unlock()
			return
		}
		c.sent, c.since = current, time.Now()
		c.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.Background(), commitTimeout)
		current.err = c.send(ctx, current.places)
		cancel()
		c.mu.Lock()
		c.since = time.Now() // what comes now does not wait behind a group that is silent
		c.mu.Unlock()
		close(current.done)
	}
}

// wait returns when nothing is under way any more, which needs the client to be closed before.
func (c *commits) wait() { c.worker.Wait() }

// keptMetadata begins what goes with each commit: whoever made it keeps positions in a store. A store that is set back
// to before it had positions must not begin where such a commit is, which says how far another state of it had come:
//
//	the store adopts 100, which an older version has committed; nodes go on, and commit 900
//	the store is set back to before the adoption, and adopts again: 900, and what came in between is lost
//
// The id of the topic follows. The group knows topics by their names, and so can have a commit of a topic that was
// deleted: brokers before Kafka 4.1 take one that is on its way when the topic is created again, and one that is away
// while a topic is deleted keeps what it has of it. Of the topic that has the name now it says nothing:
//
//	nodes commit 900; the topic is deleted, and created again; 1,000 records come
//	a node is assigned the partition: the store has no position of this topic, and 900 is committed
//
// That would be a store that was set back, if the 900 were of this topic. Commits of earlier builds do not say of which
// topic they are, and count as being of the one that is there.
const (
	keptMetadata  = "chronos: the position is in the store"
	topicMetadata = ", of topic "
)

// metadataOf returns what goes with a commit on a partition of that topic.
func metadataOf(topic uuid.UUID) string { return keptMetadata + topicMetadata + topic.String() }

// origin returns what the metadata of a commit says: whether whoever has made it keeps positions in a store, and of
// which topic it is; uuid.Nil if it does not say.
func origin(metadata string) (kept bool, topic uuid.UUID) {
	rest, kept := strings.CutPrefix(metadata, keptMetadata)
	if id, said := strings.CutPrefix(rest, topicMetadata); kept && said {
		topic, _ = uuid.Parse(id) // or it says nothing
	}
	return kept, topic
}

// isOfAnother reports whether a commit is known to be of another topic than that of this id.
func isOfAnother(origin, topic uuid.UUID) bool { return origin != uuid.Nil && origin != topic }

// errLost says that a commit was not sent, because the partitions belong to others.
var errLost = errors.New("the group has given this member up")

// commit stores offsets for the partitions that are still ours.
func (m *member) commit(ctx context.Context, places map[topicPartition]node.Place) error {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	ids := make(map[topicPartition]uuid.UUID)
	m.mu.Lock()
	for name, place := range places {
		if p := m.parts[name]; p == nil || p.assigned.Partition != place.Partition {
			continue
		}
		if offsets[name.topic] == nil {
			offsets[name.topic] = make(map[int32]kgo.EpochOffset)
		}
		offsets[name.topic][name.number] = kgo.EpochOffset{Epoch: place.Epoch, Offset: place.Offset}
		ids[name] = place.TopicID
	}
	m.mu.Unlock()
	if len(offsets) == 0 || m.fouled.Load() {
		return nil
	}
	// The member id can change until the very moment at which the request is put together:
	//
	//	the group gives us up; B takes our partition and commits 100
	//	franz-go finds out, and joins again with a new member id
	//	we commit 50, of a batch polled before
	//
	// Kafka checks the member and its generation, not whose partition it is: B's commit would be undone. That does no
	// harm to intake, but those who look at the lag would be told something wrong until B's next commit.
	ctx = kgo.PreCommitFnContext(ctx, func(request *kmsg.OffsetCommitRequest) error {
		if m.fouled.Load() || request.MemberID != m.currentID() {
			return errLost
		}
		for i := range request.Topics {
			topic := &request.Topics[i]
			for j := range topic.Partitions {
				p := &topic.Partitions[j]
				p.Metadata = new(metadataOf(ids[topicPartition{topic.Topic, p.Partition}]))
			}
		}
		return nil
	})
	var failed error
	m.client.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, request *kmsg.OffsetCommitRequest, response *kmsg.OffsetCommitResponse, err error,
	) {
		if err == nil {
			err = commitError(request, response)
		} else if trouble := m.pulse.stopped(0); trouble != nil {
			err = fmt.Errorf("%w (%w)", err, trouble)
		}
		failed = err
	})
	if !isEvicted(failed) {
		return failed
	}
	m.foul("the group refused a commit")
	return nil
}

// currentID returns the member id that our partitions belong to.
func (m *member) currentID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.id
}

// commitError returns the first error in the answer to a commit. Those that say that the topic is not known come last,
// because the others are worth a retry.
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
