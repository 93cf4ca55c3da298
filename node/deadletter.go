package node

import (
	"context"
	"slices"
)

// deadLetter publishes a copy of each message that its topic rejects for good on the dead-letter topic, if there is
// one (deviation D9). Once the copy is acknowledged, the message counts as fired. It returns what is left.
//
// A copy can be too large itself, since it has more headers than the record. A dead-letter topic's own messages, which
// are such copies already, are in the same case. Then smaller and smaller copies are tried.
//
// Where so much was claimed, or published, that the claims are too old by then for a copy, there is less of it next
// time. Otherwise it might take as long each time, and no copy would ever be published.
func (p *publisher) deadLetter(ctx context.Context, failed []failure) []failure {
	late, size := 0, 0
	for _, f := range failed {
		if KindOf(f.err) == RecordRejected && !p.publishable(f.since) {
			late, size = late+1, size+f.Size()
		}
	}
	if late > 0 {
		for _, r := range []*ration{&p.whole, &p.part, &p.batches} {
			r.tooMuch(late, size)
		}
	}
	for cut := range cuts + 1 {
		var left, dead []failure
		var records []Record
		var next []Next
		for _, f := range failed {
			record, some := p.copyOf(&f, cut)
			if !some {
				left = append(left, f)
				continue
			}
			dead = append(dead, f)
			records, next = append(records, record), append(next, f.next)
		}
		if len(dead) == 0 {
			continue
		}
		var copied []Message
		var settled []Next
		errs, how, took := p.publish(ctx, records, next)
		for i, err := range errs {
			if err == nil {
				copied = append(copied, dead[i].Message)
				settled = append(settled, dead[i].next)
				how[len(settled)-1] = how[i]
				continue
			}
			if KindOf(err) == MessageGone {
				continue
			}
			dead[i].letter = err
			dead[i].took += took
			left = append(left, dead[i])
		}
		if len(copied) > 0 {
			p.observe(DeadLettered{Messages: copied, Took: took})
		}
		p.settle(settled, how)
		failed = left
	}
	return failed
}

// copyOf returns the copy of a message that was rejected for its dead-letter topic, cut as much as asked.
func (p *publisher) copyOf(f *failure, cut int) (Record, bool) {
	switch {
	case KindOf(f.err) != RecordRejected, f.letter != nil && KindOf(f.letter) != RecordRejected:
		return Record{}, false
	case !p.publishable(f.since):
		return Record{}, false // a lane in the same batch has hung, and the claim could expire meanwhile
	case p.isDead[f.Lane]:
		return cutRecord(record(&f.Message), cut, 0), cut > 0 // as it is, it was rejected just now
	default:
		topic := p.deadLettersOf(f.Lane)
		letter := deadLetterOfMessage(&f.Message, f.err, topic)
		if !p.goesAnyway(&f.Message) {
			// Without it the copy would come out on another topic when it is submitted anew.
			letter.Headers = append(letter.Headers, Header{HeaderTopic, []byte(f.Lane)})
		}
		return cutRecord(letter, cut, 0), topic != ""
	}
}

// goesAnyway reports whether a message comes out on its lane without having to name it. Where nobody knows which route
// it came by, that is as far as can be told. One that brings a task says itself where that comes out.
func (c *core) goesAnyway(m *Message) bool {
	return m.taskPart() != "" || slices.ContainsFunc(c.config.Routes, func(r Route) bool {
		return r.Output == m.Lane && (r.Input == m.Origin.Topic || m.Origin.Topic == "")
	})
}
