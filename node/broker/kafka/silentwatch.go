package kafka

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/ledger"
)

// background is work that goes on beside the calls of whoever has it, until that is closed.
type background struct {
	mu     sync.Mutex
	closed bool
	group  sync.WaitGroup
	stop   chan struct{} // closed when the end begins
}

func newBackground() *background { return &background{stop: make(chan struct{})} }

// run runs work in a goroutine that wait waits for, and reports whether it does: not once the end has begun.
func (b *background) run(work func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.group.Go(work)
	return true
}

// end begins the end, and reports whether it had not begun before.
func (b *background) end() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.closed = true
	close(b.stop)
	return true
}

// wait waits for what runs.
func (b *background) wait() { b.group.Wait() }

// silentWatch knows which partitions are silent, and asks the cluster how they are.
type silentWatch struct {
	silentPartitions

	admin   *producer
	log     *slog.Logger
	repeats repeats
	work    *background
}

// note takes partitions for silent, and has them watched. Each says whether it was given so much that it may just be
// slow.
func (s *silentWatch) note(names map[topicPartition]bool) {
	if s.add(names) {
		s.work.run(s.watch)
	}
}

// conclude ends trials: of those partitions that have not answered, and of the others.
func (s *silentWatch) conclude(tried []topicPartition, unanswered map[topicPartition]bool) {
	for _, name := range tried {
		if unanswered[name] {
			s.failed(name)
			continue
		}
		s.remove(name)
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "an output partition answers again",
			slog.String("topic", name.topic), slog.Int("partition", int(name.number)))
	}
}

// admit returns the partitions of which the outputs of a transaction are a trial. It returns a *ledger.RefusedError if
// some of the outputs are not to be sent, and then there is no trial. A transaction is a trial only if it has no
// outputs for other partitions, which would be aborted with it.
func (s *silentWatch) admit(outputs []node.Record) ([]topicPartition, error) {
	if s.count.Load() == 0 || len(outputs) == 0 {
		return nil, nil
	}
	results := make([]error, len(outputs))
	_, _, tried := s.sort(outputs, results, false)
	for _, err := range results {
		if err != nil {
			s.untry(tried)
			return nil, &ledger.RefusedError{Errs: results}
		}
	}
	return tried, nil
}

// watch asks silent partitions how they are until there are none, or Close begins.
func (s *silentWatch) watch() {
	ticker := time.NewTicker(silentCheck)
	defer ticker.Stop()
	for {
		select {
		case <-s.work.stop:
			return
		case <-ticker.C:
		}
		names := s.all()
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
func (s *silentWatch) ask(ctx context.Context, client *kgo.Client, names []topicPartition) {
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
		if n := len(details[name.topic].Partitions); failed == nil && n > s.counts.of(name.topic) {
			// Clients see that a topic has more partitions only when they are given records for it. If all keys belong
			// to silent partitions, they are given none.
			s.counts.set(name.topic, n)
		}
		detail, exists := details[name.topic].Partitions[name.number]
		switch {
		case failed != nil && !kerr.IsRetriable(failed), isUnknownTopic(failed):
			s.remove(name) // publishing finds out what there is to say
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
func (s *silentWatch) hear(name topicPartition, err error) {
	s.mu.Lock()
	p := s.parts[name]
	if p == nil {
		s.mu.Unlock()
		return
	}
	p.reason, p.answers = err, err == nil
	slow := err == nil && p.slow
	s.mu.Unlock()
	if slow {
		s.remove(name)
	}
	if err != nil && s.repeats.due("silent "+name.String()) {
		s.log.LogAttrs(context.Background(), slog.LevelError, "an output partition does not answer, its messages wait",
			slog.String("topic", name.topic), slog.Int("partition", int(name.number)), slog.Any("error", err))
	}
}

// replicasNeeded returns how many replicas of partitions must be in sync for a publish, as far as that may be known.
func (s *silentWatch) replicasNeeded(
	ctx context.Context, admin *kadm.Client, topics []string, names []topicPartition,
) map[topicPartition]int {
	needed := make(map[topicPartition]int)
	ask := false
	s.mu.Lock()
	for _, name := range names {
		if p := s.parts[name]; p != nil {
			needed[name] = p.needed
			ask = ask || p.needed == 0
		}
	}
	s.mu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if p := s.parts[name]; p != nil {
			p.needed = byTopic[name.topic]
			needed[name] = p.needed
		}
	}
	return needed
}
