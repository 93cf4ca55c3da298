package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Mutant is a broken variant of a node or of its store, to show that the judge notices. It exists here only: the
// production binary has none of it.
type Mutant struct {
	Name  string
	About string

	// Kills are the invariants that a mutant may be caught by. It counts as killed by these only.
	Kills []string

	// Config changes the configuration of each node. Rows puts something in front of the rows, at the store; Ports
	// something between one life of a node and its ports. Each may be nil.
	Config func(*node.Config)
	Rows   func(node.Store, Table) node.Store
	Ports  func(Ports) Ports

	// NodeStamps lets claims be stamped, and their age be measured, by the clock of whoever calls.
	NodeStamps bool

	// Scatters lets the producer choose any partition, whatever the key.
	Scatters bool

	// Options are what a run needs to have a chance; nil for nothing.
	Options func(*Options)
}

// Ports are what one life of a node is given.
type Ports struct {
	Clock  node.Clock
	Store  node.Store
	Broker node.Broker
}

// Table shows a mutant of the store what it would see in SQL.
type Table struct{ truth *truth }

// Claim returns what is stored under an id: the incarnation, and the claim on it, if any.
func (t Table) Claim(id node.MessageID) (node.Claim, bool) {
	c, found := t.truth.stored[id]
	return c, found
}

// Claims returns everything that is stored, in the order of ids and topics.
func (t Table) Claims() []node.Claim { return t.truth.claims() }

// Caller returns the node id of whoever calls.
func (t Table) Caller() uuid.UUID { return t.truth.caller.node.ID() }

func (m *Mutant) configure(c *node.Config) {
	if m != nil && m.Config != nil {
		m.Config(c)
	}
}

func (m *Mutant) rows(t *truth) node.Store {
	if m != nil && m.Rows != nil {
		return m.Rows(t, Table{t})
	}
	return t
}

func (m *Mutant) ports(p Ports) Ports {
	if m != nil && m.Ports != nil {
		return m.Ports(p)
	}
	return p
}

// MutantByName returns the mutant of that name.
func MutantByName(name string) (*Mutant, error) {
	for _, m := range Mutants() {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no mutant %q", name)
}

// brokenStore is a store some of whose methods are replaced.
type brokenStore struct {
	node.Store

	insert  func(context.Context, node.InsertRequest) ([]node.InsertResult, error)
	present func(context.Context, []node.MessageID) ([]bool, error)
	ready   func(context.Context, node.ReadyRequest) ([]node.Readied, error)
	remove  func(context.Context, []node.Ref) ([]bool, error)
	stuck   func(context.Context, node.StuckRequest) ([]node.Claim, error)
	reset   func(context.Context, []node.Release) ([]bool, error)
}

func (s brokenStore) Insert(ctx context.Context, in node.InsertRequest) ([]node.InsertResult, error) {
	if s.insert != nil {
		return s.insert(ctx, in)
	}
	return s.Store.Insert(ctx, in)
}

func (s brokenStore) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	if s.present != nil {
		return s.present(ctx, ids)
	}
	return s.Store.Present(ctx, ids)
}

func (s brokenStore) Ready(ctx context.Context, in node.ReadyRequest) ([]node.Readied, error) {
	if s.ready != nil {
		return s.ready(ctx, in)
	}
	return s.Store.Ready(ctx, in)
}

func (s brokenStore) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	if s.remove != nil {
		return s.remove(ctx, refs)
	}
	return s.Store.Delete(ctx, refs)
}

func (s brokenStore) Stuck(ctx context.Context, in node.StuckRequest) ([]node.Claim, error) {
	if s.stuck != nil {
		return s.stuck(ctx, in)
	}
	return s.Store.Stuck(ctx, in)
}

func (s brokenStore) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	if s.reset != nil {
		return s.reset(ctx, releases)
	}
	return s.Store.Reset(ctx, releases)
}

// brokenBroker is a broker some of whose methods are replaced.
type brokenBroker struct {
	node.Broker

	poll    func(context.Context) ([]node.Record, error)
	commit  func(context.Context, []node.Record) error
	leave   func(context.Context) error
	publish func(context.Context, []node.Record) []error
}

func (b brokenBroker) Poll(ctx context.Context) ([]node.Record, error) {
	if b.poll != nil {
		return b.poll(ctx)
	}
	return b.Broker.Poll(ctx)
}

func (b brokenBroker) Commit(ctx context.Context, records []node.Record) error {
	if b.commit != nil {
		return b.commit(ctx, records)
	}
	return b.Broker.Commit(ctx, records)
}

func (b brokenBroker) Leave(ctx context.Context) error {
	if b.leave != nil {
		return b.leave(ctx)
	}
	return b.Broker.Leave(ctx)
}

func (b brokenBroker) Publish(ctx context.Context, records []node.Record) []error {
	if b.publish != nil {
		return b.publish(ctx, records)
	}
	return b.Broker.Publish(ctx, records)
}

// brokenClock is a clock some of whose readings are wrong.
type brokenClock struct {
	node.Clock

	now  func() time.Time
	mono func() time.Duration
}

func (c brokenClock) Now() time.Time {
	if c.now != nil {
		return c.now()
	}
	return c.Clock.Now()
}

func (c brokenClock) Mono() time.Duration {
	if c.mono != nil {
		return c.mono()
	}
	return c.Clock.Mono()
}
