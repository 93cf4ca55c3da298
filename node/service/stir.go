package service

import (
	"context"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/postgres"
)

// stir tells the node of this process that something was changed in the store past it: it may be resting
// (node.Config.IdleInterval).
func (s *Service) stir() {
	if n := s.node.Load(); n != nil {
		n.Stir()
	}
}

// hears returns what says whether the node hears of what other processes store; nil where there is nothing to hear,
// since no other process uses the store.
func (s *Service) hears() func() bool {
	if store, is := s.store.Store.(*postgres.Store); is {
		return store.Hears
	}
	return nil
}

// hear stirs the node whenever another process has stored something, or it is not heard any more, until ctx is done. A
// node that never rests needs no connection for it.
func (s *Service) hear(ctx context.Context) {
	config := &s.config.Node
	if store, is := s.store.Store.(*postgres.Store); is && config.IdleInterval > config.PollInterval {
		store.Listen(ctx, s.stir)
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
