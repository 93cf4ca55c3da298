package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"chronos/node"
)

// publishCarefully settles records by a client that sends few at a time: of each topic as many as fit into a batch, and
// when those of a partition are refused, the halves of these, one after the other, until the culprits are alone.
// One that is refused alone is compressed, if that may help, before the next one is sent: what its sender got into a
// topic by compressing it should not fail for being expanded. Otherwise it is rejected. Nobody else uses the clients,
// or a failure would say nothing about the record.
func (s *Sink) publishCarefully(ctx context.Context, pair *slot, p *publication, indexes []int) {
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
		var alone []refusal
		for _, topic := range topics {
			head := queues[topic][0]
			if pair.dense != nil && len(head) == 1 && s.isTooLarge(&p.records[head[0]]) {
				alone = append(alone, refusal{head[0], kerr.MessageTooLarge})
				continue
			}
			group = append(group, head...)
		}
		if ctx.Err() != nil {
			for _, i := range slices.Concat(slices.Concat(slices.Collect(maps.Values(queues))...)...) {
				p.settle(i, p.unfinished(ctx.Err()))
			}
			return
		}
		again, more := s.narrow(p, group, s.produce(ctx, pair.careful, p, group))
		s.publishDensely(ctx, pair.dense, p, append(alone, more...))
		for _, topic := range topics {
			queues[topic] = append(again[topic], queues[topic][1:]...)
			if len(queues[topic]) == 0 {
				delete(queues, topic)
			}
		}
	}
}

// refusal is a record that was refused alone, and why.
type refusal struct {
	index int
	err   error
}

// isTooLarge reports whether a record that was no larger was refused for its size before: it is not sent in vain once
// more, which might take all the time that there is.
func (s *Sink) isTooLarge(r *node.Record) bool {
	least := s.tooLarge.of(r.Topic)
	return least > 0 && wireSize(r) >= least
}

// publishDensely settles records that were refused alone: those that are too large by a client that compresses them,
// if there is one. There is one at most for each partition, so that each is a batch.
func (s *Sink) publishDensely(ctx context.Context, through *producer, p *publication, refusals []refusal) {
	var large []int
	for _, r := range refusals {
		if through != nil && tooLarge(r.err) {
			large = append(large, r.index)
			if record := &p.records[r.index]; !s.isTooLarge(record) {
				s.tooLarge.set(record.Topic, wireSize(record))
			}
			continue
		}
		p.reject(r.index, r.err)
	}
	if len(large) == 0 {
		return
	}
	for n, result := range s.produce(ctx, through, p, large) {
		if judge(result.err) == refused {
			p.reject(large[n], result.err)
		}
	}
}

// reject settles a record that will never be accepted.
func (p *publication) reject(i int, err error) {
	p.settle(i, fmt.Errorf("publish on topic %s: %w: %w", p.records[i].Topic, node.RecordRejected, err))
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

// narrow returns what is to be tried again, for each topic: the halves of what was refused together; and what was
// refused alone.
func (s *Sink) narrow(
	p *publication, indexes []int, results []result,
) (again map[string][][]int, alone []refusal) {
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
	again = make(map[string][][]int)
	for _, t := range order {
		positions := refusals[t]
		if len(positions) == 1 {
			alone = append(alone, refusal{indexes[positions[0]], results[positions[0]].err})
			continue
		}
		group := make([]int, len(positions))
		for n, position := range positions {
			group[n] = indexes[position]
		}
		again[t.topic] = append(again[t.topic], group[:len(group)/2], group[len(group)/2:])
	}
	return again, alone
}
