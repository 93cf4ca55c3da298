package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
)

var _ inspect.Store = (*Store)(nil)

// Find implements inspect.Source.
func (s *Store) Find(ctx context.Context, id string, parts inspect.Parts) ([]inspect.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []inspect.Message
	for key, r := range s.rows {
		if key.ID == id {
			found = append(found, r.shown(parts.Payload))
		}
	}
	slices.SortFunc(found, func(a, b inspect.Message) int { return cmp.Compare(a.Lane, b.Lane) })
	return found[:min(len(found), inspect.MaxFound)], nil
}

// shown returns a copy of what is stored.
func (r *row) shown(payload bool) inspect.Message {
	m := inspect.Message{
		Message: clone(r.Message), Due: r.Due, Part: r.Part, Attempts: r.Attempts, Bytes: r.Size(),
		Bound: r.Bound, Former: r.Former, Stopped: r.Stopped,
	}
	if r.ready {
		m.Claim = r.held()
	}
	if !payload {
		m.Value = nil
	}
	return m
}

// Slice implements inspect.Source. It looks at all that comes before: this store is small.
func (s *Store) Slice(ctx context.Context, request inspect.SliceRequest) ([]inspect.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	order := &s.ready
	if !request.Claimed {
		if order = s.waiting[node.Part{Lane: request.Lane, Name: request.Part}]; order == nil {
			return nil, nil
		}
	}
	var slice []inspect.Message
	for r := range order.all {
		m := r.shown(false)
		at := inspect.Of(&m, request.Claimed)
		if request.Lane != "" && m.Lane != request.Lane {
			continue
		}
		if len(slice) >= request.Limit || at.At.After(request.Until) {
			break
		}
		if cmp.Or(at.At.Compare(request.After.At), cmp.Compare(at.ID, request.After.ID),
			cmp.Compare(at.Lane, request.After.Lane)) > 0 {
			slice = append(slice, m)
		}
	}
	return slice, nil
}

// Parts implements node.Store and inspect.Source.
func (s *Store) Parts(ctx context.Context) ([]node.Part, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := slices.SortedFunc(maps.Keys(s.waiting), node.Part.Compare)
	return parts[:min(len(parts), node.MaxParts)], nil
}

// Places implements inspect.Source.
func (s *Store) Places(ctx context.Context) ([]inspect.Place, node.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var places []inspect.Place
	for partition, position := range s.intake.positions {
		p := inspect.Place{Place: node.Place{Partition: partition, Position: position}, Mark: -1}
		if mark, found := s.intake.marks[partition]; found {
			p.Mark = mark
		}
		places = append(places, p)
	}
	slices.SortFunc(places, func(a, b inspect.Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number),
			slices.Compare(a.TopicID[:], b.TopicID[:]))
	})
	return places, s.state(instant(s.now())), nil
}

// Beat implements inspect.Roster. What nodes say of themselves is no state of the store that a backup would restore.
func (s *Store) Beat(ctx context.Context, beat inspect.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.nodes == nil {
		s.nodes = map[uuid.UUID]inspect.Node{}
	}
	now := instant(s.now())
	if beat.Started = now; s.nodes[beat.ID].ID != uuid.Nil {
		beat.Started = s.nodes[beat.ID].Started
	}
	beat.Seen = now
	beat.Settings, beat.Status = slices.Clone(beat.Settings), slices.Clone(beat.Status)
	s.nodes[beat.ID] = beat
	maps.DeleteFunc(s.nodes, func(_ uuid.UUID, n inspect.Node) bool { return now.Sub(n.Seen) > inspect.Forgotten })
	return nil
}

// Gone implements inspect.Roster.
func (s *Store) Gone(ctx context.Context, id uuid.UUID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.nodes, id)
	return nil
}

// Nodes implements inspect.Roster.
func (s *Store) Nodes(ctx context.Context) ([]inspect.Node, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.nodes), func(a, b inspect.Node) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), slices.Compare(a.ID[:], b.ID[:]))
	}), instant(s.now()), nil
}
