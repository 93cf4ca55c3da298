package model

// A state is all that matters of a world at one moment. Everything in it is a small number, so that it packs into a key
// of 192 bits; fields lists how.
//
// Incarnations and claims are only ever compared for equality. They have no numbers of their own but the labels that
// canonical gives them: 0 for none, 1 to 5 for those that can still be met in the store, fresh for one just drawn, and
// stale for all those that nothing in the store can equal any more. Two worlds that differ in such names only
// are one state, which is what makes any number of claims and deliveries a finite matter.
type state struct {
	submitted uint8 // records in the partition: 0 to 2
	committed uint8 // offset of the group
	position  uint8 // next offset that the owner of the partition polls
	owner     uint8 // of the partition

	row      row
	standby  row   // what the standby of the database has, from the moment that it falls behind
	sequence uint8 // of the database, for the rule that numbers incarnations with it
	behind   uint8 // the sequence on the standby

	// What an outsider has seen. Bit s of a set is about submission s.
	fired    uint8 // was published
	excused  uint8 // something happened that may publish it twice
	covered  uint8 // ignored, because a row of the other one was there
	finished uint8 // dealt with by some consumer: stored, published or ignored
	polled   uint8

	// What of the faults of the scope is left.
	crashes, unknowns, rebalances, suspicions uint8
	failover                                  uint8 // see the constants

	consumers [2]consumer
	slots     [2][2]slot // those of a node are sorted, the free ones last
	detector  detector
	late      request
}

// Labels of incarnations and claims.
const (
	none  = 0
	fresh = 6
	stale = 7
)

// What the database has been through.
const (
	failoverLeft uint8 = iota // a failover is still to come
	failoverLags              // commits reach the primary only
	failoverGone              // happened, or not in this scope
)

// dead is the owner of a claim whose process has crashed.
const dead = 2

// row is the row of the id in the store.
type row struct {
	inc   uint8 // 0: there is no row
	src   uint8 // which submission it is of
	claim uint8 // 0: waiting
	owner uint8 // of the claim
	again uint8 // 1: its submission had been published already when it was inserted
}

func (r row) of(src uint8) bool { return r.inc != none && r.src == src }

// consumer is the enqueue operation of a node, with a batch in hand if last is not 0.
type consumer struct {
	at    uint8 // the record in work; last: all are done, and the commit is next
	last  uint8 // the offset after the batch
	phase uint8
	asked uint8 // the insert asked for a claim, and that was not long ago
	inc   uint8 // of the record in work, once its insert was tried
	stale uint8 // the partition was taken away since the poll
}

// What a consumer knows of the record in work.
const (
	phaseDecoded     uint8 = iota
	phaseStored            // an insert was tried, and may have happened
	phaseAbsent            // it has lapsed and is not in the store: publish it
	phaseUnpublished       // that was not acknowledged: insert it
)

// slot is a claimed message in the hands of the fire operation of a node.
type slot struct {
	stage uint8
	src   uint8
	inc   uint8
	claim uint8
	old   uint8 // older than the hold time, by the clock of whoever has suspected it, and so by that of the node
}

// The way of a claimed message.
const (
	slotFree       uint8 = iota
	slotHeld             // claimed, on the schedule
	slotPublishing       // found young enough; the request is on its way
	slotAcked            // acknowledged; to be deleted
	slotFailed           // not acknowledged; to be given back
	slotSelected         // rules.BlindClaim: found waiting, not yet claimed
	slotDeleted          // rules.DeleteFirst: deleted, not yet published
)

// detector is the recover operation of a node that has read a claim. One in the world is enough: of several that
// have read the same claim, only the first has any effect.
type detector struct {
	claim uint8
	node  uint8
}

// request is a call whose caller has given up waiting, or died, and that may still take effect. There is at most one.
type request struct {
	kind  uint8
	src   uint8
	inc   uint8
	claim uint8
	node  uint8 // who sent it
	asked uint8 // an insert that asks for a claim
}

// The calls that can be late.
const (
	lateNone uint8 = iota
	lateInsert
	lateClaim
	latePublish
	lateDelete
	lateReset   // by a detector
	lateRelease // by the owner
)

// initial is the state that everything begins with.
func initial(scope *Scope) state {
	s := state{
		crashes: scope.Crashes, unknowns: scope.Unknowns, rebalances: scope.Rebalances, suspicions: scope.Suspicions,
	}
	if !scope.Failover {
		s.failover = failoverGone
	}
	return s
}

// key is a packed state.
type key [3]uint64

// packer packs small numbers into a key, or takes them out again.
type packer struct {
	key    key
	word   int
	at     uint
	unpack bool
}

func (b *packer) field(v *uint8, width uint) {
	if b.at+width > 64 {
		b.word, b.at = b.word+1, 0
	}
	if b.unpack {
		*v = uint8(b.key[b.word] >> b.at & (1<<width - 1)) //nolint:gosec // at most 8 bits
	} else {
		b.key[b.word] |= uint64(*v) << b.at
	}
	b.at += width
}

// fields is the one place that says how a state is packed.
func (s *state) fields(b *packer) {
	b.field(&s.submitted, 2)
	b.field(&s.committed, 2)
	b.field(&s.position, 2)
	b.field(&s.owner, 1)
	for _, r := range []*row{&s.row, &s.standby} {
		b.field(&r.inc, 3)
		b.field(&r.src, 1)
		b.field(&r.claim, 3)
		b.field(&r.owner, 2)
		b.field(&r.again, 1)
	}
	b.field(&s.sequence, 3)
	b.field(&s.behind, 3)
	for _, set := range []*uint8{&s.fired, &s.excused, &s.covered, &s.finished, &s.polled} {
		b.field(set, 2)
	}
	for _, left := range []*uint8{&s.crashes, &s.unknowns, &s.rebalances, &s.suspicions, &s.failover} {
		b.field(left, 2)
	}
	for n := range s.consumers {
		c := &s.consumers[n]
		b.field(&c.last, 2)
		b.field(&c.at, 2)
		b.field(&c.phase, 2)
		b.field(&c.asked, 1)
		b.field(&c.inc, 3)
		b.field(&c.stale, 1)
		for i := range s.slots[n] {
			l := &s.slots[n][i]
			b.field(&l.stage, 3)
			b.field(&l.src, 1)
			b.field(&l.inc, 3)
			b.field(&l.claim, 3)
			b.field(&l.old, 1)
		}
	}
	b.field(&s.detector.claim, 3)
	b.field(&s.detector.node, 1)
	b.field(&s.late.kind, 3)
	b.field(&s.late.src, 1)
	b.field(&s.late.inc, 3)
	b.field(&s.late.claim, 3)
	b.field(&s.late.node, 2)
	b.field(&s.late.asked, 1)
}

func (s *state) pack() key {
	var b packer
	s.fields(&b)
	return b.key
}

func unpack(k key) state {
	b := packer{key: k, unpack: true}
	var s state
	s.fields(&b)
	return s
}

// labels gives new labels to old ones, in the order in which it is asked for them.
type labels struct {
	of   [8]uint8
	next uint8
}

// keep gives a label to what is, or can still come, in the store: labels.find knows it then.
func (l *labels) keep(v *uint8) {
	if *v == none || *v == stale {
		return
	}
	if l.of[*v] == none {
		l.next++
		l.of[*v] = l.next
	}
	*v = l.of[*v]
}

// find relabels what is only compared with what is in the store.
func (l *labels) find(v *uint8) {
	if *v == none || *v == stale {
		return
	}
	if l.of[*v] == none {
		*v = stale
	} else {
		*v = l.of[*v]
	}
}

// canonical brings states together that differ in nothing that matters to what can happen: it renames incarnations and
// claims, sorts slots, and ends what can have no effect any more.
func (m *machine) canonical(s *state) {
	m.rename(s)
	if !m.plain {
		m.simplify(s)
	}
	for n := range s.slots {
		if s.slots[n][0].order() < s.slots[n][1].order() {
			s.slots[n][0], s.slots[n][1] = s.slots[n][1], s.slots[n][0]
		}
	}
}

// rename gives labels. Rules that compare the numbers of incarnations keep those.
func (m *machine) rename(s *state) {
	var incs, claims labels
	numbered := m.rules.Sequence
	for _, r := range []*row{&s.row, &s.standby} {
		claims.keep(&r.claim)
		if !numbered {
			incs.keep(&r.inc)
		}
	}
	claims.find(&s.late.claim)
	claims.find(&s.detector.claim)
	if !numbered {
		if s.late.kind == lateInsert {
			incs.keep(&s.late.inc)
		}
		incs.keep(&s.consumers[0].inc)
		incs.keep(&s.consumers[1].inc)
		if s.late.kind != lateInsert {
			incs.find(&s.late.inc)
		}
	}
	for n := range s.slots {
		for i := range s.slots[n] {
			l := &s.slots[n][i]
			claims.find(&l.claim)
			if !numbered {
				incs.find(&l.inc)
			}
		}
	}
}

// simplify ends calls that can have no effect any more, as if they had been made at once, and forgets what nothing
// depends on.
func (m *machine) simplify(s *state) {
	s.polled |= s.excused
	s.covered &^= s.fired
	if s.detector.claim == stale && !m.rules.ResetByID {
		s.detector = detector{}
	}
	switch {
	case s.late.kind == lateDelete && m.vain(s.late.inc),
		s.late.kind == lateReset && s.late.claim == stale && !m.rules.ResetByID,
		s.late.kind == lateRelease && s.late.claim == stale && !m.rules.ReleaseByID:
		s.late = request{}
	}
	for n := range s.consumers {
		if c := &s.consumers[n]; c.stale == 1 && c.at == c.last {
			*c = consumer{}
		}
		for i := range s.slots[n] {
			l := &s.slots[n][i]
			switch {
			case l.stage == slotAcked && m.vain(l.inc),
				l.stage == slotFailed && l.claim == stale && !m.rules.ReleaseByID,
				l.stage == slotHeld && l.old == 1 && l.claim == stale && !m.rules.ReleaseByID && !m.rules.PublishOld:
				*l = slot{}
			}
		}
	}
}

// vain: a delete can find nothing, now or later.
func (m *machine) vain(inc uint8) bool {
	ours := !m.rules.DeleteByID && !m.rules.DeleteByOwner && !m.rules.DeleteByClaim && !m.rules.Sequence
	return ours && inc == stale
}

func (l slot) order() int {
	return int(l.stage)<<8 | int(l.src)<<7 | int(l.inc)<<4 | int(l.claim)<<1 | int(l.old)
}
