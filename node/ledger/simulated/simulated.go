// Package simulated is a Kafka cluster in memory as far as a ledger needs one: topics with partitions, producers with
// epochs, transactions with markers, readers that see what was committed and nothing behind the first transaction that
// is open, leaders that lose the end of a log, and compaction.
//
// Nothing in it is left to chance, and nothing in it waits. What goes wrong is what Strike says, at each step of each
// call: so a test puts the end of one writer between any two steps of another.
package simulated

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// Cluster is a Kafka cluster. It is safe for concurrent use.
type Cluster struct {
	mu        sync.Mutex
	topics    map[string]*topic
	births    byte
	producers map[string]*producer // by transactional id
	strike    func(Step) Fault
	watch     func(Committed) // called under mu
}

// Step is a point in a call to a ledger at which something can go wrong.
type Step struct {
	At     At
	Topic  string // of the ledger
	Number int32
}

// At names a step.
type At int

// The steps of Own, Commit and Read, in their order, and one of Commit when something has gone wrong.
const (
	// Owning is when Own asks for the partition.
	Owning At = iota

	// Appending is when a transaction is appended, and nothing of it is there yet.
	Appending

	// Ending is when all of a transaction is appended, and it is about to be committed.
	Ending

	// Reading is when Read begins.
	Reading

	// Aborting is when a transaction that was appended is about to be aborted.
	Aborting
)

// Fault is what goes wrong at a step.
type Fault int

// The faults.
const (
	// None: nothing.
	None Fault = iota

	// Lost: the request does not arrive.
	Lost

	// Unanswered: the request takes effect, and nobody is told.
	Unanswered
)

// errSilent is what a client says that was not answered.
var errSilent = errors.New("no broker answers")

type topic struct {
	id         uuid.UUID
	partitions []*partition
	limit      int // of a record; 0 for none
	turn       int
}

// partition is a log.
type partition struct {
	mute  bool // see Silence
	epoch int32
	base  int64 // the offset of the first record there was after the last DeleteRecords
	next  int64
	log   []stored // in order; compaction leaves gaps
}

// stored is a record in a log: an application's, or the marker that ends a transaction.
type stored struct {
	node.Record

	producer *producer // nil for none
	session  int       // of the producer
	marker   bool
	commits  bool // of a marker
}

// producer is a transactional id.
type producer struct {
	session int // which writer it is, as the producer's epoch
	number  int // of the transaction
	open    []*partition
	written []node.Record // by the transaction that is open
}

// New returns a cluster without topics.
func New() *Cluster {
	return &Cluster{topics: map[string]*topic{}, producers: map[string]*producer{}}
}

// Strike has hit be asked at each step what goes wrong there; nil for nothing. It may call the cluster.
func (c *Cluster) Strike(hit func(Step) Fault) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.strike = hit
}

// CreateTopic makes a topic, anew if there is one of that name. limit is the size of the largest record that it takes;
// 0 for any.
func (c *Cluster) CreateTopic(name string, partitions, limit int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.births++
	t := &topic{id: uuid.UUID{0: c.births, 6: 0x40, 8: 0x80}, limit: limit}
	for range partitions {
		t.partitions = append(t.partitions, &partition{})
	}
	c.topics[name] = t
}

// DeleteTopic removes a topic.
func (c *Cluster) DeleteTopic(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.topics, name)
}

// Records returns what a consumer sees of a topic: of all its partitions, one after the other. Those who read
// uncommitted see what was aborted, too.
func (c *Cluster) Records(name string, committed bool) []node.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	var records []node.Record
	for _, p := range c.topics[name].partitions {
		for _, r := range p.visible(committed) {
			records = append(records, r.Record)
		}
	}
	return records
}

// Append appends a record to a partition, outside of transactions, as any producer may. It returns its offset.
func (c *Cluster) Append(name string, number int32, r node.Record) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.Topic, r.Partition = name, number
	return c.topics[name].partitions[number].add(stored{Record: r})
}

// ChangeLeader gives a partition another leader, which lacks the last records: an unclean election.
func (c *Cluster) ChangeLeader(name string, number int32, lacks int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.topics[name].partitions[number]
	p.epoch++
	p.next = max(p.base, p.next-lacks)
	p.log = slices.DeleteFunc(p.log, func(r stored) bool { return r.Offset >= p.next })
}

// DeleteRecords removes the records of a partition before an offset, as retention does.
func (c *Cluster) DeleteRecords(name string, number int32, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.topics[name].partitions[number]
	p.base = min(max(p.base, before), p.next)
	p.log = slices.DeleteFunc(p.log, func(r stored) bool { return r.Offset < p.base })
}

// Compact keeps of each key the last record that was committed, of what lies below the first open transaction. With
// tombstones, those of the keys that end with one go as well, as they do when delete.retention.ms has passed.
func (c *Cluster) Compact(name string, number int32, tombstones bool) {
	before := int64(0)
	if tombstones {
		before = math.MaxInt64
	}
	c.CompactOld(name, number, before)
}

// CompactOld is the same where delete.retention.ms has passed for the tombstones that stand before an offset.
func (c *Cluster) CompactOld(name string, number int32, before int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.topics[name].partitions[number]
	last := map[string]int64{}
	for _, r := range p.visible(true) {
		last[string(r.Key)] = r.Offset
	}
	committed := p.visible(true)
	stable := p.stable()
	p.log = slices.DeleteFunc(p.log, func(r stored) bool {
		if r.marker || r.Offset >= stable {
			return false
		}
		_, visible := slices.BinarySearchFunc(committed, r.Offset, func(s stored, offset int64) int {
			return int(s.Offset - offset)
		})
		return !visible || last[string(r.Key)] != r.Offset || r.Value == nil && r.Offset < before
	})
}

// stable is the offset of the first record of the first open transaction, or the end of the log.
func (p *partition) stable() int64 {
	var open []int64
	ended := map[*producer]int64{} // the last marker of each
	for _, r := range p.log {
		if r.marker {
			ended[r.producer] = r.Offset
		}
	}
	for _, r := range p.log {
		if at, some := ended[r.producer]; r.producer != nil && !r.marker && (!some || r.Offset > at) {
			open = append(open, r.Offset)
		}
	}
	if len(open) > 0 {
		return slices.Min(open)
	}
	return p.next
}

// visible returns the records that a consumer sees.
func (p *partition) visible(committed bool) []stored {
	stable := p.stable()
	var records []stored
	for i, r := range p.log {
		if r.marker || committed && (r.Offset >= stable || !p.commits(i)) {
			continue
		}
		records = append(records, r)
	}
	return records
}

// commits reports whether the transaction of a record was committed.
func (p *partition) commits(i int) bool {
	r := p.log[i]
	if r.producer == nil {
		return true
	}
	for _, later := range p.log[i+1:] {
		if later.marker && later.producer == r.producer {
			return later.commits
		}
	}
	return false
}

// add appends a record.
func (p *partition) add(r stored) int64 {
	r.Offset, r.LeaderEpoch = p.next, p.epoch
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	p.log = append(p.log, r)
	p.next++
	return r.Offset
}

// append adds a record of a transaction.
func (x *producer) append(p *partition, r node.Record) int64 {
	if !slices.Contains(x.open, p) {
		x.open = append(x.open, p)
	}
	offset := p.add(stored{Record: r, producer: x, session: x.session})
	x.written = append(x.written, p.log[len(p.log)-1].Record)
	return offset
}

// end ends the transaction that is open, by a marker in each partition, and returns what it has written.
func (x *producer) end(commits bool) []node.Record {
	for _, p := range x.open {
		p.add(stored{producer: x, session: x.session, marker: true, commits: commits})
	}
	written := x.written
	x.open, x.written = nil, nil
	x.number++
	return written
}

// choose returns the partition for a key: any rule does that always says the same.
func (t *topic) choose(key []byte) (*partition, int32) {
	number := t.turn % len(t.partitions)
	if key == nil {
		t.turn++
	} else {
		var sum uint32
		for _, b := range key {
			sum = sum*31 + uint32(b)
		}
		number = int(sum % uint32(len(t.partitions)))
	}
	return t.partitions[number], int32(number)
}

// hit asks what goes wrong at a step.
func (c *Cluster) hit(step Step) Fault {
	c.mu.Lock()
	strike := c.strike
	c.mu.Unlock()
	if strike == nil {
		return None
	}
	return strike(step)
}

// Ledger returns the ledger on a topic, for one node. The ledgers of all nodes with one name fence each other.
func (c *Cluster) Ledger(topicName, name string) *Ledger { return &Ledger{c, topicName, name} }

// Ledger is a ledger.Ledger.
type Ledger struct {
	cluster     *Cluster
	topic, name string
}

var _ ledger.Ledger = (*Ledger)(nil)

// Own implements ledger.Ledger.
func (l *Ledger) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	fault := l.cluster.hit(Step{Owning, l.topic, number})
	if fault == Lost {
		return nil, fmt.Errorf("own partition %d: %w", number, errSilent)
	}
	w, err := l.own(number)
	if err != nil {
		return nil, err
	}
	if fault == Unanswered {
		return nil, fmt.Errorf("own partition %d: %w", number, errSilent)
	}
	end, err := w.Commit(ctx, ledger.Transaction{Entries: []ledger.Entry{fence}})
	if err != nil {
		return nil, fmt.Errorf("own partition %d: %w", number, err)
	}
	w.fence = end - 1
	return w, nil
}

// own begins another session of the producer of a partition.
func (l *Ledger) own(number int32) (*writer, error) {
	c := l.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.topics[l.topic]
	if t == nil || int(number) >= len(t.partitions) {
		return nil, fmt.Errorf("own partition %d of %s: there is none", number, l.topic)
	}
	id := string(binary.BigEndian.AppendUint32([]byte(l.name+"/"), uint32(number)))
	x := c.producers[id]
	if x == nil {
		x = &producer{}
		c.producers[id] = x
	}
	x.end(false)
	x.session++
	return &writer{ledger: l, number: number, topic: t, producer: x, session: x.session}, nil
}

// Begin implements ledger.Ledger.
func (l *Ledger) Begin(ctx context.Context, number int32) (ledger.Place, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	t := l.cluster.topics[l.topic]
	if t == nil || int(number) >= len(t.partitions) {
		return ledger.Place{}, fmt.Errorf("look at partition %d of %s: there is none", number, l.topic)
	}
	return ledger.Place{
		TopicID: t.id, Number: number,
		Position: node.Position{Epoch: node.UnknownEpoch, Offset: t.partitions[number].base},
	}, ctx.Err()
}

// Extents implements ledger.Ledger.
func (l *Ledger) Extents(ctx context.Context) ([]node.Extent, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	t := l.cluster.topics[l.topic]
	if t == nil {
		return nil, fmt.Errorf("look at %s: there is no such topic", l.topic)
	}
	var extents []node.Extent
	for number, p := range t.partitions {
		extents = append(extents, node.Extent{
			Partition: node.Partition{Topic: l.topic, TopicID: t.id, Number: int32(number)},
			First:     p.base, End: p.stable(),
		})
	}
	return extents, ctx.Err()
}

// End implements ledger.Ledger.
func (l *Ledger) End(ctx context.Context, number int32) (ledger.Place, error) {
	place, err := l.Begin(ctx, number)
	if err != nil {
		return ledger.Place{}, err
	}
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	place.Offset = l.cluster.topics[l.topic].partitions[number].stable()
	return place, nil
}

// Read implements ledger.Ledger.
func (l *Ledger) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	if l.cluster.hit(Step{Reading, l.topic, from.Number}) != None {
		return fmt.Errorf("read partition %d: %w", from.Number, errSilent)
	}
	entries, err := l.read(from, until)
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := each(e); err != nil {
			return err
		}
	}
	return err
}

func (l *Ledger) read(from ledger.Place, until int64) ([]ledger.Committed, error) {
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	t := l.cluster.topics[l.topic]
	if t == nil || t.id != from.TopicID {
		return nil, fmt.Errorf("read partition %d: %w: the topic is another one", from.Number, ledger.ErrTruncated)
	}
	p := t.partitions[from.Number]
	if from.Offset < p.base || from.Offset > p.ends(from.Epoch) {
		return nil, fmt.Errorf("read partition %d from offset %d: %w", from.Number, from.Offset, ledger.ErrTruncated)
	}
	var entries []ledger.Committed
	for _, r := range p.visible(true) {
		if r.Offset >= from.Offset && r.Offset < until {
			entries = append(entries, ledger.Committed{
				Entry: ledger.Entry{Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)},
				Epoch: r.LeaderEpoch, Offset: r.Offset,
			})
		}
	}
	if p.stable() < min(until, p.next) || p.next < until {
		return entries, fmt.Errorf("read partition %d up to %d: the log ends before that", from.Number, until)
	}
	return entries, nil
}

// ends returns where the records of an epoch, and of those before it, end.
func (p *partition) ends(epoch int32) int64 {
	if epoch != node.UnknownEpoch {
		for _, r := range p.log {
			if r.LeaderEpoch > epoch {
				return r.Offset
			}
		}
	}
	return p.next
}

// writer is a ledger.Writer.
type writer struct {
	ledger   *Ledger
	number   int32
	topic    *topic
	producer *producer
	session  int
	fence    int64
	spent    bool
}

var _ ledger.Writer = (*writer)(nil)

// Fence implements ledger.Writer.
func (w *writer) Fence() int64 { return w.fence }

// Close implements ledger.Writer.
func (w *writer) Close() {}

// Commit implements ledger.Writer.
func (w *writer) Commit(ctx context.Context, transaction ledger.Transaction) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("commit: %w: %w", ledger.ErrAborted, err)
	}
	c := w.ledger.cluster
	appending := c.hit(Step{Appending, w.ledger.topic, w.number})
	if appending == Lost {
		return 0, fmt.Errorf("append: %w: %w", ledger.ErrAborted, errSilent)
	}
	end, err := w.append(&transaction)
	if err != nil {
		return 0, err
	}
	if appending == Unanswered {
		return 0, w.abort(errSilent)
	}
	ending := c.hit(Step{Ending, w.ledger.topic, w.number})
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case ending == Lost:
		w.spent = true
		return 0, fmt.Errorf("commit: %w", errSilent)
	case w.fenced():
		return 0, fmt.Errorf("commit: %w", ledger.ErrFenced)
	}
	c.tell(w.ledger, w.number, w.producer.end(true))
	if ending == Unanswered {
		w.spent = true
		return 0, fmt.Errorf("commit: %w", errSilent)
	}
	return end, nil
}

// append appends all of a transaction.
func (w *writer) append(transaction *ledger.Transaction) (end int64, err error) {
	c := w.ledger.cluster
	c.mu.Lock()
	defer c.mu.Unlock()
	if w.fenced() {
		return 0, fmt.Errorf("append: %w: %w", ledger.ErrFenced, ledger.ErrAborted)
	}
	refusals := &ledger.RefusedError{Errs: make([]error, len(transaction.Outputs))}
	refused := false
	for i := range transaction.Outputs {
		refusals.Errs[i] = c.refusal(&transaction.Outputs[i])
		refused = refused || refusals.Errs[i] != nil
	}
	if refused {
		return 0, fmt.Errorf("append: %w: %w", ledger.ErrAborted, refusals)
	}
	if err := c.unanswered(transaction.Outputs); err != nil {
		return 0, err
	}
	p := w.topic.partitions[w.number]
	for _, e := range transaction.Entries {
		end = w.producer.append(p, node.Record{
			Topic: w.ledger.topic, Partition: w.number, Key: e.Key, Value: e.Value,
		}) + 1
	}
	for _, r := range transaction.Outputs {
		to, number := c.topics[r.Topic].choose(r.Key)
		r.Partition = number
		w.producer.append(to, r)
	}
	return end, nil
}

// refusal says why a topic does not take a record.
func (c *Cluster) refusal(r *node.Record) error {
	t := c.topics[r.Topic]
	size := len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += len(h.Name) + len(h.Value)
	}
	switch {
	case t == nil:
		return fmt.Errorf("%w: %s", node.TopicMissing, r.Topic)
	case t.limit > 0 && size > t.limit:
		return fmt.Errorf("%w: %d bytes", node.RecordRejected, size)
	}
	return nil
}

// abort aborts what was appended.
func (w *writer) abort(cause error) error {
	if w.ledger.cluster.hit(Step{Aborting, w.ledger.topic, w.number}) != None {
		w.spent = true
		return fmt.Errorf("abort: %w: %w: %w", ledger.ErrSpent, ledger.ErrAborted, cause)
	}
	w.ledger.cluster.mu.Lock()
	defer w.ledger.cluster.mu.Unlock()
	if w.fenced() {
		return fmt.Errorf("abort: %w: %w: %w", ledger.ErrFenced, ledger.ErrAborted, cause)
	}
	w.producer.end(false)
	return fmt.Errorf("append: %w: %w", ledger.ErrAborted, cause)
}

// fenced reports whether the writer has nothing more to say.
func (w *writer) fenced() bool { return w.spent || w.session != w.producer.session }
