package sim

import (
	"context"
	"slices"
	"strconv"
	"time"

	"chronos/node"
)

// sinkPort is the Sink port of one life: one producer.
type sinkPort struct{ life *life }

var _ node.Sink = (*sinkPort)(nil)

// probeAfter is how long a producer sends nothing to a partition that did not answer, before it tries with one record.
const probeAfter = 500 * time.Millisecond

// publishing is one publish on its way. The producer tries again, within its time limit, what a leader does not
// take; each record has a result of its own.
type publishing struct {
	*call

	life    *life
	records []node.Record
	targets []*partition // nil where the topic does not exist
	results []error
	under   []held // the claim on each, if there is one
	open    []int  // the records that no leader has taken
	queued  int    // those that a leader has taken and has not appended: it hangs
	tries   int
	timed   bool // its end is arranged for
}

// Publish implements node.Sink.
func (p *sinkPort) Publish(ctx context.Context, records []node.Record) []error {
	l := p.life
	w := l.host.world
	records = slices.Clone(records)
	b := &publishing{
		under: w.recorder.publishing(l, records),
		call:  l.begin(opPublish, &l.host.brokerLink, func() []int { return numbersOf(records) }),
		life:  l, records: records,
		targets: make([]*partition, len(records)), results: make([]error, len(records)),
	}
	for i := range records {
		l.passes(records[i].Topic, "window-passed", true)
		l.keepsPace(records[i].Topic)
		b.size += len(records[i].Value)
		b.aim(i)
	}
	if b.partial >= 0 { // some of the records are lost: their results stay what they are
		b.open, b.partial = b.open[:min(b.partial, len(b.open))], -1
	}
	if len(b.open) > 0 || !slices.ContainsFunc(b.results, unavailable) {
		b.perform(ctx)
	}
	results := b.results
	b.results = make([]error, len(records)) // what is appended later has no reader
	w.recorder.outcome(l, records, results, b.under)
	return results
}

// aim chooses the partition of a record. Of those for a partition that did not answer a moment ago, one is sent now and
// then, to find out.
func (b *publishing) aim(i int) {
	w := b.life.host.world
	r := &b.records[i]
	b.results[i] = errTimeout
	t := w.broker.topic(r.Topic)
	if t != nil {
		key := r.Key
		if w.mutant != nil && w.mutant.Scatters {
			key = nil
		}
		b.targets[i] = t.choose(key)
		if r.Key == nil { // it may go anywhere, and goes around what does not answer
			for range len(t.partitions) - 1 {
				if _, slow := b.life.slow[b.targets[i]]; slow {
					b.targets[i] = t.choose(nil)
				}
			}
		}
		if again, slow := b.life.slowUntil(b.targets[i]); slow {
			if w.now < again {
				part := strconv.Itoa(int(b.targets[i].number))
				b.results[i] = &node.PublishError{Kind: node.PartUnavailable, Part: part}
				w.count("unsent")
				return
			}
			b.life.slow[b.targets[i]] = w.now + int64(w.options.publishTimeout()+probeAfter)
		}
	}
	b.open = append(b.open, i)
}

// slowUntil reports whether a partition did not answer a moment ago, and when another record is sent to it.
func (l *life) slowUntil(p *partition) (again int64, slow bool) {
	if m := l.host.world.mutant; m != nil && m.Silences {
		for _, other := range p.topic.partitions {
			if at, silent := l.slow[other]; silent {
				again, slow = max(again, at), true
			}
		}
		return again, slow
	}
	again, slow = l.slow[p]
	return again, slow
}

// perform sends the records that are open, and notes which partitions have not answered.
func (b *publishing) perform(ctx context.Context) {
	w := b.life.host.world
	open := slices.Clone(b.open)
	err := b.call.perform(ctx, w.options.publishTimeout(), b)
	for _, i := range open {
		if err != nil {
			b.results[i] = err
		}
		switch target := b.targets[i]; {
		case target == nil:
		case b.results[i] == nil || rejected(b.results[i]):
			delete(b.life.slow, target)
		case w.now >= b.deadline:
			b.life.slow[target] = w.now + int64(probeAfter)
			if b.records[i].Key != nil { // or else it goes elsewhere next time
				part := strconv.Itoa(int(target.number))
				b.results[i] = &node.PublishError{Part: part, Err: b.results[i]}
			}
		}
	}
}

// arrive implements served: it offers the open records to their leaders.
func (b *publishing) arrive() bool {
	w := b.life.host.world
	again := int64(0)
	var left []int
	for _, i := range b.open {
		if wait := b.offer(i); wait > 0 {
			left = append(left, i)
			again = max(again, wait)
		}
	}
	b.open = left
	b.tries++
	if len(left) == 0 && b.queued == 0 {
		return true
	}
	if len(left) > 0 && again < b.deadline {
		w.count("publish-retried")
		w.at(again+b.link.latency(), b.call, callArrives)
	}
	b.end()
	return false
}

// end sees to it that the call ends at its time limit, with the results that there are then.
func (b *publishing) end() {
	if b.timed {
		return
	}
	b.timed = true
	if b.unanswered || b.disconnected {
		b.life.host.world.at(b.deadline, b.call, callExpires)
	} else {
		b.life.host.world.at(b.deadline, b.call, callReturns)
	}
}

// offer offers one record, or returns when to try again.
func (b *publishing) offer(i int) (again int64) {
	w := b.life.host.world
	broker := w.broker
	r := &b.records[i]
	p := b.targets[i]
	cut := b.link.requestsCut
	switch {
	case w.now < broker.away:
		return broker.away
	case w.now < cut && b.tries > 0:
		return cut
	case p == nil || w.now < p.topic.missing:
		b.results[i] = node.TopicMissing
		return 0
	case len(r.Value) > maxRecordBytes && !p.topic.dead:
		b.results[i] = node.RecordRejected
		return 0
	case w.now < p.absent:
		return p.absent
	case w.now < b.link.unreached[p]:
		return b.link.unreached[p]
	case w.now < p.hangs:
		b.queued++
		w.count("queued")
		w.at(p.hangs, action(func() { b.dequeued(i) }), 0)
		return 0
	}
	b.append(i)
	return 0
}

// dequeued appends a record whose leader goes on, whether somebody still waits for it or not.
func (b *publishing) dequeued(i int) {
	w := b.life.host.world
	if p := b.targets[i]; w.now < p.hangs {
		w.at(p.hangs, action(func() { b.dequeued(i) }), 0)
		return
	}
	b.append(i)
	b.queued--
	if b.queued == 0 && len(b.open) == 0 && !b.replied && w.now < b.deadline {
		b.answered()
	}
}

// append appends one record.
func (b *publishing) append(i int) {
	for range 1 + number(b.duplicated) {
		appended := b.targets[i].append(b.records[i])
		b.life.host.world.app.published(appending{b.life, b.under[i].incarnation, b.under[i].claim, b.duplicated},
			appended)
	}
	b.results[i] = nil
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// unavailable reports whether a record failed since its partition does not answer.
func unavailable(err error) bool { return err != nil && node.FailureOf(err).Part != "" }

// rejected reports whether a publish that failed so has certainly appended nothing, and never will.
func rejected(err error) bool {
	return node.KindOf(err).Permanent()
}
