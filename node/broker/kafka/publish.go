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

// Publish appends records to their topics; see node.Sink. It also returns when ctx is done: what has no result by
// then is given up, and its outcome is unknown, unless no client was given it yet.
func (s *Sink) Publish(ctx context.Context, records []node.Record) []error {
	if len(records) == 0 {
		return nil
	}
	if s.silent.count.Load() == 0 && s.alike(records) {
		return s.publishWithin(ctx, s.config.PublishTimeout, records)
	}
	results := make([]error, len(records))
	normal, trial, tried := s.silent.sort(records, results, true)
	var both sync.WaitGroup
	both.Go(func() { s.publishSome(ctx, s.config.PublishTimeout, records, normal, results) })
	both.Go(func() {
		s.publishSome(ctx, s.trialPatience(records, trial), records, trial, results)
		s.conclude(records, trial, tried, results)
	})
	both.Wait()
	return results
}

// publishSome publishes the records at these indexes, those of each compression through clients of their own.
func (s *Sink) publishSome(
	ctx context.Context, patience time.Duration, records []node.Record, indexes []int, results []error,
) {
	var all sync.WaitGroup
	for _, alike := range s.byCompression(records, indexes) {
		if len(alike) > 0 {
			all.Go(func() { s.publishAlike(ctx, patience, records, alike, results) })
		}
	}
	all.Wait()
}

// publishAlike publishes the records at these indexes, whose topics have one compression.
func (s *Sink) publishAlike(
	ctx context.Context, patience time.Duration, records []node.Record, indexes []int, results []error,
) {
	some := make([]node.Record, len(indexes))
	for n, i := range indexes {
		some[n] = records[i]
	}
	for n, err := range s.publishWithin(ctx, patience, some) {
		results[indexes[n]] = err
	}
}

// trialPatience returns the time limit of a trial: a short one, unless it needs time to be sent at all.
func (s *Sink) trialPatience(records []node.Record, trial []int) time.Duration {
	for _, i := range trial {
		if wireSize(&records[i]) > trialBytes {
			return s.config.PublishTimeout
		}
	}
	return s.config.PublishTimeout / 4
}

// conclude ends the trials of silent partitions.
func (s *Sink) conclude(records []node.Record, trial []int, tried []topicPartition, results []error) {
	unanswered := make(map[topicPartition]bool)
	for _, i := range trial {
		name, known := s.silent.partitionOf(&records[i])
		switch node.KindOf(results[i]) {
		case node.OutcomeUnknown, node.NotSent, node.PartUnavailable:
			unanswered[name] = unanswered[name] || known
		case node.Acknowledged, node.RecordRejected, node.TopicMissing, node.MessageGone:
		}
	}
	s.silent.conclude(tried, unanswered)
}

// publishWithin publishes records, whose topics have one compression, within a time limit.
func (s *Sink) publishWithin(ctx context.Context, limit time.Duration, records []node.Record) []error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	p := &publication{
		records:    records,
		results:    make([]error, len(records)),
		settled:    make([]bool, len(records)),
		given:      make([]bool, len(records)),
		partitions: make([]int32, len(records)),
		finished:   make(chan struct{}),
	}
	for i := range p.partitions {
		p.partitions[i] = unknownPartition
	}
	// The clients are told to give up a little early, so that there is time for them to say what became of
	// each record.
	patience := limit - limit/20
	until := time.Now().Add(patience)
	work := func() {
		defer close(p.finished)
		ctx, cancel := context.WithDeadline(ctx, until)
		defer cancel()
		s.publish(ctx, p)
	}
	if !s.work.run(work) {
		p.settleRest(fmt.Errorf("publish: %w", errClosed))
		return p.results
	}
	select {
	case <-p.finished:
	case <-timer.C:
		p.giveUp(fmt.Errorf("no result within %v", limit))
	case <-ctx.Done():
		p.giveUp(ctx.Err())
		return p.results
	}
	if !time.Now().Before(until) {
		s.learn(p)
	}
	return p.results
}

// learn takes note of what has let a publish run into its time limit: partitions from which nothing has come, and so
// much that a slow connection could not carry it. The results of records with a key name these partitions. Without a
// key a record may go anywhere, and goes elsewhere next time.
func (s *Sink) learn(p *publication) {
	p.mu.Lock()
	unacknowledged := 0
	open := make(map[topicPartition]int) // bytes of unknown outcome
	done := make(map[topicPartition]bool)
	for i := range p.records {
		name, known := topicPartition{p.records[i].Topic, p.partitions[i]}, p.partitions[i] != unknownPartition
		if !known {
			name, known = s.silent.partitionOf(&p.records[i])
		}
		switch {
		case node.KindOf(p.results[i]) == node.OutcomeUnknown:
			unacknowledged += wireSize(&p.records[i])
			if known {
				open[name] += wireSize(&p.records[i])
			}
			if known && p.records[i].Key != nil {
				p.results[i] = &node.PublishError{Part: partOf(name), Err: p.results[i]}
			}
		case p.results[i] == nil && known:
			done[name] = true
		}
	}
	attempt := p.attempt
	p.mu.Unlock()
	if unacknowledged > minWindow {
		s.window.shrink(attempt)
	}
	silent := make(map[topicPartition]bool)
	for name, bytes := range open {
		silent[name] = done[name] || bytes > slowBytes
	}
	s.silent.note(silent)
}

// publication is one call of Publish.
type publication struct {
	records []node.Record

	mu      sync.Mutex
	results []error // belong to the caller once all are settled
	settled []bool
	given   []bool // whether it was given to a client
	beat    *pulse // of the client that was used last
	attempt int    // the bytes that were given to clients together last

	// partitions are those that clients have chosen, as far as they have said so.
	partitions []int32

	// finished is closed when all records are settled, and the clients are free for the next call: a caller
	// that calls again finds the same ones.
	finished chan struct{}
}

// unknownPartition stands for a partition that a client has not chosen yet.
const unknownPartition = -1

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

// giveUp gives every record that has no result one: of what no client was given it is known that it was not sent.
func (p *publication) giveUp(why error) {
	unknown := p.unfinished(why)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.records {
		switch {
		case p.settled[i]:
			continue
		case p.given[i]:
			p.results[i] = unknown
		default:
			p.results[i] = fmt.Errorf("publish on topic %s: no time was left for it: %w: %w",
				p.records[i].Topic, node.NotSent, why)
		}
		p.settled[i] = true
	}
}

// appended returns those of the records at indexes that were acknowledged.
func (p *publication) appended(indexes []int) (some []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range indexes {
		if p.settled[i] && p.results[i] == nil {
			some = append(some, i)
		}
	}
	return some
}

// topics returns the topics of the records, once each.
func (p *publication) topics() []string {
	var topics []string
	for i := range p.records {
		if topic := p.records[i].Topic; !slices.Contains(topics, topic) {
			topics = append(topics, topic)
		}
	}
	return topics
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
	record := &kgo.Record{Topic: r.Topic, Partition: unknownPartition, Key: r.Key, Value: r.Value}
	if len(r.Headers) > 0 {
		record.Headers = make([]kgo.RecordHeader, len(r.Headers))
		for j, h := range r.Headers {
			record.Headers[j] = kgo.RecordHeader{Key: h.Name, Value: h.Value}
		}
	}
	return record
}

// publish settles every record of p, soon after ctx is done at the latest.
func (s *Sink) publish(ctx context.Context, p *publication) {
	slots := s.slots[s.compression(p.records[0].Topic)]
	pair := slots.take(ctx, p.topics())
	if pair != nil {
		defer slots.give(pair)
	}
	if until, limited := ctx.Deadline(); pair == nil || limited && time.Until(until) < s.config.PublishTimeout/10 {
		p.settleRest(fmt.Errorf("publish: all %d connections were in use: %w", maxSlots, node.NotSent))
		return
	}
	var pace pace
	rest := s.publishable(p)
	stages := s.stages(p, rest)
	for len(rest) > 0 {
		some, later := stages.next(rest)
		indexes, bytes := s.window.cut(p, some)
		unproven := stages.count(indexes)
		if ctx.Err() != nil || pace.tooSlow(ctx, bytes) || stages.pace.tooSlow(ctx, unproven) {
			for _, i := range rest {
				p.settle(i, fmt.Errorf("publish on topic %s: no time left at the pace of what was published before: %w",
					p.records[i].Topic, node.NotSent))
			}
			return
		}
		start := time.Now()
		s.attempt(ctx, p, pair, indexes, bytes)
		took := time.Since(start)
		if bytes >= minWindow/2 { // less says how long a request takes, and not how fast bytes arrive
			pace.note(bytes, took)
		}
		stages.took(stages.count(p.appended(indexes)), took)
		if ctx.Err() == nil {
			s.window.grow(bytes, took < s.config.PublishTimeout/4)
		}
		rest = slices.Concat(some[len(indexes):], later)
	}
}

// attempt settles records that are given to clients together.
func (s *Sink) attempt(ctx context.Context, p *publication, pair *slot, indexes []int, bytes int) {
	p.mu.Lock()
	p.attempt = bytes
	var open []int
	for _, i := range indexes {
		if !p.settled[i] { // nobody waits for the others any more: they were said not to be sent
			p.given[i] = true
			open = append(open, i)
		}
	}
	p.mu.Unlock()
	if len(open) == 0 {
		return
	}
	indexes = open
	normal, delicate := p.split(indexes)
	var refused []int
	var bulk sync.WaitGroup
	bulk.Go(func() { refused = s.publishInBulk(ctx, pair.bulk, p, normal) })
	s.publishCarefully(ctx, pair, p, delicate)
	bulk.Wait()
	s.publishCarefully(ctx, pair, p, refused)
}

// publishable returns the records whose topic is not known to be missing, and settles the others.
func (s *Sink) publishable(p *publication) []int {
	indexes := make([]int, 0, len(p.records))
	for i := range p.records {
		topic := p.records[i].Topic
		if topic == "" {
			p.settle(i, fmt.Errorf("publish: no topic is named: %w", node.TopicMissing))
		} else if err := s.missing.get(topic); err != nil {
			p.settle(i, err)
		} else {
			indexes = append(indexes, i)
		}
	}
	return indexes
}

// topicKey is a key on a topic.
type topicKey struct{ topic, key string }

// split tells records that go in bulk from those that go carefully: what is too large for a bulk batch, and what
// shares its topic and key with such a record, because the order of these is to be kept.
func (p *publication) split(indexes []int) (normal, delicate []int) {
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

// publishInBulk settles records except for those whose batch was refused, which it returns.
func (s *Sink) publishInBulk(
	ctx context.Context, through *producer, p *publication, indexes []int,
) (refusedIndexes []int) {
	if len(indexes) == 0 {
		return nil
	}
	results := s.produce(ctx, through, p, indexes)
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
// them as it goes, except for those that are refused, which it leaves open.
//
// The client sends nothing before it has all of them in their partitions, because of their order:
//
//	records 1 and 2 have the same key
//	record 1 is sent with others, and all of them are refused because of one of these
//	record 2 comes after that, and is appended
//
// Record 1 would be tried again after record 2. franz-go sends early now and then all the same: the goroutine that sent
// for the call before may look once more. So such a record is left to the next call, see overtaken.
func (s *Sink) produce(ctx context.Context, through *producer, p *publication, indexes []int) []result {
	if len(indexes) == 0 {
		return nil
	}
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
			if r.Partition != unknownPartition {
				p.mu.Lock()
				p.partitions[i] = r.Partition
				p.mu.Unlock()
			}
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
	p.overtaken(indexes, results)
	s.draw(client, through, p, indexes, results, !letGo)
	return results
}

// overtaken settles the records that were refused with others while a later record of their key was appended: they are
// not tried again in this call, which appends the records of a key in their order.
func (p *publication) overtaken(indexes []int, results []result) {
	isRefused := func(r result) bool { return r.err != nil && judge(r.err) == refused }
	if !slices.ContainsFunc(results, isRefused) {
		return
	}
	passed := make(map[topicKey]bool)
	for n, i := range slices.Backward(indexes) {
		r := &p.records[i]
		if r.Key == nil {
			continue
		}
		name := topicKey{r.Topic, string(r.Key)}
		switch {
		case results[n].err == nil:
			passed[name] = true
		case isRefused(results[n]) && passed[name]:
			results[n].err = fmt.Errorf("publish on topic %s: a later record of its key was sent before it: %w",
				r.Topic, node.NotSent)
			p.settle(i, results[n].err)
		}
	}
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
		return fmt.Errorf("publish on topic %s: %w: %w", topic, node.TopicMissing, err)
	}
	if trouble := beat.stopped(0); trouble != nil && !errors.Is(err, trouble) {
		return fmt.Errorf("publish on topic %s: outcome unknown: %w (%w)", topic, err, trouble)
	}
	return fmt.Errorf("publish on topic %s: outcome unknown: %w", topic, err)
}

// draw draws the conclusions of results: what has to be done so that later calls go better.
func (s *Sink) draw(
	client *kgo.Client, through *producer, p *publication, indexes []int, results []result, broken bool,
) {
	for n, i := range indexes {
		err := results[n].err
		topic := p.records[i].Topic
		if errors.Is(err, errNoResult) {
			p.settle(i, p.unfinished(err))
		}
		if err == nil {
			s.proven.add(&p.records[i], results[n].partition)
		}
		if errors.Is(err, kerr.UnknownTopicOrPartition) && s.missing.add(topic, outcome(topic, err, new(pulse))) {
			s.work.run(s.watchMissing)
		}
		broken = broken || spoils(err) || isUnknownTopic(err)
	}
	if broken {
		// franz-go keeps a refusal to be given a producer id forever: a permission that was missing for a
		// moment would stop all publishing until the process is restarted. It also sticks to the identity of
		// a topic that was deleted and created again. It could be told to forget the topic, but then it
		// counts the batches of its partitions from zero again, under the producer id that it has: if it was
		// wrong, because a broker has learned of the topic late, Kafka takes the first batch for one that it
		// has already, and acknowledges it without appending anything.
		through.discard(client)
	}
}
