package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chronos/node"
)

// transaction is one request at the store. It arrives, waits for what others have locked, and takes effect: at once,
// or, if it is a long one, it takes its locks first and ends later, by a commit or by being undone. In between, others
// wait for it, and nobody sees what it does.
//
// Its effect is made when it commits: nothing that it depends on can change while it has the locks. A claim is the
// exception: it finds by itself what to lock. It is made at once, kept out of sight, and taken back if it is undone.
type transaction struct {
	*call

	effect   effect
	stage    stage
	history  int        // the server that it was sent to
	began    time.Time  // the store's clock when it took its locks
	settings int        // how often that had been set by then
	needs    []lockable // what it has locked
	secrets  []func()   // what nobody has seen yet
	patient  int64      // until when it waits for what others have locked; 0 if it has met nothing of that
	changed  bool       // it has changed something
	over     bool       // it was ended before its time: it does not end once more
}

// stage is how far a transaction has come.
type stage int

const (
	requested stage = iota // it has had no effect and has no locks
	locking                // it has its locks
	committed              // it has had its effect, and may have to wait for the standby
)

// mostCalls is how many calls of the store a process may have under way: one for each loop but those that make
// callbacks: the intake, two claimers, two settlers, four publishers, the detector and the keeper of queues. A
// node has eight connections to Postgres; with a call for each callback that fails, its claims would have to wait for
// one. What becomes of tasks is told by those who make their requests: the store itself bounds that.
const mostCalls = 11

// LockWait is how long a transaction waits for what others have locked, if it can do without that.
const LockWait = 50 * time.Millisecond

// perform sends the transaction and waits for its answer.
func (t *transaction) perform(ctx context.Context) error {
	l := t.task.life
	w := l.host.world
	t.history = w.store.history
	if t.op != opApply {
		l.calling++
		defer func() { l.calling-- }()
	}
	if l.calling > mostCalls {
		w.broken("engine", fmt.Sprintf("node %d has %d calls of the store under way", l.host.number, l.calling))
	}
	return t.call.perform(ctx, w.options.storeTimeout(), t)
}

// arrive implements served.
func (t *transaction) arrive() bool {
	w := t.task.life.host.world
	s := w.store
	switch {
	case t.over:
		return false
	case t.history != s.history:
		t.answer = errDisconnected
		return true
	case t.stage == committed:
		return t.confirmed()
	case t.stage == locking:
		return t.end()
	case w.now < s.silent:
		t.spoilt().unanswered = true
		return true
	case w.now < s.refuses:
		t.answer = errRefused
		return true
	case w.now < s.unfit:
		t.answer = errUnfit
		return true
	}
	if until, blocked := s.blocked(t.effect.needs(s.truth)); blocked {
		w.count("lock-wait")
		skips, is := t.effect.(skips)
		if is = is && (w.mutant == nil || !w.mutant.WaitsForLocks); is && t.patient == 0 {
			t.patient = w.now + int64(s.lockWait)
		}
		if !is || w.now < t.patient {
			again := until + 1 // after the commit
			if is {
				again = min(again, t.patient)
			}
			t.again(again)
			return false
		}
		w.count("busy")
		skips.skip(s.truth, s.isLocked)
	}
	if c, claims := t.effect.(*claim); claims && w.now < s.cluttered && !c.waded {
		// The statement takes that long, and is cancelled at its time limit.
		c.waded = true
		w.count("slow-claim")
		if w.now+int64(s.clutter) >= t.deadline {
			t.spoilt().lost = true
			w.at(t.deadline, t.call, callExpires)
			return false
		}
		t.again(w.now + int64(s.clutter))
		return false
	}
	if idle, takes := t.effect.(*take); t.locked == 0 || takes && idle.idle { // what changes nothing does not stay open
		t.began, t.settings = s.instant(), s.settings
		t.apply()
		return t.commit()
	}
	t.open()
	return false
}

// open takes the locks.
func (t *transaction) open() {
	w := t.task.life.host.world
	s := w.store
	until := w.now + int64(t.locked)
	t.stage, t.began, t.settings = locking, s.instant(), s.settings
	t.effect.see(s.truth)
	if c, claims := t.effect.(*claim); claims {
		s.truth.hold()
		t.apply()
		t.secrets = s.truth.release()
		for i := range c.result.Messages {
			m := &c.result.Messages[i]
			t.needs = append(t.needs, rowOf(m.ID, m.Lane))
			s.unseen[node.MessageID{ID: m.ID, Lane: m.Lane}] = true
		}
		s.pending = append(s.pending, c)
	} else {
		t.needs = t.effect.needs(s.truth)
	}
	s.lock(t.needs, until)
	s.holders = append(s.holders, t)
	t.again(until)
}

// end commits the transaction, or undoes it.
func (t *transaction) end() bool {
	s := t.task.life.host.world.store
	s.holders = slices.DeleteFunc(s.holders, func(other *transaction) bool { return other == t })
	c, claims := t.effect.(*claim)
	if claims {
		for _, l := range t.needs {
			delete(s.unseen, l.MessageID)
		}
		s.pending = slices.DeleteFunc(s.pending, func(other *claim) bool { return other == c })
	}
	if t.rolledBack {
		if claims {
			s.undo(c)
		}
		t.answer = errDisconnected
		return true
	}
	if claims {
		for _, secret := range t.secrets {
			secret()
		}
	} else {
		s.began = &t.began // a claim that it makes is as old as its statement
		t.apply()
		s.began = nil
	}
	return t.commit()
}

// commit makes the effect one that lasts, if the standby has it too.
func (t *transaction) commit() bool {
	w := t.task.life.host.world
	t.stage = committed
	if w.follow != nil && t.changed {
		w.follow.compare(w.store.truth)
	}
	if w.store.keeps && t.changed {
		w.store.journal = append(w.store.journal, journaled{w.now, t.began, t.effect, t.task.life})
	}
	return t.confirmed()
}

// apply makes the effect.
func (t *transaction) apply() {
	l := t.task.life
	w := l.host.world
	s := w.store
	t.effect.limit(t.call)
	s.truth.caller, s.truth.settings = l, t.settings
	if skips, is := t.effect.(skips); is {
		skips.again(s.truth)
	}
	before := s.truth.changes
	t.effect.apply(s.rows)
	t.changed = s.truth.changes > before
	if e, takes := t.effect.(*take); takes && e.err != nil {
		t.answer = e.err
	}
	if c, claims := t.effect.(*claim); claims {
		w.recorder.asked(l, &c.request, c.result.Messages)
		for i := range c.result.Messages {
			w.digest.text(c.result.Messages[i].ID)
		}
	}
	if e, settles := t.effect.(*settle); settles {
		if refs := e.removals(); len(refs) > 0 {
			w.recorder.deleteDone(l, refs)
		}
	}
	t.answerSize = t.effect.answerSize()
	if w.observe != nil {
		w.step(t.stepOf(StepApplied, ""))
	}
}

// confirmed reports whether the standby has confirmed what the answer rests on. Until then there is no answer, whether
// the caller waits or not, and a failover may take the effect back.
func (t *transaction) confirmed() bool {
	w := t.task.life.host.world
	s := w.store
	hasty := w.mutant != nil && w.mutant.Unconfirmed && !t.changed
	if w.now >= s.stalled || !t.effect.waits() || hasty {
		return true
	}
	w.count("unconfirmed")
	t.again(s.stalled)
	return false
}
