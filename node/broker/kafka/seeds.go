package kafka

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
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
type seeds struct {
	all []string

	mu     sync.Mutex
	silent map[string]bool // those that have failed somebody since they answered last
}

var (
	_ kgo.HookBrokerConnect = (*seeds)(nil)
	_ kgo.HookBrokerRead    = (*seeds)(nil)
)

func newSeeds(all []string) *seeds { return &seeds{all: all, silent: map[string]bool{}} }

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
	if errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return // it is the client that did not wait
	}
	address := net.JoinHostPort(meta.Host, strconv.Itoa(int(meta.Port)))
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.silent, address)
	} else {
		s.silent[address] = true
	}
}

// well returns the addresses of which nobody knows that they do not answer; all of them if there are none.
func (s *seeds) well() []string {
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
	well := s.well()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(well...))...)
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
