package brokertest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"chronos/node"
)

// Positions is what a store keeps for a consumer group: how far its partitions were taken in.
type Positions struct {
	mu     sync.Mutex
	places map[node.Partition]node.Position
}

// Get returns the position of a partition; it creates the one that is given if there is none.
func (p *Positions) Get(partition node.Partition, first node.Position) node.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places == nil {
		p.places = make(map[node.Partition]node.Position)
	}
	if _, known := p.places[partition]; !known {
		p.places[partition] = first
	}
	return p.places[partition]
}

// Set sets the position of a partition, whatever it was.
func (p *Positions) Set(place node.Place) {
	p.Get(place.Partition, place.Position)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.places[place.Partition] = place.Position
}

// Take moves the position of a partition behind a record, unless it was taken in before.
func (p *Positions) Take(partition node.Partition, r *node.Record) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.places[partition].Takes(r.LeaderEpoch, r.Offset) {
		p.places[partition] = node.Position{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	}
}

// Reader reads a source as a node does: it starts partitions that are assigned at their positions. Poll returns the
// records only, except those of control, and keeps the events of all polls.
type Reader struct {
	node.Source

	positions *Positions
	owned     map[topicPartition]node.Partition

	// Events are batches without their records, and without those batches that hold nothing else.
	Events []node.Batch

	// Controls is how many records of control have come.
	Controls int
}

type topicPartition struct {
	topic  string
	number int32
}

// NewReader returns a reader of a source.
func NewReader(source node.Source, positions *Positions) *Reader {
	return &Reader{Source: source, positions: positions, owned: make(map[topicPartition]node.Partition)}
}

// Poll polls once, deals with the events, and returns the records.
func (r *Reader) Poll(ctx context.Context) ([]node.Record, error) {
	batch, err := r.Source.Poll(ctx)
	if err != nil {
		return nil, err
	}
	records := batch.Records
	batch.Records = nil
	if len(batch.Revoked)+len(batch.Assigned)+len(batch.Moved)+len(batch.Lost) > 0 {
		r.Events = append(r.Events, batch)
	}
	for _, p := range batch.Revoked {
		if _, owned := r.owned[topicPartition{p.Topic, p.Number}]; !owned {
			return nil, fmt.Errorf("%v was revoked and is not ours", p)
		}
		delete(r.owned, topicPartition{p.Topic, p.Number})
	}
	var places []node.Place
	for _, a := range batch.Assigned {
		if _, owned := r.owned[topicPartition{a.Topic, a.Number}]; owned {
			return nil, fmt.Errorf("%v was assigned and is ours", a.Partition)
		}
		r.owned[topicPartition{a.Topic, a.Number}] = a.Partition
		position := r.positions.Get(a.Partition, node.Position{Epoch: node.UnknownEpoch, Offset: a.First})
		places = append(places, node.Place{Partition: a.Partition, Position: position})
	}
	if len(places) > 0 {
		if err := r.Start(ctx, places); err != nil {
			return nil, err
		}
	}
	for _, record := range records {
		if _, owned := r.owned[topicPartition{record.Topic, record.Partition}]; !owned {
			return nil, fmt.Errorf("%s came and its partition is not ours", position(record))
		}
	}
	return slices.DeleteFunc(records, func(record node.Record) bool {
		if record.Control {
			r.Controls++
		}
		return record.Control
	}), nil
}

// Commit takes records in, and tells the group.
func (r *Reader) Commit(ctx context.Context, records []node.Record) error {
	for i := range records {
		if partition, owned := r.owned[topicPartition{records[i].Topic, records[i].Partition}]; owned {
			r.positions.Take(partition, &records[i])
		}
	}
	return r.Tell(ctx, records)
}

// Tell tells the group that records were taken in.
func (r *Reader) Tell(ctx context.Context, records []node.Record) error {
	ends := make(map[node.Partition]node.Position)
	for i := range records {
		partition, owned := r.owned[topicPartition{records[i].Topic, records[i].Partition}]
		if end := records[i].Offset + 1; owned && end > ends[partition].Offset {
			ends[partition] = node.Position{Epoch: records[i].LeaderEpoch, Offset: end}
		}
	}
	var places []node.Place
	for partition, position := range ends {
		places = append(places, node.Place{Partition: partition, Position: position})
	}
	return r.Source.Commit(ctx, places)
}

// Leave leaves the group. All partitions are given up.
func (r *Reader) Leave(ctx context.Context) error {
	clear(r.owned)
	return r.Source.Leave(ctx)
}

// Owned returns the partitions that are started, in no order.
func (r *Reader) Owned() []node.Partition {
	var list []node.Partition
	for _, p := range r.owned {
		list = append(list, p)
	}
	return list
}
