package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// silentPartitions are those that have let a publish run into its time limit: they have no leader, or too few replicas
// in sync, or their broker hangs. Their records are not sent, so that nobody waits for them.
//
// A look-out asks the cluster several times a second how they are. Once the leader answers, and enough replicas are in
// sync, some records are sent on trial, with less patience and by clients of their own. Only their success ends
// the silence; after each failure it takes longer until the next trial.
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
	wait    time.Duration // from the last failed trial to the next
	next    time.Time     // when it may be tried at the earliest
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

	// firstTrialWait and maxTrialWait are between a trial that failed and the next, which doubles each time.
	firstTrialWait = time.Second
	maxTrialWait   = 30 * time.Second

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
func (s *silentPartitions) sort(records []node.Record, results []error) (normal, trial []int, tried []topicPartition) {
	type tally struct{ records, bytes int }
	tallies := make(map[topicPartition]*tally)
	for i := range records {
		name, known := s.partitionOf(&records[i])
		if !known {
			normal = append(normal, i)
			continue
		}
		s.mu.Lock()
		p := s.parts[name]
		if p == nil {
			s.mu.Unlock()
			normal = append(normal, i)
			continue
		}
		t := tallies[name]
		if t == nil && p.answers && !p.trying && !time.Now().Before(p.next) {
			p.trying = true
			t = new(tally)
			tallies[name] = t
			tried = append(tried, name)
		}
		reason, since := p.reason, p.since
		s.mu.Unlock()
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
		results[i] = unsent(name, since, reason)
	}
	return normal, trial, tried
}

// unsent returns the result of a record that is not sent because its partition is silent.
func unsent(name topicPartition, since time.Time, reason error) error {
	silent := time.Since(since).Round(time.Second)
	if reason == nil {
		return fmt.Errorf("publish on topic %s: partition %d has let a publish time out %v ago: %w",
			name.topic, name.number, silent, node.ErrUnavailable)
	}
	return fmt.Errorf("publish on topic %s: partition %d does not answer for %v: %w: %w",
		name.topic, name.number, silent, node.ErrUnavailable, reason)
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
		p.next = time.Now().Add(p.wait)
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

// watchSilent asks silent partitions how they are until there are none, or Close begins.
func (s *Sink) watchSilent() {
	ticker := time.NewTicker(silentCheck)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		}
		names := s.silent.all()
		if len(names) == 0 {
			return
		}
		client, _, err := s.admin.get()
		if err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
		s.ask(ctx, client, names)
		cancel()
	}
}

// ask finds out which silent partitions may be tried.
func (s *Sink) ask(ctx context.Context, client *kgo.Client, names []topicPartition) {
	admin := kadm.NewClient(client)
	var topics []string
	for _, name := range names {
		if len(topics) == 0 || topics[len(topics)-1] != name.topic {
			topics = append(topics, name.topic)
		}
	}
	details, err := listTopics(ctx, client, topics...)
	if err != nil {
		for _, name := range names {
			s.hear(name, err)
		}
		return
	}
	needed := s.replicasNeeded(ctx, admin, topics, names)
	var led []topicPartition
	for _, name := range names {
		failed := details[name.topic].Err
		if n := len(details[name.topic].Partitions); failed == nil && n > s.silent.counts.of(name.topic) {
			// Clients see that a topic has more partitions only when they are given records for it. If all keys belong
			// to silent partitions, they are given none.
			s.silent.counts.set(name.topic, n)
		}
		detail, exists := details[name.topic].Partitions[name.number]
		switch {
		case failed != nil && !kerr.IsRetriable(failed), isUnknownTopic(failed):
			s.silent.remove(name) // publishing finds out what there is to say
		case !exists || detail.Leader < 0:
			s.hear(name, fmt.Errorf("topic %s partition %d has no leader", name.topic, name.number))
		case len(detail.ISR) < min(needed[name], len(detail.Replicas)): // Kafka asks for no more than there are
			s.hear(name, fmt.Errorf("topic %s partition %d has %d replicas in sync and needs %d",
				name.topic, name.number, len(detail.ISR), min(needed[name], len(detail.Replicas))))
		default:
			led = append(led, name)
		}
	}
	for name, end := range listOffsets(ctx, client, led, timestampEnd, false) {
		s.hear(name, end.err)
	}
}

// hear takes note of what a silent partition has answered.
func (s *Sink) hear(name topicPartition, err error) {
	s.silent.mu.Lock()
	p := s.silent.parts[name]
	if p == nil {
		s.silent.mu.Unlock()
		return
	}
	p.reason, p.answers = err, err == nil
	slow := err == nil && p.slow
	s.silent.mu.Unlock()
	if slow {
		s.silent.remove(name)
	}
	if err != nil && s.repeats.due("silent "+name.String()) {
		s.log.LogAttrs(context.Background(), slog.LevelError, "an output partition does not answer, its messages wait",
			slog.String("topic", name.topic), slog.Int("partition", int(name.number)), slog.Any("error", err))
	}
}

// replicasNeeded returns how many replicas of partitions must be in sync for a publish, as far as that may be known.
func (s *Sink) replicasNeeded(
	ctx context.Context, admin *kadm.Client, topics []string, names []topicPartition,
) map[topicPartition]int {
	needed := make(map[topicPartition]int)
	ask := false
	s.silent.mu.Lock()
	for _, name := range names {
		if p := s.silent.parts[name]; p != nil {
			needed[name] = p.needed
			ask = ask || p.needed == 0
		}
	}
	s.silent.mu.Unlock()
	if !ask {
		return needed
	}
	byTopic := make(map[string]int)
	configs, err := admin.DescribeTopicConfigs(ctx, topics...)
	if err != nil {
		return needed
	}
	for _, c := range configs {
		byTopic[c.Name] = 1 // or we are not allowed to know
		for _, setting := range c.Configs {
			if setting.Key == "min.insync.replicas" {
				if n, err := strconv.Atoi(setting.MaybeValue()); err == nil {
					byTopic[c.Name] = n
				}
			}
		}
	}
	s.silent.mu.Lock()
	defer s.silent.mu.Unlock()
	for _, name := range names {
		if p := s.silent.parts[name]; p != nil {
			p.needed = byTopic[name.topic]
			needed[name] = p.needed
		}
	}
	return needed
}
