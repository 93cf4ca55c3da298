package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"

	"chronos/chaos/servers"
)

// links are the proxies of all nodes. toxiproxy is used as a library: its API listens nowhere.
type links struct{ server *toxiproxy.ApiServer }

func newLinks() *links {
	toxics.Register("stall", new(stall))
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics log to the terminal otherwise
	return &links{toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())}
}

// link is the way of one node to one server.
type link struct {
	name  string
	proxy *toxiproxy.Proxy

	mu     sync.Mutex
	added  int                   // so many toxics: each has a name of its own
	toxics map[direction][]toxic // the first one acts, the others wait for their turn
}

// toxic is something that acts on the bytes of a link. toxiproxy panics when a toxic is added after one was removed
// from before another, on a connection of which one side has ended (v2.12.0: RemoveToxic leaves the stub of what has
// ended, and AddToxic takes the number of stubs for a place in the chain). So only one acts in each direction.
type toxic struct{ name, description string }

// open opens a way: what connects to the port is connected to the upstream address.
func (l *links) open(name string, port int, upstream string) (*link, error) {
	proxy := toxiproxy.NewProxy(l.server, name, servers.Local(port), upstream)
	if err := l.server.Collection.Add(proxy, true); err != nil {
		return nil, fmt.Errorf("open the link %s: %w", name, err)
	}
	return &link{name: name, proxy: proxy, toxics: map[direction][]toxic{}}, nil
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

// poison adds a toxic and returns its name. While another one acts in that direction, it waits for that to be cured.
// It is certain: chance belongs to the suite's seed.
func (l *link) poison(ctx context.Context, kind string, d direction, attributes map[string]any) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.added++
	name := fmt.Sprintf("%s-%d", kind, l.added)
	description, err := json.Marshal(map[string]any{
		"name": name, "type": kind, "stream": string(d), "toxicity": 1, "attributes": attributes,
	})
	if err != nil {
		return "", fmt.Errorf("describe the toxic %s: %w", kind, err)
	}
	l.toxics[d] = append(l.toxics[d], toxic{name, string(description)})
	if len(l.toxics[d]) > 1 {
		return name, nil
	}
	return name, l.act(ctx, d)
}

// act lets the first toxic of a direction act, if there is one.
func (l *link) act(ctx context.Context, d direction) error {
	if len(l.toxics[d]) == 0 {
		return nil
	}
	t := l.toxics[d][0]
	return l.bounded(ctx, "add the toxic "+t.name, func() error {
		_, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(t.description))
		return err
	})
}

// cure takes a toxic away. The next one has its turn.
func (l *link) cure(ctx context.Context, name string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d, all := range l.toxics {
		i := slices.IndexFunc(all, func(t toxic) bool { return t.name == name })
		if i < 0 {
			continue
		}
		l.toxics[d] = slices.Delete(all, i, i+1)
		if i > 0 {
			return nil
		}
		err := l.bounded(ctx, "remove the toxic "+name, func() error { return l.proxy.Toxics.RemoveToxic(ctx, name) })
		if err != nil {
			return l.restart(ctx) // a peer does not read: its connections are of no more use
		}
		return l.act(ctx, d)
	}
	return nil // another fault has ended it with the link
}

// cut ends all connections and refuses new ones.
func (l *link) cut() { l.proxy.Stop() }

// reset ends all connections as they are, and lets new ones pass.
func (l *link) reset() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.restart(context.Background())
}

// restart ends all connections, and all toxics.
func (l *link) restart(ctx context.Context) error {
	l.proxy.Stop()
	return l.clear(ctx)
}

// mend takes all toxics away and lets everything pass. What has been held back may be incomplete then, so that
// its connections are closed: those that were stalled deliver first.
func (l *link) mend(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clear(ctx)
}

func (l *link) clear(ctx context.Context) error {
	clear(l.toxics)
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
