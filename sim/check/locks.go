package check

import "time"

// A session that is no node's may lock rows, for as long as it likes. That delays the messages of these rows, and what
// stands behind a record about one of them in a partition of the input, and nothing else (G5): for everything else all
// bounds hold as if there were no lock. So a lock is no fault, and the judge leaves out what it delays.

// lockedBy notes that rows are locked, or are no more.
func (s *state) lockedBy(e *Event) {
	key := rowKey{e.ID, e.Topic}
	if e.Kind == Unlock {
		if s.locks[key] == locked {
			s.locked--
		}
		if s.locks[key] = e.At; s.locked == 0 {
			s.lastLock = e.At
		}
		if r := s.rows[key]; r != nil {
			r.waiting = max(r.waiting, e.At)
			r.ahead = len(s.lane(key.topic).takings)
		}
		return
	}
	if s.locks[key] != locked {
		s.locked++
	}
	s.locks[key], s.lastLock = locked, locked
	if r := s.rows[key]; r != nil && r.submission != nil {
		r.excused("its row was locked, so that what was fired could not be settled")
	}
}

// locked stands for the instant at which a session ends that has not.
const locked time.Duration = 1<<63 - 1

// unlocked returns when the last session ended that had a row locked: locked if it has not, 0 for never.
func (s *state) unlocked(key rowKey) time.Duration { return s.locks[key] }

// delayed returns until when a submission was delayed by a lock: on its row, or on that of a record before it in its
// partition, or its own; locked if it still may be, 0 for never. What was unlocked is tried again a while later.
func (s *state) delayed(sub *submission) (until time.Duration) {
	if len(s.locks) == 0 {
		return 0
	}
	until = s.locks[sub.key]
	if p := s.partitions[sub.partition]; p != nil {
		for _, r := range p.log {
			if r.place.offset > sub.offset || until == locked {
				break
			}
			if r.submission == nil {
				continue
			}
			if ends := s.locks[r.key]; ends >= r.at {
				until = max(until, ends)
			}
		}
	}
	if until != 0 && until != locked {
		until += s.config.Blocked()
	}
	return until
}

// heldUp returns until when a lineage may be kept from catching up by a lock: a record that cannot be ingested may be
// one that cancels any message, so nothing fires until it is. That is the one way in which a lock delays others. It is
// 0 where no lineage has begun, and locked while a row is.
func (s *state) heldUp() (until time.Duration) {
	if s.lineages == 0 {
		return 0
	}
	return s.lastLock
}

// blockedPartition reports whether a lock may keep the records of a partition from being ingested.
func (s *state) blockedPartition(p *partition, now time.Duration) bool {
	if len(s.locks) == 0 {
		return false
	}
	for _, r := range p.log {
		if r.submission != nil && s.locks[r.key] >= r.at &&
			now < plus(s.locks[r.key], s.config.Drained()) {
			return true
		}
	}
	return false
}

// plus adds times, of which the first may be locked.
func plus(a, b time.Duration) time.Duration {
	if a == locked {
		return a
	}
	return a + b
}

// Blocked bounds the time after which what was locked is tried again once it is unlocked: the longest back-off, and the
// calls that it takes then.
func (c *Config) Blocked() time.Duration { return 6*time.Second + c.Look() + 3*c.StoreTimeout }
