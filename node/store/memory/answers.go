package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// answer is what a request was told, and until when that is remembered.
type answer struct {
	told    node.Told
	expires time.Time
}

// sweep is how many answers that have expired are deleted for each one that is stored: more than one, so that they get
// fewer when requests get fewer.
const sweep = 4

// answered does what an item asks for, unless its request was answered before, which is the answer then, or its message
// is locked, or it waits for callbacks. It reports whether the item has brought a message.
func (s *Store) answered(item *node.Item, state *node.State, now time.Time) (result node.ItemResult, brings bool) {
	request := item.Request
	if request != nil && !s.broken.Forgets {
		if a, found := s.intake.answers[request.ID]; found && now.Before(a.expires) {
			a.told.Again = true
			return node.ItemResult{Outcome: a.told.Outcome, Told: &a.told}, false
		}
	}
	if s.locks.has(item) || state.Holds(item) {
		return node.ItemResult{Outcome: node.Blocked}, false
	}
	v := s.take(item)
	if request == nil {
		return node.ItemResult{Outcome: v.Outcome}, v.Brings
	}
	told := item.Tell(v, s.intake.lineage)
	s.intake.forget(now)
	s.intake.answers[request.ID] = answer{told, instant(now.Add(request.Keep))}
	return node.ItemResult{Outcome: v.Outcome, Told: &told}, v.Brings
}

// forget deletes a few of the answers that have expired, those that have expired first.
func (in *intake) forget(now time.Time) {
	expired := slices.DeleteFunc(slices.Collect(maps.Keys(in.answers)), func(id uuid.UUID) bool {
		return now.Before(in.answers[id].expires)
	})
	slices.SortFunc(expired, func(a, b uuid.UUID) int {
		return cmp.Or(in.answers[a].expires.Compare(in.answers[b].expires), bytes.Compare(a[:], b[:]))
	})
	for _, id := range expired[:min(len(expired), sweep)] {
		delete(in.answers, id)
	}
}

// Answers returns how many answers the store holds, those that have expired included.
func (s *Store) Answers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.intake.answers)
}
