package simulated

import "chronos/node"

// Committed is a transaction that has taken effect: all of it is there for consumers that read what was committed, once
// nothing before it is open.
type Committed struct {
	// Topic and Number say which partition of a ledger its writer has.
	Topic  string
	Number int32

	// Records are its entries and then its outputs, as they stand in their logs: each with its topic, partition and
	// offset.
	Records []node.Record
}

// Watch has each be called with every transaction, at the instant at which it takes effect and in that order, of all
// ledgers; nil for nobody. It is what no consumer sees: which records came together. Each may not call the cluster, and
// may keep what it is given.
func (c *Cluster) Watch(each func(Committed)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = each
}

// tell tells whoever watches of a transaction. The caller has mu.
func (c *Cluster) tell(l *Ledger, number int32, records []node.Record) {
	if c.watch != nil {
		c.watch(Committed{Topic: l.topic, Number: number, Records: records})
	}
}
