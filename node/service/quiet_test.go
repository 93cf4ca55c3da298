package service_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/broker/kafka"
	journalstore "chronos/node/store/journal"
)

// On a real Kafka, too, the looks of an owner find that nobody else has written, so that its copy stays young where
// nothing happens. Method: messages wait while the clock of the node says that three days pass, in which it looks every
// half an hour; then it is started again. Meanwhile it has committed something twice a day.
func TestJournalQuiet(t *testing.T) {
	t.Parallel()
	j := newJournalOn(t, 1)
	log, err := kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: j.brokers}, Topic: j.topic, Name: j.topic,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(log.Close)
	var passed time.Duration
	var replay journalstore.Replay
	dir := t.TempDir()
	open := func() *journalstore.Store {
		store, err := journalstore.Open(journalstore.Config{
			Ledger: log, Dir: dir, Now: func() time.Time { return time.Now().Add(passed) }, Group: "group",
			Observe: func(r journalstore.Replay) { replay = r },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		j.own(store)
		return store
	}
	store := open()
	const waiting = 500
	request := node.TakeRequest{From: []node.Place{{
		Partition: node.Partition{TopicID: uuid.New()}, Position: node.Position{Epoch: node.UnknownEpoch},
	}}}
	for i := range int64(waiting) {
		request.Items = append(request.Items, node.Item{
			Epoch: 1, Offset: i, Action: node.Schedule, Message: node.Message{
				ID: fmt.Sprint("message-", i), Lane: j.output, Incarnation: uuid.New(), Deadline: time.Now(),
			},
		})
	}
	if _, _, err := store.Positions(t.Context(), request.From); err != nil {
		t.Fatal(err)
	}
	if result, err := store.Take(t.Context(), request); err != nil || result.Taken != waiting {
		t.Fatalf("take: %d of %d, %v", result.Taken, waiting, err)
	}
	before := j.ends(log)
	for before < waiting { // brokers answer a commit before it is decided
		before = j.ends(log)
	}
	for passed < 72*time.Hour {
		passed += 30 * time.Minute
		if err := store.Hear(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if grown := j.ends(log) - before; grown < 8 || grown > 12 { // an entry and a marker each time
		t.Errorf("the journal has grown by %d entries and markers in three days, want two of each a day", grown)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = open()
	if replay.Anew || replay.Read > 3 {
		t.Errorf("where nothing has happened the node reads %+v", replay)
	}
	if claimed := j.claim(store, waiting+1); len(claimed) != waiting {
		t.Errorf("%d messages wait, want %d", len(claimed), waiting)
	}
}

// ends returns where the journal ends, as far as that is decided.
func (j *journalOn) ends(log *kafka.Ledger) int64 {
	j.Helper()
	end, err := log.End(j.Context(), 0)
	if err != nil {
		j.Fatal(err)
	}
	return end.Offset
}
