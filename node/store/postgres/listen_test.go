package postgres_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/postgres"
)

// ear is a store that listens.
type ear struct {
	t     testing.TB
	store *postgres.Store
	heard chan struct{} // has an element for each call, up to its size
}

// listen has a store at address listen until the test ends.
func listen(t testing.TB, address string, options postgres.Options) *ear {
	t.Helper()
	e := &ear{t: t, store: open(t, address, options), heard: make(chan struct{}, 10_000)}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { e.store.Listen(ctx, func() { e.heard <- struct{}{} }) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return e
}

// until waits until it hears, or does not any more.
func (e *ear) until(hears bool) {
	e.t.Helper()
	for end := time.Now().Add(patience); e.store.Hears() != hears; {
		if time.Now().After(end) {
			e.t.Fatalf("after %v it is not so that Hears is %v", patience, hears)
		}
		<-time.After(time.Millisecond)
	}
}

// hears waits until something is heard, and then for what comes at the same time.
func (e *ear) hears() (times int) {
	e.t.Helper()
	select {
	case <-e.heard:
	case <-time.After(patience):
		e.t.Fatal("nothing was heard")
	}
	for {
		times++
		select {
		case <-e.heard:
		case <-time.After(300 * time.Millisecond):
			return times
		}
	}
}

// past returns an item that an operator gives to the store, past Kafka.
func past(action node.Action, id string, in time.Duration) node.Item {
	return node.Item{From: node.NoPlace, Action: action, Message: node.Message{
		ID: id, Lane: "output", Incarnation: uuid.New(), Deadline: time.Now().Add(in).UTC().Truncate(time.Microsecond),
	}}
}

func give(t testing.TB, s *postgres.Store, items ...node.Item) {
	t.Helper()
	if _, err := s.Take(t.Context(), node.TakeRequest{Items: items}); err != nil {
		t.Fatal(err)
	}
}

// What somebody stores past Kafka, due soon, a store hears that listens, if it has the same tables: also of one that
// comes through a pooler, and of a process that ends right after it. What comes from Kafka, and what is due in an hour,
// nobody is told of.
func TestListen(t *testing.T) {
	t.Parallel()
	database := newDatabase(t)
	address := newSchema(t, database)
	e := listen(t, address, postgres.Options{})
	e.until(true)
	elsewhere := listen(t, newSchema(t, database), postgres.Options{})
	elsewhere.until(true)
	for _, pooled := range []bool{false, true} {
		peer := open(t, address, postgres.Options{PgBouncer: pooled})
		give(t, peer, past(node.Schedule, "x", 300*time.Millisecond))
		peer.Close()
		e.hears()
	}
	peer := open(t, address, postgres.Options{})
	give(t, peer, past(node.Schedule, "far", time.Hour))
	insert(t, peer, messages(10), false)
	peer.Close()
	if n := len(e.heard); n != 0 {
		t.Errorf("heard %d times of what nobody need hear of", n)
	}
	peer = open(t, address, postgres.Options{})
	give(t, peer, past(node.FireNow, "far", 0))
	peer.Close()
	e.hears()
	if n := len(elsewhere.heard); n != 0 {
		t.Errorf("heard %d times of what was stored in another schema", n)
	}
}

// Whoever stores much tells of it twenty times a second at most, and the last time after the last one.
func TestTellsSeldom(t *testing.T) {
	t.Parallel()
	address := newSchema(t, newDatabase(t))
	e := listen(t, address, postgres.Options{})
	e.until(true)
	peer := open(t, address, postgres.Options{})
	began := time.Now()
	var last atomic.Int64
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			for range 100 {
				give(t, peer, past(node.Schedule, uuid.NewString(), 0))
			}
			last.Store(time.Now().UnixNano())
		})
	}
	running.Wait()
	stored := time.Now()
	heard, after := 0, false
	for !after || time.Since(stored) < 300*time.Millisecond {
		select {
		case <-e.heard:
			heard++
			after = true
		case <-time.After(300 * time.Millisecond):
			if !after {
				t.Fatal("nothing was heard after the last one")
			}
		}
	}
	if most := int(time.Since(began)/(50*time.Millisecond)) + 2; heard > most {
		t.Errorf("heard %d times, want %d at most", heard, most)
	}
}

// A store says that it hears only while it does: not behind a pooler that takes LISTEN and returns no notification, be
// it from the start or from some moment on, and not while the server is away. When it has lost its hearing, that is
// said, so that whoever rests looks. It tries again.
func TestHears(t *testing.T) {
	t.Parallel()
	pooler, address := newPooler(t, newSchema(t, newDatabase(t)))
	short := postgres.Options{Timeout: 2 * time.Second, ApplicationName: "ear"}
	pooler.deaf.Store(true)
	e := listen(t, address, short)
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); <-time.After(time.Millisecond) {
		if e.store.Hears() {
			t.Fatal("it hears, it says, though nothing comes through")
		}
	}
	tries := open(t, address, short)
	if err := tries.TryHearing(t.Context()); err == nil {
		t.Error("it has heard itself, it says, though nothing comes through")
	}
	pooler.deaf.Store(false)
	if err := tries.TryHearing(t.Context()); err != nil {
		t.Error(err)
	}
	e.until(true)
	for len(e.heard) > 0 {
		<-e.heard
	}
	pooler.deaf.Store(true) // until the next proof
	e.until(false)
	e.hears()
	pooler.deaf.Store(false)
	e.until(true)
	pooler.cut()
	e.until(false)
	e.hears()
	e.until(true)
}

// Behind a pooler of which it was told it does not even try.
func TestListenBehindPooler(t *testing.T) {
	s := open(t, "postgres://chronos@127.0.0.1:1/chronos", postgres.Options{PgBouncer: true})
	s.Listen(t.Context(), func() { t.Error("heard something") })
	if s.Hears() {
		t.Error("it hears, it says")
	}
}

// pooler passes on what a client and a server say, except, while it is deaf, notifications of the server. So does one
// that gives a client another server for each transaction.
type pooler struct {
	deaf atomic.Bool

	mu    sync.Mutex
	links []net.Conn
}

// newPooler starts a pooler before the server at address, and returns it with the address through it.
func newPooler(t *testing.T, address string) (*pooler, string) {
	t.Helper()
	at, err := url.Parse(with(t, address, "sslmode", "disable"))
	if err != nil {
		t.Fatal(err)
	}
	server := at.Host
	if at.Port() == "" {
		server = net.JoinHostPort(at.Hostname(), "5432")
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &pooler{}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", server)
			if err != nil {
				hangUp(client)
				continue
			}
			p.mu.Lock()
			p.links = append(p.links, client, behind)
			p.mu.Unlock()
			running.Go(func() {
				_, _ = io.Copy(behind, client) // until one of them is cut
				hangUp(behind)
			})
			running.Go(func() {
				p.answers(client, behind)
				hangUp(client)
			})
		}
	})
	t.Cleanup(func() {
		hangUp(listener)
		p.cut()
		running.Wait()
	})
	at.Host = listener.Addr().String()
	return p, at.String()
}

// answers passes messages of the server on: a byte that says what it is, and the length of itself and the rest.
func (p *pooler) answers(client io.Writer, server io.Reader) {
	from := bufio.NewReader(server)
	for {
		var head [5]byte
		if _, err := io.ReadFull(from, head[:]); err != nil {
			return
		}
		message := append(head[:], make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
		if _, err := io.ReadFull(from, message[5:]); err != nil {
			return
		}
		if head[0] == 'A' && p.deaf.Load() {
			continue
		}
		if _, err := client.Write(message); err != nil {
			return
		}
	}
}

// cut ends all connections.
func (p *pooler) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, link := range p.links {
		hangUp(link)
	}
	p.links = nil
}

// BenchmarkTell measures what telling costs whoever stores one message after another past Kafka, in four sessions at
// once: takes of what is due at once, which others are told of, and of what is due in an hour, which they are not.
func BenchmarkTell(b *testing.B) {
	for _, in := range []time.Duration{0, time.Hour} {
		b.Run("in="+in.String(), func(b *testing.B) {
			address := newSchema(b, newDatabase(b))
			s := open(b, address, postgres.Options{})
			e := listen(b, address, postgres.Options{})
			e.until(true)
			b.SetParallelism(2)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					give(b, s, past(node.Schedule, uuid.NewString(), in))
				}
			})
		})
	}
}

// What is stored right after a notification has gone out is told by another one.
func TestTellsOfAll(t *testing.T) {
	t.Parallel()
	address := newSchema(t, newDatabase(t))
	e := listen(t, address, postgres.Options{})
	e.until(true)
	peer := open(t, address, postgres.Options{})
	for range 10 {
		for range 2 { // the second one while the first is waited for
			give(t, peer, past(node.Schedule, uuid.NewString(), 0))
			select {
			case <-e.heard:
			case <-time.After(patience):
				t.Fatal("nothing was heard")
			}
		}
	}
}

// Who gives a claim back on what is due soon tells of it: he may stand back from the lane, and those who rest know of
// nothing that is due.
func TestTellsOfReleases(t *testing.T) {
	t.Parallel()
	address := newSchema(t, newDatabase(t))
	e := listen(t, address, postgres.Options{})
	e.until(true)
	peer := open(t, address, postgres.Options{})
	insert(t, peer, messages(1), false)
	for _, again := range []time.Duration{0, time.Second, time.Hour} {
		claimed, err := peer.Claim(t.Context(), node.ClaimRequest{
			Node: uuid.New(), Hold: time.Minute, Until: time.Now().Add(time.Hour),
			Lanes: []node.Share{{Lane: messages(1)[0].Lane, Limit: 1, Bytes: 1000}},
		})
		if err != nil || len(claimed.Messages) != 1 {
			t.Fatalf("claimed %d, %v", len(claimed.Messages), err)
		}
		release := node.Release{Claim: claimed.Messages[0].Claim}
		if again > 0 {
			release.Due = time.Now().Add(again)
		}
		if reset, err := peer.Reset(t.Context(), []node.Release{release}); err != nil || reset[0] != node.Freed {
			t.Fatalf("given back: %v, %v", reset, err)
		}
		if again < time.Hour {
			e.hears()
		}
	}
	peer.Close() // which tells what is to be told
	if n := len(e.heard); n != 0 {
		t.Errorf("heard %d times of what is due in an hour", n)
	}
}

// What a transaction of queues makes due is told of also when nobody knows whether it was committed, since it may have
// been. Goal: with an answer that does not come, somebody hears.
func TestTellsOfQueuesUnknown(t *testing.T) {
	t.Parallel()
	direct := newSchema(t, newDatabase(t))
	network, address := newRelay(t, direct)
	e := listen(t, direct, postgres.Options{})
	e.until(true)
	s := open(t, address, postgres.Options{Timeout: limit})
	_, err := s.Transact(t.Context(), func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		if _, err := tx.Takes(ctx); err != nil {
			return queue.Result{}, err
		}
		m := past(node.Schedule, "x", 0).Message
		err := tx.Insert(ctx, []node.Message{m})
		network.hold(false, true)
		return queue.Result{}, err
	})
	if err == nil {
		t.Fatal("nothing was answered, and that is no error")
	}
	network.hold(false, false)
	e.hears()
}

// A notification that fails is sent again. Method: the connection that it goes through first is dead, and neither end
// knows.
func TestTellsAgain(t *testing.T) {
	t.Parallel()
	direct := newSchema(t, newDatabase(t))
	network, address := newRelay(t, direct)
	e := listen(t, direct, postgres.Options{})
	e.until(true)
	s := open(t, address, postgres.Options{Timeout: limit})
	give(t, s, past(node.Schedule, "far", time.Hour))
	network.silence()
	postgres.Tell(s)
	e.hears()
}
