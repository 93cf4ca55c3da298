package main

import (
	"fmt"
	"io"
	"math"
	"time"
)

// progress shows a person at a terminal how far a batch is, on a line that is written over and over.
type progress struct {
	out   io.Writer // nil if nobody looks
	of    uint64    // the largest number if nobody knows
	began time.Time
	last  time.Time
}

// newProgress returns a progress that is shown on a terminal only.
func newProgress(out io.Writer, of uint64) *progress {
	now := time.Now()
	p := &progress{of: of, began: now, last: now}
	if isTerminal(out) {
		p.out = out
	}
	return p
}

// update shows how far it is, a few times a second.
func (p *progress) update(t *total) {
	now := time.Now()
	if p.out == nil || now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = now
	of := ""
	if p.of < math.MaxUint64 {
		of = " of " + thousands(p.of)
	}
	_, _ = fmt.Fprintf(p.out, "\r\x1b[K%s%s seeds, %.0f a second, %s of virtual time, %d broken",
		thousands(t.runs), of, float64(t.runs)/now.Sub(p.began).Seconds(), span(t.virtual), t.brokenCount)
}

// clear takes the line away.
func (p *progress) clear() {
	if p.out != nil {
		_, _ = io.WriteString(p.out, "\r\x1b[K")
	}
}
