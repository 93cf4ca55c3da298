package journal_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/ledger/simulated"
	"chronos/node/store/inspect"
	"chronos/node/store/inspect/inspecttest"
	"chronos/node/store/journal"
	"chronos/node/store/outlook/outlooktest"
)

// owner returns an empty store that owns the partition that the suites use, and the one beside it.
func owner(t *testing.T) *journal.Store {
	t.Helper()
	cluster := simulated.New()
	cluster.CreateTopic(topicName, number+2, 0)
	store := open(t, journal.Config{Ledger: cluster.Ledger(topicName, "chronos"), Dir: t.TempDir()})
	own(t, store, number, number+1)
	return store
}

// What the store shows to people of what this node owns.
func TestInspect(t *testing.T) {
	t.Parallel()
	inspecttest.RunOwned(t, func(t *testing.T) inspecttest.Store {
		t.Helper()
		return owner(t)
	})
}

// What the store tells of what waits.
func TestOutlook(t *testing.T) {
	t.Parallel()
	outlooktest.Run(t, owner(t))
}

// Whoever wants to pause something in a store without a switchboard is told that it can't be done.
func TestNoPauses(t *testing.T) {
	t.Parallel()
	store := owner(t)
	_, err := store.Pause(t.Context(), node.Pause{Lane: "a"})
	var unable *inspect.UnableError
	if !errors.As(err, &unable) {
		t.Errorf("pause: %v", err)
	}
	if _, err := store.Resume(t.Context(), "a"); !errors.As(err, &unable) {
		t.Errorf("resume: %v", err)
	}
}

// Instructions past Kafka act on what this node owns, wherever that is, and bring no messages.
func TestPastKafka(t *testing.T) {
	t.Parallel()
	store := owner(t)
	from := node.Place{
		Partition: node.Partition{Topic: "input", TopicID: uuid.New(), Number: number + 1},
		Position:  node.Position{Epoch: node.UnknownEpoch},
	}
	if _, _, err := store.Positions(t.Context(), []node.Place{from}); err != nil {
		t.Fatal(err)
	}
	m := node.Message{ID: "x", Lane: "a", Incarnation: uuid.New(), Deadline: time.Now().Add(time.Hour)}
	if _, err := store.Take(t.Context(), node.TakeRequest{
		From: []node.Place{from}, Items: []node.Item{{Epoch: -1, Action: node.Schedule, Message: m}},
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(action node.Action, id string, only uuid.UUID) (node.Outcome, error) {
		outcomes, err := control.Instruct(t.Context(), store, []node.Item{{
			Action: action, Only: only, Message: node.Message{ID: id, Lane: "a", Deadline: time.Now()},
		}})
		if err != nil {
			return 0, err
		}
		return outcomes[0], nil
	}
	for _, c := range []struct {
		action node.Action
		id     string
		only   uuid.UUID
		want   node.Outcome
	}{
		{node.Cancel, "y", uuid.Nil, node.NotFound},
		{node.Cancel, "x", uuid.New(), node.NotFound},
		{node.Reschedule, "x", m.Incarnation, node.Rescheduled},
		{node.Cancel, "x", uuid.Nil, node.Cancelled},
		{node.Cancel, "x", uuid.Nil, node.NotFound},
	} {
		if got, err := ask(c.action, c.id, c.only); err != nil || got != c.want {
			t.Errorf("%v %s: %v, %v, want %v", c.action, c.id, got, err, c.want)
		}
	}
	var refused *control.RefusedError
	if _, err := ask(node.Schedule, "z", uuid.Nil); !errors.As(err, &refused) {
		t.Errorf("a message past Kafka: %v", err)
	}
}
