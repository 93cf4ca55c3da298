package service

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/ledger"
)

// JournalTopic is a compacted topic, and the input topic whose messages wait in it. Each input topic has one.
type JournalTopic struct {
	Topic, Input string

	// Compression is that of the transactions in which its messages come out.
	Compression kafka.Compression
}

// named returns how a store names the topics of a journal.
func (j *Journal) named() string {
	if len(j.More) == 0 {
		return j.Topic
	}
	var pairs []string
	for _, t := range j.Topics() {
		pairs = append(pairs, t.Input+"="+t.Topic)
	}
	return strings.Join(pairs, ",")
}

// readJournal returns the topics that a store names, in the order of the input topics. A name alone is that of a single
// input topic. Where there are several, each is named with its journal, whatever the others are called: so no input
// topic ever gets a journal by a rule, which would be another one, and empty, when the rule is applied to more of them
//
//	journal:orders.journal                                             one input topic
//	journal:orders.in=orders.journal,payments.in=payments.journal      two of them
//
// and a deployment that began with one input topic has to say whose journal that was.
func (s *Settings) readJournal(text string) ([]JournalTopic, error) {
	routes, origin, err := s.routes()
	if err != nil {
		return nil, err
	}
	var topics []JournalTopic
	if !strings.Contains(text, "=") {
		if !node.IsTopic(text) {
			return nil, s.store.Wrong(journalForm + topicForm)
		}
		if len(routes) != 1 {
			return nil, Usagef("%s has %d input topics, and %s names one journal: name that of each, as in "+
				"journal:%s=TOPIC,%s=TOPIC; %s belongs to the input topic that it was made for", origin, len(routes),
				s.store.Origin, routes[0].Input, routes[1].Input, text)
		}
		topics = []JournalTopic{{Topic: text, Input: routes[0].Input}}
	} else if topics, err = s.namedJournals(text, routes, origin); err != nil {
		return nil, err
	}
	for i := range topics {
		if slices.ContainsFunc(routes, func(r node.Route) bool {
			return slices.Contains(r.Topics(), topics[i].Topic) || r.Finds(topics[i].Topic)
		}) {
			return nil, s.store.Wrong(journalAlone)
		}
		if topics[i].Compression, err = s.routeCompression(i); err != nil {
			return nil, err
		}
	}
	return topics, nil
}

// namedJournals reads the form in which each input topic is named with its journal.
func (s *Settings) namedJournals(text string, routes []node.Route, origin string) ([]JournalTopic, error) {
	named := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		input, topic, _ := strings.Cut(pair, "=")
		if !node.IsTopic(input) || !node.IsTopic(topic) {
			return nil, s.store.Wrong("it must be journal:INPUT=TOPIC,INPUT=TOPIC: " + topicForm)
		}
		if named[input] != "" {
			return nil, s.store.Wrong("it names the input topic " + input + " twice")
		}
		for other, same := range named {
			if same == topic {
				return nil, s.store.Wrong(fmt.Sprintf("the input topics %s and %s must have a journal each, and not "+
					"%s together", min(input, other), max(input, other), topic))
			}
		}
		named[input] = topic
	}
	var topics []JournalTopic
	for _, r := range routes {
		topic := named[r.Input]
		if topic == "" {
			return nil, Usagef("%s names no journal for the input topic %s, which %s has: add %s=TOPIC", s.store.Origin,
				r.Input, origin, r.Input)
		}
		delete(named, r.Input)
		topics = append(topics, JournalTopic{Topic: topic, Input: r.Input})
	}
	for _, input := range slices.Sorted(maps.Keys(named)) {
		return nil, Usagef("%s names a journal for the input topic %s, which %s has not: nothing of it would fire; "+
			"keep the route until all of it has come out", s.store.Origin, input, origin)
	}
	return topics, nil
}

// journalInputsFit returns an error for what several input topics with a journal each can't have. The messages of a
// line lie in one partition of one journal (ADR 30): those of a key that come in through two input topics would be two
// lines.
func (s *Settings) journalInputsFit(config *Config) error {
	routes := config.Node.Routes
	for _, r := range routes {
		if s.apiListen.IsSet && r.Format != node.FormatChronos {
			return Usagef("%s is set, and %s is a journal in Kafka, for which messages by HTTP are records of the "+
				"input topic, of which the format is %s: leave it out, use the format chronos, or a database",
				s.apiListen.Origin, s.store.Origin, r.Format)
		}
	}
	calls := 0
	for _, r := range routes {
		if slices.ContainsFunc(append(r.Outputs(), r.Targets...), node.IsCallback) {
			calls++
		}
	}
	ordered := config.Node.Callbacks.Others.Ordered ||
		slices.ContainsFunc(config.Node.Callbacks.Lanes, func(l node.CallbackLane) bool { return l.Ordered })
	if ordered && calls > 1 {
		return Usagef("%s has a lane with order: key, %d input topics lead to callback lanes, and %s is a journal for "+
			"each of them, which does not know the messages of the others: set order: none, have one input topic "+
			"lead to callback lanes, or use a database", s.file.lanesOrigin, calls, s.store.Origin)
	}
	return nil
}

// inputSenders are journal.Sender on the input topics, in the order of the routes, and journal.Poster on the journals,
// in the same order.
type inputSenders struct {
	routes  []node.Route // nil for those of journals
	senders []*kafka.Sender
}

// openSenders opens a sender on a topic of each part of a journal.
func (o *opened) openSenders(routes []node.Route, topic func(JournalTopic) string) (*inputSenders, error) {
	s := &inputSenders{routes: routes}
	for _, part := range o.parts {
		one, err := part.ledger.NewSender(topic(part.JournalTopic))
		if err != nil {
			s.Close()
			return nil, err
		}
		s.senders = append(s.senders, one)
	}
	return s, nil
}

// Partition implements journal.Sender. Messages of a lane by HTTP come in through the first input topic that leads
// there; where none does, the first one refuses them.
func (s *inputSenders) Partition(ctx context.Context, lane string, key []byte) (int32, error) {
	at := max(0, slices.IndexFunc(s.routes, func(r node.Route) bool {
		return slices.Contains(r.Outputs(), lane) || r.Finds(lane)
	}))
	number, err := s.senders[at].Partition(ctx, key)
	return ledger.Number(at, number), err
}

// Send implements journal.Sender and journal.Poster.
func (s *inputSenders) Send(ctx context.Context, number int32, record node.Record) error {
	at, there := ledger.Split(number)
	return s.senders[at].Send(ctx, there, record)
}

// Close closes the connections.
func (s *inputSenders) Close() {
	for _, one := range s.senders {
		one.Close()
	}
}

// partition says in a log which partition of the journal something is about.
func (o *opened) partition(number int32) slog.Attr {
	at, there := ledger.Split(number)
	if len(o.parts) < 2 {
		return slog.Int("partition", int(there))
	}
	return slog.String("partition", fmt.Sprintf("%s/%d", o.parts[at].Topic, there))
}
