package metrics

import (
	"cmp"
	"slices"
	"time"

	"chronos/node"
)

// Intake is how the intake of one input partition goes.
type Intake struct {
	node.Partition

	Position, End int64 // how far it was taken in, and where it ends, as far as is known

	// Since is when the first record that has not been taken in was seen, so that it has waited for that long at least;
	// zero if none waits. Moved is when the position has moved last.
	Since, Moved time.Time

	// Left says that the node gave the partition up because it could not take it in. It is told of for as long as no
	// node is known to have done so since.
	Left bool
}

// intake is an input partition that this node reads, or has given up because it could not take it in.
type intake struct {
	Intake

	// mark is where the partition ended at Since: when the position has come there, everything that waited then was
	// taken in.
	mark int64
}

// read notes that the partition reaches to an offset.
func (i *intake) read(end int64, now time.Time) {
	if end == node.UnknownEnd {
		return
	}
	i.End = end
	i.judge(now)
}

// moved notes a position.
func (i *intake) moved(offset int64, now time.Time) {
	if offset != i.Position {
		i.Position, i.Moved = offset, now
	}
	i.judge(now)
}

// judge begins and ends waits.
func (i *intake) judge(now time.Time) {
	if !i.Since.IsZero() && i.Position >= i.mark {
		i.Since = time.Time{}
	}
	if i.Since.IsZero() && i.Position < i.End {
		i.Since, i.mark = now, i.End
	}
}

// polled takes note of partitions that come and go, and of how far they reach.
func (m *Metrics) polled(batch node.Batch) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range batch.Revoked {
		delete(m.intakes, p)
	}
	for _, a := range batch.Assigned {
		if i := m.intakes[a.Partition]; i != nil {
			i.Left = false // and it has waited since it was given up, or longer
			i.read(a.End, now)
			continue
		}
		i := &intake{Intake: Intake{Partition: a.Partition, Position: a.First, End: a.First, Moved: now}}
		i.read(a.End, now)
		m.intakes[a.Partition] = i
	}
	if len(batch.Records) == 0 {
		return
	}
	for _, i := range m.intakes {
		end := i.End
		for r := range batch.Records {
			if record := &batch.Records[r]; record.Partition == i.Number && record.Topic == i.Topic {
				end = max(end, record.Offset+1)
			}
		}
		if end > i.End {
			i.read(end, now)
		}
	}
}

// left notes that the node has given up all partitions. Where records wait, the promise is not kept until somebody has
// taken them in.
func (m *Metrics) left() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, i := range m.intakes {
		if i.Left = !i.Since.IsZero(); !i.Left {
			delete(m.intakes, p)
		}
	}
}

// moved shows how far partitions have been taken in.
func (m *Metrics) moved(places []node.Place, positions []node.Position, refused []bool) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for n, place := range places {
		if i := m.intakes[place.Partition]; i != nil && (refused == nil || !refused[n]) {
			i.moved(positions[n].Offset, now)
		}
	}
}

// reach notes how far the partitions reach that this node reads, or has given up.
func (m *Metrics) reach(extents []node.Extent) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range extents {
		if i := m.intakes[e.Partition]; i != nil {
			i.read(e.End, now)
		}
	}
}

// Elsewhere notes where the store has come to on partitions that this node has given up, which others may have taken
// over.
func (m *Metrics) Elsewhere(places []node.Place) {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, place := range places {
		i := m.intakes[place.Partition]
		if i == nil || !i.Left {
			continue
		}
		if i.moved(place.Offset, now); i.Since.IsZero() || i.Moved.Equal(now) {
			delete(m.intakes, place.Partition) // somebody takes it in
		}
	}
}

// Gave reports whether the node has given up partitions that nobody is known to take in.
func (m *Metrics) Gave() bool {
	return slices.ContainsFunc(m.Intakes(), func(i Intake) bool { return i.Left })
}

// Intakes returns how the intake goes, by topic and partition.
func (m *Metrics) Intakes() []Intake {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Intake, 0, len(m.intakes))
	for _, i := range m.intakes {
		all = append(all, i.Intake)
	}
	slices.SortFunc(all, func(a, b Intake) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number))
	})
	return all
}

// IntakeWaits reports whether any record of these partitions waits to be taken in.
func (m *Metrics) IntakeWaits() bool {
	return slices.ContainsFunc(m.Intakes(), func(i Intake) bool { return !i.Since.IsZero() })
}

// Behind returns how many records of this node's input partitions wait to be taken in, as far as it knows.
func (m *Metrics) Behind() (records int64) {
	for _, i := range m.Intakes() {
		records += max(i.End-i.Position, 0)
	}
	return records
}
