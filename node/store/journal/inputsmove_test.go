package journal_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/storetest"
	"chronos/node/store/transfer"
)

// Goal: one journal of several is exported and imported by itself, while the node that owns it goes on with the others:
// it hears that this one is sealed, fires and takes in nothing of it any more, and the rest as before. A node that has
// the new journal in its place fires what waited there, once, and what waits in the others.
func TestInputMoved(t *testing.T) {
	t.Parallel()
	const moved = "payments.moved"
	h := &moving{T: t, cluster: newInputs(), clock: storetest.NewClock(), inputs: []string{ordersIn, paymentsIn}}
	store := open(t, inputsConfig(h.cluster, h.clock, t.TempDir(), h.inputs...))
	store.Identify([]uuid.UUID{{1}, {2}})
	for _, p := range inputsOf() {
		own(t, store, numberIn(p, h.inputs))
		if err := h.take(store, p, "x"); err != nil {
			t.Fatal(err)
		}
	}
	orders, payments := inputsOf()[0], inputsOf()[2]
	from := h.mover(journalOf(paymentsIn), payments)
	if _, err := from.Seal(t.Context(), uuid.New(), "test"); err != nil {
		t.Fatal(err)
	}
	if err := h.take(store, payments, "late"); err == nil {
		t.Error("something was taken in to a journal that is sealed")
	}
	if err := h.take(store, orders, "y"); err != nil {
		t.Errorf("nothing is taken in to the journal that is not sealed: %v", err)
	}
	h.fire(store, "x of orders.in/0", "x of orders.in/1", "y of orders.in/0")
	var file bytes.Buffer
	_, _, err := transfer.Export(t.Context(), from, transfer.Header{}, &file, func(transfer.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	h.cluster.CreateTopic(moved, 1, 0)
	seal, err := transfer.Import(t.Context(), h.mover(moved, payments), &file, "test", func(transfer.Progress) {})
	if err != nil || seal.Kind != transfer.Imported {
		t.Fatalf("%+v, %v", seal, err)
	}
	if err := h.take(store, orders, "z"); err != nil {
		t.Fatal(err)
	}
	config := inputsConfig(h.cluster, h.clock, t.TempDir(), h.inputs...)
	config.Ledger = ledger.Several{
		h.cluster.Ledger(journalOf(ordersIn), journalOf(ordersIn)), h.cluster.Ledger(moved, moved),
	}
	next := open(t, config)
	next.Identify([]uuid.UUID{{1}, {2}})
	for _, p := range inputsOf() {
		own(t, next, numberIn(p, h.inputs))
	}
	if err := h.take(next, payments, "late"); err != nil {
		t.Fatal(err)
	}
	h.fire(next, "late of payments.in/0", "x of orders.in/0", "x of orders.in/1", "x of payments.in/0",
		"y of orders.in/0", "z of orders.in/0")
}

// moving is a world in which a journal of several is moved.
type moving struct {
	*testing.T

	cluster *simulated.Cluster
	clock   *storetest.Clock
	inputs  []string
}

// mover returns what moves the journal of an input topic with one partition, until the test ends.
func (h *moving) mover(topic string, of node.Partition) *journal.Mover {
	h.Helper()
	m, err := journal.OpenMover(journal.MoveConfig{
		Log: h.cluster.Ledger(topic, topic), Partitions: 1, Dir: h.TempDir(), Now: h.clock.Now,
		Fit: journal.Fit{
			Partitions: 1, Input: of, Placing: journal.PlaceByKey, Choose: func([]byte) int32 { return 0 },
		},
	})
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() {
		if err := m.Close(); err != nil {
			h.Error(err)
		}
	})
	return m
}

// take has a store take in a message that is due, as the next record of a partition.
func (h *moving) take(store *journal.Store, p node.Partition, id string) error {
	h.Helper()
	places := []node.Place{{Partition: p, Position: node.Position{Epoch: -1}}}
	positions, _, err := store.Positions(h.Context(), places)
	if err != nil {
		return fmt.Errorf("ask for the position: %w", err)
	}
	places[0].Position = positions[0]
	result, err := store.Take(h.Context(), node.TakeRequest{From: places, Items: []node.Item{{
		Epoch: 1, Offset: positions[0].Offset, Action: node.Schedule, Message: node.Message{
			ID: id, Lane: output, Incarnation: uuid.New(), Deadline: h.clock.Now().UTC(), Key: []byte("key"),
			Value: fmt.Appendf(nil, "%s of %s/%d", id, p.Topic, p.Number),
		},
	}}})
	if err == nil && result.Taken != 1 {
		err = fmt.Errorf("%d were taken in", result.Taken)
	}
	return err
}

// fire has a store fire all that is due. After it that has come out, once each, in the order of the alphabet.
func (h *moving) fire(store *journal.Store, want ...string) {
	h.Helper()
	claimed, err := store.Claim(h.Context(), node.ClaimRequest{
		Node: uuid.UUID{2}, Hold: time.Minute, Until: h.clock.Now(),
		Lanes: []node.Share{{Lane: output, Limit: 9, Bytes: 1 << 20}},
	})
	if err != nil {
		h.Fatal(err)
	}
	var records []node.Record
	var next []node.Next
	for _, m := range claimed.Messages {
		next = append(next, node.Next{Of: m.Ref()})
		records = append(records, node.Record{Topic: output, Key: []byte(m.ID), Value: m.Value})
	}
	store.Fire(h.Context(), records, next)
	var came []string
	for _, r := range h.cluster.Records(output, true) {
		came = append(came, string(r.Value))
	}
	slices.Sort(came)
	if !slices.Equal(came, want) {
		h.Errorf("%q came out, want %q", came, want)
	}
}
