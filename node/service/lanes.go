package service

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"chronos/node"
	"chronos/node/callback"
	"chronos/node/credential"
	"chronos/node/metaswitch"
	"chronos/node/queue"
)

// otherLanes is the name of the entry of lanes that all callback lanes go by that have none.
const otherLanes = node.CallbackPrefix + "*"

// The values of order: messages of one key one after the other, or each for itself.
const (
	orderKey  = "key"
	orderNone = "none"
)

// fileLane is one entry of the key lanes: a callback lane, or topics that have a window or a pace.
type fileLane struct {
	name, url, urlOnly, timeout, retryFor, concurrency, perHost, allowed, secretFile, order, deadLetter, window,
	perSecond Value

	headers       []node.Header
	headersOrigin string
}

// fields returns the values of a lane by their keys, except for its headers.
func (l *fileLane) fields() map[string]*Value {
	return map[string]*Value{
		"name": &l.name, "url": &l.url, "url-only": &l.urlOnly, "timeout": &l.timeout, "retry-for": &l.retryFor,
		"concurrency": &l.concurrency, "per-host": &l.perHost, "allowed": &l.allowed,
		"secret-file": &l.secretFile, "order": &l.order, "dead-letter": &l.deadLetter, "window": &l.window,
		"max-per-second": &l.perSecond,
	}
}

// laneKeys names the keys of a lane to a person.
const laneKeys = "the key name, and any of url, url-only, timeout, retry-for, concurrency, per-host, allowed, " +
	"secret-file, headers, order, dead-letter, window and max-per-second"

// readLanes takes the entries of the key lanes.
func (f *configFile) readLanes(path, origin string, list *yaml.Node) error {
	list = dereference(list)
	if list.Kind != yaml.SequenceNode || len(list.Content) == 0 {
		return Usagef("%s is not a list: it must have an entry for each lane, with %s", origin, laneKeys)
	}
	for _, entry := range list.Content {
		var l fileLane
		fields, names := l.fields(), map[string]bool{"headers": true}
		for name, v := range fields {
			v.Origin = fmt.Sprintf("%s:%d: %s", path, entry.Line, name)
			names[name] = true
		}
		err := eachKey(path, entry, laneKeys, names, func(key, value *yaml.Node) (err error) {
			origin := fmt.Sprintf("%s:%d: %s", path, key.Line, key.Value)
			if key.Value == "headers" {
				l.headersOrigin = origin
				l.headers, err = readHeaders(origin, value)
				return err
			}
			text, err := textOf(origin, value)
			*fields[key.Value] = Value{Text: text, Origin: origin, IsSet: true}
			return err
		})
		if err != nil {
			return err
		}
		f.lanes = append(f.lanes, l)
	}
	return nil
}

// readHeaders takes headers: a mapping of names to values.
func readHeaders(origin string, mapping *yaml.Node) ([]node.Header, error) {
	mapping = dereference(mapping)
	if mapping.Kind != yaml.MappingNode {
		return nil, Usagef("%s is not a mapping: it must have a line \"NAME: VALUE\" for each header", origin)
	}
	var headers []node.Header
	for i := 0; i < len(mapping.Content); i += 2 {
		text, err := textOf(origin+": "+mapping.Content[i].Value, mapping.Content[i+1])
		if err != nil {
			return nil, err
		}
		headers = append(headers, node.Header{Name: mapping.Content[i].Value, Value: []byte(text)})
	}
	return headers, nil
}

// callbacks sets what engine and sink are told of callback lanes. The engine knows its routes.
func (s *Settings) callbacks(config *node.Config, sink *callback.Config) error {
	engine := &config.Callbacks
	*sink = callback.Config{Keeper: s.keeper, Others: callback.Default(otherLanes)}
	var entries []fileLane
	if s.file != nil {
		entries = s.file.lanes
	}
	listed := map[string]bool{}
	for i := range entries {
		if name := entries[i].name; name.IsSet && !node.IsCallback(name.Text) {
			if err := entries[i].topicLane(); err != nil {
				return err
			}
			if listed[name.Text] {
				return name.Wrong("a lane is listed once")
			}
			listed[name.Text] = true
			continue
		}
		lane, of, err := entries[i].lane()
		switch {
		case err != nil:
			return err
		case listed[lane.Name]:
			return entries[i].name.Wrong("a lane is listed once")
		case lane.Name == otherLanes:
			of.Name = ""
			sink.Others, engine.Others = lane, of
		default:
			sink.Lanes, engine.Lanes = append(sink.Lanes, lane), append(engine.Lanes, of)
		}
		listed[lane.Name] = true
	}
	if s.servesMetaswitch() && !listed[metaswitch.Lane] {
		lane, of := sink.Others, engine.Others // it is named, so that metrics and the log name it, too
		lane.Name, of.Name = metaswitch.Lane, metaswitch.Lane
		sink.Lanes, engine.Lanes = append(sink.Lanes, lane), append(engine.Lanes, of)
	}
	if (s.servesHorae() || s.servesAPI()) && !listed[queue.Lane] { // the same for queues, which come with these
		lane, of := sink.Others, engine.Others
		lane.Name, of.Name = queue.Lane, queue.Lane
		sink.Lanes, engine.Lanes = append(sink.Lanes, lane), append(engine.Lanes, of)
	}
	engine.Timeout = sink.Longest(servesOthers(config))
	return cmp.Or(s.checkTimers(entries), checkDeadLetters(entries, sink))
}

// servesOthers reports whether a node may serve callback lanes that have no entry. Where it does not, the time limit of
// such lanes is nobody's: it would make the hold time longer for nothing, and so what a killed node has claimed later.
func servesOthers(c *node.Config) bool {
	other := func(target string) bool {
		return node.IsCallback(target) && !slices.ContainsFunc(c.Callbacks.Lanes, func(l node.CallbackLane) bool {
			return l.Name == target
		})
	}
	return c.Callbacks.Any || slices.ContainsFunc(c.Routes, func(r node.Route) bool {
		return other(r.Output) || slices.ContainsFunc(r.Targets, other)
	})
}

// LocalCallbacks says how callbacks are made where whoever submits is trusted: also to servers on this machine and in
// its network.
func LocalCallbacks() callback.Config {
	all := callback.Default(otherLanes)
	all.Allowed = []string{
		"127.0.0.0/8", "::1", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "localhost", "*.localhost",
	}
	return callback.Config{Others: all}
}

// checkDeadLetters returns an error if dead letters go to a callback lane that has no URL of its own: they would be
// sent where they have failed.
func checkDeadLetters(entries []fileLane, sink *callback.Config) error {
	for i := range entries {
		v := &entries[i].deadLetter
		at := slices.IndexFunc(sink.Lanes, func(l callback.Lane) bool { return l.Name == v.Text })
		if v.IsSet && at >= 0 && sink.Lanes[at].URL == "" {
			return v.Wrong("that lane needs a url, because dead letters go where it says")
		}
	}
	return nil
}

// checkTimers returns an error if dead letters go where the timers of Metaswitch wait.
func (s *Settings) checkTimers(entries []fileLane) error {
	for i := range entries {
		if v := &entries[i].deadLetter; s.servesMetaswitch() && v.Text == metaswitch.Lane {
			return v.Wrong("the timers of metaswitch-listen wait on that lane: dead letters need a lane of their own")
		}
	}
	return nil
}

// lane returns what an entry says of a lane, to the sink and to the engine.
func (l *fileLane) lane() (callback.Lane, node.CallbackLane, error) {
	lane, of := callback.Default(l.name.Text), node.CallbackLane{Name: l.name.Text, DeadLetter: l.deadLetter.Text}
	fail := func(err error) (callback.Lane, node.CallbackLane, error) { return lane, of, err }
	l.url.url = true
	if !l.name.IsSet {
		return fail(Usagef("%s is not set: every lane has a name, such as http:orders", l.name.Origin))
	}
	for _, t := range []struct {
		v      *Value
		target *time.Duration
	}{{&l.timeout, &lane.Timeout}, {&l.retryFor, &lane.RetryFor}} {
		if err := t.v.Duration(t.target); err != nil {
			return fail(err)
		}
	}
	for _, n := range []struct {
		v      *Value
		target *int
	}{{&l.concurrency, &of.Concurrency}, {&l.perHost, &lane.PerHost}} {
		if !n.v.IsSet {
			continue
		}
		number, err := strconv.Atoi(n.v.Text)
		if err != nil || number < 1 || number > node.MaxConcurrency {
			return fail(n.v.Wrong(fmt.Sprintf("it must be a number from 1 to %d", node.MaxConcurrency)))
		}
		*n.target = number
	}
	lane.Concurrency = of.Concurrency
	if of.Ordered = l.order.Text == orderKey; l.order.IsSet && !of.Ordered && l.order.Text != orderNone {
		return fail(l.order.Wrong("it must be " + orderKey + " or " + orderNone))
	}
	if err := (&form{toggle: true}).check(&l.urlOnly); l.urlOnly.IsSet && err != nil {
		return fail(err)
	}
	lane.URL, lane.URLOnly, lane.SecretFile = l.url.Text, l.urlOnly.on(), l.secretFile.Text
	lane.Allowed, lane.Headers = l.allowed.list(), l.headers
	if err := lane.Validate(); err != nil {
		return fail(l.explain(err))
	}
	if lane.SecretFile != "" {
		if _, err := credential.ReadFile(lane.SecretFile); err != nil {
			return fail(l.secretFile.Wrong(reasonOf(err)))
		}
	}
	return lane, of, nil
}

// explain puts a *callback.LaneError in terms of the key that is to blame.
func (l *fileLane) explain(err error) error {
	wrong, is := errors.AsType[*callback.LaneError](err)
	if !is {
		return err
	}
	if wrong.Key == "headers" {
		return Usagef("%s has %s: %s", l.headersOrigin, Shown(wrong.Value), wrong.Allowed)
	}
	return l.fields()[wrong.Key].Wrong(wrong.Allowed)
}

// describeLane says in a few words how requests of a lane are made, without a secret.
func describeLane(lane *callback.Lane, of *node.CallbackLane) string {
	text := fmt.Sprintf("timeout %v, retry for %v, %d per host", lane.Timeout, lane.RetryFor, lane.PerHost)
	if of.Concurrency > 0 {
		text += fmt.Sprintf(", %d at the same time", of.Concurrency)
	}
	if of.Ordered {
		text += ", one at a time per key"
	}
	if lane.URLOnly {
		text += ", its own URL only"
	}
	if len(lane.Allowed) > 0 {
		text += ", also to " + strings.Join(lane.Allowed, " ")
	}
	if lane.SecretFile != "" {
		text += ", signed"
	}
	if of.DeadLetter != "" {
		text += ", failed -> " + of.DeadLetter
	}
	return text
}

// lanesInForce returns the callback lanes that are listed, and how their requests are made.
func (c *Config) lanesInForce() map[string]string {
	lanes := map[string]string{}
	for i := range c.Callback.Lanes {
		lanes[c.Callback.Lanes[i].Name] = describeLane(&c.Callback.Lanes[i], &c.Node.Callbacks.Lanes[i])
	}
	if c.Node.Calls() {
		lanes[otherLanes] = describeLane(&c.Callback.Others, &c.Node.Callbacks.Others)
	}
	return lanes
}

// laneForm says what an output may be.
const laneForm = topicForm + "; that of a callback lane http: and 1 to 240 of the same"

// isOutput reports whether messages may come out on something of that name.
func isOutput(name string) bool { return node.IsTopic(name) || node.IsCallbackLane(name) }

// openCallbacks opens the sink of callback lanes, if there are any.
func (s *Service) openCallbacks() (err error) {
	for _, lane := range slices.Sorted(maps.Keys(s.options.Functions)) {
		if !node.IsCallback(lane) || !s.config.Node.Serves(lane) {
			return Usagef("this program has a function for lane %s, which the node does not serve: it must be an "+
				"output or a target of a route, or be listed under lanes, or the node must serve the API", lane)
		}
	}
	if !s.config.Node.Calls() {
		return nil
	}
	config := s.config.Callback
	config.Functions = s.options.Functions
	config.Open = func(lane string) bool {
		state, has := s.hours.At(lane, time.Now())
		return !has || state.Open
	}
	config.Agent = "Chronos"
	if s.options.Version != "" {
		config.Agent += "/" + s.options.Version
	}
	s.callback, err = callback.New(config, s.metrics.Call)
	if wrong, is := errors.AsType[*callback.LaneError](err); is {
		return Usagef("%v", wrong)
	}
	return err
}

// lanes writes what a lane of the file may say.
func (p *page) lanes() {
	p.line("")
	p.line("## Lanes")
	p.line("")
	p.line("The key `lanes` of the file is a list of callback lanes, see [CALLBACKS.md](CALLBACKS.md). A lane that is")
	p.line("not listed has what the entry named `http:*` says, or the defaults. An entry may also name a topic that")
	p.line("messages come out on, or end with a `*` for all topics that begin so: it has `name`, and `window` or")
	p.line("`max-per-second` or both.")
	for _, key := range keysOfLane() {
		p.line("")
		p.line("**`%s`**: %s.", key.name, key.form)
		p.line("%s", key.help)
	}
}

// laneKey is one key of a lane, for the reference.
type laneKey struct{ name, form, help string }

func keysOfLane() []laneKey {
	lane, few := callback.Default(""), fmt.Sprintf("1 to %d", node.MaxConcurrency)
	return []laneKey{
		{
			"name", "`http:` and 1 to 240 letters, digits, dots, underscores and hyphens, or `http:*`; or a topic",
			"Needed.",
		},
		{
			"window", windowText, "When the lane is open: nothing comes out while it is closed. Default always. A " +
				"route has the same key, for its output. See [WINDOWS.md](WINDOWS.md#quiet-hours-for-a-lane).",
		},
		{
			"max-per-second", fmt.Sprintf("1 to %d", node.MaxPerSecond), "How many messages of the lane, or " +
				"requests, each node begins to send in any second, at most: with three nodes three times as many " +
				"come out. Default no bound. See [WINDOWS.md](WINDOWS.md#a-pace-for-a-lane).",
		},
		{"url", "a URL", "Where messages go that have no header `chronosUrl`."},
		{
			"url-only", "`true` or `false`", "With `true` the lane requests its `url` and no other: a message that " +
				"names another one is refused when it comes in. Default `false`.",
		},
		{
			"timeout", "100ms to 10m", fmt.Sprintf("Time limit of one request. Default %v. The longest of all lanes "+
				"that the node may serve makes the hold time of callbacks.", lane.Timeout),
		},
		{
			"retry-for", "0s to 720h", fmt.Sprintf("How long after its deadline a message is tried again. Default %v.",
				lane.RetryFor),
		},
		{
			"concurrency", few, fmt.Sprintf("How many requests of the lane one node makes at the same time. "+
				"Default %d.", node.DefaultConcurrency),
		},
		{"per-host", few, fmt.Sprintf("How many of them may be to one host. Default %d.", lane.PerHost)},
		{
			"allowed", "a list of hosts (`orders.internal`, `*.internal`, `orders.internal:8080`), addresses " +
				"(`10.1.2.3`, `10.1.2.3:8080`) and prefixes (`10.0.0.0/8`)",
			"Where requests may go beside public addresses on the ports 80 and 443. Default nowhere.",
		},
		{
			"secret-file", "a path", "File with the secrets that requests are signed with, separated by spaces or " +
				"ends of lines. Requests to hosts that neither `url` nor `allowed` names are not signed. Default " +
				"none: no request is signed.",
		},
		{
			"headers", "a mapping of names to values", "Headers of each request to a host that `url` or `allowed` " +
				"names, and of no other. A lane that has them, or a `secret-file`, needs one of these two.",
		},
		{
			"order", "`key` or `none`", "With `key`, messages of one key are requested one after the other, in the " +
				"order of their deadlines. The same for all nodes. Default `none`.",
		},
		{
			"dead-letter", "a topic, or a lane of the list that has a `url`", "Where a copy goes of what failed for " +
				"good. Default the dead-letter topic of the route, or nowhere.",
		},
	}
}

// gaveUp says that a callback will not be made any more.
func (r *Reporter) gaveUp(e *node.GaveUp) {
	to := e.DeadLetter
	if to == "" {
		to = "nowhere"
	}
	if r.burst("gave up", e.Message.Lane, 1, linesPerSecond, slog.LevelError, "gave more callbacks up") {
		r.log.Error("gave a callback up", slog.String("id", e.Message.ID), slog.String("lane", e.Message.Lane),
			slog.Time("deadline", e.Message.Deadline), slog.String("error", oneLine(e.Err)),
			slog.String("copied_to", to))
	}
}
