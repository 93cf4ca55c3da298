package chaos

import (
	"context"
	"time"
)

// Schedule draws the faults of a scenario, without servers.
func Schedule(s *Scenario, seed uint64) string {
	c := &cluster{config: Config{HoldTime: 5 * time.Second}, kafka: &kafka{}, postgres: &postgres{}}
	for range s.Brokers {
		c.kafka.brokers = append(c.kafka.brokers, &broker{})
	}
	for i := range s.Nodes {
		c.nodes = append(c.nodes, &chronosNode{number: i + 1, postgres: &link{}})
	}
	n := newNemesis(c, newHistory(), seed)
	s.draw(n)
	return n.schedule()
}

// Link is a way through a proxy, for tests of the toxics.
type Link struct {
	*link

	all   *links
	ports *ports
}

// NewLink opens a way to an address of this machine, and returns the address that leads there.
func NewLink(upstream int) (*Link, string, error) {
	p, err := leasePorts()
	if err != nil {
		return nil, "", err
	}
	port, err := p.take()
	if err != nil {
		return nil, "", err
	}
	all := newLinks()
	l, err := all.open("test", port, local(upstream))
	return &Link{l, all, p}, local(port), err
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
	l.ports.close()
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
	c, err := newCutter(ctx, upstream, func(d deletion) {
		refs := map[string][16]byte{}
		for i, id := range d.ids {
			refs[id+" "+d.topics[i]] = d.incarnations[i]
		}
		deleted <- refs
	})
	if err != nil {
		return nil, "", err
	}
	return &Cutter{c, deleted}, local(c.port()), nil
}

// CutInsert loses the reply to the next insert; the channel is closed when that has happened.
func (c *Cutter) CutInsert() <-chan struct{} { return c.c.cut(insertReply) }

// Close ends the proxy.
func (c *Cutter) Close() { c.c.close() }

// DecodeSlot reads messages of the protocol pgoutput and returns how many changes there are.
func DecodeSlot(message []byte) (broken bool) {
	r := rows{columns: map[uint32][]string{}}
	d := decoder{rest: message}
	r.relation(&d)
	d = decoder{rest: message}
	r.change(&d)
	return d.broken
}
