// Package memory is the executable specification of node.Store: the plainest code that does exactly what the
// contract says, one call after another under one lock. The other stores are tested against it, and the
// simulator runs on it.
//
// Nothing in it is left to chance: no result depends on the order of a map, there is no randomness, and the only
// clock is the one that New is given. The same calls therefore give the same results, always. It refuses no
// message, and it answers every call at once, with an error only when the context is done already.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Store is a node.Store in memory. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu      sync.Mutex
	rows    map[node.MessageID]*row
	waiting ordered // by due time, id, topic
	ready   ordered // by the instant of the claim, id, topic
}

var _ node.Store = (*Store)(nil)

// Row is everything that the store knows of one message.
type Row struct {
	node.Message

	// Due is when the message falls due: its deadline, unless a Reset has put it off.
	Due time.Time

	// ReadiedAt and ReadiedBy are the claim on the message; both are zero while it waits.
	ReadiedAt time.Time
	ReadiedBy uuid.UUID
}

// row is a Row in the store, which is in exactly one of the two indexes. What an index sorts by must not change
// while the row is in it.
type row struct {
	Row

	ready bool
}

// New returns an empty store whose clock, by which claims age, is now. The clock is read once in each
// call that makes claims or asks for their age, while the store is locked: it must not call the store.
func New(now func() time.Time) *Store {
	return &Store{
		now:     now,
		rows:    map[node.MessageID]*row{},
		waiting: ordered{compare: compareDue},
		ready:   ordered{compare: compareReadied},
	}
}

// Insert implements node.Store.
func (s *Store) Insert(
	ctx context.Context, request node.InsertRequest,
) ([]node.InsertResult, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := instant(s.now())
	for _, m := range request.Messages {
		key := node.MessageID{ID: m.ID, Topic: m.Topic}
		if s.rows[key] != nil {
			continue
		}
		r := &row{Row: Row{Message: clone(m.Message)}}
		r.Deadline = instant(m.Deadline)
		r.Due = r.Deadline
		s.rows[key] = r
		if m.Readied {
			r.ready, r.ReadiedAt, r.ReadiedBy = true, now, request.Node
			s.ready.add(r)
		} else {
			s.waiting.add(r)
		}
	}

	// The results tell what is true after the call, so they are read when all messages are in: what the call
	// stored and what an earlier one stored then look alike, as they must.
	results := make([]node.InsertResult, len(request.Messages))
	for i, m := range request.Messages {
		r := s.rows[node.MessageID{ID: m.ID, Topic: m.Topic}]
		if r.Incarnation != m.Incarnation {
			results[i].Outcome = node.Duplicate
			continue
		}
		results[i].Outcome = node.Inserted
		if r.ready && r.ReadiedBy == request.Node {
			results[i].Claim = r.claim()
		}
	}
	return results, nil
}

// Present implements node.Store.
func (s *Store) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	present := make([]bool, len(ids))
	for i, id := range ids {
		present[i] = s.rows[id] != nil
	}
	return present, nil
}

// Ready implements node.Store.
func (s *Store) Ready(ctx context.Context, request node.ReadyRequest) ([]node.Readied, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	var claimed []*row
	size := 0
	for r := range s.waiting.all {
		if len(claimed) >= request.Limit || size >= request.Bytes || r.Due.After(request.Until) {
			break
		}
		claimed = append(claimed, r)
		size += r.Size()
	}

	now := instant(s.now())
	readied := make([]node.Readied, len(claimed))
	for i, r := range claimed {
		s.waiting.remove(r)
		r.ready, r.ReadiedAt, r.ReadiedBy = true, now, request.Node
		s.ready.add(r)
		readied[i] = node.Readied{Message: clone(r.Message), Claim: r.claim()}
	}
	return readied, nil
}

// Delete implements node.Store.
func (s *Store) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	deleted := make([]bool, len(refs))
	for i, ref := range refs {
		key := node.MessageID{ID: ref.ID, Topic: ref.Topic}
		r := s.rows[key]
		if r == nil || r.Incarnation != ref.Incarnation {
			continue
		}
		if r.ready {
			s.ready.remove(r)
		} else {
			s.waiting.remove(r)
		}
		delete(s.rows, key)
		deleted[i] = true
	}
	return deleted, nil
}

// Stuck implements node.Store. Claims of one age are in the order of their ids, then topics.
func (s *Store) Stuck(ctx context.Context, request node.StuckRequest) ([]node.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	var stuck []node.Claim
	now := instant(s.now())
	for r := range s.ready.all {
		if len(stuck) >= request.Limit || now.Sub(r.ReadiedAt) < request.Hold {
			break
		}
		stuck = append(stuck, r.claim())
	}
	return stuck, nil
}

// Reset implements node.Store.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	reset := make([]bool, len(releases))
	for i, release := range releases {
		r := s.rows[node.MessageID{ID: release.ID, Topic: release.Topic}]
		held := release.Claim
		held.ReadiedAt = instant(held.ReadiedAt)
		if r == nil || !r.ready || r.claim() != held {
			continue
		}
		s.ready.remove(r)
		r.ready, r.ReadiedAt, r.ReadiedBy = false, time.Time{}, uuid.Nil
		if !release.Due.IsZero() {
			r.Due = instant(release.Due)
		}
		s.waiting.add(r)
		reset[i] = true
	}
	return reset, nil
}

// Len returns the number of messages that wait or are ready.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// Dump returns a copy of all rows in the order of their ids, then topics.
func (s *Store) Dump() []Row {
	s.mu.Lock()
	defer s.mu.Unlock()

	rows := make([]Row, 0, len(s.rows))
	for _, r := range s.rows {
		dumped := r.Row
		dumped.Message = clone(r.Message)
		rows = append(rows, dumped)
	}
	slices.SortFunc(rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Topic, b.Topic))
	})
	return rows
}

func (r *row) claim() node.Claim {
	return node.Claim{Ref: r.Ref(), ReadiedAt: r.ReadiedAt, ReadiedBy: r.ReadiedBy}
}

// instant returns t as a store keeps it: in UTC, without what is smaller than a microsecond, and without a
// monotonic reading, so that equal instants are equal values too.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// clone returns a copy of m that shares no memory with it. Null stays null and empty stays empty, but for a list
// of headers, where the two mean the same and become null.
func clone(m node.Message) node.Message {
	m.Key = slices.Clone(m.Key)
	m.Value = slices.Clone(m.Value)
	var headers []node.Header
	for _, h := range m.Headers {
		headers = append(headers, node.Header{Name: h.Name, Value: slices.Clone(h.Value)})
	}
	m.Headers = headers
	return m
}
