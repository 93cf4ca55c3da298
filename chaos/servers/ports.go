package servers

import (
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
)

// ports are the ports of 127.0.0.1 that one set of servers uses: a block of a hundred, below those that the kernel
// gives out by itself. The first one is listened on as long as the block is in use, so that another set on this machine
// takes another block: all ports of a cluster are chosen long before anybody listens on them.
type ports struct {
	lease net.Listener
	next  int
	end   int
}

// leasePorts finds a block. It begins to look at a place of the operating system's randomness.
func leasePorts() (*ports, error) {
	const first, size, blocks = 10_000, 100, 220
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	start := mathrand.New(mathrand.NewChaCha8(seed)).IntN(blocks)
	for i := range blocks {
		base := first + size*((start+i)%blocks)
		l, err := net.Listen("tcp", Local(base)) //nolint:noctx // it is there at once, or not at all
		if err == nil {
			return &ports{l, base + 1, base + size}, nil
		}
	}
	return nil, errors.New("find free ports: there are none from 10,000 to 32,000")
}

// take returns a port on which nobody listens.
func (p *ports) take() (int, error) {
	for ; p.next < p.end; p.next++ {
		l, err := net.Listen("tcp", Local(p.next)) //nolint:noctx // it is closed at once
		if err != nil {
			continue
		}
		_ = l.Close() // it was only a look
		p.next++
		return p.next - 1, nil
	}
	return 0, errors.New("find free ports: a hundred are not enough")
}

// close gives the block back.
func (p *ports) close() { _ = p.lease.Close() } // nobody has ever connected

// Local is the address of a port of this machine.
func Local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
