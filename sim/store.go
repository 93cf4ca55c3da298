package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// storeServer is the database: the rows, a clock, row locks of transactions that take long, and what can go wrong with
// it. What it keeps is kept by a real store of one process (the memory store unless the setup says otherwise), which
// makes each call atomic at the instant at which it is applied. A request of a node is a transaction here
// (transaction.go); what it does to the rows is an effect (effect.go).
type storeServer struct {
	world *world
	rows  node.Store // the mutant's view of truth
	truth *truth
	clock clock
	open  func(now func() time.Time) node.Store

	refuses, silent, unfit int64 // until when it refuses, does not answer, refuses by an error of class 22
	stalled                int64 // until when its standby confirms nothing
	confirmed              int   // how much of the journal the standby had when it stalled
	cluttered              int64 // until when a claim wades through dead entries
	clutter                time.Duration

	// history numbers the servers that have been the store: another takes over after a failover, and the one that is
	// set back is another. A request that was sent to one does nothing at the next.
	history int

	lockWait time.Duration // see LockWait
	locks    map[lockable]int64
	foreign  map[lockable]int64      // those of sessions that are no node's
	unseen   map[node.MessageID]bool // the rows whose claims are not committed
	pending  []*claim                // those claims
	holders  []*transaction          // those that stay open, with their locks
	frozen   *time.Time              // what the clock says while the journal is replayed
	began    *time.Time              // what it said at the statement whose transaction ends now
	settings int                     // how often it was set
	journal  []journaled
	keeps    bool // whether the journal is kept
}

// lockable names what a transaction can lock: a row of a message, or the position of a partition.
type lockable struct {
	node.MessageID
	node.Partition
}

// journaled is one committed effect, kept where the last ones may be lost.
type journaled struct {
	when   int64 // true time
	at     time.Time
	effect effect
	caller *life
}

func newStoreServer(w *world, open func(now func() time.Time) node.Store) *storeServer {
	if open == nil {
		open = func(now func() time.Time) node.Store { return memory.New(now) }
	}
	s := &storeServer{
		world: w, open: open, lockWait: LockWait, locks: map[lockable]int64{}, foreign: map[lockable]int64{},
		unseen: map[node.MessageID]bool{},
		keeps:  w.options.Lossy || w.possible(SetBack) || w.possible(SetBackUnseen) || w.possible(StandbyStalls),
	}
	s.clock.offset = int64(w.options.StoreSkew)
	s.truth = newTruth(s)
	s.begin()
	return s
}

// begin begins with an empty store.
func (s *storeServer) begin() {
	s.truth.rows = s.open(s.now)
	if rows, plain := s.truth.rows.(*memory.Store); plain && s.world.mutant != nil {
		rows.Break(s.world.mutant.Broken)
	}
	s.rows = s.world.mutant.rows(s.truth)
}

// now is the store's clock.
func (s *storeServer) now() time.Time {
	if s.frozen != nil {
		return *s.frozen
	}
	if m := s.world.mutant; m != nil && m.NodeStamps && s.truth.caller != nil {
		return s.truth.caller.host.clock.wall(s.world.now)
	}
	return s.instant()
}

// instant is what the clock really says.
func (s *storeServer) instant() time.Time {
	if s.began != nil {
		return *s.began
	}
	return s.clock.wall(s.world.now)
}

// pause has somebody pause a lane, or the intake, and resume it later. Each is one transaction, which no fault
// strikes: whoever makes it tries until it has worked.
func (s *storeServer) pause(lane string, until int64) {
	s.switches(&pause{lane: lane, paused: true, server: s})
	s.world.at(until, action(func() { s.switches(&pause{lane: lane, server: s}) }), 0)
}

// switches pauses or resumes something.
func (s *storeServer) switches(e *pause) {
	e.apply(nil)
	if s.keeps {
		s.journal = append(s.journal, journaled{s.world.now, s.instant(), e, nil})
	}
}

func (s *storeServer) heal() {
	for _, p := range s.truth.pauses() {
		s.switches(&pause{lane: p.Lane, server: s})
	}
	now := s.world.now
	s.refuses, s.silent, s.unfit, s.cluttered = now, now, now, now
	s.stalled = min(s.stalled, now)
	s.endHolders()
}

// endHolders ends what stays open for long, as it would have ended later. Its locks must not go before it does:
//
//	node 4  claims x in a transaction that stays open: nobody sees the claim, and the row is locked
//	        the world heals, and nobody has a lock any more
//	app     asks to cancel x: it is too late, by a claim that is not committed and may yet be undone
func (s *storeServer) endHolders() {
	for _, t := range slices.Clone(s.holders) {
		t.do(callArrives)
		t.over = true
	}
	clear(s.locks)
}

// stall lets the standby, for which every commit waits, confirm nothing for a while.
func (s *storeServer) stall(until int64) {
	if s.world.now >= s.stalled {
		s.confirmed = len(s.journal)
	}
	s.stalled = max(s.stalled, until)
}

// failover takes the store away for a while. The standby that takes over has another clock. It lacks what it has not
// confirmed, and where commits are not waited for, the last ones.
func (s *storeServer) failover(away time.Duration, lost int) {
	w := s.world
	s.silent = max(s.silent, w.now+int64(away))
	step := time.Duration(stream(w.options.Seed, forClocks, -1, len(w.fired)).Int64N(int64(time.Second))) -
		500*time.Millisecond
	s.clock.offset += int64(step)
	w.recorder.storeStepped()
	keep := len(s.journal)
	if w.options.Lossy {
		keep -= min(lost, keep)
	}
	if w.now < s.stalled {
		keep = min(keep, s.confirmed)
		s.stalled = w.now
	}
	if keep < len(s.journal) {
		s.restore(keep, true, !w.options.Lossy)
	}
	s.replaced()
}

// setBack restores the store as it was some time ago, as from a backup. suspect says whether the server shows that it
// has another history.
func (s *storeServer) setBack(ago time.Duration, suspect bool) {
	keep := len(s.journal)
	for keep > 0 && s.journal[keep-1].when > s.world.now-int64(ago) {
		keep--
	}
	s.restore(keep, suspect, false)
	s.stalled = s.world.now
	s.replaced()
}

// replaced ends all connections to the server that was the store.
func (s *storeServer) replaced() {
	s.history++
	for _, c := range s.pending {
		s.undo(c)
	}
	s.pending, s.holders = nil, nil
	clear(s.locks)
	s.unlockRows(func(int64) bool { return true })
	clear(s.unseen)
}

// undo takes claims back that were not committed. Nobody has seen them.
func (s *storeServer) undo(c *claim) {
	s.truth.hold()
	c.undo(s.rows)
	s.truth.release()
}

// restore goes back to the first effects of the journal. confirmed says that they are all that anybody was told of.
func (s *storeServer) restore(keep int, suspect, confirmed bool) {
	w := s.world
	s.journal = s.journal[:keep]
	s.truth.forget()
	s.begin()
	s.truth.muted = true
	for i := range s.journal {
		entry := &s.journal[i]
		s.frozen, s.truth.caller, s.truth.only = &entry.at, entry.caller, nil
		if c, claims := entry.effect.(*claim); claims {
			s.truth.only = mapped(c.result.Messages, func(m node.Ready) node.MessageID {
				return node.MessageID{ID: m.ID, Lane: m.Lane}
			})
		}
		if _, claims := entry.effect.(*claim); claims {
			// It may have been decided before a pause that was committed before it.
			s.truth.blind(func(string) bool { return true }, func() { entry.effect.apply(s.rows) })
			continue
		}
		entry.effect.apply(s.rows)
	}
	s.frozen, s.truth.muted, s.truth.only = nil, false, nil
	s.truth.suspect = suspect
	if !s.migrated() {
		s.migrate()
	}
	w.count("rolled-back")
	w.recorder.rolledBack(s.truth, s.truth.lineage(), confirmed)
	if w.follow != nil {
		w.follow.restored(s.truth)
	}
}

// blocked returns when what a transaction needs is released, or false when nobody else has it.
func (s *storeServer) blocked(needs []lockable) (int64, bool) {
	if len(s.locks)+len(s.foreign) == 0 {
		return 0, false
	}
	var until int64
	for _, l := range needs {
		until = max(until, s.locks[l], s.foreign[l])
	}
	return until, until > s.world.now
}

// isLocked reports whether somebody has a lock.
func (s *storeServer) isLocked(l lockable) bool { return max(s.locks[l], s.foreign[l]) > s.world.now }

// locked reports whether a transaction that is open has a lock on a row: a claim skips it.
func (s *storeServer) locked(m *node.Message) bool { return s.isLocked(rowOf(m.ID, m.Lane)) }

// lockRows has a session of somebody else lock what is stored for a lane and nobody else has locked, until it ends. No
// healing ends it.
func (s *storeServer) lockRows(lane string, until int64) {
	if node.IsCallback(lane) && s.world.options.Ordered > 0 {
		return // whoever stands behind in a line waits, too, and nobody knows for how long
	}
	for _, name := range slices.SortedFunc(maps.Keys(s.truth.stored), compareIDs) {
		if l := rowOf(name.ID, name.Lane); name.Lane == lane && !s.isLocked(l) {
			s.foreign[l] = until
			s.world.recorder.locked(name)
			s.world.count("row-locked")
		}
	}
	s.world.at(until, action(func() {
		s.unlockRows(func(until int64) bool { return until <= s.world.now })
	}), 0)
}

// unlockRows ends the sessions of others that end.
func (s *storeServer) unlockRows(ends func(until int64) bool) {
	for _, l := range slices.SortedFunc(maps.Keys(s.foreign), func(a, b lockable) int {
		return compareIDs(a.MessageID, b.MessageID)
	}) {
		if ends(s.foreign[l]) {
			delete(s.foreign, l)
			s.world.recorder.unlocked(l.MessageID)
		}
	}
}

func compareIDs(a, b node.MessageID) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
}

func rowOf(id, lane string) lockable {
	return lockable{MessageID: node.MessageID{ID: id, Lane: lane}}
}

func (s *storeServer) lock(needs []lockable, until int64) {
	w := s.world
	for _, l := range needs {
		s.locks[l] = until
	}
	w.at(until, action(func() {
		for _, l := range needs {
			if s.locks[l] <= w.now {
				delete(s.locks, l)
			}
		}
	}), 0)
}
