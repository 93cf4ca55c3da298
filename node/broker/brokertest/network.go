package brokertest

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// Network is the network between one node and the brokers, which a case can break. Its Dial goes into Options.
type Network struct {
	mu    sync.Mutex
	state chan struct{} // closed, and replaced, when mode changes
	mode  networkMode
	conns map[net.Conn]bool
	wg    sync.WaitGroup

	// rate is how many bytes move in a second, in both directions together; 0 if nothing is limited. free is when the
	// next bytes may move.
	rate int
	free time.Time
}

type networkMode int

const (
	whole  networkMode = iota // all is well
	frozen                    // nothing moves, and nobody is told
	broken                    // connections are reset, and new ones refused
	ended
)

// NewNetwork returns a network that is whole, until the test ends.
func NewNetwork(t testing.TB) *Network {
	n := &Network{state: make(chan struct{}), conns: make(map[net.Conn]bool)}
	t.Cleanup(func() {
		n.set(ended)
		n.wg.Wait()
	})
	return n
}

// Freeze has nothing move any more: what is sent is kept, and arrives when the network is healed. Connections can
// still be opened. It is what a process that was stopped by a signal looks like.
func (n *Network) Freeze() { n.set(frozen) }

// Cut breaks all connections and has new ones refused.
func (n *Network) Cut() { n.set(broken) }

// Heal makes the network whole again.
func (n *Network) Heal() { n.set(whole) }

// Limit has so many bytes move in a second from now on.
func (n *Network) Limit(rate int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate = rate
}

// wait returns when so many bytes may have moved.
func (n *Network) wait(bytes int) {
	n.mu.Lock()
	if n.rate == 0 {
		n.mu.Unlock()
		return
	}
	if now := time.Now(); n.free.Before(now) {
		n.free = now
	}
	n.free = n.free.Add(time.Duration(bytes) * time.Second / time.Duration(n.rate))
	timer := time.NewTimer(time.Until(n.free))
	defer timer.Stop()
	n.mu.Unlock()
	<-timer.C
}

func (n *Network) set(mode networkMode) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mode = mode
	close(n.state)
	n.state = make(chan struct{})
	if mode == broken || mode == ended {
		for conn := range n.conns {
			_ = conn.Close()
		}
	}
}

// Dial opens a connection through the network.
func (n *Network) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	mode := n.mode
	n.mu.Unlock()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	near := listener.Addr().String()
	if mode == broken || mode == ended {
		_ = listener.Close() // so that dialing is refused
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", near)
	if err != nil {
		return nil, err
	}
	accepted, err := listener.Accept()
	_ = listener.Close()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	if !n.add(accepted) {
		return conn, nil // which is closed at once
	}
	serving := context.WithoutCancel(ctx) // which is about dialing only
	n.wg.Go(func() { n.serve(serving, accepted, network, address) })
	return conn, nil
}

// add has conn closed with the network, and reports whether that has not happened yet.
func (n *Network) add(conn net.Conn) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mode == broken || n.mode == ended {
		_ = conn.Close()
		return false
	}
	n.conns[conn] = true
	return true
}

func (n *Network) remove(conn net.Conn) {
	_ = conn.Close()
	n.mu.Lock()
	delete(n.conns, conn)
	n.mu.Unlock()
}

// serve joins a connection of the node to one of the broker.
func (n *Network) serve(ctx context.Context, near net.Conn, network, address string) {
	defer n.remove(near)
	if !n.pass() {
		return
	}
	far, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, address)
	if err != nil || !n.add(far) {
		return
	}
	defer n.remove(far)
	var both sync.WaitGroup
	both.Go(func() { n.pump(far, near) })
	both.Go(func() { n.pump(near, far) })
	both.Wait()
}

// pump moves bytes from one connection to another.
func (n *Network) pump(to, from net.Conn) {
	defer func() {
		_ = to.Close()
		_ = from.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		length, err := from.Read(buffer)
		if !n.pass() {
			return
		}
		if length > 0 {
			n.wait(length)
			if _, err := to.Write(buffer[:length]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while the network is frozen, and reports whether it is whole then.
func (n *Network) pass() bool {
	for {
		n.mu.Lock()
		mode, state := n.mode, n.state
		n.mu.Unlock()
		if mode != frozen {
			return mode == whole
		}
		<-state
	}
}
