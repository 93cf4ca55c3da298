package node_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/node/store/transfer"
)

// moved has two nodes at work on a store, which is sealed at an instant and moved to another one, where a third node
// starts. The nodes of before are not stopped, as if somebody had forgotten them, and one more starts on the old store
// later, whose server has been failed over: everything that has nodes begin a new lineage. Records come before, between
// and after. It returns how often each value came out, and ends the test if one came out before its time.
func moved(t *testing.T, at time.Duration, broken memory.Broken) map[string]int {
	t.Helper()
	w := newWorld(t)
	old, began := w.store, time.Now()
	old.Break(broken)
	due := map[string]time.Time{}
	submit := func(id string, in time.Duration, more ...node.Header) {
		due["value "+id] = time.Now().Add(in).Truncate(time.Microsecond)
		w.submit(id, in, more...)
	}
	for i := range 60 {
		submit(id(i), time.Duration(i)*200*time.Millisecond)
	}
	submit("series", time.Second, node.Header{Name: node.HeaderRepeat, Value: []byte("every 2s")},
		node.Header{Name: node.HeaderRepeatCount, Value: []byte("8")},
		node.Header{Name: node.HeaderMissed, Value: []byte("all")})
	w.run(config(0), nil)
	w.run(config(1), nil)
	pass(at)

	ctx := context.Background()
	if _, err := old.Seal(ctx, uuid.UUID{0: 1}, "test"); err != nil {
		t.Fatal(err)
	}
	submit("between", 10*time.Second)
	if err := transfer.Drain(ctx, old, func(_ context.Context, d time.Duration) error {
		pass(d)
		return nil
	}, func(transfer.Held) {}); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	tell := func(transfer.Progress) {}
	if _, _, err := transfer.Export(ctx, old, transfer.Header{}, &file, tell); err != nil {
		t.Fatal(err)
	}
	w.store = memory.New(time.Now)
	pass(time.Second)
	if _, err := transfer.Import(ctx, w.store, &file, "test", tell); err != nil {
		t.Fatal(err)
	}
	w.run(config(2), nil)
	pass(2 * time.Second)
	old.Promote()
	fresh := w.store
	w.store = old
	w.run(config(3), nil)
	w.store = fresh
	submit("after", 5*time.Second)
	pass(40*time.Second - time.Since(began))
	for _, d := range w.on("out") {
		if d.at.Before(due[string(d.Value)]) {
			t.Errorf("%s came %v early", d.Value, due[string(d.Value)].Sub(d.at))
		}
	}
	return w.values("out")
}

// A store is moved at any instant while its nodes fire. Goal: everything comes out exactly once, and a series goes on
// where it was; nothing comes out of the store that was left, whoever runs on it.
func TestMoved(t *testing.T) {
	for _, at := range []int{0, 1, 37, 205, 999, 1001, 2503, 3000, 7007, 11111, 20000} {
		t.Run(fmt.Sprint("at ", at, " ms"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got := moved(t, time.Duration(at)*time.Millisecond, memory.Broken{})
				want := map[string]int{"value series": 8, "value between": 1, "value after": 1}
				for i := range 60 {
					want["value "+id(i)] = 1
				}
				for value, n := range want {
					if got[value] != n {
						t.Errorf("%s came %d times, want %d", value, got[value], n)
					}
				}
			})
		})
	}
}

// The same with a store that begins a lineage although it is sealed. Goal: that makes things come out twice, or the
// test before would prove nothing.
func TestMovedFromStoreThatOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		twice := 0
		for _, n := range moved(t, 3*time.Second, memory.Broken{Opens: true}) {
			if n == 2 {
				twice++
			}
		}
		if twice == 0 {
			t.Error("nothing came out twice")
		}
	})
}
