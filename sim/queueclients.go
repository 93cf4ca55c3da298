package sim

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"chronos/node/queue"
)

// firstClient numbers the clients of queues, among the operators.
const firstClient = 1_000_000

// clients are those who ask things of queues, past Kafka: each is an operator, a process that asks until it is
// answered.
type clients struct {
	app  *application
	asks []asks
	left int // of asks
	next int // the number of the next client
	over int64
}

func newClients(a *application) *clients {
	c := &clients{app: a, asks: a.world.options.queueWork()}
	for i := range c.asks {
		c.left++
		a.world.at(int64(c.asks[i].at), c, uint64(i))
	}
	return c
}

// do has a client ask what comes at that place.
func (c *clients) do(i uint64) {
	c.left--
	c.ask(c.asks[i].command)
}

// ask has a client ask something.
func (c *clients) ask(command queue.Command) {
	c.next++
	c.app.busy++
	o := &operator{app: c.app, submission: &Submission{Number: firstClient + c.next}, command: command}
	o.start()
}

// heal has somebody open all queues for good, a while after the healing.
func (c *clients) heal() {
	w := c.app.world
	if w.options.Queues == 0 {
		return
	}
	c.left++
	w.after(5*time.Second, func() {
		c.left--
		for _, id := range w.store.truth.queues.queueOrder {
			if q := w.store.truth.queues.queues[id]; id != queue.Root && !q.Deleting {
				c.ask(queue.PutQueue{Queue: reopened(q)})
			}
		}
	})
	c.over = w.now + int64(queuesOver)
}

// queuesOver is how long after the healing a world waits for tasks that wait in queues that stay closed: those that are
// being deleted.
const queuesOver = 30 * time.Second

// quiet reports whether nothing happens to tasks any more.
func (c *clients) quiet() bool {
	w := c.app.world
	rows := &w.store.truth.queues
	for _, id := range rows.queueOrder {
		q := rows.queues[id]
		if q.Running > 0 || q.Pending > 0 && w.now < c.over {
			return false
		}
	}
	return c.left == 0
}

// asks has an operator ask something of a queue until it is answered.
func (o *operator) asks(ctx context.Context, random *rand.Rand) {
	w := o.app.world
	clock := nodeClock{o.life}
	for range 2 * tries {
		result, err := (&storePort{o.life}).Apply(ctx, o.command)
		if err == nil {
			switch command := o.command.(type) {
			case queue.PutTask:
				w.recorder.accepted(command.Task.ID)
			case queue.End:
				w.recorder.completed(result.Task)
				if !result.Changed {
					w.count("completed-again")
				}
			default:
			}
			return
		}
		var refusal *queue.Refusal
		if asRefusal(err, &refusal) && refusal.Code == queue.Invalid {
			return
		}
		clock.Sleep(ctx, between(random, 10*time.Millisecond, 2*time.Second))
	}
}

// completing says how a receiver has a task completed: how much later, how often, and with which status.
type completing struct {
	after  time.Duration
	times  int
	failed bool
}

// drawCompleting draws how the run of a task is completed.
func (w *world) drawCompleting(r *rand.Rand) completing {
	c := completing{after: between(r, 0, 300*time.Millisecond), times: 1}
	if w.faultsOver {
		return c
	}
	switch r.IntN(10) {
	case 0:
		c.after = between(r, time.Second, 12*time.Second) // perhaps after its time limit
	case 1:
		c.times = 2
	case 2:
		c.times = 0
	case 3:
		c.failed = true
	case 4:
		c.after = 0
	}
	return c
}

// complete completes the run of a task.
func (c *clients) complete(task, run uuid.UUID, how completing) {
	c.left++
	c.app.world.after(how.after, func() {
		c.left--
		for range how.times {
			c.ask(queue.End{Task: task, Run: run, Failed: how.failed, Reason: reasonOf(how.failed)})
		}
	})
}

func reasonOf(failed bool) string {
	if failed {
		return "the receiver says so"
	}
	return ""
}
