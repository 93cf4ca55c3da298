package check

import "strconv"

// The outcomes of instructions, as an event has them.
const (
	scheduled   = "scheduled"
	ignored     = "ignored"
	replaced    = "replaced"
	rescheduled = "rescheduled"
	cancelled   = "cancelled"
	firedNow    = "fired"
	tooLate     = "too_late"
	notFound    = "not_found"
)

// The actions that the outcome depends on.
const (
	replace    = "replace"
	reschedule = "reschedule"
	cancel     = "cancel"
	fireNow    = "fire"
)

// decision is what there is to remember of an instruction until the events that follow it are there.
type decision struct {
	message  int
	former   bool // content that was replaced may come out
	doubtful bool // nobody knows, because of what was before the store was set back
}

// instructed takes over what was decided on an instruction, or that it is told.
func (s *state) instructed(e *Event) {
	if e.Kind == Answer {
		s.answered(e)
		return
	}
	s.decision = decision{message: e.Message}
	if sub := s.submissions[e.Message]; sub != nil && e.Text != scheduled && e.Text != replaced {
		sub.covered, sub.met = true, true
	}
	r := s.rows[e.row()]
	if r == nil {
		return
	}
	s.decision.former = r.former || e.Text == replaced && r.touched()
	s.decision.doubtful = r.restored && !s.decision.former
	switch e.Text {
	case tooLate:
		r.bound = true
	case cancelled, replaced:
		r.barred = !s.decision.former && !s.decision.doubtful || e.Text == cancelled
		r.covered, r.gone = true, e.At
		r.submission.kept--
		delete(s.rows, r.key)
	case rescheduled, firedNow:
		r.barred = true
		i := &incarnation{submission: r.submission, id: e.Next, rows: 1}
		s.incarnations[i.id] = i
		r.submission.kept--
		i.deadline, i.at = e.Deadline, e.At
		s.add(&row{
			incarnation: i, key: r.key, deadline: e.Deadline, due: e.Due, bound: e.Text == firedNow, former: r.former,
			restored: r.restored,
		}, e)
	}
}

// answered makes an answer a submission of its own.
func (s *state) answered(e *Event) {
	answer := &submission{
		number: e.Message, key: e.row(), deadline: e.Deadline, asked: e.Deadline, at: e.At, appended: 1, of: e.Of,
		said: e.Text,
	}
	switch {
	case s.decision.message != e.Of:
		answer.former = "false" // it was no valid instruction
	case !s.decision.doubtful:
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
	switch {
	case r == nil && (e.Action == "schedule" || e.Action == replace):
		return scheduled
	case r == nil:
		return notFound
	case e.Action == "schedule":
		return ignored
	case e.Action == replace:
		return replaced
	case r.bound || r.touched():
		return tooLate
	case r.restored:
		return "" // nobody knows what it was through before
	case e.Action == cancel:
		return cancelled
	case e.Action == reschedule:
		return rescheduled
	default: // fireNow
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
		case r.published > 0 && !r.restored: // not only in an earlier lineage
			return brokenBy(r.submission, "it is %s, and has come out", e.Text)
		}
		return holds()
	}
	i := s.incarnations[e.Incarnation]
	if i == nil || !i.barred || s.jumped >= 0 {
		return holds()
	}
	since := e.At - e.Age
	if e.Kind == Fire {
		since = i.begun
	}
	if i.doubtful && (e.Kind == Fire && since <= s.begun || since <= s.setBack && s.begun < s.setBack) {
		return holds() // by a claim, or a publish, of which the store that was set back knows nothing
	}
	return brokenBy(i.submission, "it comes out, and somebody was told that it does not")
}

// s20 is the invariant S20, too late comes out. What is still stored then is for L2.
func s20(s *state, e *Event) finding {
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
	case Answer:
		if sub := s.submissions[e.Of]; sub != nil && sub.answered >= sub.appended {
			return brokenBy(sub, "it is answered %d times in one lineage, and was submitted %d times", sub.answered+1,
				sub.appended)
		}
	case Take:
		if sub != nil && sub.action != "" && !e.Skipped && sub.answered == 0 {
			return brokenBy(sub, "it is taken in, and not answered")
		}
	default: // Fire
		if sub != nil && sub.of > 0 && e.Text != sub.said {
			return brokenBy(s.submissions[sub.of], "%s is told, and %s was decided", e.Text, sub.said)
		}
		if sub != nil && sub.of > 0 && sub.former != "" && sub.former != strconv.FormatBool(e.Former) {
			return brokenBy(s.submissions[sub.of], "it is told %v that replaced content may appear", e.Former)
		}
	}
	return holds()
}
