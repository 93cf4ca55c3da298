package sim

import (
	"context"

	"chronos/node"
)

// brokerPort is the Broker port of one life: one consumer and one producer.
type brokerPort struct{ life *life }

var _ node.Broker = (*brokerPort)(nil)

// pollRecords is the most that one poll returns.
const pollRecords = 500

// Poll implements node.Broker.
func (p *brokerPort) Poll(ctx context.Context) ([]node.Record, error) {
	l := p.life
	w := l.host.world
	w.judge.polls(l)
	if l.member != nil {
		w.broker.group.polls(l.member)
	}
	c := l.begin(opPoll, &l.host.brokerLink, nil)
	if c.refused {
		p.wait(ctx, c, c.link.latency())
		return nil, errRefused
	}
	until := w.now + l.host.clock.trueFor(pollWait)
	var records []node.Record
	for {
		if l.member == nil && w.broker.reaches(l.host) {
			p.wait(ctx, c, 3*c.link.latency()) // find the coordinator, join, synchronize
			if w.broker.reaches(l.host) && ctx.Err() == nil {
				w.broker.group.join(l)
			}
		}
		if w.broker.reaches(l.host) && l.member != nil {
			records = l.member.fetch()
		}
		if len(records) > 0 || w.now >= until || ctx.Err() != nil {
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
	if c.crash == CrashReplied {
		c.crashNow()
		panic(unwound{})
	}
	if len(records) > 0 {
		w.digest.number(uint64(len(records)))
		w.judge.polled(l, records)
	}
	return records, nil
}

// wait parks the caller for a while, or until it is woken.
func (p *brokerPort) wait(ctx context.Context, c *call, nanos int64) {
	w := p.life.host.world
	turn := c.task.parking()
	w.at(w.now+nanos, c.task, turn)
	c.task.interruptible = ctx.Done() != nil
	c.task.park()
}

// fetch reads on in the partitions that the member believes are its own. The brokers let anybody read: a zombie
// reads on until it hears that it is one.
func (m *member) fetch() []node.Record {
	w := m.life.host.world
	var records []node.Record
	for i := range m.view {
		c := m.view[(m.first+i)%len(m.view)]
		p := c.partition
		if w.now < p.absent {
			continue
		}
		c.position = max(c.position, p.base)
		n := min(p.end-c.position, int64(pollRecords-len(records)))
		records = append(records, p.log[c.position-p.base:][:n]...)
		c.position += n
	}
	m.first++
	m.holding = len(records) > 0
	return records
}

// Commit implements node.Broker.
func (p *brokerPort) Commit(ctx context.Context, records []node.Record) error {
	l := p.life
	w := l.host.world
	m := l.member
	c := l.begin(opCommit, &l.host.brokerLink, func() []int { return numbersOf(records) })
	return c.perform(ctx, w.options.publishTimeout(), func() bool {
		if w.now < w.broker.away {
			c.spoilt().unanswered = true
			return true
		}
		w.broker.group.commit(m, records[:c.items(len(records))])
		return true
	})
}

// commit stores how far the group has come, in those partitions that the member owns. A member that is none any more
// belongs to an old generation: its commit has no effect.
func (g *group) commit(m *member, records []node.Record) {
	if m == nil || m.gone {
		g.world.count("commit-fenced")
		return
	}
	for i := range records {
		r := &records[i]
		p := g.partition(r.Topic, r.Partition)
		if p.owner != m {
			g.world.count("commit-left-out")
			continue
		}
		last := i+1 == len(records) || records[i+1].Topic != r.Topic ||
			records[i+1].Partition != r.Partition
		if !last || r.Offset+1 == p.committed {
			continue
		}
		back := r.Offset+1 < p.committed
		p.committed = r.Offset + 1
		p.reached = max(p.reached, p.committed)
		if back {
			g.world.judge.rewound(p) // an older commit has come late
		} else {
			g.world.judge.committed(m.life, p)
			p.trim(g.keep)
		}
	}
}

// partition returns the partition of an input topic.
func (g *group) partition(topic string, number int32) *partition {
	for _, t := range g.world.broker.input {
		if t.name == topic {
			return t.partitions[number]
		}
	}
	panic("sim: no input topic " + topic)
}

// Leave implements node.Broker. The consumer forgets its membership whatever the brokers say.
func (p *brokerPort) Leave(ctx context.Context) error {
	l := p.life
	w := l.host.world
	m := l.member
	if m != nil {
		l.member = nil
		m.holding, m.zombie, m.view = false, false, nil
	}
	c := l.begin(opLeave, &l.host.brokerLink, nil)
	err := c.perform(ctx, w.options.publishTimeout(), func() bool {
		if w.now < w.broker.away {
			c.spoilt().unanswered = true
			return true
		}
		if m != nil {
			w.broker.group.remove(m)
		}
		return true
	})
	if err != nil && m != nil {
		w.broker.group.forget(m)
	}
	return err
}

// forget takes out a member that has left without saying so, once its session has ended.
func (g *group) forget(m *member) {
	g.world.after(g.world.options.Session, func() { g.remove(m) })
}
