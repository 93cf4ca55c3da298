package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
)

// What a store with owners shows is what this node owns: each node has its own part, and nobody has all of it.
var _ inspect.Store = (*Store)(nil)

// Find implements inspect.Source, for the partitions that this node owns.
func (s *Store) Find(ctx context.Context, id string, with inspect.Parts) ([]inspect.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var found []inspect.Message
	err := s.look(func(owned *shard) error {
		parts, err := owned.parts(true)
		for _, lane := range node.LanesOf(parts) {
			if err != nil {
				break
			}
			var r *row
			if r, err = owned.stored(node.MessageID{ID: id, Lane: lane}); r != nil {
				found = append(found, owned.shown(r, with.Payload))
			}
		}
		return err
	})
	slices.SortStableFunc(found, func(a, b inspect.Message) int { return cmp.Compare(a.Lane, b.Lane) })
	return found[:min(len(found), inspect.MaxFound)], err
}

// shown returns what is shown of a message. The caller has quick.
func (s *shard) shown(r *row, payload bool) inspect.Message {
	m := inspect.Message{
		Message: r.Message, Due: r.due, Part: r.part, Attempts: r.attempts, Bytes: r.Size(),
		Bound: r.bound, Former: r.former, Stopped: r.stopped,
	}
	if claim, some := s.claims[nameOf(&r.Message)]; some && claim.Incarnation == r.Incarnation {
		m.Claim, m.Attempts = claim.Claim, claim.attempts
	}
	if !payload {
		m.Value = nil
	}
	return m
}

// Slice implements inspect.Source, for the partitions that this node owns.
func (s *Store) Slice(ctx context.Context, request inspect.SliceRequest) ([]inspect.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var slice []inspect.Message
	err := s.look(func(owned *shard) error {
		part, err := owned.unclaimed(&request)
		if request.Claimed {
			part, err = owned.claimed(&request)
		}
		slice = append(slice, part...)
		return err
	})
	slices.SortStableFunc(slice, func(a, b inspect.Message) int {
		return compareMarks(inspect.Of(&a, request.Claimed), inspect.Of(&b, request.Claimed))
	})
	return slice[:min(len(slice), request.Limit)], err
}

func compareMarks(a, b inspect.Mark) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
}

// unclaimed returns the next messages of a slice that nobody has claimed, as many as it has at most.
func (s *shard) unclaimed(request *inspect.SliceRequest) (slice []inspect.Message, err error) {
	if request.Claimed {
		return nil, nil
	}
	prefix := s.partPrefix(node.Part{Lane: request.Lane, Name: request.Part})
	after := append(binary.BigEndian.AppendUint64(slices.Clone(prefix), order(request.After.At)), request.After.ID...)
	last := order(request.Until)
	err = s.scan(prefix, after, func(key, content []byte) (bool, error) {
		at, id := binary.BigEndian.Uint64(key[len(prefix):]), string(key[len(prefix)+8:])
		if at > last {
			return false, nil
		}
		name := node.MessageID{Lane: request.Lane, ID: id}
		if _, claimed := s.claims[name]; claimed || bytes.Equal(key, after) {
			return true, nil
		}
		r, err := s.at(s.db, key, content)
		if err != nil {
			return false, err
		}
		slice = append(slice, s.shown(r, false))
		return len(slice) < request.Limit, nil
	})
	return slice, err
}

// claimed returns the messages of a slice that this node has claimed.
func (s *shard) claimed(request *inspect.SliceRequest) (slice []inspect.Message, err error) {
	for name, claim := range s.claims {
		mark := inspect.Mark{At: claim.Expires, ID: name.ID, Lane: name.Lane}
		if claim.Expires.After(request.Until) || compareMarks(mark, request.After) <= 0 ||
			request.Lane != "" && name.Lane != request.Lane {
			continue
		}
		r, err := s.stored(name)
		if err != nil {
			return nil, err
		}
		if r != nil {
			slice = append(slice, s.shown(r, false))
		}
	}
	return slice, nil
}

// Places implements inspect.Source, for the partitions that this node owns.
func (s *Store) Places(ctx context.Context) ([]inspect.Place, node.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.State{}, err
	}
	var places []inspect.Place
	err := s.look(func(owned *shard) error {
		for p, position := range owned.positions {
			places = append(places, inspect.Place{Place: node.Place{Partition: p, Position: position}, Mark: -1})
		}
		return nil
	})
	is := s.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range places {
		places[i].Topic = s.names[places[i].TopicID]
	}
	slices.SortFunc(places, func(a, b inspect.Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Number, b.Number),
			slices.Compare(a.TopicID[:], b.TopicID[:]))
	})
	return places, is, err
}

// Beat implements inspect.Roster. Nobody else hears of it: a node knows of no other one.
func (s *Store) Beat(ctx context.Context, beat inspect.Node) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.config.Now().UTC().Truncate(time.Microsecond)
	if beat.Started = now; s.roster[beat.ID].ID != uuid.Nil {
		beat.Started = s.roster[beat.ID].Started
	}
	beat.Seen = now
	beat.Settings, beat.Status = slices.Clone(beat.Settings), slices.Clone(beat.Status)
	s.roster[beat.ID] = beat
	return nil
}

// Gone implements inspect.Roster.
func (s *Store) Gone(ctx context.Context, id uuid.UUID) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.roster, id)
	return nil
}

// Nodes implements inspect.Roster: it returns this node.
func (s *Store) Nodes(ctx context.Context) ([]inspect.Node, time.Time, error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.roster), func(a, b inspect.Node) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), slices.Compare(a.ID[:], b.ID[:]))
	}), s.config.Now().UTC().Truncate(time.Microsecond), nil
}
