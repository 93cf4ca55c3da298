package chaos

import (
	"context"
	"time"

	"chronos/chaos/servers"
)

// Schedule draws the faults of a scenario, without servers.
func Schedule(s *Scenario, seed uint64) string {
	c := &cluster{
		config: Config{HoldTime: 5 * time.Second}, scenario: s, kafka: &servers.Kafka{}, postgres: &database{},
	}
	for range s.Brokers {
		c.kafka.Brokers = append(c.kafka.Brokers, &servers.Broker{})
	}
	for i := range s.Nodes {
		c.nodes = append(c.nodes, &chronosNode{number: i + 1, postgres: &link{}, api: &link{}})
	}
	c.receivers = &receivers{}
	for i := range s.Hosts {
		c.receivers.hosts = append(c.receivers.hosts, &receiver{number: i, link: &link{}})
	}
	n := newNemesis(c, newHistory(), seed)
	s.draw(n)
	return n.schedule()
}

// Said is what a node has said of its end.
func Said(text string) string { return said(text) }

// InTime says what is broken about a distribution of lateness.
func InTime(late []time.Duration, worst, usual time.Duration) string {
	return inTime(late, worst, usual)
}

// Link is a way through a proxy, for tests of the toxics.
type Link struct {
	*link

	all     *links
	servers *servers.Servers
}

// NewLink opens a way to an address of this machine, and returns the address that leads there.
func NewLink(ctx context.Context, upstream int) (*Link, string, error) {
	s, err := servers.Open(ctx, servers.Config{Backend: servers.Given})
	if err != nil {
		return nil, "", err
	}
	port, err := s.Port()
	if err != nil {
		return nil, "", err
	}
	all := newLinks()
	l, err := all.open("test", port, servers.Local(upstream))
	return &Link{l, all, s}, servers.Local(port), err
}

// Stall holds everything back until the link is mended.
func (l *Link) Stall(ctx context.Context) error {
	_, err := l.poison(ctx, "stall", requests, nil)
	return err
}

// Mend lets everything pass.
func (l *Link) Mend(ctx context.Context) error { return l.mend(ctx) }

// Cut refuses everything.
func (l *Link) Cut() { l.cut() }

// Close ends the proxy.
func (l *Link) Close() {
	l.all.close()
	_ = l.servers.Close() // it has only ports
}

// Cutter is a proxy that loses replies.
type Cutter struct {
	c *cutter

	// Deleted are the ids and incarnations of the deletes that were executed.
	Deleted chan map[string][16]byte
}

// NewCutter stands before a Postgres and returns its own address.
func NewCutter(ctx context.Context, upstream string) (*Cutter, string, error) {
	deleted := make(chan map[string][16]byte, 10)
	c, err := newCutter(ctx, func() string { return upstream }, func(d deletion) {
		refs := map[string][16]byte{}
		for i, id := range d.ids {
			refs[id+" "+d.topics[i]] = d.incarnations[i]
		}
		deleted <- refs
	})
	if err != nil {
		return nil, "", err
	}
	return &Cutter{c, deleted}, servers.Local(c.port()), nil
}

// CutInsert loses the reply to the next insert; the channel is closed when that has happened.
func (c *Cutter) CutInsert() <-chan struct{} { return c.c.cut(insertReply) }

// Close ends the proxy.
func (c *Cutter) Close() { c.c.close() }

// DecodeSlot reads messages of the protocol pgoutput and returns how many changes there are.
func DecodeSlot(message []byte) (broken bool) {
	r := rows{tables: map[uint32]string{}, columns: map[uint32][]string{}}
	d := decoder{rest: message}
	r.relation(&d)
	d = decoder{rest: message}
	r.change(&d)
	return d.broken
}
