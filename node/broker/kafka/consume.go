package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

const (
	// pollWait is how long Poll waits for records.
	pollWait = time.Second

	// commitTimeout bounds one Commit.
	commitTimeout = 5 * time.Second

	// leaveTimeout bounds the leaving of the group. Beyond it, the group is left to find out by itself.
	leaveTimeout = 2 * time.Second
)

// Poll returns the next records; see node.Broker. It waits for a second at most, and returns an error if consuming
// fails and nothing came in that time.
func (b *Broker) Poll(ctx context.Context) ([]node.Record, error) {
	b.turn.Lock()
	defer b.turn.Unlock()
	waiting, cancel := context.WithTimeout(ctx, pollWait)
	defer cancel()
	if !b.interruptible(cancel) {
		return nil, fmt.Errorf("poll: %w", errClosed)
	}
	if b.consumer == nil {
		c, err := newConsumer(b)
		if err != nil {
			return nil, fmt.Errorf("poll: join group %s: %w", b.config.Group, err)
		}
		b.consumer = c
	}
	polled, err := b.consumer.poll(waiting, b.config.MaxPollRecords)
	if b.consumer.fouled.Load() {
		// What it returned is not ours to deal with, or not any more. The next consumer begins where the
		// group is.
		b.log.LogAttrs(ctx, slog.LevelDebug, "starting over as a new member of the group")
		_ = b.leave(ctx)
		return nil, nil
	}
	switch {
	case len(polled) > 0:
		return polled, nil
	case err != nil && ctx.Err() == nil:
		return nil, fmt.Errorf("poll: %w", err)
	default:
		return nil, nil
	}
}

// Commit stores the offsets after records; see node.Broker. It is over within five seconds. While the group rebalances,
// a commit has to wait for the slowest member: it may fail for that long, and can be repeated.
func (b *Broker) Commit(ctx context.Context, records []node.Record) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	if b.consumer == nil || len(records) == 0 {
		return nil // all partitions were given up
	}
	ctx, cancel := context.WithTimeout(ctx, commitTimeout)
	defer cancel()
	if err := b.consumer.commit(ctx, offsetsAfter(records)); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// Leave leaves the group; see node.Broker. After two seconds it leaves without the consent of the group, which gives
// the partitions to others once the session has timed out; the error says so.
func (b *Broker) Leave(ctx context.Context) error {
	b.turn.Lock()
	defer b.turn.Unlock()
	return b.leave(ctx)
}

func (b *Broker) leave(ctx context.Context) error {
	if b.consumer == nil {
		return nil
	}
	c := b.consumer
	b.consumer = nil
	if err := c.leave(ctx); err != nil {
		return fmt.Errorf("leave group %s: %w", b.config.Group, err)
	}
	return nil
}

// offsetsAfter returns the offsets to commit for records, the next one after the highest of each partition.
func offsetsAfter(records []node.Record) map[string]map[int32]kgo.EpochOffset {
	offsets := make(map[string]map[int32]kgo.EpochOffset)
	for i := range records {
		r := &records[i]
		partitions := offsets[r.Topic]
		if partitions == nil {
			partitions = make(map[int32]kgo.EpochOffset)
			offsets[r.Topic] = partitions
		}
		if next := r.Offset + 1; next > partitions[r.Partition].Offset {
			partitions[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: next}
		}
	}
	return offsets
}
