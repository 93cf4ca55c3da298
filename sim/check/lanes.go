package check

import (
	"strings"
	"time"
)

// l9 is the invariant L9, restored. What has become of a record that was taken in again is for L2.
func l9(s *state, e *Event) finding {
	if s.setBack < 0 || s.healed < 0 {
		return holds()
	}
	for _, name := range s.partitionNames() {
		p := s.partitions[name]
		for _, r := range p.log {
			if !p.dropped && !r.taken && !r.gone && r.place.offset >= p.begin && s.drainedAt(r.at, e.At) {
				return brokenBy(r.submission, "the store was set back, and offset %d of %s was not taken in again",
					r.place.offset, name)
			}
		}
	}
	return holds()
}

// l10 is the invariant L10, alone.
func l10(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if sub == nil || s.lane(sub.key.topic).hung {
		return holds()
	}
	bound := s.config.Turn()
	if s.rejected > 0 {
		bound += s.config.PollInterval
	}
	return s.late(e, bound, s.hangs > 0)
}

// l11 is the invariant L11, fair. It looks at how long a message has waited when it is claimed, or in the end.
func l11(s *state, e *Event) finding {
	if e.Kind == Claim {
		if r := s.rowOf(e); r != nil {
			return s.starved(r, e.At)
		}
		return holds()
	}
	for _, r := range s.left() {
		if f := s.starved(r, e.At); f.detail != "" {
			return f
		}
	}
	return holds()
}

// starved finds a message that could be claimed for too long and was not, although nothing has gone wrong, up to now.
// The messages of its own lane that were claimed meanwhile were before it.
func (s *state) starved(r *row, now time.Duration) finding {
	c := &s.config
	advance := c.TimingAdvance
	if c.Adaptive || isCallback(r.key.topic) {
		advance = 0 // it is measured, and may be as small; or there is none
	}
	since := max(r.waiting, r.due-advance-c.Lookahead)
	_, paused := s.paused[r.key.topic]
	if r.ready() || now-since <= c.Fair() || s.catching || paused || s.lane(r.key.topic).hung {
		return holds()
	}
	calm := 2*c.Retry + c.StandBack + 2*c.StoreTimeout + c.PublishTimeout
	if since <= s.wrong+calm || !s.served(r.key.topic, since-calm) {
		return holds()
	}
	turns := (s.lane(r.key.topic).claims - r.ahead) / c.Share()
	bound := c.Fair() + time.Duration(turns)*(c.PollInterval+3*c.StoreLatency+c.BrokerLatency)
	if s.hangs > 0 {
		bound += c.Turn()
	}
	if now-since > bound {
		return brokenBy(r.submission, "nobody has claimed it for %v, after %d others of %s", now-since,
			s.lane(r.key.topic).claims-r.ahead, r.key.topic)
	}
	return holds()
}

// served reports whether some node is well. One whose wall clock was set is not, until the healing sets it right: it
// claims later by as much as the clock was set back. Nor is one that has failed to publish to the lane lately: it
// stands back from that lane.
func (s *state) served(lane string, lately time.Duration) bool {
	for _, name := range s.processNames() {
		p := s.processes[name]
		set := p.jumped >= 0 && s.healed < 0
		failed, known := p.failed[lane]
		standing := known && failed >= lately
		if !p.dead && !p.stopping && !p.cutOff && p.cut < 0 && !set && !standing && p.id != (UUID{}) {
			return true
		}
	}
	return false
}

// s25 is the invariant S25, paused. What was decided on before the pause has an older stamp.
func s25(s *state, e *Event) finding {
	if e.Kind == Decide {
		if _, paused := s.paused[""]; paused && e.Past {
			return brokenBy(nil, "%s of %s past Kafka is decided while the intake is paused", e.Action, e.ID)
		}
		return holds()
	}
	if e.Kind == Take {
		if _, paused := s.paused[""]; paused && !e.Skipped {
			return brokenBy(s.submissions[e.Message], "offset %d of %s is taken in while the intake is paused",
				e.Offset, e.Partition)
		}
		return holds()
	}
	p, paused := s.paused[e.Topic]
	if paused && e.Topic != "" && e.Owner != (UUID{}) && e.Stamp > p.stamp {
		return brokenBy(nil, "%s is claimed %v after %s was paused", e.ID, e.Stamp-p.stamp, e.Topic)
	}
	return holds()
}

// l12 is the invariant L12, still.
func l12(s *state, e *Event) finding {
	p, paused := s.paused[e.Topic]
	if !paused || e.Topic == "" || s.faults+s.hangs+s.lineages > 0 || s.setBack >= 0 {
		return holds()
	}
	if after := e.At - p.since; after > s.config.Still() {
		return brokenBy(s.submissions[e.Message], "it comes out %v after %s was paused", after, e.Topic)
	}
	return holds()
}

// isCallback reports whether a lane is one of callbacks.
func isCallback(lane string) bool { return strings.HasPrefix(lane, "http:") }

// l13 is the invariant L13, patient. While nothing else goes wrong, no claim expires, and no clock is set.
func l13(s *state, e *Event) finding {
	i := s.incarnations[e.Incarnation]
	if i == nil || i.calls == 0 || !isCallback(e.Topic) || s.faults+s.lineages > 0 || s.setBack >= 0 || s.healed >= 0 {
		return holds()
	}
	least := 4 * time.Second / 5 << min(i.calls-1, 8)
	if waited := e.At - i.called; waited+2*s.config.ClockError < min(least, 4*time.Minute) {
		return brokenBy(i.submission, "it is tried again %v after failure %d, before %v", waited, i.calls, least)
	}
	return holds()
}

// isLetter reports whether a row is the dead letter of a callback that its receiver has refused: it is stored beside
// the message, and again when a node has died in between.
func (s *state) isLetter(sub *submission, e *Event) bool {
	return isCallback(sub.key.topic) && (sub.flaw == Poison || sub.notAfter > 0) && e.row() != sub.key
}

// givenUp reports whether a callback may be settled although it has not come out: its dead letter was stored, or its
// receiver refuses it and there are no dead letters.
func (s *state) givenUp(r *row) bool {
	return isCallback(r.key.topic) && (r.lettered || r.flaw == Poison && !s.config.DeadLetter)
}
