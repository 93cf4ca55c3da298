package kafka

import (
	"context"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/ledger"
)

// How long Poll rests after few records, and how long it waits for some.
const (
	PollRest = pollRest
	PollWait = pollWait
)

// NewBlockCompressor returns what compresses batches that are published.
func NewBlockCompressor() *blockCompressor { return newBlockCompressor() }

// NewMemory returns what decompresses for a source within bounds, where nothing waits to be polled, and what notes a
// poll.
func NewMemory(limit, batch int) (decompressor kgo.Decompressor, polled func()) {
	m := newMemory(limit, batch)
	return m, m.polled
}

// Weigh returns how many bytes a decompressed batch takes in memory.
func Weigh(batch []byte) int { return weigh(batch, math.MaxInt) }

// FetchMaxBytes returns how much one broker sends at a time to a source with a configuration.
func FetchMaxBytes(c SourceConfig) int32 { return sourceDefaults(c).FetchMaxBytes }

// ErrNoRoom says that a batch has to wait until others were polled.
var ErrNoRoom = errNoRoom

// Freeze owns a partition and appends a transaction, and is stopped before it commits that. GoOn commits it.
func (l *Ledger) Freeze(
	ctx context.Context, number int32, fence ledger.Entry, transaction ledger.Transaction,
) (goOn func() error, err error) {
	owned, err := l.Own(ctx, number, fence)
	if err != nil {
		return nil, err
	}
	w := owned.(*ledgerWriter)
	if _, err := w.prepare(ctx, time.Minute, &transaction); err != nil {
		return nil, err
	}
	return func() error { return w.conclude(ctx) }, nil
}

// Buffered returns the bytes that are held before they are polled. Nobody else can see them.
func (s *Source) Buffered() int64 {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.member == nil {
		return 0
	}
	return s.member.client.BufferedFetchBytes() + s.member.held.Load()
}

// Repeat has the source be asked once more from where to read a partition, as by franz-go in the session after the one
// in which it has asked first: the group has committed an offset there. It does nothing, and reports that, until the
// source knows what the partition holds.
func (s *Source) Repeat(ctx context.Context, topic string, number int32, committed int64) bool {
	m := s.current.Load()
	m.mu.Lock()
	p := m.parts[topicPartition{topic, number}]
	known := p != nil && p.known
	m.mu.Unlock()
	if known {
		over, cancel := context.WithCancel(ctx) // the group rebalances again
		cancel()
		_, _ = m.adjust(over, map[string]map[int32]kgo.Offset{topic: {number: kgo.NewOffset().At(committed)}})
	}
	return known
}

// ErrCommitPending says that the group has not answered yet.
var ErrCommitPending = errCommitPending

// Commits returns what has places sent by that function, one request at a time; what is called when partitions are
// given up; and what waits until no request is under way.
func Commits(
	send func(context.Context) error,
) (commit func(context.Context, []node.Place) error, renew, wait func()) {
	c := &commits{send: func(ctx context.Context, _ map[topicPartition]node.Place) error { return send(ctx) }}
	return c.commit, c.renew, c.wait
}

// Share returns how many records of each partition a batch has, where so many of a size are left of each of one topic.
func Share(config SourceConfig, left []int, size int) []int {
	m := &member{config: &config, parts: map[topicPartition]*part{}}
	for number, n := range left {
		p := &part{}
		for range n {
			p.rest = append(p.rest, &kgo.Record{Partition: int32(number), Value: make([]byte, size)})
		}
		p.restBytes = n * size
		m.parts[topicPartition{"topic", int32(number)}] = p
	}
	shares := make([]int, len(left))
	for _, r := range m.share() {
		shares[r.Partition]++
	}
	held := 0
	for number, p := range m.parts {
		if held += len(p.rest) * size; len(p.rest)+shares[number.number] != left[number.number] {
			panic("records were lost")
		}
	}
	if m.held.Load() != int64(held) {
		panic("what is held was not counted")
	}
	return shares
}

// MetadataOf returns what goes with a commit on a topic of that id.
func MetadataOf(topic uuid.UUID) string { return metadataOf(topic) }

// KeptMetadata is what goes with a commit of an earlier build, which does not say of which topic it is.
const KeptMetadata = keptMetadata

// Fail has the clients of the ledger know that an address has failed somebody.
func (l *Ledger) Fail(address string) {
	l.seeds.OnBrokerConnect(brokerAt(address), 0, nil, io.EOF)
}

// Stall has the clients of the ledger know that somebody has waited for an address in vain, and returns whether they
// take it for one that hangs.
func (l *Ledger) Stall(address string) bool {
	l.seeds.OnBrokerRead(brokerAt(address), 0, 0, 0, 0, os.ErrDeadlineExceeded)
	return l.seeds.hangs(address)
}

// HangUp has the clients of the ledger know that an address hangs.
func (l *Ledger) HangUp(address string) { l.seeds.hangUp(address) }

// brokerAt returns the broker at an address, as hooks are told of it.
func brokerAt(address string) kgo.BrokerMetadata {
	host, port, _ := net.SplitHostPort(address)
	number, _ := strconv.Atoi(port)
	return kgo.BrokerMetadata{Host: host, Port: int32(number)}
}

// Seeds are the addresses that the clients of a ledger begin with.
type Seeds struct{ *seeds }

func NewSeeds(all ...string) Seeds { return Seeds{newSeeds(&Connection{Brokers: all})} }

// Well returns the addresses of which nobody knows that they do not answer.
func (s Seeds) Well() []string { return s.begin() }

// Narrow bounds the bytes that the sink gives to a client at a time, as publishes that were not over in time do.
func (s *Sink) Narrow(bytes int) { s.window.bytes = bytes }

// SilentPick returns which of n partitions of a topic a record without a key goes to while one of them is silent, and
// whether that is its number: among those with leaders only, an index is not.
func SilentPick(silent int32, n int) (pick int, number bool) {
	var s silentPartitions
	s.add(map[topicPartition]bool{{"topic", silent}: false})
	p := watchedPartitioner{javaPartitioner(), &s}.ForTopic("topic")
	number = p.RequiresConsistency(&kgo.Record{})
	return p.(kgo.TopicBackupPartitioner).PartitionByBackup(&kgo.Record{}, n, &idle{n}), number
}

// Silent is a sink that knows of silent partitions of a topic.
type Silent struct {
	sink  *Sink
	topic string
}

// NewSilent returns one that knows of a topic with so many partitions, which are all silent.
func NewSilent(topic string, partitions int) *Silent {
	s := &Silent{&Sink{}, topic}
	names := make(map[topicPartition]bool)
	for number := range partitions {
		names[topicPartition{topic, int32(number)}] = false
	}
	s.sink.silent.counts.set(topic, partitions)
	s.sink.silent.add(names)
	return s
}

// Answer notes that a partition has answered the look-out.
func (s *Silent) Answer(number int32) { s.sink.silent.hear(topicPartition{s.topic, number}, nil) }

// Fail notes that a trial of a partition has failed.
func (s *Silent) Fail(number int32) { s.sink.silent.failed(topicPartition{s.topic, number}) }

// Sort returns the results of records that are not sent, and how many are sent on trial.
func (s *Silent) Sort(records []node.Record) (results []error, trial int) {
	results = make([]error, len(records))
	_, tried, _ := s.sink.silent.sort(records, results, true)
	return results, len(tried)
}

// idle tells of partitions for which nothing waits.
type idle struct{ left int }

// Next implements kgo.TopicBackupIter.
func (i *idle) Next() (int, int64) { i.left--; return i.left, 0 }

// Rem implements kgo.TopicBackupIter.
func (i *idle) Rem() int { return i.left }

// MostTopics is how many topics are remembered.
const MostTopics = mostTopics

// Remembered returns of how many topics something is known, in each place, after so many were published on.
func Remembered(topics int) []int {
	var counts topicCounts
	var proven provenPartitions
	made := func() *slot {
		return &slot{knows: map[string]bool{}, bulk: new(producer), careful: new(producer), dense: new(producer)}
	}
	all := &slots{taken: make(chan struct{}, maxSlots), make: made}
	for i := range topics {
		topic := strconv.Itoa(i)
		counts.set(topic, 1)
		proven.add(&node.Record{Topic: topic}, 0)
		all.give(all.take(context.Background(), []string{topic}))
	}
	return []int{len(counts.counts), len(proven.parts), len(all.all[0].knows)}
}

// Missing returns how many topics are looked for that nobody has wanted for some time.
func Missing(idle time.Duration) int {
	m := missingTopics{topics: map[string]missing{"topic": {errNoResult, time.Now().Add(-idle)}}}
	return len(m.list())
}

// Turns returns how often clients would be given something in a Publish of these records, each time after what they
// were given before is appended. How many requests a client makes of that is its own affair.
func (s *Sink) Turns(records []node.Record) int {
	p := &publication{records: records}
	rest := make([]int, len(records))
	for i := range rest {
		rest[i] = i
	}
	stages := s.stages(p, rest)
	turns := 0
	for ; len(rest) > 0; turns++ {
		some, later := stages.next(rest)
		stages.took(stages.count(some), 0)
		rest = later
	}
	return turns
}

// Overtaken returns what becomes of records, all of one try, of which a client says this.
func Overtaken(records []node.Record, said []error) []error {
	p := &publication{records: records, results: make([]error, len(said)), settled: make([]bool, len(said))}
	indexes, results := make([]int, len(said)), make([]result, len(said))
	for i, err := range said {
		indexes[i], results[i].err = i, err
	}
	p.overtaken(indexes, results)
	for i := range said {
		if !p.settled[i] {
			p.results[i] = results[i].err
		}
	}
	return p.results
}
