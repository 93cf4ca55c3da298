package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pulse is a hook that knows whether brokers answer a client at all, and what the last trouble was. franz-go retries
// in silence: without it, a cluster that is away and one where nothing happens look the same.
type pulse struct {
	mu       sync.Mutex
	answered time.Time // when a broker last answered a request
	failed   time.Time // when something last went wrong
	err      error     // what that was
}

var (
	_ kgo.HookBrokerConnect = (*pulse)(nil)
	_ kgo.HookBrokerWrite   = (*pulse)(nil)
	_ kgo.HookBrokerRead    = (*pulse)(nil)
)

// OnBrokerConnect takes note of a connection that was not made, or whose handshakes failed.
func (p *pulse) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	p.trouble(err)
}

// OnBrokerWrite takes note of a request that was not sent.
func (p *pulse) OnBrokerWrite(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	p.trouble(err)
}

// OnBrokerRead takes note of an answer. Those to a handshake do not count: they come from a broker that then
// refuses to do anything else for us, too.
func (p *pulse) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if err != nil {
		p.trouble(err)
		return
	}
	switch kmsg.Key(key) {
	case kmsg.ApiVersions, kmsg.SASLHandshake, kmsg.SASLAuthenticate:
		return
	}
	p.mu.Lock()
	p.answered = time.Now()
	p.mu.Unlock()
}

func (p *pulse) trouble(err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(err, io.EOF) && p.answered.IsZero() {
		// What brokers do to those who do not speak to them as they want to be spoken to.
		err = fmt.Errorf("the broker closes the connection: are TLS and SASL as it expects them? (%w)", err)
	}
	_, known := Permanent(p.err)
	_, better := Permanent(err)
	if p.err == nil || p.answered.After(p.failed) || better || !known && !isTimeout(err) {
		p.err = err // or else the reason is known better already
	}
	p.failed = time.Now()
}

// isTimeout reports whether err only says that something took too long.
func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}

// stopped returns the last trouble if no broker has answered since, nor for the given time before now; nil
// if all is well. A client that has never had an answer is given no time.
func (p *pulse) stopped(silence time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil || p.answered.After(p.failed) || time.Since(p.answered) < silence {
		return nil
	}
	return p.err
}
