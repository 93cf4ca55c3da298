package service

import (
	"fmt"

	"chronos/node/admin"
	"chronos/node/queue"
	"chronos/node/queue/desk"
	"chronos/node/store/inspect"
	"chronos/node/store/outlook"
)

// mountAPI mounts what operators ask.
func (s *Service) mountAPI() {
	if api := s.store.API(s.config.Node.Lanes(), s.config.Admin.Rights); api != nil {
		api.Info, api.Log, api.Troubles, api.Queues = s.info, s.log, s.troubles, s.desk
		api.Taker = stirringTaker{s}
		api.Problems, api.Explain = s.reporter.Problems, s.explain
		api.MaxDelay, api.Count = s.config.Node.Limits.MaxDelay, s.metrics.Instructed
		api.Finds, api.Hours = s.config.Node.Finds, s.hours.At
		api.Own = s.config.Node.InternalLanes()
		s.recent = admin.NewRecent(s.hours.Outlook(api.Outlook))
		api.Outlook = s.recent
		s.history = admin.NewHistory(s.counted)
		api.History = s.history
		if s.dead != nil {
			api.Dead = s.dead
		}
		s.admins.Mount(api)
	}
}

// counted returns what the node has fired, and how late, for the history of its page.
func (s *Service) counted() admin.Counted {
	fired, lateness := s.metrics.Fired()
	counted := admin.Counted{Fired: fired}
	for _, b := range lateness {
		counted.Lateness = append(counted.Lateness, admin.Bound(b))
	}
	return counted
}

// API returns what operators ask of the store itself; nil if the store shows nothing.
func (s *Store) API(lanes []string, rights admin.Rights) *admin.API {
	shows, _ := s.Store.(inspect.Store)
	tells, _ := s.Store.(outlook.Source)
	if shows == nil || tells == nil {
		return nil
	}
	api := &admin.API{
		Store: shows, Outlook: tells, Taker: s.Store, Lanes: lanes, Rights: rights,
		Explain: func(err error) string { return "the store has not answered: " + CauseHere(err) },
	}
	if queues, is := s.Store.(queue.Store); is {
		api.Queues = &desk.Desk{Store: queues, Base: unknownBase}
	}
	return api
}

// info is what the node says of itself.
func (s *Service) info() admin.Info {
	id, _ := s.id.Load().(string)
	return admin.Info{Node: id, Version: s.options.Version, Settings: s.settings}
}

// effective returns the settings in force, by their names. Secrets are masked, and the routes are told as the log does.
func (c *Config) effective() map[string]string {
	all := map[string]string{}
	for _, row := range Table(Run) {
		var v Value
		if c.settings != nil {
			v = *row.value(c.settings)
		}
		switch {
		case row.secret && v.IsSet:
			all[row.Name] = "xxxxx"
		case row.logged == loggedNever:
		case row.logged == loggedAlways && row.inForce != nil:
			all[row.Name] = fmt.Sprint(row.inForce(c))
		case row.Name == "store":
			all[row.Name] = c.Store.String()
		case v.IsSet && v.inline: // a PEM text, a key perhaps
			all[row.Name] = "in " + v.Origin
		case v.IsSet:
			all[row.Name] = v.shown()
		}
	}
	for i, r := range c.Node.Routes {
		all["route "+r.Input] = destinations(r) + c.compressed(i)
	}
	for name, how := range c.lanesInForce() {
		all["lane "+name] = how
	}
	for _, l := range c.Node.Windows {
		if l.Window != nil {
			all["window "+l.Lane] = windowForPeers(l.Window)
		}
	}
	names, paces := c.pacesInForce()
	for i := range names {
		all[names[i]] = paces[i]
	}
	return all
}
