package sim

import (
	"math/rand/v2"
	"slices"
	"time"

	"chronos/node"
)

// group is the consumer group. Its members share the partitions of all input topics among them. When members come
// or go, a rebalance moves as few partitions as it can, each when its owner lets go of it: a member that holds a
// batch keeps its partitions until its next poll. A member that is not heard of for the time of a session is given
// up for dead, and may not know it: a zombie, whose commits the group ignores.
type group struct {
	keep int64 // how many records that were committed may be read again

	world      *world
	random     *rand.Rand
	partitions []*partition
	members    []*member // in the order in which they joined
	generation int
	joined     int
	planned    bool // a rebalance is about to begin
	offset     int  // where the share-out begins
}

// member is one membership of a life in the group.
type member struct {
	life    *life
	number  int
	holding bool // it has polled a batch and not polled since
	gone    bool // the group has removed it
	zombie  bool // the group has removed it, and it does not know

	// view are the partitions that the member believes are its own, and how far it has read them.
	view  []*cursor
	first int // where the next poll begins to look

	// session numbers the waits for its heartbeats, overdue those for its batch; hurried: there is one.
	session, overdue uint64
	hurried          bool

	// waiting is the parking of a poll that waits for records, 0 for none.
	waiting uint64
	poller  *task
}

// cursor is how far a member has read a partition.
type cursor struct {
	partition *partition
	id        node.Partition // as it was assigned

	told    bool          // a poll has told of it
	started bool          // and the member has told where to begin
	at      node.Position // of the next record
}

// join makes a life a member.
func (g *group) join(l *life) *member {
	g.joined++
	m := &member{life: l, number: g.joined}
	l.member = m
	g.members = append(g.members, m)
	g.world.recorder.joined(m)
	g.rebalanceSoon()
	return m
}

// remove takes a member out of the group, and its partitions from it.
func (g *group) remove(m *member) {
	if m.gone {
		return
	}
	m.gone = true
	g.world.recorder.gone(m)
	m.session++
	g.members = slices.DeleteFunc(g.members, func(other *member) bool { return other == m })
	for _, p := range g.partitions {
		if p.owner == m {
			p.owner = nil
		}
		if p.target == m {
			p.target = nil
		}
	}
	g.rebalanceSoon()
}

// expel gives a member up for dead. It goes on until it hears of it, at the next heartbeat that is answered.
func (g *group) expel(m *member, unaware time.Duration) {
	if m.gone {
		return
	}
	g.world.count("expelled")
	g.world.step(&Step{Kind: StepExpelled, Node: m.life.host.number, Life: m.life.number, Text: "is given up for dead"})
	m.zombie = true
	g.remove(m)
	g.world.after(unaware, func() { g.notice(m) })
}

// notice is the moment at which a zombie hears that it is one.
func (g *group) notice(m *member) {
	if !m.zombie || m.life.dead || !g.world.broker.attends(m.life) {
		return
	}
	m.zombie = false
	m.forgetView()
	if m.life.member == m {
		m.life.member = nil
	}
	m.wake()
}

// expect waits for a heartbeat for the time of a session.
func (g *group) expect(m *member) {
	if m.gone {
		return
	}
	m.session++
	session := m.session
	w := g.world
	w.after(w.options.Session, func() {
		if m.session == session && !w.broker.attends(m.life) && w.now >= w.broker.away {
			g.expel(m, 0)
		}
	})
}

// heard notes that heartbeats of a member arrive again. It tells a zombie what it is, a little later.
func (g *group) heard(m *member) {
	m.session++
	if m.zombie {
		g.world.after(between(g.random, time.Millisecond, 3*time.Second), func() { g.notice(m) })
		return
	}
	if !m.holding && m.hurried {
		m.hurried = false
		m.overdue++
		g.settle()
	}
	m.wake()
}

// brokersAway lets no session end while there is nobody to end it.
func (g *group) brokersAway() {
	for _, m := range g.members {
		m.session++
	}
}

// brokersBack begins all sessions anew.
func (g *group) brokersBack() {
	for _, m := range g.members {
		m.wake()
		if !g.world.broker.attends(m.life) {
			g.expect(m)
		}
	}
}

// rebalanceSoon plans a rebalance. Those who come within a short time are served by the same one.
func (g *group) rebalanceSoon() {
	if g.planned {
		return
	}
	g.planned = true
	g.world.after(between(g.random, 20*time.Millisecond, 500*time.Millisecond), g.rebalance)
}

// shuffle makes the next share-out differ from this one, though the members are the same.
func (g *group) shuffle() {
	g.offset++
	for _, p := range g.partitions {
		p.target = nil
	}
	g.rebalanceSoon()
}

// rebalance gives each partition a member that is to have it: everybody's share is equal, and who has one keeps it
// as long as it is within its share.
func (g *group) rebalance() {
	g.planned = false
	g.generation++
	g.world.count("rebalance")
	if len(g.members) == 0 {
		return
	}
	share, rest := len(g.partitions)/len(g.members), len(g.partitions)%len(g.members)
	shares := make([]int, len(g.members))
	for i := range g.members {
		shares[i] = share
		if (i+g.offset)%len(g.members) < rest {
			shares[i]++
		}
	}
	place := make(map[*member]int, len(g.members))
	for i, m := range g.members {
		place[m] = i
	}
	shift := g.offset % len(g.partitions)
	var free []*partition
	for i := range g.partitions {
		p := g.partitions[(i+shift)%len(g.partitions)]
		if i, known := place[p.target]; p.target != nil && known && shares[i] > 0 {
			shares[i]--
			continue
		}
		p.target = nil
		free = append(free, p)
	}
	next := g.offset % len(g.members)
	for _, p := range free {
		for shares[next] == 0 {
			next = (next + 1) % len(g.members)
		}
		p.target = g.members[next]
		shares[next]--
	}
	g.world.digest.number(uint64(g.generation))
	g.settle()
}

// settle moves partitions from owners that let go of them to those that are to have them.
func (g *group) settle() {
	for _, p := range g.partitions {
		if p.owner == p.target {
			continue
		}
		if p.owner != nil {
			if p.owner.holding || !g.world.broker.attends(p.owner.life) {
				g.hurry(p.owner)
				continue
			}
			p.owner.lose(p)
			p.owner = nil
		}
		if m := p.target; m != nil {
			p.owner = m
			m.view = append(m.view, &cursor{partition: p, id: p.id()})
			g.world.digest.number(uint64(m.number)<<32 | uint64(p.number))
			m.wake()
		}
	}
}

// hurry gives a member up for dead that does not poll for too long while others wait for its partitions.
func (g *group) hurry(m *member) {
	if m.hurried {
		return
	}
	m.hurried = true
	overdue := m.overdue
	g.world.after(g.world.options.Rebalance, func() {
		if m.overdue == overdue && !m.gone {
			g.expel(m, 0)
		}
	})
}

// polls notes that a member has come back for more: what it held is not held any more.
func (g *group) polls(m *member) {
	m.holding, m.hurried = false, false
	m.overdue++
	if !m.gone {
		for _, c := range m.view {
			if c.partition.target != m {
				g.settle()
				return
			}
		}
	}
}

// rewind sets the offsets of the group back, as a person does with a tool, which knows of no epochs, and for which the
// group must be empty. Nothing depends on them.
func (g *group) rewind(records int) {
	for _, m := range slices.Clone(g.members) {
		g.expel(m, 0)
	}
	for _, p := range g.partitions {
		if to := max(p.committed.Offset-int64(records), p.base); to < p.committed.Offset {
			p.committed = node.Position{Epoch: node.UnknownEpoch, Offset: to}
			g.world.recorder.rewound(p)
		}
	}
}

// forgetOffsets loses what the group has committed, as Kafka does when it expires.
func (g *group) forgetOffsets() {
	for _, p := range g.partitions {
		p.committed = uncommitted()
		g.world.recorder.rewound(p)
	}
}

// reassign hands the partitions of a topic that was created again to their members once more: to these they are others.
func (g *group) reassign(t *topic) {
	for _, p := range t.partitions {
		if m := p.owner; m != nil {
			m.lose(p)
			m.view = append(m.view, &cursor{partition: p, id: p.id()})
			m.wake()
		}
	}
}

// lose takes a partition out of a member's view.
func (m *member) lose(p *partition) {
	m.view = slices.DeleteFunc(m.view, func(c *cursor) bool {
		if c.partition == p && c.told && m.life.member == m {
			m.life.told.revoked = append(m.life.told.revoked, c.id)
		}
		return c.partition == p
	})
}

// forgetView takes all partitions out of a member's view.
func (m *member) forgetView() {
	for _, c := range m.view {
		if c.told {
			m.life.told.revoked = append(m.life.told.revoked, c.id)
		}
	}
	m.view = nil
}

// wake ends the wait of a poll.
func (m *member) wake() {
	if m.waiting != 0 {
		w := m.life.host.world
		w.at(w.now+m.life.host.brokerLink.latency(), m.poller, m.waiting)
		m.waiting = 0
	}
}
