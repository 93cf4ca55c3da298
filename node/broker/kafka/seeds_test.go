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
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
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

// freezer opens connections to brokers, of which one may be frozen: it takes connections and all that is written, and
// answers nothing.
type freezer struct {
	mu      sync.Mutex
	frozen  string
	unheard chan struct{} // closed by what is written to it
}

func (f *freezer) freeze(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen, f.unheard = address, make(chan struct{})
}

// swallows reports whether what is written to a broker is lost, and takes note of it.
func (f *freezer) swallows(address string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.frozen != address {
		return false
	}
	select {
	case <-f.unheard:
	default:
		close(f.unheard)
	}
	return true
}

// awaitUnheard waits until something was written to the broker that is frozen.
func (f *freezer) awaitUnheard(t *testing.T) {
	t.Helper()
	select {
	case <-f.unheard:
	case <-time.After(patience):
		t.Fatal("nobody has asked the broker that is frozen")
	}
}

func (f *freezer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var plain net.Dialer
	conn, err := plain.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &freezing{conn, f, address}, nil
}

// freezing is a connection to a broker that may be frozen.
type freezing struct {
	net.Conn

	of      *freezer
	address string
}

func (c *freezing) Write(p []byte) (int, error) {
	if c.of.swallows(c.address) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// frozenOf is a writer on three brokers, each of which can be frozen.
type frozenOf struct {
	*kfake.Cluster
	*freezer

	l     *kafka.Ledger
	w     ledger.Writer
	topic string
}

// frozenCommit is how long a commit may take, and frozenAppend how long an append waits for a leader that is frozen.
const (
	frozenCommit = 10 * time.Second
	frozenAppend = frozenCommit/5 + 3*time.Second
)

// address returns that of a broker.
func (f *frozenOf) address(number int32) string { return f.ListenAddrs()[number] }

// lead has a broker lead the partition.
func (f *frozenOf) lead(t *testing.T, number int32) {
	t.Helper()
	if err := f.MoveTopicPartition(f.topic, 0, number); err != nil {
		t.Fatal(err)
	}
}

// commit commits something.
func (f *frozenOf) commit(ctx context.Context) error {
	entries := []ledger.Entry{{Key: []byte("key"), Value: []byte("value")}}
	_, err := f.w.Commit(ctx, ledger.Transaction{Entries: entries})
	return err
}

// newFrozenOf returns a writer that has a connection to the leader of its partition, who is not the coordinator of its
// transactions.
func newFrozenOf(t *testing.T) (f *frozenOf, coordinator, leader int32) {
	t.Helper()
	cluster, plain := newFake(t)
	f = &frozenOf{Cluster: cluster, freezer: &freezer{}, topic: plain.Topic(t, 1)}
	l, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs(), Dialer: f.dial}, Topic: f.topic, Name: "chronos",
		CommitTimeout: frozenCommit, // for a machine that is busy
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	f.l = l
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if f.w, err = l.Own(ctx, 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.w.Close)
	coordinator = cluster.CoordinatorFor("chronos/0")
	leader = (coordinator + 1) % 3
	f.lead(t, leader)
	if err := f.commit(ctx); err != nil {
		t.Fatal(err)
	}
	return f, coordinator, leader
}

// The coordinator of a transaction is frozen, and takes connections. By the time at which it has not answered, another
// broker coordinates: the commit gets there, and its end is known.
func TestLedgerFrozenCoordinator(t *testing.T) {
	t.Parallel()
	f, coordinator, _ := newFrozenOf(t)
	f.freeze(f.address(coordinator))
	for f.CoordinatorFor("chronos/0") == coordinator {
		f.RehashCoordinators()
	}
	if err := f.commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// The leader of a partition is frozen, and takes connections. By the time at which it has not answered, another broker
// leads: what was to be appended gets there, within the time of one commit.
func TestLedgerFrozenLeader(t *testing.T) {
	t.Parallel()
	f, coordinator, leader := newFrozenOf(t)
	f.freeze(f.address(leader))
	f.lead(t, 3-coordinator-leader)
	if err := f.commit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Who waits for the leader of a partition goes elsewhere as soon as somebody else has found out that it hangs.
func TestLedgerHangUp(t *testing.T) {
	t.Parallel()
	f, coordinator, leader := newFrozenOf(t)
	f.freeze(f.address(leader))
	f.lead(t, 3-coordinator-leader)
	began, committed := time.Now(), make(chan error, 1)
	go func() { committed <- f.commit(t.Context()) }()
	f.awaitUnheard(t)
	f.l.HangUp(f.address(leader))
	if err := <-committed; err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= frozenAppend {
		t.Errorf("the commit took %v, as if nobody had known", took)
	}
}

// A request that is not answered says nothing of a broker that answers others: it is its connection that is broken.
func TestLedgerStalledConnection(t *testing.T) {
	t.Parallel()
	f, _, leader := newFrozenOf(t)
	if f.l.Stall(f.address(leader)) {
		t.Error("a broker that has just answered is taken for one that hangs")
	}
}

// The coordinator of the consumer group is frozen, and takes connections. A member finds that out by the first
// heartbeat that is not answered, and goes on with whoever coordinates by then: it need not join anew.
func TestSourceFrozenCoordinator(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	f := &freezer{}
	c := configFor(cluster, "group", topic)
	c.Dialer, c.SessionTimeout = f.dial, kafka.DefaultSessionTimeout
	source := openSource(t, c)
	pollFor(t, source, patience, func(batch node.Batch, _ error) bool { return len(batch.Assigned) > 0 })
	coordinator := cluster.CoordinatorFor("group")
	if err := cluster.MoveTopicPartition(topic, 0, (coordinator+1)%3); err != nil {
		t.Fatal(err)
	}
	f.freeze(cluster.ListenAddrs()[coordinator])
	for cluster.CoordinatorFor("group") == coordinator {
		cluster.RehashCoordinators()
	}
	heard := make(chan kmsg.Key, 1)
	for _, key := range []kmsg.Key{kmsg.Heartbeat, kmsg.JoinGroup} {
		cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			select {
			case heard <- key:
			default:
			}
			return nil, nil, false
		})
	}
	pollFor(t, source, patience, func(node.Batch, error) bool { return len(heard) > 0 })
	if key := <-heard; key != kmsg.Heartbeat {
		t.Errorf("the member has sent %v first", key.Name())
	}
}

// What a member asks of a broker may wait before its heartbeats on the same connection. No such request may take longer
// than a heartbeat to find out that the broker is frozen: franz-go adds the time limit of the request to that.
func TestSourceAsksBriefly(t *testing.T) {
	t.Parallel()
	cluster, plain := newFake(t)
	topic := plain.Topic(t, 1)
	limits := make(chan int32, 100)
	cluster.ControlKey(int16(kmsg.ListOffsets), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		select {
		case limits <- request.(*kmsg.ListOffsetsRequest).TimeoutMillis:
		default:
		}
		return nil, nil, false
	})
	source := openSource(t, configFor(cluster, "group", topic))
	pollFor(t, source, patience, func(node.Batch, error) bool { return len(limits) >= 2 })
	for range len(limits) {
		if limit := <-limits; limit != 0 {
			t.Errorf("the offsets of a log were asked for within %d ms", limit)
		}
	}
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
