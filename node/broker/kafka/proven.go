package kafka

import (
	"sync"
	"time"

	"chronos/node"
)

// provenPartitions are those to which this process has appended enough to know that Kafka is fast there. Kafka appends
// to the partitions of a request one after the other, and answers when it has done all of them. What it writes to a
// partition first, to its log and, some KiB later, to two indexes, has the file system find blocks, which waits for
// the disk and can take tens of milliseconds each time:
//
//	Publish gives its client records for 400 partitions of new topics
//	the client sends one request; Kafka appends to the first 100 of them within the time limit
//	Publish returns: nobody knows what became of any record
//	Kafka appends to the other 300
//
// All of them would be published again, and come out twice. So of partitions that are not proven few are given to a
// client at a time, and twice as many when these were done soon, since a partition that only this process does not know
// is as fast as others.
type provenPartitions struct {
	mu    sync.Mutex
	parts map[string]map[int32]int // by topic, how much was appended, up to provenBytes
}

const (
	// firstUnproven is how many partitions that are not proven a Publish begins with.
	firstUnproven = 8

	// provenBytes is how much is appended to a partition before it is proven. A broker with default settings writes to
	// the indexes of a log once for each 4 KiB of it, which are compressed.
	provenBytes = 16 << 10
)

// add takes note that a record was appended to a partition.
func (p *provenPartitions) add(r *node.Record, partition int32) {
	if r.Key == nil {
		partition = unknownPartition // which stands for wherever a client puts records without a key
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.parts == nil {
		p.parts = make(map[string]map[int32]int)
	}
	if p.parts[r.Topic] == nil {
		if len(p.parts) >= mostTopics {
			clear(p.parts)
		}
		p.parts[r.Topic] = make(map[int32]int)
	}
	if sum := p.parts[r.Topic][partition]; sum < provenBytes {
		p.parts[r.Topic][partition] = sum + wireSize(r)
	}
}

// forget takes note that these topics are other ones than they were.
func (p *provenPartitions) forget(topics []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, topic := range topics {
		delete(p.parts, topic)
	}
}

func (p *provenPartitions) includes(name topicPartition) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.parts[name.topic][name.number] >= provenBytes
}

// unit is a partition, or what stands for one while nobody knows how many the topic has: a key.
type unit struct {
	topicPartition

	key string
}

// stages shares out the records of one call of Publish: first those of proven partitions and of few others, and then of
// the others, few partitions at a time. Records of one key are of one unit, and keep their order. What that is, and
// whether it is proven, is decided once for a call: others find out more meanwhile.
//
//	this call    a, of key k, is of a partition that is not proven: it comes later
//	another one  has appended enough to that partition: it is proven
//	this call    b, of key k as well, would come now, before a
//
// Of one partition no more comes next than fits into a batch: where a batch is refused, for its size or for one of its
// records, a later one would overtake what has to be tried again. Records without a key have no order.
type stages struct {
	sink    *Sink
	records []node.Record
	units   map[int]unit // of the records that are not of proven partitions, by their index
	batched map[int]unit // of the records with a key, by their index; empty if all fit into one batch
	most    int          // how many units that are not proven come next
	pace    pace
}

// stages returns how the records at indexes are shared out.
func (s *Sink) stages(p *publication, indexes []int) *stages {
	shared := &stages{sink: s, records: p.records, units: make(map[int]unit), most: firstUnproven}
	total := 0
	for _, i := range indexes {
		total += wireSize(&p.records[i])
	}
	if total > bulkBytes {
		shared.batched = make(map[int]unit)
	}
	decided := make(map[unit]bool)
	counts := make(map[string]int) // of partitions, by topic; 0 for unknown
	for _, i := range indexes {
		r := &p.records[i]
		count, counted := counts[r.Topic]
		if !counted {
			count = s.silent.counts.of(r.Topic)
			counts[r.Topic] = count
		}
		u := unit{topicPartition: topicPartition{r.Topic, unknownPartition}}
		switch {
		case r.Key == nil:
		case count > 0:
			u.topicPartition = s.silent.partitionAmong(r, count)
		default:
			u.key = string(r.Key)
		}
		if shared.batched != nil && r.Key != nil {
			shared.batched[i] = u
		}
		unproven, known := decided[u]
		if !known {
			unproven = u.key != "" || !s.proven.includes(u.topicPartition)
			decided[u] = unproven
		}
		if unproven {
			shared.units[i] = u
		}
	}
	return shared
}

// next parts the records at indexes into those that come next and the others.
func (s *stages) next(indexes []int) (some, rest []int) {
	if len(s.units) == 0 && s.batched == nil {
		return indexes, nil
	}
	units := make(map[unit]bool)
	batches := make(map[unit]int) // bytes
	for _, i := range indexes {
		u, counts := s.units[i]
		if later := counts && !units[u] && len(units) >= s.most; later || !s.fits(batches, i) {
			rest = append(rest, i)
			continue
		}
		if counts {
			units[u] = true
		}
		some = append(some, i)
	}
	return some, rest
}

// fits adds a record to the batch of its unit, and reports whether there was room for it. Where there was not, there
// is none for what comes after it either.
func (s *stages) fits(batches map[unit]int, i int) bool {
	name, batched := s.batched[i]
	if !batched {
		return true
	}
	before := batches[name]
	batches[name] += wireSize(&s.records[i])
	return before == 0 || batches[name] <= bulkBytes
}

// count returns how many units the records at indexes are of that are not proven.
func (s *stages) count(indexes []int) int {
	if len(s.units) == 0 {
		return 0
	}
	units := make(map[unit]bool)
	for _, i := range indexes {
		if u, counts := s.units[i]; counts {
			units[u] = true
		}
	}
	return len(units)
}

// took takes note of how long it took to append to so many units that are not proven. What was refused does not count:
// no disk was asked for that.
func (s *stages) took(unproven int, took time.Duration) {
	if unproven > 0 {
		s.pace.note(unproven, took)
	}
	if unproven >= s.most && took < s.sink.config.PublishTimeout/8 {
		s.most *= 2
	}
}
