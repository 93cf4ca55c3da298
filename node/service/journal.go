package service

import (
	"cmp"
	"context"
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

// Journal is a store in Kafka: a compacted topic, or one for each of several input topics, and a folder for the local
// copy of what a node owns of them.
type Journal struct {
	// Topic is the compacted topic, on the cluster of Kafka.
	Topic string
	Kafka kafka.Connection

	// Input is the first input topic, and Group the consumer group, that the journal belongs to.
	Input, Group string

	// Compression is that of the transactions in which messages of the first input topic come out.
	Compression kafka.Compression

	// More are the topics of further input topics, in the order of the routes.
	More []JournalTopic

	// Dir is the folder of the local copy; empty for whoever only looks at the topic.
	Dir string

	// Standby has a node keep copies of what other nodes own.
	Standby bool

	// Writers begins the transactional ids, in place of the name of the topic; empty for that. Nodes with different
	// ones do not fence each other: the laboratory breaks a node so.
	Writers string
}

const (
	// journalRetention is how long the topic keeps tombstones at least: twice as long as a local copy may have been
	// away that is caught up.
	journalRetention = 2 * time.Hour

	// journalSpacing bounds how long a transaction of a partition rests: less than anybody minds who waits for a
	// deadline, and enough for hundreds of messages to share one where brokers are busy.
	journalSpacing = 20 * time.Millisecond

	// journalBatch is how many messages a call has at most. A take of four partitions is four transactions, each of as
	// many messages as come to its share, and a transaction costs as much as hundreds of messages.
	journalBatch = 2000

	// journalAlone says that nothing else may be in the topic: whoever reads a record there that is no entry owns the
	// partition no more.
	journalAlone = "the journal must be a topic of its own, where nothing else is read or written"

	// journalForm says how such a store is named.
	journalForm = "it must be journal:TOPIC, such as journal:chronos.journal: "
)

// InJournal returns the store that is a journal in Kafka.
func InJournal(j Journal) Target { return Target{journal: &j} }

// IsJournal reports whether the store is a journal in Kafka, of which each node has its own part.
func (t *Target) IsJournal() bool { return t.journal != nil }

// journal returns the store that is a journal of that topic, or of those topics.
func (s *Settings) journal(topic string) (Target, error) {
	if !strings.Contains(topic, "=") && !node.IsTopic(topic) {
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
	topics, err := s.readJournal(topic)
	if err != nil {
		return Target{}, err
	}
	j := Journal{
		Topic: topics[0].Topic, Input: topics[0].Input, Compression: topics[0].Compression, More: topics[1:],
		Dir: s.dataDir.Text, Standby: s.standby.on(),
	}
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
	for _, letters := range config.Node.Callbacks.DeadLetters() {
		isTopic := func(t JournalTopic) bool { return t.Topic == letters }
		if slices.ContainsFunc(config.Store.journal.Topics(), isTopic) {
			return s.store.Wrong(journalAlone)
		}
	}
	for _, listens := range []*Value{&s.metaswitchListen, &s.horaeListen} {
		if listens.IsSet {
			return Usagef("%s is set, and %s is a journal in Kafka, which takes messages in through the input topic "+
				"only: leave it out, or use a database", listens.Origin, s.store.Origin)
		}
	}
	if err := s.journalInputsFit(config); err != nil {
		return err
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

	ledger  *kafka.Ledger        // of the first topic
	parts   []*journalPart       // all of them, in the order of the input topics
	observe func(journal.Replay) // nil for nobody; set before anything is owned
}

// journalPart is one of the topics of a journal.
type journalPart struct {
	JournalTopic

	ledger *kafka.Ledger
}

// Topics returns all topics of a journal, in the order of the input topics.
func (j *Journal) Topics() []JournalTopic {
	return append([]JournalTopic{{Topic: j.Topic, Input: j.Input, Compression: j.Compression}}, j.More...)
}

// connect makes the ledgers of a journal. It connects to nothing yet.
func (j *Journal) connect() (*opened, error) {
	o := &opened{Journal: j}
	for _, t := range j.Topics() {
		log, err := kafka.NewLedger(kafka.LedgerConfig{
			Connection: j.Kafka, Topic: t.Topic, Name: cmp.Or(j.Writers, t.Topic), Compression: t.Compression,
		})
		if err != nil {
			o.disconnect()
			return nil, err
		}
		o.parts = append(o.parts, &journalPart{t, log})
	}
	o.ledger = o.parts[0].ledger
	return o, nil
}

// disconnect closes the ledgers.
func (o *opened) disconnect() {
	for _, part := range o.parts {
		part.ledger.Close()
	}
}

// log returns the ledger of all topics, and the names of their input topics if there are several.
func (o *opened) log() (all ledger.Ledger, inputs []string) {
	if len(o.parts) == 1 {
		return o.ledger, nil
	}
	var several ledger.Several
	for _, part := range o.parts {
		several, inputs = append(several, part.ledger), append(inputs, part.Input)
	}
	return several, inputs
}

// open opens the journal, which need not be there, and its local copy, if there is to be one.
func (j *Journal) open() (*Store, error) {
	o, err := j.connect()
	if err != nil {
		return nil, err
	}
	if j.Dir == "" {
		return &Store{journal: o, close: func() error {
			o.disconnect()
			return nil
		}}, nil
	}
	log, inputs := o.log()
	store, err := journal.Open(journal.Config{
		Ledger: log, Inputs: inputs, Dir: j.Dir, Now: time.Now, MaxAge: journalRetention / 2, Group: j.Group,
		Spacing: journalSpacing,
		Observe: func(r journal.Replay) {
			if o.observe != nil {
				o.observe(r)
			}
		},
	})
	if err != nil {
		o.disconnect()
		return nil, err // a *journal.DiskError, or a *journal.FolderError
	}
	return &Store{Store: store, journal: o, close: func() error {
		err := store.Close()
		o.disconnect()
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

// check returns nil if all topics are as they have to be, and whether an error is what Kafka has said.
func (o *opened) check(ctx context.Context) (answered bool, err error) {
	for _, part := range o.parts {
		_, problems, err := part.look(ctx)
		if err != nil {
			return false, err
		}
		if len(problems) > 0 {
			return true, &JournalError{Topic: part.Topic, JournalProblem: problems[0]}
		}
	}
	return true, nil
}

// look returns the first topic, and what is wrong with it, the worst first.
func (o *opened) look(ctx context.Context) (topic kafka.LedgerTopic, problems []JournalProblem, err error) {
	return o.parts[0].look(ctx)
}

// look returns the topic, and what is wrong with it, the worst first.
func (o *journalPart) look(ctx context.Context) (topic kafka.LedgerTopic, problems []JournalProblem, err error) {
	if topic, err = o.ledger.Topic(ctx); err != nil {
		return topic, nil, err
	}
	inputs, err := o.ledger.Partitions(ctx, o.Input)
	if err != nil {
		return topic, nil, err
	}
	return topic, o.problems(&topic, inputs), nil
}

// Examine looks at the topics of the journal. It returns what they are like in a few words, and what is wrong with
// them.
func (j *Journal) Examine(ctx context.Context) (said string, problems []*JournalError, err error) {
	o, err := j.connect()
	if err != nil {
		return "", nil, err
	}
	defer o.disconnect()
	var topics []string
	for _, part := range o.parts {
		topic, wrong, err := part.look(ctx)
		topics = append(topics, fmt.Sprintf("topic %s with %d partitions", part.Topic, topic.Partitions))
		if err != nil {
			return "a journal in Kafka, " + strings.Join(topics, ", "), problems, err
		}
		for _, p := range wrong {
			problems = append(problems, &JournalError{part.Topic, p})
		}
	}
	return "a journal in Kafka, " + strings.Join(topics, ", "), problems, nil
}

// Journal returns the journal that the store is; nil if it is none.
func (t *Target) Journal() *Journal { return t.journal }

// problems judges a topic.
func (o *journalPart) problems(topic *kafka.LedgerTopic, inputs int32) []JournalProblem {
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
func (o *journalPart) durability(topic *kafka.LedgerTopic) (problems []JournalProblem) {
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
func (o *journalPart) sizes(topic *kafka.LedgerTopic) (problems []JournalProblem) {
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
// small, and end soon, so that compaction keeps up with what has come out: the first node reads all that is left. The
// brokers compress what is in it, because nodes compress their transactions for whoever reads what comes out.
func JournalSettings(replicas int) []string {
	settings := []string{
		"cleanup.policy=compact", "unclean.leader.election.enable=false", "delete.retention.ms=86400000",
		"min.cleanable.dirty.ratio=0.2", "segment.bytes=134217728", "segment.ms=3600000", "compression.type=lz4",
	}
	if replicas >= 3 {
		settings = append(settings, "min.insync.replicas=2")
	}
	return settings
}

// create creates the topics that are not there, and returns what it has done.
func (o *opened) create(ctx context.Context) (made []migrations.Migration, err error) {
	for _, part := range o.parts {
		one, err := part.create(ctx)
		if made = append(made, one...); err != nil {
			return made, err
		}
	}
	_, err = o.check(ctx)
	return made, err
}

// create creates the topic if it is not there, and returns what it has done.
func (o *journalPart) create(ctx context.Context) (made []migrations.Migration, err error) {
	topic, err := o.ledger.Topic(ctx)
	if err != nil {
		return nil, err
	}
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
	return made, nil
}
