package node_test

import (
	"context"
	"slices"
	"time"

	"chronos/node"
)

// gatedSink is the output topics as one node sees them.
type gatedSink struct {
	gate   *gate
	world  *world
	refuse func(node.Record) error // of this node alone, if it is not nil
}

func (b *gatedSink) Publish(_ context.Context, records []node.Record) []error {
	<-time.After(2 * time.Millisecond)
	late := slices.ContainsFunc(records, b.world.hangs) || slices.ContainsFunc(records, b.world.tardy)
	size := 0
	for _, r := range records {
		size += len(r.Value)
	}
	stuck := b.world.narrow > 0 && size > b.world.narrow
	late = late || stuck
	errs := make([]error, len(records))
	err := b.gate.pass("publish", func() {
		b.world.mu.Lock()
		defer b.world.mu.Unlock()
		for i, r := range records {
			if stuck || b.world.hangs(r) {
				errs[i] = errInjected
				continue
			}
			if b.refuse != nil {
				if errs[i] = b.refuse(r); errs[i] != nil {
					continue
				}
			}
			if errs[i] = b.world.refuse(r); errs[i] == nil {
				b.world.output = append(b.world.output, delivery{r, time.Now()})
			}
		}
	})
	if err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	if late {
		<-time.After(2 * time.Second)
	}
	return errs
}
