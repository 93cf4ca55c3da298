package check

import (
	"slices"
	"strconv"
	"time"
)

// The outcomes of instructions, as an event has them.
const (
	scheduled   = "scheduled"
	ignored     = "ignored"
	replaced    = "replaced"
	rescheduled = "rescheduled"
	cancelled   = "cancelled"
	firedNow    = "fired"
	tooLate     = "too_late"
	stopped     = "stopped"
	notFound    = "not_found"
)

// The actions that the outcome depends on.
const (
	replace    = "replace"
	reschedule = "reschedule"
	cancel     = "cancel"
)

// decision is what there is to remember of an instruction until the events that follow it are there.
type decision struct {
	message  int
	former   bool // content that was replaced may come out
	doubtful bool // nobody knows, because of what was before the store was set back
	maybe    bool // nobody knows, because claims are not recorded
}

// pastKey names what an instruction that came past Kafka is about: one may be about many messages.
type pastKey struct {
	message int
	row     rowKey
}

// instructed takes over what was decided on an instruction, or that it is told.
func (s *state) instructed(e *Event) {
	switch e.Kind {
	case Answer:
		s.answered(e)
		return
	case Hear:
		// It is a promise: until somebody is told, nothing was promised of a message that was brought by HTTP.
		sub := s.submissions[e.Message]
		if sub != nil && sub.brought && sub.flaw == Unacknowledged && (e.Text == scheduled || e.Text == replaced) {
			sub.flaw = ""
		}
		return
	default:
	}
	s.decision = decision{message: e.Message}
	if e.Past || e.Request != (UUID{}) { // somebody waits for the answer
		about := pastKey{e.Message, e.row()}
		s.past[about] = append(s.past[about], e.Text)
	}
	if e.Request != (UUID{}) {
		s.requests[e.Request] = s.era
	}
	if sub := s.submissions[e.Message]; sub != nil && e.Text != scheduled && e.Text != replaced {
		sub.covered, sub.met = true, true
	}
	r := s.rows[e.row()]
	if r == nil {
		return
	}
	s.decision.former = r.former || e.Text == replaced && (r.touched() || e.Former)
	s.decision.doubtful = r.restored && !s.decision.former
	s.decision.maybe = (r.maybe || e.Text == replaced && !s.recorded[Claim]) && !s.decision.former
	switch e.Text {
	case tooLate:
		r.bound, r.promised = true, true
	case stopped:
		r.stopped, r.bound = true, true // it is named as the last one: a later cancel does not take it back
	case cancelled, replaced:
		if !s.decision.former && !s.decision.doubtful || e.Text == cancelled {
			s.bar(r, e)
		}
		r.covered, r.gone = true, e.At
		r.kept--
		delete(s.rows, r.key)
		s.leave(r, e.At)
		s.lets(r, e.At)
	case rescheduled, firedNow:
		i := s.incarnations[e.Next]
		if i == nil {
			i = &incarnation{submission: r.submission, id: e.Next, made: e.At}
			s.incarnations[i.id] = i
		}
		i.rows++
		s.bar(r, e)
		i.barred = 0 // it was there before, if the store was set back since
		s.lets(r, e.At)
		i.deadline, i.at = e.Deadline, e.At
		i.asks(e.Deadline)
		s.add(&row{
			incarnation: i, key: r.key, deadline: e.Deadline, due: e.Due, bound: e.Text == firedNow, former: r.former,
			maybe: r.maybe, restored: r.restored, stopped: r.stopped, promised: e.Text == firedNow,
			behind: r.behind && e.Text == firedNow, // it may have come forward, and been due already
		}, e)
	}
}

// bar notes that somebody was told that a message does not come out as it is.
func (s *state) bar(r *row, e *Event) {
	r.barred = s.era
	r.told, r.toldIn = e.At, s.era
}

// answered makes an answer a submission of its own.
func (s *state) answered(e *Event) {
	answer := s.submissions[e.Message]
	if answer == nil {
		answer = &submission{number: e.Message, key: e.row(), at: e.At, of: e.Of, partition: notInKafka}
	} else {
		answer.excused("it was lost when the store was set back, and given anew")
	}
	answer.deadline, answer.asked, answer.said, answer.former = e.Deadline, e.Deadline, e.Text, ""
	answer.appended++
	switch {
	case s.decision.message != e.Of:
		answer.former = "false" // it was no valid instruction
	case !s.decision.doubtful && !s.decision.maybe:
		answer.former = strconv.FormatBool(s.decision.former)
	}
	s.submissions[e.Message] = answer
	if sub := s.submissions[e.Of]; sub != nil {
		sub.answered++
	}
}

// touched reports whether somebody may have published what the row is.
func (r *row) touched() bool { return r.ready() || r.attempts > 0 }

// right returns the outcome that an instruction has to have, by what is known of the row that it meets; "" if that is
// not known for certain.
func (s *state) right(e *Event) string {
	r := s.rows[e.row()]
	// Where nobody records claims, a message may have been in somebody's hands: either outcome is right.
	held := r != nil && (r.bound || r.touched() || !s.recorded[Claim] && (e.Text == tooLate || e.Text == stopped))
	switch {
	case e.Only != (UUID{}) && (r == nil || r.id != e.Only):
		return notFound
	case r == nil && (e.Action == "schedule" || e.Action == replace):
		return scheduled
	case r == nil:
		return notFound
	case e.Action == "schedule":
		return ignored
	case e.Action == replace:
		return replaced
	case held && e.Action == cancel && r.series != nil:
		return stopped
	case held:
		return tooLate
	case r.restored:
		return "" // nobody knows what it was through before
	case e.Action == cancel:
		return cancelled
	case e.Action == reschedule:
		return rescheduled
	default: // fire
		return firedNow
	}
}

// s19 is the invariant S19, cancelled stays cancelled.
func s19(s *state, e *Event) finding {
	if e.Kind == Decide {
		r := s.rows[e.row()]
		gone := e.Text == cancelled || e.Text == rescheduled || e.Text == firedNow
		switch {
		case r == nil || !gone:
		case r.touched():
			return brokenBy(r.submission, "it is %s, and was claimed", e.Text)
		case r.published > 0 && !r.restored && r.made > s.setBack: // not only before the store was set back
			return brokenBy(r.submission, "it is %s, and has come out", e.Text)
		}
		return holds()
	}
	i := s.incarnations[e.Incarnation]
	if i != nil && s.escaped(i, e) {
		return brokenBy(i.submission, "it comes out by a claim from before the lineage, and somebody was told that it "+
			"does not")
	}
	if i == nil || i.barred != s.era || s.jumped >= 0 {
		return holds()
	}
	held := e.At - e.Age
	if e.Kind == Fire {
		held = i.held
	}
	doubtful := i.made <= s.setBack // a claim from before may be held on it, and the store does not know
	if doubtful && (e.Kind == Fire && i.begun <= s.begun || held <= s.setBack && s.begun < s.setBack) {
		return holds() // by a claim, or a publish, of which the store that was set back knows nothing
	}
	return brokenBy(i.submission, "it comes out, and somebody was told that it does not")
}

// escaped reports whether a publish begins by a claim that a store that was set back has forgotten, after somebody was
// told in the new lineage that the message does not come out. A process that was stopped meanwhile does not know how
// old its claim is.
func (s *state) escaped(i *incarnation, e *Event) bool {
	sub := i.submission
	stopped := e.At-i.since > e.Age+s.config.ClockError+s.config.StoreTimeout/100
	return e.Kind == Publish && e.Topic == sub.key.topic && sub.toldIn == s.era && sub.told < e.At &&
		i.barred != s.era && s.setBack >= 0 && i.made <= s.setBack && s.rows[i.key] == nil && s.jumped < 0 && !stopped
}

// s20 is the invariant S20, too late comes out. What is still stored is for L2, and what was deleted for S2, except an
// occurrence that is passed over. One that was stopped may be: it was named as the last that may come.
func s20(s *state, e *Event) finding {
	if e.Kind != Decide {
		r := s.rowOf(e)
		if r != nil && r.promised && r.published == 0 && r.loose == 0 && !r.restored &&
			!s.ended(r.submission, e) && !s.givenUp(r, e) {
			return brokenBy(r.submission, "it is settled and has not come out, and somebody was told that it comes out")
		}
		return holds()
	}
	r := s.rows[e.row()]
	if r != nil && r.bound && (e.Text == cancelled || e.Text == rescheduled || e.Text == firedNow) {
		return brokenBy(r.submission, "it is %s, and somebody was told that it comes out", e.Text)
	}
	return holds()
}

// s21 is the invariant S21, one outcome. That it is delivered is for S1 and L2, which judge an answer as they judge any
// submission.
func s21(s *state, e *Event) finding {
	switch sub := s.submissions[e.Message]; e.Kind {
	case Decide:
		if want := s.right(e); want != "" && e.Text != want {
			return brokenBy(sub, "%s is answered %s, and it has to be %s", e.Action, e.Text, want)
		}
	case Hear:
		if decided := s.past[pastKey{e.Message, e.row()}]; !slices.Contains(decided, e.Text) {
			return brokenBy(sub, "an operator is told that %s is %s, and %v was decided", e.ID, e.Text, decided)
		}
	case Answer:
		if sub := s.submissions[e.Of]; sub != nil && sub.answered >= sub.appended {
			return brokenBy(sub, "it is answered %d times in one lineage, and was submitted %d times", sub.answered+1,
				sub.appended)
		}
	case Take:
		if sub != nil && sub.action != "" && !e.Skipped && sub.answered == 0 &&
			len(s.past[pastKey{e.Message, sub.key}]) == 0 {
			return brokenBy(sub, "it is taken in, and not answered")
		}
	default: // Fire
		if sub != nil && sub.appended > 1 {
			return holds() // nobody knows which of them it is
		}
		if sub != nil && sub.of > 0 && e.Text != sub.said {
			return brokenBy(s.submissions[sub.of], "%s is told, and %s was decided", e.Text, sub.said)
		}
		if sub != nil && sub.of > 0 && sub.former != "" && sub.former != strconv.FormatBool(e.Former) {
			return brokenBy(s.submissions[sub.of], "it is told %v that replaced content may appear", e.Former)
		}
		if of := s.submissionOf(sub); of != nil && e.Key != of.digest {
			return brokenBy(of, "its outcome has another key")
		}
	}
	return holds()
}

// submissionOf returns the submission that an answer is about, nil for what is none.
func (s *state) submissionOf(answer *submission) *submission {
	if answer == nil || answer.of == 0 {
		return nil
	}
	return s.submissions[answer.of]
}

// notInKafka is the partition of what the store has made itself.
const notInKafka = "-"

// recur puts the next occurrence of a series in the place of one.
func (s *state) recur(e *Event) {
	r := s.rowOf(e)
	if r == nil {
		return
	}
	series := r.series
	next := s.submissions[e.Message]
	if next == nil {
		next = &submission{
			number: e.Message, key: r.key, payload: r.payload, at: e.At, appended: 1, partition: notInKafka,
			sequence: e.Nth, series: series,
		}
		s.submissions[e.Message] = next
	} else {
		next.excused("the series was begun again")
	}
	next.deadline, next.asked, next.at = e.Deadline, e.Deadline, e.At
	next.inserts++
	next.stored++
	r.kept--
	r.gone = e.At
	r.covered = r.covered || r.published+r.loose == 0 // it was passed over
	// A store that was set back makes the next occurrence again, under the incarnation that it had: what has come out
	// of it is known. The one after it may follow in the same call:
	//
	//	node 1  publishes occurrence 2, and asks for 3 in its place: done, and the reply is lost
	//	node 1  publishes occurrence 3
	//	        the store is set back: occurrence 2 waits
	//	node 1  asks for 3 in the place of 2 again, and for 4 in the place of 3, in one call
	i := s.incarnations[e.Next]
	if i == nil || i.submission != next {
		i = &incarnation{submission: next, id: e.Next, made: e.At}
		s.incarnations[i.id] = i
	}
	i.rows++
	i.asks(e.Deadline)
	s.add(&row{
		incarnation: i, key: r.key, deadline: e.Deadline, due: e.Deadline, former: r.former, maybe: r.maybe,
		restored: r.restored,
	}, e)
}

// tolerance is how late an occurrence may be without having been missed.
const tolerance = time.Minute

// missed reports whether a node may think that it has missed an occurrence, by the clock that it has.
func (s *state) missed(r *row, e *Event) bool {
	return e.At-r.deadline+s.config.ClockError > tolerance || s.process(e.Node).jumped >= 0
}

// s22 is the invariant S22, occurrences. That none comes before its time is for S8, and that none is repeated without
// an excuse for S5.
func s22(s *state, e *Event) finding {
	if e.Kind == Fire {
		sub := s.submissions[e.Message]
		if sub != nil && sub.series != nil && sub.fires == 0 && sub.sequence < sub.series.reached && s.setBack < 0 &&
			sub.excuse == "" && sub.series.excuse == "" {
			return brokenBy(sub, "occurrence %d appears after occurrence %d", sub.sequence, sub.series.reached)
		}
		return holds()
	}
	r := s.rowOf(e)
	switch {
	case r == nil && e.Kind == Recur:
		return brokenBy(nil, "%s goes on, and is not stored", e.ID)
	case r == nil || r.series == nil || r.key != r.series.key:
		return holds()
	case e.Kind == Delete:
		if r.sequence < r.series.times && !r.stopped && !s.missed(r, e) && !r.restored {
			return brokenBy(r.submission, "its series ends after occurrence %d of %d", r.sequence, r.series.times)
		}
		return holds()
	case r.published == 0 && r.loose == 0 && !s.missed(r, e) && !s.givenUp(r, e):
		return brokenBy(r.submission, "occurrence %d is passed over, and was not missed", r.sequence)
	case r.stopped:
		return brokenBy(r.submission, "it goes on, and occurrence %d was said to be the last", r.sequence)
	case e.Nth != r.sequence+1 && !s.missed(r, e), e.Nth <= r.sequence, e.Nth > r.series.times:
		return brokenBy(r.submission, "occurrence %d follows occurrence %d of %d", e.Nth, r.sequence, r.series.times)
	case e.Deadline != r.series.asked+time.Duration(e.Nth-1)*r.series.every:
		return brokenBy(r.submission, "occurrence %d is due %v after the first, and the interval is %v", e.Nth,
			e.Deadline-r.series.asked, r.series.every)
	}
	return holds()
}
