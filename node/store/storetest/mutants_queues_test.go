package storetest_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/memory"
	"chronos/node/store/storetest"
)

// brokenQueues is a store of queues each transaction of which is wrong in one way.
type brokenQueues struct {
	*memory.Store

	breaks func(tx queue.Tx) queue.Tx
}

// Apply implements queue.Store.
func (b *brokenQueues) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	return b.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		return queue.Run(ctx, tx, command)
	})
}

// Transact implements queue.Store.
func (b *brokenQueues) Transact(
	ctx context.Context, do func(ctx context.Context, tx queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	return b.Store.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		return do(ctx, b.breaks(tx))
	})
}

// brokenTx is a transaction that is wrong where a field says so.
type brokenTx struct {
	queue.Tx

	next       func(tasks []queue.Task) []queue.Task
	takes      bool
	containing bool
	touch      bool
	named      bool
	insert     bool
	overdue    bool
	inUse      bool
	forget     bool
	soonest    bool
	drop       bool
	put        func(t *queue.Task)
}

func (b *brokenTx) Takes(ctx context.Context) (bool, error) {
	takes, err := b.Tx.Takes(ctx)
	return takes || b.takes, err
}

func (b *brokenTx) Containing(ctx context.Context, q *queue.Queue) ([]queue.Queue, error) {
	if b.containing {
		return nil, nil
	}
	return b.Tx.Containing(ctx, q)
}

func (b *brokenTx) Touch(ctx context.Context, paths []string) error {
	if b.touch {
		return nil
	}
	return b.Tx.Touch(ctx, paths)
}

func (b *brokenTx) Named(ctx context.Context, name string) (*queue.Queue, error) {
	if b.named {
		return nil, nil //nolint:nilnil // there is none
	}
	return b.Tx.Named(ctx, name)
}

func (b *brokenTx) Insert(ctx context.Context, messages []node.Message) error {
	if b.insert {
		return nil
	}
	return b.Tx.Insert(ctx, messages)
}

func (b *brokenTx) Next(ctx context.Context, q *queue.Queue, limit int) ([]queue.Task, error) {
	if b.next == nil {
		return b.Tx.Next(ctx, q, limit)
	}
	tasks, err := b.Tx.Next(ctx, q, 1000)
	tasks = b.next(tasks)
	return tasks[:min(limit, len(tasks))], err
}

func (b *brokenTx) Overdue(
	ctx context.Context, id uuid.UUID, started time.Time, limit int,
) ([]queue.Task, error) {
	if b.overdue {
		return nil, nil
	}
	return b.Tx.Overdue(ctx, id, started, limit)
}

func (b *brokenTx) InUse(ctx context.Context, action uuid.UUID) (bool, error) {
	used, err := b.Tx.InUse(ctx, action)
	return used && !b.inUse, err
}

func (b *brokenTx) Forget(ctx context.Context, before time.Time, limit int) (int, error) {
	if b.forget {
		limit = 1000
	}
	return b.Tx.Forget(ctx, before, limit)
}

func (b *brokenTx) Soonest(ctx context.Context, id uuid.UUID) (time.Time, bool, error) {
	at, some, err := b.Tx.Soonest(ctx, id)
	return at, some && !b.soonest, err
}

func (b *brokenTx) DropQueue(ctx context.Context, id uuid.UUID) error {
	if b.drop {
		return nil
	}
	return b.Tx.DropQueue(ctx, id)
}

func (b *brokenTx) PutTask(ctx context.Context, t *queue.Task) error {
	if b.put != nil {
		b.put(t)
	}
	return b.Tx.PutTask(ctx, t)
}

// queueMutants are stores of queues that are each wrong in one way.
func queueMutants() map[string]func(tx queue.Tx) queue.Tx {
	backwards := func(tasks []queue.Task) []queue.Task {
		var turned []queue.Task
		for i := range tasks {
			turned = append(turned, tasks[len(tasks)-1-i])
		}
		return turned
	}
	mutants := map[string]func(tx queue.Tx) queue.Tx{}
	for name, b := range map[string]brokenTx{
		"starts the last one first":      {next: backwards},
		"starts while nothing is taken":  {takes: true},
		"does not know what contains":    {containing: true},
		"touches nothing":                {touch: true},
		"has two queues of one name":     {named: true},
		"loses messages":                 {insert: true},
		"finds nothing overdue":          {overdue: true},
		"deletes actions that are named": {inUse: true},
		"forgets more than it is asked":  {forget: true},
		"does not see what comes":        {soonest: true},
		"keeps queues that are gone":     {drop: true},
		"loses the reason":               {put: func(t *queue.Task) { t.Reason = "" }},
		"loses the promise":              {put: func(t *queue.Task) { t.Fates = "" }},
		"ends nothing": {put: func(t *queue.Task) {
			if t.Status.Done() {
				t.Status, t.Ended = queue.Running, time.Time{}
			}
		}},
	} {
		mutants[name] = func(tx queue.Tx) queue.Tx {
			broken := b
			broken.Tx = tx
			return &broken
		}
	}
	return mutants
}

// lockless is a store of queues whose transactions lock nothing: each reads, decides, and then writes, and others may
// do the same in between.
type lockless struct {
	*memory.Store

	between atomic.Int32 // how many have decided, and not written
}

// Apply implements queue.Store.
func (u *lockless) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	return u.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		return queue.Run(ctx, tx, command)
	})
}

// Transact implements queue.Store.
func (u *lockless) Transact(
	ctx context.Context, do func(ctx context.Context, tx queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	decided := errors.New("decided")
	var log *written
	var result queue.Result
	_, err := u.Store.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		log = &written{Tx: tx}
		var err error
		if result, err = do(ctx, log); err == nil {
			err = decided
		}
		return queue.Result{}, err
	})
	if !errors.Is(err, decided) {
		return queue.Result{}, err
	}
	u.between.Add(1)
	for range 10_000 { // for another one to be here as well, if one comes
		if u.between.Load() > 1 {
			break
		}
		runtime.Gosched()
	}
	_, err = u.Store.Transact(ctx, func(_ context.Context, tx queue.Tx) (queue.Result, error) {
		for _, write := range log.writes {
			if err := write(tx); err != nil {
				return queue.Result{}, err
			}
		}
		return queue.Result{}, nil
	})
	u.between.Add(-1)
	return result, err
}

// written is a transaction that notes what is written.
type written struct {
	queue.Tx

	writes []func(tx queue.Tx) error
}

func (w *written) note(write func(tx queue.Tx) error) error {
	w.writes = append(w.writes, write)
	return write(w.Tx)
}

func (w *written) PutQueue(ctx context.Context, q *queue.Queue) error {
	copied := q.Clone()
	return w.note(func(tx queue.Tx) error { return tx.PutQueue(ctx, &copied) })
}

func (w *written) DropQueue(ctx context.Context, id uuid.UUID) error {
	return w.note(func(tx queue.Tx) error { return tx.DropQueue(ctx, id) })
}

func (w *written) Touch(ctx context.Context, paths []string) error {
	return w.note(func(tx queue.Tx) error { return tx.Touch(ctx, paths) })
}

func (w *written) AddTask(ctx context.Context, t *queue.Task) error {
	copied := t.Clone()
	return w.note(func(tx queue.Tx) error { return tx.AddTask(ctx, &copied) })
}

func (w *written) PutTask(ctx context.Context, t *queue.Task) error {
	copied := t.Clone()
	return w.note(func(tx queue.Tx) error { return tx.PutTask(ctx, &copied) })
}

func (w *written) PutAction(ctx context.Context, a *queue.Action) error {
	copied := a.Clone()
	return w.note(func(tx queue.Tx) error { return tx.PutAction(ctx, &copied) })
}

func (w *written) Insert(ctx context.Context, messages []node.Message) error {
	return w.note(func(tx queue.Tx) error { return tx.Insert(ctx, messages) })
}

// locksNothing is the name of lockless.
const locksNothing = "locks nothing"

// TestBrokenQueues runs the part of the suite that is about queues on the broken store that the environment names;
// without a name the store is intact.
func TestBrokenQueues(t *testing.T) {
	name := os.Getenv(brokenVariable)
	breaks := queueMutants()[name]
	if name == "" {
		breaks = func(tx queue.Tx) queue.Tx { return &brokenTx{Tx: tx} }
	}
	storetest.RunQueues(t, func(t *testing.T) storetest.QueueInstance {
		clock := storetest.NewClock()
		inner := memory.New(clock.Now)
		instance := storetest.QueueInstance{
			Store: &brokenQueues{inner, breaks}, Clock: clock, Switches: inner,
			Messages: func(testing.TB) (names []string) {
				for _, row := range inner.Dump() {
					names = append(names, row.ID+" "+row.Lane)
				}
				return names
			},
		}
		switch {
		case name == locksNothing:
			instance.Store = &lockless{Store: inner}
		case breaks == nil:
			t.Fatalf("no store is broken in the way %q", name)
		}
		return instance
	})
}

// TestSuiteFindsBrokenQueues runs TestBrokenQueues in a process of its own for each broken store. Goal: it fails; and
// on the store that locks nothing each race by itself does.
func TestSuiteFindsBrokenQueues(t *testing.T) {
	for name := range queueMutants() {
		t.Run(name, func(t *testing.T) {
			if !fails(t, name, "TestBrokenQueues") {
				t.Error("the suite has found nothing wrong with it")
			}
		})
	}
	for _, race := range []string{
		"two completions at once", "a completion and the time limit", "two queues of one name", "two tasks of one id",
		"starts that race", "a parent closes while tasks start",
	} {
		t.Run(locksNothing+": "+race, func(t *testing.T) {
			if !fails(t, locksNothing, "TestBrokenQueues/"+strings.ReplaceAll(race, " ", "_")) {
				t.Error("the race has found nothing wrong with it")
			}
		})
	}
}
