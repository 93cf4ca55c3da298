package kafka_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
)

// publishers is how many calls of Publish are at work at a time.
const publishers = 8

// Topics on which was published at the same time, and so through different connections, are published on again without
// being looked up by all connections.
func TestTopicsKeepTheirConnections(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	b := open(t, configFor(cluster, "group", "in"))
	topics := make([]string, publishers)
	for i := range topics {
		topics[i] = plain.Topic(t, 1)
	}
	var sent atomic.Int32
	together := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if sent.Add(1) == publishers {
			close(together)
		}
		cluster.SleepControl(func() { <-together })
		return nil, nil, false
	})
	var lookups atomic.Int32
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		lookups.Add(1)
		return nil, nil, false
	})
	publish := func(topic string) {
		if err := b.Publish(t.Context(), texts(topic, "text", 1))[0]; err != nil {
			t.Error(err)
		}
	}
	var all sync.WaitGroup
	for _, topic := range topics {
		all.Go(func() { publish(topic) })
	}
	all.Wait()
	if t.Failed() {
		return
	}
	before := lookups.Load()
	for _, topic := range topics {
		publish(topic)
	}
	if again := lookups.Load() - before; again > 1 { // one is due by time, if the machine is very slow
		t.Errorf("%d lookups for topics that a connection knows", again)
	}
}

// A call that comes to no connection in time has sent nothing, and says so: nobody has to fear that it comes twice.
func TestNoConnectionIsFree(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	c := configFor(cluster, "group", "in")
	c.PublishTimeout = 2 * time.Second
	b := open(t, c)
	var sent atomic.Int32
	together, answered := make(chan struct{}), make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if sent.Add(1) == publishers {
			close(together)
		}
		cluster.SleepControl(func() { <-answered })
		return nil, nil, false
	})
	var unsent atomic.Int32
	var all sync.WaitGroup
	publish := func() {
		switch err := b.Publish(t.Context(), texts(topic, "text", 1))[0]; {
		case node.KindOf(err).Untried():
			unsent.Add(1)
		case err == nil:
			t.Error("it was published, and nobody has answered")
		}
	}
	for range publishers {
		all.Go(publish)
	}
	<-together
	if n := unsent.Load(); n > 0 {
		t.Errorf("%d calls say that they have sent nothing, and all were sent", n)
	}
	// As many get the connections of these when their time is over, just before their own is.
	for range 4 * publishers {
		all.Go(publish)
	}
	all.Wait()
	if n := unsent.Load(); n < publishers {
		t.Errorf("%d calls say that they have sent nothing, want %d at least", n, publishers)
	}
	close(answered)
}
