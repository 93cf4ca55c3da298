package journal_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/outlook"
)

// Whoever counts what waits does not read it, however large it is; whoever claims it does. Method: large messages come
// to rest on the disk, and the blocks are counted that are read from there. A block has one of them at most.
func TestCountsReadKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	store := w.stores[0]
	own(t, store, 0)
	const many = 500
	content := func(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%04d", i)), 2<<10) }
	var items []node.Item
	for i := range many {
		m := w.message(fmt.Sprintf("%04d", i))
		m.Value = content(i)
		items = append(items, node.Item{Epoch: 1, Offset: int64(i), Action: node.Schedule, Message: m})
	}
	w.take(store, 0, items)
	if err := store.Compact(); err != nil {
		t.Fatal(err)
	}
	_, before := store.Filtered()
	told, err := store.Outlook(t.Context(), outlook.Request{Lanes: []string{output}, Now: w.clock.Now()})
	if err != nil || told.Lanes[0].Waiting.N != many {
		t.Fatalf("counted %+v, %v, want %d that wait", told.Lanes, err, many)
	}
	_, counted := store.Filtered()
	if reads := counted - before; reads > many/10 {
		t.Errorf("%d blocks were read to count %d messages", reads, many)
	}
	result, err := store.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: w.clock.Now().Add(time.Hour),
		Lanes: []node.Share{{Lane: output, Limit: many, Bytes: 1 << 30}},
	})
	if err != nil || len(result.Messages) != many {
		t.Fatalf("claimed %d messages, %v", len(result.Messages), err)
	}
	for i, ready := range result.Messages {
		if !bytes.Equal(ready.Value, content(i)) {
			t.Fatalf("message %s has come back with another value", ready.ID)
		}
	}
	if _, read := store.Filtered(); read-counted < many/2 {
		t.Errorf("%d blocks were read to claim %d messages: were they on the disk?", read-counted, many)
	}
}
