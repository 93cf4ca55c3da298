package node_test

import (
	"context"
	"time"

	"chronos/node"
)

// gatedCalls is the receivers of callbacks as one node sees them. Output has what each was asked, whatever the answer.
type gatedCalls struct {
	gate  *gate
	world *world
}

func (c *gatedCalls) Publish(ctx context.Context, records []node.Record) []error {
	<-time.After(2 * time.Millisecond)
	errs := make([]error, len(records))
	err := c.gate.pass("call", func() {
		for i, r := range records {
			if c.world.turn != nil {
				if c.world.turn(r); !node.Begins(ctx) {
					errs[i] = &node.PublishError{Kind: node.NotSent}
					continue
				}
			}
			c.world.mu.Lock()
			c.world.output = append(c.world.output, delivery{r, time.Now()})
			c.world.mu.Unlock()
			errs[i] = c.world.answer(r)
		}
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	return errs
}
