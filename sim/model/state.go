package model

// A state is all that matters of a world at one moment. Everything in it is a small number, so that it packs into a key
// of 320 bits; fields lists how.
//
// Incarnations and claims are only ever compared for equality. They have no numbers of their own but the labels that
// canonical gives them: 0 for none, 1 to 5 for those that can still be met in the store, fresh for one just drawn, and
// stale for all those that nothing in the store can equal any more. Two worlds that differ in such names only
// are one state, which is what makes any number of claims and deliveries a finite matter.
//
// A set of records has bit r for record r.
type state struct {
	log       input
	committed uint8 // offset of the group, of the topic as it is now
	marked    uint8 // 1: that was committed by a node that keeps positions
	owner     uint8 // of the partition

	store    store
	standby  store // what the standby of the database has, from the moment that it falls behind
	sequence uint8 // of the database, for the rule that numbers incarnations with it
	behind   uint8 // the sequence on the standby

	// What an outsider has seen, as sets of records.
	fired     uint8 // came out
	came      uint8 // came out by a publish that was begun in this lineage
	excused   uint8 // something happened that may publish it twice
	cancelled uint8 // an outcome of this lineage said that it does not come out
	kept      uint8 // an outcome of a former lineage said so, and nothing has happened since that excuses it
	bound     uint8 // an outcome of this lineage said that it comes out
	answered  uint8 // rules.OutcomesApart: the records of which the outcome was sent

	// What of the faults of the scope is left.
	crashes, unknowns, rebalances, suspicions, rewinds uint8
	failover                                           uint8 // see the constants

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

// store is what a failover sets back.
type store struct {
	row       row
	positions [2]position // by topic id
	taken     uint8       // the set of records that were taken in
	covered   uint8       // those of them that were ignored, because a row of the id was there
	ended     uint8       // those of which the content was cancelled or replaced, whatever the outcome said
	adopt     uint8       // 1: the offsets of an older deployment are still to be adopted

	// Whether the store has been set back or rewound, and what has to be taken in again before anything is claimed.
	phase uint8
	mark  position // the log end when that was noticed; its has is the topic id
}

// How far a store has come since it was set back.
const (
	phaseSound    uint8 = iota
	phaseSetBack        // nobody has noticed yet
	phaseHold           // marked; one hold time has to pass before anything is taken in
	phaseCatching       // claims are refused until the mark is passed
)

// row is the row of the id in the store. Its incarnation is inc and by together: the label says in which call it was
// drawn, which draws one for each record of its batch.
type row struct {
	inc   uint8 // 0: there is no row
	by    uint8 // which record has drawn it
	src   uint8 // which record its content is of
	claim uint8 // 0: waiting
	owner uint8 // of the claim
	tried uint8 // 1: a claim has ended after which it may have been published
	bound uint8 // 1: an outcome said that it comes out, so that only a replacement touches it
	prev  uint8 // the set of the contents that it has replaced, and that may still come out
	again uint8 // 1: its content had come out in this lineage already when it was inserted
}

// free reports whether nobody has claimed the row since its insert, except to give it back unsent.
func (r row) free() bool { return r.claim == none && r.tried == 0 && r.bound == 0 }

// is reports whether the row is of an incarnation.
func (r row) is(inc, by uint8) bool { return r.inc != none && r.inc == inc && r.by == by }

// of reports whether the row has the content of a record.
func (r row) of(src uint8) bool { return r.inc != none && r.src == src }

// consumer is the enqueue operation of a node, with a batch in hand if last is not 0.
type consumer struct {
	on    uint8 // 1: it was assigned the partition, and has not learnt of anything else
	apart uint8 // 1: its connection to the store has ended with the server
	topic uint8 // id of the topic that it consumes
	next  uint8 // the offset that it goes on from: of the batch in hand, or of the next one
	epoch uint8 // of the record before that
	last  uint8 // the offset after the batch
	phase uint8
	ver   uint8 // the version of the log that the batch was polled from
	asked uint8 // the take asked for a claim, and that was not long ago
	inc   uint8 // that a take was tried with

	seen position // rules.UnlockedLook, rules.MoveFirst: the position that was read
}

// What has become of a batch.
const (
	batchPolled uint8 = iota
	batchTried        // its take may have happened
	batchTaken        // the commit is next
	batchHalf         // the first half of wrong rules is done
	batchAbsent       // rules.PublishPast: it has lapsed and is not in the store: publish it
	batchPast         // rules.PublishPast: it was published, and is not to be stored
)

// batch has a batch in hand that is not taken yet.
func (c *consumer) batch() bool { return c.last != 0 && c.phase != batchTaken }

// slot is a claimed message in the hands of the fire operation of a node.
type slot struct {
	stage  uint8
	src    uint8
	inc    uint8
	by     uint8
	claim  uint8
	old    uint8 // older than the hold time, by the clock of whoever has suspected it, and so by that of the node
	former uint8 // its publish was begun in a former lineage
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
	kind   uint8
	src    uint8
	inc    uint8
	by     uint8
	claim  uint8
	node   uint8 // who sent it
	asked  uint8 // a take that asks for a claim; a release of what was sent
	former uint8 // a publish that was begun in a former lineage

	// Of a take: its batch, and the epoch of the record before it.
	ver, from, to, epoch uint8
}

// The calls that can be late.
const (
	lateNone uint8 = iota
	lateTake
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
		rewinds: scope.Rewinds,
	}
	if !scope.Failover {
		s.failover = failoverGone
	}
	if scope.Adopt {
		// An older deployment has stored the first record, and has committed it.
		s.log.sent, s.committed = 1, 1
		s.store.row = row{inc: 1}
		s.store.taken = 1
		s.store.adopt = 1
	}
	return s
}

// position is the one that the store has of a topic.
func (m *machine) position(s *state, topic uint8) *position {
	if m.rules.TopicByName {
		topic = 0
	}
	return &s.store.positions[topic]
}

// key is a packed state.
type key [5]uint64

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

// present packs whether a part of the state is there at all, and reports that: most are not, most of the time.
func (b *packer) present(is bool) bool {
	var bit uint8
	if is {
		bit = 1
	}
	b.field(&bit, 1)
	return bit == 1
}

func (b *packer) position(p *position) {
	b.field(&p.has, 1)
	b.field(&p.offset, 3)
	b.field(&p.epoch, 2)
}

func (b *packer) row(r *row) {
	b.field(&r.inc, 3)
	b.field(&r.by, 2)
	b.field(&r.src, 2)
	b.field(&r.claim, 3)
	b.field(&r.owner, 2)
	b.field(&r.tried, 1)
	b.field(&r.bound, 1)
	b.field(&r.prev, records)
	b.field(&r.again, 1)
}

func (b *packer) store(s *store) {
	if b.present(s.row.inc != none) {
		b.row(&s.row)
	}
	b.position(&s.positions[0])
	if b.present(s.positions[1] != position{}) {
		b.position(&s.positions[1])
	}
	b.field(&s.taken, records)
	b.field(&s.covered, records)
	b.field(&s.ended, records)
	b.field(&s.adopt, 1)
	b.field(&s.phase, 2)
	if s.phase >= phaseHold {
		b.position(&s.mark)
	}
}

// fields is the one place that says how a state is packed.
func (s *state) fields(b *packer) {
	b.field(&s.log.sent, 3)
	b.field(&s.log.fate, 2)
	b.field(&s.log.cut, 3)
	b.field(&s.log.keep, 2)
	b.field(&s.committed, 3)
	b.field(&s.marked, 1)
	b.field(&s.owner, 1)
	b.store(&s.store)
	if b.present(s.standby != store{}) {
		b.store(&s.standby)
	}
	if b.present(s.sequence != 0) {
		b.field(&s.sequence, 3)
		b.field(&s.behind, 3)
	}
	for _, set := range []*uint8{
		&s.fired, &s.came, &s.excused, &s.cancelled, &s.kept, &s.bound, &s.answered,
	} {
		b.field(set, records)
	}
	for _, left := range []*uint8{&s.crashes, &s.unknowns, &s.rebalances, &s.suspicions, &s.rewinds, &s.failover} {
		b.field(left, 2)
	}
	for n := range s.consumers {
		b.consumer(&s.consumers[n])
		for i := range s.slots[n] {
			if b.present(s.slots[n][i].stage != slotFree) {
				b.slot(&s.slots[n][i])
			}
		}
	}
	b.field(&s.detector.claim, 3)
	b.field(&s.detector.node, 1)
	if b.present(s.late.kind != lateNone) {
		b.request(&s.late)
	}
}

func (b *packer) consumer(c *consumer) {
	b.field(&c.on, 1)
	b.field(&c.apart, 1)
	b.field(&c.topic, 1)
	b.field(&c.next, 3)
	b.field(&c.epoch, 2)
	b.field(&c.last, 3)
	b.field(&c.phase, 3)
	b.field(&c.ver, 1)
	b.field(&c.asked, 1)
	b.field(&c.inc, 3)
	if b.present(c.seen != position{}) {
		b.position(&c.seen)
	}
}

func (b *packer) slot(l *slot) {
	b.field(&l.stage, 3)
	b.field(&l.src, 2)
	b.field(&l.inc, 3)
	b.field(&l.by, 2)
	b.field(&l.claim, 3)
	b.field(&l.old, 1)
	b.field(&l.former, 1)
}

func (b *packer) request(r *request) {
	b.field(&r.kind, 3)
	b.field(&r.src, 2)
	b.field(&r.inc, 3)
	b.field(&r.by, 2)
	b.field(&r.claim, 3)
	b.field(&r.node, 2)
	b.field(&r.asked, 1)
	b.field(&r.former, 1)
	b.field(&r.ver, 1)
	b.field(&r.from, 3)
	b.field(&r.to, 3)
	b.field(&r.epoch, 2)
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
