package simulated

import (
	"context"
	"fmt"
)

// Stable implements journal.Log. It can fail like Read.
func (l *Ledger) Stable(ctx context.Context, number int32) (int64, error) {
	if l.cluster.hit(Step{Reading, l.topic, number}) != None {
		return 0, fmt.Errorf("look at partition %d: %w", number, errSilent)
	}
	l.cluster.mu.Lock()
	defer l.cluster.mu.Unlock()
	t := l.cluster.topics[l.topic]
	if t == nil || int(number) >= len(t.partitions) {
		return 0, fmt.Errorf("look at partition %d of %s: there is none", number, l.topic)
	}
	return t.partitions[number].stable(), ctx.Err()
}
