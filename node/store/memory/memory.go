// Package memory is the executable specification of node.Store: the plainest code that does exactly what the
// contract says, one call after another under one lock. The other stores are tested against it, and the
// simulator runs on it.
//
// Nothing in it is left to chance: no result depends on the order of a map, there is no randomness, and the only
// clock is the one that New is given. The same calls therefore give the same results, always. It refuses the
// messages that every store refuses (node.Message.Refusal) and no others, and it answers every call at once, with an
// error only when the context is done already.
//
// What happens to a database server happens to it too, when it is told to: Snapshot and Restore set it back, as a
// backup does, Promote gives its server another history, as the promotion of a standby does, and Lock locks rows, as
// another session does.
package memory

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
)

// Store is a node.Store in memory. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu   sync.Mutex
	rows map[node.MessageID]*row

	// waiting has a list for each part of a lane on which a message waits: by due time, then id.
	waiting map[node.Part]*ordered
	ready   ordered // by the instant from which the claim is expired, id, lane

	// lines has the messages of each line, waiting or ready: by deadline, then id.
	lines map[lineKey]*ordered

	intake intake
	queues queues
	locks  locked

	// broken is how the store is wrong on purpose.
	broken Broken

	// timeline is the number of the server's history. It belongs to the server: no Restore sets it back.
	timeline int

	// nodes are those that say that they live.
	nodes map[uuid.UUID]inspect.Node
}

var _ node.Store = (*Store)(nil)

// Row is everything that the store knows of one message.
type Row struct {
	node.Message

	// Due is when the message falls due: its deadline, unless a Reset has put it off.
	Due time.Time

	// ReadiedAt, ReadiedBy and Expires are the claim on the message; they are zero while it waits.
	ReadiedAt time.Time
	ReadiedBy uuid.UUID
	Expires   time.Time

	// Attempts is how many claims may have led to a publish.
	Attempts int

	// Part is the name of the part on which the message is parked; empty if it is not.
	Part string

	// Behind says that the message has stood back in its line since it was stored or put off.
	Behind bool

	// Bound, Former and Stopped are what earlier instructions have left behind, see node.Kept.
	Bound, Former, Stopped bool
}

// row is a Row in the store, which is in exactly one of the indexes. What an index sorts by must not change
// while the row is in it.
type row struct {
	Row

	ready bool
}

// New returns an empty store whose clock, by which claims expire, is now. The clock is read once in each call that
// needs it, while the store is locked: it must not call the store.
func New(now func() time.Time) *Store {
	return &Store{
		now:     now,
		rows:    map[node.MessageID]*row{},
		waiting: map[node.Part]*ordered{},
		ready:   ordered{compare: compareExpires},
		lines:   map[lineKey]*ordered{},
		intake: intake{
			positions: map[node.Partition]node.Position{}, lineage: 1, pauses: map[string]node.Pause{},
			answers: map[uuid.UUID]answer{},
		},
		queues: newQueues(),
		locks:  locked{map[node.MessageID]int{}, map[node.Partition]int{}},
	}
}

// Broken is how a store is wrong on purpose, for those who try a judge on it. The zero value is right.
type Broken struct {
	// Decide decides in place of node.Item.Decide; nil for that.
	Decide func(item *node.Item, before *node.Kept) node.Verdict

	// Reply tells of the outcome in place of node.Item.Reply; nil for that.
	Reply func(item *node.Item, v node.Verdict, lineage int64) (node.Message, bool)

	// GoesOnStopped has it rearm a series that was stopped.
	GoesOnStopped bool

	// CallsEarly has it not wait for callbacks that were under way before the lineage.
	CallsEarly bool

	// TakesWhileHolding has it take records in while claims from before the lineage may be held.
	TakesWhileHolding bool

	// TakesWhileSuspect has it take records in although its server may have been set back.
	TakesWhileSuspect bool

	// AdoptsAgain has it adopt whenever it is asked to, whatever positions there are.
	AdoptsAgain bool

	// Forgets has it forget what it has told to requests.
	Forgets bool

	// StaysParked has it keep parked what is replaced or moved.
	StaysParked bool

	// Jumps has it say of every message that it is its turn.
	Jumps bool

	// Halves has it say of a message that is first in its line that it is its turn, whoever has a claim on another one.
	Halves bool

	// Stays has nobody come forward in a line.
	Stays bool

	// Opens has it begin a lineage although it is sealed, for whoever asks.
	Opens bool

	// Refills has it receive a batch of an import that it has received before.
	Refills bool

	// TakesPast has it do what comes past Kafka (node.NoPlace) while nothing is taken in, for whatever reason.
	TakesPast bool
}

// Break breaks the store from the next call on.
func (s *Store) Break(how Broken) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = how
}

// Claim implements node.Store. Its cost does not depend on how much waits on the lanes beyond what it claims.
func (s *Store) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	if err := ctx.Err(); err != nil {
		return node.ClaimResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := instant(s.now())
	result := node.ClaimResult{State: s.state(now)}
	if !result.State.Claims() {
		return result, nil
	}
	var claimed []*row
	left := request.Bytes
	for _, share := range request.Lanes {
		if s.intake.paused(share.Lane) || !result.State.ClaimsOn(share.Lane) {
			continue
		}
		if request.Bytes > 0 {
			share.Bytes = min(share.Bytes, left)
		}
		due := s.due(share, request.Until)
		claimed = append(claimed, due...)
		for _, r := range due {
			left -= r.Size()
		}
		if request.Bytes > 0 && left <= 0 {
			break
		}
	}
	slices.SortFunc(claimed, compareDue)
	for _, r := range claimed {
		s.remove(r)
		r.claim(request.Node, now, request.Hold)
		s.add(r)
	}
	for _, r := range claimed {
		result.Messages = append(result.Messages, node.Ready{
			Message: clone(r.Message), Due: r.Due, Part: r.Part, Claim: r.held(), Attempts: r.Attempts,
			Bound: r.Bound, Turn: s.turn(r, claimed),
		})
	}
	result.Idle = s.idle(&request)
	return result, nil
}

// idle returns ClaimResult.Idle.
func (s *Store) idle(request *node.ClaimRequest) time.Duration {
	for range s.ready.all {
		return 0 // somebody holds a claim
	}
	idle := request.Ahead
	for _, share := range request.Lanes {
		for part, waiting := range s.waiting { // the order does not matter: a minimum has none
			if part.Lane != share.Lane {
				continue
			}
			if part.Name != "" {
				return 0
			}
			for r := range waiting.all {
				idle = min(idle, r.Due.Sub(request.Until))
				break
			}
		}
	}
	return max(idle, 0)
}

// due returns what a share of a claim takes.
func (s *Store) due(share node.Share, until time.Time) []*row {
	waiting := s.waiting[share.Where()]
	if waiting == nil {
		return nil
	}
	var due []*row
	size := 0
	for r := range waiting.from(&row{Row: Row{Due: share.From}}) {
		if len(due) >= share.Limit || size >= share.Bytes || r.Due.After(until) {
			break
		}
		if s.locks.message(r.ID, r.Lane) {
			continue
		}
		due = append(due, r)
		size += r.Size()
	}
	return due
}

// Settle implements node.Store.
func (s *Store) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	settled := make([]node.Settled, len(next))
	for i, n := range next {
		key := node.MessageID{ID: n.Of.ID, Lane: n.Of.Lane}
		r := s.rows[key]
		if r == nil || r.Incarnation != n.Of.Incarnation {
			continue
		}
		if n.PassesOver() && r.Bound {
			settled[i] = node.Promised
			continue
		}
		if s.locks.message(r.ID, r.Lane) {
			settled[i] = node.Busy
			continue
		}
		s.drop(r)
		if settled[i] = node.Removed; n.Ends() || r.Stopped && !s.broken.GoesOnStopped {
			s.forward(r)
			continue
		}
		settled[i] = node.Rearmed
		r.release()
		r.Incarnation, r.Sequence, r.At = n.Incarnation, n.Sequence, instant(n.At)
		r.Deadline, r.Due, r.Part, r.Attempts, r.Bound, r.Behind = r.At, r.At, "", 0, false, false
		s.insert(r)
		s.forward(r)
	}
	return settled, nil
}

// Expired implements node.Store. Claims that expire together are in the order of their ids, then lanes.
func (s *Store) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	var expired []node.Claim
	now := instant(s.now())
	for r := range s.ready.all {
		if len(expired) >= limit || now.Before(r.Expires) {
			break
		}
		if !s.locks.message(r.ID, r.Lane) {
			expired = append(expired, r.held())
		}
	}
	return expired, nil
}

// Reset implements node.Store.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	reset := make([]node.Settled, len(releases))
	for i, release := range releases {
		r := s.rows[node.MessageID{ID: release.ID, Lane: release.Lane}]
		if r == nil || !r.ready || r.Ref() != release.Ref ||
			!r.ReadiedAt.Equal(instant(release.ReadiedAt)) || r.ReadiedBy != release.ReadiedBy {
			continue
		}
		if s.locks.message(r.ID, r.Lane) {
			reset[i] = node.Busy
			continue
		}
		s.remove(r)
		r.release()
		r.Part, r.Behind = release.Part, release.Behind
		if !release.Due.IsZero() && (!release.Behind || !s.first(r)) {
			r.Due = instant(release.Due)
		}
		if release.Unsent && r.Attempts > 0 {
			r.Attempts--
		}
		s.add(r)
		reset[i] = node.Freed
		if release.Behind {
			s.forward(r)
		}
	}
	return reset, nil
}

// Len returns the number of messages that wait or are ready.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

// Dump returns a copy of all rows in the order of their ids, then lanes.
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
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return rows
}

// add puts r into the index that it belongs to.
func (s *Store) add(r *row) {
	if r.ready {
		s.ready.add(r)
		return
	}
	part := s.waiting[r.where()]
	if part == nil {
		part = &ordered{compare: compareDue}
		s.waiting[r.where()] = part
	}
	part.add(r)
}

// where returns where r waits.
func (r *row) where() node.Part { return node.Part{Lane: r.Lane, Name: r.Part} }

// remove takes r out of its index. A part of a lane on which nothing waits any more is forgotten.
func (s *Store) remove(r *row) {
	if r.ready {
		s.ready.remove(r)
		return
	}
	part := s.waiting[r.where()]
	part.remove(r)
	if len(part.chunks) == 0 {
		delete(s.waiting, r.where())
	}
}

// claim makes owner the owner of r, which is in no index meanwhile.
func (r *row) claim(owner uuid.UUID, now time.Time, hold time.Duration) {
	r.ready, r.ReadiedBy, r.ReadiedAt, r.Expires = true, owner, now, instant(now.Add(hold))
	r.Attempts++
}

// release ends the claim on r, which is in no index meanwhile.
func (r *row) release() {
	r.ready, r.ReadiedAt, r.ReadiedBy, r.Expires = false, time.Time{}, uuid.Nil, time.Time{}
}

// held returns the claim on r.
func (r *row) held() node.Claim {
	return node.Claim{Ref: r.Ref(), ReadiedAt: r.ReadiedAt, ReadiedBy: r.ReadiedBy, Expires: r.Expires}
}

// instant returns t as a store keeps it: in UTC, without what is smaller than a microsecond, and without a
// monotonic reading, so that equal instants are equal values too.
func instant(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// clone returns a copy of m, as a store keeps it, that shares no memory with it. Null stays null and empty stays
// empty, except for a list of headers, where the two mean the same and become null.
func clone(m node.Message) node.Message {
	m.Deadline = instant(m.Deadline)
	if !m.NotAfter.IsZero() {
		m.NotAfter = instant(m.NotAfter)
	}
	if m.Recurs() {
		m.At = instant(m.At)
	}
	m.Key = slices.Clone(m.Key)
	m.Value = slices.Clone(m.Value)
	var headers []node.Header
	for _, h := range m.Headers {
		headers = append(headers, node.Header{Name: h.Name, Value: slices.Clone(h.Value)})
	}
	m.Headers = headers
	return m
}
