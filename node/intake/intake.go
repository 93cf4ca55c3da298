// Package intake gives instructions that come one by one, past Kafka, to the store: those that come at the same time in
// one transaction. The HTTP listeners for applications share it (packages api and metaswitch).
package intake

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"chronos/node"
	"chronos/node/control"
)

const (
	// maxTakes is how many transactions of requests one node has at the same time. The engine of the node uses the same
	// connections, and comes first.
	maxTakes = 3

	// maxBatch and maxBatchBytes bound one of them.
	maxBatch      = 100
	maxBatchBytes = 4 << 20

	// maxQueue is how many requests wait for their transaction. More are told to come again.
	maxQueue = 2000

	// takeTries is how often a transaction is tried whose outcome is not known. That is safe: the requests have ids.
	takeTries = 3

	// takeWait is the time before the second try, and doubles.
	takeWait = 100 * time.Millisecond
)

// ErrBusy says that too many requests wait already. Nothing was done.
var ErrBusy = errors.New("this node has as many requests under way as it can take: try again in a second")

// Intake gives instructions to a store, those that come at the same time in one transaction. Whoever comes while few
// transactions are under way makes one of all that wait (it leads); whoever comes later waits, to be told the result by
// another leader or to be the next one.
type Intake struct {
	Store control.Taker

	mu     sync.Mutex
	queue  []*asking
	leader int // how many lead
}

// asking is one request on its way.
type asking struct {
	item   node.Item
	leads  chan struct{} // closed when it is to lead
	done   chan struct{} // closed when it is answered
	result node.ItemResult
	err    error
}

// Ask gives an instruction that has a request to the store, and returns what became of it. The error is a
// *control.ClosedError, a *control.RefusedError, a *control.BusyError or ErrBusy, and nothing has happened; after any
// other one nobody knows. It takes a few store timeouts at most, whether the client waits or not.
func (i *Intake) Ask(ctx context.Context, item node.Item) (node.ItemResult, error) {
	if reason := item.Refusal(); reason != "" {
		return node.ItemResult{}, &control.RefusedError{ID: item.ID, Reason: reason}
	}
	a, err := i.enter(item)
	if err != nil {
		return node.ItemResult{}, err
	}
	select {
	case <-a.done:
	case <-a.leads:
		i.lead(context.WithoutCancel(ctx), a)
	}
	<-a.done // it was in one of these transactions, or in one that another leader has made
	select {
	case <-a.leads:
		i.pass()
	default: // nobody asks it to lead any more: it is not in the queue
	}
	return a.result, a.err
}

// enter puts a request in the queue, and has it lead while few others do.
func (i *Intake) enter(item node.Item) (*asking, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.queue) >= maxQueue {
		return nil, ErrBusy
	}
	a := &asking{item: item, leads: make(chan struct{}), done: make(chan struct{})}
	i.queue = append(i.queue, a)
	if i.leader < maxTakes {
		i.leader++
		close(a.leads)
	}
	return a, nil
}

// lead makes transactions of those that wait, until a is not among them. One may have no room for a, and nobody else
// need come:
//
//	A and B ask, and both lead; one transaction has no room for both
//	B makes one of A, who came first
//	                                  A is answered before it has seen that it leads, and there is nobody to pass that
//	                                  on to: B, who waits, leads already
//	B waits until somebody else asks
func (i *Intake) lead(ctx context.Context, a *asking) {
	for waits := true; waits; waits = i.waits(a) {
		i.take(ctx, i.next())
	}
}

// waits reports whether a request is in the queue.
func (i *Intake) waits(a *asking) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Contains(i.queue, a)
}

// next returns what goes into the next transaction.
func (i *Intake) next() []*asking {
	i.mu.Lock()
	defer i.mu.Unlock()
	n, size := 0, 0
	for n < len(i.queue) && n < maxBatch && (n == 0 || size+i.queue[n].item.Size() <= maxBatchBytes) {
		size += i.queue[n].item.Size()
		n++
	}
	batch := slices.Clone(i.queue[:n])
	i.queue = slices.Delete(i.queue, 0, n)
	return batch
}

// pass has the next one lead that waits; if nobody does, there is a leader less.
func (i *Intake) pass() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, a := range i.queue {
		select {
		case <-a.leads:
		default:
			close(a.leads)
			return
		}
	}
	i.leader--
}

// take makes transactions until all of a batch are answered. There is more than one where the store refuses a message
// for good: what stood behind it has not been looked at.
func (i *Intake) take(ctx context.Context, batch []*asking) {
	for len(batch) > 0 {
		items := make([]node.Item, len(batch))
		for at, a := range batch {
			items[at] = a.item
		}
		result, err := i.Insist(ctx, node.TakeRequest{Items: items})
		taken := min(result.Taken, len(result.Results), len(batch))
		for at, a := range batch[:taken] {
			switch a.result = result.Results[at]; a.result.Outcome {
			case node.Untaken:
				a.err = &control.ClosedError{State: result.State}
			case node.Blocked:
				a.err = &control.BusyError{ID: a.item.ID}
			default:
			}
			close(a.done)
		}
		batch = batch[taken:]
		switch {
		case err != nil:
			for _, a := range batch {
				a.err = err
				close(a.done)
			}
			return
		case len(batch) > 0:
			batch[0].err = &control.RefusedError{ID: batch[0].item.ID, Reason: result.Refusal}
			close(batch[0].done)
			batch = batch[1:]
		}
	}
}

// Insist calls Take, and again while its outcome is not known, three times in all. Each item has a request, so that it
// takes effect once. The error is the store's. That nothing is taken in now, or that a message is locked, is no answer
// after a try that may have taken it in, and may be what has locked it: the error of that try is.
func (i *Intake) Insist(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	var lost error
	for try := range takeTries {
		if try > 0 {
			<-time.After(takeWait << (try - 1))
		}
		result, err := i.Store.Take(ctx, request)
		if err == nil && lost != nil && slices.ContainsFunc(result.Results, isUntaken) {
			break
		}
		if err == nil {
			return result, nil
		}
		lost = err
	}
	return node.TakeResult{}, lost
}

func isUntaken(r node.ItemResult) bool {
	return r.Outcome == node.Untaken || r.Outcome == node.Blocked
}
