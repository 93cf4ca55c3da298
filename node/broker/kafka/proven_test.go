package kafka_test

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// The first append to a partition takes Kafka some time, and a request is answered when all of it is appended. Many
// partitions that are new together take longer than a publish may: what was not sent is known not to be, and the rest
// is acknowledged. Nothing has to be published twice.
func TestNewPartitionsAreTakenInTurns(t *testing.T) {
	t.Parallel()
	const topics = 100
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	var names []string
	var records []node.Record
	for range topics {
		names = append(names, plain.Topic(t, 1))
		records = append(records, node.Record{Topic: names[len(names)-1], Key: []byte("key"), Value: []byte("text")})
	}
	var mu sync.Mutex
	type topic struct {
		name string
		id   [16]byte
	}
	seen := make(map[topic]bool)
	cluster.ControlKey(int16(kmsg.Produce), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		fresh := 0
		for _, t := range asked.(*kmsg.ProduceRequest).Topics {
			if name := (topic{t.Topic, t.TopicID}); !seen[name] {
				seen[name] = true
				fresh++
			}
		}
		mu.Unlock()
		if fresh > 0 {
			// As the disk of a broker does, which no other clock knows.
			cluster.SleepControl(func() { <-time.After(time.Duration(fresh) * 40 * time.Millisecond) })
		}
		return nil, nil, false
	})
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 2 * time.Second
	b := open(t, c)
	for call := 1; len(records) > 0; call++ {
		if call > topics {
			t.Fatalf("after %d calls %d records are left", topics, len(records))
		}
		var left []node.Record
		for i, err := range b.Publish(t.Context(), records) {
			switch {
			case errors.Is(err, node.ErrUnsent):
				left = append(left, records[i])
			case err != nil:
				t.Fatalf("call %d: %v", call, err)
			}
		}
		if len(left) == len(records) {
			t.Fatalf("call %d has sent nothing", call)
		}
		records = left
	}
	for _, topic := range names {
		if n := len(plain.Read(t, topic)); n != 1 {
			t.Errorf("topic %s has %d records, want one", topic, n)
		}
	}
}

// Where partitions are fast, a call takes few requests for all of them, although it does not know that, and one once it
// does. Records of one key keep their order all the same.
func TestFastPartitionsAreTakenTogether(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	topic := plain.Topic(t, 50)
	var requests atomic.Int32
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		requests.Add(1)
		return nil, nil, false
	})
	b := open(t, configFor(cluster, "group", "in"))
	publish := func(first, size int) int32 {
		before := requests.Load()
		var records []node.Record
		for i := range 1000 {
			value := fmt.Appendf(make([]byte, 0, size), "%d", first+i)
			records = append(records, node.Record{Topic: topic, Key: fmt.Append(nil, i%250), Value: value[:size]})
		}
		for i, err := range b.Publish(t.Context(), records) {
			if err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		return requests.Load() - before
	}
	// How many partitions there are is not known yet, so that they are of 250 keys: 8, 16, 32, 64, 128 and the rest.
	if n := publish(0, 5000); n < 2 || n > 6 {
		t.Errorf("%d requests for new partitions, want 2 to 6", n)
	}
	if n := publish(1000, 10); n != 1 {
		t.Errorf("%d requests for partitions that are known to be fast, want one", n)
	}
	last := make(map[string]int)
	for _, r := range plain.Read(t, topic) {
		var number int
		if _, err := fmt.Sscanf(string(bytes.TrimRight(r.Value, "\x00")), "%d", &number); err != nil {
			t.Fatal(err)
		}
		if before, found := last[string(r.Key)]; found && number <= before {
			t.Fatalf("record %d of key %s comes after %d", number, r.Key, before)
		}
		last[string(r.Key)] = number
	}
}

// What no client was given when the time of a call is over was not sent, and the call says so.
func TestWhatNoClientWasGivenWasNotSent(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	var records []node.Record
	for range 20 {
		records = append(records, node.Record{Topic: plain.Topic(t, 1), Key: []byte("key"), Value: []byte("text")})
	}
	over := make(chan struct{})
	defer close(over)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() { <-over })
		return nil, nil, false
	})
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = time.Second
	b := open(t, c)
	unsent := 0
	for i, err := range b.Publish(t.Context(), records) {
		switch {
		case err == nil:
			t.Errorf("record %d: nobody has answered, and it counts as published", i)
		case errors.Is(err, node.ErrUnsent):
			unsent++
		}
	}
	if unsent != 12 {
		t.Errorf("%d of 20 records were not sent, want all except 8", unsent)
	}
}
