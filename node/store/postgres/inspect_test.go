package postgres_test

import (
	"context"
	"errors"
	"testing"

	"chronos/node"
	"chronos/node/store/inspect"
	"chronos/node/store/inspect/inspecttest"
	"chronos/node/store/postgres"
)

// TestInspect checks what the store shows to people who ask.
func TestInspect(t *testing.T) {
	database := newDatabase(t)
	inspecttest.Run(t, func(t *testing.T) inspecttest.Store {
		return postgres.Unhurried(open(t, newSchema(t, database), postgres.Options{}), patience)
	})
}

// What people ask needs no connection that the node needs: it is answered while all of those are in use.
func TestPausesTakeNoConnectionOfTheNode(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	if _, err := s.Pause(t.Context(), node.Pause{Lane: "orders", By: "test"}); err != nil {
		t.Fatal(err)
	}
	for range s.Pool().Config().MaxConns {
		conn, err := s.Pool().Acquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Release()
	}
	pauses, err := s.Pauses(t.Context())
	if err != nil || len(pauses) != 1 || pauses[0].Lane != "orders" {
		t.Errorf("%v is paused, want the lane orders; error %v", pauses, err)
	}
}

// Goal: people who ask do not hold up a node that looks for parts, however many they are. Method: somebody looks, and
// does not come to an end; whoever waits for that gives up, and is answered once it is over.
func TestLookWaitsForOthersNoLonger(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	end := postgres.Look(s)
	if _, err := s.Parts(t.Context()); !errors.Is(err, inspect.ErrTooLong) {
		t.Errorf("the node is told %v, want that it takes too long", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Parts(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("whoever has given up is told %v", err)
	}
	end()
	if _, err := s.Parts(t.Context()); err != nil {
		t.Error(err)
	}
}
