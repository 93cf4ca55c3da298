package sim

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"chronos/node"
)

// publishing is one publish on its way. The producer tries again, within its time limit, what a leader does not
// take; each record has a result of its own.
type publishing struct {
	*call

	life    *life
	records []node.Record
	results []error
	under   []uuid.UUID // the incarnation that each is about, if there is a claim
	direct  bool
	open    []int // the records without a result
	tries   int
}

// Publish implements node.Broker.
func (p *brokerPort) Publish(ctx context.Context, records []node.Record) []error {
	l := p.life
	w := l.host.world
	under := w.judge.publishing(l, records)
	b := &publishing{
		call: l.begin(opPublish, &l.host.brokerLink, func() []int { return numbersOf(records) }),
		life: l, records: records, under: under, direct: l.running.operation == node.Enqueue,
		results: make([]error, len(records)), open: make([]int, len(records)),
	}
	for i := range records {
		b.results[i] = errTimeout
		b.open[i] = i
	}
	if b.partial >= 0 { // some of the records are lost: their results stay what they are
		b.open, b.partial = b.open[:min(b.partial, len(records))], -1
	}
	err := b.perform(ctx, w.options.publishTimeout(), b.arrive)
	results := b.results
	b.results = make([]error, len(records)) // what is appended later has no reader
	if err != nil {
		for i := range results {
			results[i] = err
		}
	}
	w.judge.outcome(l, records, results, under)
	return results
}

// arrive offers the open records to their leaders.
func (b *publishing) arrive() bool {
	w := b.life.host.world
	again := int64(0)
	var left []int
	for _, i := range b.open {
		if wait := b.append(i); wait > 0 {
			left = append(left, i)
			again = max(again, wait)
		}
	}
	b.open = left
	b.tries++
	switch {
	case len(left) == 0:
		return true
	case again < b.deadline:
		w.count("publish-retried")
		w.at(again+b.link.latency(), b.call, callArrives)
	case b.unanswered || b.disconnected:
		w.at(b.deadline, b.call, callExpires)
	default:
		w.at(b.deadline, b.call, callReturns)
	}
	return false
}

// append appends one record, or returns when to try again.
func (b *publishing) append(i int) (again int64) {
	w := b.life.host.world
	broker := w.broker
	r := b.records[i]
	t := broker.topic(r.Topic)
	cut := b.link.requestsCut
	switch {
	case w.now < broker.away:
		return broker.away
	case w.now < cut && b.tries > 0:
		return cut
	case t == nil || w.now < t.missing:
		b.results[i] = node.ErrNoTopic
		return 0
	case len(r.Value) > maxRecordBytes && !t.dead:
		b.results[i] = node.ErrRejected
		return 0
	}
	key := r.Key
	if w.mutant != nil && w.mutant.Scatters {
		key = nil
	}
	p := t.choose(key)
	if w.now < p.absent {
		return p.absent
	}
	for range 1 + number(b.duplicated) {
		appended := p.append(r)
		w.app.published(appending{b.life, b.under[i], b.direct, b.duplicated}, appended)
	}
	b.results[i] = nil
	return 0
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// rejected tells whether a publish that failed so has certainly appended nothing.
func rejected(err error) bool {
	return errors.Is(err, node.ErrRejected) || errors.Is(err, node.ErrNoTopic)
}
