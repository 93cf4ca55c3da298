package check

import "time"

// apply takes over what an event says. The invariants have looked at it before.
func (s *state) apply(e *Event) {
	switch e.Kind {
	case Configure:
		s.config = *e.Config
		for _, k := range e.Config.Recorded {
			s.recorded[k] = true
		}
	case Submit:
		s.submit(e)
	case Truncate, Retain, Drop, Lost:
		s.shrunk(e)
	case Place, Upgrade, Take, Move, Lineage, Mark, CaughtUp, Rollback, KeepPlace, Taken:
		s.positioned(e)
	case Fire, Copy, Publish, Unknown, Fail:
		s.appeared(e)
	case See:
		if sub := s.submissions[e.Message]; sub != nil {
			sub.seen++
		}
	case Recur:
		s.recur(e)
	case Decide, Answer, Hear:
		s.instructed(e)
	case Insert, Claim, Reset, Delete, Keep, Duplicate, Ready:
		s.changed(e)
	case Deliver, Commit, Rewind, Reject:
		s.consumed(e)
	case Start, Term, Stop, Crash, Jump, Cut, Mend, Join, Leave, Error:
		s.lived(e)
	case Fault, Hang, Unreached, Work, Heal:
		s.went(e)
	case Pause, Resume:
		s.steered(e)
	case Lock, Unlock:
		s.lockedBy(e)
	case PutQueue, DropQueue, Arrive, Done, Promise, Withdraw, Begin, QueueGone, KeepQueue, KeepTask, Call, Accept,
		Told:
		s.toldOfTasks(e)
	case Poll, DeleteDone, End: // they only say what must hold
	}
}

func (s *state) appeared(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		return
	}
	switch e.Kind {
	case Publish:
		s.publish(sub, e)
		return
	case Unknown:
		sub.excused("a publish of unknown outcome")
		s.failed(e)
		return
	case Fail:
		s.unsent(e)
		s.failed(e)
		return
	case Copy:
		sub.copies++
	default:
		s.fired(sub, e)
		s.reached(e)
		s.unpark(e)
	}
	i, known := s.published(e)
	if i != nil && s.healed >= 0 && !e.Twice {
		i.after++
	}
	if known {
		i.published++
	} else {
		sub.loose++
	}
}

func (s *state) publish(sub *submission, e *Event) {
	p := s.process(e.Node)
	s.begins(e)
	if e.Nth == 0 || p.call == 0 {
		s.publishes++
		p.call = s.publishes
	}
	if i := s.incarnations[e.Incarnation]; i != nil {
		i.begun, i.held = e.At, e.At-e.Age
		p.calls(i, e, s.config.HoldTime)
	}
	if e.Topic != sub.key.topic {
		return
	}
	if sub.attempts++; sub.attempts == 1 {
		sub.call, sub.nth = p.call, int32(e.Nth)
	} else {
		sub.call = -1 // a record that appears may be of either
	}
}

func (s *state) fired(sub *submission, e *Event) {
	if sub.fires == 0 {
		sub.first = e.At
		if sub.of > 0 {
			sub.payload = e.Payload // it is the same each time
		}
		if sub.series != nil {
			sub.series.reached = max(sub.series.reached, sub.sequence)
		}
	}
	sub.fires++
	if e.Key == 0 {
		return
	}
	key := placedKey{sub.key.topic, e.Key}
	if e.Partition != "" {
		s.placed[key] = e.Partition
	}
	if sub.call > 0 {
		s.appended[appendedKey{key, sub.call}] = sub.nth
	}
}

// failed takes note of a publish that did not end with an acknowledgement.
func (s *state) failed(e *Event) {
	p := s.process(e.Node)
	if e.Topic != "" {
		p.failed[e.Topic] = e.At
	}
	i, _ := s.published(e)
	if i == nil {
		return
	}
	i.failedAt = e.At
	i.last.end(e.At)
	if e.Kind == Unknown {
		if i.unsure == nil {
			i.unsure = map[string]time.Duration{}
		}
		i.unsure[e.Node] = i.begun
		i.calls, i.called = i.calls+1, e.At
	}
	for _, r := range []*row{s.rows[i.key], s.rows[i.copied]} {
		if r != nil && r.incarnation == i && e.Text != Unread {
			p.failed[r.key.topic] = e.At
		}
	}
	if i.rejections+i.failed == 0 {
		i.tried = e.At
	}
	if e.Kind == Fail && e.Text == Rejected {
		i.rejections++
	} else {
		i.failed++
	}
	if i.failedBy == nil {
		i.failedBy = map[string]time.Duration{}
	}
	i.failedBy[e.Node] = e.At
	if sub := i.submission; e.Topic != "" && e.Topic != sub.key.topic {
		if sub.copyFailed == nil {
			sub.copyFailed = map[string]time.Duration{}
		}
		sub.copyFailed[e.Node] = e.At
	}
}

func (s *state) changed(e *Event) {
	r := s.rowOf(e)
	switch {
	case e.Kind == Insert:
		s.insert(e)
	case e.Kind == Keep:
		s.keep(e)
	case e.Kind == Duplicate:
		if sub := s.submissions[e.Message]; sub != nil {
			sub.covered, sub.met = true, true
		}
	case r == nil:
	case e.Kind == Claim:
		s.claim(r, e)
	case e.Kind == Reset:
		s.reset(r, e)
	case e.Kind == Delete:
		delete(s.rows, r.key)
		s.leave(r, e.At)
		r.gone = e.At
		r.last.answered(s.config.BrokerLatency)
		if r.key != r.submission.key {
			r.letters++
		}
		// It was passed over, or its time has passed, or it was given up.
		r.covered = r.covered || r.published+r.loose == 0 &&
			(r.series != nil || r.notAfter > 0 || s.config.RetryFor > 0 && isCallback(r.key.topic))
		r.kept--
	default: // Ready
		switch p := s.process(e.Node); {
		case !r.behind:
			p.due[e.Topic] = r.due
		case e.Nth == 0: // its due time may be an earlier one by now
			p.due[e.Topic] = min(r.due, r.deadline)
		}
	}
}

func (s *state) insert(e *Event) {
	sub := s.submissions[e.Message]
	if sub == nil {
		return
	}
	i := s.incarnations[e.Incarnation]
	if i == nil {
		i = &incarnation{submission: sub, id: e.Incarnation, made: e.At}
		s.incarnations[i.id] = i
	}
	if e.row() != sub.key {
		i.copied = e.row()
		sub.lettered = true
	}
	if sub.brought && sub.inserts == 0 {
		sub.at = e.At
	}
	if sub.inserts++; e.row() == sub.key {
		sub.deadline = e.Deadline
		i.asks(e.Deadline)
	}
	if !s.isLetter(sub, e) {
		sub.stored++
	}
	i.rows++
	r := &row{incarnation: i, key: e.row(), deadline: e.Deadline, due: e.Deadline, placed: true}
	if s.decision.message == e.Message {
		r.former, r.restored, r.maybe = s.decision.former, s.decision.doubtful, s.decision.maybe
	}
	s.add(r, e)
	if e.Owner != (UUID{}) {
		s.claim(s.rows[e.row()], e)
	}
}

// keep takes over a row that was there before.
func (s *state) keep(e *Event) {
	i := s.incarnations[e.Incarnation]
	if i == nil {
		return
	}
	if e.Deadline != 0 && e.row() == i.key {
		i.deadline = e.Deadline
		i.asks(e.Deadline)
	}
	deadline, due := e.Deadline, e.Due
	if deadline == 0 { // it is not told
		if deadline = i.deadline; e.Topic != i.key.topic {
			deadline = i.at // a copy is due at once
		}
		due = max(deadline, due)
	}
	since := e.At
	if e.Owner != (UUID{}) && e.Stamp == i.stamp {
		since = i.since // the last claim on it was not lost
	}
	s.add(&row{
		incarnation: i, key: e.row(), deadline: deadline, due: due,
		owner: e.Owner, stamp: e.Stamp, expires: e.Expires, since: since, restored: true, behind: s.config.Ordered,
	}, e)
}

// add stores a row.
func (s *state) add(r *row, e *Event) {
	r.waiting, r.ahead = e.At, len(s.lane(r.key.topic).takings)
	if before := s.rows[r.key]; before != nil {
		before.kept--
		s.leave(before, e.At)
	}
	s.rows[r.key] = r
	s.join(r, e.At)
	r.kept++
}

func (s *state) claim(r *row, e *Event) {
	r.owner, r.stamp, r.expires, r.since = e.Owner, e.Stamp, e.Expires, e.At
	r.incarnation.stamp, r.incarnation.since = e.Stamp, e.At
	r.claims++
	r.attempts++
	l := s.lane(r.key.topic)
	l.takings = append(l.takings, taking{r.due, e.Kind == Insert})
	if s.healed < 0 {
		r.before++
	}
}

func (s *state) reset(r *row, e *Event) {
	switch {
	case !s.own(e):
		r.excused("suspected")
	case !e.Unsent:
		r.excused("given back by its owner")
	}
	if e.Unsent && r.attempts > 0 {
		r.attempts--
	}
	r.owner, r.stamp, r.expires = UUID{}, 0, 0
	r.waiting, r.ahead = e.At, len(s.lane(r.key.topic).takings)
	s.park(r, e)
	if l := s.lineOf(r); l != nil && !e.Behind {
		l.left = e.At // it is in nobody's way any more
	}
	if e.Due != 0 {
		r.due, r.behind = e.Due, e.Behind
	}
}

// own reports whether a claim is reset by its owner.
func (s *state) own(e *Event) bool {
	return e.Node != "" && s.process(e.Node).id == e.Owner
}

// hold returns how long the claim on a row holds.
func (s *state) hold(r *row) time.Duration {
	if r.expires == 0 {
		return s.config.HoldTime
	}
	return r.expires - r.stamp
}

func (s *state) lived(e *Event) {
	if e.Kind != Error || e.Port == "store" {
		s.goesWrong(e.At)
	}
	if e.Kind == Jump && e.Node == "" {
		s.jumped = e.At
		s.tasks.jumped(e)
		return
	}
	p := s.process(e.Node)
	switch e.Kind {
	case Start:
		p.id, p.started, p.windows = e.Owner, e.At, e.Windows
		s.rewindowed = s.rewindowed || e.Windows != nil
		s.ids[p.id] = p
	case Term:
		p.stopping = true
		s.faults++
		s.terms++
		s.fault = e.At
	case Stop, Crash:
		p.dead, p.member = true, false
		s.cuts -= count(p.cut >= 0)
	case Jump:
		p.jumped = e.At
	case Cut:
		if e.Port == "store" && p.cut < 0 {
			p.cut = e.At
			s.cuts++
		}
		p.cutOff = p.cutOff || e.Port == "broker"
	case Mend:
		if e.Port == "store" {
			s.cuts -= count(p.cut >= 0)
			p.cut = -1
		} else {
			p.cutOff = false
		}
	case Join:
		p.member, p.joined = true, e.At
	case Leave:
		p.member = false
	default: // Error
		p.erred(e)
	}
}

// erred counts the failures of a call within a second.
func (p *process) erred(e *Event) {
	call := e.Port + " " + e.Text
	b := p.errors[call]
	if b == nil || e.At-b.since >= time.Second {
		b = &burst{since: e.At}
		p.errors[call] = b
	}
	b.count++
}

// goesWrong takes note that something is wrong at an instant, or until then. What lasts is not over because something
// else goes wrong meanwhile.
func (s *state) goesWrong(at time.Duration) { s.wrong = max(s.wrong, at) }

// went takes note of what happens to the world.
func (s *state) went(e *Event) {
	switch e.Kind {
	case Fault:
		s.faults++
		s.fault = e.At
		s.goesWrong(e.At)
		if p := s.processes[e.Node]; p != nil {
			p.away = max(p.away, e.Until)
		} else {
			s.goesWrong(e.Until)
		}
	case Hang, Unreached:
		s.hung(e)
	case Work:
	default: // Heal
		s.heal(e)
	}
}

// hung takes note of a topic that answers nobody, or of one of its partitions, or of one that some node does not reach.
func (s *state) hung(e *Event) {
	s.hangs++
	l := s.lane(e.Topic)
	l.hung = true
	if e.Partition == "" {
		l.whole = true
		return
	}
	if l.silent == nil {
		l.silent = map[string]map[string]bool{}
	}
	if l.silent[e.Partition] == nil {
		l.silent[e.Partition] = map[string]bool{}
	}
	l.silent[e.Partition][e.Node] = true
	if l.answers == nil {
		l.answers = map[string]time.Duration{}
	}
	l.answers[e.Partition] = max(l.answers[e.Partition], e.Until)
}

// steered takes note of a pause, or of its end. What waits meanwhile waits on purpose.
func (s *state) steered(e *Event) {
	s.goesWrong(e.At)
	if e.Kind == Resume {
		delete(s.paused, e.Topic)
		return
	}
	s.pauses++
	s.paused[e.Topic] = pause{e.At, e.Stamp}
}

// heal notes which claims belong to nobody who lives. The age of a claim that was made before the store's clock was set
// back is anybody's guess.
func (s *state) heal(e *Event) {
	s.healed, s.wrong = e.At, e.At
	for _, name := range s.processNames() {
		s.processes[name].away = 0
	}
	for _, r := range s.left() {
		if p := s.ids[r.owner]; r.ready() && r.since > s.jumped && (p == nil || p.dead) {
			r.orphan = true
		}
	}
}
