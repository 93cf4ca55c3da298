package kafka

import (
	"context"
	"sync"
	"time"
)

// window bounds the bytes that one Publish gives to its clients at a time. Over a connection that carries 2 MB/s, 6 MB
// do not arrive within two seconds, today or tomorrow, however often they are tried. So the window halves when a
// publish runs into its time limit, and doubles when one is over soon.
type window struct {
	mu    sync.Mutex
	bytes int // 0 if nothing is bounded
}

const (
	// minWindow is the least that a window shrinks to. A record that alone is larger is sent all the same.
	minWindow = 64 << 10

	// maxWindow is where a window that grows ends.
	maxWindow = 64 << 20
)

// cut returns as many of the indexes as may be given to a client at a time, one at least, and their size.
func (w *window) cut(p *publication, indexes []int) (cut []int, bytes int) {
	w.mu.Lock()
	limit := w.bytes
	w.mu.Unlock()
	for n, i := range indexes {
		size := wireSize(&p.records[i])
		if n == maxAttempt || n > 0 && limit > 0 && bytes+size > limit {
			return indexes[:n], bytes
		}
		bytes += size
	}
	return indexes, bytes
}

// shrink takes note that so many bytes have run into the time limit.
func (w *window) shrink(attempt int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	smaller := max(attempt/2, minWindow)
	if w.bytes == 0 || smaller < w.bytes {
		w.bytes = smaller
	}
}

// grow takes note that so many bytes have got through, and whether that was soon.
func (w *window) grow(bytes int, soon bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes == 0 || !soon || bytes < w.bytes/2 {
		return
	}
	if w.bytes *= 2; w.bytes > maxWindow {
		w.bytes = 0
	}
}

// pace is how fast one Publish gets on: with bytes, or with partitions that are not proven.
type pace struct {
	amount int
	took   time.Duration
}

func (p *pace) note(amount int, took time.Duration) {
	p.amount += amount
	p.took += took
}

// tooSlow reports whether so much more will probably run into the time limit of ctx. What is not begun is known
// not to be sent, which is better than not to know.
func (p *pace) tooSlow(ctx context.Context, amount int) bool {
	deadline, limited := ctx.Deadline()
	if p.amount == 0 || !limited {
		return false
	}
	expected := time.Duration(float64(p.took) * float64(amount) / float64(p.amount))
	return time.Until(deadline) < expected+expected/4
}
