package sim

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// taskPort is the sink of callbacks of one life, behind queue.Sink: what is asked for tasks is on record as that; the
// rest goes to the receivers of others.
type taskPort struct {
	life *life
	rest node.Sink
}

var _ node.Sink = (*taskPort)(nil)

// asking is a request for a task on its way.
type asking struct {
	*call

	life   *life
	record node.Record
	mood   string
	result error
}

// Publish implements node.Sink.
func (p *taskPort) Publish(ctx context.Context, records []node.Record) []error {
	if records[0].Topic != queue.Lane {
		return p.rest.Publish(ctx, records)
	}
	l := p.life
	w := l.host.world
	results := make([]error, len(records))
	for i := range records {
		w.requests++
		a := &asking{call: l.begin(opCall, &l.host.callLink, nil), life: l, record: records[i]}
		random := stream(w.options.Seed, forQueues, w.requests, 1)
		if !w.faultsOver && random.IntN(100) < taskUnhelpful {
			a.mood = pick(random, moodBusy, moodFailed, moodGone)
		}
		if err := a.perform(ctx, w.options.publishTimeout(), a); err != nil {
			a.result = &node.PublishError{Err: err}
		}
		results[i] = a.result
	}
	return results
}

// taskUnhelpful is how many percent of the requests for tasks are not answered as they should be, while faults last.
const taskUnhelpful = 10

// arrive implements served.
func (a *asking) arrive() bool {
	w := a.life.host.world
	if a.mood == moodBusy {
		a.result = &node.PublishError{Err: errBusy}
		return true
	}
	for range 1 + number(a.duplicated) {
		w.recorder.called(a.life, &a.record)
		w.app.clients.called(&a.record)
	}
	switch a.mood {
	case moodFailed:
		a.result = &node.PublishError{Kind: node.RecordRejected, Err: errors.New("410 Gone"), Status: 410}
	case moodGone:
		a.answer = errDisconnected
	}
	return true
}

// called is what a receiver does when it is asked to execute a task: it has it completed, where that is not the
// business of the engine.
func (c *clients) called(r *node.Record) {
	w := c.app.world
	part := valueOf(r.Headers, node.HeaderTaskPart)
	w.digest.text(part)
	id, run := uuid.UUID(uuidIn(r.Headers, node.HeaderTask)), uuid.UUID(uuidIn(r.Headers, node.HeaderTaskRun))
	name, _, _ := strings.Cut(part, "/")
	w.count("task-call-" + name)
	t := w.store.truth.queues.tasks[id]
	if q := w.store.truth.queues.queues[t.Queue]; part != executionPart || q.Kind != queue.Sync {
		return
	}
	random := stream(w.options.Seed, forQueues, int(id[15])|int(id[14])<<8, 2+w.requests)
	c.complete(id, run, w.drawCompleting(random))
}

const executionPart = "execution"
