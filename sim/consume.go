package sim

import (
	"context"

	"chronos/node"
)

// sourcePort is the Source port of one life: one consumer.
type sourcePort struct{ life *life }

var _ node.Source = (*sourcePort)(nil)

// pollRecords is the most that one poll returns.
const pollRecords = 500

// told is what the consumer of a life has yet to tell in a poll.
type told struct{ revoked []node.Partition }

// Poll implements node.Source.
func (p *sourcePort) Poll(ctx context.Context) (node.Batch, error) {
	l := p.life
	w := l.host.world
	w.recorder.polls(l)
	if l.member != nil {
		w.broker.group.polls(l.member)
	}
	c := l.begin(opPoll, &l.host.brokerLink, nil)
	if c.refused {
		p.wait(ctx, c, c.link.latency())
		return node.Batch{}, errRefused
	}
	until := w.now + l.host.clock.trueFor(pollWait)
	var batch node.Batch
	for {
		if l.member == nil && w.broker.reaches(l.host) {
			p.wait(ctx, c, 3*c.link.latency()) // find the coordinator, join, synchronize
			if w.broker.reaches(l.host) && ctx.Err() == nil {
				w.broker.group.join(l)
			}
		}
		batch = p.fetch()
		if !empty(&batch) || w.now >= until || ctx.Err() != nil {
			break
		}
		if l.member != nil {
			l.member.poller = c.task
			l.member.waiting = c.task.turn + 1
		}
		p.wait(ctx, c, until-w.now)
		if l.member != nil {
			l.member.waiting = 0
		}
	}
	if c.crashes(CrashReplied) {
		c.crashNow()
		panic(unwound{})
	}
	w.digest.number(uint64(len(batch.Records))<<32 | uint64(len(batch.Assigned))<<16 | uint64(len(batch.Revoked)))
	w.recorder.polled(l, &batch)
	return batch, nil
}

func empty(b *node.Batch) bool {
	return len(b.Revoked)+len(b.Assigned)+len(b.Moved)+len(b.Lost)+len(b.Records) == 0
}

// wait parks the caller for a while, or until it is woken.
func (p *sourcePort) wait(ctx context.Context, c *call, nanos int64) {
	w := p.life.host.world
	turn := c.task.parking()
	w.at(w.now+nanos, c.task, turn)
	c.task.until(ctx)
	c.task.park()
}

// fetch tells what has become of the partitions, and reads on in those that the member believes are its own. The
// brokers let anybody read: a zombie reads on until it hears that it is one.
func (p *sourcePort) fetch() (batch node.Batch) {
	l := p.life
	w := l.host.world
	batch.Revoked, l.told.revoked = l.told.revoked, nil
	m := l.member
	if m == nil || !w.broker.reaches(l.host) {
		return batch
	}
	for i := range m.view {
		c := m.view[(m.first+i)%len(m.view)]
		switch {
		case w.now < c.partition.absent || c.id.TopicID != c.partition.topic.id:
		case !c.told:
			c.told = true
			batch.Assigned = append(batch.Assigned, node.Assignment{
				Extent: c.partition.extent(), Committed: c.partition.committed,
			})
		case c.started:
			c.read(&batch)
		}
	}
	m.first++
	m.holding = len(batch.Records) > 0
	return batch
}

// read goes on in a partition. Where the log does not go on from there, the batch tells how it does.
func (c *cursor) read(batch *node.Batch) {
	p := c.partition
	if end := p.endOf(c.at.Epoch); c.at.Offset > end {
		c.at = p.before(end)
		batch.Moved = append(batch.Moved, node.Place{Partition: c.id, Position: c.at})
	}
	if c.at.Offset < p.base {
		batch.Lost = append(batch.Lost, node.Loss{Partition: c.id, From: c.at.Offset, To: p.base})
		c.at = node.Position{Epoch: node.UnknownEpoch, Offset: p.base}
	}
	n := min(p.end()-c.at.Offset, int64(pollRecords-len(batch.Records)))
	batch.Records = append(batch.Records, p.log[c.at.Offset-p.base:][:n]...)
	if n > 0 {
		c.at = p.before(c.at.Offset + n)
	}
}

// Pause implements node.Source. Nothing is sent.
func (p *sourcePort) Pause(partitions []node.Partition) {
	if p.life.member == nil {
		return
	}
	for _, partition := range partitions {
		for _, cursor := range p.life.member.view {
			if cursor.id == partition && cursor.told {
				cursor.started = false
			}
		}
	}
}

// Start implements node.Source. Nothing is sent: the consumer notes where to read.
func (p *sourcePort) Start(ctx context.Context, places []node.Place) error {
	l := p.life
	c := l.begin(opStart, &l.host.brokerLink, nil)
	if c.refused {
		p.wait(ctx, c, c.link.latency())
		return errRefused
	}
	if l.member == nil {
		return nil
	}
	for _, place := range places {
		for _, cursor := range l.member.view {
			if cursor.id == place.Partition && cursor.told {
				cursor.started, cursor.at = true, place.Position
			}
		}
	}
	return nil
}

// Commit implements node.Source.
func (p *sourcePort) Commit(ctx context.Context, places []node.Place) error {
	l := p.life
	w := l.host.world
	m := l.member
	places = append([]node.Place(nil), places...)
	c := l.begin(opCommit, &l.host.brokerLink, nil)
	return c.perform(ctx, w.options.publishTimeout(), servedBy(func() bool {
		if w.now < w.broker.away {
			c.spoilt().unanswered = true
			return true
		}
		w.broker.group.commit(m, places[:c.items(len(places))])
		return true
	}))
}

// commit stores how far the group has come, in those partitions that the member owns. A member that is none any more
// belongs to an old generation: its commit has no effect.
func (g *group) commit(m *member, places []node.Place) {
	if m == nil || m.gone {
		g.world.count("commit-fenced")
		return
	}
	for _, place := range places {
		p := g.world.broker.inputOf(place.Partition)
		if p == nil || p.owner != m {
			g.world.count("commit-left-out")
			continue
		}
		if place.Position == p.committed && !p.inherited {
			continue
		}
		back := place.Offset < p.committed.Offset
		p.committed, p.inherited, p.kept = place.Position, false, !g.world.older
		if back {
			g.world.recorder.lowered(m.life, p)
		} else {
			g.world.recorder.committed(m.life, p)
			p.trim(g.keep)
		}
	}
}

// Extents implements node.Source.
func (p *sourcePort) Extents(ctx context.Context) ([]node.Extent, error) {
	l := p.life
	w := l.host.world
	var extents []node.Extent
	c := l.begin(opExtents, &l.host.brokerLink, nil)
	err := c.perform(ctx, w.options.publishTimeout(), servedBy(func() bool {
		if w.now < w.broker.away {
			c.spoilt().unanswered = true
			return true
		}
		for _, partition := range w.broker.group.partitions {
			if w.now < partition.absent {
				c.answer = errNoLeader
			}
			extents = append(extents, partition.extent())
		}
		return true
	}))
	if err != nil {
		return nil, err
	}
	return extents, nil
}

// Leave implements node.Source. The consumer forgets its membership whatever the brokers say.
func (p *sourcePort) Leave(ctx context.Context) error {
	l := p.life
	w := l.host.world
	m := l.member
	if m != nil {
		m.forgetView()
		l.member = nil
		m.holding, m.zombie = false, false
	}
	c := l.begin(opLeave, &l.host.brokerLink, nil)
	err := c.perform(ctx, w.options.publishTimeout(), servedBy(func() bool {
		if w.now < w.broker.away {
			c.spoilt().unanswered = true
			return true
		}
		if m != nil {
			w.broker.group.remove(m)
		}
		return true
	}))
	if err != nil && m != nil {
		w.broker.group.forget(m)
	}
	return err
}

// forget takes out a member that has left without saying so, once its session has ended.
func (g *group) forget(m *member) {
	g.world.after(g.world.options.Session, func() { g.remove(m) })
}
