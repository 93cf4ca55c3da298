package service

import (
	"slices"
	"strings"
	"time"

	"chronos/node"
)

// Input returns the input topic that a command sends to: the one that it names, or that of the settings. Of several
// routes it is the only one that writes to lane; lane is empty for the output topic of the route.
func (s *Settings) Input(named, lane string) (string, error) {
	if named != "" {
		return named, nil
	}
	routes := s.fileRoutes()
	if len(routes) == 0 {
		return s.inputTopic.or(DefaultInput), nil
	}
	var all, fit []string
	for _, route := range routes {
		all = append(all, route.Input)
		if lane != "" && (slices.Contains(route.Outputs(), lane) || route.Finds(lane)) {
			fit = append(fit, route.Input)
		}
	}
	switch {
	case len(all) == 1:
		return all[0], nil
	case len(fit) == 1:
		return fit[0], nil
	}
	return "", s.several("--topic", "input topics", all)
}

// Output returns the output topic that a command reads: the one that it names, or that of the settings.
func (s *Settings) Output(named string) (string, error) {
	return s.topicOf(named, s.outputTopic.or(DefaultOutput), "--topic", "output topics",
		func(r *node.Route) []string { return r.Outputs() })
}

// DeadLetters returns the dead-letter topic that a command reads: the one that it names, or that of the settings; empty
// if neither says one.
func (s *Settings) DeadLetters(named string) (string, error) {
	return s.topicOf(named, s.deadLetterTopic.Text, "TOPIC", "dead-letter topics",
		func(r *node.Route) []string { return []string{r.DeadLetter} })
}

// topicOf returns the topic that is named, or the only one of the routes, or that of the setting for a single one.
func (s *Settings) topicOf(
	named, single, flag, what string, of func(*node.Route) []string,
) (string, error) {
	routes := s.fileRoutes()
	if named != "" || len(routes) == 0 {
		if named == "" {
			named = single
		}
		return named, nil
	}
	var all []string
	for i := range routes {
		all = append(all, of(&routes[i])...)
	}
	all = slices.DeleteFunc(all, func(topic string) bool { return topic == "" || node.IsCallback(topic) })
	slices.Sort(all)
	switch all = slices.Compact(all); len(all) {
	case 0:
		return "", nil
	case 1:
		return all[0], nil
	}
	return "", s.several(flag, what, all)
}

// several returns the error for a command that has to say which topic it means.
func (s *Settings) several(flag, what string, all []string) error {
	return Usagef("%s is not set, and %s has several %s: name one of %s", flag, s.file.routesOrigin, what,
		strings.Join(all, ", "))
}

// fileRoutes returns the routes of the file as a command needs them that only sends to them, or reads from them; none
// if there are none.
func (s *Settings) fileRoutes() []node.Route {
	if s.file == nil {
		return nil
	}
	routes := make([]node.Route, len(s.file.routes))
	for i := range s.file.routes {
		r := &s.file.routes[i]
		format, _ := node.ParseFormat(r.Format.or(node.FormatChronos.String()))
		routes[i] = node.Route{
			Input: r.Input.Text, Output: r.Output.Text, DeadLetter: r.DeadLetter.Text, Outcomes: r.Outcomes.Text,
			Targets: r.Targets.list(), Format: format,
		}
	}
	return routes
}

// routeOf returns the route of an input topic, and whether the settings have one.
func (s *Settings) routeOf(input string) (route node.Route, known bool) {
	for _, route := range s.fileRoutes() {
		if route.Input == input {
			return route, true
		}
	}
	single := node.Route{
		Input: s.inputTopic.or(DefaultInput), Output: s.outputTopic.or(DefaultOutput), Targets: s.targets.list(),
		DeadLetter: s.deadLetterTopic.Text, Outcomes: s.outcomeTopic.Text,
	}
	said := s.inputTopic.IsSet || s.outputTopic.IsSet || s.targets.IsSet
	return single, said && single.Input == input
}

// Knows reports whether the settings have the route of an input topic.
func (s *Settings) Knows(input string) bool {
	_, known := s.routeOf(input)
	return known
}

// Refusal returns an error for a record that a command is about to send and nodes will reject, see Unfit.
func (s *Settings) Refusal(record node.Record, lane string) error {
	unfit, err := s.Unfit(record, lane)
	if err == nil && unfit != nil {
		err = Usagef("nodes would reject it, and nothing was sent: %s (%s)", unfit.Detail, unfit.Reason)
	}
	return err
}

// Unfit returns why nodes will reject a record, as far as that can be known: by what holds for all nodes, and by what
// the settings say of routes and limits. It is nil if they will not. The lane is the one that the record names.
func (s *Settings) Unfit(record node.Record, lane string) (*node.UnfitError, error) {
	config := node.Default()
	config.Routes, config.EpochDeadlines = s.fileRoutes(), s.EpochDeadlines()
	if err := s.limits(&config); err != nil {
		return nil, err
	}
	// Whether queues are served is a matter of listeners, of which nobody here knows.
	config.Callbacks.Lanes = []node.CallbackLane{{Name: node.TasksLane}}
	route, known := s.routeOf(record.Topic)
	if !known {
		route = node.Route{Input: record.Topic, Output: DefaultOutput}
		if lane != "" {
			route.Output = lane // it may be a target
		}
	}
	if len(config.Routes) == 0 {
		config.Routes = []node.Route{route}
	}
	return config.Refusal(record, route, time.Now), nil
}
