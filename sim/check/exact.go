package check

import "slices"

// s17 is the invariant S17, taken once. Where takes are not recorded, a submission that is stored more often than it
// was submitted shows the same. A request has its name in place of a place in Kafka, and is decided on once, as long as
// its answer is kept, which is longer than any history.
func s17(s *state, e *Event) finding {
	sub := s.submissions[e.Message]
	if e.Kind == Decide {
		if e.Request != (UUID{}) && s.requests[e.Request] == s.era {
			return brokenBy(sub, "the request to %s %s is decided on a second time", e.Action, e.ID)
		}
		return holds()
	}
	if e.Kind == Insert {
		if sub != nil && !s.isLetter(sub, e) && sub.stored >= sub.appended &&
			(sub.flaw != Unacknowledged || sub.brought) {
			return brokenBy(sub, "it is stored %d times, and was submitted %d times", sub.stored+1, sub.appended)
		}
		return holds()
	}
	p := s.partitions[e.Partition]
	if p == nil || e.Skipped || p.dropped {
		return holds()
	}
	r := p.find(place{e.Offset, e.Epoch})
	switch {
	case r != nil && r.taken:
		return brokenBy(sub, "offset %d of %s is taken in a second time", e.Offset, e.Partition)
	case e.Lineage != 0 && e.Lineage != s.lineage:
		return brokenBy(sub, "it is taken in in lineage %d, and the store is in lineage %d", e.Lineage, s.lineage)
	case p.kept && e.Epoch != Unknowable && e.Epoch < p.position.epoch:
		return brokenBy(sub, "it is taken in from an end of %s that Kafka has lost", e.Partition)
	}
	return holds()
}

// s18 is the invariant S18, no gap. It looks at what a position passes, and at what is called taken in already.
func s18(s *state, e *Event) finding {
	if e.Kind == Lineage {
		if s.recorded[Rollback] && e.Node != "" && !s.looksSetBack(e.Lineage-1) {
			return brokenBy(nil, "%s begins lineage %d, and the store was not set back", e.Node, e.Lineage)
		}
		return holds()
	}
	p := s.partitions[e.Partition]
	if p == nil || p.dropped {
		return holds()
	}
	switch e.Kind {
	case Place:
		return s.created(p, e)
	case Take:
		r := p.find(place{e.Offset, e.Epoch})
		if e.Skipped && r != nil && !r.taken && !r.gone && e.Offset >= p.begin && p.lost[r.place] == nil {
			return brokenBy(r.submission, "it is skipped as taken in already, and was not")
		}
		return holds()
	default:
	}
	if p.lowers(place{e.Offset, e.Epoch}) && (s.begun < 0 || e.At > s.begun) {
		return brokenBy(nil, "the position of %s goes back from %d to %d in one lineage", e.Partition,
			p.position.offset,
			e.Offset)
	}
	from := p.checked
	if e.Epoch > p.position.epoch {
		from = p.start // what was passed at lower epochs may not be what is there now
	}
	for _, r := range p.between(from, e.Offset) {
		switch {
		case r.epoch > e.Epoch && e.Epoch != Unknowable: // it is yet to come
		case r.taken && !r.gone && r.place.offset >= p.checked && !s.settled(r.submission) && r.flaw != Unacknowledged:
			return brokenBy(r.submission,
				"a position was moved past it, and it is neither stored nor covered nor rejected")
		case r.taken || r.gone && (r.told || !s.recorded[Lost]):
		case r.gone:
			return brokenBy(r.submission, "retention took it before it was taken in, and nobody has said so")
		default:
			return brokenBy(r.submission, "a position was moved past it, and it was not taken in")
		}
	}
	return holds()
}

// looksSetBack reports whether a node may think that the store was set back: it was, since the last lineage began; or
// the lineage that it is in has the number of one that was undone, and a node that has seen the former can't tell the
// two apart; or a position is below what was committed, since retention took what was to be taken in again; or an input
// topic was deleted, since Kafka counts an offset that was committed for it as one of the topic that has its name now.
func (s *state) looksSetBack(current int64) bool {
	return current <= s.undone || max(s.setBack, s.dropped) > s.begun || s.inherits() ||
		!s.catching && slices.ContainsFunc(s.partitionNames(), func(name string) bool {
			p := s.partitions[name]
			return p.position.offset < min(p.reached, p.end) || p.outlived()
		})
}

// outlived reports whether the position is in a part of the log that Kafka has lost since, and that the group has left
// behind: it is below what was committed, as a pair, though its offset may be higher. A node sees that when it is
// assigned the partition, which may be long after the lineage began:
//
//	node 3  takes in up to offset 3, at epoch 0
//	        Kafka loses the log; another record comes, at offset 0 and epoch 1
//	node 3  takes it in, commits 1 at epoch 1, and dies
//	        the store is set back: the position is 3 at epoch 0
//	node 1  sees the same of another partition, and begins lineage 2
//	node 4  is assigned the partition of node 3: 3 at epoch 0 is before 1 at epoch 1
func (p *partition) outlived() bool {
	return p.position.epoch != Unknowable && p.position.epoch < p.newest.epoch && p.newest.offset <= p.end
}

// inherits reports whether some partition still has the offset that was committed for one of its name that was deleted:
// nothing was committed for it since.
func (s *state) inherits() bool {
	return s.dropped >= 0 && slices.ContainsFunc(s.partitionNames(), func(name string) bool {
		p := s.partitions[name]
		return !p.dropped && p.heard <= s.dropped
	})
}

// failedSince reports whether a publish of a row by that node has failed since the row was claimed. How old a claim is
// that a store has which was set back, nobody has noted.
func (s *state) failedSince(r *row, node string) bool {
	at, failed := r.failedBy[node]
	if r.key != r.submission.key { // one of two copies, perhaps, which nobody can tell apart in a publish
		if of, known := r.copyFailed[node]; known {
			at, failed = max(at, of), true
		}
	}
	return failed && (at >= r.since || r.restored && r.since <= s.setBack)
}

// created judges a position that is new: nothing that there is may lie before it, unless an older deployment has dealt
// with it.
func (s *state) created(p *partition, e *Event) finding {
	committed := p.committed
	if s.older {
		committed = p.older
	}
	switch {
	case p.kept:
		return brokenBy(nil, "%s has a position, and is given another", e.Partition)
	case e.Adopted && e.Offset > committed:
		return brokenBy(nil, "the position %d of %s is adopted, and only %d was committed", e.Offset, e.Partition,
			committed)
	case !e.Adopted && e.Offset > p.start:
		return brokenBy(nil, "the first position of %s is %d, and its first record %d", e.Partition, e.Offset, p.start)
	}
	return holds()
}

// s23 is the invariant S23, lanes keep to themselves. A claim that is as old as may be published is given back whatever
// its lane does; how old it is for its owner, who counts from before the request, can be told only while the store
// works as usual.
func s23(s *state, e *Event) finding {
	r := s.rowOf(e)
	if r == nil || !s.own(e) {
		return holds()
	}
	if s.standsBack(r) {
		return holds()
	}
	if e.Due != 0 && e.Due < r.deadline {
		return brokenBy(r.submission, "%s has it fall due %v before its deadline", e.Node, r.deadline-e.Due)
	}
	p := s.process(e.Node)
	dropped := isCallback(r.key.topic) && r.notAfter > 0 // and its dead letter could not be stored
	if e.Due != 0 && e.Due > r.due && !s.failedSince(r, e.Node) && !dropped {
		return brokenBy(r.submission, "it is put off by %s, which has not failed to publish it", e.Node)
	}
	failed, known := p.failed[r.key.topic]
	c := &s.config
	switch {
	case known && failed+c.StoreTimeout >= r.since: // its own lane
	case p.stopping || r.since <= s.begun || dropped || s.shuts(r, e):
	case s.wrong > 0 && s.wrong+c.PublishableAge+c.Retry >= r.since:
	case e.Age+2*c.StoreLatency+c.ClockError >= c.PublishableAge:
	default:
		return brokenBy(r.submission, "it is given back by %s after %v, and nothing has failed on its lane", e.Node,
			e.Age)
	}
	return holds()
}

// s24 is the invariant S24, exactly once. The row of a dead letter counts as the message does: either is seen once. Of
// a callback only the dead letter is a record. What is still stored in the end is left to L2, and what was never stored
// to L3.
func s24(s *state, e *Event) finding {
	if e.Kind == See {
		switch sub := s.submissions[e.Message]; {
		case sub == nil:
			return brokenBy(nil, "a consumer sees a record that nobody submitted")
		case sub.seen >= sub.records():
			return brokenBy(sub, "a consumer sees it %d times, and it was stored %d times", sub.seen+1, sub.records())
		}
		return holds()
	}
	for _, sub := range s.inOrder() {
		gone := sub.records() > 0 && sub.kept == 0 && !sub.covered && sub.flaw == ""
		if sub.calls() {
			gone = sub.records() > 0 && sub.kept == 0 // its dead letter, which nothing takes the place of
		}
		if gone && sub.seen == 0 && s.healed >= 0 && s.drained(sub, e.At) {
			return brokenBy(sub, "it was stored, is gone, and no consumer has seen it")
		}
	}
	return holds()
}

// calls reports whether a submission comes out as a request.
func (sub *submission) calls() bool { return isCallback(sub.key.topic) && sub.flaw != Invalid }

// records returns how often a submission was stored as something that comes out as a record.
func (sub *submission) records() int32 {
	if sub.calls() {
		return sub.inserts - sub.stored
	}
	return sub.inserts
}
