package node

import (
	"bytes"
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

// schedule holds the claims of this node that wait for their instant, a queue for each lane. It is where enqueue,
// which stores messages that are due soon as claimed, and the claimer meet the publishers. It is bounded, in
// messages and in bytes, for each lane: what finds no room waits in the store.
//
// The mutex is held for the length of a method only, never over a call to a port, so that the simulator, which
// runs one loop at a time, never finds it taken.
type schedule struct {
	// pace says how much fits in, and most how many batches with messages of a lane are published at once.
	pace pace
	most func(lane string) int

	// gate returns that of a lane, and now says what the wall clock does: not earlier or later by any advance, which is
	// for messages and not for lanes.
	gate func(lane string) *gate
	now  func() time.Time

	// perSecond returns how many messages come out on a lane in a second by mono, the monotonic clock, at most; 0 for
	// no bound. Those that come out within the lookahead may be held.
	perSecond func(lane string) int
	mono      func() time.Duration
	lookahead time.Duration

	mu    sync.Mutex
	lanes []*lane // and parts of lanes
	named map[Part]*lane

	// first is the lane that the next batch begins with.
	first int

	// probing is how many batches of lanes in doubt are being published.
	probing int

	// contested are the messages that a take has lately asked to be claimed, by incarnation, see contest.
	contested map[uuid.UUID]contest

	// keeper is the publisher that sleeps until something falls due, and sleepers are those that sleep until they are
	// rung, see idle.
	keeper   *publisher
	sleepers []*publisher
}

// lane is what this node knows of one lane, or of a part of one (park.go): what it holds there, and how the sink has
// taken to it. A part has the gate and the throttle of its lane.
type lane struct {
	Part
	whole *lane // the lane of the part; itself for a lane

	items scheduled
	bytes int
	most  int // batches with messages of the lane, and of its parts, that are published at once
	gate  *gate

	// throttle counts what was taken out lately; nil for a lane without a pace. Owing says that the last claim has left
	// something in the store, and shared that such claims have gone on for a while, see jumps.
	throttle      *throttle
	owing, shared bool

	// found says that no route names the lane, and heard when this node last heard of it, monotonic, see find.
	found bool
	heard time.Duration

	// busy is how many batches with messages of the lane are being published, and batches how many with any of its
	// parts or itself.
	busy, batches int

	// doubtful says that the last batch with messages of this lane failed as far as they were concerned. A part begins
	// so.
	doubtful bool
}

// holding is a ready message of this node.
type holding struct {
	Ready

	// since is the node's monotonic clock before the claim was requested: the claim is not older than that.
	since time.Duration

	// turn is its place among those of its lane, see add.
	turn time.Time

	// taken is the monotonic instant at which it was taken out to be published: the pace of its lane counts it there.
	taken time.Duration

	// next is what is settled once the message is published, or copied to its dead-letter topic. The publisher sets it.
	next Next
}

const (
	// scheduleBatches is how many batches of messages the schedule has room for, and scheduleBytes their greatest size,
	// except for the last one taken on each lane. The lanes share them, see part; those that routes do not name may
	// have as much again between them, if they all hold something at once.
	scheduleBatches = 4
	scheduleBytes   = 4 * batchBytes

	// publishers is how many batches are published at the same time. One lane fills all but one of these: a
	// lane that hangs, and nobody knows it yet, leaves one for the others.
	publishers = 4

	// mergeFor is how long what falls due on a lane waits for a batch of that lane that is being published, so that it
	// shares the next one with others. A request for every message would cost more than the wait: at 1,000 messages a
	// second the publishers would be in each other's way.
	mergeFor = 5 * time.Millisecond

	// probeMessages is the size of a batch that is sent on a lane in doubt: all of it may hang, and then fire twice.
	probeMessages = 50
)

func newSchedule(c *Config, clock Clock, lanes []string, pace pace, most func(lane string) int) *schedule {
	s := &schedule{
		pace: pace, most: most, gate: c.gates(), now: clock.Now,
		perSecond: c.PaceOf, mono: clock.Mono, lookahead: c.Lookahead,
		named: map[Part]*lane{}, contested: map[uuid.UUID]contest{},
	}
	for _, name := range lanes {
		s.serve(Part{Lane: name}).found = false
	}
	return s
}

// room returns how many messages and bytes fit in on a lane or part; zero or less for none.
func (s *schedule) room(at Part) (messages, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, served := s.named[at]
	if !served {
		return 0, 0
	}
	messages, bytes = s.share(l)
	return messages - len(l.items), bytes - l.bytes
}

// roomy reports whether a claim for that many messages is worth its while. Where a publish takes out a whole batch, any
// is. Where it takes out one message, a claim for each would be as many transactions.
func (s *schedule) roomy(at Part, messages int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.named[at]
	if s.pace.batch > 1 || l == nil || messages <= 0 {
		return messages > 0
	}
	all, _ := s.share(l)
	return 2*messages >= all
}

// share returns how much of the schedule is a lane's. The lanes that routes name have equal parts, and so have those
// that were found and hold something. One that was found and holds nothing leaves its part to the others: what waits
// there may not be due for a month, and 250 of these would leave seven messages to a lane that has thousands. As soon
// as it asks, it gets an equal part of what there is, and where the others hold everything, what would be its part if
// all lanes held something. A lane with a pace has no more than comes out within the lookahead: what would be held for
// longer could be cancelled meanwhile, or come out of a node that is idle. The caller holds mu.
func (s *schedule) share(l *lane) (messages, bytes int) {
	if l.probes() {
		return min(probeSize, max(1, s.pace.held/len(s.lanes))), probeBytes
	}
	sharing, messages, bytes := 0, s.pace.held, scheduleBytes
	for _, other := range s.lanes {
		if other.probes() {
			continue
		}
		if !other.idle() || other == l {
			sharing++
		}
		if other != l {
			messages, bytes = messages-len(other.items), bytes-other.bytes
		}
	}
	messages = max(1, s.pace.held/len(s.lanes), min(messages, s.pace.held/sharing))
	if s.pace.deep > 0 {
		messages = min(messages, s.pace.deep*l.most)
	}
	if l.throttle != nil {
		messages = min(messages, l.throttle.room(s.mono()+s.lookahead))
	}
	return messages, max(1, scheduleBytes/len(s.lanes), min(bytes, scheduleBytes/sharing))
}

// probes reports whether what is held is of a part through which nothing has come. It is beside what the lanes share.
func (l *lane) probes() bool { return l.Name != "" && l.doubtful }

// forgotten reports whether nothing was heard of a lane that was found for long.
func (l *lane) forgotten(now time.Duration) bool { return l.idle() && now-l.heard > foundFor }

// idle reports whether a lane was found, and nothing is done on it now.
func (l *lane) idle() bool { return l.found && len(l.items) == 0 && l.busy == 0 }

// takes reports whether there is room worth a claim on any lane.
func (s *schedule) takes() bool {
	if s.pace.batch > 1 {
		return true // whoever asks has just taken a batch out
	}
	return slices.ContainsFunc(s.parts(), func(at Part) bool {
		messages, bytes := s.room(at)
		return bytes > 0 && s.roomy(at, messages)
	})
}

// parts returns the lanes that are served, and the parts.
func (s *schedule) parts() []Part {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := make([]Part, len(s.lanes))
	for i, l := range s.lanes {
		parts[i] = l.Part
	}
	return parts
}

// serves reports whether there is anything that is served. A schedule that is nil serves nothing.
func (s *schedule) serves() bool { return s != nil && len(s.parts()) > 0 }

// names returns the lanes that are served.
func (s *schedule) names() []string {
	var names []string
	for _, at := range s.parts() {
		if at.Name == "" {
			names = append(names, at.Lane)
		}
	}
	return names
}

// contest is the claim on a contested message that the schedule has had.
type contest struct {
	readiedAt time.Time     // zero for none yet
	until     time.Duration // monotonic: no claim that somebody asked for before can be published then
}

// contest is told of messages whose take asks for a claim, before each try of it. If the outcome of one is unknown, the
// next is told of whatever claim this node holds by then:
//
//	enqueuer  takes x in, to be claimed; the store catches up, and stores it as waiting; the reply is lost
//	          the store has caught up
//	claimer   claims x; it is scheduled, published, acknowledged
//	enqueuer  takes x in again, and is told of that claim: x would be published twice
//
// So of a contested message each claim is scheduled once, whoever comes with it first.
func (s *schedule) contest(incarnations []uuid.UUID, until time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range incarnations {
		s.contested[i] = contest{s.contested[i].readiedAt, until}
	}
}

// uncontest forgets the messages of a take that was answered at the first try.
func (s *schedule) uncontest(taken []*submission) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range taken {
		delete(s.contested, one.Incarnation)
	}
}

// settled forgets the contests that are over.
func (s *schedule) settled(now time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	byBytes := func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) }
	for _, i := range slices.SortedFunc(maps.Keys(s.contested), byBytes) {
		if s.contested[i].until < now {
			delete(s.contested, i)
		}
	}
}

// add takes up claims. It does so even when there is no room: they have been made already.
//
// Of a lane that which falls due first comes first, and what is overdue when it comes here queues behind what is due by
// then. Otherwise nothing that has just fallen due on a lane with a backlog would come out before all of that: for each
// batch that is taken out, an older one is claimed.
//
// A lane with a pace has no such claims (backlog), and what waits there for its place keeps it. After the wall clock
// was set back, what is due may be behind what is not, until the claims are too old and given back.
func (s *schedule) add(holdings []*holding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for _, h := range holdings {
		if c, contested := s.contested[h.Incarnation]; contested {
			if c.readiedAt.Equal(h.Claim.ReadiedAt) {
				continue
			}
			s.contested[h.Incarnation] = contest{h.Claim.ReadiedAt, c.until}
		}
		l := s.named[h.Where()]
		if l == nil {
			l = s.serve(h.Where()) // it was forgotten while the claim was on its way
		}
		l.heard = max(l.heard, h.since)
		l.bytes += h.Size()
		if h.turn = h.Deadline; h.turn.Before(now) && l.throttle == nil {
			h.turn = now
		}
		heap.Push(&l.items, h)
	}
	if s.keeper != nil {
		s.keeper.bell.Ring()
	}
}

// batch is what one publisher publishes at once.
type batch struct {
	holdings []*holding
	lanes    []*lane
	probe    bool
}

// take takes out what is due at or before until: a batch within the bounds, with a share for each lane that has
// something due, the earliest first. The lanes take turns in coming first. A lane in doubt comes alone, a few messages
// at a time and one batch of them at a time, so that it never has more than one publisher wait for it. Nothing is taken
// of a lane that is closed, and no more of one with a pace than that allows now. The result is empty if nothing is due;
// otherwise it has to be given to done.
func (s *schedule) take(until time.Time, messages, bytes int) batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	var due []*lane
	now, at := s.now(), s.mono()
	for i := range s.lanes {
		l := s.lanes[(s.first+i)%len(s.lanes)]
		if s.mayTake(l) && l.gate.opens(now) == 0 && l.throttle.lets(at) && !s.ripens(l).After(until) {
			due = append(due, l)
		}
	}
	if len(due) == 0 {
		return batch{}
	}
	s.first = (s.first + 1) % len(s.lanes)
	b := batch{}
	if due[0].doubtful {
		b.probe = true
		s.probing++
		due, messages = probed(due), min(messages, probeMessages)
	}
	size := 0
	for share := max(1, messages/len(due)); len(due) > 0; share = messages {
		var left []*lane
		for _, l := range due {
			if l.doubtful != b.probe {
				continue
			}
			before := len(b.holdings)
			for n := 0; n < share && len(b.holdings) < messages && size < bytes &&
				len(l.items) > 0 && !l.items[0].Deadline.After(until) && l.throttle.lets(at); n++ {
				h := l.pop()
				h.taken = at
				l.throttle.note(at)
				size += h.Size()
				b.holdings = append(b.holdings, h)
			}
			if len(b.holdings) > before {
				left = append(left, l)
				b.occupy(l)
			}
		}
		due = left
	}
	return b
}

// probed returns what comes in one batch of those lanes that have something due, of which the first is in doubt: it
// alone, or all parts in doubt, of whichever lanes.
func probed(due []*lane) []*lane {
	if due[0].Name == "" {
		return due[:1]
	}
	return slices.DeleteFunc(due, func(l *lane) bool { return l.Name == "" || !l.doubtful })
}

// mayTake reports whether something of the lane can be taken out now, if it is open.
func (s *schedule) mayTake(l *lane) bool {
	return len(l.items) > 0 && l.whole.batches < l.most && (!l.doubtful || s.probing < s.pace.probes && l.busy == 0)
}

// ripens returns when the first message of a lane that has some can be taken out: at its deadline, or somewhat later
// while others of the lane are being published.
func (s *schedule) ripens(l *lane) time.Time {
	if l.busy == 0 || s.pace.batch == 1 {
		return l.items[0].Deadline
	}
	return l.items[0].Deadline.Add(mergeFor)
}

// occupy notes that the batch has messages of the lane.
func (b *batch) occupy(l *lane) {
	if slices.Contains(b.lanes, l) {
		return
	}
	if !b.has(l.whole) {
		l.whole.batches++
	}
	b.lanes = append(b.lanes, l)
	l.busy++
}

// has reports whether the batch has messages of a lane, or of a part of it.
func (b *batch) has(whole *lane) bool {
	return slices.ContainsFunc(b.lanes, func(l *lane) bool { return l.whole == whole })
}

// done says that a batch is not being published any more, and on which lanes all of it has failed, or something has
// come through. Of the other lanes nothing new is known. Of parts doubt is told.
func (s *schedule) done(b batch, verdict func(at Part) (failed, known bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	freed := b.probe
	for i, l := range b.lanes {
		// In these cases the keeper has not counted on the lane, or not so soon.
		freed = freed || l.whole.batches == l.most || l.busy == 1 || l.doubtful
		l.busy--
		if rest := (&batch{lanes: b.lanes[i+1:]}); !rest.has(l.whole) {
			l.whole.batches--
		}
		if failed, known := verdict(l.Part); known && l.Name == "" {
			l.doubtful = failed
		}
	}
	if b.probe {
		s.probing--
	}
	if freed && s.keeper != nil {
		s.keeper.bell.Ring()
	}
}

// doubt says whether a part of a lane is in doubt, as the claimer sees it.
func (s *schedule) doubt(at Part, doubtful bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.named[at]
	if l == nil || l.doubtful == doubtful {
		return
	}
	l.doubtful = doubtful
	if !doubtful && s.keeper != nil {
		s.keeper.bell.Ring() // it has not counted on the part
	}
}

// old takes out what publishable refuses, in a fixed order.
func (s *schedule) old(publishable func(since time.Duration) bool) []*holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	var old []*holding
	for _, l := range s.lanes {
		var young scheduled
		for _, h := range l.items {
			if publishable(h.since) {
				young = append(young, h)
			} else {
				old = append(old, h)
				l.bytes -= h.Size()
			}
		}
		if len(young) < len(l.items) {
			l.items = young
			heap.Init(&l.items)
		}
	}
	return old
}

// clear takes out everything, in a fixed order.
func (s *schedule) clear() []*holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*holding
	for _, l := range s.lanes {
		all = append(all, l.clear()...)
	}
	return all
}

// clearLane takes out everything on one lane.
func (s *schedule) clearLane(name string) []*holding {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.named[Part{Lane: name}]; l != nil {
		return l.clear()
	}
	return nil // it was found, and is forgotten
}

func (l *lane) clear() []*holding {
	all := l.items
	l.items, l.bytes = nil, 0
	return all
}

func (l *lane) pop() *holding {
	h := heap.Pop(&l.items).(*holding)
	l.bytes -= h.Size()
	return h
}

// idle is for a publisher that has found nothing to do: it returns how long there is nothing, until something on the
// schedule falls due on a lane that is open by then and has room in its pace, and at most look while something is
// held, since the wall clock may jump. Only one publisher keeps that watch, and the others sleep until they are rung:
// when the keeper finds work it hands the watch on (busy), so that several of them share what falls due at one
// instant, and a lone message wakes one of them, not all.
func (s *schedule) idle(p *publisher, lapsed time.Time, look time.Duration) time.Duration {
	const rest = time.Hour
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeper != nil && s.keeper != p {
		s.sleepers = append(s.sleepers, p)
		return rest
	}
	s.keeper = p
	wait, now, mono := rest, s.now(), s.mono()
	for _, l := range s.lanes {
		if s.mayTake(l) {
			wait = min(wait, look, max(s.ripens(l).Sub(lapsed), l.gate.opens(now), l.throttle.opens(mono)))
		}
	}
	return wait
}

// awake is for a publisher that has slept: it is nobody's sleeper any more.
func (s *schedule) awake(p *publisher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, sleeper := range s.sleepers {
		if sleeper == p {
			s.sleepers = append(s.sleepers[:i], s.sleepers[i+1:]...)
			return
		}
	}
}

// busy is for a publisher that has found work: if it kept the watch, another is woken to keep it.
func (s *schedule) busy(p *publisher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keeper == p {
		s.keeper = nil
	}
	if s.keeper == nil && len(s.sleepers) > 0 {
		last := len(s.sleepers) - 1
		s.sleepers[last].bell.Ring()
		s.sleepers = s.sleepers[:last]
	}
}

// scheduled is a heap by turn, then by deadline; ties by id, so that one seed gives one order.
type scheduled []*holding

func (s *scheduled) Len() int      { return len(*s) }
func (s *scheduled) Swap(i, j int) { (*s)[i], (*s)[j] = (*s)[j], (*s)[i] }

func (s *scheduled) Less(i, j int) bool {
	a, b := (*s)[i], (*s)[j]
	return cmp.Or(a.turn.Compare(b.turn), a.Deadline.Compare(b.Deadline), cmp.Compare(a.ID, b.ID)) < 0
}

func (s *scheduled) Push(x any) { *s = append(*s, x.(*holding)) }

func (s *scheduled) Pop() any {
	old := *s
	last := old[len(old)-1]
	old[len(old)-1] = nil // lets go of the payload
	*s = old[:len(old)-1]
	return last
}
