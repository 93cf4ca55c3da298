package kafka

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// producer is a franz-go client that is made when it is needed first, and replaced when it is beyond repair.
type producer struct {
	options []kgo.Opt

	mu     sync.Mutex
	client *kgo.Client
	pulse  *pulse
	closed bool
	stale  bool // client is to be replaced

	gate gate
}

// get returns the client and its pulse.
func (p *producer) get() (*kgo.Client, *pulse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errClosed
	}
	if p.stale {
		p.client.Close() // nobody uses it: it has nothing to send
		p.client, p.stale = nil, false
	}
	if p.client == nil {
		beat := new(pulse)
		client, err := kgo.NewClient(append(slices.Clip(p.options), kgo.WithHooks(beat, &p.gate))...)
		if err != nil {
			return nil, nil, err
		}
		p.client, p.pulse = client, beat
	}
	return p.client, p.pulse, nil
}

// renew has the client be replaced before it is used the next time.
func (p *producer) renew() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stale = p.client != nil
}

// discard closes client, and has get make a new one. It does nothing if somebody else has done so.
func (p *producer) discard(client *kgo.Client) {
	p.mu.Lock()
	current := p.client == client
	if current {
		p.client, p.stale = nil, false
	}
	p.mu.Unlock()
	if current {
		client.Close()
	}
}

// close ends the client. What it was asked to publish fails.
func (p *producer) close() {
	p.mu.Lock()
	client := p.client
	p.client, p.stale, p.closed = nil, false, true
	p.mu.Unlock()
	if client != nil {
		client.Close()
	}
}

// slot are the clients that one publication at a time uses. They are not shared because everything that waits for
// a partition shares the fate of the first batch: a call could fail, or be given up, for what another one did.
type slot struct {
	bulk, careful *producer

	// dense compresses what careful was refused for its size; nil if careful compresses as well.
	dense *producer

	// knows are the topics that were published on here: a client looks up a topic when it is given the first record of
	// it, which takes as long as some ten publishes. A client that was replaced has to do so again. It belongs to
	// whoever has the slot.
	knows map[string]bool
}

// knowsAll reports whether it knows all these topics.
func (s *slot) knowsAll(topics []string) bool {
	for _, topic := range topics {
		if !s.knows[topic] {
			return false
		}
	}
	return true
}

// producers returns its clients.
func (s *slot) producers() []*producer {
	if s.dense == nil {
		return []*producer{s.bulk, s.careful}
	}
	return []*producer{s.bulk, s.careful, s.dense}
}

// renew has all of its clients be replaced before they are used the next time.
func (s *slot) renew() {
	for _, p := range s.producers() {
		p.renew()
	}
}

// learn takes note that these topics are published on.
func (s *slot) learn(topics []string) {
	for _, topic := range topics {
		s.knows[topic] = true
	}
}

// slots are as many slots as there were calls of Publish at the same time, up to maxSlots.
type slots struct {
	make func() *slot

	mu    sync.Mutex
	all   []*slot
	free  []*slot       // the one that was used last is at the end: its connections are in use
	taken chan struct{} // holds one element for each slot that is taken
}

// maxSlots bounds the slots: further calls of Publish wait.
const maxSlots = 8

// mostTopics is how many topics are remembered, at most, in each place where something is known of topics. Applications
// make up names of topics, and a client asks for all that it has ever published on each time that it looks. Beyond it,
// what is known is forgotten, and learned anew: twice node.MaxLanes are never in use at once.
const mostTopics = 2 * node.MaxLanes

// take returns a slot, one that knows the topics if it can; nil when ctx was done before there was one.
//
// Where there are many topics, each is published on mostly through the same slot then. If any would do, each slot would
// have to look up each of them: with 100 topics that took all slots for seconds when the first messages fell due, and
// publishes ran into their time limits.
func (s *slots) take(ctx context.Context, topics []string) *slot {
	select {
	case s.taken <- struct{}{}:
	case <-ctx.Done():
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	best := len(s.free) - 1
	for i := best; i >= 0; i-- {
		if s.free[i].knowsAll(topics) {
			best = i
			break
		}
	}
	if best < 0 {
		made := s.make()
		made.learn(topics)
		s.all = append(s.all, made)
		return made
	}
	taken := s.free[best]
	s.free = slices.Delete(s.free, best, best+1)
	if len(taken.knows) > mostTopics {
		clear(taken.knows)
		taken.renew()
	}
	taken.learn(topics)
	return taken
}

// give takes a slot back.
func (s *slots) give(given *slot) {
	s.mu.Lock()
	s.free = append(s.free, given)
	s.mu.Unlock()
	<-s.taken
}

// renew has all clients be replaced before they are used the next time.
func (s *slots) renew() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		one.renew()
	}
}

// close ends all clients.
func (s *slots) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, one := range s.all {
		for _, p := range one.producers() {
			p.close()
		}
	}
}

// gate is a hook that knows when a client has found the partitions of all records that it was given. A topic that is
// new to it has to be looked up first, and then its records come one by one.
type gate struct {
	mu   sync.Mutex
	left int
	open chan struct{}
}

var _ kgo.HookProduceRecordPartitioned = (*gate)(nil)

// shut has the gate wait for so many records, and returns a channel that is closed once they have arrived.
func (g *gate) shut(records int) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left, g.open = records, make(chan struct{})
	return g.open
}

// arrive takes note of a record that has a partition, or that has failed without.
func (g *gate) arrive() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left--
	if g.left == 0 {
		close(g.open)
	}
}

// OnProduceRecordPartitioned is called by franz-go.
func (g *gate) OnProduceRecordPartitioned(*kgo.Record, int32) { g.arrive() }

// verdict is what an error of franz-go says about a record.
type verdict int

const (
	// unknown: the record may be there, or may still appear.
	unknown verdict = iota

	// refused: the broker does not like the batch that the record was in.
	refused

	// noTopic: the topic does not exist, or is not ours to write to.
	noTopic
)

// judge returns what err says. What is not listed is not known to say that the record was not appended; a wrong
// timestamp, for example, is the fault of a clock, not of the record.
func judge(err error) verdict {
	for _, e := range []error{
		kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidRecord, kerr.UnsupportedForMessageFormat,
	} {
		if errors.Is(err, e) {
			return refused
		}
	}
	for _, e := range []error{
		kerr.UnknownTopicOrPartition, kerr.InvalidTopicException, kerr.TopicAuthorizationFailed,
		kerr.ClusterAuthorizationFailed,
	} {
		if errors.Is(err, e) {
			return noTopic
		}
	}
	return unknown
}

// tooLarge reports whether a record was refused for its size, or for that of its batch.
func tooLarge(err error) bool {
	return errors.Is(err, kerr.MessageTooLarge) || errors.Is(err, kerr.RecordListTooLarge)
}

// spoils reports whether a client that has failed with err goes on doing so for all topics.
func spoils(err error) bool {
	var kafka *kerr.Error
	if !errors.As(err, &kafka) || kafka.Retriable {
		return false
	}
	return errors.Is(err, kerr.ClusterAuthorizationFailed) || judge(err) == unknown
}

// missingTopics are the topics that were found not to exist. While one is listed, nothing is published on it: franz-go
// takes half a second to be sure, for which everything in the same call would have to wait, each time.
type missingTopics struct {
	mu      sync.Mutex
	topics  map[string]missing
	watched bool
}

// missing is what is known of a missing topic: why, and when somebody wanted to publish on it last.
type missing struct {
	err    error
	wanted time.Time
}

const (
	// missingCheck is how often missing topics are looked for.
	missingCheck = 500 * time.Millisecond

	// missingFor is for how long they are, after the last publish. A publish that comes later finds out anew.
	missingFor = 10 * time.Minute
)

// get returns the error of a topic that is missing, nil if it is not known to be.
func (m *missingTopics) get(topic string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, is := m.topics[topic]
	if is {
		m.topics[topic] = missing{known.err, time.Now()}
	}
	return known.err
}

// add lists a topic, and reports whether the caller has to watch from now on.
func (m *missingTopics) add(topic string, err error) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.topics == nil {
		m.topics = make(map[string]missing)
	}
	m.topics[topic] = missing{err, time.Now()}
	watch := !m.watched
	m.watched = true
	return watch
}

// list returns the topics that are missing, and forgets those that nobody has wanted for long.
func (m *missingTopics) list() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	topics := make([]string, 0, len(m.topics))
	for topic, known := range m.topics {
		if time.Since(known.wanted) > missingFor {
			delete(m.topics, topic)
			continue
		}
		topics = append(topics, topic)
	}
	return topics
}

// remove takes topics off the list, and reports whether there is nothing left to watch.
func (m *missingTopics) remove(topics []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, topic := range topics {
		delete(m.topics, topic)
	}
	if len(m.topics) == 0 {
		m.watched = false
	}
	return !m.watched
}

// watchMissing looks for the missing topics until all of them are there, or Close begins.
func (s *Sink) watchMissing() {
	ticker := time.NewTicker(missingCheck)
	defer ticker.Stop()
	for {
		select {
		case <-s.work.stop:
			return
		case <-ticker.C:
		}
		found := s.found(s.missing.list())
		for _, topic := range found {
			s.log.LogAttrs(context.Background(), slog.LevelInfo, "an output topic that was missing exists again",
				slog.String("topic", topic))
		}
		if len(found) > 0 {
			for _, slots := range s.slots {
				slots.renew() // they know another topic by that name
			}
			s.proven.forget(found)
		}
		if s.missing.remove(found) {
			return
		}
	}
}

// found returns those of the topics that exist.
func (s *Sink) found(topics []string) []string {
	client, _, err := s.admin.get()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), missingCheck)
	defer cancel()
	details, err := listTopics(ctx, client, topics...)
	if err != nil {
		return nil
	}
	var found []string
	for _, topic := range topics {
		if detail, listed := details[topic]; listed && detail.Err == nil {
			found = append(found, topic)
		}
	}
	return found
}
