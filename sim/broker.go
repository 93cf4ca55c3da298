package sim

import (
	"encoding/binary"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim/check"
)

// maxRecordBytes is the largest value that an output topic accepts in this world.
const maxRecordBytes = 128 << 10

// brokerServer is a Kafka cluster: topics with partitions that have leaders, and one consumer group.
type brokerServer struct {
	world *world
	away  int64 // until when no broker answers
	input []*topic
	other []*topic // output and dead-letter topics
	group *group
}

// clusterID is the id of the cluster.
const clusterID = "simulated"

// groupName is the name of the consumer group.
const groupName = "delay"

// topic is a topic. Input topics keep their records, to be read again; of the others only the recorder and the
// application look at what is appended.
type topic struct {
	name       string
	number     int
	id         uuid.UUID
	ids        []uuid.UUID // one for each time that it was created; the last is id
	input      bool
	dead       bool // a dead-letter topic, which takes records of any size
	partitions []*partition
	missing    int64 // until when it does not exist
	next       int   // the partition of the next record without a key
}

func newBrokerServer(w *world) *brokerServer {
	b := &brokerServer{world: w}
	b.group = &group{world: w, random: stream(w.options.Seed, forGroup, 0, 0)}
	if w.options.FaultRate > 0 || w.plan != nil && len(w.plan.Faults) > 0 {
		b.group.keep = 1 << 20
	}
	for i := range w.options.Routes {
		r := w.options.route(i)
		b.input = append(b.input, b.newTopic(r.Input, true))
		if b.topic(r.Output) == nil {
			for number := 0; number <= targets && (number == 0 || w.options.Aimed > 0); number++ {
				b.other = append(b.other, b.newTopic(target(r, number), false))
			}
		}
		if r.DeadLetter != "" && b.topic(r.DeadLetter) == nil {
			dead := b.newTopic(r.DeadLetter, false)
			dead.dead = true
			b.other = append(b.other, dead)
		}
		if r.Outcomes != "" && b.topic(r.Outcomes) == nil {
			b.other = append(b.other, b.newTopic(r.Outcomes, false))
		}
	}
	for _, t := range b.input {
		b.group.partitions = append(b.group.partitions, t.partitions...)
	}
	return b
}

func (b *brokerServer) newTopic(name string, input bool) *topic {
	t := &topic{name: name, number: len(b.input) + len(b.other), input: input}
	t.born(b.world)
	for range b.world.options.Partitions {
		t.grow()
	}
	return t
}

// born gives the topic another identity.
func (t *topic) born(w *world) {
	random := stream(w.options.Seed, forTopics, t.number, len(t.ids)+1)
	binary.LittleEndian.PutUint64(t.id[:], random.Uint64())
	binary.LittleEndian.PutUint64(t.id[8:], random.Uint64())
	t.ids = append(t.ids, t.id)
}

// grow adds a partition.
func (t *topic) grow() *partition {
	p := &partition{topic: t, number: int32(len(t.partitions)), committed: uncommitted()}
	t.partitions = append(t.partitions, p)
	return p
}

// uncommitted is what a group has committed where that is nothing.
func uncommitted() node.Position { return node.Position{Epoch: node.UnknownEpoch, Offset: -1} }

// topic returns the topic of that name that is no input topic, or nil.
func (b *brokerServer) topic(name string) *topic {
	for _, t := range b.other {
		if t.name == name {
			return t
		}
	}
	return nil
}

// inputOf returns the partition of an input topic, as it was assigned to somebody; nil when it is not there any more.
func (b *brokerServer) inputOf(id node.Partition) *partition {
	for _, t := range b.input {
		if t.id == id.TopicID && int(id.Number) < len(t.partitions) {
			return t.partitions[id.Number]
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
			p.absent, p.hangs = now, now
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

// which returns one of the partitions of topics, by a number.
func which(topics []*topic, number int) *partition {
	t := topics[number%len(topics)]
	return t.partitions[number/len(topics)%len(t.partitions)]
}

// changeLeader gives a partition a new leader after a while without one.
func (b *brokerServer) changeLeader(number int, until int64) {
	p := which(slices.Concat(b.input, b.other), number)
	p.epoch++
	p.absent = max(p.absent, until)
	b.world.at(until, action(func() { p.wakeOwner() }), 0)
}

func (b *brokerServer) missTopic(number int, until int64) {
	t := b.other[number%len(b.other)]
	t.missing = max(t.missing, until)
}

// hang lets the leader of one partition of an output topic, or of all of them, take requests and answer none.
func (b *brokerServer) hang(number int, whole bool, until int64) {
	p := which(b.other, number)
	partitions := []*partition{p}
	if whole {
		partitions = p.topic.partitions
	}
	for _, p := range partitions {
		p.hangs = max(p.hangs, until)
	}
	b.world.recorder.hangs(check.Hang, p, whole, until)
	b.world.at(until, action(func() { b.world.recorder.hangs(check.Work, p, whole, 0) }), 0)
}

// cut has a node not reach the leader of one partition of an output topic.
func (b *brokerServer) cut(number int, h *host, until int64) {
	p := which(b.other, number)
	h.brokerLink.cutFrom(p, until)
	b.world.recorder.unreached(p, h, until)
}

// truncate changes the leader of a partition of an input topic to one that lacks the last records.
func (b *brokerServer) truncate(number, records int) {
	p := which(b.input, number)
	lost := min(int64(records), p.end()-p.base)
	p.log = p.log[:int64(len(p.log))-lost]
	p.epochs = slices.DeleteFunc(p.epochs, func(begins node.Position) bool { return begins.Offset >= p.end() })
	p.epoch++
	b.world.recorder.truncated(p)
	p.wakeOwner()
}

// retain deletes the first records of a partition of an input topic, whether they were taken in or not.
func (b *brokerServer) retain(number, records int) {
	p := which(b.input, number)
	lost := min(int64(records), p.end()-p.base)
	p.log = slices.Clone(p.log[lost:])
	p.base += lost
	b.world.recorder.retained(p)
	p.wakeOwner()
}

// recreate deletes an input topic and creates it again under its name, with as many partitions. What the group has
// committed stays, unless it is forgotten.
func (b *brokerServer) recreate(number int) {
	t := b.input[number%len(b.input)]
	for _, p := range t.partitions {
		b.world.recorder.dropped(p)
	}
	t.born(b.world)
	for _, p := range t.partitions {
		p.log, p.epochs, p.base, p.epoch, p.inherited = nil, nil, 0, 0, true
		if number%2 == 0 {
			p.committed = uncommitted()
		}
	}
	b.group.reassign(t)
}

// addPartition gives an input topic one more partition.
func (b *brokerServer) addPartition(number int) {
	t := b.input[number%len(b.input)]
	b.group.partitions = append(b.group.partitions, t.grow())
	b.group.rebalanceSoon()
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

// closed is the end of a clean life: its consumer leaves the group.
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

// reaches reports whether requests and replies get through between a node and the brokers.
func (b *brokerServer) reaches(h *host) bool {
	now := b.world.now
	return now >= b.away && now >= h.brokerLink.requestsCut && now >= h.brokerLink.repliesCut
}

// attends reports whether heartbeats of the process reach the group.
func (b *brokerServer) attends(l *life) bool {
	return !l.dead && b.world.now >= l.pausedUntil && b.reaches(l.host)
}

// pollWait is how long a poll that finds nothing waits.
const pollWait = time.Second

// partition is an ordered log. Every record has the epoch of the leader that wrote it. For an input topic it keeps the
// records that retention has left, and what the group has committed.
type partition struct {
	topic  *topic
	number int32
	epoch  int32
	base   int64 // the offset of log[0]
	log    []node.Record
	epochs []node.Position // where each epoch begins that has written something
	count  int64           // of the records of other topics, whose log is not kept
	absent int64           // until when it has no leader
	hangs  int64           // until when its leader answers nobody

	committed     node.Position // its Offset is -1 if that is nothing
	inherited     bool          // that was committed for one of its name that was deleted
	kept          bool          // it was committed by a node that keeps positions
	owner, target *member
}

// id names the partition as it is now.
func (p *partition) id() node.Partition {
	return node.Partition{Topic: p.topic.name, TopicID: p.topic.id, Number: p.number}
}

// end is the offset of the next record.
func (p *partition) end() int64 { return p.base + int64(len(p.log)) + p.count }

// extent is what the partition holds.
func (p *partition) extent() node.Extent {
	return node.Extent{Partition: p.id(), First: p.base, End: p.end()}
}

// append puts a record at the end of a partition and returns it as it can be read there.
func (p *partition) append(r node.Record) node.Record {
	r.Topic, r.Partition, r.Offset, r.LeaderEpoch = p.topic.name, p.number, p.end(), p.epoch
	if p.topic.input {
		if n := len(p.epochs); n == 0 || p.epochs[n-1].Epoch != p.epoch {
			p.epochs = append(p.epochs, node.Position{Epoch: p.epoch, Offset: r.Offset})
		}
		p.log = append(p.log, r)
		p.wakeOwner()
	} else {
		p.count++
	}
	return r
}

// before returns the position at an offset: with the epoch of the record before it, where that is still there.
func (p *partition) before(offset int64) node.Position {
	if offset > p.base && offset <= p.end() {
		return node.Position{Epoch: p.log[offset-p.base-1].LeaderEpoch, Offset: offset}
	}
	return node.Position{Epoch: node.UnknownEpoch, Offset: offset}
}

// endOf returns where the records of an epoch, and of those before it, end.
func (p *partition) endOf(epoch int32) int64 {
	for _, begins := range p.epochs {
		if begins.Epoch > epoch && epoch != node.UnknownEpoch {
			return begins.Offset
		}
	}
	return p.end()
}

// trim forgets what was taken in long ago, so that a long run fits in memory. Where nothing goes wrong, nothing that
// was taken in is read again.
func (p *partition) trim(keep int64) {
	const part = 16
	if drop := p.committed.Offset - p.base - keep; drop >= max(keep, part) {
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

// String names the partition: of a topic that was created again, by another name.
func (p *partition) String() string { return p.topic.shard(p.number, len(p.topic.ids)) }

// shard names a partition of the topic as it was after it had been created so many times.
func (t *topic) shard(number int32, births int) string {
	name := t.name
	if births > 1 {
		name += "#" + strconv.Itoa(births)
	}
	return name + "/" + strconv.Itoa(int(number))
}
