package service

import (
	"errors"
	"net"
	"strings"

	"chronos/node"
	"chronos/node/listener"
)

// metaswitchOn is the value of metaswitch-listen for the usual port, on this machine, and metaswitchPort that port.
const (
	metaswitchOn   = "on"
	metaswitchPort = "7253"
)

// metaswitchRows is the setting of the interface of Metaswitch's Chronos.
func metaswitchRows() []Setting {
	return []Setting{{
		Name: "metaswitch-listen", Group: "metaswitch", Commands: Run | Dev | Operate, PlaceHolder: "HOST[:PORT]",
		Default: adminOff,
		Help: "Address to serve the interface of Metaswitch's Chronos on (POST /timers), see MOVING.md; on for " +
			"127.0.0.1:" + metaswitchPort + ", off for none. Without a port it is " + metaswitchPort + ". Clients of " +
			"that interface have no tokens: whoever reaches the address may set and delete timers.",
		Allowed: "a host, HOST:PORT, on or off", value: func(s *Settings) *Value { return &s.metaswitchListen },
		logged: loggedAlways, inForce: func(c *Config) any {
			if c.Metaswitch == "" {
				return adminOff
			}
			return c.Metaswitch
		},
	}}
}

// servesMetaswitch reports whether that interface is asked for.
func (s *Settings) servesMetaswitch() bool {
	listen := s.metaswitchListen.or(adminOff)
	return listen != adminOff && listen != ""
}

// Metaswitch returns where the interface of Metaswitch's Chronos listens; "" for nowhere.
func (s *Settings) Metaswitch() (string, error) {
	if !s.servesMetaswitch() {
		return "", nil
	}
	address := s.metaswitchListen.Text
	switch bare := strings.Trim(address, "[]"); {
	case address == metaswitchOn:
		address = net.JoinHostPort("127.0.0.1", metaswitchPort)
	case net.ParseIP(bare) != nil || !strings.Contains(address, ":"):
		address = net.JoinHostPort(bare, metaswitchPort)
	}
	_, err := newMetaswitch(address, 0)
	if wrong, is := errors.AsType[*node.ConfigError](err); is {
		return "", s.metaswitchListen.Wrong(wrong.Allowed)
	}
	return address, err
}

// newMetaswitch returns the listener of that interface.
func newMetaswitch(address string, memory int) (*listener.Listener[struct{}], error) {
	return listener.New(listener.Config{
		Name: "metaswitch", Port: metaswitchPort, Listen: address, Open: true, Memory: memory,
	}, listener.Grammar[struct{}]{})
}
