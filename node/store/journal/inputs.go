package journal

import (
	"fmt"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// Several input topics have a journal each (docs/adr/0032). A store has the partitions of all of them, by the numbers
// that ledger.Several gives them: to claims, transactions, copies and pauses there is no difference between a partition
// of one topic and one of another. What knows of topics is here, and is what turns a partition of the input into the
// one of the journal that it belongs to.

// nowhere is the number of no partition.
const nowhere = -1

// number returns the number of the partition of the journal that a partition of an input topic belongs to; nowhere if
// that is no input topic of this store.
func (s *Store) number(p node.Partition) int32 {
	if len(s.config.Inputs) == 0 {
		return p.Number
	}
	at := slices.Index(s.config.Inputs, p.Topic)
	if at < 0 {
		return nowhere
	}
	return ledger.Number(at, p.Number)
}

// SwappedError says that what a node takes for the journal of one of its input topics is that of another one.
type SwappedError struct{ Input, Other string }

// Error returns the sentence for a person.
func (e *SwappedError) Error() string {
	return fmt.Sprintf("what is named as the journal of the input topic %s is the journal of %s: give each input "+
		"topic the journal that it had", e.Input, e.Other)
}

// Identify tells the store which topics the names of Config.Inputs are, in their order; uuid.Nil for one that nobody
// can tell of. From then on it owns no partition that has been taken in from another one of them: what waits for the
// one would be taken for what waits for the other, and what was taken in already would be taken in once more.
func (s *Store) Identify(inputs []uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inputs = slices.Clone(inputs)
}

// swapped returns a SwappedError if a partition was taken in from another input topic than the one that it is named
// for. A topic that is not an input topic now may have been the same one, before it was created anew.
func (s *Store) swapped(owned *shard) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, _ := ledger.Split(owned.number)
	for p := range owned.positions {
		other := slices.Index(s.inputs, p.TopicID)
		if other >= 0 && other != at && p.TopicID != uuid.Nil {
			return &SwappedError{Input: s.config.Inputs[at], Other: s.config.Inputs[other]}
		}
	}
	return nil
}
