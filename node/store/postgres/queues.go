package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

var _ queue.Store = (*Store)(nil)

// Apply implements queue.Store.
func (s *Store) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	return s.Transact(ctx, func(ctx context.Context, tx queue.Tx) (queue.Result, error) {
		return queue.Run(ctx, tx, command)
	})
}

// Transact implements queue.Store. What it writes goes to the server with the next thing that it asks, or with the
// commit. Like every other call it waits for a synchronous standby even where it writes nothing: its answer rests on
// what somebody else has committed.
func (s *Store) Transact(
	ctx context.Context, do func(ctx context.Context, tx queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	select {
	case s.queueing <- struct{}{}:
		defer func() { <-s.queueing }()
	case <-ctx.Done():
		return queue.Result{}, fmt.Errorf("queues: too many of their transactions are under way: %w", ctx.Err())
	}
	var result queue.Result
	var answer error // what do has returned, where it is no failure of the server
	var tx *queueTransaction
	attempt := func(t *transaction) error {
		tx = &queueTransaction{transaction: t}
		if result, answer = do(ctx, tx); tx.failure != nil {
			return tx.failure
		}
		if answer != nil {
			result = queue.Result{}
			if _, refused := errors.AsType[*queue.Refusal](answer); !refused || tx.wrote {
				return nil // it is undone
			}
		}
		if !tx.wrote {
			tx.pending = append(tx.pending, step{statement: confirmStatement})
		}
		return t.commit(ctx, tx.pending...)
	}
	err := s.run(ctx, attempt)
	for err == nil && errors.Is(answer, queue.ErrAgain) {
		err = s.run(ctx, attempt)
	}
	if tx != nil && slices.ContainsFunc(tx.inserted, func(m node.Message) bool { return soon(&m, tx.now) }) {
		s.tell() // whatever has become of it: it may have taken effect
	}
	if err != nil {
		return queue.Result{}, fmt.Errorf("queues: %w", err)
	}
	if answer == nil && s.waiting.used() {
		for _, m := range tx.inserted {
			s.waiting.note(m.Lane, m.Deadline)
		}
	}
	return result, answer
}

// Due implements queue.Store.
func (s *Store) Due(ctx context.Context, limit int) (due []uuid.UUID, next time.Duration, some bool, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var now time.Time
	var looks []look
	err = s.once(ctx, func() { looks = nil }, clockStep(&now), looksStep(limit+1, &looks))
	if err != nil {
		return nil, 0, false, fmt.Errorf("look for queues that are due: %w", err)
	}
	for _, l := range looks {
		if len(due) == limit || l.at.After(now) {
			return due, max(0, l.at.Sub(now)), true, nil
		}
		due = append(due, l.queue)
	}
	return due, 0, false, nil
}

// Queues implements queue.Store.
func (s *Store) Queues(ctx context.Context, filter queue.Filter) (found []queue.Queue, err error) {
	if !isText(filter.Name) || !isText(filter.Tag) || !isText(filter.AfterName) {
		return nil, nil
	}
	paths := []string{}
	for _, path := range filter.Paths {
		if isText(path) {
			paths = append(paths, path)
		}
	}
	statement, arguments := listQueuesStatement, []any{filter.AfterName}
	switch {
	case filter.ID != uuid.Nil:
		statement, arguments = queueByIDStatement, []any{uuidOf(filter.ID)}
	case filter.Name != "":
		statement, arguments = queueByNameStatement, []any{filter.Name}
	case len(filter.Paths) > 0:
		statement, arguments = queuesAtStatement, []any{paths}
	default:
		statement += taggedQueues
		arguments = append(arguments, filter.Tag, filter.Limit)
	}
	var all []queue.Queue
	if err := s.ask(ctx, func() { all = nil }, queuesStep(&all, statement, arguments...)); err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	slices.SortFunc(all, byName)
	for i := range all {
		if filter.Queues(&all[i]) && len(found) < filter.Limit {
			found = append(found, all[i])
		}
	}
	return found, nil
}

func byName(a, b queue.Queue) int { return cmp.Compare(a.Name, b.Name) }

// Tasks implements queue.Store.
func (s *Store) Tasks(ctx context.Context, filter queue.Filter) (found []queue.Task, err error) {
	if !isText(filter.Tag) || !isText(string(filter.Status)) {
		return nil, nil
	}
	rest := []any{uuidOf(filter.AfterID), string(filter.Status), filter.Tag, filter.Limit}
	statement, arguments := listTasksStatement, rest
	switch {
	case filter.ID != uuid.Nil:
		statement, arguments = taskStatement, []any{uuidOf(filter.ID)}
	case filter.Queue != uuid.Nil:
		statement, arguments = listTasksOfStatement, append(rest, uuidOf(filter.Queue))
	}
	var all []queue.Task
	if err := s.ask(ctx, func() { all = nil }, tasksStep(&all, statement, arguments...)); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	for i := range all {
		if filter.Tasks(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found, nil
}

// Actions implements queue.Store.
func (s *Store) Actions(ctx context.Context, filter queue.Filter) (found []queue.Action, err error) {
	if !isText(filter.Tag) {
		return nil, nil
	}
	statement, arguments := listActionsStatement, []any{uuidOf(filter.AfterID), filter.Tag, filter.Limit}
	if filter.ID != uuid.Nil {
		statement, arguments = actionStatement, []any{uuidOf(filter.ID)}
	}
	var all []queue.Action
	if err := s.ask(ctx, func() { all = nil }, actionsStep(&all, statement, arguments...)); err != nil {
		return nil, fmt.Errorf("list actions: %w", err)
	}
	for i := range all {
		if filter.Actions(&all[i]) {
			found = append(found, all[i])
		}
	}
	return found, nil
}
