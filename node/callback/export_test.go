package callback

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"time"

	"chronos/node"
)

// Hosts are hosts, for tests that say themselves what becomes of requests.
type Hosts struct{ hosts hosts }

// Enter waits for a request's turn. Leave ends it.
func (h *Hosts) Enter(l Lane, name string, overdue time.Duration) (leave func(unanswered, good bool), err error) {
	v, since, why := h.hosts.enter(place{l.Name, name}, &lane{Lane: l}, overdue)
	if why != nil {
		return nil, &stoodBackError{*why, since}
	}
	return func(unanswered, good bool) { _, _ = v.leave(unanswered, good) }, nil
}

// stoodBackError is why a request has no turn, with how long its host has stood back.
type stoodBackError struct {
	node.PublishError

	since time.Duration
}

func (s *stoodBackError) Unwrap() error { return &s.PublishError }

// Known returns how many hosts are known.
func (h *Hosts) Known() int { return len(h.hosts.all) }

// Away returns for how long a host has stood back by then, and how long a message is to wait; false if it does not
// stand back.
func Away(err error) (since, after time.Duration, away bool) {
	one, is := errors.AsType[*stoodBackError](err)
	if !is || one.Kind != node.PartUnavailable {
		return 0, 0, false
	}
	return one.since, one.After, true
}

// MostHosts is how many hosts that do not answer are known at most.
const MostHosts = mostHosts

// Busy reports whether an error says that a message was put off because its host, or its lane, has enough to do.
func Busy(err error) bool {
	return node.KindOf(err) == node.NotSent
}

// HostOf returns what host a URL asks, as far as turns are concerned.
func HostOf(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	return hostOf(u), nil
}

// Proxied reports whether requests of a sink may go through a proxy.
func (s *Sink) Proxied() bool { return s.others.transport.Proxy != nil }

// Dial makes a connection as a request of the lanes that are not listed does when nobody waits for it any more.
func (s *Sink) Dial(address string) (net.Conn, error) {
	return s.others.transport.DialContext(context.Background(), "tcp", address)
}

// Names reports whether a lane with that URL, and those hosts allowed, sends its headers and its signature to a target.
func Names(own string, allows []string, target string) (bool, error) {
	a, err := parseAllowed(allows)
	if err != nil {
		return false, err
	}
	u, err := url.Parse(target)
	if err != nil {
		return false, err
	}
	l := &lane{Lane: Lane{URL: own}, allowed: a}
	return l.names(u), nil
}

// CheckAddress returns why no connection may be made to an address, of a host that is allowed by its name or one that
// is not.
func CheckAddress(allows []string, named bool, address netip.AddrPort) error {
	a, err := parseAllowed(allows)
	if err != nil {
		return err
	}
	check := a.check
	if named {
		check = a.checkNamed
	}
	return check(address.Addr(), strconv.Itoa(int(address.Port())))
}
