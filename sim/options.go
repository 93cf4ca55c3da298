package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/queue"
)

// Options are everything that a run depends on. Two runs with equal options, plans and code give the same trace.
// Swarm draws them from a seed; a plan file sets them by the names that String prints.
type Options struct {
	// Seed is the source of everything that is drawn in the run itself: latencies, payloads, node ids.
	Seed uint64

	// Nodes is the number of virtual nodes, from 1. Node 1 is the first.
	Nodes int

	// Routes is the number of input topics. Every second route shares its output topic with the one before.
	Routes int

	// Partitions is the number of partitions of each topic.
	Partitions int

	// Messages is how many submissions are drawn for the time of the faults.
	Messages int

	// Faulty is how long faults happen. Then the world heals.
	Faulty time.Duration

	// Healed is how long the run goes on after that, at most: it ends when everything is drained, or at a
	// bound that the judge computes.
	Healed time.Duration

	// FaultRate is the chance of a fault at a call of a port that moves messages, in 1 of 10,000. Calls that
	// nodes make all the time although there is nothing to do get an eighth of it.
	FaultRate int

	// Mix are the kinds of faults that are drawn. None means all of those that no promise excludes.
	Mix []FaultKind

	// Fates says what becomes of each node when the world heals, a letter for each.
	Fates string

	// Engine configuration, under the names of node.Config.
	HoldTime, PollInterval, IdleInterval, DetectionInterval time.Duration
	Lookahead, TimingAdvance, LeaveAfter                    time.Duration
	AdaptiveAdvance                                         bool

	// DeadLetter gives every route a dead-letter topic.
	DeadLetter bool

	// Skew bounds the error of each node's wall clock at its start, and Drift the error of its rate, in parts per
	// million. StoreSkew is the error of the store's clock at the start.
	Skew, StoreSkew time.Duration
	Drift           int

	// StoreLatency and BrokerLatency are the usual time of a call. One call in 64 takes ten times as long.
	StoreLatency, BrokerLatency time.Duration

	// Session is the time without a heartbeat after which the group gives a member up for dead. Rebalance is how
	// long the group waits for a member that holds a batch.
	Session, Rebalance time.Duration

	// The workload in percent of the submissions: those that reuse an id, those that have lapsed, those that
	// are no valid submissions, those that their output topic rejects. Horizon is the longest delay, and what has
	// lapsed is overdue for Overdue, and up to ten seconds longer.
	Reuse, Lapsed, Malformed, Poison int
	Horizon, Overdue                 time.Duration

	// Alike is how many percent of those that have lapsed have the same key, and so come out on one partition.
	Alike int

	// Instructed is how many percent of the submissions are instructions about others. If there are any, every route
	// has an outcome topic.
	Instructed int

	// Misinstructed is how many percent of the instructions are no valid ones.
	Misinstructed int

	// Operated is how many percent of the submissions are instructions that an operator gives to the store, past
	// Kafka.
	Operated int

	// Hearing is how nodes hear of what others store past Kafka: HearingWorks, HearingNone or HearingBreaks.
	Hearing string

	// Recurring is how many percent of those that bring a message recur.
	Recurring int

	// Delayed is how many percent of those with a deadline ask for a delay instead, and Ending how many of those that
	// bring a message say until when it may be published.
	Delayed, Ending int

	// Aimed is how many percent of the submissions name an output topic that no route names, but a target with a *
	// stands for.
	Aimed int

	// Callbacks is how many percent of the submissions come out as callbacks, and Unhelpful how many percent of the
	// requests are not answered as they should be, while faults last.
	Callbacks, Unhelpful int

	// Ordered is the number of keys that two thirds of the callbacks have; those of one key come out one after the
	// other. 0 for lanes without order.
	Ordered int

	// Windows is how many percent of the lanes have a window. WindowPeriod and WindowOpen are those of all of them; 0
	// for what is drawn.
	Windows                  int
	WindowPeriod, WindowOpen time.Duration

	// Paced is how many percent of the lanes have a pace. Pace is that of all of them; 0 for what is drawn.
	Paced, Pace int

	// Queues is how many queues there are beside root, and Tasks how many tasks come to them.
	Queues, Tasks int

	// RetryFor is how long after its deadline a callback that has failed is made again; 0 forever.
	RetryFor time.Duration

	// Refused is how many percent of the submissions the store can never keep.
	Refused int

	// Large is how many percent of the submissions have a payload of up to LargeBytes.
	Large, LargeBytes int

	// Bandwidth bounds what passes between a node and the store or the brokers, in bytes a second; 0 for no limit.
	Bandwidth int

	// Control is how many percent of the submissions are followed by a control record.
	Control int

	// Bursts groups the submissions into so many instants; 0 spreads them evenly.
	Bursts int

	// Lossy says that the store runs without a synchronous standby, so that a failover may lose commits. It is for
	// showing what happens then: no promise holds.
	Lossy bool

	// Drain ends the run as soon as everything is drained, instead of at the end of Healed.
	Drain bool
}

// The fates of a node when the world heals.
const (
	FateHealed    = 'h' // it runs, and reaches store and broker
	FateDead      = 'd' // it is down and stays down
	FateNoStore   = 's' // it runs, and never reaches the store again
	FateNoBroker  = 'b' // it runs, and never reaches the broker again
	FateNoNetwork = 'n' // it runs, and reaches neither
)

// DefaultOptions are a cluster of three nodes under the defaults of the engine and without faults.
func DefaultOptions() Options {
	config := node.Default()
	return Options{
		Seed:              1,
		Nodes:             3,
		Routes:            1,
		Partitions:        4,
		Messages:          100,
		Faulty:            30 * time.Second,
		Healed:            40 * time.Second,
		HoldTime:          config.HoldTime,
		PollInterval:      config.PollInterval,
		DetectionInterval: config.DetectionInterval,
		Lookahead:         config.Lookahead,
		TimingAdvance:     config.TimingAdvance,
		LeaveAfter:        config.LeaveAfter,
		StoreLatency:      2 * time.Millisecond,
		BrokerLatency:     4 * time.Millisecond,
		LargeBytes:        64 << 10,
		Session:           10 * time.Second,
		Rebalance:         30 * time.Second,
		Horizon:           20 * time.Second,
		Lapsed:            10,
		Drain:             true,
	}
}

// fate returns what becomes of the node with that index, from 0, when the world heals.
func (o *Options) fate(index int) byte {
	if index < len(o.Fates) {
		return o.Fates[index]
	}
	return FateHealed
}

// config returns the configuration of one life of a node, with an edition of the windows.
func (o *Options) config(seed [32]byte, edition int) node.Config {
	c := o.routed()
	c.Seed, c.Windows, c.Paces = seed, o.laneWindows(edition), o.lanePaces()
	return c
}

// routed returns the same without windows, which are those of its lanes.
func (o *Options) routed() node.Config {
	c := node.Config{
		TimingAdvance:     o.TimingAdvance,
		AdaptiveAdvance:   o.AdaptiveAdvance,
		HoldTime:          o.HoldTime,
		PollInterval:      o.PollInterval,
		IdleInterval:      o.IdleInterval,
		DetectionInterval: o.DetectionInterval,
		Lookahead:         o.Lookahead,
		LeaveAfter:        o.LeaveAfter,
	}
	for i := range o.Routes {
		c.Routes = append(c.Routes, o.route(i))
	}
	c.Callbacks.Timeout = c.PublishTimeout() // so that one hold time is for both
	c.Callbacks.Others.Ordered = o.Ordered > 0
	if o.Queues > 0 {
		c.Callbacks.Lanes = append(c.Callbacks.Lanes, node.CallbackLane{Name: queue.Lane})
	}
	return c
}

// route returns the route with that index, from 0.
func (o *Options) route(index int) node.Route {
	r := node.Route{
		Input:  "in" + strconv.Itoa(index),
		Output: "out" + strconv.Itoa(index/2),
	}
	if o.DeadLetter {
		r.DeadLetter = "dead" + strconv.Itoa(index/2)
	}
	if o.Instructed > 0 {
		r.Outcomes = "said" + strconv.Itoa(index/2)
	}
	if o.Aimed > 0 {
		r.Targets = []string{r.Output + ".*"}
	}
	if o.Callbacks > 0 {
		r.Targets = append(r.Targets, target(r, callbacks))
	}
	return r
}

// targets is how many topics submissions name beside the output topic of a route.
const targets = 2

// callbacks is the number of the target that is a callback lane.
const callbacks = targets + 1

// target returns the topic on which what a route takes in comes out, where a submission names that target; 0 for none.
func target(r node.Route, number int) string {
	switch number {
	case 0:
		return r.Output
	case callbacks:
		return node.CallbackPrefix + r.Output
	}
	return r.Output + "." + strconv.Itoa(number)
}

// lanes returns all lanes: those that routes name, and those that submissions may name.
func (o *Options) lanes() []string {
	c := o.routed()
	lanes := c.Lanes()
	for _, r := range c.Routes {
		for number := 1; number <= targets && o.Aimed > 0; number++ {
			if name := target(r, number); !slices.Contains(lanes, name) {
				lanes = append(lanes, name)
			}
		}
	}
	return lanes
}

// Validate returns an error for the first option that makes no sense.
func (o *Options) Validate() error {
	for _, b := range []struct {
		name     string
		n        int
		min, max int
	}{
		{"nodes", o.Nodes, 1, 100_000},
		{"routes", o.Routes, 1, 1000},
		{"partitions", o.Partitions, 1, 100_000},
		{"messages", o.Messages, 0, 100_000_000},
		{"fault-rate", o.FaultRate, 0, 10_000},
		{"drift", o.Drift, 0, 100_000},
		{"reuse", o.Reuse, 0, 100},
		{"lapsed", o.Lapsed, 0, 100},
		{"alike", o.Alike, 0, 100},
		{"malformed", o.Malformed, 0, 100},
		{"poison", o.Poison, 0, 100},
		{"refused", o.Refused, 0, 100},
		{"instructed", o.Instructed, 0, 100},
		{"misinstructed", o.Misinstructed, 0, 100},
		{"operated", o.Operated, 0, 100},
		{"recurring", o.Recurring, 0, 100},
		{"delayed", o.Delayed, 0, 100},
		{"ending", o.Ending, 0, 100},
		{"aimed", o.Aimed, 0, 100},
		{"callbacks", o.Callbacks, 0, 100},
		{"unhelpful", o.Unhelpful, 0, 90},
		{"ordered", o.Ordered, 0, 100},
		{"windows", o.Windows, 0, 100},
		{"paced", o.Paced, 0, 100},
		{"pace", o.Pace, 0, node.MaxPerSecond},
		{"queues", o.Queues, 0, 100},
		{"tasks", o.Tasks, 0, 100_000},
		{"large", o.Large, 0, 100},
		{"large-bytes", o.LargeBytes, 0, maxRecordBytes},
		{"bandwidth", o.Bandwidth, 0, 1 << 30},
		{"control", o.Control, 0, 100},
	} {
		if b.n < b.min || b.n > b.max {
			return fmt.Errorf("%s is %d: it must be from %d to %d", b.name, b.n, b.min, b.max)
		}
	}
	if o.WindowPeriod < 0 || o.WindowPeriod > 0 && (o.WindowOpen <= 0 || o.WindowOpen > o.WindowPeriod) {
		return fmt.Errorf("window-open is %v: it must be positive, and window-period, which is %v, not shorter",
			o.WindowOpen, o.WindowPeriod)
	}
	if o.RetryFor < 0 {
		return fmt.Errorf("retry-for is %v: it must not be negative", o.RetryFor)
	}
	if o.Faulty <= 0 || o.Healed <= 0 || o.StoreLatency <= 0 || o.BrokerLatency <= 0 || o.Session <= 0 {
		return fmt.Errorf("faulty, healed, store-latency, broker-latency and session must be positive")
	}
	for _, fate := range o.Fates {
		if !strings.ContainsRune("hdsbn", fate) {
			return fmt.Errorf("fates is %q: it must consist of the letters h, d, s, b and n", o.Fates)
		}
	}
	healed := false
	for i := range min(o.Nodes, 1+len(o.Fates)) {
		healed = healed || o.fate(i) == FateHealed
	}
	if !healed {
		return fmt.Errorf("fates is %q: somebody has to be healed", o.Fates)
	}
	if err := o.checkHearing(); err != nil {
		return err
	}
	c := o.config([32]byte{1}, 0)
	return c.Validate()
}

// setting is an option by its name.
type setting struct {
	name string
	get  func() string
	set  func(string) error
}

// settings returns all options by their names, in the order in which they are printed.
func (o *Options) settings() []setting {
	return []setting{
		settingOf("seed", &o.Seed, parseUint),
		settingOf("nodes", &o.Nodes, strconv.Atoi),
		settingOf("routes", &o.Routes, strconv.Atoi),
		settingOf("partitions", &o.Partitions, strconv.Atoi),
		settingOf("messages", &o.Messages, strconv.Atoi),
		settingOf("faulty", &o.Faulty, time.ParseDuration),
		settingOf("healed", &o.Healed, time.ParseDuration),
		settingOf("fault-rate", &o.FaultRate, strconv.Atoi),
		{
			"mix",
			func() string { return joinKinds(o.Mix) },
			func(s string) (err error) { o.Mix, err = splitKinds(s); return err },
		},
		settingOf("fates", &o.Fates, parseString),
		settingOf("hold", &o.HoldTime, time.ParseDuration),
		settingOf("poll", &o.PollInterval, time.ParseDuration),
		settingOf("idle", &o.IdleInterval, time.ParseDuration),
		settingOf("hearing", &o.Hearing, parseString),
		settingOf("detection", &o.DetectionInterval, time.ParseDuration),
		settingOf("lookahead", &o.Lookahead, time.ParseDuration),
		settingOf("advance", &o.TimingAdvance, time.ParseDuration),
		settingOf("leave-after", &o.LeaveAfter, time.ParseDuration),
		settingOf("adaptive", &o.AdaptiveAdvance, strconv.ParseBool),
		settingOf("dead-letter", &o.DeadLetter, strconv.ParseBool),
		settingOf("skew", &o.Skew, time.ParseDuration),
		settingOf("store-skew", &o.StoreSkew, time.ParseDuration),
		settingOf("drift", &o.Drift, strconv.Atoi),
		settingOf("store-latency", &o.StoreLatency, time.ParseDuration),
		settingOf("broker-latency", &o.BrokerLatency, time.ParseDuration),
		settingOf("session", &o.Session, time.ParseDuration),
		settingOf("rebalance", &o.Rebalance, time.ParseDuration),
		settingOf("reuse", &o.Reuse, strconv.Atoi),
		settingOf("lapsed", &o.Lapsed, strconv.Atoi),
		settingOf("overdue", &o.Overdue, time.ParseDuration),
		settingOf("alike", &o.Alike, strconv.Atoi),
		settingOf("malformed", &o.Malformed, strconv.Atoi),
		settingOf("poison", &o.Poison, strconv.Atoi),
		settingOf("refused", &o.Refused, strconv.Atoi),
		settingOf("instructed", &o.Instructed, strconv.Atoi),
		settingOf("misinstructed", &o.Misinstructed, strconv.Atoi),
		settingOf("operated", &o.Operated, strconv.Atoi),
		settingOf("recurring", &o.Recurring, strconv.Atoi),
		settingOf("delayed", &o.Delayed, strconv.Atoi),
		settingOf("ending", &o.Ending, strconv.Atoi),
		settingOf("aimed", &o.Aimed, strconv.Atoi),
		settingOf("callbacks", &o.Callbacks, strconv.Atoi),
		settingOf("unhelpful", &o.Unhelpful, strconv.Atoi),
		settingOf("ordered", &o.Ordered, strconv.Atoi),
		settingOf("windows", &o.Windows, strconv.Atoi),
		settingOf("window-period", &o.WindowPeriod, time.ParseDuration),
		settingOf("window-open", &o.WindowOpen, time.ParseDuration),
		settingOf("paced", &o.Paced, strconv.Atoi),
		settingOf("pace", &o.Pace, strconv.Atoi),
		settingOf("queues", &o.Queues, strconv.Atoi),
		settingOf("tasks", &o.Tasks, strconv.Atoi),
		settingOf("retry-for", &o.RetryFor, time.ParseDuration),
		settingOf("large", &o.Large, strconv.Atoi),
		settingOf("large-bytes", &o.LargeBytes, strconv.Atoi),
		settingOf("bandwidth", &o.Bandwidth, strconv.Atoi),
		settingOf("control", &o.Control, strconv.Atoi),
		settingOf("horizon", &o.Horizon, time.ParseDuration),
		settingOf("bursts", &o.Bursts, strconv.Atoi),
		settingOf("lossy", &o.Lossy, strconv.ParseBool),
		settingOf("drain", &o.Drain, strconv.ParseBool),
	}
}

func settingOf[T any](name string, value *T, parse func(string) (T, error)) setting {
	return setting{
		name,
		func() string { return fmt.Sprint(*value) },
		func(s string) (err error) { *value, err = parse(s); return err },
	}
}

func parseString(s string) (string, error) { return strings.TrimPrefix(s, "-"), nil }

func parseUint(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) }

// Set sets the option of that name.
func (o *Options) Set(name, value string) error {
	for _, s := range o.settings() {
		if s.name == name {
			if err := s.set(value); err != nil {
				return fmt.Errorf("set %s to %q: %w", name, value, err)
			}
			return nil
		}
	}
	return fmt.Errorf("there is no option %q", name)
}

// String returns the options that differ from DefaultOptions, one "name value" to a line, and always the seed.
func (o *Options) String() string {
	usual := DefaultOptions()
	settings, defaults := o.settings(), usual.settings()
	var text strings.Builder
	for i, s := range settings {
		if value := s.get(); i == 0 || value != defaults[i].get() {
			fmt.Fprintf(&text, "%s %s\n", s.name, cmp.Or(value, "-"))
		}
	}
	return text.String()
}

func joinKinds(kinds []FaultKind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ",")
}

func splitKinds(s string) ([]FaultKind, error) {
	var kinds []FaultKind
	for name := range strings.SplitSeq(s, ",") {
		if name == "" || name == "-" {
			continue
		}
		if !slices.ContainsFunc(faultKinds(), func(d faultDescription) bool {
			return d.kind == FaultKind(name)
		}) {
			return nil, fmt.Errorf("there is no fault %q", name)
		}
		kinds = append(kinds, FaultKind(name))
	}
	return kinds, nil
}
