package journal

import (
	"encoding/binary"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
)

// The messages of one line (node.Turn) are those of one key, which all come from one partition of the input topic. So a
// line lies in one partition of the journal, and its owner knows all of it: who stands in it follows from the rows, and
// who is claimed the owner knows alone. What stands back until when is in the local copy only; a new owner may look at
// all of a line once more (docs/adr/0030).

// lineKey names a line.
type lineKey struct {
	lane string
	line uuid.UUID
}

func lineOf(m *node.Message) lineKey { return lineKey{m.Lane, m.Line} }

// linePrefix is what the keys of a line in the local copy begin with.
func (s *shard) linePrefix(l lineKey) []byte {
	return s.key(lineKind, []byte(l.lane), []byte{0}, l.line[:])
}

// standKey returns the key by which a row stands in its line: by deadline, then id.
func (s *shard) standKey(r *row) []byte {
	return append(s.linePrefix(lineOf(&r.Message)), standOf(r)...)
}

// standOf returns the place of a row in its line.
func standOf(r *row) mark {
	return mark(binary.BigEndian.AppendUint64(nil, order(r.Deadline))) + mark(r.ID)
}

// stand has a batch change where a message stands.
func (s *shard) stand(batch *pebble.Batch, before, after *row) error {
	if before != nil && before.Line != uuid.Nil {
		if err := batch.Delete(s.standKey(before), nil); err != nil {
			return err //nolint:wrapcheck // the caller says what it was
		}
	}
	if after != nil && after.Line != uuid.Nil {
		return batch.Set(s.standKey(after), nil, nil) //nolint:wrapcheck // the caller says what it was
	}
	return nil
}

// maxHeads is of how many lines it is remembered where they begin, which takes some 20 MB. Of more, the next look at
// each steps over all that was settled there since the last compaction.
const maxHeads = 100_000

// first returns the id of the message that stands first in a line; empty if nobody stands there. It begins at the mark
// of the line, and raises that. The caller has quick.
func (s *shard) first(l lineKey) (id string, err error) {
	prefix, reached := s.linePrefix(l), markEnd
	err = s.scan(prefix, append(s.linePrefix(l), s.heads[l]...), func(key, _ []byte) (bool, error) {
		if len(key) < len(prefix)+8 {
			return false, errForeign
		}
		reached = mark(key[len(prefix):])
		id = string(reached[8:])
		return false, nil
	})
	if err != nil {
		return "", err
	}
	if _, known := s.heads[l]; !known && len(s.heads) >= maxHeads {
		clear(s.heads)
	}
	s.heads[l] = reached
	return id, nil
}

// isFirst reports whether nobody stands before a row.
func (s *shard) isFirst(r *row) (bool, error) {
	if r.Line == uuid.Nil {
		return true, nil
	}
	first, err := s.first(lineOf(&r.Message))
	return first == r.ID, err
}

// turns says of the messages that a call has claimed whose turn it is. Of is by the message the partition that it is
// in. The caller has quick of all of them.
func turns(messages []node.Ready, of []*shard) error {
	ours := map[node.MessageID]bool{}
	for i := range messages {
		ours[nameOf(&messages[i].Message)] = true
	}
	others := map[*shard]map[lineKey]bool{} // the lines on which somebody has a claim from before
	for i := range messages {
		m := &messages[i]
		if m.Line == uuid.Nil {
			continue
		}
		s := of[i]
		if others[s] == nil {
			others[s] = map[lineKey]bool{}
			for name, claim := range s.claims {
				if !ours[name] && claim.row.Line != uuid.Nil {
					others[s][lineOf(&claim.row.Message)] = true
				}
			}
		}
		first, err := s.first(lineOf(&m.Message))
		switch {
		case err != nil:
			return err
		case first != m.ID:
			m.Turn = node.Behind
		case others[s][lineOf(&m.Message)]:
			m.Turn = node.InTheWay
		}
	}
	return nil
}

// forward has what is first in a line, of which a message was settled or stands back, fall due at its deadline, if it
// waits and has stood back. The batch is for the local copy, and is read through. The caller has quick.
func (s *shard) forward(batch *pebble.Batch, l lineKey) error {
	if l.line == uuid.Nil {
		return nil
	}
	id, err := s.first(l)
	if err != nil || id == "" {
		return err
	}
	name := node.MessageID{ID: id, Lane: l.lane}
	if _, claimed := s.claims[name]; claimed {
		return nil
	}
	r, err := s.storedIn(batch, name)
	if err != nil || r == nil || !r.behind || !r.due.After(r.Deadline) {
		return err
	}
	after := *r
	after.due, after.behind = r.Deadline, false
	s.sink(&after)
	return s.put(batch, r, &after, name, after.encode())
}

// advance has the lines go on in which a change has settled messages. It is committed by then, and applied. The caller
// has quick.
func (c *change) advance() error {
	if len(c.lines) == 0 {
		return nil
	}
	batch := c.db.NewIndexedBatch()
	for _, l := range slices.Compact(c.lines) {
		if err := c.forward(batch, l); err != nil {
			return err
		}
	}
	return c.apply(batch)
}
