package check

import (
	"cmp"
	"slices"
	"time"
)

// lineKey names a line: the messages of one key, by its digest, on one lane.
type lineKey struct {
	topic string
	key   uint64
}

// line is what stands in a line.
type line struct {
	rows []*row
	left time.Duration // when the last one left it, or was given back that had its turn; 0 for never

	// instructed is when one was last removed, moved or replaced in it, which brings nobody forward.
	instructed time.Duration
}

// lined reports whether an incarnation stands in a line.
func (i *incarnation) lined(s *state) bool {
	return s.config.Ordered && isCallback(i.key.topic) && i.keyed() != 0
}

// keyed returns the digest of the key of a submission, or of its series.
func (sub *submission) keyed() uint64 {
	if sub.series != nil {
		return sub.series.digest
	}
	return sub.digest
}

// lineOf returns the line that a row stands in, nil for none.
func (s *state) lineOf(r *row) *line {
	if !r.lined(s) || r.key != r.incarnation.key {
		return nil
	}
	key := lineKey{r.key.topic, r.keyed()}
	if s.lines[key] == nil {
		s.lines[key] = &line{}
	}
	return s.lines[key]
}

// join has a row stand in its line.
func (s *state) join(r *row, at time.Duration) {
	if l := s.lineOf(r); l != nil {
		r.joined = at
		l.rows = append(l.rows, r)
	}
}

// leave takes it out.
func (s *state) leave(r *row, at time.Duration) {
	if l := s.lineOf(r); l != nil {
		l.rows = slices.DeleteFunc(l.rows, func(other *row) bool { return other == r })
		l.left = at
	}
}

// lets notes that an instruction may have made way for the next one of the line of a row.
func (s *state) lets(r *row, at time.Duration) {
	if l := s.lineOf(r); l != nil {
		l.instructed = at
	}
}

// comesBefore reports whether a row comes before another one of its line.
func (r *row) comesBefore(other *row) bool {
	return cmp.Or(cmp.Compare(r.deadline, other.deadline), cmp.Compare(r.key.id, other.key.id)) < 0
}

// standsBack reports whether a row may have been claimed when it was not its turn: while another one of its line was
// there.
func (s *state) standsBack(r *row) bool {
	l := s.lineOf(r)
	return l != nil && (len(l.rows) > 1 || l.left > 0 && l.left >= r.since)
}

// s28 is the invariant S28, in line. Of what was stored while a claim was being made, the claim may know or not. A
// claim that was lost with a store that was set back, or expired early because the store's clock was set, keeps nobody
// else away.
func s28(s *state, e *Event) finding {
	i := s.incarnations[e.Incarnation]
	if i == nil {
		return holds()
	}
	r := s.rows[i.key]
	if r == nil || r.incarnation != i || r.owner != s.process(e.Node).id {
		return holds()
	}
	l := s.lineOf(r)
	hold := s.hold(r)
	lost := s.setBack >= 0 && e.At < s.setBack+2*hold || s.jumped >= 0 && e.At < s.jumped+2*hold
	if l == nil || lost {
		return holds()
	}
	for _, other := range l.rows {
		switch {
		case other == r:
		case other.ready() && other.begun >= other.since:
			return brokenBy(r.submission, "it is published while %s, of the same key, is out since %v", other.key.id,
				other.begun)
		case other.comesBefore(r) && other.joined+s.config.StoreTimeout < r.since:
			return brokenBy(r.submission, "it is published before %s, of the same key, which comes first", other.key.id)
		}
	}
	return holds()
}

// l15 is the invariant L15, next.
func l15(s *state, e *Event) finding {
	i := s.incarnations[e.Incarnation]
	if i == nil || s.faults+s.hangs+s.pauses+s.lineages > 0 || s.healed >= 0 || i.calls+i.failed+i.rejections > 0 {
		return holds()
	}
	r := s.rows[i.key]
	if r == nil || r.incarnation != i || s.lineOf(r) == nil || i.at < s.config.Settle {
		return holds()
	}
	l := s.lineOf(r)
	since, bound := max(r.deadline, l.left, r.joined), s.config.Next()
	if since == l.instructed && since > r.joined {
		bound += s.config.Behind()
	}
	bound += s.behind(r.key.topic, r.deadline, since, e.At)
	if w := s.window(r.key.topic); w != nil {
		bound += s.config.night(true)
		opens, open := w.from(since, bound, 0)
		if !open || s.rewindowed {
			return holds()
		}
		since = opens
	}
	if late := e.At - since; late > bound {
		return brokenBy(r.submission, "it is published %v after it has become the first of its key, more than %v", late,
			bound)
	}
	return holds()
}
