package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// maxAttempt is how many records of one call are given to a client at a time.
const maxAttempt = 10_000

// Publish appends records to their topics; see node.Broker. It also returns when ctx is done: what has no result by
// then is given up, and its outcome is unknown.
func (b *Broker) Publish(ctx context.Context, records []node.Record) []error {
	if len(records) == 0 {
		return nil
	}
	limit := time.NewTimer(b.config.PublishTimeout)
	defer limit.Stop()
	p := &publication{
		records:  records,
		results:  make([]error, len(records)),
		settled:  make([]bool, len(records)),
		finished: make(chan struct{}),
	}
	// The clients are told to give up a little early, so that there is time for them to say what became of
	// each record.
	patience := b.config.PublishTimeout - b.config.PublishTimeout/20
	work := func() {
		defer close(p.finished)
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		b.publish(ctx, p)
	}
	if !b.inBackground(work) {
		p.settleRest(fmt.Errorf("publish: %w", errClosed))
		return p.results
	}
	select {
	case <-p.finished:
	case <-limit.C:
		p.settleRest(p.unfinished(fmt.Errorf("no result within %v", b.config.PublishTimeout)))
	case <-ctx.Done():
		p.settleRest(p.unfinished(ctx.Err()))
	}
	return p.results
}

// publication is one call of Publish.
type publication struct {
	records []node.Record

	mu      sync.Mutex
	results []error // belong to the caller once all are settled
	settled []bool
	beat    *pulse // of the client that was used last

	// finished is closed when all records are settled, and the clients are free for the next call: a caller
	// that calls again finds the same ones.
	finished chan struct{}
}

// settle gives a record its result, unless it has one.
func (p *publication) settle(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.settled[i] {
		p.settled[i], p.results[i] = true, err
	}
}

// settleRest gives every record that has no result this one.
func (p *publication) settleRest(err error) {
	for i := range p.records {
		p.settle(i, err)
	}
}

// unfinished returns the result of records that have none by the end, with the trouble that is probably why.
func (p *publication) unfinished(why error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.beat != nil {
		if trouble := p.beat.stopped(0); trouble != nil {
			return fmt.Errorf("publish: outcome unknown: %w (%w)", why, trouble)
		}
	}
	return fmt.Errorf("publish: outcome unknown: %w", why)
}

// record returns what is handed to franz-go, which writes into it: it serves for one try.
func (p *publication) record(i int) *kgo.Record {
	r := &p.records[i]
	record := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
	if len(r.Headers) > 0 {
		record.Headers = make([]kgo.RecordHeader, len(r.Headers))
		for j, h := range r.Headers {
			record.Headers[j] = kgo.RecordHeader{Key: h.Name, Value: h.Value}
		}
	}
	return record
}

// publish settles every record of p, soon after ctx is done at the latest.
func (b *Broker) publish(ctx context.Context, p *publication) {
	s := b.slots.take(ctx)
	if s == nil {
		p.settleRest(p.unfinished(ctx.Err()))
		return
	}
	defer b.slots.give(s)
	for indexes := range slices.Chunk(b.publishable(p), maxAttempt) {
		normal, delicate := p.split(indexes)
		var refused []int
		var bulk sync.WaitGroup
		bulk.Go(func() { refused = b.publishInBulk(ctx, s.bulk, p, normal) })
		b.publishCarefully(ctx, s.careful, p, delicate)
		bulk.Wait()
		b.publishCarefully(ctx, s.careful, p, refused)
	}
}

// publishable returns the records whose topic is not known to be missing, and settles the others.
func (b *Broker) publishable(p *publication) []int {
	indexes := make([]int, 0, len(p.records))
	for i := range p.records {
		topic := p.records[i].Topic
		if topic == "" {
			p.settle(i, fmt.Errorf("publish: no topic is named: %w", node.ErrNoTopic))
		} else if err := b.missing.get(topic); err != nil {
			p.settle(i, err)
		} else {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// split tells records that go in bulk from those that go carefully: what is too large for a bulk batch, and what
// shares its topic and key with such a record, because the order of these is to be kept.
func (p *publication) split(indexes []int) (normal, delicate []int) {
	type topicKey struct{ topic, key string }
	large := make(map[topicKey]bool)
	isLarge := func(i int) bool { return wireSize(&p.records[i]) > bulkBytes }
	for _, i := range indexes {
		if r := &p.records[i]; isLarge(i) && r.Key != nil {
			large[topicKey{r.Topic, string(r.Key)}] = true
		}
	}
	for _, i := range indexes {
		r := &p.records[i]
		if isLarge(i) || len(large) > 0 && r.Key != nil && large[topicKey{r.Topic, string(r.Key)}] {
			delicate = append(delicate, i)
		} else {
			normal = append(normal, i)
		}
	}
	return normal, delicate
}

// wireSize returns an upper bound of the size of a batch that holds r only, before compression.
func wireSize(r *node.Record) int {
	size := 128 + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		size += 16 + len(h.Name) + len(h.Value)
	}
	return size
}

// publishInBulk settles records but for those whose batch was refused, which it returns.
func (b *Broker) publishInBulk(
	ctx context.Context, through *producer, p *publication, indexes []int,
) (refusedIndexes []int) {
	if len(indexes) == 0 {
		return nil
	}
	results := b.produce(ctx, through, p, indexes)
	for n, i := range indexes {
		if judge(results[n].err) == refused {
			refusedIndexes = append(refusedIndexes, i)
		}
	}
	return refusedIndexes
}

// result is what became of a record in one try.
type result struct {
	partition int32
	err       error
}

// errNoResult is the result of a record that a client has not let go of.
var errNoResult = errors.New("no result")

// giveUpAfter is how long a client may keep records after it was told to give them up, before it is taken for broken.
// It can be busy for that long with a handshake on which nothing moves.
const giveUpAfter = dialTimeout + 2*requestOverhead

// produce gives records to a client that nobody else uses meanwhile, and waits until it has let go of them. It settles
// them as it goes, but for those that are refused, which it leaves open.
//
// The client sends nothing before it has all of them in their partitions, because of their order:
//
//	records 1 and 2 have the same key
//	record 1 is sent with others, and all of them are refused because of one of these
//	record 2 comes after that, and is appended
//
// Record 1 would be tried again after record 2.
func (b *Broker) produce(ctx context.Context, through *producer, p *publication, indexes []int) []result {
	results := make([]result, len(indexes))
	client, beat, err := through.get()
	if err != nil {
		for n, i := range indexes {
			results[n].err = err
			p.settle(i, fmt.Errorf("publish: %w", err))
		}
		return results
	}
	p.mu.Lock()
	p.beat = beat
	p.mu.Unlock()
	for n := range results {
		results[n].err = errNoResult
	}
	var mu sync.Mutex // guards results: a client that is broken may report on a record at any time
	together := through.gate.shut(len(indexes))
	for n, i := range indexes {
		client.Produce(ctx, p.record(i), func(r *kgo.Record, err error) {
			if judge(err) != refused {
				p.settle(i, outcome(r.Topic, err, beat))
			}
			mu.Lock()
			results[n] = result{r.Partition, err}
			mu.Unlock()
			through.gate.arrive()
		})
	}
	select {
	case <-together:
	case <-ctx.Done():
	}
	letGo := flush(ctx, client)
	mu.Lock()
	defer mu.Unlock()
	results = slices.Clone(results)
	b.draw(client, through, p, indexes, results, !letGo)
	return results
}

// flush sends what a client has, and reports whether the client has let go of all of it, soon after ctx is done.
func flush(ctx context.Context, client *kgo.Client) bool {
	until := time.Now().Add(giveUpAfter)
	if deadline, limited := ctx.Deadline(); limited {
		until = deadline.Add(giveUpAfter)
	}
	patient, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	defer cancel()
	return client.Flush(patient) == nil
}

// outcome returns the result of Publish for a record on topic that was not refused, of what franz-go says.
func outcome(topic string, err error, beat *pulse) error {
	if err == nil {
		return nil
	}
	if judge(err) == noTopic {
		return fmt.Errorf("publish on topic %s: %w: %w", topic, node.ErrNoTopic, err)
	}
	if trouble := beat.stopped(0); trouble != nil && !errors.Is(err, trouble) {
		return fmt.Errorf("publish on topic %s: outcome unknown: %w (%w)", topic, err, trouble)
	}
	return fmt.Errorf("publish on topic %s: outcome unknown: %w", topic, err)
}

// draw draws the conclusions of results: what has to be done so that later calls go better.
func (b *Broker) draw(
	client *kgo.Client, through *producer, p *publication, indexes []int, results []result, broken bool,
) {
	var forget []string
	for n, i := range indexes {
		err := results[n].err
		topic := p.records[i].Topic
		if errors.Is(err, errNoResult) {
			p.settle(i, p.unfinished(err))
		}
		if (isUnknownTopic(err) || judge(err) == noTopic) && !slices.Contains(forget, topic) {
			forget = append(forget, topic)
			if errors.Is(err, kerr.UnknownTopicOrPartition) &&
				b.missing.add(topic, outcome(topic, err, new(pulse))) {
				b.inBackground(b.watchMissing)
			}
		}
		broken = broken || spoils(err)
	}
	switch {
	case broken:
		// franz-go keeps a refusal to be given a producer id for ever: a permission that was missing for a
		// moment would stop all publishing until the process is restarted.
		through.discard(client)
	case len(forget) > 0:
		// franz-go asks for a topic for ever, and sticks to the identity of one that was deleted and created
		// again, unless it is told to forget it.
		client.PurgeTopicsFromProducing(forget...)
	}
}
