package node

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Route says where the messages of one input topic go.
type Route struct {
	// Input is the topic that submissions are consumed from. No two routes have the same one.
	Input string

	// Output is the topic that they fire on. Routes may share it; they then share one space of ids.
	Output string

	// DeadLetter is the topic that gets a copy of what was rejected; empty for none. Routes that share an
	// Output share its dead-letter topic too.
	DeadLetter string

	// Outcomes is the topic that says what became of instructions; empty for none. It is nobody's output or
	// dead-letter topic.
	Outcomes string

	// Targets are further output topics, of which a record may name one in its header chronosTopic. One that ends with
	// a * stands for all topics whose names begin with what comes before it, or for all callback lanes, if that begins
	// with CallbackPrefix. Output and Targets may be callback lanes; the other three are topics.
	Targets []string

	// Format is how its records ask for something. That of Amnesix needs a callback lane for an output, and has no
	// targets, since its records name none.
	Format Format
}

// serves reports whether messages of the route may come out on a lane.
func (r *Route) serves(lane string) bool { return slices.Contains(r.Outputs(), lane) || r.Finds(lane) }

// Finds reports whether one of the targets that end with a * stands for a lane.
func (r *Route) Finds(lane string) bool {
	return slices.ContainsFunc(r.Targets, func(target string) bool {
		prefix, many := strings.CutSuffix(target, "*")
		return many && strings.HasPrefix(lane, prefix) &&
			(IsTopic(lane) || IsCallback(prefix) && IsCallbackLane(lane))
	})
}

// IsTopic reports whether Kafka may have a topic of that name.
func IsTopic(name string) bool {
	foreign := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}
	return len(name) <= 249 && name != "" && name != "." && name != ".." && !strings.ContainsFunc(name, foreign)
}

// Outputs returns the lanes on which messages of the route may come out, as far as it names them.
func (r *Route) Outputs() []string {
	return append([]string{r.Output}, slices.DeleteFunc(slices.Clone(r.Targets), isPattern)...)
}

// isPattern reports whether a target stands for all topics whose names begin so.
func isPattern(target string) bool { return strings.HasSuffix(target, "*") }

// Topics returns all topics that the route names: that which is read, and those that are written to.
func (r *Route) Topics() []string {
	topics := slices.DeleteFunc(append([]string{r.Input}, r.Outputs()...), IsCallback)
	for _, other := range []string{r.DeadLetter, r.Outcomes} {
		if other != "" {
			topics = append(topics, other)
		}
	}
	return topics
}

// EpochUnit says how a deadline that is a bare number is read.
type EpochUnit int

// The ways to read a deadline that is a bare number.
const (
	// EpochRejected: a bare number is no deadline. The default, because a number does not tell its unit.
	EpochRejected EpochUnit = iota

	// EpochSeconds: seconds since 1970-01-01T00:00:00Z.
	EpochSeconds

	// EpochMilliseconds: milliseconds since 1970-01-01T00:00:00Z.
	EpochMilliseconds
)

// Config is what a node is told. Default gives the values of the original description; Validate says what
// is allowed.
type Config struct {
	// Routes are the topics that the node serves; at least one, unless there are Callbacks.
	Routes []Route

	// Seed is the source of all randomness of the node: its node id, the incarnations it draws, its jitter.
	// Two nodes must never have the same one. Production fills it from crypto/rand at every start.
	Seed [32]byte

	// Requests checks the marks of records (HeaderRequest): an item whose record has a good one has its Request, and a
	// record with another one is rejected. Nil ignores them. Only a store may be behind it that remembers the requests
	// of records, as package journal does.
	Requests *Marks

	// TimingAdvance is how long before its deadline a message is published, to make up for the time that
	// publishing takes. 0 to 10 s; 0 by default, which fires nothing early. A message is due when its deadline <= now
	// + TimingAdvance (deviation D1).
	TimingAdvance time.Duration

	// AdaptiveAdvance replaces TimingAdvance, once enough publishes have been measured, by the median latency
	// of recent acknowledgements, at most Lookahead.
	AdaptiveAdvance bool

	// HoldTime is the age at which a claim is taken for that of a failed node. At least MinHoldTime. The time
	// limits of all calls are derived from it (StoreTimeout, PublishTimeout, Margin), so that a claim that is
	// taken, published and deleted within its limits is never suspected (deviation D10).
	HoldTime time.Duration

	// Batch is the greatest number of messages in one call to a port, 1 to MaxBatch; 0 for what is best for a store in
	// a database. Where a transaction costs much more than a message, and some run side by side, more are better.
	Batch int

	// PollInterval is the time between two looks for messages that fall due. 1 ms to a fifth of HoldTime.
	// It does not bound precision: messages are claimed Lookahead ahead and fired each at its own instant.
	PollInterval time.Duration

	// IdleInterval is the longest time between two looks for messages that fall due, while the store says that there
	// are no claims, and nothing is due. What this node takes in, and knows to fall due, is claimed as soon as ever.
	// What another process brings in that has no node of its own is claimed as soon as this node hears of it, and the
	// node does not rest while it cannot hear (Ports.Hears); where that process, or the node that took something in,
	// dies at that moment, it may wait for so long. 0, or PollInterval to MaxIdleInterval; 0 is PollInterval.
	IdleInterval time.Duration

	// DetectionInterval is the time between two looks for stuck claims. 10 ms or more.
	DetectionInterval time.Duration

	// Lookahead is how long before it falls due a message is claimed. 0 up to, not including, a fifth of
	// HoldTime. Best more than twice PollInterval, so that a message is claimed before it falls due.
	Lookahead time.Duration

	// LeaveAfter is how long a node that cannot reach the store stays in its consumer group. Then it leaves, so
	// that a peer that can reach the store takes its partitions. 1 s or more.
	LeaveAfter time.Duration

	// RelayHeaders are the Chronos headers that are relayed to the output topic, in their place among
	// the others. Empty by default: they are stripped.
	RelayHeaders []string

	// EpochDeadlines says how a deadline that is a bare number is read.
	EpochDeadlines EpochUnit

	// Limits bound what a submission may be. The zero value allows whatever can be stored.
	Limits Limits

	// Callbacks says how messages come out as HTTP requests.
	Callbacks Callbacks

	// Windows say when lanes are open; what they do not name is always open.
	Windows []LaneWindow

	// Paces bound how fast messages come out on lanes; on what they do not name there is no bound.
	Paces []LanePace
}

// MinHoldTime is the smallest hold time: below it the publish timeout would fall under the one second that
// franz-go allows at least for the delivery of a record.
const MinHoldTime = 2500 * time.Millisecond

// MaxBatch is the greatest Batch.
const MaxBatch = 10_000

// MaxIdleInterval is the greatest idle interval. Who stores something that is due later than that, by a good deal, need
// tell no node that rests: each will have looked by then.
const MaxIdleInterval = 10 * time.Second

// Default returns the configuration of the original description, without routes and seed, except for the timing
// advance: the original's 50 ms make every message early by as much.
func Default() Config {
	return Config{
		HoldTime:          5 * time.Second,
		PollInterval:      100 * time.Millisecond,
		IdleInterval:      time.Second,
		DetectionInterval: 500 * time.Millisecond,
		Lookahead:         250 * time.Millisecond,
		LeaveAfter:        10 * time.Second,
		Limits:            Limits{MaxMissed: DefaultMaxMissed},
		Callbacks:         Callbacks{Timeout: defaultCallbackTimeout},
	}
}

// The hold time is shared out among what happens to a claim, in tenths:
//
//	|--- claim, 3 ---|- lookahead, < 2 -|----- publish, 4 -----|- margin, 1 -|
//	0            StoreTimeout       PublishableAge         H - Margin    HoldTime
//
// A claim whose reply came within StoreTimeout is at most Lookahead away from its due time, and so can always
// begin its publish before PublishableAge and have its result before any detector counts it as stuck. Margin
// is for clocks that run at different rates and for the way of the delete to the store.

// Serves reports whether the node serves a lane: one that is named somewhere, or is found.
func (c *Config) Serves(lane string) bool { return slices.Contains(c.Lanes(), lane) || c.Finds(lane) }

// Finds reports whether a target with a * stands for a lane, or it is a callback lane and all of them are served.
func (c *Config) Finds(lane string) bool {
	return c.Callbacks.finds(lane) || slices.ContainsFunc(c.Routes, func(r Route) bool { return r.Finds(lane) })
}

// Seeks reports whether there may be lanes to be found, see Finds.
func (c *Config) Seeks() bool {
	return c.Callbacks.Any ||
		slices.ContainsFunc(c.Routes, func(r Route) bool { return slices.ContainsFunc(r.Targets, isPattern) })
}

// Lanes returns the lanes that are named, each once: the output, dead-letter and outcome topics of the routes, the
// callback lanes that are listed, and where dead letters of callback lanes go.
func (c *Config) Lanes() []string {
	var lanes []string
	add := func(named ...string) {
		for _, lane := range named {
			if lane != "" && !slices.Contains(lanes, lane) {
				lanes = append(lanes, lane)
			}
		}
	}
	for _, r := range c.Routes {
		add(append(r.Outputs(), r.DeadLetter, r.Outcomes)...)
	}
	for _, l := range c.Callbacks.Lanes {
		add(l.Name)
	}
	add(c.Callbacks.DeadLetters()...)
	return lanes
}

// batch returns how many messages one call to a port has at most.
func (c *Config) batch() int { return cmp.Or(c.Batch, defaultBatch) }

// StoreTimeout returns the time limit of one call to the store: three tenths of HoldTime.
func (c *Config) StoreTimeout() time.Duration { return c.HoldTime * 3 / 10 }

// PublishTimeout returns the time limit of one Publish: four tenths of HoldTime.
func (c *Config) PublishTimeout() time.Duration { return c.HoldTime * 4 / 10 }

// Margin returns the part of HoldTime that is kept in reserve: one tenth.
func (c *Config) Margin() time.Duration { return c.HoldTime / 10 }

// ClaimAhead returns how long before its deadline a message is claimed at most.
func (c *Config) ClaimAhead() time.Duration {
	advance := c.TimingAdvance
	if c.AdaptiveAdvance {
		advance = max(advance, c.Lookahead)
	}
	return c.Lookahead + advance
}

// PublishableAge returns the greatest age, by the node's monotonic clock and counted from before the claim was
// requested, at which a claim may still be published (deviation D3): HoldTime less PublishTimeout and Margin.
func (c *Config) PublishableAge() time.Duration {
	return c.HoldTime - c.PublishTimeout() - c.Margin()
}

// A ConfigError says that one setting is not allowed: which, what it is, and what it may be.
type ConfigError struct {
	Setting string // the name of the field of Config
	Value   string
	Allowed string
}

// Error returns the sentence for a person.
func (e *ConfigError) Error() string {
	return fmt.Sprintf("%s is %s: %s", e.Setting, e.Value, e.Allowed)
}

// Validate returns a *ConfigError for the first setting that is not allowed, or nil. It changes nothing.
func (c *Config) Validate() error {
	if c.HoldTime < MinHoldTime {
		return &ConfigError{
			"HoldTime", c.HoldTime.String(),
			fmt.Sprintf("it must be %v or more, because four tenths of it limit a publish", MinHoldTime),
		}
	}
	bounds := []struct {
		setting  string
		value    time.Duration
		min, max time.Duration // max 0: no upper bound
		why      string
	}{
		{"TimingAdvance", c.TimingAdvance, 0, 10 * time.Second, ""},
		{
			"PollInterval", c.PollInterval, time.Millisecond, c.HoldTime / 5,
			", a fifth of the hold time",
		},
		{"DetectionInterval", c.DetectionInterval, 10 * time.Millisecond, time.Hour, ""},
		{
			"Lookahead", c.Lookahead, 0, c.HoldTime/5 - time.Microsecond,
			", less than a fifth of the hold time, because claims are held for that long before they are published",
		},
		{"LeaveAfter", c.LeaveAfter, time.Second, time.Hour, ""},
	}
	for _, b := range bounds {
		if b.value < b.min || b.value > b.max {
			return &ConfigError{
				b.setting, b.value.String(),
				fmt.Sprintf("it must be from %v to %v%s", b.min, b.max, b.why),
			}
		}
	}
	if c.Batch < 0 || c.Batch > MaxBatch {
		return &ConfigError{
			"Batch", strconv.Itoa(c.Batch), fmt.Sprintf("it must be from 1 to %d, or 0 for the default", MaxBatch),
		}
	}
	if c.IdleInterval != 0 && (c.IdleInterval < c.PollInterval || c.IdleInterval > MaxIdleInterval) {
		return &ConfigError{
			"IdleInterval", c.IdleInterval.String(), "it must be 0, or from the poll interval to 10s",
		}
	}
	if c.EpochDeadlines < EpochRejected || c.EpochDeadlines > EpochMilliseconds {
		return &ConfigError{
			"EpochDeadlines", fmt.Sprint(int(c.EpochDeadlines)), "it must be one of the declared units",
		}
	}
	if err := c.Limits.validate(); err != nil {
		return err
	}
	if c.Seed == [32]byte{} {
		return &ConfigError{"Seed", "all zero", "it must be random and different for every node"}
	}
	if len(c.Routes) == 0 && !c.Calls() {
		return &ConfigError{"Routes", "empty", "there must be at least one route"}
	}
	if err := validateRoutes(c.Routes); err != nil {
		return err
	}
	if err := c.validateWindows(); err != nil {
		return err
	}
	if err := c.validatePaces(); err != nil || !c.Calls() {
		return err
	}
	return c.Callbacks.validate(c.Routes)
}

func validateRoutes(routes []Route) error {
	wrong := func(value, allowed string) error { return &ConfigError{"Routes", value, allowed} }
	inputs := map[string]bool{}
	deadLetter := map[string]string{} // by output topic
	outcomes := map[string]bool{}
	for _, r := range routes {
		switch {
		case r.Input == "":
			return wrong("a route without an input topic", "every route needs one")
		case r.Output == "" || slices.Contains(r.Targets, ""):
			return wrong("input topic "+r.Input+" without an output topic", "every route needs one")
		case inputs[r.Input]:
			return wrong("input topic "+r.Input+" twice", "an input topic has one route")
		case r.Format == FormatAmnesix && !IsCallback(r.Output):
			return wrong("input topic "+r.Input+" of the format amnesix with the output "+r.Output,
				"its jobs are requests, so the output must be a callback lane, http: and a name")
		case r.Format == FormatAmnesix && len(r.Targets) > 0:
			return wrong("input topic "+r.Input+" of the format amnesix with targets",
				"its jobs cannot name a target, so there must be none")
		}
		for _, topic := range []string{r.Input, r.DeadLetter, r.Outcomes} {
			if IsCallback(topic) {
				return wrong(topic+" in place of a topic", "only what comes out can be a callback")
			}
		}
		inputs[r.Input] = true
		for _, target := range r.Targets {
			if i := strings.IndexByte(target, '*'); i >= 0 && i < len(target)-1 {
				return wrong("target "+target, "a * stands at the end")
			}
		}
		for _, output := range r.Outputs() {
			if dead, known := deadLetter[output]; known && dead != r.DeadLetter {
				return wrong("output topic "+output+" with two dead-letter topics",
					"routes that share an output topic share its dead-letter topic")
			}
			deadLetter[output] = r.DeadLetter
		}
		outcomes[r.Outcomes] = r.Outcomes != ""
	}
	for _, r := range routes {
		if slices.Contains(r.Outputs(), TasksLane) {
			return wrong("output "+TasksLane, "that lane is for tasks of queues, which records bring by a header "+
				HeaderQueue+", whatever the output is")
		}
		for _, target := range append(r.Outputs(), r.DeadLetter, r.Outcomes) {
			if inputs[target] {
				return wrong("topic "+target+" both an input and a target",
					"a message must not be submitted again by being delivered")
			}
		}
		for _, other := range []string{r.DeadLetter, r.Outcomes} {
			if _, isOutput := deadLetter[other]; isOutput && other != "" {
				return wrong("topic "+other+" both an output and a dead-letter or outcome topic",
					"rejected records and outcomes need topics of their own")
			}
		}
		if err := r.foundAmong(routes); err != nil {
			return err
		}
		if outcomes[r.DeadLetter] {
			return wrong("topic "+r.DeadLetter+" both a dead-letter and an outcome topic",
				"rejected records and outcomes need topics of their own")
		}
	}
	return nil
}

// foundAmong returns what is wrong with the targets of a route that have a *, beside all routes.
func (r *Route) foundAmong(routes []Route) error {
	for _, other := range routes {
		for _, topic := range []string{other.Input, other.DeadLetter, other.Outcomes} {
			if r.Finds(topic) {
				return &ConfigError{
					"Routes", "target of input topic " + r.Input + " that stands for " + topic,
					"a message must not come out where records are read, rejected or answered",
				}
			}
		}
		for _, target := range append(other.Targets, other.Output) {
			name := strings.TrimSuffix(target, "*")
			if r.DeadLetter != other.DeadLetter && slices.ContainsFunc(r.Targets, func(mine string) bool {
				prefix, many := strings.CutSuffix(mine, "*")
				return many && (strings.HasPrefix(name, prefix) || name != target && strings.HasPrefix(prefix, name))
			}) {
				return &ConfigError{
					"Routes", "output topic " + target + " with two dead-letter topics",
					"routes that share an output topic share its dead-letter topic",
				}
			}
		}
	}
	return nil
}
