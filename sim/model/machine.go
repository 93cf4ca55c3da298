package model

// Scope bounds a world: which faults may happen, how often, and what the application does. Beyond that everything
// happens in every order, at every moment. Any number of claims is made.
type Scope struct {
	Name string

	// Crashes, Unknowns and Rebalances are how often a node crashes, a call has an unknown outcome, and the
	// partition is taken from a node that is alive: 0 to 3.
	Crashes, Unknowns, Rebalances uint8

	// Failover: the database may fail over once to a standby that lacks the last commits.
	Failover bool

	// Suspicions is how often a live claim is found too old, because its owner is slow: 0 to 2, or Unbounded.
	// Finding the claim of the dead, or one that nobody knows of, is free.
	Suspicions uint8

	// Batches is how many claims a node has in hand at once: 1 or 2.
	Batches int

	// Fired: the application uses the id again only after it has seen it fire; otherwise, whenever it likes.
	Fired bool

	// Lapsed: the deadline of a message may be past when it is consumed.
	Lapsed bool

	// Early: a message may be inserted as claimed by the inserting node.
	Early bool
}

// Unbounded is for Scope.Suspicions.
const Unbounded = 3

// Rules say how the algorithm deviates from ours. Each field is one deviation, made in one place; the zero value is
// the algorithm of package node.
type Rules struct {
	DeleteByID, DeleteByOwner, DeleteByClaim bool // in place of the incarnation

	Sequence         bool // incarnations are numbered by the database
	CommitFirst      bool // offsets are committed when records are polled
	UnknownIsSuccess bool // a publish of unknown outcome counts as acknowledged
	SkipUnpublished  bool // a lapsed message that could not be published is given up
	DeleteFirst      bool // a row is deleted before it is published
	ResetByID        bool // a detector resets whatever claim there is
	ReleaseByID      bool // an owner gives back whatever claim there is
	Upsert           bool // an insert replaces the row of its id
	BlindClaim       bool // a claim looks for a waiting row, and then updates it without looking again
	NoRewind         bool // offsets stay as they are when the database fails over
	UnfencedRewind   bool // offsets are rewound under the consumers of the same generation
	NoLook           bool // what has lapsed is published without looking into the store
	TakeUpAny        bool // a repeated insert takes up a claim that it has not asked for
	PublishOld       bool // a claim is published however old it is
	NoRecovery       bool // nobody resets claims
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
	m.late(s)
	m.strike(s)
	return m.steps
}

// add records a step that leads to s.
func (m *machine) add(s state, a action, broken Property) {
	m.canonical(&s)
	m.steps = append(m.steps, step{state: s, action: a, broken: broken | s.lost()})
}

// submit lets the application send a record.
func (m *machine) submit(s *state) {
	if s.submitted == 2 || s.submitted == 1 && m.scope.Fired && s.fired>>0&1 == 0 {
		return
	}
	t := *s
	t.submitted++
	m.add(t, action{kind: actSubmit}, 0)
}

// publish appends to the output topic.
func (s *state) publish(src uint8) Property {
	var broken Property
	if s.fired>>src&1 == 1 && s.excused>>src&1 == 0 {
		broken = S5
	}
	s.fired |= 1 << src
	return broken
}

func (s *state) excuse(src uint8) { s.excused |= 1 << src }

// ignore drops a submission for the row that is there.
func (s *state) ignore(src uint8) Property {
	if s.row.src == src {
		return 0 // another incarnation of the same submission
	}
	s.covered |= 1 << src
	switch {
	case src == 0 || s.fired>>0&1 == 0:
		return 0
	case s.row.again == 1:
		return U2
	default:
		return U1
	}
}

// insertion is what an insert asks for.
type insertion struct {
	src, inc uint8
	ready    bool
	node     uint8
}

// insert is the statement. It tells whether the row of that incarnation is there afterwards, and what was broken.
func (m *machine) insert(s *state, i insertion) (inserted bool, broken Property) {
	switch {
	case s.row.inc == none:
	case i.inc != none && s.row.inc == i.inc:
		return true, 0
	case m.rules.Upsert:
	default:
		return false, s.ignore(i.src)
	}
	s.row = row{inc: i.inc, src: i.src}
	if m.rules.Sequence {
		s.sequence = min(s.sequence+1, stale-1)
		s.row.inc = s.sequence
	}
	if i.ready {
		s.row.claim, s.row.owner = fresh, i.node
	}
	if m.scope.Fired && s.fired>>i.src&1 == 1 {
		s.row.again = 1
	}
	return true, 0
}

// claim is the statement; it claims the row if it waits.
func (s *state) claim(node uint8) {
	if s.row.inc != none && s.row.claim == none {
		s.row.claim, s.row.owner = fresh, node
	}
}

// deletion is what a delete asks for.
type deletion struct {
	inc, claim, node uint8
}

// delete is the statement.
func (m *machine) delete(s *state, d deletion) Property {
	var broken Property
	if s.row.inc != none && m.deletes(s.row, d) {
		if s.fired>>s.row.src&1 == 0 {
			broken |= S2
		}
		s.row = row{}
	}
	if s.row.inc != none && s.row.inc == d.inc {
		broken |= S14
	}
	return broken
}

// deletes tells whether a delete finds the row.
func (m *machine) deletes(r row, d deletion) bool {
	switch {
	case m.rules.DeleteByID:
		return true
	case m.rules.DeleteByOwner:
		return r.claim != none && r.owner == d.node
	case m.rules.DeleteByClaim:
		return r.claim != none && r.claim == d.claim
	default:
		return r.inc == d.inc
	}
}

// reset is the statement. It turns the row back into a waiting one if the claim is the given one, or in any case.
func (s *state) reset(claim uint8, anyway bool) (effect bool, broken Property) {
	if s.row.claim == none || s.row.claim != claim && !anyway {
		return false, 0
	}
	if s.row.claim != claim {
		broken = S4
	}
	s.row.claim, s.row.owner = none, 0
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
