package service

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"chronos/node/listener"
	"chronos/node/metaswitch"
	"chronos/node/store/inspect"
)

// timers is the listener of Metaswitch's interface.
type timers struct {
	*listener.Listener[struct{}]

	handler http.Handler
}

// tagsInterval is the time between two counts of the tags of timers. Metaswitch's own counts were asked for every five
// seconds or more.
const tagsInterval = 15 * time.Second

// openMetaswitch opens that listener, if one is asked for.
func (s *Service) openMetaswitch(ctx context.Context) error {
	if s.config.Metaswitch == "" {
		return nil
	}
	opened, err := newMetaswitch(s.config.Metaswitch, s.config.HTTPMemory)
	if err != nil {
		return err
	}
	api := &metaswitch.API{
		Node: &s.config.Node, Taker: stirringTaker{s}, Explain: s.explain, Observe: s.timed,
	}
	if s.callback != nil {
		api.Callback = s.callback.Check
	}
	if err := opened.Open(ctx); err != nil {
		return fmt.Errorf("--metaswitch-listen: %w", err)
	}
	s.timers = &timers{opened, opened.Guard(api.Handler(), nil)}
	s.log.Info("taking timers in by the interface of Metaswitch's Chronos", slog.String("url", opened.URL()))
	if !opened.IsLoopback() {
		s.log.Warn("whoever reaches the address of metaswitch-listen may set and delete timers: its clients have no " +
			"tokens, so keep it inside your own network")
	}
	return nil
}

// MetaswitchURL returns where Metaswitch's interface is; "" for nowhere.
func (s *Service) MetaswitchURL() string {
	if s.timers == nil {
		return ""
	}
	return s.timers.URL()
}

// timed counts what that interface has answered.
func (s *Service) timed(r metaswitch.Request) {
	if r.Operation != "" {
		s.metrics.Requested("metaswitch_"+r.Operation, r.Status, r.Took)
	} else {
		s.metrics.Requested("", r.Status, r.Took)
	}
	if r.Outcome != 0 {
		s.metrics.Asked(metaswitch.Lane, r.Action.String(), r.Outcome.String())
	}
}

// runMetaswitch serves that interface, and counts tags, until ctx is done.
func (s *Service) runMetaswitch(ctx context.Context) {
	counting, stop := context.WithCancel(ctx)
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		s.countTags(counting)
	}()
	if err := s.timers.Run(ctx, s.timers.handler); err != nil {
		s.log.Error("the interface of Metaswitch's Chronos has ended", slog.String("error", oneLine(err)))
	}
	stop()
	<-counted
}

// countTags counts the tags of the timers that wait, now and then. A store that does not answer is counted the next
// time: others tell of it.
func (s *Service) countTags(ctx context.Context) {
	source, _ := s.store.Store.(inspect.Source)
	if source == nil {
		return
	}
	ticker := time.NewTicker(tagsInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if s.phase.Load() != int32(running) {
			continue
		}
		if counts, err := metaswitch.CountTags(ctx, source); err == nil {
			s.metrics.Tagged(counts)
		}
	}
}
