//go:build ignore

package node

import (
	"math/rand/v2"
	"time"
)

// link is how an operation sees a call to one of its ports: it goes well, or has failed since when.
type link struct {
	node      *Node
	operation Operation
	port      Port
	random    *rand.ChaCha8

	attempts int           // failures in a row
	since    time.Duration // monotonic, of the first of them
}

const (
	// backoffMin is the wait after a first failure.
	backoffMin = 50 * time.Millisecond

	// backoffMax caps the wait after a failure: a port that comes back is noticed that soon.
	backoffMax = time.Second
)

// failed takes note of a failed call and returns how long to wait before another: twice as long each time, up to
// backoffMax, give or take a fifth, so that nodes do not come back all at the same instant.
func (l *link) failed(call string, err error) time.Duration {
	if l.attempts == 0 {
		l.since = l.node.clock.Mono()
	}
	l.attempts++
	l.node.observe(Failed{l.operation, l.port, call, err, l.attempts})
	wait := backoffMax
	if doublings := l.attempts - 1; doublings < 5 {
		wait = min(wait, backoffMin<<doublings)
	}
	return jittered(l.random, wait, 20)
}

// succeeded takes note of a call that went well.
func (l *link) succeeded() {
	if l.attempts == 0 {
		return
	}
	l.node.observe(Resumed{l.operation, l.port, l.attempts, l.outage()})
	l.attempts = 0
}

// outage returns how long the port has been failing.
func (l *link) outage() time.Duration {
	if l.attempts == 0 {
		return 0
	}
	return l.node.clock.Mono() - l.since
}

// jittered returns d give or take up to percent of it.
func jittered(random *rand.ChaCha8, d time.Duration, percent int64) time.Duration {
	spread := int64(d) * percent / 100
	if spread <= 0 {
		return d
	}
	return d + time.Duration(rand.New(random).Int64N(2*spread+1)-spread)
}
