package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// consumers is a consumer group on the input topic.
type consumers struct {
	world *engines

	mu      sync.Mutex
	logs    [inputPartitions][]node.Record
	members []*member // that have joined
	owners  [inputPartitions]*member
}

// member is one consumer. It believes to own what it was told.
type member struct {
	group *consumers
	name  string // of the life of a node that it is of

	// Under the group's mu.
	joined            bool
	heard             time.Time // when it spoke last
	assigned, revoked []int32   // to be told
	leaves            []int32   // told to be revoked, and given to another one when it polls again
	reads             map[int32]*int64
}

func newConsumers(w *engines) *consumers { return &consumers{world: w} }

func (g *consumers) member(name string) *member {
	return &member{group: g, name: name, reads: map[int32]*int64{}}
}

// put appends a record to a partition.
func (g *consumers) put(number int32, r node.Record, s *submission) {
	g.mu.Lock()
	defer g.mu.Unlock()
	log := &g.logs[number]
	p := g.world.inlets.partition(number)
	r.Topic, r.Partition, r.Offset = p.Topic, p.Number, int64(len(*log))
	r.Timestamp = time.Now()
	g.world.recorder.submitted(s, &r, origin{number, r.Offset})
	*log = append(*log, r)
}

// expel takes out members that have said nothing for a session.
func (g *consumers) expel() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range slices.Clone(g.members) {
		if time.Since(m.heard) > groupSession {
			g.remove(m)
		}
	}
}

// rebalance has other members own the partitions.
func (g *consumers) rebalance() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for number := range g.owners {
		g.assign(int32(number))
	}
}

// assign has some member own a partition. Who owned it hears of that when it polls, whenever that is.
//
// Where there are callbacks nobody else is assigned it before that, or before a session is over: a group waits for its
// members, and what keeps a callback from being made by somebody else's claim rests on that (docs/adr/0029). The fence
// of transactions does not need it.
func (g *consumers) assign(number int32) {
	if old := g.owners[number]; old != nil && old.joined && g.world.calls &&
		!slices.Contains(old.assigned, number) {
		if !slices.Contains(old.revoked, number) && !slices.Contains(old.leaves, number) {
			old.revoked = append(old.revoked, number)
		}
		return
	}
	g.give(number)
}

// give has some member own a partition now.
func (g *consumers) give(number int32) {
	if old := g.owners[number]; old != nil {
		old.assigned = slices.DeleteFunc(old.assigned, func(n int32) bool { return n == number })
		if !slices.Contains(old.leaves, number) {
			old.revoked = append(old.revoked, number)
		}
	}
	g.owners[number] = nil
	if len(g.members) == 0 {
		return
	}
	m := g.members[g.world.intN(len(g.members))]
	g.owners[number] = m
	m.assigned = append(m.assigned, number)
}

// join lets a member in, which gets its share.
func (g *consumers) join(m *member) {
	m.joined = true
	g.members = append(g.members, m)
	for number, owner := range g.owners {
		if owner == nil || g.world.intN(len(g.members)) == 0 {
			g.assign(int32(number))
		}
	}
}

// leave takes a member out.
func (g *consumers) leave(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(m)
}

func (g *consumers) remove(m *member) {
	m.joined = false
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	for number, owner := range g.owners {
		if owner == m {
			g.assign(int32(number))
		}
	}
}

// where tells where a value is in the input.
func (g *consumers) where(value string) string {
	for _, log := range g.logs {
		for _, r := range log {
			if string(r.Value) == value {
				return fmt.Sprintf("record %s/%d/%d", r.Topic, r.Partition, r.Offset)
			}
		}
	}
	return ""
}

// Poll implements node.Source.
func (m *member) Poll(ctx context.Context) (node.Batch, error) {
	for range 10 {
		b := m.fetch()
		if len(b.Assigned)+len(b.Revoked)+len(b.Records) > 0 {
			return b, nil
		}
		select {
		case <-ctx.Done():
			return b, nil
		case <-time.After(10 * time.Millisecond):
		}
	}
	return node.Batch{}, nil
}

func (m *member) fetch() (b node.Batch) {
	g := m.group
	g.mu.Lock()
	defer g.mu.Unlock()
	m.heard = time.Now()
	if !m.joined {
		g.join(m)
	}
	for _, number := range m.leaves {
		if g.owners[number] == m {
			g.give(number)
		}
	}
	m.leaves = nil
	for _, number := range m.revoked {
		if _, reads := m.reads[number]; reads {
			delete(m.reads, number)
			b.Revoked = append(b.Revoked, g.world.inlets.partition(number))
		}
		if g.owners[number] == m && !slices.Contains(m.assigned, number) { // or it gets back what it gives up
			m.leaves = append(m.leaves, number)
		}
	}
	for _, number := range m.assigned {
		m.reads[number] = nil
		b.Assigned = append(b.Assigned, node.Assignment{
			Extent:    node.Extent{Partition: g.world.inlets.partition(number), End: int64(len(g.logs[number]))},
			Committed: node.Position{Epoch: node.UnknownEpoch, Offset: -1},
		})
	}
	m.revoked, m.assigned = nil, nil
	for number := range m.reads {
		if g.owners[number] != m {
			g.world.Errorf("%s reads partition %d, which is another member's, and is not told so", m.name, number)
		}
	}
	for number := range g.logs {
		if at := m.reads[int32(number)]; at != nil {
			part := g.logs[number][*at:min(int(*at)+20, len(g.logs[number]))]
			b.Records = append(b.Records, part...)
			for i := range part {
				g.world.recorder.delivered(m.name, &part[i])
			}
			*at += int64(len(part))
		}
	}
	return b
}

// Start implements node.Source.
func (m *member) Start(_ context.Context, places []node.Place) error {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, p := range places {
		number := m.group.world.inlets.called(p.Topic, p.Number)
		if _, is := m.reads[number]; is {
			m.reads[number] = &p.Offset
		}
	}
	return nil
}

// Pause implements node.Source.
func (m *member) Pause(partitions []node.Partition) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, p := range partitions {
		if number := m.group.world.inlets.called(p.Topic, p.Number); m.reads[number] != nil {
			m.reads[number] = nil
		}
	}
}

// Commit implements node.Source. Only who owns a partition commits its offset.
func (m *member) Commit(_ context.Context, places []node.Place) error {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	for _, p := range places {
		number := m.group.world.inlets.called(p.Topic, p.Number)
		if m.joined && m.group.owners[number] == m {
			m.group.world.recorder.offset(m.name, number, p.Offset)
		}
	}
	return nil
}

// Extents implements node.Source.
func (m *member) Extents(context.Context) ([]node.Extent, error) {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	var all []node.Extent
	for number := range m.group.logs {
		all = append(all, node.Extent{
			Partition: m.group.world.inlets.partition(int32(number)), End: int64(len(m.group.logs[number])),
		})
	}
	return all, nil
}

// Leave implements node.Source.
func (m *member) Leave(context.Context) error {
	m.group.leave(m)
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	clear(m.reads)
	m.assigned, m.revoked = nil, nil
	return nil
}

// gatedSource is a source whose calls pass a gate.
type gatedSource struct {
	*member

	gate *gate
}

// Poll implements node.Source.
func (s *gatedSource) Poll(ctx context.Context) (b node.Batch, err error) {
	err = s.gate.through(func() (err error) {
		b, err = s.member.Poll(ctx)
		return err
	})
	if err != nil {
		<-time.After(10 * time.Millisecond) // the engine would try again at once
	}
	return b, err
}

// Leave implements node.Source.
func (s *gatedSource) Leave(ctx context.Context) error {
	return s.gate.through(func() error { return s.member.Leave(ctx) })
}

// gatedLedger is a ledger that is asked for a partition, or for where they end, only while the process runs.
type gatedLedger struct {
	ledger.Ledger

	gate  *gate
	order inlets // in which the life names the input topics
}

// Own implements ledger.Ledger.
func (l *gatedLedger) Own(ctx context.Context, number int32, fence ledger.Entry) (w ledger.Writer, err error) {
	err = l.gate.through(func() (err error) {
		if w, err = l.Ledger.Own(ctx, number, fence); err == nil {
			l.gate.world.recorder.owned(l.order.number(number), l.gate)
		}
		return err
	})
	return w, err
}

// gatedStore is a store whose calls pass a gate. Each takes effect at one instant.
type gatedStore struct {
	*journal.Store

	gate *gate
}

var (
	_ node.Store    = (*gatedStore)(nil)
	_ node.Settling = (*gatedStore)(nil)
)

// Positions implements node.Store.
func (s *gatedStore) Positions(ctx context.Context, places []node.Place) (p []node.Position, st node.State, err error) {
	err = s.gate.through(func() (err error) {
		p, st, err = s.Store.Positions(ctx, places)
		return err
	})
	return p, st, err
}

// Take implements node.Store.
func (s *gatedStore) Take(ctx context.Context, request node.TakeRequest) (result node.TakeResult, err error) {
	err = s.gate.through(func() (err error) {
		if result, err = s.Store.Take(ctx, request); err == nil {
			s.gate.world.recorder.claimedIn(result.Results, s.gate)
		}
		return err
	})
	return result, err
}

// Claim implements node.Store.
func (s *gatedStore) Claim(ctx context.Context, request node.ClaimRequest) (result node.ClaimResult, err error) {
	err = s.gate.through(func() (err error) {
		if result, err = s.Store.Claim(ctx, request); err == nil {
			s.gate.world.recorder.claimed(result.Messages, s.gate)
		}
		return err
	})
	if err != nil {
		return node.ClaimResult{}, err // the answer is lost
	}
	return result, nil
}

// Settle implements node.Store.
func (s *gatedStore) Settle(ctx context.Context, next []node.Next) (how []node.Settled, err error) {
	err = s.gate.through(func() (err error) {
		how, err = s.Store.Settle(ctx, next)
		return err
	})
	return how, err
}

// Reset implements node.Store.
func (s *gatedStore) Reset(ctx context.Context, releases []node.Release) (done []node.Settled, err error) {
	err = s.gate.through(func() (err error) {
		if done, err = s.Store.Reset(ctx, releases); err == nil {
			s.gate.world.recorder.gaveBack(releases, done, s.gate)
		}
		return err
	})
	return done, err
}

// Fire implements node.Settling.
func (s *gatedStore) Fire(
	ctx context.Context, records []node.Record, next []node.Next,
) (how []node.Settled, errs []error) {
	if s.gate.stopAtFire.Swap(false) {
		s.gate.freeze(2 * groupSession)
	}
	err := s.gate.through(func() error {
		how, errs = s.Store.Fire(ctx, records, next)
		for _, err := range errs {
			if errors.Is(err, ledger.ErrFenced) {
				s.gate.world.counts(func(t *tally) { t.fenced++ })
			}
		}
		return nil
	})
	if err != nil { // nobody hears how it went
		return make([]node.Settled, len(records)), slices.Repeat([]error{err}, len(records))
	}
	return how, errs
}

// Extents implements ledger.Ledger. A follower begins with it.
func (l *gatedLedger) Extents(ctx context.Context) (extents []node.Extent, err error) {
	err = l.gate.through(func() (err error) {
		extents, err = l.Ledger.Extents(ctx)
		return err
	})
	return extents, err
}
