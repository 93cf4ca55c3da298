package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"chronos/node"
	"chronos/node/horae"
	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// unknownBase stands for the URL of nodes where a command changes the store itself: nodes may know theirs.
const unknownBase = "http://unknown/"

// errNoQueues says why a store has no queues.
var errNoQueues = errors.New("the store of this node keeps no queues, because it is a journal in Kafka: they need a " +
	"database")

// openQueues gives the node what it needs for queues, if its store keeps any: to look at them, and, if it serves the
// lane of tasks, to do their work.
func (s *Service) openQueues() {
	store, keeps := s.store.Store.(queue.Store)
	if !keeps {
		return
	}
	store = stirringQueues{store, s}
	s.desk = &desk.Desk{Store: store, Base: s.config.HoraeURL, Topic: s.comesOut}
	if s.callback != nil {
		s.desk.Callback = s.callback.Check
	}
	if s.config.Node.Serves(queue.Lane) {
		s.queues = store
	} else if s.desk.Base == "" {
		s.desk.Base = unknownBase
	}
}

// comesOut returns why nothing may come out on a topic that an action names; nil if it may.
func (s *Service) comesOut(topic string) error {
	config := &s.config.Node
	if node.IsTopic(topic) && config.Serves(topic) && config.CheckLane(topic) == "" {
		return nil
	}
	return &queue.Refusal{Code: queue.Invalid, Detail: "topic is " + Shown(topic) + ": it must be an output topic or " +
		"a target of a route"}
}

// openHorae opens the listener of horae's interface, if one is asked for.
func (s *Service) openHorae(ctx context.Context) error {
	if s.config.Horae == "" {
		return nil
	}
	if s.desk == nil {
		return Usagef("--horae-listen is set, and %v", errNoQueues)
	}
	opened, err := newHorae(s.config.Horae, s.config.HTTPMemory)
	if err != nil {
		return err
	}
	if err := opened.Open(ctx); err != nil {
		return fmt.Errorf("--horae-listen: %w", err)
	}
	if s.desk.Base == "" {
		s.desk.Base = opened.URL() + "/"
	}
	if err := s.reachOwn(opened.URL()); err != nil {
		return err
	}
	api := &horae.API{Desk: s.desk, Explain: s.explain, Observe: func(r horae.Request) {
		name := r.Operation
		if name != "" {
			name = "horae_" + name
		}
		s.metrics.Requested(name, r.Status, r.Took)
	}}
	s.horae = &timers{opened, opened.Guard(api.Handler(), nil)}
	s.log.Info("serving queues by the interface of horae", slog.String("url", opened.URL()))
	if !opened.IsLoopback() {
		s.log.Warn("whoever reaches the address of horae-listen may change queues and tasks: its clients have no " +
			"tokens, so keep it inside your own network")
	}
	return nil
}

// reachOwn lets tasks request this interface without an entry in allowed: the completion URI of a task is there, by
// which a task says that it is done. Of the other listeners of a node, and for other lanes, this does not hold: they
// would be open, without a token, to whoever may submit a message.
func (s *Service) reachOwn(opened string) error {
	if s.callback == nil {
		return nil
	}
	for _, address := range []string{opened, s.desk.Base} {
		if err := s.callback.Reach(queue.Lane, address); err != nil {
			return err
		}
	}
	return nil
}

// HoraeURL returns where horae's interface is; "" for nowhere.
func (s *Service) HoraeURL() string {
	if s.horae == nil {
		return ""
	}
	return s.horae.URL()
}

// runHorae serves that interface until ctx is done.
func (s *Service) runHorae(ctx context.Context) {
	if err := s.horae.Run(ctx, s.horae.handler); err != nil {
		s.log.Error("the interface of horae has ended", slog.String("error", oneLine(err)))
	}
}

// callable returns why the request of a message would never be made. Records that bring a task or complete one are no
// requests: they are for the store.
func (s *Service) callable(lane string, headers []node.Header) error {
	if lane == queue.Lane && slices.ContainsFunc(headers, func(h node.Header) bool {
		return h.Name == node.HeaderTaskPart
	}) {
		if s.queues == nil {
			return errNoQueues
		}
		return nil
	}
	return s.callback.Check(lane, headers)
}

// tasks returns the sink of callback lanes: before that of requests it has the one that knows tasks, if there are any.
func (s *Service) tasks(next node.Sink) node.Sink {
	if s.queues == nil {
		return next
	}
	return queue.NewSink(queue.SinkConfig{Store: s.queues, Next: next, URL: s.desk.Base})
}

// keepQueues looks after queues whose time has come, until ctx is done.
func (s *Service) keepQueues(ctx context.Context) {
	keeper := queue.Keeper{
		Store: s.queues, Clock: s.clock, Retention: s.config.Retention, Log: func(err error) {
			if _, refused := errors.AsType[*queue.Refusal](err); !refused { // the reporter tells of what is closed
				s.log.Debug("the store does not answer whoever looks after queues", slog.String("error", oneLine(err)))
			}
		},
	}
	keeper.Run(ctx)
}
