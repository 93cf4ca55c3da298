package simulated

import (
	"fmt"
	"strconv"

	"chronos/node"
	"chronos/node/ledger"
)

// Silence has a partition take in nothing that a transaction appends; or has it answer again.
func (c *Cluster) Silence(name string, number int32, mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.topics[name].partitions[number].mute = mute
}

// unanswered returns an error if some of the outputs of a transaction belong to partitions that do not answer. The
// caller has mu.
func (c *Cluster) unanswered(outputs []node.Record) error {
	unanswered := &ledger.RefusedError{Errs: make([]error, len(outputs))}
	mute := false
	for i, r := range outputs {
		if to, number := c.topics[r.Topic].choose(r.Key); to.mute {
			mute = true
			part := strconv.Itoa(int(number))
			unanswered.Errs[i] = &node.PublishError{Kind: node.PartUnavailable, Part: part, Err: errSilent}
		}
	}
	if !mute {
		return nil
	}
	return fmt.Errorf("append: %w: %w", ledger.ErrAborted, unanswered)
}
