package kafka_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/kafka"
	"chronos/node/ledger"
)

// hanging returns the address of somebody who takes connections and says nothing, as a broker does that is frozen, and
// how many connections he was asked for.
func hanging(t *testing.T) (address string, asked *atomic.Int32) {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked = &atomic.Int32{}
	var accepting sync.WaitGroup
	var conns []net.Conn
	accepting.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it is closed
			}
			asked.Add(1)
			conns = append(conns, conn)
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // it only listens
		accepting.Wait()
		for _, conn := range conns {
			_ = conn.Close() // nobody is to hear of it
		}
	})
	return l.Addr().String(), asked
}

// besideHanging returns a ledger that is told an address that hangs besides those of brokers that answer, the addresses
// of these, and how often the first one was asked.
func besideHanging(t *testing.T) (l *kafka.Ledger, well []string, asked *atomic.Int32) {
	t.Helper()
	cluster, plain := newFake(t)
	topic, well := plain.Topic(t, 1), cluster.ListenAddrs()
	address, asked := hanging(t)
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: append([]string{address}, well...)}, Topic: topic, Name: "chronos",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, well, asked
}

// Of the addresses that a node is told, one hangs. Who takes a partition over, or reads one, finds that out once: the
// clients that are made afterwards begin elsewhere. One that tries the address does so twice, and waits for 6 s;
// without what the others have found out each of these clients would try it by every second chance.
func TestLedgerHangingSeed(t *testing.T) {
	t.Parallel()
	l, _, asked := besideHanging(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	const once = 2
	for i := 0; i < 12 && asked.Load() <= once; i++ {
		w, err := l.Own(ctx, 0, ledger.Entry{Key: []byte("fence"), Value: fmt.Append(nil, i)})
		if err != nil {
			t.Fatal(err)
		}
		w.Close()
	}
	if got := asked.Load(); got > once {
		t.Errorf("an address that does not answer was tried %d times", got)
	}
}

// If nobody else answers, an address is tried again that did not answer.
func TestLedgerHangingSeeds(t *testing.T) {
	t.Parallel()
	l, well, _ := besideHanging(t)
	for _, broker := range well {
		l.Fail(broker)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	w, err := l.Own(ctx, 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")})
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
}

// An address is left out from when it does not answer until it answers again, or while none is left. That it takes a
// connection is no answer, and that a client does not wait for one says nothing of it.
func TestSeeds(t *testing.T) {
	t.Parallel()
	seeds := kafka.NewSeeds("a:1", "b:2")
	a, b := kgo.BrokerMetadata{Host: "a", Port: 1}, kgo.BrokerMetadata{Host: "b", Port: 2}
	read := func(of kgo.BrokerMetadata, err error) { seeds.OnBrokerRead(of, 0, 0, 0, 0, err) }
	check := func(what string, want ...string) {
		t.Helper()
		if got := seeds.Well(); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	read(a, context.Canceled)
	read(a, kgo.ErrClientClosed)
	check("who did not wait", "a:1", "b:2")
	read(a, context.DeadlineExceeded)
	check("who waited in vain", "b:2")
	seeds.OnBrokerConnect(a, 0, nil, nil)
	check("a connection", "b:2")
	seeds.OnBrokerConnect(b, 0, nil, syscall.ECONNREFUSED)
	check("none is left", "a:1", "b:2")
	read(b, nil)
	check("an answer", "b:2")
	read(a, nil)
	check("both answer", "a:1", "b:2")
}
