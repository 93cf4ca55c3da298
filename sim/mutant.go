package sim

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/memory"
)

// Mutant is a broken variant of a node or of its store, to show that the judge notices. It exists here only: the
// production binary has none of it.
type Mutant struct {
	Name  string
	About string

	// Kills are the invariants that a mutant may be caught by. It counts as killed by these only, of those that the
	// first event breaks that breaks any.
	Kills []string

	// Config changes the configuration of each node. Rows puts something in front of the rows, at the store; Ports
	// something between one life of a node and its ports. Each may be nil.
	Config func(*node.Config)
	Rows   func(node.Store, Table) node.Store
	Ports  func(node.Ports) node.Ports

	// Transaction puts something in front of the rows, in a transaction of queue.Run; nil for nothing.
	Transaction func(queue.Tx, Table) queue.Tx

	// Broken is how the rows themselves are wrong.
	Broken memory.Broken

	// NodeStamps lets claims be stamped, and their age be measured, by the clock of whoever calls.
	NodeStamps bool

	// Scatters lets the producer choose any partition, whatever the key.
	Scatters bool

	// Silences has a partition that does not answer silence all of its topic.
	Silences bool

	// WaitsForLocks has a transaction wait for what others have locked, however long that is.
	WaitsForLocks bool

	// PassesBlocked has a take go on behind an item that is blocked, in its partition.
	PassesBlocked bool

	// Unconfirmed has a request that changes nothing answered while the standby confirms nothing.
	Unconfirmed bool

	// Mute has nobody told of what is stored past Kafka.
	Mute bool

	// Adopts says what is adopted of what was committed, in place of node.Adoptable; nil for that.
	Adopts func([]node.CommittedPlace) []node.Place

	// Options are what a run needs to have a chance; nil for nothing.
	Options func(*Options)

	// Scenario is the named scenario that is run, whatever the seed, where chance does not come by what is needed.
	Scenario string
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

// Late returns how late it is for a message that is stored, by the clock of the store.
func (t Table) Late(ref node.Ref) time.Duration {
	due, found := t.truth.due[node.MessageID{ID: ref.ID, Lane: ref.Lane}]
	if !found {
		return 0
	}
	return t.truth.server.instant().Sub(due)
}

// Caller returns the node id of whoever calls.
func (t Table) Caller() uuid.UUID { return t.truth.caller.id() }

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

func (m *Mutant) transaction(tx queue.Tx, t *truth) queue.Tx {
	if m != nil && m.Transaction != nil {
		return m.Transaction(tx, Table{t})
	}
	return tx
}

func (m *Mutant) ports(p node.Ports) node.Ports {
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
