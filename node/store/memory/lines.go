package memory

import (
	"cmp"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// lineKey names a line: of one lane.
type lineKey struct {
	lane string
	line uuid.UUID
}

func lineOf(r *row) lineKey { return lineKey{r.Lane, r.Line} }

// compareTurn orders the rows of a line.
func compareTurn(a, b *row) int {
	return cmp.Or(a.Deadline.Compare(b.Deadline), cmp.Compare(a.ID, b.ID))
}

// queue has a row stand in its line, if it has one.
func (s *Store) queue(r *row) {
	if r.Line == uuid.Nil {
		return
	}
	line := s.lines[lineOf(r)]
	if line == nil {
		line = &ordered{compare: compareTurn}
		s.lines[lineOf(r)] = line
	}
	line.add(r)
}

// unqueue takes a row out of its line. A line in which nothing stands any more is forgotten.
func (s *Store) unqueue(r *row) {
	if r.Line == uuid.Nil {
		return
	}
	line := s.lines[lineOf(r)]
	line.remove(r)
	if len(line.chunks) == 0 {
		delete(s.lines, lineOf(r))
	}
}

// turn reports whether it is the turn of a row that a call has claimed, with others.
func (s *Store) turn(r *row, claimed []*row) node.Turn {
	if r.Line == uuid.Nil || s.broken.Jumps {
		return node.ItsTurn
	}
	if !s.first(r) {
		return node.Behind
	}
	if s.broken.Halves {
		return node.ItsTurn
	}
	for other := range s.lines[lineOf(r)].all {
		if other.ready && !slices.Contains(claimed, other) {
			return node.InTheWay
		}
	}
	return node.ItsTurn
}

// first reports whether nobody stands before a row.
func (s *Store) first(r *row) bool {
	line := s.lines[lineOf(r)]
	return line == nil || line.chunks[0][0] == r
}

// forward has what is first in the line of a row, which was settled or stands back, fall due at its deadline, if it
// waits and has stood back.
func (s *Store) forward(of *row) {
	line := s.lines[lineOf(of)]
	if line == nil || s.broken.Stays {
		return
	}
	first := line.chunks[0][0]
	if s.locks.message(first.ID, first.Lane) || first.ready || !first.Behind || !first.Due.After(first.Deadline) {
		return
	}
	s.remove(first)
	first.Due, first.Behind = first.Deadline, false
	s.add(first)
}
