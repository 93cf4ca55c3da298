package service

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/api"
	"chronos/node/broker/kafka"
	"chronos/node/callback"
	"chronos/node/credential"
)

// The defaults that are not those of node.Default.
const (
	defaultBrokers = "localhost:9092"
	defaultGroup   = "chronos"

	// DefaultInput and DefaultOutput are the topics of a node that is not told any.
	DefaultInput  = "chronos.in"
	DefaultOutput = "chronos.out"

	// DefaultOutcomes is where outcomes are looked for by whoever is not told where nodes send them. Nodes send none
	// unless they are told a topic.
	DefaultOutcomes = "chronos.outcomes"
)

// maxHoldTime is far beyond what makes sense, and keeps what is derived from it within the bounds of the adapters.
const maxHoldTime = time.Hour

// Config is what a service is told, read and checked.
type Config struct {
	Node  node.Config
	Kafka kafka.Connection
	Group string // the consumer group
	Store Target

	// Migrate says to create or update the schema at the start.
	Migrate bool

	// CreateTopics says to create topics that do not exist, with that many Partitions; 0 for what the broker says.
	CreateTopics bool
	Partitions   int32

	// Compressions are those of what the routes write, in their order; none of what lies beyond its end.
	Compressions []kafka.Compression

	// SessionTimeout is how long the consumer group waits for a node that is silent: see kafka.SourceConfig.
	SessionTimeout time.Duration

	// FetchMemory and BatchMemory bound the memory of records that come from Kafka: see kafka.SourceConfig. 0 for the
	// defaults.
	FetchMemory, BatchMemory int

	// HTTPMemory bounds the memory of bodies of requests, on each listener: see listener.Config. 0 for the default.
	HTTPMemory int

	// Callback says how the requests of callback lanes are made.
	Callback callback.Config

	// Admin is the listener for metrics and health; its Listen is empty for none.
	Admin admin.Config

	// API is the listener for applications; its Listen is empty for none.
	API api.Config

	// RequestSecrets are what nodes with a journal sign the requests by HTTP with that they send each other, the first
	// one, and accept, all. They must not be empty where such a node serves the API.
	RequestSecrets [][]byte

	// Metaswitch is where the interface of Metaswitch's Chronos listens; empty for nowhere.
	Metaswitch string

	// Horae is where horae's interface listens, empty for nowhere, and HoraeURL where that is reached, empty for there.
	// Retention is how long tasks are kept that have ended; 0 for the default.
	Horae, HoraeURL string
	Retention       time.Duration

	settings    *Settings          // where it came from; nil if from nowhere
	credentials *credential.Keeper // tells of files of secrets that cannot be read any more; nil if there are none
}

// Config returns the configuration of a node. It checks all settings, before anything is touched that could be away.
func (s *Settings) Config() (Config, error) {
	config := Config{settings: s, credentials: s.keeper, Migrate: s.migrate.on(), CreateTopics: s.createTopics.on()}
	for _, read := range []func(*Config) error{
		func(c *Config) (err error) { c.Node, err = s.nodeConfig(); return err },
		s.compressions,
		func(c *Config) error { return s.callbacks(new(node.Config), &c.Callback) },
		func(c *Config) (err error) { c.Store, err = s.Target(); return err },
		func(c *Config) (err error) { c.Kafka, err = s.Connection(); return err },
		s.session,
		s.memory,
		func(c *Config) (err error) { c.Partitions, err = s.partitions(); return err },
		func(c *Config) (err error) { c.Group, err = s.groupName(); return err },
		func(c *Config) (err error) { c.Admin, err = s.Admin(""); return err },
		func(c *Config) (err error) { c.API, err = s.API(""); return err },
		func(c *Config) (err error) { c.Metaswitch, err = s.Metaswitch(); return err },
		func(c *Config) (err error) { c.Horae, c.HoraeURL, err = s.Horae(""); return err },
		func(c *Config) (err error) { c.Retention, err = s.Retention(); return err },
		s.journalFits,
		s.requestSecrets,
	} {
		if err := read(&config); err != nil {
			return config, err
		}
	}
	return config, nil
}

// describe returns what the log at the start says: what the table marks, and what somebody has set.
func (c *Config) describe() []slog.Attr {
	routes := make([]string, len(c.Node.Routes))
	for i, r := range c.Node.Routes {
		routes[i] = r.Input + " -> " + destinations(r) + c.compressed(i)
	}
	attrs := []slog.Attr{slog.String("routes", strings.Join(routes, "; "))}
	lanes := c.lanesInForce()
	for _, name := range slices.Sorted(maps.Keys(lanes)) {
		attrs = append(attrs, slog.String("lane "+name, lanes[name]))
	}
	windows := c.windowsInForce()
	for _, name := range slices.Sorted(maps.Keys(windows)) {
		attrs = append(attrs, slog.String("window "+name, windows[name]))
	}
	names, paces := c.pacesInForce()
	for i := range names {
		attrs = append(attrs, slog.String(names[i], paces[i]))
	}
	for _, row := range Table(Run) {
		var v Value
		if c.settings != nil {
			v = *row.value(c.settings)
		}
		key := strings.ReplaceAll(row.Name, "-", "_")
		switch {
		case row.logged == loggedNever || row.secret:
		case row.logged == loggedAlways && row.inForce != nil:
			attrs = append(attrs, slog.Any(key, row.inForce(c)))
		case v.IsSet && v.inline:
			attrs = append(attrs, slog.String(key, "in "+v.Origin))
		case v.IsSet:
			attrs = append(attrs, slog.String(key, v.shown()))
		}
	}
	return attrs
}

// destinations says where what comes in on a route goes.
func destinations(r node.Route) string {
	text := r.Output
	if len(r.Targets) > 0 {
		text += ", on request -> " + strings.Join(r.Targets, " or ")
	}
	if r.Format != node.FormatChronos {
		text += ", in the format " + r.Format.String()
	}
	if r.DeadLetter != "" {
		text += ", rejected -> " + r.DeadLetter
	}
	if r.Outcomes != "" {
		text += ", outcomes -> " + r.Outcomes
	}
	return text
}

// on reports whether a toggle is on.
func (v *Value) on() bool { return v.Text == "true" }

// exclude returns an error if both settings have a value.
func exclude(a, b *Value) error {
	if a.IsSet && b.IsSet {
		return Usagef("%s and %s exclude each other: only one of them may be set", a.Origin, b.Origin)
	}
	return nil
}

// explain puts a *node.ConfigError in terms of the setting that is to blame. That of the routes is called origin.
func (s *Settings) explain(err error, origin string) error {
	var wrong *node.ConfigError
	if !errors.As(err, &wrong) {
		return err
	}
	var v *Value
	for _, row := range Table(Run) {
		if row.field == wrong.Setting {
			v = row.value(s)
		}
	}
	switch {
	case wrong.Setting == "Callbacks" && s.file != nil && s.file.lanesOrigin != "":
		return Usagef("%s has %s: %s", s.file.lanesOrigin, wrong.Value, wrong.Allowed)
	case (wrong.Setting == "Windows" || wrong.Setting == "Paces") && s.file != nil && s.file.lanesOrigin != "":
		return Usagef("%s has %s: %s", s.file.lanesOrigin, wrong.Value, wrong.Allowed)
	case wrong.Setting == "Routes" || wrong.Setting == "Windows":
		return Usagef("%s has %s: %s", origin, wrong.Value, wrong.Allowed)
	case v == nil:
		return err
	case wrong.Setting == "Brokers": // one of the list
		return Usagef("%s is %s: %s", v.Origin, wrong.Value, wrong.Allowed)
	case !v.IsSet:
		return Usagef("%s is %s by default: %s", v.Origin, wrong.Value, wrong.Allowed)
	default:
		return v.Wrong(wrong.Allowed)
	}
}

// reasonOf returns why a file cannot be read, without its name.
func reasonOf(err error) string {
	if inner := errors.Unwrap(err); inner != nil {
		return inner.Error()
	}
	return err.Error()
}

// nodeConfig returns the configuration of the engine.
func (s *Settings) nodeConfig() (node.Config, error) {
	config := node.Default()
	if _, err := rand.Read(config.Seed[:]); err != nil {
		return config, fmt.Errorf("draw a seed: %w", err)
	}
	routes, origin, err := s.routes()
	if err != nil {
		return config, err
	}
	config.Routes = routes
	config.Callbacks.Any = s.servesAPI() // which brings messages for callback lanes that nobody has named
	if err := s.callbacks(&config, new(callback.Config)); err != nil {
		return config, err
	}
	if topic := slices.IndexFunc(config.Callbacks.DeadLetters(), node.IsTopic); topic >= 0 && s.withoutKafka() {
		return config, Usagef("%s has dead letters in topic %s, and there is no Kafka: name a callback lane for "+
			"them, or "+
			"set --brokers", s.file.lanesOrigin, config.Callbacks.DeadLetters()[topic])
	}
	if err := s.windows(&config); err != nil {
		return config, err
	}
	if err := s.paces(&config); err != nil {
		return config, err
	}
	s.timing(&config)
	if err := s.limits(&config); err != nil {
		return config, err
	}
	config.EpochDeadlines = s.EpochDeadlines()
	config.RelayHeaders = s.relayHeaders.list()
	for _, name := range config.RelayHeaders {
		if !node.IsRequest(name) {
			return config, s.relayHeaders.Wrong("it may name some of " + strings.Join(node.RequestHeaders(), ", ") +
				"; all other headers are relayed anyway")
		}
	}
	if config.HoldTime > maxHoldTime {
		return config, s.holdTime.Wrong(fmt.Sprintf("it must be %v or less", maxHoldTime))
	}
	return config, s.explain(config.Validate(), origin)
}

// timing sets the times of config.
func (s *Settings) timing(config *node.Config) {
	for _, row := range Table(Run) {
		switch v := row.value(s); {
		case row.time == nil || !v.IsSet:
		case row.form.auto && v.Text == "auto":
			config.AdaptiveAdvance = true
		default:
			_ = v.Duration(row.time(config)) // Read has seen that it is one.
		}
	}
	if !s.idleInterval.IsSet && config.IdleInterval < config.PollInterval {
		config.IdleInterval = 0 // its default is of no use beside so long a poll interval
	}
}

// routes returns the routes, and what to call the setting that they come from.
func (s *Settings) routes() ([]node.Route, string, error) {
	if s.withoutKafka() {
		return nil, s.brokers.Origin, s.checkWithoutKafka()
	}
	file := s.file
	if file == nil || file.routesOrigin == "" {
		route, err := s.route()
		return []node.Route{route}, s.outputTopic.Origin, err
	}
	for _, single := range []*Value{
		&s.inputTopic, &s.outputTopic, &s.deadLetterTopic, &s.outcomeTopic, &s.targets, &s.compression,
	} {
		if single.IsSet {
			return nil, "", Usagef(
				"%s and %s exclude each other: only one of them may be set", single.Origin, file.routesOrigin)
		}
	}
	routes := make([]node.Route, len(file.routes))
	for i, entry := range file.routes {
		for _, needed := range []*Value{&entry.Input, &entry.Output} {
			if !needed.IsSet {
				return nil, "", Usagef("%s is not set: every route needs it", needed.Origin)
			}
		}
		for _, field := range []struct {
			setting *Value
			target  *string
		}{
			{&entry.Input, &routes[i].Input},
			{&entry.Output, &routes[i].Output},
			{&entry.DeadLetter, &routes[i].DeadLetter},
			{&entry.Outcomes, &routes[i].Outcomes},
		} {
			switch v := field.setting; {
			case v == &entry.Output && !isOutput(v.Text):
				return nil, "", v.Wrong(laneForm)
			case v != &entry.Output && v.Text != "" && !node.IsTopic(v.Text):
				return nil, "", v.Wrong(topicForm)
			}
			*field.target = field.setting.Text
		}
		if err := entry.Targets.topics(); err != nil {
			return nil, "", err
		}
		routes[i].Targets = entry.Targets.list()
		format, known := node.ParseFormat(entry.Format.or(node.FormatChronos.String()))
		if !known {
			return nil, "", entry.Format.Wrong("it must be chronos, amnesix or etf1")
		}
		routes[i].Format = format
	}
	return routes, file.routesOrigin, nil
}

// Outcomes returns where the outcomes of instructions on an input topic are to be found.
func (s *Settings) Outcomes(input string) (string, error) {
	if s.outcomeTopic.IsSet || s.file == nil {
		return s.outcomeTopic.or(DefaultOutcomes), nil
	}
	for _, route := range s.file.routes {
		if route.Input.Text == input && route.Outcomes.Text == "" {
			return "", Usagef("%s is not set: there are no outcomes of what is sent to %s, and nothing to wait for",
				route.Outcomes.Origin, input)
		}
		if route.Input.Text == input {
			return route.Outcomes.Text, nil
		}
	}
	return DefaultOutcomes, nil
}

// Targets returns the topics that records may name, besides the output topic.
func (s *Settings) Targets() []string { return s.targets.list() }

// EpochDeadlines returns how a deadline is read that is a bare number.
func (s *Settings) EpochDeadlines() node.EpochUnit {
	return map[string]node.EpochUnit{
		"reject": node.EpochRejected, "seconds": node.EpochSeconds, "milliseconds": node.EpochMilliseconds,
	}[s.epochDeadlines.or("reject")]
}

// route returns the route of the settings for a single one.
func (s *Settings) route() (node.Route, error) {
	route := node.Route{
		Input: s.inputTopic.or(DefaultInput), Output: s.outputTopic.or(DefaultOutput),
		DeadLetter: s.deadLetterTopic.Text, Outcomes: s.outcomeTopic.Text, Targets: s.targets.list(),
	}
	if route.Input == route.Output {
		blamed := &s.outputTopic
		if !blamed.IsSet {
			blamed = &s.inputTopic
		}
		return route, blamed.Wrong("the input and the output topic must differ, " +
			"because a message must not be submitted again by being delivered")
	}
	others := []struct {
		setting *Value
		topics  []string
		what    string
	}{
		{&s.targets, route.Targets, "a message must not be submitted again by being delivered"},
		{&s.deadLetterTopic, []string{route.DeadLetter}, "a rejected record must not be submitted again"},
		{&s.outcomeTopic, []string{route.Outcomes}, "an outcome is no submission"},
	}
	for _, other := range others {
		for _, topic := range other.topics {
			const own = ", because rejected records and outcomes need topics of their own"
			switch output := topic == route.Output; {
			case topic == "":
			case topic == route.Input:
				return route, other.setting.Wrong("it must not be the input topic, because " + other.what)
			case other.setting == &s.targets && output:
				return route, s.targets.Wrong("it must not name the output topic, which a record may name anyway")
			case other.setting != &s.targets && output && len(route.Targets) == 0:
				return route, other.setting.Wrong("it must not be the output topic" + own)
			case other.setting != &s.targets && slices.Contains(route.Outputs(), topic):
				return route, other.setting.Wrong("it must not be the output topic or a target" + own)
			case other.setting == &s.outcomeTopic && topic == route.DeadLetter:
				return route, other.setting.Wrong("it must not be the dead-letter topic" + own)
			}
		}
	}
	for _, topic := range []string{route.Input, route.DeadLetter, route.Outcomes} {
		if route.Finds(topic) {
			return route, s.targets.Wrong("it must not stand for " + topic +
				", because a message must not come out where records are read, rejected or answered")
		}
	}
	return route, nil
}

// partitions returns how many partitions the topics get that are created; 0 for what the broker says.
func (s *Settings) partitions() (int32, error) {
	if !s.createPartitions.IsSet {
		return 0, nil
	}
	n, err := strconv.ParseInt(s.createPartitions.Text, 10, 32)
	if err != nil || n < 1 || n > 10_000 {
		return 0, s.createPartitions.Wrong("it must be a number from 1 to 10000")
	}
	return int32(n), nil
}

// groupName returns the consumer group.
func (s *Settings) groupName() (string, error) {
	name := s.group.or(defaultGroup)
	if name == "" {
		return "", s.group.Wrong("it must name a consumer group")
	}
	return name, nil
}
