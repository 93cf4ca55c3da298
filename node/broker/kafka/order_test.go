package kafka_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// The first of many records with one key is refused, and then some of the others with it, which have to be sent again.
// None may overtake them in one call, also not on a topic that is new to the client, whose records wait elsewhere at
// first. What was overtaken is said not to be sent, and is accepted later.
func TestPublishKeepsOrderAroundRefused(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	other := plain.Topic(t, 1)
	b := open(t, configFor(cluster, "group", "in"))
	if err := publishOne(t, b, other, "text"); err != nil { // so that the client is ready to send
		t.Fatal(err)
	}
	for range 5 {
		topic := plain.Topic(t, 1, "max.message.bytes", "100000")
		var want []string
		for call := range 2 {
			records := make([]node.Record, 9000)
			for i := range records {
				records[i] = node.Record{Topic: topic, Key: []byte("key"), Value: fmt.Appendf(nil, "%d-%04d", call, i)}
			}
			records[0].Value = make([]byte, 200_000)
			for i := range records[0].Value {
				records[0].Value[i] = byte(rand.Uint32())
			}
			for tries := 1; len(records) > 0; tries++ {
				if tries > 20 {
					t.Fatalf("call %d: %d records are not sent in %d tries", call, len(records), tries)
				}
				var left []node.Record
				for i, err := range b.Publish(t.Context(), records) {
					large := len(records[i].Value) > 100_000
					switch {
					case node.KindOf(err).Untried():
						left = append(left, records[i])
					case large != (node.KindOf(err) == node.RecordRejected) || !large && err != nil:
						t.Fatalf("call %d, record %d: %v", call, i, err)
					case !large:
						want = append(want, string(records[i].Value))
					}
				}
				records = left
			}
		}
		var got []string
		for _, r := range plain.Read(t, topic) {
			got = append(got, string(r.Value))
		}
		if !slices.Equal(got, want) {
			at := 0
			for at < min(len(got), len(want)) && got[at] == want[at] {
				at++
			}
			t.Fatalf("the topic holds %d records, want %d in order; from %d on it holds %q, want %q",
				len(got), len(want), at, got[at:min(at+3, len(got))], want[at:min(at+3, len(want))])
		}
	}
}

// What was refused is not tried again in the same call when a later record of its key, on its topic, was appended.
// Records without a key have no order.
func TestOvertakenIsLeftToTheNextCall(t *testing.T) {
	t.Parallel()
	var records []node.Record
	for _, name := range []string{"t a", "t b", "t a", "u b", "t", "t", "t a"} {
		topic, key, keyed := strings.Cut(name, " ")
		r := node.Record{Topic: topic}
		if keyed {
			r.Key = []byte(key)
		}
		records = append(records, r)
	}
	refused := kerr.MessageTooLarge
	want := []error{node.NotSent, refused, nil, nil, refused, nil, refused}
	got := kafka.Overtaken(records, []error{refused, refused, nil, nil, refused, nil, refused})
	for i := range want {
		if !errors.Is(got[i], want[i]) {
			t.Errorf("record %d: %v, want %v", i, got[i], want[i])
		}
	}
}

// A backlog that fills many batches of a partition, of which the topic accepts none but the last, keeps the order of
// its key: the batches are sent one after the other.
func TestPublishKeepsOrderOfManyBatches(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1, "max.message.bytes", "300000")
	b := open(t, configFor(cluster, "group", "in"))
	if err := publishOne(t, b, topic, "text"); err != nil {
		t.Fatal(err)
	}
	want := []string{"text"}
	var records []node.Record
	for i := range 21 { // five batches of four, and one of one
		records = append(records, node.Record{Topic: topic, Key: []byte("key"), Value: make([]byte, 200_000)})
		copy(records[i].Value, fmt.Sprintf("%02d", i))
		want = append(want, fmt.Sprintf("%02d", i))
	}
	if n := b.Turns(records); n != 6 {
		t.Errorf("the backlog is sent in %d turns, want 6", n)
	}
	for i, err := range b.Publish(t.Context(), records) {
		if err != nil && !node.KindOf(err).Untried() {
			t.Fatalf("record %d: %v", i, err)
		}
		if err != nil { // by a client that sent early
			want = slices.DeleteFunc(want, func(value string) bool { return value == fmt.Sprintf("%02d", i) })
		}
	}
	var got []string
	for _, r := range plain.Read(t, topic) {
		got = append(got, string(bytes.TrimRight(r.Value[:min(len(r.Value), 4)], "\x00")))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("the topic holds %q, want %q", got, want)
	}
}

// A client sends nothing before it has the whole call, or most of what is sent again in the tests above would be
// overtaken. It is seen by the first batch, which holds all records, although the topic is new to the client. Each
// client is new, because one that has sent before may send early.
func TestPublishSendsTheWholeCallAtOnce(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	var mu sync.Mutex
	var batches []int32
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		mu.Lock()
		defer mu.Unlock()
		for _, topic := range request.(*kmsg.ProduceRequest).Topics {
			for _, partition := range topic.Partitions {
				var batch kmsg.RecordBatch
				if err := batch.ReadFrom(partition.Records); err != nil {
					t.Error(err)
				}
				batches = append(batches, batch.NumRecords)
			}
		}
		return nil, nil, false
	})
	const size = 10_000
	for range 5 {
		topic := plain.Topic(t, 1)
		b := open(t, configFor(cluster, "group", "in"))
		mu.Lock()
		batches = nil
		mu.Unlock()
		for i, err := range b.Publish(t.Context(), texts(topic, strings.Repeat("long", 10), size)) {
			if err != nil {
				t.Fatalf("record %d: %v", i, err)
			}
		}
		mu.Lock()
		if !slices.Equal(batches, []int32{size}) {
			t.Errorf("the call was sent in batches of %d, want one of %d", batches, size)
		}
		mu.Unlock()
	}
}
