package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// seeds are the addresses that the clients of a ledger begin with. Each takeover makes new clients, and franz-go has
// each begin with any of the addresses. That of a broker that hangs takes connections and answers nothing: it is tried
// twice, each time for as long as a request may take, also when the cluster has given that broker up long ago. So the
// clients of a ledger tell each other which addresses do not answer:
//
//	broker 2   hangs; the others lead what it led
//	writer     waits for broker 2 in vain, and is spent
//	Own        begins with broker 1 or 3
//
// They tell each other, too, who hangs, as the members of a Source do: from whom nothing has come to any of them for as
// long as somebody has waited. All that wait for him are told at once, and nobody calls him for a moment. franz-go
// takes a connection that is refused as a reason to ask the others who leads and who coordinates; of one that is taken
// and not answered it makes another one, and goes on waiting:
//
//	broker 2   coordinates a transaction, and hangs
//	writer     asks it for the commit, and waits for 3 s; is refused a connection to it, and asks who coordinates now
//	broker 3   does by now, and commits
type seeds struct {
	all  []string
	dial dialer

	mu       sync.Mutex
	silent   map[string]bool      // those that have failed somebody since they answered last
	answered map[string]time.Time // when they did
	hung     map[string]time.Time // until when nobody calls them
	open     map[string]map[*seedConn]bool
}

// hungRest is for how long nobody calls an address that hangs: for what is left of the time of a commit that has met
// it. Either the cluster gives that broker up meanwhile, or nothing helps.
const hungRest = defaultCommitTimeout - requestOverhead

// errHung stands for a connection that was not asked for. It says that it was refused: see seeds.
var errHung = fmt.Errorf("nothing has come from there for a while: %w",
	os.NewSyscallError("connect", syscall.ECONNREFUSED))

var (
	_ kgo.HookBrokerConnect = (*seeds)(nil)
	_ kgo.HookBrokerRead    = (*seeds)(nil)
)

func newSeeds(c *Connection) *seeds {
	return &seeds{
		all: c.Brokers, dial: c.dialer(), silent: map[string]bool{}, answered: map[string]time.Time{},
		hung: map[string]time.Time{}, open: map[string]map[*seedConn]bool{},
	}
}

// call opens a connection for one of the clients. An address that hangs is called nevertheless if nobody else is
// known to answer.
func (s *seeds) call(ctx context.Context, network, address string) (net.Conn, error) {
	if s.hangs(address) {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errHung}
	}
	conn, err := s.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &seedConn{conn, s, address}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[address] == nil {
		s.open[address] = map[*seedConn]bool{}
	}
	s.open[address][c] = true
	return c, nil
}

// hangs reports whether nobody is to call an address.
func (s *seeds) hangs(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.hung[address]) && s.anybody()
}

// anybody reports whether somebody is known to answer. Where nobody is, there is nowhere else to go. The caller has mu.
func (s *seeds) anybody() bool {
	for address := range s.answered {
		if !s.silent[address] {
			return true
		}
	}
	return false
}

// seedConn is a connection that ends when whoever it leads to hangs.
type seedConn struct {
	net.Conn

	of      *seeds
	address string
}

// Close implements net.Conn.
func (c *seedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open[c.address], c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// end has all who wait for an answer by the connection go on. One that is encrypted would say goodbye, and wait until
// that is sent.
func (c *seedConn) end() {
	if over, encrypted := c.Conn.(interface{ NetConn() net.Conn }); encrypted {
		_ = over.NetConn().Close() // nothing comes by it
		return
	}
	_ = c.Conn.Close() // nothing comes by it
}

// OnBrokerConnect takes note of a connection that was not made. One that was made says nothing of who is behind it.
func (s *seeds) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err != nil {
		s.heard(meta, err)
	}
}

// OnBrokerRead takes note of an answer, or that none came.
func (s *seeds) OnBrokerRead(meta kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	s.heard(meta, err)
}

func (s *seeds) heard(meta kgo.BrokerMetadata, err error) {
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, errHung) {
		return // it is the client that did not wait, or has not asked
	}
	address := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	now := time.Now()
	s.mu.Lock()
	if err == nil {
		s.answered[address] = now
		delete(s.silent, address)
		delete(s.hung, address)
		s.mu.Unlock()
		return
	}
	s.silent[address] = true
	hangs := errors.Is(err, os.ErrDeadlineExceeded) && now.Sub(s.answered[address]) >= requestOverhead
	hangs = hangs && s.anybody()
	s.mu.Unlock()
	if hangs {
		s.hangUp(address)
	}
}

// hangUp ends all connections to an address, and has nobody call it for a moment.
func (s *seeds) hangUp(address string) {
	s.mu.Lock()
	s.hung[address] = time.Now().Add(hungRest)
	open := slices.Collect(maps.Keys(s.open[address]))
	s.mu.Unlock()
	for _, c := range open {
		c.end()
	}
}

// begin returns the addresses of which nobody knows that they do not answer; all of them if there are none.
func (s *seeds) begin() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	well := slices.DeleteFunc(slices.Clone(s.all), func(address string) bool { return s.silent[address] })
	if len(well) == 0 {
		return s.all
	}
	return well
}

// client returns a client that begins with an address that answers, as far as anybody knows. Once it has asked one of
// these for the brokers, it goes to those. If none of them answers after all, it begins with any.
func (s *seeds) client(ctx context.Context, options []kgo.Opt) (*kgo.Client, error) {
	well := s.begin()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(well...), kgo.Dialer(s.call))...)
	if err != nil || len(well) == len(s.all) {
		return client, err
	}
	asking, done := context.WithTimeout(ctx, requestOverhead)
	defer done()
	if _, err := kadm.NewClient(client).BrokerMetadata(asking); err != nil {
		_ = client.UpdateSeedBrokers(s.all...) // they are addresses: the clients of before had them
	}
	return client, nil
}
