package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"chronos/node"
)

// The errors that calls return. Their texts say what the world knows; the engine must not care.
var (
	errTimeout      = errors.New("no reply in time")
	errRefused      = errors.New("refused, nothing happened")
	errDisconnected = errors.New("connection lost")
	errUnfit        = errors.New("the server refuses its own configuration (SQLSTATE 22023)")
	errNoLeader     = errors.New("a partition has no leader")
)

// served is a request at the server that it was sent to.
type served interface {
	// arrive lets the request take effect, and reports whether it is done. What has to wait, for a lock say, sees to it
	// that the call arrives again.
	arrive() bool
}

// servedBy is a served made of a function.
type servedBy func() bool

func (f servedBy) arrive() bool { return f() }

// call is one request on its way: sent, applied, replied. Each of the three can fail on its own, which is all that
// there is to unknown outcomes. The caller is parked meanwhile.
type call struct {
	task *task
	link *link
	op   numberedOp
	nth  int
	turn uint64

	about []int // the submissions that it is about, where somebody observes

	size, answerSize int // the bytes of the messages that it carries there and back

	server served

	deadline int64
	replied  bool // the task knows the outcome: err, and what apply has left to it
	err      error
	answer   error // what the server has answered

	*spoil // what is to go wrong
}

// spoil is what is to go wrong with a call.
type spoil struct {
	lost, unanswered, refused, disconnected bool
	late, slow, locked, pauseSent           time.Duration
	partial                                 int // how many items take effect; -1 for all
	duplicated, rolledBack                  bool
	crash                                   FaultKind
	restart                                 time.Duration
}

// What happens to a call, as the argument that it is queued with.
const (
	callArrives = iota
	callReturns
	callExpires
)

// begin counts a call and lets happen what the plan or chance has for it.
//
// concerns says which submissions the call is about; nil for none.
func (l *life) begin(op numberedOp, link *link, concerns func() []int) *call {
	t := l.enter()
	h := l.host
	w := h.world
	h.calls[op]++
	w.stats.Calls++
	c := &call{task: t, link: link, op: op, nth: h.calls[op], spoil: &w.unspoilt}
	w.digest.number(uint64(h.number)<<40 | uint64(op)<<32 | uint64(c.nth))
	if w.observe != nil && concerns != nil {
		c.about = concerns()
	}
	var about []int
	if concerns != nil && (w.rekey || len(h.planOf[op]) > 0) {
		about = h.counted(op, concerns())
	}
	if w.plan == nil {
		if f, struck := w.drawFault(h, op); struck {
			c.strike(f)
		}
		return c
	}
	for i := 0; i < len(h.planOf[op]); i++ {
		f := h.planOf[op][i]
		if slices.Contains(about, f.Of) && h.callsOf[callOf{op, f.Of}] == f.Nth && !w.faultsOver {
			h.planOf[op] = slices.Delete(h.planOf[op], i, i+1)
			i--
			c.strike(f)
		}
	}
	for len(h.plan[op]) > 0 && h.plan[op][0].Nth <= c.nth {
		f := h.plan[op][0]
		h.plan[op] = h.plan[op][1:]
		if f.Nth == c.nth && !w.faultsOver {
			if w.rekey && len(about) > 0 {
				f.Of = about[0]
				f.Nth = h.callsOf[callOf{op, f.Of}]
			}
			c.strike(f)
		}
	}
	return c
}

// callOf is what calls are counted by, where a plan asks for it: an operation on a submission.
type callOf struct {
	op numberedOp
	of int
}

// counted counts a call for each submission that it is about.
func (h *host) counted(op numberedOp, about []int) []int {
	for _, n := range about {
		h.callsOf[callOf{op, n}]++
	}
	return about
}

// numbersOf returns the submissions that records belong to.
func numbersOf(records []node.Record) []int {
	return mapped(records, func(r node.Record) int { return numberIn(r.Headers) })
}

// perform sends the request and parks the caller until it has the outcome or its time is up.
func (c *call) perform(ctx context.Context, limit time.Duration, server served) error {
	t := c.task
	h := t.life.host
	w := h.world
	c.server = server
	c.deadline = w.now + h.clock.trueFor(limit)
	c.turn = t.parking()
	switch {
	case c.refused:
		c.answer = errRefused
		w.at(w.now+c.link.latency(), c, callReturns)
	case c.lost || w.now < c.link.requestsCut:
		w.at(c.deadline, c, callExpires)
	default:
		w.at(w.now+c.link.latency()+c.link.transfer(c.size)+int64(c.late), c, callArrives)
		if c.late > 0 {
			w.at(c.deadline, c, callExpires)
		}
	}
	if c.crashes(CrashSent) {
		c.crashNow()
		panic(unwound{})
	}
	if c.pauseSent > 0 {
		t.life.pause(c.pauseSent)
	}
	t.until(ctx)
	t.park()
	if c.crashes(CrashReplied) {
		c.crashNow()
		panic(unwound{})
	}
	switch {
	case !c.replied:
		return ctx.Err()
	case c.err != nil:
		return fmt.Errorf("%s: %w", ops()[c.op], c.err)
	}
	return nil
}

// do is what happens to the call at an instant.
func (c *call) do(what uint64) {
	w := c.task.life.host.world
	switch what {
	case callArrives:
		if c.server.arrive() {
			c.answered()
		}
	case callReturns:
		if w.now < c.link.repliesCut {
			w.at(c.deadline, c, callExpires)
			return
		}
		c.finish(c.answer)
	case callExpires:
		c.finish(errTimeout)
	}
}

// again lets the request arrive once more, when what it waits for has ended. Its caller waits no longer than it would.
func (c *call) again(at int64) {
	w := c.task.life.host.world
	if c.deadline <= at {
		w.at(c.deadline, c, callExpires)
	}
	w.at(at, c, callArrives)
}

// answered sends the reply on its way when the request has taken effect.
func (c *call) answered() {
	w := c.task.life.host.world
	if c.crashes(CrashApplied) {
		c.crashNow()
		return
	}
	if c.disconnected || c.partial >= 0 {
		c.answer = errDisconnected
	}
	returns := w.now + c.link.latency() + c.link.transfer(c.answerSize) + int64(c.slow)
	if c.unanswered || returns > c.deadline {
		w.at(c.deadline, c, callExpires)
		return
	}
	w.at(returns, c, callReturns)
}

// finish gives the outcome to the caller, the first one that there is.
func (c *call) finish(err error) {
	if c.replied {
		return
	}
	c.replied, c.err = true, err
	life := c.task.life
	if life.dead {
		return
	}
	w := life.host.world
	if err == nil {
		w.digest.number(1)
	} else {
		w.digest.text(err.Error())
		if w.observe != nil {
			w.step(c.stepOf(StepFailed, err.Error()))
		}
	}
	c.task.do(c.turn)
}

// spoilt returns what is to go wrong, to be added to.
func (c *call) spoilt() *spoil {
	if w := c.task.life.host.world; c.spoil == &w.unspoilt {
		c.spoil = &spoil{partial: -1}
	}
	return c.spoil
}

// stepOf returns a step of the call.
func (c *call) stepOf(kind StepKind, text string) *Step {
	l := c.task.life
	return &Step{
		Kind: kind, Node: l.host.number, Life: l.number, Op: ops()[c.op], Nth: c.nth, Messages: c.about, Text: text,
	}
}

// crashes reports whether its caller crashes at that point. What was to crash at the end of a call that the world's
// healing has met on its way does not: it would be one more fault, after the last one.
//
//	node 4  deletes x; it is to crash when it hears of that. The standby, which has to confirm it, stalls
//	        the world heals, and the standby goes on
//	node 4  claims y, publishes it; hears of x: if it crashed now, y would fire twice in a world that is well
func (c *call) crashes(at FaultKind) bool { return c.crash == at && !c.task.life.host.world.faultsOver }

// crashNow ends the process of the caller, if it still lives.
func (c *call) crashNow() {
	l := c.task.life
	h := l.host
	if l.dead {
		return
	}
	l.crash()
	if l.operator != nil {
		l.operator.ended(c.restart)
		return
	}
	h.startIn(c.restart)
}

// items returns how many of n items take effect.
func (c *call) items(n int) int {
	if c.partial >= 0 {
		return min(c.partial, n)
	}
	return n
}

// mapped applies a function to each element.
func mapped[A, B any](list []A, change func(A) B) []B {
	result := make([]B, len(list))
	for i, a := range list {
		result[i] = change(a)
	}
	return result
}
