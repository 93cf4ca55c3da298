package kafka

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

const (
	// pollPause is the least time between two looks while consuming fails: franz-go asks again at once when
	// its error was taken note of.
	pollPause = 100 * time.Millisecond

	// silenceAllowed is how long no broker needs to have answered before Poll says so. It is longer than the
	// pause between two heartbeats of a member without partitions, by default.
	silenceAllowed = 4 * time.Second
)

// member is one membership in the group, from joining it to leaving it. Its methods are called one at a time; what
// franz-go calls back, and the look-out, are guarded by mu.
type member struct {
	config  *SourceConfig
	client  *kgo.Client
	cancel  context.CancelFunc // ends client at once
	log     *slog.Logger
	repeats *repeats
	pulse   *pulse
	memory  *memory
	commits commits

	// fouled says that this member is not to be used any more.
	fouled atomic.Bool

	// lookouts are the goroutines that leave waits for.
	lookouts sync.WaitGroup

	// These belong to the look-out: whether it has said that there is trouble, and when to look for transactions.
	said     bool
	nextHold time.Time

	// held is how many bytes the rests of the partitions have.
	held atomic.Int64

	mu    sync.Mutex
	id    string                   // the member id that our partitions were assigned to; empty if none are ours
	parts map[topicPartition]*part // those that are ours

	// origins have of what the group has committed for partitions of which topic it is, as far as it says so.
	origins map[topicPartition]uuid.UUID

	// What Poll is still to tell, besides partitions that were assigned.
	revoked []node.Partition
	moved   []node.Place
	lost    []node.Loss

	asking  bool                      // settle has asked for targets
	answers map[topicPartition]target // those that were found

	started chan struct{}      // closed, and replaced, by start
	wakeUp  context.CancelFunc // ends a poll that waits

	joining error          // why the group does not let us in; nil as soon as it does
	trouble error          // what the look-out has seen last
	others  map[string]int // how many looks in a row have seen another id of a topic
	counts  map[string]int // how many partitions topics had at the last look
}

// part is a partition that is ours.
type part struct {
	assigned node.Assignment
	known    bool // the extent in assigned is
	told     bool // Poll has returned it in Batch.Assigned
	phase    phase

	// want is where to read from, once that is done; nil if it is done.
	want *node.Position

	// at is where reading is: behind the last record that was fetched.
	at node.Position

	// rest are the records that were fetched and did not fit into the last batch, and restBytes their sizes together.
	rest      []*kgo.Record
	restBytes int

	outOfRange bool // the log has no record at this place
	held       hold
	stuck      error // why franz-go has given it up
}

// phase is what franz-go does with a partition.
type phase int

const (
	waiting phase = iota // it was assigned, and franz-go waits for us to say from where to read it
	parked               // franz-go believes that it reads it, but must not fetch
	reading
)

// newMember makes a client that joins the group as soon as it can, and never stops trying.
func newMember(s *Source) (*member, error) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{
		config:  &s.config,
		cancel:  cancel,
		log:     s.log,
		repeats: &s.repeats,
		pulse:   new(pulse),
		memory:  newMemory(s.config.FetchMemory, s.config.BatchMemory),
		parts:   make(map[topicPartition]*part),
		origins: make(map[topicPartition]uuid.UUID),
		started: make(chan struct{}),
		others:  make(map[string]int),
		counts:  make(map[string]int),
	}
	m.mu.Lock() // until callbacks find the client
	defer m.mu.Unlock()
	client, err := kgo.NewClient(append(s.config.options(),
		kgo.WithContext(ctx),
		kgo.WithHooks(m.pulse, s.seeds),
		kgo.Dialer(s.seeds.call),
		kgo.WithDecompressor(m.memory),
		kgo.OnPartitionsAssigned(m.onAssigned),
		kgo.OnPartitionsRevoked(m.onRevoked),
		kgo.OnPartitionsLost(m.onLost),
		kgo.OnOffsetsFetched(m.onFetched),
		kgo.AdjustFetchOffsetsFn(m.adjust),
	)...)
	if err != nil {
		cancel()
		return nil, err
	}
	m.client = client
	m.memory.watch(func() int64 { return client.BufferedFetchBytes() + m.held.Load() })
	m.commits.send = m.commit
	m.lookouts.Go(func() { m.lookOut(ctx) })
	return m, nil
}

// poll returns what came before ctx was done, and what went wrong if nothing came. If it returns records, it blocks
// rebalances until it is called again.
func (m *member) poll(ctx context.Context) (node.Batch, error) {
	m.client.AllowRebalance()
	if m.hasRest() {
		m.holdPartitions()
		if batch := m.batch(); len(batch.Records) > 0 {
			return batch, nil
		}
		m.client.AllowRebalance()
	}
	var problem error
	for {
		m.settle(ctx)
		polling, done, ready := m.alarm(ctx)
		if ready {
			done()
			return m.batch(), nil
		}
		fetches := m.client.PollRecords(polling, -1) // all, so that each partition has its share of a batch
		done()
		m.memory.polled()
		if err := m.examine(fetches); err != nil {
			problem = err
		}
		if m.fouled.Load() {
			return node.Batch{}, nil
		}
		m.take(fetches)
		batch := m.batch()
		if len(batch.Records) == 0 {
			m.client.AllowRebalance() // a poll that returned nothing blocks rebalances as well
		}
		if !isEmpty(batch) {
			return batch, nil
		}
		if ctx.Err() != nil {
			break
		}
		pause(ctx)
	}
	if problem != nil {
		return node.Batch{}, problem
	}
	return node.Batch{}, m.complaint()
}

// holdPartitions blocks rebalances as a poll that returns records does.
func (m *member) holdPartitions() {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	m.client.PollRecords(over, 1) // returns nothing, since its context is done
}

// complaint returns why nothing comes, as far as that is known; nil if all is well.
func (m *member) complaint() error {
	if err := m.pulse.stopped(silenceAllowed); err != nil {
		return fmt.Errorf("no broker answers: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.joining != nil {
		return m.joining
	}
	for _, name := range sortedPartitions(m.parts) {
		if err := m.parts[name].stuck; err != nil {
			return err
		}
	}
	return m.trouble
}

// alarm returns a context for a poll that ends early when there is something to tell, or reports that there is already.
func (m *member) alarm(ctx context.Context) (polling context.Context, done func(), ready bool) {
	polling, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.anythingToTell() {
		return polling, cancel, true
	}
	m.wakeUp = cancel
	return polling, cancel, false
}

// wake ends a poll that waits. The caller has mu.
func (m *member) wake() {
	if m.wakeUp != nil {
		m.wakeUp()
	}
}

// anythingToTell reports whether there are events for a batch. The caller has mu.
func (m *member) anythingToTell() bool {
	if len(m.revoked) > 0 || len(m.moved) > 0 || len(m.lost) > 0 {
		return true
	}
	for _, p := range m.parts {
		if p.known && !p.told {
			return true
		}
	}
	return false
}

// batch returns the events that are to be told, and as much of the rest as a batch takes.
func (m *member) batch() node.Batch {
	m.mu.Lock()
	defer m.mu.Unlock()
	batch := node.Batch{Revoked: m.revoked, Moved: m.moved, Lost: m.lost}
	m.revoked, m.moved, m.lost = nil, nil, nil
	for _, name := range sortedPartitions(m.parts) {
		if p := m.parts[name]; p.known && !p.told {
			p.told = true
			batch.Assigned = append(batch.Assigned, p.assigned)
		}
	}
	batch.Records = m.share()
	return batch
}

// hasRest reports whether something of the last fetches is left.
func (m *member) hasRest() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.parts {
		if len(p.rest) > 0 {
			return true
		}
	}
	return false
}

// share returns the next records of the rest, as many of each partition, as far as it has them. So no partition waits
// for what has piled up in another one, and the store can share out what it is given. The caller has mu.
func (m *member) share() (records []node.Record) {
	var parts []*part
	for _, name := range sortedPartitions(m.parts) {
		if p := m.parts[name]; len(p.rest) > 0 {
			parts = append(parts, p)
		}
	}
	// What those leave of their shares that have little, the others have.
	slices.SortStableFunc(parts, func(a, b *part) int { return cmp.Compare(len(a.rest), len(b.rest)) })
	size, held := 0, 0
	for i, p := range parts {
		most := m.config.MaxPollRecords - len(records)
		bytes := m.config.MaxPollBytes - size
		if among := len(parts) - i; among > 1 {
			most, bytes = (most+among-1)/among, bytes/among
		}
		n, taken := 0, 0
		for n < len(p.rest) && n < most {
			next := sizeOf(p.rest[n])
			if len(records) > 0 && taken+next > bytes {
				break
			}
			taken += next
			records = append(records, copyRecord(p.rest[n]))
			n++
		}
		size += taken
		clear(p.rest[:n]) // what was returned is free to go
		p.rest, p.restBytes = p.rest[n:], p.restBytes-taken
		held += p.restBytes
	}
	m.held.Store(int64(held))
	return records
}

func isEmpty(b node.Batch) bool {
	return len(b.Revoked)+len(b.Assigned)+len(b.Moved)+len(b.Lost)+len(b.Records) == 0
}

// told returns the partitions that the caller takes for its own.
func (m *member) told() []node.Partition {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := m.revoked
	for _, name := range sortedPartitions(m.parts) {
		if p := m.parts[name]; p.told {
			list = append(list, p.assigned.Partition)
		}
	}
	return list
}

// onAssigned is called by franz-go when a session begins, with the partitions that are new in it.
func (m *member) onAssigned(ctx context.Context, client *kgo.Client, assigned map[string][]int32) {
	id, _ := client.GroupMetadata()
	m.mu.Lock()
	before := m.id
	m.id, m.joining = id, nil
	m.mu.Unlock()
	if before != "" && before != id {
		m.foul("the group has taken this node for dead meanwhile")
		return
	}
	if len(assigned) > 0 {
		m.log.LogAttrs(ctx, slog.LevelInfo, "partitions assigned",
			slog.String("partitions", partitionNames(assigned)))
	}
}

// onRevoked is called by franz-go when partitions are given up by arrangement. None of them is in a batch that the
// caller still has: rebalances wait for that.
func (m *member) onRevoked(ctx context.Context, client *kgo.Client, revoked map[string][]int32) {
	m.forget(client, revoked)
	if len(revoked) > 0 {
		m.log.LogAttrs(ctx, slog.LevelInfo, "partitions revoked",
			slog.String("partitions", partitionNames(revoked)))
	}
}

// onLost is called by franz-go when the group has given this member up. All its partitions are gone.
func (m *member) onLost(ctx context.Context, client *kgo.Client, lost map[string][]int32) {
	m.forget(client, lost)
	m.mu.Lock()
	m.id = ""
	m.mu.Unlock()
	if len(lost) > 0 {
		m.log.LogAttrs(ctx, slog.LevelWarn, "partitions lost: this node has lost touch with its group",
			slog.String("partitions", partitionNames(lost)))
	}
}

// forget takes note that partitions are not ours any more.
func (m *member) forget(client *kgo.Client, partitions map[string][]int32) {
	m.commits.renew()
	client.ResumeFetchPartitions(partitions) // or they were parked when they came back
	m.mu.Lock()
	defer m.mu.Unlock()
	for topic, numbers := range partitions {
		for _, n := range numbers {
			name := topicPartition{topic, n}
			p := m.parts[name]
			if p == nil {
				continue
			}
			delete(m.parts, name)
			if p.told {
				m.revoked = append(m.revoked, p.assigned.Partition)
			}
			m.moved = slices.DeleteFunc(m.moved, func(place node.Place) bool {
				return place.Partition == p.assigned.Partition
			})
			m.lost = slices.DeleteFunc(m.lost, func(l node.Loss) bool {
				return l.Partition == p.assigned.Partition
			})
		}
	}
	m.wake()
}

// foul has this member replaced by a new one at the next Poll.
func (m *member) foul(reason string) {
	m.condemn(reason)
	m.mu.Lock()
	m.wake()
	m.mu.Unlock()
}

// condemn is foul for callers that need not wake a poll.
func (m *member) condemn(reason string) {
	if !m.fouled.Swap(true) {
		m.log.LogAttrs(context.Background(), slog.LevelWarn, "joining the consumer group anew",
			slog.String("reason", reason))
	}
}

// leave gives all partitions up and ends the client. When the group has not confirmed that in time, it is an error,
// and the client is ended all the same.
func (m *member) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	m.client.AllowRebalance()
	err := m.client.LeaveGroupContext(ctx)
	if err != nil {
		m.cancel() // or Close would wait for the requests that are under way
	}
	m.client.Close()
	m.cancel()
	m.lookouts.Wait()
	m.commits.wait()
	return err
}

// pause returns after pollPause, or when ctx is done.
func pause(ctx context.Context) {
	timer := time.NewTimer(pollPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// partitionNames returns the names of partitions in order.
func partitionNames(partitions map[string][]int32) string {
	var names []string
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		for _, n := range slices.Sorted(slices.Values(partitions[topic])) {
			names = append(names, topicPartition{topic, n}.String())
		}
	}
	return strings.Join(names, " ")
}
