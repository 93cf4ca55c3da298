package node

import (
	"math/bits"
	"math/rand/v2"
	"sync"
	"time"
)

// link counts a loop's consecutive failures on a port, or on a lane of it, and times the outage.
type link struct {
	core      *core
	operation Operation
	port      Port
	lane      string // empty for the port as a whole
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
		l.since = l.core.clock.Mono()
	}
	l.attempts++
	l.core.observe(Failed{l.operation, l.port, l.lane, call, err, l.attempts})
	return backoff(l.attempts, backoffMax, l.random)
}

// backoff returns how long to wait after so many failures in a row, at least one: backoffMin, and twice as long each
// time, up to most, give or take a fifth.
func backoff(failures int, most time.Duration, random *rand.ChaCha8) time.Duration {
	const doublings = 10 // beyond which it is most anyway
	return jittered(random, min(most, backoffMin<<min(failures-1, doublings)), 20)
}

// succeeded takes note of a call that went well.
func (l *link) succeeded() {
	if l.attempts == 0 {
		return
	}
	l.core.observe(Resumed{l.operation, l.port, l.lane, l.attempts, l.outage()})
	l.attempts = 0
}

// outage returns how long the port has been failing.
func (l *link) outage() time.Duration {
	if l.attempts == 0 {
		return 0
	}
	return l.core.clock.Mono() - l.since
}

// jittered returns d give or take up to percent of it.
func jittered(random *rand.ChaCha8, d time.Duration, percent int64) time.Duration {
	spread := int64(d) * percent / 100
	if spread <= 0 {
		return d
	}
	return d + time.Duration(rand.New(random).Int64N(2*spread+1)-spread)
}

// ration bounds the calls of one kind in messages and bytes. A call that runs into its time limit may have been too
// large for the way to its port: over 2 MB/s, eight megabytes never arrive within 1.5 s, however often they are sent.
// So the next one is half as large, down to a single message, and one that goes well lets them grow again, if it was
// large enough to prove something. Otherwise the looks that find nothing, of which there are many while claims of
// unknown outcome run into their expiry, would let the next one be as large as the one that never arrived.
type ration struct {
	// limit is the time limit of a call, and most how many messages it has at most.
	limit time.Duration
	most  int

	mu     sync.Mutex
	halved int // how often: the bounds are those of a batch, shifted by it
}

// get returns the bounds of the next call, each at least 1.
func (r *ration) get() (messages, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(1, r.most>>r.halved), batchBytes >> r.halved
}

// took takes note of how long a call took, whether it went well, and what it moved then.
func (r *ration) took(took time.Duration, well bool, messages, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case well:
		if 2*messages >= max(1, r.most>>r.halved) || 2*bytes >= batchBytes>>r.halved {
			r.halved = max(0, r.halved-1)
		}
	case took >= r.limit*3/4:
		r.halve()
	}
}

// tooMuch takes note that a call has moved so many messages and bytes, and that this took so long that there was no
// time left for what comes after it. The next one moves half of it.
func (r *ration) tooMuch(messages, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.most>>r.halved > max(1, messages/2) && batchBytes>>r.halved > bytes/2 {
		r.halve()
	}
}

// halve has the next call be half as large, down to one message. The caller holds mu.
func (r *ration) halve() { r.halved = min(bits.Len(uint(r.most)), r.halved+1) }
