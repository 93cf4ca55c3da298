package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// links are the proxies of all nodes. toxiproxy is used as a library: its API listens nowhere.
type links struct{ server *toxiproxy.ApiServer }

func newLinks() *links {
	toxics.Register("stall", new(stall))
	return &links{toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// link is the way of one node to one server.
type link struct {
	name  string
	proxy *toxiproxy.Proxy

	toxics atomic.Int64 // so many have been added: each has a name of its own
}

// open opens a way: what connects to the port is connected to the upstream address.
func (l *links) open(name string, port int, upstream string) (*link, error) {
	proxy := toxiproxy.NewProxy(l.server, name, local(port), upstream)
	if err := l.server.Collection.Add(proxy, true); err != nil {
		return nil, fmt.Errorf("open the link %s: %w", name, err)
	}
	return &link{name: name, proxy: proxy}, nil
}

// close ends all of them.
func (l *links) close() {
	for _, proxy := range l.server.Collection.Proxies() {
		proxy.Stop()
	}
}

// direction is the way of the bytes that a toxic is about.
type direction string

const (
	requests direction = "upstream"   // from the node to the server
	replies  direction = "downstream" // from the server to the node
)

// poison adds a toxic and returns its name. It is certain: chance belongs to the suite's seed.
func (l *link) poison(ctx context.Context, kind string, d direction, attributes map[string]any) (string, error) {
	name := fmt.Sprintf("%s-%d", kind, l.toxics.Add(1))
	toxic, err := json.Marshal(map[string]any{
		"name": name, "type": kind, "stream": string(d), "toxicity": 1, "attributes": attributes,
	})
	if err != nil {
		return "", fmt.Errorf("describe the toxic %s: %w", kind, err)
	}
	return name, l.bounded(ctx, "add the toxic "+kind, func() error {
		_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(string(toxic)))
		return err
	})
}

// cure takes a toxic away.
func (l *link) cure(ctx context.Context, name string) error {
	err := l.bounded(ctx, "remove the toxic "+name, func() error { return l.proxy.Toxics.RemoveToxic(ctx, name) })
	if err == nil || errors.Is(err, toxiproxy.ErrToxicNotFound) {
		return nil // another fault has ended it with the link
	}
	return l.reset() // a peer does not read: its connections are of no more use
}

// cut ends all connections and refuses new ones.
func (l *link) cut() { l.proxy.Stop() }

// reset ends all connections as they are, and lets new ones pass.
func (l *link) reset() error {
	l.proxy.Stop()
	return l.mend(context.Background())
}

// mend takes all toxics away and lets everything pass. What has been held back may be incomplete then, so that
// its connections are closed: those that were stalled deliver first.
func (l *link) mend(ctx context.Context) error {
	err := l.bounded(ctx, "remove the toxics", func() error {
		l.proxy.Toxics.ResetToxics(ctx)
		return nil
	})
	if err != nil {
		l.proxy.Stop() // a peer does not read: its connections are of no more use
	}
	if !l.proxy.Enabled {
		err = l.proxy.Start()
	}
	if err != nil {
		return fmt.Errorf("mend the link %s: %w", l.name, err)
	}
	return nil
}

// bounded does what blocks while a peer does not read.
func (l *link) bounded(ctx context.Context, what string, do func() error) error {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("%s on the link %s: %w", what, l.name, err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(5 * time.Second):
		return fmt.Errorf("%s on the link %s: it blocks", what, l.name)
	}
}
