package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// Journal is a store in Kafka: a compacted topic, and a folder for the local copy of what a node owns of it.
type Journal struct {
	// Topic is the compacted topic, on the cluster of Kafka.
	Topic string
	Kafka kafka.Connection

	// Input is the one input topic, and Group the consumer group, that the journal belongs to.
	Input, Group string

	// Dir is the folder of the local copy; empty for whoever only looks at the topic.
	Dir string

	// Standby has a node keep copies of what other nodes own.
	Standby bool
}

const (
	// journalSession is how long the consumer group waits for a node with a journal that is silent.
	journalSession = 6 * time.Second

	// journalRetention is how long the topic keeps tombstones at least: twice as long as a local copy may have been
	// away that is caught up.
	journalRetention = 2 * time.Hour

	// journalSpacing is the shortest time between two transactions of a partition: less than anybody minds who waits
	// for a deadline, and enough for hundreds of messages to share one.
	journalSpacing = 20 * time.Millisecond

	// journalForm says how such a store is named.
	journalForm = "it must be journal:TOPIC, such as journal:chronos.journal: "
)

// InJournal returns the store that is a journal in Kafka.
func InJournal(j Journal) Target { return Target{journal: &j} }

// IsJournal reports whether the store is a journal in Kafka, of which each node has its own part.
func (t *Target) IsJournal() bool { return t.journal != nil }

// journal returns the store that is a journal of that topic.
func (s *Settings) journal(topic string) (Target, error) {
	if !node.IsTopic(topic) {
		return Target{}, s.store.Wrong(journalForm + topicForm)
	}
	for _, useless := range []*Value{&s.storePasswordFile, &s.pgBouncer} {
		if useless.IsSet && useless.Text != "false" {
			return Target{}, Usagef("%s is set, but %s is a journal in Kafka, which is reached as the brokers say",
				useless.Origin, s.store.Origin)
		}
	}
	if s.withoutKafka() {
		return Target{}, Usagef("%s is a journal in Kafka, and there is no Kafka: set --brokers", s.store.Origin)
	}
	routes, origin, err := s.routes()
	if err != nil {
		return Target{}, err
	}
	if len(routes) != 1 {
		return Target{}, Usagef("%s has %d input topics, and %s is a journal, of which each partition belongs to one "+
			"of a single input topic: give each of them nodes and a journal of its own", origin, len(routes),
			s.store.Origin)
	}
	if slices.Contains(routes[0].Topics(), topic) || routes[0].Finds(topic) {
		return Target{}, s.store.Wrong("the journal must be a topic of its own, where nothing else is read or written")
	}
	j := Journal{Topic: topic, Input: routes[0].Input, Dir: s.dataDir.Text, Standby: s.standby.on()}
	if j.Kafka, err = s.Connection(); err != nil {
		return Target{}, err
	}
	j.Group, err = s.groupName()
	return InJournal(j), err
}

// journalFits returns an error for settings that ask for what a journal can't do, or for one where there is none.
func (s *Settings) journalFits(config *Config) error {
	if !config.Store.IsJournal() {
		if s.dataDir.IsSet {
			return Usagef("%s is set, but %s is no journal in Kafka: it is for the local copy of one",
				s.dataDir.Origin, s.store.Origin)
		}
		if s.standby.on() {
			return Usagef("%s is set, but %s is no journal in Kafka: it is for the local copies of one",
				s.standby.Origin, s.store.Origin)
		}
		return nil
	}
	for _, listens := range []*Value{&s.metaswitchListen, &s.horaeListen} {
		if listens.IsSet {
			return Usagef("%s is set, and %s is a journal in Kafka, which takes messages in through the input topic "+
				"only: leave it out, or use a database", listens.Origin, s.store.Origin)
		}
	}
	if format := config.Node.Routes[0].Format; s.apiListen.IsSet && format != node.FormatChronos {
		return Usagef("%s is set, and %s is a journal in Kafka, for which messages by HTTP are records of the input "+
			"topic, of which the format is %s: leave it out, use the format chronos, or a database", s.apiListen.Origin,
			s.store.Origin, format)
	}
	if !s.apiListen.IsSet {
		return nil
	}
	lanes := append(slices.Clone(config.Node.Callbacks.Lanes), config.Node.Callbacks.Others)
	for i := range lanes {
		if lanes[i].Ordered {
			return Usagef("%s has a lane with order: key, %s is set, and %s is a journal in Kafka, in which a message "+
				"by HTTP is in the partition of its id, and not of its key: set order: none, leave %s out, or use a "+
				"database", s.file.lanesOrigin, s.apiListen.Origin, s.store.Origin, s.apiListen.Origin)
		}
	}
	return nil
}

// session returns how long the consumer group waits for a silent node; 0 for the default of the source.
func (t *Target) session() time.Duration {
	if t.IsJournal() {
		return journalSession
	}
	return 0
}

// folder returns an error if the store is a journal, and it is not said where its local copy is.
func (t *Target) folder() error {
	if t.IsJournal() && t.journal.Dir == "" {
		return Usagef("--data-dir is not set: a node whose store is a journal needs a folder for its local copy, " +
			"such as /var/lib/chronos")
	}
	return nil
}

// opened is a journal that was opened.
type opened struct {
	*Journal

	ledger  *kafka.Ledger
	observe func(journal.Replay) // nil for nobody; set before anything is owned
}

// open opens the journal, which need not be there, and its local copy, if there is to be one.
func (j *Journal) open() (*Store, error) {
	log, err := kafka.NewLedger(kafka.LedgerConfig{Connection: j.Kafka, Topic: j.Topic, Name: j.Topic})
	if err != nil {
		return nil, err
	}
	o := &opened{Journal: j, ledger: log}
	if j.Dir == "" {
		return &Store{journal: o, close: func() error {
			log.Close()
			return nil
		}}, nil
	}
	store, err := journal.Open(journal.Config{
		Ledger: log, Dir: j.Dir, Now: time.Now, MaxAge: journalRetention / 2, Group: j.Group,
		Spacing: journalSpacing,
		Observe: func(r journal.Replay) {
			if o.observe != nil {
				o.observe(r)
			}
		},
	})
	if err != nil {
		log.Close()
		if _, is := errors.AsType[*journal.DiskError](err); is {
			return nil, err
		}
		return nil, fmt.Errorf("%w: --data-dir must be a folder that belongs to this node alone", err)
	}
	return &Store{Store: store, journal: o, close: func() error {
		err := store.Close()
		log.Close()
		return err
	}}, nil
}

// JournalError says that the topic of a journal is not as it has to be.
type JournalError struct {
	Topic string
	JournalProblem
}

// Error returns the sentence for a person.
func (e *JournalError) Error() string {
	return fmt.Sprintf("the journal %s %s: %s; %s", e.Topic, e.Says, e.Means, e.Do)
}

// JournalProblem is something about the topic of a journal that is not as it has to be: what is the case, why that
// matters, and what to do.
type JournalProblem struct{ Says, Means, Do string }

// check returns nil if the topic is as it has to be, and whether an error is what Kafka has said.
func (o *opened) check(ctx context.Context) (answered bool, err error) {
	_, problems, err := o.look(ctx)
	if err != nil || len(problems) == 0 {
		return err == nil, err
	}
	return true, &JournalError{Topic: o.Topic, JournalProblem: problems[0]}
}

// look returns the topic, and what is wrong with it, the worst first.
func (o *opened) look(ctx context.Context) (topic kafka.LedgerTopic, problems []JournalProblem, err error) {
	if topic, err = o.ledger.Topic(ctx); err != nil {
		return topic, nil, err
	}
	inputs, err := o.ledger.Partitions(ctx, o.Input)
	if err != nil {
		return topic, nil, err
	}
	return topic, o.problems(&topic, inputs), nil
}

// Examine looks at the topic of the journal. It returns what it is like in a few words, and what is wrong with it.
func (j *Journal) Examine(ctx context.Context) (said string, problems []JournalProblem, err error) {
	only := *j
	only.Dir = ""
	store, err := only.open()
	if err != nil {
		return "", nil, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	topic, problems, err := store.journal.look(ctx)
	return fmt.Sprintf("a journal in Kafka, topic %s with %d partitions", j.Topic, topic.Partitions), problems, err
}

// Journal returns the journal that the store is; nil if it is none.
func (t *Target) Journal() *Journal { return t.journal }

// problems judges a topic.
func (o *opened) problems(topic *kafka.LedgerTopic, inputs int32) []JournalProblem {
	switch {
	case inputs == 0:
		return []JournalProblem{{
			"has no input topic " + o.Input, "it has as many partitions as that", "create the input topic first",
		}}
	case topic.Partitions == 0:
		return []JournalProblem{{
			"does not exist", "there is nowhere to keep messages",
			"\"chronos migrate up\" creates it, and so does a node with --migrate",
		}}
	case topic.Partitions != inputs:
		return []JournalProblem{{
			fmt.Sprintf("has %d partitions, and its input topic %s has %d", topic.Partitions, o.Input, inputs),
			"each partition of the input needs its own one in the journal, and what waits under a key would not " +
				"follow that to another partition",
			"do not add partitions: give a new input topic a journal of its own, and let the old one run empty",
		}}
	}
	return slices.Concat(o.durability(topic), o.sizes(topic))
}

// durability judges whether Kafka keeps what it was given.
func (o *opened) durability(topic *kafka.LedgerTopic) (problems []JournalProblem) {
	if policy, seen := topic.Settings["cleanup.policy"]; seen && policy != "compact" {
		problems = append(problems, JournalProblem{
			"has cleanup.policy=" + policy, "messages would be deleted while they wait",
			"set cleanup.policy=compact, and nothing else, on the topic",
		})
	}
	if topic.Settings["unclean.leader.election.enable"] == "true" {
		problems = append(problems, JournalProblem{
			"has unclean.leader.election.enable=true", "Kafka may lose messages that it has acknowledged",
			"set unclean.leader.election.enable=false on the topic",
		})
	}
	if least, seen := number(topic.Settings["min.insync.replicas"]); seen && topic.Replicas >= 3 && least < 2 {
		problems = append(problems, JournalProblem{
			fmt.Sprintf("has min.insync.replicas=%d and %d replicas", least, topic.Replicas),
			"what a single broker has acknowledged is lost with it", "set min.insync.replicas=2 on the topic",
		})
	}
	if topic.Brokers >= 3 && topic.Replicas < 3 {
		problems = append(problems, JournalProblem{
			fmt.Sprintf("is kept on %d of %d brokers", topic.Replicas, topic.Brokers),
			"messages are lost with the disk of one broker, or wait until it is back",
			"give it three replicas, with kafka-reassign-partitions",
		})
	}
	return problems
}

// sizes judges the limits of the topic and of transactions.
func (o *opened) sizes(topic *kafka.LedgerTopic) (problems []JournalProblem) {
	if ms, seen := number(topic.Settings["delete.retention.ms"]); seen && ms < journalRetention.Milliseconds() {
		problems = append(problems, JournalProblem{
			fmt.Sprintf("has delete.retention.ms=%d", ms),
			"a node that was away for a while would not learn of messages that have come out, and fire them again",
			fmt.Sprintf("set delete.retention.ms=%d or more on the topic", journalRetention.Milliseconds()),
		})
	}
	const room = kafka.LedgerBatchBytes
	if bytes, seen := number(topic.Settings["max.message.bytes"]); seen && bytes < room {
		problems = append(problems, JournalProblem{
			fmt.Sprintf("has max.message.bytes=%d", bytes),
			fmt.Sprintf("nodes take messages of up to %d bytes in, in batches of up to %d, and could not keep them",
				ledger.MaxEntryBytes, room),
			fmt.Sprintf("set max.message.bytes=%d or more on the topic", room),
		})
	}
	if longest := topic.LongestTransaction; longest > 0 && longest < o.ledger.TransactionTimeout() {
		problems = append(problems, JournalProblem{
			fmt.Sprintf("is on brokers with transaction.max.timeout.ms=%d", longest.Milliseconds()),
			fmt.Sprintf("nodes ask for %d", o.ledger.TransactionTimeout().Milliseconds()),
			"raise it on the brokers",
		})
	}
	return problems
}

// number returns a setting of Kafka that is a number.
func number(text string) (n int64, is bool) {
	_, err := fmt.Sscan(text, &n)
	return n, err == nil
}

// JournalSettings returns the settings that the topic of a journal is created with, each as NAME=VALUE. Segments are
// small, and end soon, so that compaction keeps up with what has come out: the first node reads all that is left.
func JournalSettings(replicas int) []string {
	settings := []string{
		"cleanup.policy=compact", "unclean.leader.election.enable=false", "delete.retention.ms=86400000",
		"min.cleanable.dirty.ratio=0.2", "segment.bytes=134217728", "segment.ms=3600000",
	}
	if replicas >= 3 {
		settings = append(settings, "min.insync.replicas=2")
	}
	return settings
}

// create creates the topic if it is not there, and returns what it has done.
func (o *opened) create(ctx context.Context) ([]migrations.Migration, error) {
	topic, err := o.ledger.Topic(ctx)
	if err != nil {
		return nil, err
	}
	var made []migrations.Migration
	if topic.Partitions == 0 {
		inputs, err := o.ledger.Partitions(ctx, o.Input)
		if err != nil {
			return nil, err
		}
		if inputs == 0 {
			return nil, &JournalError{o.Topic, o.problems(&topic, inputs)[0]}
		}
		replicas := min(topic.Brokers, 3)
		if replicas < 3 {
			replicas = 1 // two of them are no safer than one, and stop with either
		}
		settings := map[string]string{}
		for _, setting := range JournalSettings(replicas) {
			name, value, _ := strings.Cut(setting, "=")
			settings[name] = value
		}
		if err := o.ledger.Create(ctx, inputs, int16(replicas), settings); err != nil {
			return nil, err
		}
		made = append(made, migrations.Migration{
			Version: 1, Name: fmt.Sprintf("topic %s with %d partitions", o.Topic, inputs),
		})
	}
	_, err = o.check(ctx)
	return made, err
}
