package kafka_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
)

// newSender returns a sender on a topic.
func newSender(t *testing.T, brokers []string, topic string) *kafka.Sender {
	t.Helper()
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: brokers}, Topic: topic + ".journal", Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	sender, err := l.NewSender(topic)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sender.Close)
	return sender
}

// send sends a record to the partition.
func send(ctx context.Context, sender *kafka.Sender, value string) error {
	return sender.Send(ctx, 0, node.Record{Key: []byte("key"), Value: []byte(value)})
}

// Whoever sends a record waits for as long as he likes to, whatever became of it, and one that was not received is not
// sent later. The leader has read it, and closes the connection, and then there is no leader; or it says nothing.
func TestSenderGivesUp(t *testing.T) {
	t.Parallel()
	for name, closes := range map[string]error{"closed": io.EOF, "silent": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster, plain := newFake(t)
			topic := plain.Topic(t, 1)
			sender := newSender(t, cluster.ListenAddrs(), topic)
			if err := send(t.Context(), sender, "before"); err != nil {
				t.Fatal(err)
			}
			cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				return nil, closes, true
			})
			var fault *kfake.FaultHandle
			if closes != nil {
				fault = leaderless(cluster, topic, 0)
			}
			const limit = time.Second
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			began, sent := time.Now(), make(chan error, 1)
			go func() { sent <- send(ctx, sender, "lost") }()
			select {
			case err := <-sent:
				if took := time.Since(began); err == nil || took < limit || took > 5*limit {
					t.Errorf("after %v: %v", took, err)
				}
			case <-time.After(patience):
				t.Fatalf("it is not given up after %v", patience)
			}
			if fault != nil {
				// The client gives it up at the next answer that says that there is no leader, or has done so already.
				next, stop := context.WithTimeout(t.Context(), 2*time.Second)
				defer stop()
				_ = fault.Wait(next, fault.Hits()+1)
				fault.Remove()
			}
			await(t, "the leader answers", func() bool { return send(t.Context(), sender, "after") == nil })
			if got, want := values(plain.Read(t, topic)), []string{"after", "before"}; !slices.Equal(got, want) {
				t.Errorf("the topic holds %q, want %q", got, want)
			}
		})
	}
}

// Whoever sends a record behind one that another waits for, and is willing to wait longer, does not wait as long.
func TestSenderWaitsForItself(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	sender := newSender(t, cluster.ListenAddrs(), plain.Topic(t, 1))
	if err := send(t.Context(), sender, "before"); err != nil {
		t.Fatal(err)
	}
	unanswered := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		close(unanswered)
		return nil, nil, true
	})
	var others sync.WaitGroup
	defer others.Wait()
	patient, stop := context.WithCancel(t.Context())
	defer stop()
	others.Go(func() { _ = send(patient, sender, "patient") })
	<-unanswered
	const limit = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	err := send(ctx, sender, "impatient")
	if took := time.Since(began); !errors.Is(err, ctx.Err()) || took > 5*limit {
		t.Errorf("after %v: %v", took, err)
	}
}

// An input topic that is deleted and created again is sent to again. franz-go would refuse the new one.
func TestSenderRecreatedTopic(t *testing.T) {
	t.Parallel()
	onBoth(t, sendToRecreated)
}

func sendToRecreated(t *testing.T, brokers []string, plain *brokertest.Cluster) {
	t.Helper()
	topic := plain.Topic(t, 1)
	sender := newSender(t, brokers, topic)
	for range 3 {
		await(t, "the topic accepts a record", func() bool { return send(t.Context(), sender, "text") == nil })
		if got := values(plain.Fresh(t).Read(t, topic)); !slices.Contains(got, "text") {
			t.Fatalf("the topic holds %q", got)
		}
		plain.DeleteTopic(t, topic)
		plain.Fresh(t).CreateTopic(t, topic, 1)
	}
}

// A node that is not allowed to get a producer id, until somebody changes that. franz-go would never ask again.
func TestSenderAfterProducerIDRefused(t *testing.T) {
	t.Parallel()
	for _, cause := range []*kerr.Error{kerr.ClusterAuthorizationFailed, kerr.UnknownServerError} {
		cluster, plain := newFake(t)
		topic := plain.Topic(t, 1)
		sender := newSender(t, cluster.ListenAddrs(), topic)
		fault := cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Err: cause, Count: -1,
		})
		if err := send(t.Context(), sender, "during"); !errors.Is(err, cause) {
			t.Errorf("send: %v, want %v", err, cause)
		}
		fault.Remove()
		if err := send(t.Context(), sender, "after"); err != nil {
			t.Errorf("send after %v: %v", cause, err)
		}
		if got := values(plain.Read(t, topic)); !slices.Equal(got, []string{"after"}) {
			t.Errorf("the topic holds %q", got)
		}
	}
}
