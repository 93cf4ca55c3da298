package check

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

func (s *state) submit(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		sub = &submission{
			number: e.Message, key: e.row(), deadline: e.Deadline, payload: e.Payload, flaw: e.Flaw, at: e.At,
			partition: e.Partition, offset: e.Offset, action: e.Action, notAfter: e.NotAfter,
			digest: e.Key,
		}
		if e.Past {
			sub.partition, sub.brought = notInKafka, true
		}
		if e.Every > 0 {
			sub.every, sub.times, sub.sequence, sub.series = e.Every, e.Limit, 1, sub
		}
		if instant, can := s.config.instant(e.Written); can {
			sub.deadline = instant
		}
		sub.asked = sub.deadline
		s.submissions[e.Message] = sub
		if !s.recorded[Duplicate] {
			s.namesakes[sub.key] = append(s.namesakes[sub.key], sub)
		}
	}
	sub.appended++
	if sub.appended > 1 {
		sub.excused("submitted twice")
	}
	if e.Flaw == Invalid || e.Flaw == Poison {
		s.rejected++
	}
	if e.Partition == "" {
		return
	}
	p := s.partition(e.Partition, e.Offset)
	at := p.from(e.Offset)
	p.log = slices.Insert(p.log, at, &record{submission: sub, place: place{e.Offset, e.Epoch}})
	sub.there++
	p.start = min(p.start, e.Offset) // it may have been known by an offset committed for another one of its name
	p.guessed = false
	p.end = max(p.end, e.Offset+1)
	p.furthest = max(p.furthest, p.end)
}

// instant reads a deadline as it was written: a date, a time to the minute or finer, and a zone or none, which is UTC.
// What is finer than microseconds is rounded up. It reports whether it can; what else there may be, numbers or
// leap seconds, is left to whoever writes the history.
func (c *Config) instant(written string) (time.Duration, bool) {
	if written == "" || c.Begin == 0 {
		return 0, false
	}
	for _, clock := range []string{"15:04:05", "15:04"} {
		for _, between := range []string{"T", "t", " "} {
			for _, zone := range []string{"", "Z07:00", "Z0700", "Z07", "z"} {
				t, err := time.Parse("2006-01-02"+between+clock+zone, written)
				if err != nil {
					continue
				}
				if rest := t.Nanosecond() % 1000; rest != 0 {
					t = t.Add(time.Duration(1000 - rest))
				}
				return t.Sub(time.Unix(0, int64(c.Begin))), true
			}
		}
	}
	return 0, false
}

func (s *state) consumed(e *Event) {
	switch e.Kind {
	case Deliver:
		if sub := s.submissions[e.Message]; sub != nil {
			sub.delivered++
		}
	case Reject:
		if sub := s.submissions[e.Message]; sub != nil {
			sub.rejected = true
		}
	case Rewind:
		_, seen := s.partitions[e.Partition]
		p := s.partition(e.Partition, e.Offset)
		// A topic that was made again is empty, and the group may have what was committed for the one before.
		if !seen && e.Node == "" {
			p.guessed, p.reached = true, 0
		}
		p.committed, p.heard = e.Offset, e.At
		if e.Node != "" {
			p.reached = max(p.reached, e.Offset)
			p.renew(place{e.Offset, e.Epoch})
		}
	default: // Commit
		p := s.partition(e.Partition, e.Offset)
		p.committed, p.heard = e.Offset, e.At
		p.reached = max(p.reached, e.Offset)
		p.renew(place{e.Offset, e.Epoch})
	}
}

// renew notes what was committed if it is later than all before.
func (p *partition) renew(to place) {
	if to.after(p.newest) {
		p.newest = to
	}
}

// after reports whether a place is of a higher epoch than another one, or further on in the same.
func (to place) after(other place) bool {
	further := to.epoch == other.epoch && to.offset > other.offset
	return to.epoch != Unknowable && (to.epoch > other.epoch || further)
}

// shrunk takes note of records that Kafka has no more.
func (s *state) shrunk(e *Event) {
	p := s.partitions[e.Partition]
	if p == nil {
		return
	}
	switch e.Kind {
	case Lost:
		for _, r := range p.between(e.Offset, e.To) {
			r.told = true
		}
	case Drop:
		p.dropped, p.mark = true, 0
		s.dropped = e.At
		forget(p.between(p.start, p.end))
	case Truncate:
		at := p.from(e.Offset)
		for _, r := range p.log[at:] {
			p.lost[r.place] = r
		}
		forget(p.log[at:])
		p.log = p.log[:at]
		p.start, p.end = min(p.start, e.Offset), min(p.end, e.Offset)
		p.checked, p.mark = min(p.checked, e.Offset), min(p.mark, e.Offset)
		p.unwound = min(p.unwound, e.Offset)
	default: // Retain
		gone := p.between(p.start, e.Offset)
		for _, r := range gone {
			r.gone = true
		}
		forget(gone)
		p.start, p.guessed = max(p.start, e.Offset), false
		p.end = max(p.end, p.start)
		p.furthest = max(p.furthest, p.end) // what was there need not have been an application's
	}
}

// forget takes note that records are in Kafka no more.
func forget(gone []*record) {
	for _, r := range gone {
		r.there--
	}
}

func (s *state) positioned(e *Event) {
	switch e.Kind {
	case Take:
		s.take(e)
		return
	case Lineage:
		s.lineage = max(s.lineage, e.Lineage)
		s.lineages++
		s.begun, s.catching = e.At, true
		s.goesWrong(e.At)
		s.renew("a lineage began")
		for _, name := range s.partitionNames() {
			s.partitions[name].mark = 0
		}
		return
	case CaughtUp:
		s.caught, s.catching = e.At, false
		s.goesWrong(e.At)
		return
	case Rollback:
		s.rollback(e)
		return
	case Upgrade:
		s.upgrade()
		return
	default:
	}
	p := s.partition(e.Partition, e.Offset)
	to := place{e.Offset, e.Epoch}
	switch e.Kind {
	case Mark:
		if p.dropped {
			break // since the node has asked for it: nothing will ever be taken in from there
		}
		p.mark = min(e.Offset, p.end) // Kafka may have lost the end since the node has asked for it
	case Place:
		p.kept, p.position, p.begin, p.checked = true, to, e.Offset, e.Offset
		p.highest = max(p.highest, e.Offset)
		if s.upgraded {
			p.goesOn(to)
			break
		}
		p.retake(to)
	case Taken:
		if to.after(p.told) {
			p.told = to
		}
	case KeepPlace:
		p.kept, p.position, p.checked = true, to, min(max(p.checked, p.unwound), e.Offset)
		for _, r := range p.log { // a rewind may be undone: what was taken in before that counts again
			r.taken = r.once
		}
		p.retake(to)
	default: // Move
		if p.lowers(to) {
			p.retake(to)
			p.told, p.unwound, s.rewound = to, max(p.unwound, p.checked), true
		}
		p.kept, p.position = true, to
		p.highest = max(p.highest, e.Offset)
		p.checked = e.Offset
	}
}

// lowers reports whether a position that moves there goes back, and not because Kafka has lost the end of the log.
func (p *partition) lowers(to place) bool {
	higher := p.position.epoch != Unknowable && to.epoch > p.position.epoch
	return p.kept && to.offset < p.position.offset && !higher
}

// retake has all records behind that position be taken in again, those of a higher epoch included.
func (p *partition) retake(to place) {
	behind := func(at place) bool {
		return at.offset >= to.offset || to.epoch != Unknowable && at.epoch > to.epoch
	}
	for _, r := range p.log {
		r.taken = r.taken && !behind(r.place)
	}
	lost := slices.SortedFunc(maps.Values(p.lost), func(a, b *record) int {
		return cmp.Or(cmp.Compare(a.place.offset, b.place.offset), cmp.Compare(a.epoch, b.epoch))
	})
	for _, r := range lost {
		r.taken = r.taken && !behind(r.place)
	}
}

// upgrade takes all positions away. What is committed by now is what the older deployment has dealt with.
func (s *state) upgrade() {
	s.older, s.upgraded = true, true
	for _, name := range s.partitionNames() {
		p := s.partitions[name]
		p.kept, p.position, p.mark, p.older = false, place{}, 0, p.committed
	}
}

// goesOn has the records be taken in again that the older deployment has stored, perhaps, and not committed.
func (p *partition) goesOn(to place) {
	to.offset = max(to.offset, p.older)
	for _, r := range p.log[p.from(to.offset):] {
		if sub := r.submission; r.taken {
			sub.stored, sub.met, sub.answered = 0, false, 0
			sub.excused("an older deployment has stored it, and not committed")
		}
	}
	p.retake(to)
}

func (s *state) take(e *Event) {
	if e.Skipped {
		return
	}
	p := s.partition(e.Partition, e.Offset)
	at := place{e.Offset, e.Epoch}
	r := p.find(at)
	if r == nil { // it is none that an application wrote
		p.end = max(p.end, e.Offset+1)
		p.furthest = max(p.furthest, p.end)
		p.lost[at] = &record{submission: &submission{}, place: at, taken: true}
		return
	}
	r.taken, r.once = true, true
	r.submission.taken++
}

// rollback forgets what the store has: the Keep and KeepPlace events that follow say what is left.
func (s *state) rollback(e *Event) {
	s.setBack, s.forgetful = e.At, s.forgetful || e.Text != Confirmed
	s.goesWrong(e.At)
	s.upgraded = false // all may be taken in again
	s.tasks.rollback(e.At)
	s.undone = max(s.undone, s.lineage)
	if e.Lineage != 0 && e.Lineage != s.lineage {
		// The lineage that had begun is undone, and with it the time for which nothing may be claimed.
		s.lineage, s.begun, s.catching = e.Lineage, -1, false
	}
	s.renew("the store was set back")
	clear(s.rows)
	clear(s.lines)
	clear(s.paused)
	for _, sub := range s.inOrder() {
		sub.kept = 0
	}
	for _, name := range s.partitionNames() {
		p := s.partitions[name]
		p.kept, p.position, p.mark = false, place{}, 0
	}
}

// renew begins the count of what happens in a lineage anew. Whatever was stored before may be stored, and fire, again.
func (s *state) renew(reason string) {
	s.era++
	for _, sub := range s.inOrder() {
		sub.stored, sub.met, sub.answered = 0, false, 0
		if sub.inserts > 0 {
			sub.excused(reason)
		}
	}
}
