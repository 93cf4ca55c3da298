package sim

import (
	"slices"
	"strconv"
	"time"

	"chronos/node"
)

// maxRecordBytes is the largest value that an output topic accepts in this world.
const maxRecordBytes = 2048

// brokerServer is a Kafka cluster: topics with partitions that have leaders, and one consumer group.
type brokerServer struct {
	world *world
	away  int64 // until when no broker answers
	input []*topic
	other []*topic // output and dead-letter topics
	group *group
}

// topic is a topic. Input topics keep their records, to be read again; of the others only the judge and the
// application look at what is appended.
type topic struct {
	name       string
	input      bool
	dead       bool // a dead-letter topic, which takes records of any size
	partitions []*partition
	missing    int64 // until when it does not exist
	next       int   // the partition of the next record without a key
}

// partition is an ordered log. For an input topic it knows how far the group has come.
type partition struct {
	topic  *topic
	number int32
	epoch  int32
	end    int64 // the offset of the next record
	base   int64 // the offset of log[0]
	log    []node.Record
	absent int64 // until when it has no leader

	committed     int64
	reached       int64 // the highest that was committed: a late commit of old cannot take that back
	owner, target *member
}

func newBrokerServer(w *world) *brokerServer {
	b := &brokerServer{world: w}
	b.group = &group{world: w, random: stream(w.options.Seed, forGroup, 0, 0)}
	if w.options.FaultRate > 0 || w.plan != nil && len(w.plan.Faults) > 0 {
		b.group.keep = 128
	}
	for i := range w.options.Routes {
		r := w.options.route(i)
		b.input = append(b.input, b.newTopic(r.Input, true))
		if b.topic(r.Output) == nil {
			b.other = append(b.other, b.newTopic(r.Output, false))
		}
		if r.DeadLetter != "" && b.topic(r.DeadLetter) == nil {
			dead := b.newTopic(r.DeadLetter, false)
			dead.dead = true
			b.other = append(b.other, dead)
		}
	}
	for _, t := range b.input {
		b.group.partitions = append(b.group.partitions, t.partitions...)
	}
	return b
}

func (b *brokerServer) newTopic(name string, input bool) *topic {
	t := &topic{name: name, input: input}
	for i := range b.world.options.Partitions {
		t.partitions = append(t.partitions, &partition{topic: t, number: int32(i)})
	}
	return t
}

// topic returns the topic of that name that is no input topic, or nil.
func (b *brokerServer) topic(name string) *topic {
	for _, t := range b.other {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (b *brokerServer) heal() {
	now := b.world.now
	b.away = now
	for _, t := range slices.Concat(b.input, b.other) {
		t.missing = now
		for _, p := range t.partitions {
			p.absent = now
		}
	}
	b.group.brokersBack()
}

// goAway takes all brokers away. Nobody's session ends meanwhile: those who would end it are away as well.
func (b *brokerServer) goAway(until int64) {
	if until <= b.away {
		return
	}
	b.away = until
	b.group.brokersAway()
	b.world.at(until, action(func() {
		if b.world.now >= b.away {
			b.group.brokersBack()
		}
	}), 0)
}

// changeLeader gives a partition a new leader after a while without one.
func (b *brokerServer) changeLeader(which int, until int64) {
	topics := slices.Concat(b.input, b.other)
	t := topics[which%len(topics)]
	p := t.partitions[which/len(topics)%len(t.partitions)]
	p.epoch++
	p.absent = max(p.absent, until)
	b.world.at(until, action(func() { p.wakeOwner() }), 0)
}

func (b *brokerServer) missTopic(which int, until int64) {
	t := b.other[which%len(b.other)]
	t.missing = max(t.missing, until)
}

// choose returns the partition that a producer chooses for the key.
func (t *topic) choose(key []byte) *partition {
	if key == nil {
		t.next++
		return t.partitions[t.next%len(t.partitions)]
	}
	var d digest
	d.bytes(key)
	return t.partitions[uint64(d)%uint64(len(t.partitions))]
}

// append puts a record at the end of a partition and returns it as it can be read there.
func (p *partition) append(r node.Record) node.Record {
	r.Topic, r.Partition, r.Offset, r.LeaderEpoch = p.topic.name, p.number, p.end, p.epoch
	p.end++
	if p.topic.input {
		p.log = append(p.log, r)
		p.wakeOwner()
	}
	return r
}

// trim forgets what was committed long ago, so that a long run fits in memory. Where nothing goes wrong, nothing that
// was committed is read again.
func (p *partition) trim(keep int64) {
	const part = 16
	if drop := p.committed - p.base - keep; drop >= max(keep, part) {
		p.log = slices.Clone(p.log[drop:])
		p.base += drop
	}
}

// wakeOwner tells whoever reads the partition that there may be something to read.
func (p *partition) wakeOwner() {
	if p.owner != nil {
		p.owner.wake()
	}
}

func (p *partition) String() string {
	return p.topic.name + "/" + strconv.Itoa(int(p.number))
}

// closed is the end of an orderly life: its consumer leaves the group.
func (b *brokerServer) closed(l *life) {
	if l.member != nil {
		b.group.remove(l.member)
	}
}

// vanished is the end of a life that crashed: the group finds out when its session ends.
func (b *brokerServer) vanished(l *life) { b.silent(l) }

// silent notes that a member sends no heartbeats from now on.
func (b *brokerServer) silent(l *life) {
	if l.member != nil {
		b.group.expect(l.member)
	}
}

// audible notes that a member sends heartbeats again.
func (b *brokerServer) audible(l *life) {
	if l.member != nil {
		b.listen(l)
	}
}

// listen begins or ends the wait for heartbeats, by whether they arrive now.
func (b *brokerServer) listen(l *life) {
	if b.attends(l) {
		b.group.heard(l.member)
	} else {
		b.group.expect(l.member)
	}
}

// linkChanged notes that a node may have lost its way to the brokers, or found it again.
func (b *brokerServer) linkChanged(h *host) {
	if l := h.life; l != nil && l.member != nil {
		b.listen(l)
	}
}

// reaches tells whether requests and replies get through between a node and the brokers.
func (b *brokerServer) reaches(h *host) bool {
	now := b.world.now
	return now >= b.away && now >= h.brokerLink.requestsCut && now >= h.brokerLink.repliesCut
}

// attends tells whether heartbeats of the process reach the group.
func (b *brokerServer) attends(l *life) bool {
	return !l.dead && b.world.now >= l.pausedUntil && b.reaches(l.host)
}

// pollWait is how long a poll that finds nothing waits.
const pollWait = time.Second
