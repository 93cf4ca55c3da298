package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/node"
)

// The defaults that are not those of node.Default.
const (
	defaultBrokers = "localhost:9092"
	defaultGroup   = "chronos"
	defaultInput   = "chronos.in"
	defaultOutput  = "chronos.out"
)

// maxHoldTime is far beyond what makes sense, and keeps what is derived from it within the bounds of the adapters.
const maxHoldTime = time.Hour

// wrong returns the error for a setting whose value is not allowed.
func (s *setting) wrong(allowed string) error {
	return usagef("%s is %s: %s", s.origin, shown(s.text), allowed)
}

// shown quotes a value unless it is plain.
func shown(value string) string {
	if regexp.MustCompile(`^[\w.:/+,@-]+$`).MatchString(value) {
		return value
	}
	return strconv.Quote(value)
}

// or returns the value, or fallback if there is none.
func (s *setting) or(fallback string) string {
	if s.isSet {
		return s.text
	}
	return fallback
}

// duration sets target, if s has a value.
func (s *setting) duration(target *time.Duration) error {
	if !s.isSet {
		return nil
	}
	d, err := time.ParseDuration(s.text)
	if err != nil {
		return s.wrong("it must be a time such as 100ms, 5s or 1m30s")
	}
	*target = d
	return nil
}

// choice returns the value, which must be one of choices; fallback if there is none.
func (s *setting) choice(fallback string, choices ...string) (string, error) {
	value := s.or(fallback)
	if !slices.Contains(choices, value) {
		last := len(choices) - 1
		return "", s.wrong("it must be " + strings.Join(choices[:last], ", ") + " or " + choices[last])
	}
	return value, nil
}

// list returns the elements of the value, which are separated by commas.
func (s *setting) list() []string {
	if s.text == "" {
		return nil
	}
	elements := strings.Split(s.text, ",")
	for i := range elements {
		elements[i] = strings.TrimSpace(elements[i])
	}
	return elements
}

// topic returns the name of a topic; fallback if there is none.
func (s *setting) topic(fallback string) (string, error) {
	name := s.or(fallback)
	if name == "" && fallback == "" {
		return "", nil
	}
	if !regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`).MatchString(name) || name == "." || name == ".." {
		return "", s.wrong("the name of a topic has 1 to 249 letters, digits, dots, underscores and hyphens")
	}
	return name, nil
}

// value returns whether the toggle is on.
func (t *toggle) value() (bool, error) {
	switch t.or("false") {
	case "true":
		return true, nil
	case "false":
		return false, nil
	default:
		return false, t.wrong("it must be true or false")
	}
}

// exclude returns an error if both settings have a value.
func exclude(a, b *setting) error {
	if a.isSet && b.isSet {
		return usagef("%s and %s exclude each other: only one of them may be set", a.origin, b.origin)
	}
	return nil
}

// explain puts a *node.ConfigError in terms of the setting that is to blame.
func explain(err error, blame map[string]*setting) error {
	var wrong *node.ConfigError
	if !errors.As(err, &wrong) {
		return err
	}
	s, known := blame[wrong.Setting]
	switch {
	case !known:
		return err
	case wrong.Setting == "Brokers": // one of the list
		return usagef("%s is %s: %s", s.origin, wrong.Value, wrong.Allowed)
	case wrong.Setting == "Routes":
		return usagef("%s has %s: %s", s.origin, wrong.Value, wrong.Allowed)
	case !s.isSet:
		return usagef("%s is %s by default: %s", s.origin, wrong.Value, wrong.Allowed)
	default:
		return s.wrong(wrong.Allowed)
	}
}

// read returns what is in the file that s names.
func (s *setting) read() ([]byte, error) {
	content, err := os.ReadFile(s.text)
	if err != nil {
		return nil, s.wrong("it must be a file that can be read: " + errors.Unwrap(err).Error())
	}
	return content, nil
}

// secret returns the password in the file that s names, without the end of its line.
func (s *setting) secret() (string, error) {
	content, err := s.read()
	if err != nil {
		return "", err
	}
	password := strings.TrimRight(string(content), "\r\n")
	if password == "" {
		return "", s.wrong("it must be a file with a password, and it is empty")
	}
	return password, nil
}

// nodeConfig returns the configuration of a node. file may be nil.
func (s *nodeSettings) nodeConfig(file *configFile) (node.Config, error) {
	config := node.Default()
	if _, err := rand.Read(config.Seed[:]); err != nil {
		return config, fmt.Errorf("draw a seed: %w", err)
	}
	routes, origin, err := s.routes(file)
	if err != nil {
		return config, err
	}
	config.Routes = routes
	if err := s.timing(&config); err != nil {
		return config, err
	}
	epoch, err := s.EpochDeadlines.choice("reject", "reject", "seconds", "milliseconds")
	if err != nil {
		return config, err
	}
	config.EpochDeadlines = map[string]node.EpochUnit{
		"reject": node.EpochRejected, "seconds": node.EpochSeconds, "milliseconds": node.EpochMilliseconds,
	}[epoch]
	config.RelayHeaders = s.RelayHeaders.list()
	for _, name := range config.RelayHeaders {
		if name != node.HeaderID && name != node.HeaderDeadline {
			return config, s.RelayHeaders.wrong("it may name " + node.HeaderID + " and " + node.HeaderDeadline +
				"; all other headers are relayed anyway")
		}
	}
	if config.HoldTime > maxHoldTime {
		return config, s.HoldTime.wrong(fmt.Sprintf("it must be %v or less", maxHoldTime))
	}
	return config, explain(config.Validate(), map[string]*setting{
		"TimingAdvance": &s.TimingAdvance, "HoldTime": &s.HoldTime, "PollInterval": &s.PollInterval,
		"DetectionInterval": &s.DetectionInterval, "Lookahead": &s.Lookahead, "LeaveAfter": &s.LeaveAfter,
		"Routes": {origin: origin},
	})
}

// timing sets the times of config.
func (s *nodeSettings) timing(config *node.Config) error {
	if s.TimingAdvance.text == "auto" {
		config.AdaptiveAdvance = true
	} else if err := s.TimingAdvance.duration(&config.TimingAdvance); err != nil {
		return s.TimingAdvance.wrong("it must be a time such as 50ms, or auto")
	}
	for _, entry := range []struct {
		setting *setting
		target  *time.Duration
	}{
		{&s.HoldTime, &config.HoldTime},
		{&s.PollInterval, &config.PollInterval},
		{&s.DetectionInterval, &config.DetectionInterval},
		{&s.Lookahead, &config.Lookahead},
		{&s.LeaveAfter, &config.LeaveAfter},
	} {
		if err := entry.setting.duration(entry.target); err != nil {
			return err
		}
	}
	return nil
}

// routes returns the routes, and what to call the setting that they come from.
func (s *nodeSettings) routes(file *configFile) ([]node.Route, string, error) {
	if file == nil || file.routesOrigin == "" {
		route, err := s.route()
		return []node.Route{route}, s.OutputTopic.origin, err
	}
	for _, topic := range []*setting{&s.InputTopic, &s.OutputTopic, &s.DeadLetterTopic} {
		if topic.isSet {
			return nil, "", usagef(
				"%s and %s exclude each other: only one of them may be set", topic.origin, file.routesOrigin)
		}
	}
	routes := make([]node.Route, len(file.routes))
	for i, entry := range file.routes {
		for _, needed := range []*setting{&entry.Input, &entry.Output} {
			if !needed.isSet {
				return nil, "", usagef("%s is not set: every route needs it", needed.origin)
			}
		}
		for _, field := range []struct {
			setting *setting
			target  *string
		}{
			{&entry.Input, &routes[i].Input},
			{&entry.Output, &routes[i].Output},
			{&entry.DeadLetter, &routes[i].DeadLetter},
		} {
			var err error
			if *field.target, err = field.setting.topic(""); err != nil {
				return nil, "", err
			}
		}
	}
	return routes, file.routesOrigin, nil
}

// route returns the route of the settings for a single one.
func (s *nodeSettings) route() (node.Route, error) {
	var route node.Route
	var err error
	if route.Input, err = s.InputTopic.topic(defaultInput); err != nil {
		return route, err
	}
	if route.Output, err = s.OutputTopic.topic(defaultOutput); err != nil {
		return route, err
	}
	if route.DeadLetter, err = s.DeadLetterTopic.topic(""); err != nil {
		return route, err
	}
	switch route.Input {
	case route.Output:
		blamed := &s.OutputTopic
		if !blamed.isSet {
			blamed = &s.InputTopic
		}
		return route, blamed.wrong("the input and the output topic must differ, " +
			"because a message must not be submitted again by being delivered")
	case route.DeadLetter:
		return route, s.DeadLetterTopic.wrong("it must not be the input topic, " +
			"because a rejected record must not be submitted again")
	}
	if route.DeadLetter == route.Output {
		return route, s.DeadLetterTopic.wrong("it must not be the output topic, " +
			"because rejected records need a topic of their own")
	}
	return route, nil
}

// partitions returns how many partitions the topics get that are created; 0 for what the broker says.
func (s *nodeSettings) partitions() (int32, error) {
	if !s.CreatePartitions.isSet {
		return 0, nil
	}
	n, err := strconv.ParseInt(s.CreatePartitions.text, 10, 32)
	if err != nil || n < 1 || n > 10_000 {
		return 0, s.CreatePartitions.wrong("it must be a number from 1 to 10000")
	}
	return int32(n), nil
}

// group returns the consumer group.
func (s *nodeSettings) group() (string, error) {
	name := s.Group.or(defaultGroup)
	if name == "" {
		return "", s.Group.wrong("it must name a consumer group")
	}
	return name, nil
}
