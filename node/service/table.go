package service

import (
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/broker/kafka"
)

// Command is a set of the commands that take settings.
type Command int

// The commands that take settings, and those sets of them that many settings have in common.
const (
	Run     Command = 1 << iota // chronos run
	Migrate                     // chronos migrate
	Client                      // chronos tail, chronos bench and chronos dead
	Submit                      // chronos send, reschedule, replace and fire
	Dev                         // chronos dev
	Operate                     // chronos bind, chronos rewind and chronos doctor
	Probe                       // chronos health
	Ask                         // chronos get, list, count, pause, resume, top, queue, task and action
	Cancel                      // chronos cancel: one message through Kafka, or many in the store
	Examine                     // chronos doctor, beside Operate: what bind and rewind need no file for

	// All are all of them.
	All = Run | Migrate | Submit | Client | Dev | Operate | Probe | Ask | Cancel | Examine

	// placeURL is the PlaceHolder of a setting that is a URL: passwords in it are not shown.
	placeURL = "URL"

	withStore = Run | Migrate | Operate | Ask | Cancel
	withKafka = Run | Submit | Client | Operate | Cancel
)

// String returns the commands as a person types them.
func (c Command) String() string {
	var names []string
	for _, command := range []struct {
		is   Command
		name string
	}{
		{Run, "run"},
		{Migrate, "migrate"},
		{Migrate, "export"},
		{Migrate, "import"},
		{Submit, "send"},
		{Cancel, "cancel"},
		{Submit, "reschedule"},
		{Submit, "replace"},
		{Submit, "fire"},
		{Client, "tail"},
		{Client, "bench"},
		{Client, "dead"},
		{Dev, "dev"},
		{Operate, "bind"},
		{Operate, "rewind"},
		{Operate | Examine, "doctor"},
		{Probe, "health"},
		{Ask, "get"},
		{Ask, "list"},
		{Ask, "count"},
		{Ask, "pause"},
		{Ask, "resume"},
		{Ask, "top"},
		{Ask, "queue"},
		{Ask, "task"},
		{Ask, "action"},
	} {
		if c&command.is != 0 {
			names = append(names, command.name)
		}
	}
	return strings.Join(names, ", ")
}

// Setting is one row of the table of settings: all that there is to know about one of them. Flags and their help, the
// environment, the configuration file, the checks, the log at the start and docs/REFERENCE.md are made from it.
//
// The setting hold-time is the flag --hold-time, the variable CHRONOS_HOLD_TIME and the key hold-time alike.
type Setting struct {
	Name     string
	Group    string // the heading that it stands under: the key of one of Groups; "" for none
	Commands Command

	// Reads are commands that take it from the environment and the file as the nodes do, and have no flag for it.
	Reads Command

	PlaceHolder string // what its value is to a person, such as TIME
	Help        string // what it does, in full sentences, without its default
	Default     string // what it is where nobody sets it; "" for nothing, or for what Help says
	DevDefault  string // the same for chronos dev, where it differs
	Allowed     string // what its value must be; "" where Help says that, or where all is allowed

	form  form
	field string // the field of node.Config that it is, if it is one; the error about that field names it
	time  func(*node.Config) *time.Duration

	secret  bool // neither logged nor shown in an error
	value   func(*Settings) *Value
	logged  logged
	inForce func(*Config) any // its value in force, for the log; nil for the text that somebody set
}

// form is what the value of a setting looks like. It is checked wherever the value comes from.
type form struct {
	toggle  bool // true or false; the flag alone means true
	time    bool
	auto    bool // a time may also be the word auto
	topic   bool
	lane    bool // a topic may also be a callback lane
	topics  bool // a list of them
	empty   bool // what it says may also be ""
	choices []string
}

// logged says when the log at the start has a setting.
type logged int

const (
	loggedIfSet logged = iota
	loggedAlways
	loggedNever // a part of what another row shows
)

// Group is a heading under which settings stand.
type Group struct{ Key, Title string }

// Groups returns the headings, in their order.
func Groups() []Group {
	return []Group{
		{"kafka", "Kafka"},
		{"store", "Store"},
		{"topics", "Topics"},
		{"limits", "Limits"},
		{"timing", "Timing"},
		{"logging", "Logging"},
		{"admin", "Metrics and health"},
		{"node", "Node"},
		{"api", "HTTP API"},
		{"metaswitch", "The interface of Metaswitch's Chronos"},
		{"queues", "Queues"},
	}
}

// Toggle reports whether the setting is true or false, and needs no value as a flag.
func (s *Setting) Toggle() bool { return s.form.toggle }

// Variable returns the environment variable that is the setting.
func (s *Setting) Variable() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// Describe returns the help with the default, for one command.
func (s *Setting) Describe(command Command) string {
	preset := s.Default
	if command == Dev && s.DevDefault != "" {
		preset = s.DevDefault
	}
	if preset == "" {
		return s.Help
	}
	return s.Help + " Default " + preset + "."
}

// Table returns the settings of some commands, in the order in which the help and the reference have them.
func Table(commands Command) []Setting {
	return slices.DeleteFunc(allRows(), func(s Setting) bool { return s.Commands&commands == 0 })
}

// readBy returns the settings that some commands read: those of Table, and those that they have no flags for.
func readBy(commands Command) []Setting {
	return slices.DeleteFunc(allRows(), func(s Setting) bool { return (s.Commands|s.Reads)&commands == 0 })
}

func allRows() []Setting {
	return slices.Concat(general(), kafkaRows(), storeRows(), topicRows(), limitRows(), timingRows(), logRows(),
		adminRows(), askRows(), apiRows(), metaswitchRows(), queueRows())
}

func general() []Setting {
	return []Setting{{
		Name: "config", Commands: All &^ Dev, PlaceHolder: "FILE",
		Help: "A YAML file with any of these settings, named as the flags are but without --. A flag wins over its " +
			"environment variable (--hold-time is $CHRONOS_HOLD_TIME), and that over the file.",
		value: func(s *Settings) *Value { return &s.config },
	}, {
		Name: "compat", Commands: withStore | withKafka, PlaceHolder: "NAME",
		Help: "kindred: what is not set is taken from the environment variables of Kindred's chronos, such as " +
			"KAFKA_HOST and PG_HOST. See docs/MOVING.md.",
		form:  form{choices: []string{compatKindred}},
		value: func(s *Settings) *Value { return &s.compat },
	}}
}

func kafkaRows() []Setting {
	rows := []Setting{
		{
			Name: "brokers", PlaceHolder: "HOST:PORT,...", Help: "Brokers to find the cluster by.",
			Default: defaultBrokers, Allowed: "addresses, HOST:PORT, separated by commas; or none, for a node " +
				"without Kafka",
			field: "Brokers", value: func(s *Settings) *Value { return &s.brokers },
			logged: loggedAlways, inForce: func(c *Config) any {
				if c.WithoutKafka() {
					return noBrokers
				}
				return strings.Join(c.Kafka.Brokers, ",")
			},
		},
		{
			Name: "tls", Help: "Encrypt connections to Kafka.", form: form{toggle: true},
			value:  func(s *Settings) *Value { return &s.tls },
			logged: loggedAlways, inForce: func(c *Config) any { return c.Kafka.TLS != nil },
		},
		{
			Name: "tls-ca", PlaceHolder: "FILE",
			Help: "PEM file with the authorities to trust in place of the system's. Implies --tls. This file and " +
				"those below are read anew at each connection: what replaces them is used without a restart.",
			value: func(s *Settings) *Value { return &s.tlsCA },
		},
		{
			Name: "tls-cert", PlaceHolder: "FILE", Help: "PEM file with the certificate of this client. Implies --tls.",
			value: func(s *Settings) *Value { return &s.tlsCert },
		},
		{
			Name: "tls-key", PlaceHolder: "FILE", Help: "PEM file with the key to that certificate.",
			value: func(s *Settings) *Value { return &s.tlsKey },
		},
		{
			Name: "sasl-mechanism", PlaceHolder: "NAME", Help: "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER.",
			form:  form{choices: []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}},
			value: func(s *Settings) *Value { return &s.saslMechanism },
		},
		{
			Name: "sasl-username", PlaceHolder: "NAME", Help: "User name for SASL. With --sasl-token-url the id of " +
				"the client.",
			value: func(s *Settings) *Value { return &s.saslUsername },
		},
		{
			Name: "sasl-password", PlaceHolder: "PASSWORD", Help: "Password for SASL. Better in the environment than " +
				"as a flag, which everybody on the machine can see.",
			value: func(s *Settings) *Value { return &s.saslPassword }, logged: loggedNever, secret: true,
		},
		{
			Name: "sasl-password-file", PlaceHolder: "FILE", Help: "File to read that password from, at each " +
				"connection.",
			value: func(s *Settings) *Value { return &s.saslPasswordFile },
		},
	}
	rows = append(rows, tokenRows()...)
	for i := range rows {
		rows[i].Group, rows[i].Commands = "kafka", withKafka|Migrate // for the topic of a journal
	}
	return append(rows, sessionRow(), Setting{
		Name: "group", Group: "kafka", Commands: Run | Operate, PlaceHolder: "NAME",
		Help: "Consumer group; all nodes of a service share one.", Default: defaultGroup,
		value:  func(s *Settings) *Value { return &s.group },
		logged: loggedAlways, inForce: func(c *Config) any { return c.Group },
	})
}

// The bounds of session-timeout: a beat is a quarter of it, and the most is what brokers allow by default.
const (
	minSession = time.Second
	maxSession = 30 * time.Minute

	allowedSession = "1s to 30m"
)

// sessionRow is the setting for how soon the partitions of a node that was killed go to others.
func sessionRow() Setting {
	return Setting{
		Name: "session-timeout", Group: "kafka", Commands: Run, PlaceHolder: "TIME",
		Default: kafka.DefaultSessionTimeout.String(), Allowed: allowedSession,
		Help: "How long the consumer group waits for a node that is silent, before others get its partitions: what " +
			"is submitted to them meanwhile is late by that. Less than 6s needs brokers whose " +
			"group.min.session.timeout.ms allows it.",
		form: form{time: true}, value: func(s *Settings) *Value { return &s.sessionTimeout },
		logged: loggedAlways, inForce: func(c *Config) any { return c.SessionTimeout.String() },
	}
}

// session sets how long the consumer group waits for a silent node.
func (s *Settings) session(config *Config) error {
	config.SessionTimeout = kafka.DefaultSessionTimeout
	if err := s.sessionTimeout.Duration(&config.SessionTimeout); err != nil {
		return err
	}
	if t := config.SessionTimeout; t < minSession || t > maxSession {
		return s.sessionTimeout.Wrong("it must be from " + allowedSession)
	}
	return nil
}

func storeRows() []Setting {
	return []Setting{
		{
			Name: "store", Group: "store", Commands: withStore, PlaceHolder: placeURL,
			Help: "postgres://USER@HOST/DATABASE; sqlite:FILE for a single node; or journal:TOPIC, in Kafka itself " +
				"(docs/JOURNAL.md), with several input topics journal:INPUT=TOPIC,INPUT=TOPIC.",
			value:  func(s *Settings) *Value { return &s.store },
			logged: loggedAlways, inForce: func(c *Config) any { return c.Store.String() },
		},
		{
			Name: "store-password-file", Group: "store", Commands: withStore, PlaceHolder: "FILE",
			Help:  "File to read the password of the Postgres user from, at each connection.",
			value: func(s *Settings) *Value { return &s.storePasswordFile },
		},
		{
			Name: "pgbouncer", Group: "store", Commands: withStore, form: form{toggle: true},
			Help: "The URL leads to a PgBouncer that pools transactions. To migrate, use the URL of the server " +
				"itself.",
			value: func(s *Settings) *Value { return &s.pgBouncer },
		},
		{
			Name: "migrate", Group: "store", Commands: Run, form: form{toggle: true},
			Help: "Create or update the schema at the start, or create the topic of a journal. Without it an " +
				"out-of-date schema is an error.",
			value: func(s *Settings) *Value { return &s.migrate },
		},
		{
			Name: "data-dir", Group: "store", Commands: Run | Examine, PlaceHolder: "FOLDER",
			Help: "Where a node whose store is a journal keeps its local copy. Each node has a folder of its own; " +
				"one that is lost is made anew.",
			value: func(s *Settings) *Value { return &s.dataDir },
		},
		{
			Name: "standby", Group: "store", Commands: Run, form: form{toggle: true},
			Help: "Keep warm copies of what other nodes own of the journal, in the data folder, so that this node " +
				"takes over in seconds, whatever waits. Its disk holds all of the journal then, and Kafka sends it " +
				"all that is written there.",
			value: func(s *Settings) *Value { return &s.standby },
		},
	}
}

func topicRows() []Setting {
	const topicName = "1 to 249 letters, digits, dots, underscores and hyphens"
	rows := []Setting{
		{
			Name: "input-topic", PlaceHolder: "TOPIC", Help: "Where submissions are read from.", Default: DefaultInput,
			Allowed: topicName, form: form{topic: true},
			value: func(s *Settings) *Value { return &s.inputTopic }, logged: loggedNever,
		},
		{
			Name: "output-topic", PlaceHolder: "TOPIC", Help: "Where messages appear at their deadline.",
			Default: DefaultOutput, Allowed: topicName + "; or http:NAME, a callback lane", logged: loggedNever,
			form: form{topic: true, lane: true}, value: func(s *Settings) *Value { return &s.outputTopic },
		},
		{
			Name: "dead-letter-topic", PlaceHolder: "TOPIC",
			Help: "Where rejected records go. Default none: they are logged and dropped. For more than one input " +
				"topic see the key routes of the file.",
			Allowed: topicName, form: form{topic: true, empty: true},
			value: func(s *Settings) *Value { return &s.deadLetterTopic }, logged: loggedNever,
		},
		{
			Name: "outcome-topic", PlaceHolder: "TOPIC",
			Help: "Where nodes tell what became of an instruction: to cancel, reschedule, replace or fire a " +
				"message. Default none: instructions act, and nobody is told. The commands that send instructions " +
				"look there for outcomes; for them the default is the outcomes of the route in the file, or " +
				DefaultOutcomes + ".",
			Allowed: topicName, form: form{topic: true, empty: true},
			value: func(s *Settings) *Value { return &s.outcomeTopic }, logged: loggedNever,
		},
		{
			Name: "targets", PlaceHolder: "TOPIC,...",
			Help: "Further output topics, of which a record may name one in its header chronosTopic. Default none: " +
				"all messages appear on the output topic.",
			Allowed: "topics or callback lanes (http:NAME), with commas between; a * at the end: all that begin so",
			form:    form{topics: true}, value: func(s *Settings) *Value { return &s.targets }, logged: loggedNever,
		},
		compressionRow(),
		{
			Name: "relay-headers", PlaceHolder: "NAME,...", Help: "Which of the headers that a record asks by, such " +
				"as chronosMessageId and chronosDeadline, stay on the message. Default none. All others always do.",
			Allowed: "some of " + strings.Join(node.RequestHeaders(), ", "),
			value:   func(s *Settings) *Value { return &s.relayHeaders },
		},
		{
			Name: "epoch-deadlines", PlaceHolder: "UNIT", Default: "reject",
			Help:  "How to read a deadline that is a bare number: reject, seconds or milliseconds since 1970.",
			form:  form{choices: []string{"reject", "seconds", "milliseconds"}},
			value: func(s *Settings) *Value { return &s.epochDeadlines },
		},
		{
			Name: "create-topics", form: form{toggle: true},
			Help:  "Create topics that are missing, those of targets with a * too. Without it nodes wait for them.",
			value: func(s *Settings) *Value { return &s.createTopics },
		},
		{
			Name: "create-partitions", PlaceHolder: "N", Allowed: "a number from 1 to 10000",
			Help:  "Partitions of the topics it creates. Default what the broker says.",
			value: func(s *Settings) *Value { return &s.createPartitions },
		},
	}
	for i := range rows {
		rows[i].Group, rows[i].Commands = "topics", Run
		if rows[i].form.topic || rows[i].form.topics { // which topics there are
			rows[i].Commands |= Operate
		}
		rows[i].sharedTopic()
	}
	return rows
}

// sharedTopic adds the commands that take a setting of topics besides nodes.
func (s *Setting) sharedTopic() {
	s.Commands |= map[string]Command{
		"input-topic": Migrate, "outcome-topic": Submit | Cancel, "targets": Dev, "compression": Operate,
		"epoch-deadlines": Dev,
	}[s.Name]
	s.Reads = map[string]Command{
		"input-topic": Submit | Cancel | Client, "output-topic": Submit | Cancel | Client,
		"targets": Submit | Cancel | Client, "dead-letter-topic": Client, "epoch-deadlines": Submit | Client,
	}[s.Name]
}

func timingRows() []Setting {
	preset := node.Default()
	rows := []Setting{
		{
			Name: "timing-advance", field: "TimingAdvance", form: form{time: true, auto: true},
			Help: "How long before its deadline a message is published, for the way to Kafka; or auto, to measure " +
				"that.",
			time: func(c *node.Config) *time.Duration { return &c.TimingAdvance }, Allowed: "0s to 10s, or auto",
			value: func(s *Settings) *Value { return &s.timingAdvance },
			inForce: func(c *Config) any {
				if c.Node.AdaptiveAdvance {
					return "auto"
				}
				return c.Node.TimingAdvance.String()
			},
		},
		{
			Name: "hold-time", field: "HoldTime",
			Help: "How long a node may hold a message that it is about to publish before others take it for dead.",
			time: func(c *node.Config) *time.Duration { return &c.HoldTime }, Allowed: "2.5s to 1h",
			value: func(s *Settings) *Value { return &s.holdTime },
		},
		{
			Name: "poll-interval", field: "PollInterval", Help: "How often to look for messages that fall due.",
			time:    func(c *node.Config) *time.Duration { return &c.PollInterval },
			Allowed: "1ms to a fifth of hold-time",
			value:   func(s *Settings) *Value { return &s.pollInterval },
		},
		{
			Name: "idle-interval", field: "IdleInterval",
			Help: "How often to look at least, while nothing is due and nothing is heard of. On Postgres a node " +
				"listens for what other processes store, on a connection of its own, and rests only while it hears.",
			time:    func(c *node.Config) *time.Duration { return &c.IdleInterval },
			Allowed: "0s for poll-interval, or poll-interval to 10s",
			value:   func(s *Settings) *Value { return &s.idleInterval },
		},
		{
			Name: "detection-interval", field: "DetectionInterval",
			Help: "How often to look for nodes that have failed.",
			time: func(c *node.Config) *time.Duration { return &c.DetectionInterval }, Allowed: "10ms to 1h",
			value: func(s *Settings) *Value { return &s.detectionInterval },
		},
		{
			Name: "lookahead", field: "Lookahead", Help: "How long before it falls due a message is claimed.",
			time:    func(c *node.Config) *time.Duration { return &c.Lookahead },
			Allowed: "0s to less than a fifth of hold-time",
			value:   func(s *Settings) *Value { return &s.lookahead },
		},
		{
			Name: "leave-after", field: "LeaveAfter", Help: "How long the store may be out of reach before this node " +
				"leaves its partitions to others.",
			time: func(c *node.Config) *time.Duration { return &c.LeaveAfter }, Allowed: "1s to 1h",
			value: func(s *Settings) *Value { return &s.leaveAfter },
		},
	}
	for i := range rows {
		row := &rows[i]
		row.Group, row.Commands, row.PlaceHolder, row.form.time = "timing", Run, "TIME", true
		if row.Name == "hold-time" { // how long nothing fires after a rewind
			row.Commands |= Operate
		}
		row.Default, row.logged = row.time(&preset).String(), loggedAlways
		if row.inForce == nil {
			row.inForce = func(c *Config) any { return row.time(&c.Node).String() }
		}
	}
	return rows
}

func logRows() []Setting {
	return []Setting{
		{
			Name: "log-level", Group: "logging", Commands: Run | Dev, PlaceHolder: "LEVEL",
			Help: "debug, info, warn or error.", Default: "info", DevDefault: "warn",
			form:  form{choices: []string{"debug", "info", "warn", "error"}},
			value: func(s *Settings) *Value { return &s.logLevel },
		},
		{
			Name: "log-format", Group: "logging", Commands: Run, PlaceHolder: "FORMAT",
			Help: "text, json, or auto: text on a terminal and json elsewhere.", Default: "auto",
			form:  form{choices: []string{"text", "json", "auto"}},
			value: func(s *Settings) *Value { return &s.logFormat },
		},
	}
}
