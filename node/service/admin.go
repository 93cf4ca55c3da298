package service

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/metrics"
	"chronos/node/store/inspect"
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
		Seen: s.reporter.Seen, Places: s.places(),
		Ends: func(ctx context.Context) ([]node.Extent, error) {
			ctx, cancel := context.WithTimeout(ctx, laterLook)
			defer cancel()
			return s.source.Extents(ctx)
		},
	}
}

// places returns what tells how far the store has taken in all partitions; nil if it does not, as one that knows its
// own partitions only.
func (s *Service) places() func(context.Context) ([]node.Place, error) {
	shows, is := s.store.Store.(inspect.Source)
	if !is || s.config.Store.IsJournal() {
		return nil
	}
	return func(ctx context.Context) ([]node.Place, error) {
		all, _, err := shows.Places(ctx)
		places := make([]node.Place, len(all))
		for i := range all {
			places[i] = all[i].Place
		}
		return places, err
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

// ready answers whether this node can do its work: whether it has begun, with the right schema, is in its group, serves
// the partitions of a journal that it was given, and has no problem that makes it unready. It needs no partitions for
// that: there may be more nodes than partitions. What is not well besides is said: where a lane has a destination that
// fails, other lanes go on, and so does whoever asks this node by HTTP.
func (s *Service) ready() []admin.Check {
	at := phase(s.phase.Load())
	problems := s.reporter.Problems()
	checks := []admin.Check{s.begun(at, problems)}
	checks = append(checks, s.storeReady(problems)...)
	checks = append(checks, s.groupReady(at, problems))
	if s.owning != nil {
		checks = append(checks, s.owning.check())
	}
	return append(checks, promiseChecks(problems)...)
}

// begun answers whether the node runs, and if it does not, what it waits for.
func (s *Service) begun(at phase, problems []admin.Problem) admin.Check {
	check := admin.Check{Name: "node", OK: at == running, Detail: "it runs"}
	switch at {
	case starting:
		check.Detail = "it waits for " + s.waitsFor(problems)
	case stopping:
		check.Detail = "it stops"
	case running:
	}
	return check
}

// waitsFor says what a node waits for that has not begun.
func (s *Service) waitsFor(problems []admin.Problem) string {
	var what []string
	now := time.Now()
	for i := range problems {
		p := &problems[i]
		if p.What == title(node.PortStore, "") || p.What == title(node.PortSource, "") {
			what = append(what, fmt.Sprintf("%s, which has not answered for %v: %s", cmp.Or(map[string]string{
				"store": "the store",
			}[p.What], p.What), now.Sub(p.Since).Round(100*time.Millisecond), p.Cause))
		}
	}
	if missing, _ := s.missing.Load().(string); missing != "" {
		what = append(what, "somebody to create what is missing: "+missing)
	}
	switch {
	case len(what) > 0:
		return strings.Join(what, "; and for ")
	case s.admin == nil:
		return "the store and its schema"
	}
	return "the store, its schema, and the topics"
}

// storeReady answers whether the store does all that is asked of it, and has the right schema.
func (s *Service) storeReady(problems []admin.Problem) []admin.Check {
	now := time.Now()
	store, schema := admin.Check{Name: "store"}, admin.Check{Name: "schema"}
	var failing []string
	for i := range problems {
		p := &problems[i]
		switch {
		case p.What != title(node.PortStore, ""):
		case p.Call == "":
			failing = append(failing, fmt.Sprintf("no call has gone well for %v: %s",
				now.Sub(p.Since).Round(100*time.Millisecond), p.Cause))
		default:
			failing = append(failing, fmt.Sprintf("%s has not gone well for %v, and other calls have: %s", p.Call,
				now.Sub(p.Since).Round(100*time.Millisecond), p.Cause))
		}
	}
	switch last := s.metrics.Answered(node.PortStore); {
	case len(failing) > 0:
		store.Detail = strings.Join(failing, "; ")
	case last.IsZero():
		store.OK, store.Detail = s.schema.Load(), "it has answered, and was not asked for anything yet"
		if !store.OK {
			store.Detail = "it has not answered yet"
		}
	default:
		store.OK = true
		store.Detail = fmt.Sprintf("it answered %v ago", now.Sub(last).Round(time.Millisecond))
	}
	if schema.OK = s.schema.Load(); schema.OK {
		schema.Detail = "it is the one that this program needs"
	} else {
		schema.Detail = "it has not been seen to be the one that this program needs"
	}
	return []admin.Check{store, schema}
}

func (s *Service) groupReady(at phase, problems []admin.Problem) admin.Check {
	if s.admin == nil {
		return admin.Check{Name: "group", OK: true, Detail: "none: this node runs without Kafka"}
	}
	check := admin.Check{Name: "group", OK: s.source.Joined(), Detail: "joined group " + s.config.Group}
	if check.OK {
		return check
	}
	check.Detail = "not joined group " + s.config.Group + " yet"
	if at != running {
		check.Detail = "it joins group " + s.config.Group + " when it runs"
	}
	for i := range problems {
		switch p := &problems[i]; {
		case p.What == title(node.PortStore, "") && at == running:
			check.Detail = fmt.Sprintf("not in group %s: a node leaves it when it has not been able to store anything "+
				"for %v, and joins again when the store is back", s.config.Group, s.config.Node.LeaveAfter)
		case p.What == title(node.PortSource, ""):
			check.Detail = fmt.Sprintf("not joined group %s: Kafka has not answered for %v: %s", s.config.Group,
				time.Since(p.Since).Round(100*time.Millisecond), p.Cause)
		}
	}
	return check
}

// promiseChecks answers whether what is submitted is taken in, and what is due comes out. What is no fault of this node
// is said, and well.
func promiseChecks(problems []admin.Problem) []admin.Check {
	now := time.Now()
	intake := admin.Check{Name: "intake", OK: true, Detail: "no record has waited for long, as far as this node reads"}
	var lanes []admin.Check
	for i := range problems {
		p := &problems[i]
		detail := p.Sentence(now)
		switch p.What {
		case "intake":
			intake.OK, intake.Warn, intake.Detail = intake.OK && !p.Unready, true, detail
		case "lane", "topic":
			if p.Fault == admin.FaultReceiver { // what it has answered is not for everybody
				quiet := *p
				quiet.Cause = "its receivers fail; the log, the API and the page have their answers"
				detail = quiet.Sentence(now)
			}
			lanes = append(lanes, admin.Check{Name: "lane " + p.Lane, OK: !p.Unready, Warn: true, Detail: detail})
		}
	}
	if len(lanes) == 0 {
		lanes = []admin.Check{{Name: "lanes", OK: true, Detail: "nothing is overdue, as of the last look at the store"}}
	}
	return append([]admin.Check{intake}, lanes...)
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
