package model

// Scope bounds a world: which faults may happen, how often, and what the application does. Beyond that everything
// happens in every order, at every moment. Any number of claims is made.
type Scope struct {
	Name string

	// Script is what the application sends: a letter for each record, see the kinds of instruction. "" is "ss". It
	// may stop anywhere.
	Script string

	// Crashes, Unknowns and Rebalances are how often a node crashes, a call has an unknown outcome, and the
	// partition is taken from a node that is alive: 0 to 3. Rewinds is how often an operator rewinds.
	Crashes, Unknowns, Rebalances, Rewinds uint8

	// Failover: the database may fail over once to a standby that lacks the last commits, which is the same as a
	// restore from a backup.
	Failover bool

	// Truncate: Kafka may lose the tail of the log, once. Recreate: the topic may be deleted and created again,
	// once. At most one of both happens.
	Truncate, Recreate bool

	// Adopt: an older deployment, which knew no positions, has stored the first record and committed it.
	Adopt bool

	// Suspicions is how often a live claim is found too old, because its owner is slow: 0 to 2, or Unbounded.
	// Finding the claim of the dead, or one that nobody knows of, is free.
	Suspicions uint8

	// Batches is how many claims a node has in hand at once: 1 or 2.
	Batches int

	// Fired: the application uses the id again only after it has seen it fire; otherwise, whenever it likes.
	Fired bool

	// Early: a message may be inserted as claimed by the inserting node.
	Early bool
}

// Unbounded is for Scope.Suspicions.
const Unbounded = 3

// script is what the application sends.
func (s *Scope) script() string {
	if s.Script == "" {
		return "ss"
	}
	return s.Script
}

// kind is the kind of a record.
func (s *Scope) kind(record uint8) byte { return s.script()[record] }

// Rules say how the algorithm deviates from ours. Each field is one deviation, made in one place; the zero value is
// the algorithm of package node.
type Rules struct {
	DeleteByID, DeleteByOwner, DeleteByClaim bool // in place of the incarnation

	Sequence         bool // incarnations are numbered by the database
	UnknownIsSuccess bool // a publish of unknown outcome counts as acknowledged
	DeleteFirst      bool // a row is deleted before it is published
	ResetByID        bool // a detector resets whatever claim there is
	ReleaseByID      bool // an owner gives back whatever claim there is
	Upsert           bool // an insert replaces the row of its id
	BlindClaim       bool // a claim looks for a waiting row, and then updates it without looking again
	TakeUpAny        bool // a repeated take takes up a claim that it has not asked for
	PublishOld       bool // a claim is published however old it is
	NoRecovery       bool // nobody resets claims
	PublishPast      bool // what has lapsed and is not in the store is published without being stored

	NoPositions     bool // consumers begin at the committed offset, and take in whatever comes
	SkipByOffset    bool // a record is skipped if its offset is lower, whatever its epoch
	SkipLowOffsets  bool // a record of a lower epoch is skipped only if its offset is lower, too
	MoveUpOnly      bool // the position never goes down
	MoveAlways      bool // a take moves the position also if it has skipped all
	MoveFirst       bool // the position moves in a transaction before the instructions
	MoveLast        bool // the position moves in a transaction after the instructions
	UnlockedLook    bool // the position is read before the transaction
	NoGapCheck      bool // a take above the position is not refused
	OffsetsAlone    bool // positions are compared by their offsets when they are not records
	TakeCreates     bool // a take makes the position where there is none
	CreateCommitted bool // a position is made at the committed offset
	AdoptAny        bool // adoption believes a committed offset that a node with positions has committed
	StartCommitted  bool // consumers begin at the committed offset
	NoEpochSeek     bool // consumers begin without an epoch, so that they do not notice a truncation
	TopicByName     bool // the position is that of a topic's name
	NoCompare       bool // nobody compares positions while nothing comes

	OffsetsOnly      bool // only the committed offset says that the store was set back
	NoMark           bool // claims go on after the hold time
	MarkCommitted    bool // the mark is the committed offset
	StrictMark       bool // the mark stays where it is when the log end comes down
	NoHoldTime       bool // records are taken in at once
	RewindKeepsEpoch bool // a rewind changes the offset only

	OutcomesApart   bool // outcomes are sent when the take has replied
	CancelAny       bool // an instruction takes effect on a row that is claimed
	CancelWaiting   bool // an instruction takes effect on whatever waits
	UntryAll        bool // a claim that is given back unsent makes the row as if it had never been claimed
	UntrySent       bool // what was sent and is given back does not count as tried
	UntryReset      bool // a claim that is reset does not count as tried
	LateUnbound     bool // too_late binds nobody
	FireUnbound     bool // fired binds nobody
	ForgetFormer    bool // a row that has replaced another one does not remember it
	KeepIncarnation bool // a replacement keeps the incarnation and the claim
}

// step is one way on from a state.
type step struct {
	state  state
	action action
	broken Property
}

// machine makes the steps of one algorithm within one scope.
type machine struct {
	rules Rules
	scope Scope
	plain bool // states are not simplified: for the test that this makes no difference

	steps []step // of the state at hand
}

// next returns all steps from s. The result is valid until the next call.
func (m *machine) next(s *state) []step {
	m.steps = m.steps[:0]
	m.submit(s)
	for n := range uint8(2) {
		m.consume(s, n)
		m.fire(s, n)
	}
	m.recover(s)
	m.holdOver(s)
	m.late(s)
	m.strike(s)
	return m.steps
}

// add records a step that leads to s.
func (m *machine) add(s state, a action, broken Property) {
	m.canonical(&s)
	m.steps = append(m.steps, step{state: s, action: a, broken: broken | m.lost(&s)})
}

// submit lets the application send a record.
func (m *machine) submit(s *state) {
	sent := s.log.sent
	if int(sent) == len(m.scope.script()) || m.scope.Fired && sent > 0 && s.fired>>(sent-1)&1 == 0 {
		return
	}
	t := *s
	t.log.sent++
	m.add(t, action{kind: actSubmit}, 0)
}

// publish appends to the output topic. Former is 1 for a publish that was begun in a former lineage.
func (s *state) publish(src, former uint8) Property {
	var broken Property
	if s.fired>>src&1 == 1 && s.excused>>src&1 == 0 {
		broken = S5
	}
	s.fired |= 1 << src
	if former == 1 {
		return broken
	}
	s.came |= 1 << src
	if s.cancelled>>src&1 == 1 {
		broken |= S19
	}
	if s.kept>>src&1 == 1 {
		broken |= Undone
	}
	return broken
}

func (s *state) excuse(src uint8) { s.excused |= 1 << src }

// claimable reports whether a claim finds the row.
func (s *state) claimable() bool {
	return s.store.row.inc != none && s.store.row.claim == none && s.store.phase != phaseHold &&
		s.store.phase != phaseCatching
}

// claim is the statement; it claims the row if it waits and nothing is still to be caught up with.
func (s *state) claim(node uint8) {
	if s.claimable() {
		s.store.row.claim, s.store.row.owner = fresh, node
	}
}

// deletion is what a delete asks for.
type deletion struct {
	inc, by, claim, node uint8
}

// delete is the statement.
func (m *machine) delete(s *state, d deletion) Property {
	var broken Property
	there := &s.store.row
	if there.inc != none && m.deletes(*there, d) {
		if s.fired>>there.src&1 == 0 {
			broken |= S2
		}
		*there = row{}
	}
	if there.is(d.inc, d.by) {
		broken |= S14
	}
	return broken
}

// deletes reports whether a delete finds the row.
func (m *machine) deletes(r row, d deletion) bool {
	switch {
	case m.rules.DeleteByID:
		return true
	case m.rules.DeleteByOwner:
		return r.claim != none && r.owner == d.node
	case m.rules.DeleteByClaim:
		return r.claim != none && r.claim == d.claim
	default:
		return r.is(d.inc, d.by)
	}
}

// reset is the statement. It turns the row back into a waiting one if the claim is the given one, or in any case.
func (s *state) reset(claim uint8, anyway bool) (effect bool, broken Property) {
	there := &s.store.row
	if there.claim == none || there.claim != claim && !anyway {
		return false, 0
	}
	if there.claim != claim {
		broken = S4
	}
	there.claim, there.owner = none, 0
	return true, broken
}

// unknown takes one of the unknown outcomes that the scope allows. If late, the request stays on its way.
func (s *state) unknown(late bool) bool {
	if s.unknowns == 0 || late && s.late.kind != lateNone {
		return false
	}
	s.unknowns--
	return true
}
