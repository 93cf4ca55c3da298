package service

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/metrics"
	"chronos/node/store/outlook"
	"chronos/node/store/postgres"
)

// phase is how far a service has come.
type phase int32

const (
	starting phase = iota // it waits for the store and the topics
	running
	stopping
)

// listen opens the listener, if one is asked for, and mounts what it serves.
func (s *Service) listen(ctx context.Context) error {
	if s.config.Admin.Listen == "" {
		return nil
	}
	config := s.config.Admin
	config.Log, config.Keeper, config.Memory = s.log, s.config.credentials, s.config.HTTPMemory
	server, err := admin.New(config)
	if err != nil {
		return err
	}
	if err := server.Open(ctx); err != nil {
		return fmt.Errorf("--admin-listen: %w", err)
	}
	s.admins = server
	s.mount()
	s.log.Info("serving metrics and health", slog.String("url", server.URL()))
	if config.TokenFile != "" && config.CertFile == "" && !server.IsLoopback() {
		s.log.Warn("the token of the listener crosses the network in clear: set admin-tls-cert and admin-tls-key")
	}
	return nil
}

// mount mounts what the listener serves.
func (s *Service) mount() {
	registry := s.metrics.Registry()
	// Not as OpenMetrics, which forbids a histogram of negative values to have a sum: chronos_lateness_seconds is one.
	s.admins.Handle("GET /metrics", admin.Open, promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 4, Timeout: 10 * time.Second,
	}))
	s.admins.Health(s.live, s.ready)
	s.mountAPI()
	s.admins.Page()
}

// URL returns where the listener is; "" for none.
func (s *Service) URL() string {
	if s.admins == nil {
		return ""
	}
	return s.admins.URL()
}

// sampler returns what looks at the store beside the engine; nil if the store does not tell.
func (s *Service) sampler() *metrics.Sampler {
	source, _ := s.store.Store.(outlook.Source)
	if source == nil {
		return nil
	}
	s.reporter.behind = s.metrics.Behind
	var found func(ctx context.Context) ([]string, error)
	if s.config.Node.Seeks() {
		found = func(ctx context.Context) ([]string, error) {
			parts, err := s.store.Parts(ctx)
			return slices.DeleteFunc(node.LanesOf(parts), func(lane string) bool {
				return slices.Contains(s.config.Node.Lanes(), lane) || !s.config.Node.Finds(lane)
			}), err
		}
	}
	return &metrics.Sampler{
		Metrics: s.metrics, Store: s.hours.Outlook(source), Lanes: s.config.Node.Lanes(), Found: found,
		Seen: s.reporter.Seen,
		Ends: func(ctx context.Context) ([]node.Extent, error) {
			ctx, cancel := context.WithTimeout(ctx, laterLook)
			defer cancel()
			return s.source.Extents(ctx)
		},
	}
}

// showPool has the metrics show the connections to Postgres, if that is what the store is.
func (s *Service) showPool() {
	if store, is := s.store.Store.(*postgres.Store); is {
		s.metrics.Pool(store.Pool())
		if config := &s.config.Node; config.IdleInterval > config.PollInterval {
			s.metrics.Hears(store.Hears)
		}
	}
}

// live answers whether the process should go on running: whether the operations of the engine take turns. That Kafka or
// the store are away is no reason to be started anew.
func (s *Service) live() []admin.Check {
	var checks []admin.Check
	for _, state := range s.metrics.Loops().States() {
		checks = append(checks, admin.Check{Name: state.Loop, OK: !state.Stuck, Detail: state.Detail})
	}
	if len(checks) == 0 {
		detail := "the node has not begun: it waits for the store and the topics"
		if phase(s.phase.Load()) != starting {
			detail = "the node has ended"
		}
		checks = append(checks, admin.Check{Name: "operations", OK: true, Detail: detail})
	}
	return checks
}

// ready answers whether this node can do its work: whether it reaches the store, whose schema is the right one, and is
// in its group. It needs no partitions for that: there may be more nodes than partitions. It has to
// serve those of a journal that it was given.
func (s *Service) ready() []admin.Check {
	at := phase(s.phase.Load())
	begun := admin.Check{Name: "node", OK: at == running, Detail: "it runs"}
	switch at {
	case starting:
		begun.Detail = "it waits for the store, its schema, and the topics; the log says for which"
		if s.admin == nil {
			begun.Detail = "it waits for the store and its schema; the log says for which"
		}
	case stopping:
		begun.Detail = "it stops"
	case running:
	}
	store, schema := s.storeReady()
	checks := []admin.Check{begun, store, schema, s.groupReady(at)}
	if s.owning != nil {
		checks = append(checks, s.owning.check())
	}
	return checks
}

func (s *Service) storeReady() (store, schema admin.Check) {
	store, schema = admin.Check{Name: "store"}, admin.Check{Name: "schema"}
	switch state := s.metrics.Port(node.PortStore); {
	case state.Failing:
		store.Detail = fmt.Sprintf("no call has gone well for %v: %s",
			time.Since(state.Since).Round(100*time.Millisecond), cause(state.Err))
	case state.Answered.IsZero():
		store.OK, store.Detail = s.schema.Load(), "it has not been called yet"
	default:
		store.OK = true
		store.Detail = fmt.Sprintf("it answered %v ago", time.Since(state.Answered).Round(time.Millisecond))
	}
	if schema.OK = s.schema.Load(); schema.OK {
		schema.Detail = "it is the one that this program needs"
	} else {
		schema.Detail = "it has not been seen to be the one that this program needs"
	}
	return store, schema
}

func (s *Service) groupReady(at phase) admin.Check {
	if s.admin == nil {
		return admin.Check{Name: "group", OK: true, Detail: "none: this node runs without Kafka"}
	}
	check := admin.Check{Name: "group", OK: s.source.Joined(), Detail: "joined group " + s.config.Group}
	if check.OK {
		return check
	}
	check.Detail = "not joined group " + s.config.Group + " yet"
	if state := s.metrics.Port(node.PortStore); state.Failing && at == running {
		check.Detail = fmt.Sprintf("not in group %s: a node leaves it when it has not reached the store for %v, "+
			"and joins again when the store is back", s.config.Group, s.config.Node.LeaveAfter)
	}
	if state := s.metrics.Port(node.PortSource); state.Failing {
		check.Detail = fmt.Sprintf("not joined group %s: Kafka has not answered for %v: %s", s.config.Group,
			time.Since(state.Since).Round(100*time.Millisecond), cause(state.Err))
	} else if at != running {
		check.Detail = "it joins group " + s.config.Group + " when it runs"
	}
	return check
}

// isReady reports whether all checks of ready are well.
func (s *Service) isReady() bool {
	for _, c := range s.ready() {
		if !c.OK {
			return false
		}
	}
	return true
}
