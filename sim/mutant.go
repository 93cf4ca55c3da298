package sim

import (
	"fmt"

	"chronos/node"
)

// Mutant is a broken variant of a node or of its store, to show that the judge notices. It exists here only.
type Mutant struct {
	Name  string
	About string

	// Config changes the configuration of each node; Rows puts something in front of the rows, at the store; Ports
	// puts something between a node and its ports. Each may be nil.
	Config func(*node.Config)
	Rows   func(node.Store) node.Store
	Ports  func(Ports) Ports

	// Options are what a run needs to have a chance; nil for nothing.
	Options func(*Options)
}

// Ports are what one life of a node is given.
type Ports struct {
	Clock  node.Clock
	Store  node.Store
	Broker node.Broker
}

func (m *Mutant) configure(c *node.Config) {
	if m != nil && m.Config != nil {
		m.Config(c)
	}
}

func (m *Mutant) rows(rows node.Store) node.Store {
	if m != nil && m.Rows != nil {
		return m.Rows(rows)
	}
	return rows
}

func (m *Mutant) ports(p Ports) Ports {
	if m != nil && m.Ports != nil {
		return m.Ports(p)
	}
	return p
}

// Mutants returns all mutants, in the order in which they are reported.
func Mutants() []*Mutant { return nil }

// MutantByName returns the mutant of that name.
func MutantByName(name string) (*Mutant, error) {
	for _, m := range Mutants() {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no mutant %q", name)
}
