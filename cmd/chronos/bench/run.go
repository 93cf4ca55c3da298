package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Service is a delay service, as a run sees it.
type Service interface {
	// Begin is called before the first message of a run.
	Begin(ctx context.Context) error

	// Submit sends a message, and has done called once when it was acknowledged, or was not. It may block while too
	// much is under way.
	Submit(ctx context.Context, m *Submission, done func(error))

	// Flush waits until all that was submitted is answered.
	Flush(ctx context.Context) error

	// Receive returns what has come out since, and waits until something has. When ctx ends it returns nothing.
	Receive(ctx context.Context) ([]Arrival, error)

	// Taken returns how many submissions the service has taken in since the run began; -1 if nobody knows.
	Taken(ctx context.Context) (int64, error)

	// Clocks returns how the clocks of the brokers differ from that of this machine, as far as that is known. It is
	// called once, at the end.
	Clocks(ctx context.Context) ([]Clock, error)
}

// Clock says that a broker's clock is ahead of this machine's by Low to High, in milliseconds. Behind is negative.
type Clock struct {
	Broker string `json:"broker"`
	Low    Millis `json:"low_ms"`
	High   Millis `json:"high_ms"`
}

// Options are how a run is watched.
type Options struct {
	Meter Meter          // nil for none
	Tell  func(Progress) // called each second; nil for nobody

	// Patience is how long after the last message is due what is missing may still come.
	Patience time.Duration

	// Limit ends the run, whatever it has come to.
	Limit time.Duration

	// Fill says that what comes out does not matter: the run ends when all is acknowledged and, where that is known,
	// taken in.
	Fill bool
}

// Quiet is how long a run waits for duplicates when all has come.
const Quiet = time.Second

// errOver ends a run that took too long.
var errOver = errors.New("the limit of the run")

// Run puts a load on a service and measures what comes of it. When ctx ends, the result is of what was until then.
func Run(ctx context.Context, load *Load, service Service, o Options) (*Result, error) {
	if err := load.Validate(); err != nil {
		return nil, err
	}
	if err := service.Begin(ctx); err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeoutCause(ctx, o.Limit, errOver)
	defer cancel()
	r := &runner{
		Options: o, service: service, ledger: newLedger(NewPlan(load, time.Now())), usage: &usage{meter: o.Meter},
		sent: make(chan struct{}),
	}
	working, stop := context.WithCancelCause(limited)
	defer stop(nil)
	var loops sync.WaitGroup
	for _, loop := range []func(context.Context) error{r.send, r.receive, r.watch} {
		loops.Go(func() {
			if err := loop(working); err != nil {
				stop(err)
			}
		})
	}
	r.follow(working)
	var missed end
	failed := context.Cause(working)
	stop(nil)
	loops.Wait()
	switch {
	case ctx.Err() != nil:
		missed.interrupted = true
	case errors.Is(failed, errOver):
		missed.limited = true
	case failed != nil:
		return nil, failed
	}
	clocks, err := service.Clocks(context.WithoutCancel(ctx))
	if err != nil {
		missed.clocks = err
	}
	return r.result(load, clocks, missed), nil
}

// runner is a run.
type runner struct {
	Options

	service Service
	ledger  *ledger
	usage   *usage
	intake  intake
	sent    chan struct{} // closed when all is sent and answered
}

// end is how a run came to its end.
type end struct {
	interrupted, limited bool
	clocks               error
}

// finest is the shortest time that the sender sleeps: what falls due in it is sent together.
const finest = time.Millisecond

// send sends each message at its time, or as soon after it as it can.
func (r *runner) send(ctx context.Context) error {
	plan := r.ledger.plan.Clone()
	for i := range plan.Messages() {
		if wait := time.Until(plan.start.Add(plan.SendAt(i))); wait > 0 && !sleep(ctx, max(wait, finest)) {
			break
		}
		if ctx.Err() != nil {
			break
		}
		m := plan.Message(i)
		r.submit(ctx, &m, false)
		if plan.Twice(i) {
			r.submit(ctx, &m, true)
		}
	}
	if err := r.service.Flush(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("wait for Kafka's answers: %w", err)
	}
	close(r.sent)
	return nil
}

func (r *runner) submit(ctx context.Context, m *Submission, again bool) {
	number, at := m.Number, time.Now()
	r.ledger.submit(number, at, again)
	r.service.Submit(ctx, m, func(err error) { r.ledger.answer(number, at, time.Now(), err) })
}

// receive notes what comes out.
func (r *runner) receive(ctx context.Context) error {
	for ctx.Err() == nil {
		arrivals, err := r.service.Receive(ctx)
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("receive what comes out: %w", err)
		}
		r.ledger.arrive(arrivals)
	}
	return nil
}

// watch looks ten times a second how much the service has taken in.
func (r *runner) watch(ctx context.Context) error {
	for sleep(ctx, 100*time.Millisecond) {
		taken, err := r.service.Taken(ctx)
		if ctx.Err() == nil {
			r.intake.note(time.Now(), taken, err)
		}
	}
	return nil
}

// follow tells each second how far the run is, and looks more often than that whether it is over.
func (r *runner) follow(ctx context.Context) {
	r.tell(time.Now(), true)
	told := time.Now()
	sent := r.sent
	var quiet, tooLate time.Time // when to end, if all has come and if it has not
	for allSent := false; ; {
		ended := !sleep(ctx, 100*time.Millisecond)
		select {
		case <-sent:
			allSent, sent = true, nil
			// What was late to be sent may be late to come.
			tooLate = latest(r.ledger.plan.Last(), time.Now()).Add(r.Patience)
		default:
		}
		now := time.Now()
		if quiet.IsZero() && allSent && r.ledger.complete() {
			quiet = now.Add(Quiet)
		}
		taken := r.intake.last()
		filled := r.Fill && allSent && (taken < 0 || taken >= int64(r.ledger.submissions()))
		over := ended || filled || !quiet.IsZero() && !now.Before(quiet) || allSent && now.After(tooLate)
		if over || now.Sub(told) >= time.Second {
			r.tell(now, false)
			told = now
		}
		if over {
			return
		}
	}
}

// tell closes a second and says how far the run is; first only takes the first reading.
func (r *runner) tell(now time.Time, first bool) {
	use := r.usage.read(now)
	if first {
		return
	}
	progress := r.ledger.progress(now, r.intake.last(), use)
	if r.Tell != nil {
		r.Tell(progress)
	}
}

// submissions returns how many records were acknowledged, as far as the service can take them in.
func (l *ledger) submissions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent + l.repeats - l.refused
}

// sleep waits for some time, and reports whether it has passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// intake is how the service took in what was submitted.
type intake struct {
	mu              sync.Mutex
	known           bool
	begun, ended    time.Time // when it was first seen to have taken something in, and when the last
	first, lastSeen int64
	failed          error // of the latest look
}

func (n *intake) note(at time.Time, taken int64, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = err
	if taken < 0 || err != nil {
		return
	}
	n.known = true
	if taken > 0 && n.begun.IsZero() {
		n.begun, n.first = at, taken
	}
	if taken > n.lastSeen {
		n.ended, n.lastSeen = at, taken
	}
}

// last returns how many were taken in; -1 if nobody knows.
func (n *intake) last() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known {
		return -1
	}
	return n.lastSeen
}
