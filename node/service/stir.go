package service

import (
	"context"

	"chronos/node"
	"chronos/node/queue"
)

// stir tells the node of this process that something was changed in the store past it: it may be resting
// (node.Config.IdleInterval).
func (s *Service) stir() {
	if n := s.node.Load(); n != nil {
		n.Stir()
	}
}

// stirringTaker tells the node of each instruction that the listeners of its process have given to the store.
type stirringTaker struct{ service *Service }

// Take implements control.Taker.
func (t stirringTaker) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	defer t.service.stir() // whatever becomes of it: it may have taken effect
	return t.service.store.Take(ctx, request)
}

// stirringQueues tells the node of each change of queues, which may have stored messages.
type stirringQueues struct {
	queue.Store

	service *Service
}

// Apply implements queue.Store.
func (q stirringQueues) Apply(ctx context.Context, command queue.Command) (queue.Result, error) {
	result, err := q.Store.Apply(ctx, command)
	if err != nil || result.Changed {
		q.service.stir()
	}
	return result, err
}

// Transact implements queue.Store.
func (q stirringQueues) Transact(
	ctx context.Context, do func(ctx context.Context, tx queue.Tx) (queue.Result, error),
) (queue.Result, error) {
	defer q.service.stir()
	return q.Store.Transact(ctx, do)
}
