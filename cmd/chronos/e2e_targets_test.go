package main_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// TestE2EFoundTargets sends messages to topics that a target with a * stands for, and that do not exist. The node that
// takes them in creates the topics, and is killed while most of the messages wait; another one finds the lanes in the
// store, and every message comes out where it was meant to.
func TestE2EFoundTargets(t *testing.T) {
	t.Parallel()
	s := newService(t)
	flags := []string{"--targets", s.input + ".to.*", "--create-topics", "--create-partitions", "1"}
	first := s.start(t, flags...)
	first.log.await(t, `"msg":"started"`, 1)
	const each = 5
	topics := []string{s.input + ".to.a", s.input + ".to.b", s.input + ".to.c"}
	for i, topic := range topics {
		for j := range each {
			in := 6 * time.Second
			if i == 0 && j == 0 {
				in = 0
			}
			r := s.record(fmt.Sprint(i, "-", j), time.Now().Add(in), []byte(topic))
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: node.HeaderTopic, Value: []byte(topic)})
			s.submit(t, r)
		}
	}
	first.log.await(t, `"msg":"created a topic that a target stands for"`, len(topics))
	s.read(t, topics[0], patience, func(all []arrived) bool { return len(all) >= 1 })
	first.end(t, syscall.SIGKILL)
	s.start(t, flags...).log.await(t, `"msg":"started"`, 1)
	for _, topic := range topics {
		came := map[string]int{} // what the first node had not settled when it died comes twice
		different := func(all []arrived) bool {
			clear(came)
			for _, r := range all {
				came[string(r.Key)]++
			}
			return len(came) >= each
		}
		for _, r := range s.read(t, topic, patience, different) {
			if string(r.Value) != topic {
				t.Errorf("on %s came a message for %s", topic, r.Value)
			}
		}
		if len(came) != each {
			t.Errorf("on %s came %v, want %d different ones", topic, came, each)
		}
	}
	s.drained(t)
}
