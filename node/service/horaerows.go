package service

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/listener"
	"chronos/node/queue"
	"chronos/node/queue/desk"
)

// DefaultHorae is where horae's interface is in chronos dev, if nobody says otherwise and the port is free; horaeOn is
// the value of horae-listen for the same place in a node, and horaePort the usual port.
const (
	DefaultHorae = "127.0.0.1:" + horaePort

	horaeOn   = "on"
	horaePort = "8015"
)

// The bounds of task-retention.
const (
	defaultRetention = queue.DefaultRetention
	minRetention     = time.Minute
	maxRetention     = 10 * 365 * 24 * time.Hour
)

// queueRows are the settings of queues.
func queueRows() []Setting {
	rows := []Setting{{
		Name: "horae-listen", Commands: Run | Dev | Operate, PlaceHolder: "HOST[:PORT]", Default: adminOff,
		DevDefault: DefaultHorae + ", or a free port if that is taken",
		Help: "Address to serve the interface of horae on (PUT /v1/queue), see QUEUES.md; on for " + DefaultHorae +
			", off for none. Without a port it is " + horaePort + ". Clients of that interface have no tokens: " +
			"whoever reaches the address may change queues and tasks.",
		Allowed: "a host, HOST:PORT, on or off", value: func(s *Settings) *Value { return &s.horaeListen },
		logged: loggedAlways, inForce: func(c *Config) any {
			if c.Horae == "" {
				return adminOff
			}
			return c.Horae
		},
	}, {
		Name: "horae-url", Commands: Run | Dev, PlaceHolder: placeURL,
		Help: "The URL that this interface is reached at: what the tags HORAE_API_URI and HORAE_COMPLETION_URI of " +
			"actions become. Default that of horae-listen. Each node needs one: that of any node will do.",
		Allowed: "a URL such as http://chronos.example:" + horaePort,
		value:   func(s *Settings) *Value { return &s.horaeURL },
	}, {
		Name: "task-retention", Commands: Run | Dev, PlaceHolder: "TIME", Default: desk.Lasting(defaultRetention),
		Help: "How long a task is kept that has ended, to be looked at. Every node deletes what is older, so let all " +
			"have the same.",
		Allowed: desk.Lasting(minRetention) + " to " + desk.Lasting(maxRetention), form: form{time: true},
		value: func(s *Settings) *Value { return &s.taskRetention },
	}}
	for i := range rows {
		rows[i].Group = "queues"
	}
	return rows
}

// servesHorae reports whether horae's interface is asked for.
func (s *Settings) servesHorae() bool {
	listen := s.horaeListen.or(adminOff)
	return listen != adminOff && listen != ""
}

// HoraeIsSet reports whether somebody has said where horae's interface is to listen.
func (s *Settings) HoraeIsSet() bool { return s.horaeListen.IsSet }

// Horae returns where horae's interface listens, "" for nowhere, and the URL that it is reached at, "" for that of the
// listener. fallback is the address if none is set.
func (s *Settings) Horae(fallback string) (address, reached string, err error) {
	if reached, err = s.horaeAt(); err != nil {
		return "", "", err
	}
	address = s.horaeListen.or(fallback)
	switch bare := strings.Trim(address, "[]"); {
	case address == adminOff || address == "":
		return "", reached, nil
	case address == horaeOn:
		address = DefaultHorae
	case net.ParseIP(bare) != nil || !strings.Contains(address, ":"):
		address = net.JoinHostPort(bare, horaePort)
	}
	_, err = newHorae(address, 0)
	if wrong, is := errors.AsType[*node.ConfigError](err); is {
		return "", "", s.horaeListen.Wrong(wrong.Allowed)
	}
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); reached == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return "", "", s.horaeListen.Wrong("it is no address that a completion could be sent to: name one, or set " +
			"horae-url")
	}
	return address, reached, err
}

// horaeAt returns the URL that somebody has set, with a slash at its end; "" for none.
func (s *Settings) horaeAt() (string, error) {
	if !s.horaeURL.IsSet {
		return "", nil
	}
	at, err := url.Parse(s.horaeURL.Text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.RawQuery != "" ||
		at.Fragment != "" {
		return "", s.horaeURL.Wrong("it must be a URL such as http://chronos.example:" + horaePort)
	}
	return strings.TrimSuffix(at.String(), "/") + "/", nil
}

// newHorae returns the listener of that interface.
func newHorae(address string, memory int) (*listener.Listener[struct{}], error) {
	return listener.New(listener.Config{
		Name: "horae", Port: horaePort, Listen: address, Open: true, Memory: memory,
	}, listener.Grammar[struct{}]{})
}

// Retention returns how long tasks are kept that have ended.
func (s *Settings) Retention() (time.Duration, error) {
	kept := defaultRetention
	if err := s.taskRetention.Duration(&kept); err != nil {
		return 0, err
	}
	if kept < minRetention || kept > maxRetention {
		return 0, s.taskRetention.Wrong("it must be from " + desk.Lasting(minRetention) + " to " +
			desk.Lasting(maxRetention))
	}
	return kept, nil
}
