package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/sim/check"
)

// What a call to a server takes at the worst on a small and busy machine, when nothing goes wrong. The judge's bounds
// are made of it.
const (
	storeLatency  = 300 * time.Millisecond
	brokerLatency = 500 * time.Millisecond
)

// theMachine begins what the history says of a machine that is too busy.
const theMachine = "the machine is busy"

// machine is how well the machine has kept up, as far as the faults of the schedule let anybody tell.
type machine struct {
	faults int           // of the schedule, that are there now
	calm   time.Time     // when one of them has begun or ended last
	busy   time.Duration // the longest that a server has taken to answer without one
	slow   time.Duration // the longest that it has at all
	told   time.Time     // the last question with a long answer that is in the history
	mended time.Time     // when the schedule was over and everything was whole
	quiet  time.Time     // the same, or later the end of the last long answer
}

// troubled notes that a fault begins, or with -1 that it is over: what servers do meanwhile says nothing about the
// machine.
func (h *history) troubled(faults int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.machine.faults += faults
	h.machine.calm = time.Now()
}

// answered takes note that a server has answered the suite itself. If that took longer than the judge believes, and no
// fault of the schedule explains it, the machine is too busy for its bounds: that is a fault too, since the moment of
// the question.
func (h *history) answered(server string, asked time.Time, usual time.Duration) {
	took := time.Since(asked)
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.machine
	m.slow = max(m.slow, took)
	if took <= usual || m.faults > 0 || asked.Before(m.calm) {
		return
	}
	m.busy, m.quiet = max(m.busy, took), time.Now()
	if asked.Sub(m.told) < time.Second {
		return // who asks often need not be told each time
	}
	m.told = asked
	h.events = append(h.events, check.Event{
		Kind: check.Fault, At: asked.Sub(h.since),
		Text: fmt.Sprintf(theMachine+": %s answers after %v", server, took.Round(time.Millisecond)),
	})
}

// heal notes that the schedule is over and everything is whole. The world has healed then, or later, when the machine
// is not too busy any more: nothing goes wrong from that time on.
func (h *history) heal() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.machine.mended = time.Now()
	h.machine.quiet = h.machine.mended
}

// unhealed reports whether the schedule is not over.
func (h *history) unhealed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine.mended.IsZero()
}

// healed returns since when nothing goes wrong.
func (h *history) healed() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine.quiet
}

// slowest returns the longest that a server has taken to answer without a fault, if that was longer than usual.
func (h *history) slowest() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine.busy
}

// slowestOfAll returns the longest time that a server has taken to answer, whatever faults there were: for scenarios
// whose faults do not concern servers.
func (h *history) slowestOfAll() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machine.slow
}

// ask makes Postgres commit something again and again. The submitter does the same with Kafka.
func (h *history) ask(ctx context.Context, c *cluster) {
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	var conn *pgx.Conn
	for {
		var err error
		if conn == nil || conn.IsClosed() {
			conn, err = c.postgres.now().Connect(ctx)
		}
		if err == nil {
			asked := time.Now()
			_, err = conn.Exec(ctx, "SELECT pg_logical_emit_message(true, 'probe', '')")
			if err == nil {
				h.answered("Postgres", asked, storeLatency)
			}
		}
		select {
		case <-ctx.Done():
			if conn != nil {
				_ = conn.Close(context.WithoutCancel(ctx)) // it may have been ended by a fault
			}
			return
		case <-again.C:
		}
	}
}
