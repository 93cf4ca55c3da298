package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/clock/system"
)

// runCommand runs a node.
type runCommand struct {
	kafkaSettings
	storeSettings
	nodeSettings
	logSettings
	fileSetting
}

// Help tells what a newcomer cannot guess.
func (c *runCommand) Help() string {
	return `All nodes are equal: start as many as you like with the same settings, and stop any of them at any
time. A node starts also while Kafka or the store are away, and waits for them. SIGTERM and Ctrl-C stop it in
order within seconds; a second one stops it at once, and nothing is lost either way.

Every setting is a flag, an environment variable (--hold-time is $CHRONOS_HOLD_TIME) and a key of the file that
--config names (hold-time). A flag wins over the environment, and that over the file.

    store: postgres://chronos@db/chronos
    store-password-file: /run/secrets/chronos
    brokers: [kafka-1:9092, kafka-2:9092]
    routes:
      - {input: orders.in, output: orders.out, dead-letter: orders.dead}
      - {input: mails.in, output: mails.out}`
}

// Run runs the node until ctx is done.
func (c *runCommand) Run(ctx context.Context, w *world) error {
	s, err := c.service(ctx, w)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// service checks all settings, before anything is touched that could be away, and opens the ports.
func (c *runCommand) service(ctx context.Context, w *world) (*service, error) {
	log, err := c.logger(w.stderr)
	if err != nil {
		return nil, err
	}
	config, err := c.nodeConfig(w.file)
	if err != nil {
		return nil, err
	}
	target, err := c.target()
	if err != nil {
		return nil, err
	}
	connection, err := c.connection()
	if err != nil {
		return nil, err
	}
	s := &service{log: log, clock: system.New(), config: config}
	if s.migrate, err = c.Migrate.value(); err != nil {
		return nil, err
	}
	if s.createTopics, err = c.CreateTopics.value(); err != nil {
		return nil, err
	}
	if s.partitions, err = c.partitions(); err != nil {
		return nil, err
	}
	group, err := c.group()
	if err != nil {
		return nil, err
	}
	s.report = newReporter(log, &s.config)
	s.observe = s.report.observe
	target.report = s.report.unreadable
	// A file of SQLite is opened here and now, so that to be told to stop is no error.
	if s.store, err = target.open(context.WithoutCancel(ctx), config.StoreTimeout()); err != nil {
		return nil, err
	}
	if s.broker, err = s.openBroker(connection, group); err != nil {
		return nil, errors.Join(err, s.store.close())
	}
	log.Info("starting", c.effective(&config, target, &connection, group)...)
	if c.SASLMechanism.text == "PLAIN" && connection.TLS == nil {
		log.Warn("the password for Kafka crosses the network in clear: SASL PLAIN without TLS")
	}
	return s, nil
}

// effective describes the settings for the log: all that are not at their default, and those that one asks for.
func (c *runCommand) effective(
	config *node.Config, target storeTarget, connection *kafka.Config, group string,
) []any {
	routes := make([]string, len(config.Routes))
	for i, r := range config.Routes {
		routes[i] = r.Input + " -> " + r.Output
		if r.DeadLetter != "" {
			routes[i] += ", rejected -> " + r.DeadLetter
		}
	}
	advance := config.TimingAdvance.String()
	if config.AdaptiveAdvance {
		advance = "auto"
	}
	attrs := []any{
		slog.String("version", currentVersion()),
		slog.String("brokers", strings.Join(connection.Brokers, ",")),
		slog.Bool("tls", connection.TLS != nil),
		slog.String("group", group),
		slog.String("routes", strings.Join(routes, "; ")),
		slog.String("store", target.String()),
		slog.String("timing_advance", advance),
		slog.String("hold_time", config.HoldTime.String()),
		slog.String("poll_interval", config.PollInterval.String()),
		slog.String("detection_interval", config.DetectionInterval.String()),
		slog.String("lookahead", config.Lookahead.String()),
		slog.String("leave_after", config.LeaveAfter.String()),
	}
	for _, s := range []struct {
		name    string
		setting *setting
	}{
		{"sasl_mechanism", &c.SASLMechanism},
		{"sasl_username", &c.SASLUsername},
		{"relay_headers", &c.RelayHeaders},
		{"epoch_deadlines", &c.EpochDeadlines},
		{"create_topics", c.CreateTopics.get()},
		{"migrate", c.Migrate.get()},
		{"config", &c.Config},
	} {
		if s.setting.isSet {
			attrs = append(attrs, slog.String(s.name, s.setting.text))
		}
	}
	return attrs
}

// service is a node and everything around it.
type service struct {
	log    *slog.Logger
	clock  *system.Clock
	config node.Config

	store   *openStore
	broker  *kafka.Broker
	report  *reporter
	observe func(node.Event)

	migrate      bool
	createTopics bool
	partitions   int32
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
)

// openBroker returns the broker. It connects when it is used.
func (s *service) openBroker(connection kafka.Config, group string) (*kafka.Broker, error) {
	connection.Group = group
	connection.PublishTimeout = s.config.PublishTimeout()
	connection.LeaveAfter = s.config.LeaveAfter
	connection.Logger = s.log
	for _, route := range s.config.Routes {
		connection.Inputs = append(connection.Inputs, route.Input)
	}
	return kafka.New(connection)
}

// run waits until store and topics are ready, and runs the node until ctx is done.
func (s *service) run(ctx context.Context) error {
	var background sync.WaitGroup
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	background.Go(func() { s.report.watch(watching) })
	background.Go(func() {
		select {
		case <-ctx.Done():
			s.log.Info("stopping: finishing what is in flight")
		case <-watching.Done():
		}
	})
	defer background.Wait()
	defer stopWatching()

	err := s.prepare(ctx)
	if err == nil && ctx.Err() == nil {
		err = s.runNode(ctx)
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := s.broker.Close(closing); err != nil {
		s.log.Warn("could not leave the consumer group in order; the others take over in a few seconds",
			slog.String("error", oneLine(err)))
	}
	if err := s.store.close(); err != nil {
		s.log.Warn("could not close the store in order", slog.String("error", oneLine(err)))
	}
	if err == nil {
		s.report.summary()
	}
	return err
}

// runNode runs the engine until ctx is done.
func (s *service) runNode(ctx context.Context) error {
	store, broker, err := mutated(s.config, s.store, s.broker)
	if err != nil {
		return err
	}
	n, err := node.New(s.config, s.clock, store, broker, s.observe)
	if err != nil {
		return err
	}
	n.Run(ctx)
	return nil
}

// prepare waits until the store answers and has the right schema, and until all topics are there.
func (s *service) prepare(ctx context.Context) error {
	waiting, ctx := errgroup.WithContext(ctx)
	waiting.Go(func() error { return s.prepareStore(ctx) })
	waiting.Go(func() error { return s.prepareTopics(ctx) })
	return waiting.Wait()
}

// prepareStore waits until the store answers. Its schema must be right then, or be made so.
func (s *service) prepareStore(ctx context.Context) error {
	return s.retry(ctx, func() (bool, error) {
		answered, err := s.store.check(ctx)
		if !answered {
			s.unavailable(ctx, node.PortStore, "check the schema", err)
			return false, nil
		}
		s.report.available(node.PortStore)
		if err == nil || !s.migrate {
			return true, err
		}
		applied, err := s.store.migrate(ctx)
		for _, m := range applied {
			s.log.Info("migrated the store", slog.Int64("version", m.Version), slog.String("name", m.Name))
		}
		if err == nil {
			return true, nil
		}
		// If the store still answers, what it says about the migration will not change by asking again.
		if answered, _ := s.store.check(ctx); answered && ctx.Err() == nil {
			return false, err
		}
		s.unavailable(ctx, node.PortStore, "migrate", err)
		return false, nil
	})
}

// prepareTopics waits until Kafka answers and all topics are there. A missing one is not an error: whoever starts a
// system may start the node first. It has to be seen, though.
func (s *service) prepareTopics(ctx context.Context) error {
	var topics []kafka.TopicSpec
	for _, route := range s.config.Routes {
		for _, name := range []string{route.Input, route.Output, route.DeadLetter} {
			if name != "" {
				topics = append(topics, kafka.TopicSpec{Name: name, Partitions: s.partitions})
			}
		}
	}
	said := false
	var saidLast time.Duration
	limit := firstLook
	return s.retry(ctx, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		limit = laterLook
		err := s.broker.EnsureTopics(limited, s.createTopics, topics...)
		var missing *kafka.MissingTopicsError
		switch {
		case err == nil:
			s.report.available(node.PortBroker)
			return true, nil
		case errors.As(err, &missing) && !s.createTopics:
			s.report.available(node.PortBroker)
			if now := s.clock.Mono(); !said || now-saidLast >= reminderInterval {
				said, saidLast = true, now
				s.report.say(slog.LevelWarn, missing.Error()+
					": waiting until somebody creates what is missing, as --create-topics would")
			}
		default:
			s.unavailable(ctx, node.PortBroker, "look up topics", err)
		}
		return false, nil
	})
}

// unavailable says that a port is away, unless that is because ctx is done.
func (s *service) unavailable(ctx context.Context, port node.Port, call string, err error) {
	if ctx.Err() == nil {
		s.report.unavailable(port, call, err)
	}
}

// retry calls try until it is done, fails for good or ctx is done, with a pause after each time.
func (s *service) retry(ctx context.Context, try func() (done bool, err error)) error {
	for wait := waitMin; ctx.Err() == nil; wait = min(2*wait, waitMax) {
		if done, err := try(); done || err != nil {
			return err
		}
		s.clock.Sleep(ctx, wait)
	}
	return nil
}
