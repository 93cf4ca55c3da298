package service

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/api"
	"chronos/node/broker/kafka"
	"chronos/node/broker/none"
	"chronos/node/callback"
	"chronos/node/clock/system"
	"chronos/node/deadletter"
	"chronos/node/hours"
	"chronos/node/metrics"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/journal"
	"chronos/node/store/postgres"
	"chronos/node/traces"
)

// Service is a node and everything around it.
type Service struct {
	config  Config
	options Options
	log     *slog.Logger
	clock   *system.Clock

	store    *Store
	source   source
	sink     sink
	callback *callback.Sink // nil if there are no callback lanes
	admin    *kafka.Admin   // nil without Kafka
	reporter *Reporter
	metrics  *metrics.Metrics
	admins   *admin.Server // the listener; nil for none

	applications *api.Server    // the listener of the API; nil for none
	asker        *journal.Asker // of that listener, where the store is a journal
	sender       *inputSenders  // of the asker
	timers       *timers        // that of Metaswitch's interface; nil for none
	horae        *timers        // that of horae's; nil for none

	board  *journal.Switchboard // nil where the store is no journal
	poster *inputSenders        // of the board
	owning *owningWatch         // nil where the store is no journal

	queues queue.Store // nil if this node has no queues
	desk   *desk.Desk  // answers for them; nil if there are none

	hours    *hours.Hours
	troubles *admin.Troubles
	recent   *admin.Recent     // what the API counts; nil without a listener
	history  *admin.History    // what the page shows of the last minutes; nil without a listener
	dead     *deadletter.Desk  // nil without Kafka
	settings map[string]string // in force, without secrets: what the API shows
	id       atomic.Value      // the node id, as text, once there is one

	node atomic.Pointer[node.Node] // nil until there is one

	tracing *traces.Settings // nil if nobody has asked for traces
	tracer  *traces.Tracer   // nil if there is none

	creator *creator // nil if no topic is to be created on the way

	// fail ends a node that runs, for an error that trying again does not mend.
	fail func(error)

	phase   atomic.Int32 // a phase
	missing atomic.Value // the topics that a node which starts waits for, in words, as text
	schema  atomic.Bool  // the store has been seen to have the schema that this program needs
}

// Options are what a service is given besides its configuration.
type Options struct {
	Log     *slog.Logger
	Version string // for the log; "" for none

	// Observe gets every event after the reporter; nil if nobody else wants them. See node.Event.
	Observe func(node.Event)

	// Functions take the messages of callback lanes in this program, by the lane's name, in place of receivers that are
	// asked by HTTP. The node must serve these lanes.
	Functions map[string]callback.Function

	// Ports returns what the engine gets for its ports; nil if it gets them as they are. The laboratory puts broken
	// ones between.
	Ports func(node.Config, node.Ports) (node.Ports, error)
}

const (
	// The wait between two looks at a port that is away when the node starts doubles from the one to the other.
	waitMin = 250 * time.Millisecond
	waitMax = 2 * time.Second

	// How long a look at the topics may take: it tries all that time while no broker answers. The first one is
	// short, so that it is soon said that Kafka is away.
	firstLook = 2 * time.Second
	laterLook = 10 * time.Second

	// closeTimeout is how long leaving the group may take when the node has stopped.
	closeTimeout = 5 * time.Second

	// flushTimeout is how long the last traces may take to be sent.
	flushTimeout = 3 * time.Second

	// AnswerTimeout is how long a server that somebody waits for is given to answer at all.
	AnswerTimeout = 5 * time.Second

	// refusals is how many times in a row a server must refuse for good before a node that has just started gives
	// up: a server that is starting may know its users a moment later.
	refusals = 4
)

// Open opens the ports. No server needs to be there. A file of SQLite is opened here and now, so ctx does not end that:
// to be told to stop is no error.
func Open(ctx context.Context, config Config, options Options) (*Service, error) {
	reporter := NewReporter(options.Log, &config.Node)
	config.Store.report = reporter.unreadable
	if err := config.Store.folder(); err != nil {
		return nil, err
	}
	store, err := config.Store.Open(context.WithoutCancel(ctx), config.Node.StoreTimeout())
	if err != nil {
		return nil, err
	}
	s, err := with(config, store, reporter, options)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "starting",
		slices.Concat([]slog.Attr{slog.String("version", options.Version)}, thisProcess(), config.describe())...)
	if config.settings != nil && config.settings.saslMechanism.Text == "PLAIN" && config.Kafka.TLS == nil {
		s.log.Warn("the password for Kafka crosses the network in clear: SASL PLAIN without TLS")
	}
	config.sayWindows(s.log)
	if config.WithoutKafka() {
		s.log.Info("neither brokers nor topics are set: this node runs without Kafka, and serves callback lanes only")
	}
	if config.settings != nil && len(config.settings.ignoredProperties) > 0 {
		s.log.Info("some keys of --kafka-properties change nothing",
			slog.String("keys", strings.Join(config.settings.ignoredProperties, ", ")))
	}
	if config.credentials != nil {
		config.credentials.Tell(func(err error) {
			s.log.Warn("a file with a secret or a certificate cannot be read; what was in it before is still used",
				slog.String("error", oneLine(err)))
		})
	}
	return s, nil
}

// thisProcess says which process this is, for people who have several logs before them.
func thisProcess() []slog.Attr {
	host, _ := os.Hostname()
	return []slog.Attr{slog.String("host", host), slog.Int("pid", os.Getpid())}
}

// With returns a service over a store that is open already; the service closes it. If there is an error, the caller
// does.
func With(config Config, store *Store, options Options) (*Service, error) {
	return with(config, store, NewReporter(options.Log, &config.Node), options)
}

func with(config Config, store *Store, reporter *Reporter, options Options) (*Service, error) {
	s := &Service{
		config: config, options: options, log: options.Log, clock: system.New(), store: store, reporter: reporter,
		metrics: metrics.New(config.Node, options.Version), troubles: admin.NewTroubles(causeOn),
		settings: config.effective(),
	}
	s.hours = hours.New(&s.config.Node)
	s.metrics.Hours(s.hours.At)
	s.reporter.lateness.arrivals.Opened = s.hours.Opened
	connection := func(client string) kafka.Connection {
		c := config.Kafka
		c.Logger, c.Hooks = s.log, []kgo.Hook{s.metrics.Kafka(client), &throttling{client, reporter}}
		return c
	}
	var err error
	if s.tracing, err = traces.Environment(); err != nil {
		return nil, Usagef("%v", err)
	}
	if err := s.openBroker(connection); err != nil {
		return nil, err
	}
	if err = s.openCallbacks(); err != nil {
		return nil, err
	}
	s.creator = newCreator(s)
	s.reporter.observed, s.reporter.storeInKafka = s.metrics, config.Store.IsJournal()
	s.reporter.process = thisProcess()
	s.metrics.Ready(s.isReady)
	s.reporter.lateness.pace = s.metrics.Pace
	s.showPool()
	s.openQueues()
	for _, open := range []func(context.Context) error{s.openHorae, s.listen, s.openAPI, s.openMetaswitch} {
		if err := open(context.Background()); err != nil {
			return nil, errors.Join(err, s.closeListeners()) // whoever tries another address needs these again
		}
	}
	return s, nil
}

// closeListeners gives up the addresses of the listeners that are open.
func (s *Service) closeListeners() error {
	var errs []error
	if s.admins != nil {
		errs = append(errs, s.admins.Close())
	}
	if s.applications != nil {
		errs = append(errs, s.applications.Close())
	}
	if s.horae != nil {
		errs = append(errs, s.horae.Close())
	}
	s.closeAsker()
	return errors.Join(errs...)
}

// openBroker makes the clients of Kafka, or what is in their place without Kafka.
func (s *Service) openBroker(connection func(client string) kafka.Connection) (err error) {
	config := &s.config
	if config.WithoutKafka() {
		s.source, s.sink = none.NewSource(s.clock), &none.Sink{}
		return nil
	}
	if config.Store.IsJournal() {
		config.Node.Batch = journalBatch
	}
	if s.source, err = kafka.NewSource(kafka.SourceConfig{
		Connection: connection("source"), Group: config.Group, Inputs: config.inputs(),
		LeaveAfter: config.Node.LeaveAfter, SessionTimeout: config.SessionTimeout, MaxPollRecords: config.Node.Batch,
		FetchMemory: config.FetchMemory, BatchMemory: config.BatchMemory,
	}); err != nil {
		return err
	}
	if err := s.own(); err != nil {
		return err
	}
	if s.sink, err = kafka.NewSink(kafka.SinkConfig{
		Connection: connection("sink"), PublishTimeout: config.Node.PublishTimeout(), Compression: config.Compression(),
	}); err != nil {
		return err
	}
	if err := s.openDead(); err != nil {
		return err
	}
	s.admin, err = kafka.NewAdmin(connection("admin"))
	return err
}

// inputs returns the topics that submissions come from.
func (c *Config) inputs() []string {
	var inputs []string
	for _, route := range c.Node.Routes {
		inputs = append(inputs, route.Input)
	}
	return inputs
}

// Run waits until store and topics are ready, and runs the node until ctx is done. Then it closes the ports.
func (s *Service) Run(ctx context.Context) error {
	var background sync.WaitGroup
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() { s.reporter.Watch(watching) })
	background.Go(func() { s.metrics.Loops().Run(watching) })
	if s.admins != nil {
		background.Go(func() {
			if err := s.admins.Run(watching); err != nil {
				s.log.Error("the listener for metrics and health has ended", slog.String("error", oneLine(err)))
			}
		})
	}
	if s.applications != nil {
		background.Go(func() { s.runAPI(watching) })
	}
	if s.timers != nil {
		background.Go(func() { s.runMetaswitch(watching) })
	}
	if s.horae != nil {
		background.Go(func() { s.runHorae(watching) })
	}
	background.Go(func() {
		select {
		case <-ctx.Done():
			s.phase.Store(int32(stopping))
			s.log.Info("stopping: finishing what is in flight")
		case <-watching.Done():
		}
	})
	defer background.Wait()
	defer stopWatching()

	err := s.trace(ctx)
	if err == nil {
		err = s.prepare(ctx)
	}
	if err == nil && ctx.Err() == nil {
		err = s.runNode(ctx)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.source.Close(closing); err != nil {
		s.log.Warn("could not leave the consumer group cleanly; the others take over in a few seconds",
			slog.String("error", oneLine(err)))
	}
	s.sink.Close()
	s.closeAsker()
	if s.callback != nil {
		s.callback.Close()
	}
	if s.admin != nil {
		s.admin.Close()
	}
	if err := s.store.Close(); err != nil {
		s.log.Warn("could not close the store cleanly", slog.String("error", oneLine(err)))
	}
	s.closeTraces(ctx)
	if err == nil {
		s.reporter.Summary()
	}
	return err
}

// trace has the node send traces, if somebody has asked for them.
func (s *Service) trace(ctx context.Context) (err error) {
	if s.tracing == nil {
		return nil
	}
	s.tracer, err = traces.Start(context.WithoutCancel(ctx), s.tracing, traces.Options{
		Log: s.log, Version: s.options.Version, Group: s.config.Group, Node: s.config.Node,
	})
	return err
}

// closeTraces sends the last traces.
func (s *Service) closeTraces(ctx context.Context) {
	if s.tracer == nil {
		return
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	s.tracer.Close(limited)
}

// runNode runs the engine until ctx is done.
func (s *Service) runNode(ctx context.Context) (err error) {
	ports := node.Ports{Clock: s.clock, Store: s.store, Source: s.source, Sink: s.sink, Hears: s.hears()}
	if settling, is := s.store.Store.(node.Settling); is {
		ports.Settling = settling
	}
	if s.callback != nil {
		ports.Callback, ports.Callable = s.tasks(s.callback), s.callable
	}
	if s.options.Ports != nil {
		if ports, err = s.options.Ports(s.config.Node, ports); err != nil {
			return err
		}
	}
	n, err := node.New(s.config.Node, s.metrics.Ports(ports), s.observe)
	if err != nil {
		return err
	}
	s.metrics.Schedule(n.Held)
	s.id.Store(n.ID().String())
	s.node.Store(n)
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	s.fail = end
	var sampling sync.WaitGroup
	until, stop := context.WithCancel(ctx)
	sampling.Go(func() { s.watchSeal(until, end) })
	if sampler := s.sampler(); sampler != nil {
		sampling.Go(func() { sampler.Run(until) })
	}
	sampling.Go(func() { s.beat(until, n.ID()) })
	sampling.Go(func() { s.hear(until) })
	if s.queues != nil {
		sampling.Go(func() { s.keepQueues(until) })
	}
	if s.creator != nil {
		sampling.Go(func() { s.creator.run(until) })
	}
	if s.recent != nil {
		sampling.Go(func() { s.recent.Run(until) })
		sampling.Go(func() { s.history.Run(until) })
	}
	sampling.Go(func() { s.standBy(until) })
	sampling.Go(func() { s.heed(until) })
	defer sampling.Wait()
	defer stop()
	s.phase.CompareAndSwap(int32(starting), int32(running))
	loop, ended := s.metrics.Loops().Begin(ctx, node.Enqueue) // Run is the loop of that operation
	defer ended()
	n.Run(loop, s.metrics.Loops().Tasks(node.Goroutines()))
	if cause := context.Cause(ctx); isFatal(cause) {
		return cause
	}
	return nil
}

// observe passes an event of the engine on.
func (s *Service) observe(event node.Event) {
	s.metrics.Observe(event)
	s.reporter.Observe(event)
	s.troubles.Observe(event)
	if s.tracer != nil {
		s.tracer.Observe(event)
	}
	if s.creator != nil {
		s.creator.observe(event)
	}
	if s.options.Observe != nil {
		s.options.Observe(event)
	}
}

// prepare waits until the store answers and has the right schema, and until all topics are there. Then it sees whether
// the store belongs to this cluster and group.
func (s *Service) prepare(ctx context.Context) error {
	if s.store.journal != nil { // its topic has as many partitions as another one, which comes first
		for _, step := range []func(context.Context) error{s.prepareTopics, s.prepareStore, s.bindJournal} {
			if err := step(ctx); err != nil || ctx.Err() != nil {
				return err
			}
		}
		return nil
	}
	waiting, both := errgroup.WithContext(ctx)
	waiting.Go(func() error { return s.prepareStore(both) })
	if s.admin != nil {
		waiting.Go(func() error { return s.prepareTopics(both) })
	}
	if err := waiting.Wait(); err != nil || ctx.Err() != nil || s.admin == nil {
		return err // without Kafka the store belongs to no cluster, and what it is bound to stays
	}
	return s.bind(ctx)
}

// prepareStore waits until the store answers. Its schema must be right then, or be made so.
func (s *Service) prepareStore(ctx context.Context) error {
	port := &preparation{service: s, port: node.PortStore}
	return s.retry(ctx, func() (bool, error) {
		answered, err := s.store.Check(ctx)
		if !answered {
			return false, port.failed(ctx, "check the schema", err)
		}
		port.answered()
		if err == nil || !s.config.Migrate {
			s.schema.Store(err == nil)
			return s.unsealed(ctx, port, err)
		}
		applied, err := s.store.Migrate(ctx)
		for _, m := range applied {
			s.log.Info("migrated the store", slog.Int64("version", m.Version), slog.String("name", m.Name))
		}
		if err == nil {
			s.schema.Store(true)
			return s.unsealed(ctx, port, nil)
		}
		// If the store still answers, what it says about the migration will not change by asking again.
		if answered, _ := s.store.Check(ctx); answered && ctx.Err() == nil {
			return false, err
		}
		return false, port.failed(ctx, "migrate", err)
	})
}

// unsealed reports whether the store may be used, whose schema is as err says.
func (s *Service) unsealed(ctx context.Context, port *preparation, err error) (bool, error) {
	if err != nil {
		return true, err
	}
	if err := s.checkSeal(ctx); err != nil && !isSealed(err) {
		return false, port.failed(ctx, "look for a seal", err)
	} else if err != nil {
		return true, err
	}
	return true, nil
}

// prepareTopics waits until Kafka answers and all topics are there. A missing one is not an error: whoever starts a
// system may start the node first. It has to be seen, though.
func (s *Service) prepareTopics(ctx context.Context) error {
	var topics []kafka.TopicSpec
	for _, route := range s.config.Node.Routes {
		for _, name := range route.Topics() {
			topics = append(topics, kafka.TopicSpec{Name: name, Partitions: s.config.Partitions})
		}
	}
	for _, lane := range s.config.Node.Callbacks.DeadLetters() {
		if !node.IsCallback(lane) {
			topics = append(topics, kafka.TopicSpec{Name: lane, Partitions: s.config.Partitions})
		}
	}
	port := &preparation{service: s, port: node.PortSource}
	said := false
	var saidLast time.Duration
	limit := firstLook
	return s.retry(ctx, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		limit = laterLook
		err := s.admin.EnsureTopics(limited, s.config.CreateTopics, topics...)
		var missing *kafka.MissingTopicsError
		switch {
		case err == nil:
			port.answered()
			s.missing.Store("")
			return true, nil
		case errors.As(err, &missing) && !s.config.CreateTopics:
			port.answered()
			s.missing.Store(missing.Error())
			if now := s.clock.Mono(); !said || now-saidLast >= reminderInterval {
				said, saidLast = true, now
				s.reporter.say(slog.LevelWarn, missing.Error()+
					": waiting until somebody creates what is missing, as --create-topics would")
			}
			return false, nil
		default:
			return false, port.failed(ctx, "look up topics", err)
		}
	})
}

// preparation is how it goes with one port before the node runs.
type preparation struct {
	service *Service
	port    node.Port
	good    bool // it has answered well once
	refused int  // in a row
}

// failed says that the port is away, unless that is because ctx is done. It returns an error if the port refuses for
// good, and has never done anything else: then somebody has made a mistake, and has to hear of it.
func (p *preparation) failed(ctx context.Context, call string, err error) error {
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the call was ended from here
	}
	p.service.reporter.Unavailable(p.port, call, err)
	remedy := remedy(err)
	if remedy == "" {
		p.refused = 0
		return nil
	}
	if p.refused++; p.good || p.refused < refusals {
		return nil
	}
	return fmt.Errorf("%s: %s (%s)", call, remedy, oneLine(err))
}

// answered says that the port has answered well.
func (p *preparation) answered() {
	p.good, p.refused = true, 0
	p.service.reporter.Available(p.port)
}

// remedy returns what somebody has to do about an error of a port, in one sentence; "" if trying again may be enough.
func remedy(err error) string {
	if sentence := postgres.Remedy(err); sentence != "" {
		return sentence
	}
	sentence, _ := kafka.Permanent(err)
	return sentence
}

// retry calls try until it is done, fails for good or ctx is done, with a pause after each time.
func (s *Service) retry(ctx context.Context, try func() (done bool, err error)) error {
	for wait := waitMin; ctx.Err() == nil; wait = min(2*wait, waitMax) {
		if done, err := try(); done || err != nil {
			return err
		}
		s.clock.Sleep(ctx, wait)
	}
	return nil
}
