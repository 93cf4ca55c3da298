package model

// instruct does what one record says, in the transaction that takes it in.
//
// Where the row waits and nobody has claimed it since its insert, an instruction takes effect. Otherwise its content
// may have come out, or may do so at any moment: that is too late. Only a replacement works then, too, and its
// outcome says that the former content may come out.
func (m *machine) instruct(s *state, q taking, r uint8) Property {
	there := &s.store.row
	kind := m.scope.kind(r)
	switch {
	case kind == kindSchedule && (there.inc == none || m.rules.Upsert), kind == kindReplace && there.inc == none:
		m.insert(s, q, r)
		return 0
	case kind == kindSchedule:
		return s.ignore(r)
	case there.inc == none:
		return 0 // not found
	case kind == kindReplace:
		return m.replace(s, q, r)
	case !m.free(*there):
		// Too late. That binds: giving the claim back does not make it untrue.
		if !m.rules.LateUnbound {
			there.bound = 1
		}
		s.bound |= 1 << there.src
		return 0
	case kind == kindCancel:
		broken := m.withdraw(s, r)
		*there = row{}
		return broken
	case kind == kindReschedule:
		there.inc, there.by = q.inc, r
		return 0
	default: // fire now
		if !m.rules.FireUnbound {
			there.bound = 1
		}
		s.bound |= 1 << there.src
		return 0
	}
}

// free reports whether an instruction can still take effect on a row.
func (m *machine) free(r row) bool {
	switch {
	case m.rules.CancelAny:
		return true
	case m.rules.CancelWaiting:
		return r.claim == none && r.bound == 0
	default:
		return r.free()
	}
}

// insert puts a row into the store, where there is none. What was to come out is not ended by it: that is what Upsert
// does wrong.
func (m *machine) insert(s *state, q taking, r uint8) {
	s.store.row = row{inc: q.inc, by: r, src: r}
	s.store.ended &^= 1 << r
	s.cancelled &^= 1 << r
	if m.scope.Fired {
		s.store.row.again = s.came >> r & 1
	}
	if m.rules.Sequence {
		s.sequence = min(s.sequence+1, stale-1)
		s.store.row.inc, s.store.row.by = s.sequence, 0
	}
}

// replace puts new content in the place of the old, under a new incarnation. It works on any row; where the old
// content may come out all the same, the row remembers that, and every later outcome on it says so.
func (m *machine) replace(s *state, q taking, r uint8) Property {
	old := s.store.row
	var broken Property
	prev := old.prev
	if m.free(old) {
		broken = m.withdraw(s, r)
	} else {
		s.store.ended |= 1 << old.src
		s.bound &^= 1 << old.src
		prev |= 1 << old.src
	}
	m.insert(s, q, r)
	s.store.row.prev = prev
	if m.rules.KeepIncarnation {
		s.store.row.inc, s.store.row.by = old.inc, old.by
		s.store.row.claim, s.store.row.owner, s.store.row.tried = old.claim, old.owner, old.tried
	}
	return broken
}

// withdraw answers that the content of the row does not come out. If the row has replaced content that may come out,
// the outcome says that as well, unless the rules forget it.
func (m *machine) withdraw(s *state, r uint8) Property {
	row := s.store.row
	ends := uint8(1) << row.src
	said := ends
	if m.rules.ForgetFormer {
		said |= row.prev
	}
	s.store.ended |= ends
	if r < row.src {
		return 0 // after a rewind: the record of what it ends will be taken in again, behind it
	}
	s.cancelled |= said
	s.kept &^= said
	if s.came&said != 0 {
		return S19
	}
	return 0
}

// ignore drops a submission for the row that is there.
func (s *state) ignore(src uint8) Property {
	if s.store.row.src == src {
		return 0 // it was taken in before
	}
	s.store.covered |= 1 << src
	switch {
	case s.fired>>s.store.row.src&1 == 0 || s.sawNot(src):
		return 0
	case s.store.row.again == 1:
		return U2
	default:
		return U1
	}
}

// sawNot reports whether the application cannot have seen the content of the row come out before it sent src.
func (s *state) sawNot(src uint8) bool { return s.store.row.src > src }
