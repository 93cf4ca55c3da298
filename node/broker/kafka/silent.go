package kafka

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// silentPartitions are those that have let a publish run into its time limit: they have no leader, or too few replicas
// in sync, or their broker hangs. Their records are not sent, so that nobody waits for them.
//
// A look-out asks the cluster several times a second how they are. Once the leader answers, and enough replicas are in
// sync, some records are sent on trial, with less patience and by clients of their own. Only their success ends
// the silence. After each failure it takes longer until the next trial among other records, since a call ends only
// after its trials. A call that has nothing else delays nobody: it is a probe of the engine, which has a back-off of
// its own, and is tried each time.
//
// A slow connection looks the same at first: a publish of many bytes runs into its time limit. Where the leader answers
// then, nothing is on trial: it is the number of bytes that has to become smaller, see window.
type silentPartitions struct {
	count  atomic.Int32 // of parts, to save the way through mu
	counts topicCounts

	mu      sync.Mutex
	hasher  kgo.TopicBackupPartitioner
	parts   map[topicPartition]*silence
	watched bool
}

// topicCounts is a number for each topic, such as how many partitions it has, as a client or the look-out has seen it
// last: of mostTopics at most. It is safe for concurrent use.
type topicCounts struct {
	mu     sync.RWMutex
	counts map[string]int
}

func (t *topicCounts) set(topic string, n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.counts[topic]; t.counts == nil || !known && len(t.counts) >= mostTopics {
		t.counts = make(map[string]int)
	}
	t.counts[topic] = n
}

// of returns the number of a topic; 0 if that is not known.
func (t *topicCounts) of(topic string) int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.counts[topic]
}

// silence is what is known of a silent partition.
type silence struct {
	slow    bool          // it was given so much that it may just be slow
	answers bool          // it may be tried
	trying  bool          // a trial is under way
	wait    time.Duration // from the last failed trial to the next one among other records
	next    time.Time     // when it may be tried among other records, at the earliest
	probe   time.Time     // when it may be tried by a call that has no other records, at the earliest
	since   time.Time
	reason  error // what the look-out saw last
	needed  int   // how many replicas must be in sync; 0 if that is not known yet
}

const (
	// silentCheck is how often silent partitions are asked how they are.
	silentCheck = 300 * time.Millisecond

	// trialRecords and trialBytes bound a trial of one partition.
	trialRecords = 10
	trialBytes   = 64 << 10

	// firstTrialWait and maxTrialWait are between a trial that failed and the next one among other records, which
	// doubles each time.
	firstTrialWait = time.Second
	maxTrialWait   = 30 * time.Second

	// probeWait is between a trial that failed and a call that has no other records: less than the engine waits
	// between its probes of a part.
	probeWait = time.Second / 2

	// slowBytes is how much a partition must have been given to be taken for slow rather than silent.
	slowBytes = 256 << 10
)

// watchedPartitioner chooses partitions as another one does, except that records without a key, which may go anywhere,
// go around silent partitions. It remembers how many partitions topics have.
type watchedPartitioner struct {
	kgo.Partitioner
	silent *silentPartitions
}

func (w watchedPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	inner := w.Partitioner.ForTopic(topic).(kgo.TopicBackupPartitioner)
	return &watchedTopic{TopicBackupPartitioner: inner, silent: w.silent, topic: topic}
}

type watchedTopic struct {
	kgo.TopicBackupPartitioner
	silent *silentPartitions
	topic  string
	count  int
	all    bool // the client chooses among all partitions for the record at hand
}

// RequiresConsistency has franz-go choose among all partitions, so that an index is the number of a partition: for
// records with a key, and for others as long as some partition is silent. Among those that have leaders only, which it
// chooses from otherwise, an index says nothing of the number. franz-go calls it right before PartitionByBackup, under
// one lock.
func (w *watchedTopic) RequiresConsistency(r *kgo.Record) bool {
	w.all = r.Key != nil || w.silent.count.Load() > 0
	return w.all
}

func (w *watchedTopic) PartitionByBackup(r *kgo.Record, n int, backup kgo.TopicBackupIter) int {
	pick := w.TopicBackupPartitioner.PartitionByBackup(r, n, backup)
	if r.Key != nil {
		if w.count != n { // with a key, n are all partitions, whether they have leaders or not
			w.count = n
			w.silent.counts.set(w.topic, n)
		}
		return pick
	}
	if w.all {
		for i := range n {
			if other := (pick + i) % n; !w.silent.includes(topicPartition{w.topic, int32(other)}) {
				return other
			}
		}
	}
	return pick
}

// partitioner returns the option by which clients choose partitions.
func (s *silentPartitions) partitioner() kgo.Opt {
	return kgo.RecordPartitioner(watchedPartitioner{javaPartitioner(), s})
}

func (s *silentPartitions) includes(name topicPartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[name] != nil
}

// partitionOf returns the partition of a record, if that is known before a client has decided on it.
func (s *silentPartitions) partitionOf(r *node.Record) (topicPartition, bool) {
	n := s.counts.of(r.Topic)
	if r.Key == nil || n == 0 {
		return topicPartition{}, false
	}
	return s.partitionAmong(r, n), true
}

// partitionAmong returns the partition of a record with a key, of so many.
func (s *silentPartitions) partitionAmong(r *node.Record, n int) topicPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasher == nil {
		s.hasher = javaPartitioner().ForTopic("").(kgo.TopicBackupPartitioner)
	}
	return topicPartition{r.Topic, int32(s.hasher.PartitionByBackup(&kgo.Record{Key: r.Key}, n, nil))}
}

// sort returns which records are to be published, and which on trial; those of silent partitions get their results.
// Mixed allows trials among other records.
func (s *silentPartitions) sort(
	records []node.Record, results []error, mixed bool,
) (normal, trial []int, tried []topicPartition) {
	type tally struct{ records, bytes int }
	tallies := make(map[topicPartition]*tally)
	names := make([]topicPartition, len(records))
	var silent []int
	for i := range records {
		name, known := s.partitionOf(&records[i])
		if known && s.includes(name) {
			names[i] = name
			silent = append(silent, i)
		} else {
			normal = append(normal, i)
		}
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range silent {
		name := names[i]
		p := s.parts[name]
		if p == nil { // it has just answered
			normal = append(normal, i)
			continue
		}
		t := tallies[name]
		if t == nil && (mixed || len(normal) == 0) && p.mayTry(now, len(normal) == 0) {
			p.trying = true
			t = new(tally)
			tallies[name] = t
			tried = append(tried, name)
		}
		size := wireSize(&records[i])
		if t != nil && (t.records == 0 || t.records < trialRecords && t.bytes+size <= trialBytes) {
			t.records++
			t.bytes += size
			trial = append(trial, i)
			continue
		}
		if t != nil {
			t.bytes = trialBytes // or a later record of a key could come before this one
		}
		results[i] = unsent(name, p.since, p.reason)
	}
	slices.Sort(normal)
	return normal, trial, tried
}

// mayTry reports whether a trial may begin, in a call that has nothing else or not.
func (s *silence) mayTry(now time.Time, alone bool) bool {
	next := s.next
	if alone {
		next = s.probe
	}
	return s.answers && !s.trying && !now.Before(next)
}

// partOf returns the name of the part of a topic that a partition is: its number.
func partOf(name topicPartition) string { return strconv.Itoa(int(name.number)) }

// unsent returns the result of a record that is not sent because its partition is silent. Its part is the number of the
// partition.
func unsent(name topicPartition, since time.Time, reason error) error {
	silent := time.Since(since).Round(time.Second)
	why := fmt.Errorf("publish on topic %s: partition %d has let a publish time out %v ago: not sent",
		name.topic, name.number, silent)
	if reason != nil {
		why = fmt.Errorf("publish on topic %s: partition %d does not answer for %v: not sent: %w",
			name.topic, name.number, silent, reason)
	}
	return &node.PublishError{Kind: node.PartUnavailable, Part: partOf(name), Err: why}
}

// add takes partitions for silent, and reports whether the caller has to watch them from now on.
func (s *silentPartitions) add(names map[topicPartition]bool) bool {
	if len(names) == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = make(map[topicPartition]*silence)
	}
	for name, slow := range names {
		if s.parts[name] == nil {
			s.parts[name] = &silence{slow: slow, since: time.Now()}
		}
	}
	s.count.Store(int32(len(s.parts)))
	watch := !s.watched
	s.watched = true
	return watch
}

// remove takes partitions for well again.
func (s *silentPartitions) remove(names ...topicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		delete(s.parts, name)
	}
	s.count.Store(int32(len(s.parts)))
}

// failed takes note that a trial of a partition has failed.
func (s *silentPartitions) failed(name topicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.parts[name]; p != nil {
		p.trying, p.answers, p.slow = false, false, false
		p.wait = min(max(2*p.wait, firstTrialWait), maxTrialWait)
		now := time.Now()
		p.next, p.probe = now.Add(p.wait), now.Add(probeWait)
	}
}

// untry ends trials that were not made after all.
func (s *silentPartitions) untry(names []topicPartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if p := s.parts[name]; p != nil {
			p.trying = false
		}
	}
}

// all returns the silent partitions in order, and takes note when there are none that nobody watches any more.
func (s *silentPartitions) all() []topicPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parts) == 0 {
		s.watched = false
	}
	return sortedPartitions(s.parts)
}
