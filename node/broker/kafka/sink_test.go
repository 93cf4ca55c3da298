package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// keyFor returns a key whose records go to a partition.
func keyFor(t *testing.T, b *broker, plain *brokertest.Cluster, topic string, partition int32) []byte {
	t.Helper()
	var records []node.Record
	for i := range 100 {
		records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i)})
	}
	await(t, "100 records are published", func() bool {
		return !slices.ContainsFunc(b.Publish(t.Context(), records), func(err error) bool { return err != nil })
	})
	for _, r := range plain.Read(t, topic) {
		if r.Partition == partition {
			return r.Key
		}
	}
	t.Fatalf("no key of 100 goes to partition %d", partition)
	return nil
}

// One output partition does not accept anything: after the first publish that runs into its time limit, it holds up
// nobody, and its records are known not to be sent. When it is back, they are published soon.
func TestSilentPartition(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(*kfake.Cluster, string) *kfake.FaultHandle{
		"no leader": func(c *kfake.Cluster, topic string) *kfake.FaultHandle { return leaderless(c, topic, 1) },
		"too few replicas": func(c *kfake.Cluster, topic string) *kfake.FaultHandle {
			return c.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{1},
				Err: kerr.NotEnoughReplicas, Count: -1,
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t)
			topic, other := plain.Topic(t, 3), plain.Topic(t, 1)
			c := configFor(cluster, "group", "in")
			c.PublishTimeout = 4 * time.Second // so that half of it is more than a machine may stand still
			b := open(t, c)
			dead, alive := keyFor(t, b, plain, topic, 1), keyFor(t, b, plain, topic, 0)
			batch := func() []node.Record {
				records := texts(other, "other", 50)
				records = append(records, node.Record{Topic: topic, Key: alive, Value: []byte("alive")})
				for range 30 {
					records = append(records, node.Record{Topic: topic, Key: dead, Value: []byte("dead")})
				}
				return records
			}
			fault := fail(cluster, topic)
			for i, err := range b.Publish(t.Context(), batch()) { // runs into its time limit
				if (err == nil) != (i <= 50) {
					t.Errorf("record %d: %v", i, err)
				}
			}
			unsent, unknown := 0, 0
			for round := range 8 {
				start := time.Now()
				for i, err := range b.Publish(t.Context(), batch()) {
					switch {
					case i <= 50 && err != nil:
						t.Errorf("round %d, record %d of a healthy partition: %v", round, i, err)
					case i > 50 && node.KindOf(err).Untried():
						unsent++
					case i > 50:
						unknown++
					}
				}
				if took := time.Since(start); took > c.PublishTimeout/2 {
					t.Errorf("round %d took %v with one dead partition", round, took)
				}
			}
			if unknown > 30 || unsent < 200 {
				t.Errorf("%d records were not sent, and the outcome of %d is unknown", unsent, unknown)
			}
			fault.Remove()
			start := time.Now()
			await(t, "the partition accepts records again", func() bool {
				return b.Publish(t.Context(), []node.Record{{Topic: topic, Key: dead, Value: []byte("back")}})[0] == nil
			})
			t.Logf("publishing worked again after %v", time.Since(start).Round(time.Millisecond))
		})
	}
}

// Each probe of the engine is a trial, although the partition has failed many before: the back-off of the engine and
// that of the sink do not multiply. A call with other records, which wait for its end, is not. What is not sent names
// its partition.
func TestProbeIsTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const soonest = 800 * time.Millisecond // between two probes of the engine
		s := kafka.NewSilent("topic", 1)
		probe := slices.Repeat([]node.Record{{Topic: "topic", Key: []byte("key"), Value: make([]byte, 200)}}, 10)
		among := append([]node.Record{{Topic: "other", Key: []byte("key")}}, probe...)
		inAll, tried := 0, 0
		for range 20 {
			s.Answer(0)
			errs, trial := s.Sort(among)
			if trial == 0 {
				var unavailable *node.PublishError
				err := errs[1]
				if !errors.As(err, &unavailable) || unavailable.Part != "0" || !node.KindOf(err).Untried() ||
					!strings.HasPrefix(err.Error(), "publish on topic topic: partition 0 ") {
					t.Fatalf("what is not sent fails with %v", err)
				}
				if _, trial = s.Sort(probe); trial != len(probe) {
					t.Fatalf("%d records of a probe are tried, of %d", trial, len(probe))
				}
				tried++
			}
			inAll++
			if _, again := s.Sort(probe); again > 0 {
				t.Fatal("two trials of a partition are under way at once")
			}
			s.Fail(0)
			<-time.After(soonest)
		}
		if tried < inAll*3/4 {
			t.Errorf("only %d of %d trials had to be probes: other records wait for the rest", tried, inAll)
		}
	})
}

// Over a slow connection, six messages that do not arrive together within the time limit arrive some at a time.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1)) // so that all of it is one request
	topic := plain.Topic(t, 6)
	network := brokertest.NewNetwork(t)
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 2 * time.Second
	c.Dialer = network.Dial
	b := open(t, c)
	await(t, "publishing works", func() bool { return publishOne(t, b, topic, "first") == nil })
	network.Limit(2_000_000)
	var left []node.Record
	for i := range 6 {
		left = append(left, node.Record{Topic: topic, Key: fmt.Append(nil, i), Value: noise(900_000)})
	}
	rounds, unknown := 0, 0
	for start := time.Now(); len(left) > 0; rounds++ {
		if time.Since(start) > patience {
			t.Fatalf("%d of 6 messages have not arrived after %v and %d rounds", len(left), patience, rounds)
		}
		var again []node.Record
		for i, err := range b.Publish(t.Context(), left) {
			if err != nil {
				again = append(again, left[i])
			}
			if err != nil && !node.KindOf(err).Untried() {
				unknown++
			}
		}
		if len(again) == len(left) {
			timer := time.NewTimer(100 * time.Millisecond) // as an engine that stands back
			<-timer.C
		}
		left = again
	}
	t.Logf("%d rounds, %d unknown outcomes", rounds, unknown)
}

// A topic that was deleted is published on soon after it is there again, whichever client is used.
func TestPublishSoonAfterTopicIsBack(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	plain.CreateTopic(t, "back", 1)
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 2 * time.Second
	b := open(t, c)
	all := func() (failed int) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 4 {
			wg.Go(func() {
				for _, err := range b.Publish(t.Context(), texts("back", "text", 1)) {
					if err != nil {
						mu.Lock()
						failed++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		return failed
	}
	if failed := all(); failed > 0 {
		t.Fatal("publishing fails")
	}
	if err := cluster.DeleteTopic("back"); err != nil {
		t.Fatal(err)
	}
	await(t, "the topic is missing", func() bool {
		return node.KindOf(publishOne(t, b, "back", "text")) == node.TopicMissing
	})
	plain.CreateTopic(t, "back", 1)
	start := time.Now()
	await(t, "all clients publish", func() bool { return all() == 0 })
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
}
