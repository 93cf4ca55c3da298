package postgres_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// relay is a network between a store and the server, with faults.
type relay struct {
	t      testing.TB
	server string // host:port

	mu       sync.Mutex
	changed  *sync.Cond
	listener net.Listener
	links    []*link
	up, down bool          // whether bytes to the server, and from it, are held
	far      time.Duration // how long bytes from the server are on their way
	running  sync.WaitGroup
}

// link is a connection through a relay.
type link struct {
	client, server net.Conn

	silent bool // bytes disappear
}

// cut ends the connection on both sides.
func (l *link) cut() {
	hangUp(l.client)
	hangUp(l.server)
}

// hangUp closes what may be closed already.
func hangUp(c io.Closer) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		panic(err)
	}
}

// newRelay starts a relay to the server at address, and returns it with the address through it.
func newRelay(t testing.TB, address string) (*relay, string) {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port := at.Port()
	if port == "" {
		port = "5432"
	}
	r := &relay{t: t, server: net.JoinHostPort(at.Hostname(), port)}
	r.changed = sync.NewCond(&r.mu)
	r.listen("127.0.0.1:0")
	t.Cleanup(func() {
		r.hold(false, false)
		r.stop()
		r.running.Wait()
	})
	at.Host = r.listener.Addr().String()
	return r, at.String()
}

func (r *relay) listen(address string) {
	r.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(r.t.Context(), "tcp", address)
	if err != nil {
		r.t.Fatal(err)
	}
	r.listener = listener
	r.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", r.server)
			if err != nil {
				hangUp(client)
				continue
			}
			l := &link{client: client, server: server}
			r.mu.Lock()
			r.links = append(r.links, l)
			r.mu.Unlock()
			r.running.Go(func() { r.copy(l, server, client, &r.up) })
			r.running.Go(func() { r.copy(l, client, server, &r.down) })
		}
	})
}

// copy moves bytes one way. It reads no more than it has passed on, so that a held sender fills up.
func (r *relay) copy(l *link, to, from net.Conn, held *bool) {
	defer l.cut()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		r.mu.Lock()
		for *held {
			r.changed.Wait()
		}
		silent, far := l.silent, r.far
		r.mu.Unlock()
		if held == &r.down && far > 0 {
			<-time.After(far)
		}
		if n > 0 && !silent {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// stop makes the server absent: nobody listens, and the links are cut.
func (r *relay) stop() {
	hangUp(r.listener)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.cut()
	}
	r.links = nil
}

// start makes it present again, at the same address.
func (r *relay) start() {
	r.t.Helper()
	r.listen(r.listener.Addr().String())
}

// hold keeps bytes to the server and from it until they are let go.
func (r *relay) hold(up, down bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up, r.down = up, down
	r.changed.Broadcast()
}

// moveAway makes the server far away.
func (r *relay) moveAway(far time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.far = far
}

// silence makes bytes disappear on the links that there are, as when the host at the other end is gone. New links
// work.
func (r *relay) silence() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.links {
		l.silent = true
	}
}
