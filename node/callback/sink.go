package callback

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"chronos/node"
)

const (
	// answerBytes is how much of the body of an answer is kept.
	answerBytes = 1 << 10

	// drainBytes is how much of the body of a good answer is read, so that the connection can be used again.
	drainBytes = 4 << 10

	// bodyWait is how long the body of an answer may take, whose status has been told by then: a receiver that says
	// what it thinks and hangs after that is no reason to keep a caller until the time limit.
	bodyWait = time.Second

	// headerBytes bounds the headers of an answer.
	headerBytes = 64 << 10

	// idleFor is how long a connection is kept that nothing is sent over.
	idleFor = time.Minute

	// idleConnections is how many of these a lane keeps: whoever submits chooses how many hosts there are, and the node
	// needs its file descriptors.
	idleConnections = 256

	// maxRetryAfter is the longest wait that a receiver may ask for.
	maxRetryAfter = 24 * time.Hour
)

// Sink makes the requests of callback lanes. It is safe for concurrent use.
type Sink struct {
	config  Config
	observe func(Call)
	hosts   hosts
	lanes   map[string]*lane
	others  *lane // all that are not among lanes
}

var _ node.Sink = (*Sink)(nil)

// lane is one lane at work.
type lane struct {
	Lane

	allowed   allowed
	secrets   *secrets // nil for none
	transport *http.Transport
}

// Call is one request, for whoever counts them.
type Call struct {
	Lane    string
	Host    string
	Attempt int

	// Class is what came of it: 2xx, 3xx, 4xx or 5xx for an answer, timeout, or error for a connection that failed.
	Class string

	// Took is how long the request took. The time that it has waited for its turn does not count.
	Took time.Duration
}

// New returns a sink. observe is told of each request; nil for nobody. A *LaneError says what is not allowed of a lane.
func New(config Config, observe func(Call)) (*Sink, error) {
	if observe == nil {
		observe = func(Call) {}
	}
	s := &Sink{config: config, observe: observe, lanes: map[string]*lane{}}
	for _, l := range config.Lanes {
		one, err := s.newLane(l)
		if err != nil {
			return nil, err
		}
		s.lanes[l.Name] = one
	}
	others := config.Others
	if others.Timeout == 0 {
		others = Default(allOthers)
	}
	others.Name = allOthers
	var err error
	s.others, err = s.newLane(others)
	return s, err
}

// Reach lets requests of a lane go to the host and port of a URL, which is one of the service itself, without an entry
// in allowed. The headers and the signature of the lane do not go there. It is called before any request is made.
func (s *Sink) Reach(name, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("reach %q: it is no URL", address)
	}
	one := s.lanes[name]
	if one == nil {
		like := s.others.Lane
		like.Name = name
		if one, err = s.newLane(like); err != nil {
			return err
		}
		s.lanes[name] = one
	}
	one.allowed.own = append(one.allowed.own, hostPort{canonical(u.Hostname()), portOf(u)})
	return nil
}

func (s *Sink) newLane(l Lane) (*lane, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	one := &lane{Lane: l}
	one.allowed, _ = parseAllowed(l.Allowed) // Validate has seen that it can be read
	if l.SecretFile != "" {
		var err error
		if one.secrets, err = newSecrets(s.config.Keeper, l.SecretFile); err != nil {
			return nil, &LaneError{l.Name, "secret-file", l.SecretFile, err.Error()}
		}
	}
	// The end of a request does not end the making of its connection: net/http goes on with it, for the next one. So
	// that has time limits of its own. Without them each request to a host that says nothing to the client's greeting
	// would leave a connection behind forever.
	//
	// No Proxy: the address that is looked at would be the proxy's. No compression: what is unpacked may be much more
	// than what was read. HTTP/1.1 only: over HTTP/2 all requests to a host share one connection, and when that dies
	// without a word, each of them runs into its time limit, also when the host has long been back.
	one.transport = &http.Transport{
		DialContext: func(ctx context.Context, network, target string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, l.Timeout)
			defer cancel()
			return one.allowed.dial(ctx, s.config.Resolver, network, target)
		},
		TLSHandshakeTimeout:    l.Timeout,
		TLSClientConfig:        s.config.TLS,
		TLSNextProto:           map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression:     true,
		MaxIdleConnsPerHost:    l.PerHost,
		MaxIdleConns:           idleConnections,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: headerBytes,
	}
	return one, nil
}

// Longest returns the longest time that Publish takes: what the engine has to know of the sink. others says that there
// may be lanes that are not among Lanes.
func (c *Config) Longest(others bool) time.Duration {
	longest := c.Others.Timeout
	switch {
	case !others && len(c.Lanes) > 0:
		longest = 0
	case longest == 0:
		longest = Default(allOthers).Timeout
	}
	for _, l := range c.Lanes {
		longest = max(longest, l.Timeout)
	}
	return longest + MaxWait
}

// Close closes the connections that nothing is sent over.
func (s *Sink) Close() {
	s.others.transport.CloseIdleConnections()
	for _, l := range s.lanes {
		l.transport.CloseIdleConnections()
	}
}

// Publish implements node.Sink. Each record is one request; all are made at the same time. An error is a
// *node.PublishError: what is not RecordRejected is to be tried again.
func (s *Sink) Publish(ctx context.Context, records []node.Record) []error {
	errs := make([]error, len(records))
	var running sync.WaitGroup
	for i := range records[:max(len(records)-1, 0)] {
		running.Go(func() { errs[i] = s.call(ctx, &records[i]) })
	}
	if last := len(records) - 1; last >= 0 {
		errs[last] = s.call(ctx, &records[last])
	}
	running.Wait()
	return errs
}

// call makes the request of a record.
func (s *Sink) call(ctx context.Context, record *node.Record) error {
	l := s.lanes[record.Topic]
	if l == nil {
		l = s.others
	}
	if function := s.config.Functions[record.Topic]; function != nil {
		return s.handOver(ctx, l, function, record)
	}
	h := read(record)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var reached atomic.Bool // a connection: from then on the request may have been made
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { reached.Store(true) },
	})
	request, err := l.request(ctx, record, h, s.config.Agent)
	if err != nil {
		return &node.PublishError{Kind: node.RecordRejected, Err: err}
	}
	at := place{record.Topic, hostOf(request.URL)}
	turn, err := s.enter(ctx, at, l, &h)
	if err != nil {
		return err
	}
	limit := time.AfterFunc(l.Timeout, cancel) // from now on: it may have waited for its turn
	began := time.Now()
	status, after, answer, err := l.send(request, func() {
		limit.Reset(min(bodyWait, time.Until(began.Add(l.Timeout))))
	})
	took := time.Since(began)
	timely := limit.Stop()
	away, standsBack := turn.leave(err != nil && (!timely || !reached.Load()), err == nil)
	attempt, _ := strconv.Atoi(h.attempt)
	s.observe(Call{record.Topic, at.host, attempt, class(status, timely), took})
	failed := &node.PublishError{After: after, Status: status, Answer: answer}
	switch {
	case err != nil && !timely && reached.Load():
		failed.Err = fmt.Errorf("%s did not answer within %v", at.host, l.Timeout)
	case err != nil && !timely:
		failed.Kind, failed.Err = node.NotSent, fmt.Errorf("not sent: there was no connection to %s within %v",
			at.host, l.Timeout)
	case err != nil && !reached.Load():
		failed.Kind, failed.Err = node.NotSent, fmt.Errorf("not sent: %s cannot be reached: %w", at.host, plain(err))
	case err != nil:
		failed.Err = fmt.Errorf("the connection to %s was lost: %w", at.host, plain(err))
	case status/100 == 2:
		return nil
	default:
		failed.Err = fmt.Errorf("%s answered %d %s", at.host, status, http.StatusText(status))
	}
	if standsBack {
		failed.Part = at.host
		if failed.Kind == node.NotSent {
			failed.Kind = node.PartUnavailable
		}
	}
	switch {
	case status == http.StatusGone:
		failed.Kind = node.RecordRejected
		return failed
	case failed.Kind != node.OutcomeUnknown && away < l.Timeout:
		return failed // see enter
	}
	return l.verdict(&h, failed)
}

// enter waits for a request's turn, see hosts.enter, or says what becomes of a message whose turn did not come. A lane
// that has closed meanwhile lets nothing begin any more: the message was not tried, and waits for the next opening.
//
// What was not sent has not failed: a burst for a host that takes its time would otherwise be given up where the lane
// tries nothing again, and so would what has waited for longer than RetryFor because its lane was paused, or no node
// was up. It is over only where the host has answered nobody for as long as a request may take. The same goes for one
// for which no connection could be made.
func (s *Sink) enter(ctx context.Context, at place, l *lane, h *headers) (*visit, error) {
	turn, away, why := s.hosts.enter(at, l, overdue(h))
	switch {
	case why != nil && away < l.Timeout:
		return nil, why
	case why != nil:
		return nil, l.verdict(h, why)
	case s.config.Open != nil && !s.config.Open(at.lane):
		turn.pass()
		return nil, unsent("the lane has closed")
	case !node.Begins(ctx):
		turn.pass()
		return nil, unsent("it has waited for too long for the pace of its lane")
	}
	return turn, nil
}

// overdue returns how long ago a message was due.
func overdue(h *headers) time.Duration {
	deadline, err := node.ParseDeadline([]byte(h.deadline), node.EpochRejected)
	if err != nil {
		return 0
	}
	return max(0, time.Since(deadline))
}

// verdict says what becomes of a message that was not delivered: it is tried again as long as the lane's RetryFor is
// not over.
func (l *lane) verdict(h *headers, failed *node.PublishError) error {
	deadline, none := node.ParseDeadline([]byte(h.deadline), node.EpochRejected)
	if none != nil || time.Now().Before(deadline.Add(l.RetryFor)) {
		return failed
	}
	return &node.PublishError{
		Kind: node.RecordRejected, Part: failed.Part, Status: failed.Status, Answer: failed.Answer,
		Err: fmt.Errorf("it has failed for %v since its deadline, and the last time: %w", l.RetryFor, failed),
	}
}

// send makes a request, and reads as much of the answer as is of any use. It calls answered when the status is known.
//
// A receiver that switches to another protocol, which nobody has asked for, has said all that it has to say, and what
// comes then is no body: the connection is out of the hands of net/http, so that no time limit would end a read.
func (l *lane) send(request *http.Request, answered func()) (
	status int, after time.Duration, answer []byte, err error,
) {
	response, err := l.transport.RoundTrip(request)
	if err != nil {
		return 0, 0, nil, err //nolint:wrapcheck // the caller says what it was
	}
	answered()
	defer response.Body.Close() //nolint:errcheck // nothing was written
	after = retryAfter(response.Header.Get("Retry-After"))
	if response.StatusCode == http.StatusSwitchingProtocols {
		return response.StatusCode, after, nil, nil
	}
	if response.StatusCode/100 == 2 {
		if length := response.ContentLength; length >= 0 && length <= drainBytes {
			_, _ = io.CopyN(io.Discard, response.Body, length+1)
		}
		return response.StatusCode, 0, nil, nil
	}
	answer, _ = io.ReadAll(io.LimitReader(response.Body, answerBytes))
	return response.StatusCode, after, answer, nil
}

// retryAfter reads the header of that name: seconds, or an instant.
func retryAfter(value string) time.Duration {
	const most = int64(maxRetryAfter / time.Second)
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), most)) * time.Second // of what is out of range it is the nearest
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(at), 0), maxRetryAfter)
	}
	return 0
}

func class(status int, timely bool) string {
	switch {
	case status != 0:
		return strconv.Itoa(status/100) + "xx"
	case !timely:
		return "timeout"
	default:
		return "error"
	}
}

// plain returns what went wrong without what it went wrong with: addresses and URLs are not for everybody who may see a
// dead letter.
func plain(err error) error {
	if errors.Is(err, errForbidden) {
		for inner := err; inner != nil; inner = errors.Unwrap(inner) {
			if next := errors.Unwrap(inner); next == errForbidden { //nolint:errorlint // the one that has the sentence
				return inner
			}
		}
	}
	var lookup *net.DNSError
	var operation *net.OpError
	switch {
	case errors.As(err, &lookup):
		return errors.New("its name cannot be looked up")
	case errors.As(err, &operation) && operation.Err != nil:
		return operation.Err
	}
	return err
}
