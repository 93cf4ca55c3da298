package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"chronos/node"
)

// publishCarefully settles records by a client that sends few at a time: of each topic as many as fit into a batch, and
// when those of a partition are refused, the halves of these, one after the other, until the culprits are alone.
// One that is refused alone is rejected. Nobody else uses the client, or a failure would say nothing about the
// record.
func (s *Sink) publishCarefully(ctx context.Context, through *producer, p *publication, indexes []int) {
	queues := make(map[string][][]int) // for each topic the groups that are left to send, in order
	for _, i := range indexes {
		topic := p.records[i].Topic
		queues[topic] = append(queues[topic], []int{i})
	}
	for topic, singles := range queues {
		queues[topic] = p.batches(singles)
	}
	for len(queues) > 0 {
		topics := slices.Sorted(maps.Keys(queues))
		var group []int
		for _, topic := range topics {
			group = append(group, queues[topic][0]...)
		}
		if ctx.Err() != nil {
			for _, i := range slices.Concat(slices.Concat(slices.Collect(maps.Values(queues))...)...) {
				p.settle(i, p.unfinished(ctx.Err()))
			}
			return
		}
		again := s.narrow(p, group, s.produce(ctx, through, p, group))
		for _, topic := range topics {
			queues[topic] = append(again[topic], queues[topic][1:]...)
			if len(queues[topic]) == 0 {
				delete(queues, topic)
			}
		}
	}
}

// batches joins groups that fit together into a batch.
func (p *publication) batches(groups [][]int) [][]int {
	var joined [][]int
	size := 0
	for _, group := range groups {
		length := 0
		for _, i := range group {
			length += wireSize(&p.records[i])
		}
		if size += length; len(joined) > 0 && size <= bulkBytes {
			joined[len(joined)-1] = append(joined[len(joined)-1], group...)
		} else {
			joined, size = append(joined, group), length
		}
	}
	return joined
}

// narrow rejects records that were refused alone, and returns what is to be tried again, for each topic: the halves of
// what was refused together.
func (s *Sink) narrow(p *publication, indexes []int, results []result) map[string][][]int {
	type target struct {
		topic     string
		partition int32
	}
	var order []target
	refusals := make(map[target][]int) // positions in indexes
	for n, i := range indexes {
		if judge(results[n].err) != refused {
			continue
		}
		t := target{p.records[i].Topic, results[n].partition}
		if len(refusals[t]) == 0 {
			order = append(order, t)
		}
		refusals[t] = append(refusals[t], n)
	}
	again := make(map[string][][]int)
	for _, t := range order {
		positions := refusals[t]
		if len(positions) == 1 {
			i, err := indexes[positions[0]], results[positions[0]].err
			p.settle(i, fmt.Errorf("publish on topic %s: %w: %w", t.topic, node.ErrRejected, err))
			continue
		}
		group := make([]int, len(positions))
		for n, position := range positions {
			group[n] = indexes[position]
		}
		again[t.topic] = append(again[t.topic], group[:len(group)/2], group[len(group)/2:])
	}
	return again
}
