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

// Publish appends records to their topics; see node.Broker. It also returns when ctx is done; what has no result by
// then is still on its way, until the time limit at the latest.
func (b *Broker) Publish(ctx context.Context, records []node.Record) []error {
	if len(records) == 0 {
		return nil
	}
	limit := time.NewTimer(b.config.PublishTimeout)
	defer limit.Stop()
	p := &publication{records: records, finished: make(chan struct{})}
	p.results = make([]error, len(records))
	p.settled = make([]bool, len(records))
	p.open = len(records)
	// The clients are told to give up a little early, so that there is time for them to say what became of
	// each record. They are not told when the caller does: giving up costs the connection that a request is on,
	// and with it the requests of others.
	patience := b.config.PublishTimeout - b.config.PublishTimeout/20
	background, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	if !b.inBackground(func() { defer cancel(); b.publish(background, p) }) {
		cancel()
		p.settleRest(fmt.Errorf("publish: %w", errClosed))
		return p.results
	}
	select {
	case <-p.finished:
	case <-limit.C:
		p.settleRest(fmt.Errorf("publish: outcome unknown: no result within %v", b.config.PublishTimeout))
	case <-ctx.Done():
		p.settleRest(fmt.Errorf("publish: outcome unknown: %w", ctx.Err()))
	}
	return p.results
}

// publication is one call of Publish.
type publication struct {
	records []node.Record

	mu       sync.Mutex
	results  []error // belong to the caller once finished is closed
	settled  []bool
	open     int           // how many are not settled
	finished chan struct{} // closed when all are
}

// settle gives a record its result, unless it has one.
func (p *publication) settle(i int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settled[i] {
		return
	}
	p.settled[i] = true
	p.results[i] = err
	p.open--
	if p.open == 0 {
		close(p.finished)
	}
}

// settleRest gives every record that has no result this one.
func (p *publication) settleRest(err error) {
	for i := range p.records {
		p.settle(i, err)
	}
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

// publish sees to it that every record of p has a result soon after ctx is done.
func (b *Broker) publish(ctx context.Context, p *publication) {
	normal, delicate := p.split(b.publishable(p))
	var wg sync.WaitGroup
	b.publishCarefully(ctx, &wg, p, delicate)
	b.publishCarefully(ctx, &wg, p, b.publishInBulk(ctx, p, normal))
	wg.Wait()
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
func (b *Broker) publishInBulk(ctx context.Context, p *publication, indexes []int) (refusedIndexes []int) {
	if len(indexes) == 0 {
		return nil
	}
	results := b.produce(ctx, b.bulk, p, indexes)
	for n, i := range indexes {
		if judge(results[n].err) == refused {
			refusedIndexes = append(refusedIndexes, i)
		}
	}
	return refusedIndexes
}

// result is what became of one try of a record.
type result struct {
	partition int32
	err       error
}

// produce gives records to a client, and waits until it has let go of all of them, which is soon after ctx is done.
// It settles them as it goes, but for those that are refused.
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
	var wg sync.WaitGroup
	wg.Add(len(indexes))
	for n, i := range indexes {
		client.Produce(ctx, p.record(i), func(r *kgo.Record, err error) {
			defer wg.Done()
			results[n] = result{r.Partition, err}
			if judge(err) != refused {
				p.settle(i, outcome(r.Topic, err, beat))
			}
		})
	}
	sendNow(client)
	wg.Wait()
	b.draw(client, through, p, indexes, results)
	return results
}

// sendNow ends the lingering of what a client has. It is Flush without the waiting.
func sendNow(client *kgo.Client) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	_ = client.Flush(done)
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
func (b *Broker) draw(client *kgo.Client, through *producer, p *publication, indexes []int, results []result) {
	var forget []string
	spoiled := false
	for n, i := range indexes {
		err := results[n].err
		topic := p.records[i].Topic
		if (isUnknownTopic(err) || judge(err) == noTopic) && !slices.Contains(forget, topic) {
			// franz-go asks for a topic for ever, and sticks to the identity of one that was deleted and
			// created again, unless it is told to forget it.
			forget = append(forget, topic)
			if errors.Is(err, kerr.UnknownTopicOrPartition) &&
				b.missing.add(topic, outcome(topic, err, new(pulse))) {
				b.inBackground(b.watchMissing)
			}
		}
		spoiled = spoiled || spoils(err)
	}
	if len(forget) > 0 {
		client.PurgeTopicsFromProducing(forget...)
	}
	if spoiled {
		ctx, cancel := context.WithTimeout(context.Background(), b.config.PublishTimeout)
		defer cancel()
		through.renew(ctx, client)
	}
}
