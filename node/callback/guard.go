package callback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"code.dny.dev/ssrf"
)

// errForbidden marks a connection that was not made, because requests must not go there.
var errForbidden = errors.New("not allowed")

// neverByName are addresses that no name may lead to, not even that of a host that is allowed: there the machines of
// clouds ask for their own credentials. Whoever wants them has to list the address.
func neverByName() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("fe80::/10"),
		netip.MustParsePrefix("fd00:ec2::254/128"),
	}
}

// within are the ranges of addresses of private networks and of the machine itself, which hosts that are allowed by
// name may have.
func within() (v4, v6 []netip.Prefix) {
	v4 = []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("100.64.0.0/10"),
		netip.MustParsePrefix("127.0.0.0/8"),
	}
	return v4, []netip.Prefix{netip.MustParsePrefix("fc00::/7"), netip.MustParsePrefix("::1/128")}
}

// check returns why no connection may be made to a port of an address that nobody has allowed by a name.
func (a *allowed) check(address netip.Addr, port string) error {
	if a.contains(address, port) {
		return nil
	}
	return forbidden(ssrf.New().Safe(network(address), net.JoinHostPort(address.String(), port), nil))
}

// checkNamed returns why no connection may be made to a port of an address of a host that is allowed by its name.
func (a *allowed) checkNamed(address netip.Addr, port string) error {
	if a.contains(address, port) {
		return nil
	}
	for _, p := range neverByName() {
		if p.Contains(address.WithZone("").Unmap()) {
			return forbidden(ssrf.ErrProhibitedIP)
		}
	}
	v4, v6 := within()
	guard := ssrf.New(ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...))
	return forbidden(guard.Safe(network(address), net.JoinHostPort(address.String(), port), nil))
}

func network(address netip.Addr) string {
	if address.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// forbidden puts what the guard says in words, without the address: whoever submits messages may see the error, and is
// not to learn by it what names stand for in here.
func forbidden(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ssrf.ErrProhibitedPort):
		return fmt.Errorf("%w: only the ports 80 and 443 are, unless the lane's key allowed names the host or its "+
			"address", errForbidden)
	default:
		return fmt.Errorf("%w: the host's address is not a public one, and the lane's key allowed does not name it",
			errForbidden)
	}
}

// dial makes a connection to a host and port, if each address that it tries may be connected to. It is told of every
// address right before it is dialled: whatever a name stood for before does not matter.
func (a *allowed) dial(ctx context.Context, resolver *net.Resolver, network, target string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what it is about
	}
	check := a.check
	if a.names(host, port) || a.owns(host, port) {
		check = a.checkNamed
	}
	dialer := net.Dialer{Resolver: resolver, Control: func(_, target string, _ syscall.RawConn) error {
		place, err := netip.ParseAddrPort(target)
		if err != nil {
			return errForbidden
		}
		return check(place.Addr(), port)
	}}
	return dialer.DialContext(ctx, network, target) //nolint:wrapcheck // the transport does
}
