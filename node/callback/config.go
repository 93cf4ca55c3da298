package callback

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/idna"

	"chronos/node"
	"chronos/node/credential"
)

// Config is what the sink is told.
type Config struct {
	// Lanes are the lanes of which there is something to say, and Others says it of all that are not among them; the
	// zero value for what Default says. The name of Others is for errors.
	Lanes  []Lane
	Others Lane

	// Functions take the messages of lanes in place of receivers, by the lane's name.
	Functions map[string]Function

	// Open reports whether the window of a lane is open now; nil if all lanes are always open. The engine looks before
	// it hands a message over, which may wait for its turn after that.
	Open func(lane string) bool

	// Agent is what requests call the one that makes them: their User-Agent.
	Agent string

	// Keeper is told of files of secrets that cannot be read any more; nil for nobody.
	Keeper *credential.Keeper

	// Resolver looks up names; nil for that of the system. TLS is what connections are encrypted by; nil for the
	// defaults. Both are for tests.
	Resolver *net.Resolver
	TLS      *tls.Config
}

// Lane is how the requests of one callback lane are made.
type Lane struct {
	// Name is that of the lane, with its prefix.
	Name string

	// URL is where messages go that do not say it themselves; empty for nowhere: they are refused.
	URL string

	// Timeout is the time limit of one request, from the look-up of its host to the end of the answer. 100 ms to
	// 10 min.
	Timeout time.Duration

	// RetryFor is how long after its deadline a message that failed is tried again. 0 for not at all, to 30 days.
	RetryFor time.Duration

	// Concurrency is how many requests of the lane the engine makes at the same time, see node.CallbackLane; 0 for
	// node.DefaultConcurrency.
	Concurrency int

	// PerHost is how many requests to one host are under way at most, 1 to node.MaxConcurrency.
	PerHost int

	// URLOnly refuses messages that name another URL than URL.
	URLOnly bool

	// Allowed are hosts and addresses that requests may go to beside the public ones, see parseAllowed.
	Allowed []string

	// SecretFile is a file with the secrets that requests are signed with, see package documentation; empty for none.
	// Requests to hosts that neither URL nor Allowed names are not signed.
	SecretFile string

	// Headers are sent with each request to a host that URL or Allowed names, and with no other. A header of the
	// message that has the name of one of them, as receivers may read it, is never sent.
	Headers []node.Header
}

// callers is how many requests of the lane there are at the same time, and spare how many of them may be probes, or are
// kept for hosts that answer.
func (l *Lane) callers() int {
	if l.Concurrency == 0 {
		return node.DefaultConcurrency
	}
	return l.Concurrency
}

func (l *Lane) spare() int { return max(1, l.callers()/spare) }

// Default returns what a lane is that says nothing else.
func Default(name string) Lane {
	return Lane{Name: name, Timeout: 15 * time.Second, RetryFor: 24 * time.Hour, PerHost: 16}
}

// allOthers is the name of Config.Others.
const allOthers = node.CallbackPrefix + "*"

const (
	minTimeout, maxTimeout = 100 * time.Millisecond, 10 * time.Minute
	maxRetryFor            = 30 * 24 * time.Hour
)

// A LaneError says what is not allowed of one key of a lane.
type LaneError struct {
	Lane, Key, Value, Allowed string
}

// Error returns the sentence for a person.
func (e *LaneError) Error() string {
	return fmt.Sprintf("%s of lane %s is %s: %s", e.Key, e.Lane, e.Value, e.Allowed)
}

// Validate returns a *LaneError for the first thing that is not allowed of the lane, or nil. It does not read the file
// of secrets.
func (l *Lane) Validate() error {
	wrong := func(key, value, allowed string) error { return &LaneError{l.Name, key, value, allowed} }
	switch {
	case !node.IsCallbackLane(l.Name) && l.Name != allOthers:
		return wrong("name", l.Name, "it must be http: and 1 to 240 letters, digits, dots, underscores and hyphens")
	case l.Timeout < minTimeout || l.Timeout > maxTimeout:
		return wrong("timeout", l.Timeout.String(), fmt.Sprintf("it must be from %v to %v", minTimeout, maxTimeout))
	case l.RetryFor < 0 || l.RetryFor > maxRetryFor:
		return wrong("retry-for", l.RetryFor.String(), "it must be from 0s to 720h, which is 30 days")
	case l.PerHost < 1 || l.PerHost > node.MaxConcurrency:
		return wrong("per-host", fmt.Sprint(l.PerHost), fmt.Sprintf("it must be from 1 to %d", node.MaxConcurrency))
	}
	allowed, err := parseAllowed(l.Allowed)
	if err != nil {
		return wrong("allowed", strings.Join(l.Allowed, ","), err.Error())
	}
	for _, h := range l.Headers {
		if !relayable(h, nil) {
			return wrong("headers", h.Name, "it must be a header that a request may have, with a value of one line, "+
				"and none of those that are set for each request")
		}
	}
	if l.URL != "" {
		if _, err := allowed.parse(l.URL); err != nil {
			return wrong("url", credential.Redact(l.URL), err.Error())
		}
	}
	return l.validateCredentials()
}

// validateCredentials returns a *LaneError for a lane that has a credential and names nobody whom it is for, or that is
// limited to a URL that it does not have.
func (l *Lane) validateCredentials() error {
	const nowhere = "the lane has neither url nor allowed, so a message may name any URL, and they are sent only to " +
		"hosts that the lane names: add url, or allowed with the hosts that they are for"
	switch {
	case l.URLOnly && l.URL == "":
		return &LaneError{l.Name, "url-only", "true", "the lane has no url: add it"}
	case l.URL != "" || len(l.Allowed) > 0:
		return nil
	case len(l.Headers) > 0:
		return &LaneError{l.Name, "headers", l.Headers[0].Name, nowhere}
	case l.SecretFile != "":
		return &LaneError{
			l.Name, "secret-file", l.SecretFile, strings.Replace(nowhere, "they are", "signatures are", 1),
		}
	}
	return nil
}

// allowed is what a lane allows beside public addresses.
type allowed struct {
	hosts    []hostPort
	prefixes []prefixPort

	own []hostPort // of the service itself: see Sink.Reach
}

// hostPort is a host that is allowed: its name, or the end of its name after a *, and its port; empty for any.
type hostPort struct{ name, port string }

// prefixPort are addresses that are allowed, and their port; empty for any.
type prefixPort struct {
	netip.Prefix

	port string
}

// parseAllowed reads what a lane allows: addresses (10.1.2.3) and hosts (orders.internal, *.internal), which may have a
// port (10.1.2.3:8080, [fd00::1]:8080, orders.internal:8080), and prefixes of addresses (10.0.0.0/8).
func parseAllowed(entries []string) (a allowed, err error) {
	for _, entry := range entries {
		if prefix, err := netip.ParsePrefix(entry); err == nil {
			a.prefixes = append(a.prefixes, prefixPort{prefix.Masked(), ""})
			continue
		}
		name, port, valid := entry, "", true
		if host, text, err := net.SplitHostPort(entry); err == nil {
			number, err := strconv.ParseUint(text, 10, 16)
			name, port, valid = host, strconv.FormatUint(number, 10), err == nil && number > 0
		}
		if address, err := netip.ParseAddr(name); err == nil && valid {
			address = address.Unmap()
			a.prefixes = append(a.prefixes, prefixPort{netip.PrefixFrom(address, address.BitLen()), port})
			continue
		}
		rest, sub := strings.CutPrefix(name, "*.")
		rest = canonical(rest)
		if name = rest; sub {
			name = "*." + rest
		}
		if rest == "" || strings.ContainsAny(rest, "*/:@ ") || !valid {
			return a, fmt.Errorf("%s must be a host (orders.internal, *.internal, orders.internal:8080), an address "+
				"(10.1.2.3, 10.1.2.3:8080) or a prefix of addresses (10.0.0.0/8)", entry)
		}
		a.hosts = append(a.hosts, hostPort{strings.TrimPrefix(name, "*"), port})
	}
	return a, nil
}

// canonical returns a host's name as it is compared: in small letters, and in ASCII (müller.example is
// xn--mller-kva.example), as it is asked for. What cannot be written so stays as it is.
func canonical(host string) string {
	if ascii, err := inASCII(host); err == nil {
		host = ascii
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// inASCII returns a host's name as net/http dials it.
func inASCII(host string) (string, error) {
	if strings.IndexFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return host, nil
	}
	return idna.Lookup.ToASCII(host) //nolint:wrapcheck // the caller says what it is about
}

// names reports whether requests to a port of a host are allowed by its name.
func (a *allowed) names(host, port string) bool {
	host = canonical(host)
	return slices.ContainsFunc(a.hosts, func(h hostPort) bool {
		if !samePort(h.port, port) {
			return false
		}
		return h.name == host || strings.HasPrefix(h.name, ".") && strings.HasSuffix(host, h.name)
	})
}

// owns reports whether a port of a host is one of the service itself.
func (a *allowed) owns(host, port string) bool {
	host = canonical(host)
	return slices.ContainsFunc(a.own, func(h hostPort) bool { return h.name == host && samePort(h.port, port) })
}

// contains reports whether a port of an address is allowed as such.
func (a *allowed) contains(address netip.Addr, port string) bool {
	address = address.WithZone("").Unmap()
	return slices.ContainsFunc(a.prefixes, func(p prefixPort) bool {
		return samePort(p.port, port) && p.Contains(address)
	})
}

// opens reports whether a port of some address is allowed as such.
func (a *allowed) opens(port string) bool {
	return slices.ContainsFunc(a.prefixes, func(p prefixPort) bool { return samePort(p.port, port) })
}

// samePort reports whether a port of a URL is the one that is allowed; empty for any. 08080 is 8080.
func samePort(allowed, port string) bool {
	number, err := strconv.Atoi(port)
	return allowed == "" || err == nil && allowed == strconv.Itoa(number)
}

// maxURL is more than most servers take, and maxHost is the longest name that there can be.
const (
	maxURL  = 8 << 10
	maxHost = 253
)

// parse reads a URL that a message names, and refuses what can be told from the text: what a name leads to is only
// known when it is dialled.
func (a *allowed) parse(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, fmt.Errorf("the URL has %d bytes, more than %d", len(text), maxURL)
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" || u.Hostname() == "" {
		return nil, errors.New("the URL is not one: it must be http:// or https://, a host, and a path")
	}
	if ascii, err := inASCII(u.Hostname()); err != nil {
		return nil, errors.New("the URL has a host that is no name: it cannot be written in ASCII")
	} else if ascii != u.Hostname() {
		u.Host = strings.Replace(u.Host, u.Hostname(), ascii, 1)
	}
	port := portOf(u)
	number, err := strconv.Atoi(port)
	switch {
	case err != nil || number < 1 || number > 65535:
		return nil, fmt.Errorf("the URL has the port %.20s: it must be from 1 to 65535", port)
	case len(canonical(u.Hostname())) > maxHost:
		return nil, fmt.Errorf("the URL has a host of %d bytes: a name has %d at most", len(u.Hostname()), maxHost)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the URL begins with %.20q: it must begin with http:// or https://", u.Scheme+":")
	case u.User != nil:
		return nil, errors.New("the URL has a user name or a password: they belong in a header")
	}
	u.Fragment, u.RawFragment = "", ""
	u.RawQuery = escapedQuery(u.RawQuery)
	if a.owns(u.Hostname(), port) {
		return u, nil
	}
	if address, err := netip.ParseAddr(u.Hostname()); err == nil {
		if err := a.check(address, port); err != nil {
			return nil, err
		}
		return u, nil
	}
	if port != "80" && port != "443" && !a.opens(port) && !a.names(u.Hostname(), port) {
		return nil, fmt.Errorf("port %s of %s is not allowed: only 80 and 443 are, unless the lane's key allowed "+
			"names the host", port, u.Hostname())
	}
	return u, nil
}

// escapedQuery returns the query of a URL with everything escaped that must not stand there as it is (RFC 3986), such
// as spaces, umlauts, quotes, brackets, and a % that escapes nothing. What is escaped already stays.
func escapedQuery(query string) string {
	const others = "-._~!$&'()*+,;=:@/?"
	isHex := func(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
	var escaped strings.Builder
	for i := range len(query) {
		c := query[i]
		switch {
		case 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(others, c) >= 0,
			c == '%' && i+2 < len(query) && isHex(query[i+1]) && isHex(query[i+2]):
			escaped.WriteByte(c)
		default:
			fmt.Fprintf(&escaped, "%%%02X", c)
		}
	}
	return escaped.String()
}

// hostOf returns what a URL asks, as it is compared: a host and a port. Another port is another server, which may be
// well where this one is not.
func hostOf(u *url.URL) string {
	port, _ := strconv.Atoi(portOf(u)) // 080 is 80; parse has seen that it is a number
	return net.JoinHostPort(canonical(u.Hostname()), strconv.Itoa(port))
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}
