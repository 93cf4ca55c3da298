package model

// consume makes the steps of node/enqueue.go.
func (m *machine) consume(s *state, n uint8) {
	c := &s.consumers[n]
	if c.apart == 1 {
		m.connect(s, n)
	}
	switch {
	case c.on == 0:
		m.assign(s, n)
	case c.last == 0:
		m.poll(s, n)
		m.compare(s, n)
	case c.phase == batchTaken:
		m.commit(s, n)
	case c.phase == batchAbsent:
		m.publishPast(s, n)
	case c.apart == 1 || s.store.phase == phaseHold:
		// Nothing is taken in before the hold time is over.
	case m.rules.MoveFirst || m.rules.MoveLast || m.rules.UnlockedLook:
		m.takeHalves(s, n)
	default:
		m.tryTake(s, n, false)
		if m.scope.Early && s.store.phase == phaseSound {
			m.tryTake(s, n, true)
		}
		m.lookPast(s, n)
	}
}

// assign begins to consume.
func (m *machine) assign(s *state, n uint8) {
	if n != s.owner || s.consumers[n].apart == 1 {
		return
	}
	t := *s
	m.start(&t, n)
	m.add(t, action{kind: actAssign, node: n}, 0)
}

// start lets a consumer begin at the position of the store, and makes that where there is none: at the earliest
// record, or at what an older deployment has committed, once.
func (m *machine) start(s *state, n uint8) {
	topic := s.log.topic(s.log.version())
	p := m.position(s, topic)
	switch {
	case m.rules.NoPositions:
		p = &position{offset: s.committed, epoch: epochUnknown}
	case p.has == 1:
	case m.rules.CreateCommitted,
		s.store.adopt == 1 && topic == 0 && (s.marked == 0 || m.rules.AdoptAny):
		*p = position{has: 1, offset: s.committed, epoch: epochUnknown}
		s.store.adopt = 0
	default:
		*p = position{has: 1, epoch: epochUnknown}
		s.store.taken = 0 // whatever was taken before is not known any more
	}
	c := &s.consumers[n]
	*c = consumer{on: 1, topic: topic, next: p.offset, epoch: p.epoch}
	if m.rules.StartCommitted {
		c.next, c.epoch = s.committed, epochUnknown
	}
	if m.rules.NoEpochSeek {
		c.epoch = epochUnknown
	}
	m.distrust(s, topic)
}

// startOver drops what a consumer has in hand, and begins again at the position of the store.
func (m *machine) startOver(s *state, n uint8) {
	s.consumers[n].reset()
	m.start(s, n)
}

// reset forgets everything but the connection.
func (c *consumer) reset() { *c = consumer{apart: c.apart} }

// release ends the work on a batch.
func (c *consumer) release() {
	*c = consumer{on: c.on, apart: c.apart, topic: c.topic, next: c.next, epoch: c.epoch}
}

// poll takes one record or two. Kafka refuses to serve a topic id that is not there any more.
func (m *machine) poll(s *state, n uint8) {
	c := &s.consumers[n]
	version := s.log.version()
	if s.log.topic(version) != c.topic {
		t := *s
		t.consumers[n].reset()
		m.add(t, action{kind: actPoll, node: n}, 0)
		return
	}
	next, epoch := s.log.divergence(c.next, c.epoch)
	for count := uint8(1); count <= 2 && next+count <= s.log.length(version); count++ {
		t := *s
		c := &t.consumers[n]
		c.next, c.epoch, c.last, c.ver = next, epoch, next+count, version
		m.add(t, action{kind: actPoll, node: n, option: count}, 0)
	}
}

// compare is what a node does every second, and what an idle partition needs: it looks whether the store's position
// has fallen below its own, and then begins again from there. And it finds out that all is caught up with at the end
// of the log, also where that has come down since it was marked, or is that of another topic.
func (m *machine) compare(s *state, n uint8) {
	c := &s.consumers[n]
	if c.apart == 1 || m.rules.NoPositions || s.log.topic(s.log.version()) != c.topic {
		return
	}
	t := *s
	p := m.position(s, c.topic)
	next, epoch := s.log.divergence(c.next, c.epoch)
	switch {
	case m.below(*p, c.next, c.epoch):
		if m.rules.NoCompare {
			return
		}
		m.startOver(&t, n)
	case s.store.phase == phaseCatching && !m.rules.StrictMark &&
		next == s.log.length(s.log.version()) && !p.below(next, epoch):
		t.store.phase, t.store.mark = phaseSound, position{}
	default:
		return
	}
	m.add(t, action{kind: actCompare, node: n}, 0)
}

// below is how a node compares positions.
func (m *machine) below(p position, offset, epoch uint8) bool {
	if m.rules.OffsetsAlone {
		p.epoch = epochUnknown
	}
	return p.below(offset, epoch)
}

// taking is what a take asks for: the records of a batch, in their order.
type taking struct {
	ver, from, to uint8
	epoch         uint8 // of the record before
	inc           uint8
	ready         bool // claim what is left of it in the store
	node          uint8
	past          bool // rules.PublishPast: it was published already
}

func (c *consumer) taking(n uint8, ready bool) taking {
	t := taking{
		ver: c.ver, from: c.next, to: c.last, epoch: c.epoch, inc: c.inc, ready: ready, node: n,
		past: c.phase == batchPast,
	}
	if t.inc == none {
		t.inc = fresh
	}
	return t
}

// taken is what a take has done.
type taken struct {
	refused  bool
	inserted bool  // a row that was not there before
	records  uint8 // the set of those that it has not skipped
	broken   Property
}

// take is the transaction. It refuses a batch that begins above the position, skips what lies behind that, does what
// the other records say, and moves the position behind them.
func (m *machine) take(s *state, q taking) taken {
	p := m.position(s, s.log.topic(q.ver))
	if m.rules.NoPositions {
		return m.apply(s, q, position{})
	}
	if p.has == 0 && m.rules.TakeCreates {
		*p = position{has: 1, offset: q.from, epoch: q.epoch}
	}
	if p.has == 0 || m.below(*p, q.from, q.epoch) && !m.rules.NoGapCheck {
		return taken{refused: true}
	}
	done := m.apply(s, q, *p)
	m.move(s, p, q, done.records != 0)
	return done
}

// apply does what the records of a batch say that lie not behind a position.
func (m *machine) apply(s *state, q taking, p position) taken {
	var done taken
	before := s.store.row
	for offset := q.from; offset < q.to; offset++ {
		r := s.log.at(q.ver, offset)
		if m.skips(p, offset, s.log.epoch(r)) {
			continue
		}
		done.records |= 1 << r
		if s.store.taken>>r&1 == 1 {
			done.broken |= S17
		}
		s.store.taken |= 1 << r
		if !q.past {
			done.broken |= m.instruct(s, q, r)
		}
	}
	row := &s.store.row
	done.inserted = row.inc != none && *row != before && row.claim == none
	if done.inserted && q.ready {
		row.claim, row.owner = fresh, q.node
	}
	return done
}

// skips reports whether a record has been taken already.
func (m *machine) skips(p position, offset, epoch uint8) bool {
	switch {
	case m.rules.NoPositions:
		return false
	case m.rules.SkipByOffset:
		return offset < p.offset
	case m.rules.SkipLowOffsets && p.epoch != epochUnknown:
		return offset < p.offset && epoch <= p.epoch
	default:
		return p.behind(offset, epoch)
	}
}

// move sets the position to where the take has got: also downwards, after a truncation.
func (m *machine) move(s *state, p *position, q taking, some bool) {
	if m.rules.MoveUpOnly && q.to <= p.offset || !some && !m.rules.MoveAlways {
		return
	}
	*p = position{has: 1, offset: q.to, epoch: s.log.epochBefore(q.ver, q.to)}
	m.pass(s)
}

// tryTake takes in a batch, for the first time or again with the same incarnations.
func (m *machine) tryTake(s *state, n uint8, ready bool) {
	c := &s.consumers[n]
	if ready && (m.freeSlot(s, n) < 0 || c.phase == batchTried && c.asked == 0) {
		return
	}
	q := c.taking(n, ready)
	a := action{kind: actTake, node: n}
	if ready {
		a.option = takeReady
	}
	t := *s
	done := m.take(&t, q)
	switch {
	case done.refused && ready:
		return
	case done.refused:
		m.startOver(&t, n)
		a.option = takeRefused
		m.add(t, a, done.broken)
		return
	case ready && !done.inserted:
		return // the same as without
	}
	if ready {
		t.hold(n, m.freeSlot(&t, n))
	}
	t.accept(n, q, done)
	m.add(t, a, done.broken)
	if !done.inserted {
		m.takeUp(s, &t, n)
	}
	for _, a.outcome = range []outcome{outcomeReplyLost, outcomeLate} {
		t := *s
		if !t.unknown(a.outcome == outcomeLate) {
			continue
		}
		var broken Property
		if a.outcome == outcomeLate {
			t.late = q.request()
		} else {
			broken = m.take(&t, q).broken
		}
		m.repeatTake(&t, n, q)
		m.add(t, a, broken)
	}
}

// accept leaves a consumer with a batch that was taken in.
func (s *state) accept(n uint8, q taking, done taken) {
	s.answered |= done.records
	c := &s.consumers[n]
	c.release()
	c.next, c.epoch, c.last, c.ver, c.phase = q.to, s.log.epochBefore(q.ver, q.to), q.to, q.ver, batchTaken
}

// repeatTake leaves a consumer with a take of unknown outcome.
func (m *machine) repeatTake(s *state, n uint8, q taking) {
	c := &s.consumers[n]
	if c.phase == batchPolled {
		c.phase = batchTried
		if q.ready {
			c.asked = 1
		}
	}
	c.inc = q.inc
	if m.rules.Sequence {
		c.inc = none // the database has not told it
	}
}

func (q taking) request() request {
	r := request{kind: lateTake, inc: q.inc, node: q.node, ver: q.ver, from: q.from, to: q.to, epoch: q.epoch}
	if q.ready {
		r.asked = 1
	}
	return r
}

// takeUp is a repeated take that returns the claim that the first one made, and puts it on the schedule.
func (m *machine) takeUp(s, done *state, n uint8) {
	c := &s.consumers[n]
	free := m.freeSlot(s, n)
	row := done.store.row
	if c.phase != batchTried || free < 0 || row.claim == none || row.owner != n || row.inc != c.inc ||
		c.asked == 0 && !m.rules.TakeUpAny {
		return
	}
	t := *done
	var broken Property
	for _, l := range t.slots[n] {
		if l.stage != slotFree && l.claim == row.claim {
			broken = S3
		}
	}
	t.hold(n, free)
	m.add(t, action{kind: actTake, node: n, option: takeUp}, broken)
}

// commit tells Kafka how far the group is, for the tools that show its lag. Kafka refuses it from a node that the
// partition was taken from, and for a topic that is gone.
func (m *machine) commit(s *state, n uint8) {
	c := &s.consumers[n]
	t := *s
	if n == s.owner && s.log.topic(s.log.version()) == c.topic {
		t.committed, t.marked = c.last, 1
	}
	if left := t; left.unknown(false) {
		m.add(left, action{kind: actCommit, node: n, outcome: outcomeReplyLost}, 0)
	}
	t.consumers[n].release()
	m.add(t, action{kind: actCommit, node: n}, 0)
}

// takeHalves is the take of wrong rules, which is not one step.
func (m *machine) takeHalves(s *state, n uint8) {
	c := &s.consumers[n]
	q := c.taking(n, false)
	p := m.position(s, c.topic)
	a := action{kind: actTake, node: n, option: takeHalf}
	t := *s
	next := &t.consumers[n]
	if c.phase == batchPolled {
		if p.has == 0 || m.below(*p, q.from, q.epoch) {
			m.startOver(&t, n)
			a.option = takeRefused
			m.add(t, a, 0)
			return
		}
		next.seen, next.phase = *p, batchHalf
		var broken Property
		switch {
		case m.rules.MoveFirst:
			m.move(&t, m.position(&t, c.topic), q, true)
		case m.rules.MoveLast:
			broken = m.apply(&t, q, *p).broken
			next.seen = position{}
		}
		m.add(t, a, broken)
		return
	}
	var done taken
	if !m.rules.MoveLast {
		done = m.apply(&t, q, c.seen)
	}
	if !m.rules.MoveFirst {
		m.move(&t, m.position(&t, c.topic), q, true)
	}
	t.accept(n, q, done)
	a.option = takeWaiting
	m.add(t, a, done.broken)
}

// lookPast looks whether the id of a message that has lapsed is in the store: if not, it is published past it.
func (m *machine) lookPast(s *state, n uint8) {
	c := &s.consumers[n]
	if !m.rules.PublishPast || c.phase != batchPolled || c.last != c.next+1 || s.store.row.inc != none ||
		m.scope.kind(s.log.at(c.ver, c.next)) != kindSchedule ||
		m.position(s, c.topic).behind(c.next, s.log.epoch(s.log.at(c.ver, c.next))) {
		return
	}
	t := *s
	t.consumers[n].phase = batchAbsent
	m.add(t, action{kind: actDirect, node: n}, 0)
}

// publishPast publishes it.
func (m *machine) publishPast(s *state, n uint8) {
	t := *s
	c := &t.consumers[n]
	c.phase = batchPast
	src := s.log.at(c.ver, c.next)
	t.excuse(src)
	m.add(t, action{kind: actDirect, node: n}, t.publish(src, 0)|S9)
}
