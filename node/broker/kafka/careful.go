package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"chronos/node"
)

// lanes let one publication at a time use the careful client for a topic. Only then does the failure of a single
// record say something about that record.
type lanes struct {
	mu     sync.Mutex
	topics map[string]chan struct{}
}

// enter waits for the lane of topic, and returns a function that leaves it; nil when ctx was done first.
func (l *lanes) enter(ctx context.Context, topic string) (leave func()) {
	l.mu.Lock()
	lane := l.topics[topic]
	if lane == nil {
		if l.topics == nil {
			l.topics = make(map[string]chan struct{})
		}
		lane = make(chan struct{}, 1)
		l.topics[topic] = lane
	}
	l.mu.Unlock()
	select {
	case lane <- struct{}{}:
		return func() { <-lane }
	case <-ctx.Done():
		return nil
	}
}

// publishCarefully settles records one topic at a time, each topic in a goroutine of wg.
func (b *Broker) publishCarefully(ctx context.Context, wg *sync.WaitGroup, p *publication, indexes []int) {
	topics := make(map[string][]int)
	for _, i := range indexes {
		topic := p.records[i].Topic
		topics[topic] = append(topics[topic], i)
	}
	for topic, indexes := range topics {
		wg.Go(func() {
			leave := b.lanes.enter(ctx, topic)
			if leave == nil {
				for _, i := range indexes {
					p.settle(i, notTried(topic, ctx))
				}
				return
			}
			defer leave()
			for len(indexes) > 0 {
				n := p.chunk(indexes)
				b.narrow(ctx, p, indexes[:n])
				indexes = indexes[n:]
			}
		})
	}
}

// chunk returns how many of the first records to send together: what may fit into a batch, and at least one.
func (p *publication) chunk(indexes []int) int {
	size := 0
	for n, i := range indexes {
		size += wireSize(&p.records[i])
		if size > bulkBytes {
			return max(n, 1)
		}
	}
	return len(indexes)
}

// narrow publishes records of one topic in order. Those of a partition that are refused together are tried again in
// halves; one that is refused alone is rejected.
func (b *Broker) narrow(ctx context.Context, p *publication, indexes []int) {
	if ctx.Err() != nil {
		for _, i := range indexes {
			p.settle(i, notTried(p.records[i].Topic, ctx))
		}
		return
	}
	results := b.produce(ctx, b.careful, p, indexes)
	refusals := make(map[int32][]int) // partition to positions in indexes
	for n := range indexes {
		if r := results[n]; judge(r.err) == refused {
			refusals[r.partition] = append(refusals[r.partition], n)
		}
	}
	for _, partition := range slices.Sorted(maps.Keys(refusals)) {
		positions := refusals[partition]
		if len(positions) == 1 {
			i, err := indexes[positions[0]], results[positions[0]].err
			p.settle(i, fmt.Errorf("publish on topic %s: %w: %w", p.records[i].Topic, node.ErrRejected, err))
			continue
		}
		again := make([]int, len(positions))
		for n, position := range positions {
			again[n] = indexes[position]
		}
		b.narrow(ctx, p, again[:len(again)/2])
		b.narrow(ctx, p, again[len(again)/2:])
	}
}

// notTried is the result of a record that there was no time for any more. It may have been tried in bulk before.
func notTried(topic string, ctx context.Context) error {
	return fmt.Errorf("publish on topic %s: outcome unknown: %w", topic, context.Cause(ctx))
}
