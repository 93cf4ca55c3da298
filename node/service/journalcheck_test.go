package service_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"chronos/node/broker/kafka"
	"chronos/node/service"
	journalstore "chronos/node/store/journal"
)

// What a node finds wrong with the topic of a journal before it owns anything of it, each by itself; and that it finds
// nothing in one that it has created, nor in one whose settings it may not see.
func TestJournalProblems(t *testing.T) {
	t.Parallel()
	good := func() kafka.LedgerTopic {
		topic := kafka.LedgerTopic{
			Partitions: 4, Replicas: 3, Brokers: 3, LongestTransaction: 15 * time.Minute,
			Settings: map[string]string{"max.message.bytes": "1048588"},
		}
		for _, setting := range service.JournalSettings(3) {
			name, value, _ := strings.Cut(setting, "=")
			topic.Settings[name] = value
		}
		return topic
	}
	set := func(name, value string) func(*kafka.LedgerTopic) {
		return func(topic *kafka.LedgerTopic) {
			topic.Settings = maps.Clone(topic.Settings)
			topic.Settings[name] = value
		}
	}
	for _, c := range []struct {
		name   string
		spoil  func(*kafka.LedgerTopic)
		inputs int32
		want   string
	}{
		{"as it is created", func(*kafka.LedgerTopic) {}, 4, ""},
		{"settings that may not be seen", func(topic *kafka.LedgerTopic) {
			topic.Settings, topic.LongestTransaction = nil, 0
		}, 4, ""},
		{"one broker", func(topic *kafka.LedgerTopic) {
			topic.Replicas, topic.Brokers = 1, 1
			topic.Settings["min.insync.replicas"] = "1"
		}, 4, ""},
		{"no input", func(*kafka.LedgerTopic) {}, 0, "has no input topic in"},
		{"no topic", func(topic *kafka.LedgerTopic) { topic.Partitions = 0 }, 4, "does not exist"},
		{"partitions were added", func(*kafka.LedgerTopic) {}, 6, "has 4 partitions, and its input topic in has 6"},
		{"what is deleted", set("cleanup.policy", "compact,delete"), 4, "has cleanup.policy=compact,delete"},
		{"unclean", set("unclean.leader.election.enable", "true"), 4, "has unclean.leader.election.enable=true"},
		{"one acknowledgement", set("min.insync.replicas", "1"), 4, "has min.insync.replicas=1 and 3 replicas"},
		{"one copy", func(topic *kafka.LedgerTopic) { topic.Replicas = 1 }, 4, "is kept on 1 of 3 brokers"},
		{"tombstones", set("delete.retention.ms", "3600000"), 4, "has delete.retention.ms=3600000"},
		{"small", set("max.message.bytes", "1000"), 4, "has max.message.bytes=1000"},
		{"a little small", set("max.message.bytes", "1000011"), 4, "has max.message.bytes=1000011"},
		{"short transactions", func(topic *kafka.LedgerTopic) {
			topic.LongestTransaction = time.Second
		}, 4, "is on brokers with transaction.max.timeout.ms=1000"},
	} {
		topic := good()
		c.spoil(&topic)
		problems, err := service.JournalProblems(topic, c.inputs)
		if err != nil {
			t.Fatal(err)
		}
		var says []string
		for _, p := range problems {
			says = append(says, p.Says)
			if p.Means == "" || p.Do == "" {
				t.Errorf("%s: %q says neither what it means nor what to do", c.name, p.Says)
			}
		}
		if got := strings.Join(says, "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) ||
			len(says) > 1 {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A node whose disk has failed ends, and so does one of another consumer group, or of another input topic; one
// that no broker answers tries on.
func TestFatal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err   error
		fatal bool
	}{
		{&journalstore.DiskError{Dir: "copy", Err: syscall.ENOSPC}, true},
		{&journalstore.OtherGroupError{Number: 1, Group: "theirs", Ours: "ours"}, true},
		{&journalstore.SwappedError{Input: "a", Other: "b"}, true},
		{context.DeadlineExceeded, false},
	} {
		if got := service.IsFatal(fmt.Errorf("catch up partition 1 of the journal: %w", c.err)); got != c.fatal {
			t.Errorf("%v ends the node: %v, want %v", c.err, got, c.fatal)
		}
	}
}
