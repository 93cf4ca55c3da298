package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// The first append to a partition takes Kafka some time, and a request is answered when all of it is appended. Many
// partitions that are new together take longer than a publish may: what was not sent is known not to be, and the rest
// is acknowledged. Nothing has to be published twice.
// That records for other topics are refused at once says nothing of how fast that is.
func TestNewPartitionsAreTakenInTurns(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) { t.Parallel(); takeNewInTurns(t, 0) })
	t.Run("behind what is refused", func(t *testing.T) { t.Parallel(); takeNewInTurns(t, 248) })
}

func takeNewInTurns(t *testing.T, refused int) {
	t.Helper()
	const topics = 100
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	forbidden := plain.Topic(t, 1)
	forbiddenID := cluster.TopicInfo(forbidden).TopicID
	cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: forbidden, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	var names []string
	var records []node.Record
	for i := range refused {
		records = append(records, node.Record{Topic: forbidden, Key: fmt.Append(nil, i), Value: []byte("text")})
	}
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
	most := 0
	cluster.ControlKey(int16(kmsg.Produce), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		fresh := 0
		for _, t := range asked.(*kmsg.ProduceRequest).Topics {
			if t.Topic == forbidden || t.TopicID == forbiddenID {
				continue
			}
			if name := (topic{t.Topic, t.TopicID}); !seen[name] {
				seen[name] = true
				fresh++
			}
		}
		most = max(most, fresh)
		mu.Unlock()
		if fresh > 0 {
			// As the disk of a broker does, which no other clock knows.
			cluster.SleepControl(func() { <-time.After(time.Duration(fresh) * 100 * time.Millisecond) })
		}
		return nil, nil, false
	})
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 5 * time.Second // so that a quarter of what eight take is more than a machine may stand still
	b := open(t, c)
	for call := 1; len(records) > 0; call++ {
		if call > topics {
			t.Fatalf("after %d calls %d records are left", topics, len(records))
		}
		var left []node.Record
		for i, err := range b.Publish(t.Context(), records) {
			switch {
			case node.KindOf(err).Untried():
				left = append(left, records[i])
			case err != nil && records[i].Topic != forbidden:
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
	if most > 8 {
		t.Errorf("a request is for %d new partitions, want no more than 8, which took long", most)
	}
}

// Where partitions are fast, a call takes few requests for all of them, although it does not know that, and one once it
// does. Records of one key keep their order all the same.
func TestFastPartitionsAreTakenTogether(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	topic := plain.Topic(t, 50)
	requests := counted(cluster)
	b := open(t, configFor(cluster, "group", "in"))
	records := func(first, size int) (all []node.Record) {
		for i := range 1000 {
			value := fmt.Appendf(make([]byte, 0, size), "%d", first+i)
			all = append(all, node.Record{Topic: topic, Key: fmt.Append(nil, i%250), Value: value[:size]})
		}
		return all
	}
	publish := func(first, size int) int32 {
		return requests(func() {
			for i, err := range b.Publish(t.Context(), records(first, size)) {
				if err != nil {
					t.Fatalf("record %d: %v", i, err)
				}
			}
		})
	}
	// How many partitions there are is not known yet, so that they are of 250 keys: 8, 16, 32, 64, 128 and the rest,
	// each twice, because franz-go may send the first of them before it is told to.
	if n := publish(0, 5000); n < 2 || n > 12 {
		t.Errorf("%d requests for new partitions, want 2 to 12", n)
	}
	if n := b.Turns(records(1000, 10)); n != 1 {
		t.Errorf("%d turns for partitions that are known to be fast, want one", n)
	}
	publish(1000, 10)
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
		case node.KindOf(err).Untried():
			unsent++
		}
	}
	if unsent != 12 {
		t.Errorf("%d of 20 records were not sent, want all except 8", unsent)
	}
}

// counted returns how many requests to append there are while something is done.
func counted(cluster *kfake.Cluster) func(do func()) int32 {
	var requests atomic.Int32
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		requests.Add(1)
		return nil, nil, false
	})
	return func(do func()) int32 {
		before := requests.Load()
		do()
		return requests.Load() - before
	}
}

// A partition is known to be fast when much was appended to it: little says nothing, and neither does what was refused.
// Records without a key go anywhere, and of their topic it is known then.
func TestWhatProvesPartitions(t *testing.T) {
	t.Parallel()
	const little, much = 10, 20_000
	for name, c := range map[string]struct {
		key   []byte
		size  int
		cause *kerr.Error // by which the first records are refused; nil for none
		want  int         // turns for what comes later
	}{
		"much":                  {[]byte("key"), much, nil, 1},
		"much without a key":    {nil, much, nil, 1},
		"little":                {[]byte("key"), little, nil, 2},
		"little without a key":  {nil, little, nil, 2},
		"much that was refused": {[]byte("key"), much, kerr.MessageTooLarge, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t, kfake.NumBrokers(1))
			var topics []string
			for range 16 { // 8 and 8, of which nobody knows that they are fast
				topics = append(topics, plain.Topic(t, 1))
			}
			b := open(t, configFor(cluster, "group", "in"))
			records := func(size int) (all []node.Record) {
				for _, topic := range topics {
					all = append(all, node.Record{Topic: topic, Key: c.key, Value: make([]byte, size)})
				}
				return all
			}
			publish := func(size int, want error) {
				for i, err := range b.Publish(t.Context(), records(size)) {
					if !errors.Is(err, want) {
						t.Fatalf("record %d: %v, want %v", i, err, want)
					}
				}
			}
			if c.cause == nil {
				publish(c.size, nil)
			} else {
				fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.cause, Count: -1})
				publish(c.size, node.RecordRejected)
				fault.Remove()
			}
			if n := b.Turns(records(little)); n != c.want {
				t.Errorf("%d turns, want %d", n, c.want)
			}
		})
	}
}

// A topic that was deleted and created again has new partitions, whatever was known of the old ones.
func TestCreatedAgainIsNotProven(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	const topic, partitions = "again", 16 // 8 and 8, of which nobody knows that they are fast
	plain.CreateTopic(t, topic, partitions)
	var large, small []node.Record
	for i := range 4 * partitions {
		r := node.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte("text")}
		small = append(small, r)
		r.Value = make([]byte, 20_000)
		large = append(large, r)
	}
	config := configFor(cluster, "group", "in")
	config.PublishTimeout = 2 * time.Second
	b := open(t, config)
	all := func(records []node.Record, want error) bool {
		for _, err := range b.Publish(t.Context(), records) {
			if !errors.Is(err, want) {
				return false
			}
		}
		return true
	}
	await(t, "publishing works", func() bool { return all(large, nil) })
	if n := b.Turns(small); n != 1 {
		t.Errorf("%d turns for partitions that are known to be fast, want one", n)
	}
	if err := cluster.DeleteTopic(topic); err != nil {
		t.Fatal(err)
	}
	await(t, "the topic is missing", func() bool { return all(small, node.TopicMissing) })
	plain.CreateTopic(t, topic, partitions)
	await(t, "publishing works again", func() bool { return all(small, nil) })
	if n := b.Turns(small); n < 2 {
		t.Errorf("%d turns for partitions that are new, want two", n)
	}
}

// What a client was given when a call is given up may have been appended; what it was not given was not, and the call
// says which is which. Method: the broker says nothing, and the caller goes away when it has the first request.
func TestGivenUpIsUnknown(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	var records []node.Record
	for range 20 {
		records = append(records, node.Record{Topic: plain.Topic(t, 1), Key: []byte("key"), Value: []byte("text")})
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cancel()
		cluster.SleepControl(func() { <-over })
		return nil, nil, false
	})
	b := open(t, configFor(cluster, "group", "in"))
	unknown := 0
	for i, err := range b.Publish(ctx, records) {
		switch {
		case err == nil:
			t.Errorf("record %d: nobody has answered, and it counts as published", i)
		case !node.KindOf(err).Untried():
			unknown++
		}
	}
	if unknown != 8 {
		t.Errorf("of %d records nobody knows what became of them, want 8 of 20", unknown)
	}
}

// What comes next is not begun if it would take too long at the pace of much that was published before; little that has
// taken long says how long a request takes, and nothing of bytes. Method: eight records are acknowledged late, and a
// larger one comes after them.
func TestPaceIsOfManyBytes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		size int
		want error
	}{"little": {10, nil}, "much": {10_000, node.NotSent}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t, kfake.NumBrokers(1))
			var records []node.Record
			for range 8 {
				records = append(records, node.Record{
					Topic: plain.Topic(t, 1), Key: []byte("key"), Value: make([]byte, c.size),
				})
			}
			larger := node.Record{Topic: plain.Topic(t, 1), Key: []byte("key"), Value: make([]byte, 500_000)}
			var once sync.Once
			cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				cluster.KeepControl()
				once.Do(func() {
					cluster.SleepControl(func() { <-time.After(time.Second) })
				})
				return nil, nil, false
			})
			config := configFor(cluster, "group", "in")
			config.PublishTimeout = 5 * time.Second
			b := open(t, config)
			for i, err := range b.Publish(t.Context(), append(records, larger)) {
				if want := map[bool]error{true: c.want}[i == len(records)]; !errors.Is(err, want) {
					t.Errorf("record %d: %v, want %v", i, err, want)
				}
			}
		})
	}
}

// Records without a key say nothing of the partitions to which keys lead: while nobody knows how many a topic has, keys
// are taken in turns.
func TestRecordsWithoutKeyProveNoKeys(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	topic := plain.Topic(t, 16)
	b := open(t, configFor(cluster, "group", "in"))
	for i, err := range b.Publish(t.Context(), []node.Record{{Topic: topic, Value: make([]byte, 20_000)}}) {
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	var keyed []node.Record
	for i := range 16 { // 8 and 8
		keyed = append(keyed, node.Record{Topic: topic, Key: fmt.Append(nil, i), Value: []byte("text")})
	}
	if n := b.Turns(keyed); n != 2 {
		t.Errorf("%d turns for keys of which nobody knows where they lead, want two", n)
	}
}

// New partitions are only counted when a client was given something for them: what did not fit in with it says nothing.
// Method: the window has room for one record of the first topic, which has some, and there are many other ones behind.
func TestWhatDidNotFitIsNotCounted(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t, kfake.NumBrokers(1))
	var records []node.Record
	large := plain.Topic(t, 1)
	for range 6 {
		records = append(records, node.Record{Topic: large, Key: []byte("key"), Value: make([]byte, 40_000)})
	}
	for range 40 {
		records = append(records, node.Record{Topic: plain.Topic(t, 1), Key: []byte("key"), Value: []byte("text")})
	}
	var mu sync.Mutex
	first := 0 // how many topics there are in the first request that is about several
	cluster.ControlKey(int16(kmsg.Produce), func(asked kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		if n := len(asked.(*kmsg.ProduceRequest).Topics); n > 1 && first == 0 {
			first = n
		}
		return nil, nil, false
	})
	b := open(t, configFor(cluster, "group", "in"))
	b.Narrow(64 << 10)
	for i, err := range b.Publish(t.Context(), records) {
		if err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	if first < 2 || first > 8 {
		t.Errorf("the first request for several new partitions is for %d, want 2 to 8", first)
	}
}
