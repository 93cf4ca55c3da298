package memory

import (
	"maps"

	"chronos/node"
)

// Snapshot is a state of a store to which it can be set back, any number of times. It does not change.
type Snapshot struct {
	rows   []row
	intake intake
	queues queues
}

// Snapshot returns the state that the store is in: its messages and claims, its positions, its lineage with the marks
// of a catch-up, what is paused, what requests were told, what it is bound to, and its queues. It shares the bytes of
// the messages with the store, which never changes them, so it costs little.
func (s *Store) Snapshot() Snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()

	rows := make([]row, 0, len(s.rows))
	for _, r := range s.rows {
		rows = append(rows, *r) // the order is lost again in Restore
	}
	return Snapshot{rows: rows, intake: s.intake.copy(), queues: s.queues.copy()}
}

// Restore sets the store back to a state that it was in: to a backup. What was done since then has not happened. The
// server is the same one with the same history, so that nothing but the positions tells of it; if it is another one,
// which lacked the last commits when it was promoted, call Promote, too. Both happen between two calls of the port.
func (s *Store) Restore(to Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.rows = make(map[node.MessageID]*row, len(to.rows))
	s.waiting = map[node.Part]*ordered{}
	s.ready = ordered{compare: compareExpires}
	s.lines = map[lineKey]*ordered{}
	for i := range to.rows {
		r := to.rows[i]
		s.insert(&r)
	}
	s.intake = to.intake.copy()
	s.queues = to.queues.copy()
}

// Promote gives the server another history, as the promotion of a standby does, whether it lacks commits or not. The
// store is suspect from then on, until a new lineage begins.
func (s *Store) Promote() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.timeline++
}

func (in *intake) copy() intake {
	c := *in
	c.positions = maps.Clone(in.positions)
	c.marks = maps.Clone(in.marks)
	c.pauses = maps.Clone(in.pauses)
	c.answers = maps.Clone(in.answers)
	return c
}

// ForgetPositions has the store keep no positions, like one of an older deployment.
func (s *Store) ForgetPositions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.intake.positions)
	clear(s.intake.marks)
}

// Upgrade makes the store one that comes from an older deployment, which kept no positions: it waits for their
// adoption.
func (s *Store) Upgrade() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intake.adopting = true
}
