package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// topic is what the cluster says about a topic of the routes.
type topic struct {
	name string

	input, output, deadLetter, outcomes bool

	err        error // of the look at it
	partitions []kmsg.MetadataResponseTopicPartition
	operations []kmsg.ACLOperation

	settings  map[string]string
	noSetting error // why there are none
}

// kind names what the topic is for.
func (t *topic) kind() string {
	switch {
	case t.input:
		return "input topic " + t.name
	case t.output:
		return "output topic " + t.name
	case t.outcomes:
		return "outcome topic " + t.name
	default:
		return "dead-letter topic " + t.name
	}
}

// number returns a setting that is a number.
func (t *topic) number(setting string) (int64, bool) {
	n, err := strconv.ParseInt(t.settings[setting], 10, 64)
	return n, err == nil
}

// replicas returns how many copies there are of the partition that has the fewest.
func (t *topic) replicas() int {
	least := 0
	for i, p := range t.partitions {
		if n := len(p.Replicas); i == 0 || n < least {
			least = n
		}
	}
	return least
}

// named returns the topics of the routes in their order, each once: those that exist, unless all are wanted.
func (e *examination) named(all bool) []*topic {
	var list []*topic
	for _, r := range e.config.Node.Routes {
		for _, name := range r.Topics() {
			if t := e.topics[name]; t != nil && !slices.Contains(list, t) && (all || t.err == nil) {
				list = append(list, t)
			}
		}
	}
	return list
}

// brokers sees whether each broker answers, and over what.
func (e *examination) brokers(ctx context.Context) (string, error) {
	short, cancel := context.WithTimeout(ctx, service.AnswerTimeout) // it tries all that time while no broker answers
	defer cancel()
	if _, err := e.admin.ClusterID(short); err != nil {
		return "", remedied(err)
	}
	admin := kadm.NewClient(e.client)
	metadata, err := admin.BrokerMetadata(ctx)
	if err != nil {
		return "", remedied(err)
	}
	versions, err := admin.ApiVersions(ctx)
	if err != nil && len(versions) == 0 {
		return "", remedied(err)
	}
	version := ""
	for _, b := range metadata.Brokers {
		about := fmt.Sprintf("broker %d at %s", b.NodeID, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
		answer, asked := versions[b.NodeID]
		switch {
		case !asked || answer.Err != nil:
			reason := "it does not answer"
			if asked {
				reason = "it does not answer: " + oneLine(answer.Err)
			}
			e.find(Error, about, reason,
				"Messages of the partitions that it leads can be neither taken in nor published from here.",
				"Look at the broker. If it runs, its advertised.listeners names an address that cannot be reached "+
					"from here.")
		default:
			version = answer.VersionGuess()
		}
	}
	e.encryption("the brokers", e.config.Kafka.Brokers, e.config.Kafka.TLS != nil, "--tls, with a listener for TLS")
	if err := e.describeTopics(ctx); err != nil {
		return "", remedied(err)
	}
	return fmt.Sprintf("%s, Kafka %s", count(len(metadata.Brokers), "broker"), strings.TrimPrefix(version, "v")), nil
}

// encryption says when what leaves this machine can be read on its way.
func (e *examination) encryption(about string, addresses []string, encrypted bool, setting string) {
	if encrypted || !slices.ContainsFunc(addresses, func(address string) bool { return !isLocal(address) }) {
		return
	}
	e.find(Warning, about, "connections are not encrypted",
		"Whoever is on the network between can read and change messages, and passwords in most ways to give one.",
		"Set "+setting+", unless the network is yours alone.")
}

// isLocal reports whether an address, host:port or host, is on this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || host == "" || strings.HasPrefix(host, "/") || ip != nil && ip.IsLoopback()
}

// remedied adds what to do to an error, where it is known.
func remedied(err error) error {
	if sentence, is := kafka.Permanent(err); is {
		return fmt.Errorf("%s (%w)", strings.TrimSuffix(sentence, "."), err)
	}
	return err
}

// describeTopics asks what there is to know about the topics of the routes.
func (e *examination) describeTopics(ctx context.Context) error {
	e.topics = map[string]*topic{}
	request := kmsg.NewPtrMetadataRequest()
	request.IncludeTopicAuthorizedOperations = true
	look := func(name string) *topic {
		t := e.topics[name]
		if t == nil {
			t = &topic{name: name, settings: map[string]string{}}
			e.topics[name] = t
			asked := kmsg.NewMetadataRequestTopic()
			asked.Topic = new(name)
			request.Topics = append(request.Topics, asked)
		}
		return t
	}
	for _, name := range e.config.Node.Callbacks.DeadLetters() {
		if !node.IsCallback(name) {
			look(name).deadLetter = true
		}
	}
	for _, r := range e.config.Node.Routes {
		for _, name := range r.Topics() {
			t := look(name)
			t.input, t.output = t.input || name == r.Input, t.output || slices.Contains(r.Outputs(), name)
			t.deadLetter, t.outcomes = t.deadLetter || name == r.DeadLetter, t.outcomes || name == r.Outcomes
		}
	}
	response, err := request.RequestWith(ctx, e.client)
	if err != nil {
		return err
	}
	for _, said := range response.Topics {
		if said.Topic == nil || e.topics[*said.Topic] == nil {
			continue
		}
		t := e.topics[*said.Topic]
		t.err = kerr.ErrorForCode(said.ErrorCode)
		t.partitions, t.operations = said.Partitions, kadm.DecodeACLOperations(said.AuthorizedOperations)
	}
	e.describeSettings(ctx)
	return nil
}

// describeSettings asks for the settings of the topics, of each for itself: what is forbidden of one says nothing about
// the others.
func (e *examination) describeSettings(ctx context.Context) {
	for _, t := range e.named(false) {
		described, err := kadm.NewClient(e.client).DescribeTopicConfigs(ctx, t.name)
		if err != nil {
			t.noSetting = err
			continue
		}
		for _, resource := range described {
			t.noSetting = resource.Err
			for _, c := range resource.Configs {
				t.settings[c.Key] = c.MaybeValue()
			}
		}
	}
}

// topicsExist sees whether the topics are there, and whether somebody leads each partition.
func (e *examination) topicsExist(context.Context) (string, error) {
	exist, partitions := 0, 0
	for _, t := range e.named(true) {
		partitions += len(t.partitions)
		if t.err == nil {
			exist++
		}
		switch {
		case errors.Is(t.err, kerr.UnknownTopicOrPartition):
			do := "Create it, or start a node with --create-topics. If it exists, grant this user Describe on it."
			e.find(Error, t.kind(), "does not exist, or this user may not see it", e.missing(t), do)
		case errors.Is(t.err, kerr.TopicAuthorizationFailed): // of the check of rights
		case t.err != nil:
			e.find(Error, t.kind(), "cannot be looked at: "+oneLine(t.err), e.missing(t), "Look at the cluster.")
		}
		for _, p := range t.partitions {
			about := fmt.Sprintf("%s, partition %d", t.kind(), p.Partition)
			switch {
			case p.Leader < 0:
				e.find(Error, about, "has no leader", "Nothing can be read from it or written to it.",
					"Bring back a broker that has it.")
			case len(p.ISR) < len(p.Replicas):
				e.find(Warning, about,
					fmt.Sprintf("%d of %d replicas are in sync", len(p.ISR), len(p.Replicas)),
					"The next broker to fail may stop it.", "Look at the brokers that lag: "+lagging(p)+".")
			}
		}
	}
	e.partitionCounts()
	if exist == 0 {
		return "", &nothingError{"none exists, as far as this user may see"}
	}
	return fmt.Sprintf("%s, %s", count(exist, "topic"), count(partitions, "partition")), nil
}

// missing says what it means that a topic cannot be used.
func (e *examination) missing(t *topic) string {
	switch {
	case t.input:
		return "Nodes do not start, or take in nothing from it."
	case t.outcomes:
		return "Instructions act, and nobody is told: their outcomes wait in the store until it is there."
	}
	return "Messages for it wait in the store until it is there."
}

func lagging(p kmsg.MetadataResponseTopicPartition) string {
	var list []string
	for _, id := range p.Replicas {
		if !slices.Contains(p.ISR, id) {
			list = append(list, strconv.Itoa(int(id)))
		}
	}
	return strings.Join(list, ", ")
}

// partitionCounts compares the numbers of partitions of inputs and outputs.
func (e *examination) partitionCounts() {
	for _, r := range e.config.Node.Routes {
		for _, output := range r.Outputs() {
			in, out := e.topics[r.Input], e.topics[output]
			if in == nil || out == nil || in.err != nil || out.err != nil || len(in.partitions) == len(out.partitions) {
				continue
			}
			e.find(Note, out.kind(),
				fmt.Sprintf("has %s, and %s has %d", count(len(out.partitions), "partition"), r.Input,
					len(in.partitions)),
				"A key is in other partitions here than there: consumers that join the two topics by partition do not "+
					"find it.",
				"Nothing, unless there are such consumers.")
		}
	}
}

// rights compares what this user may do with what a node needs.
func (e *examination) rights(ctx context.Context) (string, error) {
	for _, t := range e.named(true) {
		needed := map[kmsg.ACLOperation]string{kmsg.ACLOperationRead: "Read"}
		if !t.input {
			needed = map[kmsg.ACLOperation]string{kmsg.ACLOperationWrite: "Write"}
		}
		switch {
		case errors.Is(t.err, kerr.TopicAuthorizationFailed):
			for _, name := range needed {
				e.find(Error, t.kind(), "this user may not even see it", e.missing(t),
					"Grant "+name+" on it, which includes Describe.")
			}
		case t.err == nil && len(t.operations) > 0:
			for operation, name := range needed {
				if !slices.Contains(t.operations, operation) {
					e.find(Error, t.kind(), "this user has no right to "+strings.ToLower(name), e.missing(t),
						"Grant "+name+" on it.")
				}
			}
		}
		if t.err == nil && t.noSetting != nil {
			e.find(Note, t.kind(), "its settings cannot be looked at: "+oneLine(t.noSetting),
				"What follows from them was not checked: retention, compaction, sizes.",
				"Grant DescribeConfigs on it to the user of this command; nodes do not need that.")
		}
	}
	described, err := kadm.NewClient(e.client).DescribeGroups(ctx, e.config.Group)
	if err != nil && len(described) == 0 {
		switch {
		case errors.Is(err, kerr.GroupAuthorizationFailed):
			e.noGroup()
		case !errors.Is(err, kerr.CoordinatorNotAvailable): // before the first group of a cluster there is none
			return "", err
		}
	}
	if errors.Is(described[e.config.Group].Err, kerr.GroupAuthorizationFailed) {
		e.noGroup()
	}
	return "as this user has them", nil
}

func (e *examination) noGroup() {
	e.find(Error, "consumer group "+e.config.Group, "this user may not use it", "Nodes take in nothing.",
		"Grant Read on the group.")
}

// replication sees whether what Kafka has acknowledged survives the loss of a broker.
func (e *examination) replication(context.Context) (string, error) {
	least := 0
	for _, t := range e.named(false) {
		replicas := t.replicas()
		if least == 0 || replicas < least {
			least = replicas
		}
		inSync, known := t.number("min.insync.replicas")
		switch {
		case replicas == 1 && inSync <= 1:
			e.find(Warning, t.kind(), "has one replica", "When its broker is lost, what is in it is lost, and while "+
				"that is "+
				"away nothing moves.", "Give it three replicas (kafka-reassign-partitions.sh) and "+
				"min.insync.replicas=2.")
		case known && int(inSync) > replicas:
			e.find(Error, t.kind(), fmt.Sprintf("min.insync.replicas is %d, and there are %d replicas", inSync,
				replicas),
				"Nothing that asks for acks=all can be written: Chronos does, and so should whoever submits.",
				fmt.Sprintf("Set min.insync.replicas=%d.", max(replicas-1, 1)))
		case known && int(inSync) == replicas:
			e.find(Warning, t.kind(), fmt.Sprintf("min.insync.replicas is %d, as many as there are replicas", inSync),
				"As soon as one broker is away, nothing can be written.", fmt.Sprintf("Set min.insync.replicas=%d.",
					replicas-1))
		case known && inSync == 1:
			e.find(Warning, t.kind(), "min.insync.replicas is 1",
				"A record that only one broker has counts as acknowledged, and is lost with it.",
				"Set min.insync.replicas=2.")
		}
		if t.settings["unclean.leader.election.enable"] == "true" {
			e.find(Warning, t.kind(), "unclean.leader.election.enable is true",
				"A replica that lags may become leader, and what it lacks is lost though it was acknowledged.",
				"Set unclean.leader.election.enable=false.")
		}
	}
	if least == 0 {
		return "", errNoTopics
	}
	return count(least, "replica") + " at least", nil
}

const (
	// shortInput is a retention with which a long weekend loses records.
	shortInput = 72 * time.Hour

	// shortOutput is one with which a consumer that is restarted may lose messages.
	shortOutput = time.Hour
)

// retention sees whether records stay for as long as they are needed.
func (e *examination) retention(context.Context) (string, error) {
	said := ""
	for _, t := range e.named(false) {
		ms, known := t.number("retention.ms")
		if !known {
			continue
		}
		kept := time.Duration(ms) * time.Millisecond
		if said = "inputs keep records for " + duration(kept); ms < 0 ||
			ms > int64(time.Duration(1<<62)/time.Millisecond) {
			said = "inputs keep records forever"
			continue
		}
		switch {
		case t.input && kept < shortInput:
			e.find(Warning, t.kind(), "keeps records for "+duration(kept),
				"What is not taken in by then is lost, and a store that is restored from an older backup cannot "+
					"catch up.",
				"Set retention.ms to more than the longest outage that you would sit out and than the age of your "+
					"backups: "+
					"604800000 is a week.")
		case !t.input && kept < shortOutput:
			e.find(Warning, t.kind(), "keeps messages for "+duration(kept),
				"A consumer that is away for longer never sees them.", "Set retention.ms to more, such as 604800000 "+
					"for a week.")
		}
		if bytes, limited := t.number("retention.bytes"); t.input && limited && bytes > 0 {
			e.find(Note, t.kind(), fmt.Sprintf("retention.bytes is %d for each partition", bytes),
				"However young records are, they are deleted when there is more: a burst may be gone before it is "+
					"taken in.",
				"Make sure that it is more than the busiest days bring, or leave it at -1.")
		}
	}
	switch {
	case len(e.named(false)) == 0:
		return "", errNoTopics
	case said == "":
		return "", &nothingError{"this user may not see the settings of the topics"}
	}
	return said, nil
}

// compaction sees whether Kafka throws away what it should keep.
func (e *examination) compaction(context.Context) (string, error) {
	for _, t := range e.named(false) {
		policy := t.settings["cleanup.policy"]
		switch {
		case !strings.Contains(policy, "compact"):
		case t.input:
			e.find(Error, t.kind(), "cleanup.policy is "+policy,
				"Of several submissions with one key, all but the last can be deleted before they are taken in; "+
					"those without a key are refused.", "Set cleanup.policy=delete.")
		case t.outcomes:
			e.find(Error, t.kind(), "cleanup.policy is "+policy,
				"An outcome has no value, and so it is a tombstone there: Kafka deletes all but the last one of each "+
					"key, and in the end that one as well. It refuses those of records without a key.",
				"Set cleanup.policy=delete.")
		default:
			e.find(Error, t.kind(), "cleanup.policy is "+policy,
				"Kafka refuses messages without a key there, and deletes all but the last one of each key.",
				"Set cleanup.policy=delete, or have consumers live with that and every submission carry a key.")
		}
	}
	if len(e.named(false)) == 0 {
		return "", errNoTopics
	}
	return "cleanup.policy of all topics", nil
}

// messageSizes sees whether whatever fits into an input fits into its outputs.
func (e *examination) messageSizes(context.Context) (string, error) {
	largest := int64(0)
	for _, r := range e.config.Node.Routes {
		in := e.topics[r.Input]
		if in == nil || in.err != nil {
			continue
		}
		most, known := in.number("max.message.bytes")
		if !known {
			continue
		}
		largest = max(largest, most)
		for _, name := range r.Topics()[1:] {
			out := e.topics[name]
			if out == nil || out.err != nil {
				continue
			}
			if least, known := out.number("max.message.bytes"); known && least < most {
				if out.outcomes {
					continue // an outcome has the key of its record, and no value
				}
				means := "A larger message can never be delivered: it goes to the dead-letter topic, if there is " +
					"one, " +
					"and otherwise waits in the store forever."
				if out.deadLetter {
					means = "The copy of a larger record is cut."
				}
				e.find(Warning, out.kind(), fmt.Sprintf("max.message.bytes is %d, and %s takes %d", least, r.Input,
					most),
					means, fmt.Sprintf("Set max.message.bytes=%d or more on it.", most))
			}
		}
		if r.DeadLetter == "" {
			e.find(Note, in.kind(), "has no dead-letter topic",
				"Records that are no valid submissions are logged and dropped.",
				"Set one, if you want to see them again.")
		}
	}
	switch {
	case len(e.named(false)) == 0:
		return "", errNoTopics
	case largest == 0:
		return "", &nothingError{"no input topic exists, or this user may not see its settings"}
	}
	return fmt.Sprintf("up to %d bytes", largest), nil
}

// compression sees whether brokers compress what comes out in another way than the routes say.
func (e *examination) compression(context.Context) (string, error) {
	compressionOf := e.config.Compression()
	for _, t := range e.named(false) {
		wanted := kafka.Uncompressed
		if compressionOf != nil {
			wanted = compressionOf(t.name)
		}
		has := strings.Replace(t.settings["compression.type"], "uncompressed", kafka.Uncompressed.String(), 1)
		if t.input || has == "" || has == "producer" || has == wanted.String() {
			continue
		}
		e.find(Note, t.kind(), "compression.type is "+t.settings["compression.type"]+", and its route has "+
			wanted.String(),
			"The brokers compress what comes out once more, and consumers need a codec for what the topic says.",
			"Set compression.type=producer on it, or the compression of the route to "+has+".")
	}
	return "as the routes say", nil
}

// group looks at the consumer group.
func (e *examination) group(ctx context.Context) (string, error) {
	described, err := kadm.NewClient(e.client).DescribeGroups(ctx, e.config.Group)
	switch {
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return "this user may not see it", nil
	case err != nil && len(described) == 0 && !errors.Is(err, kerr.CoordinatorNotAvailable):
		return "", err
	}
	g := described[e.config.Group]
	about := "consumer group " + e.config.Group
	switch {
	case errors.Is(g.Err, kerr.GroupAuthorizationFailed):
		return "this user may not see it", nil
	case g.ProtocolType != "" && g.ProtocolType != "consumer":
		e.find(Error, about, "is of the type "+g.ProtocolType, "Nodes cannot join it.", "Choose another --group.")
	case len(g.Members) == 0:
		e.find(Note, about, "has no members", "No node runs, or none has joined yet: nothing is taken in.",
			"Start nodes, or look at their logs.")
	}
	partitions := 0
	for _, t := range e.topics {
		if t.input {
			partitions += len(t.partitions)
		}
	}
	if len(g.Members) > partitions && partitions > 0 {
		e.find(Note, about, fmt.Sprintf("has %d members for %d input partitions", len(g.Members), partitions),
			"The others take in nothing; they still fire.", "Nothing, or add partitions.")
	}
	for _, m := range g.Members {
		if m.ClientID != "" && e.config.Kafka.ClientID == "" && m.ClientID != "chronos" {
			e.find(Warning, about, "has a member that is not Chronos, "+m.ClientID+" on "+m.ClientHost,
				"It gets a share of the partitions, and what comes there is not taken in.",
				"Give it another group, or Chronos one of its own with --group.")
		}
	}
	return count(len(g.Members), "member"), nil
}
