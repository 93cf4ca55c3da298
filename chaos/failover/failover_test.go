// Package failover_test fails a real pair of Postgres servers over under the store.
package failover_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/chaos/servers"
	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/postgres"
)

// limit is the store timeout: long enough for a busy machine, as calls that wait for the frozen standby take it whole.
const limit = 3 * time.Second

// TestNothingAcknowledgedIsLost freezes the standby that commits wait for, so that a take, a delete and a reset are
// cancelled while they wait, and happen on the primary only. Whoever repeats them, and whoever asks about the same
// messages, has to wait as well: an answer would rest on what is lost in the failover that follows. Then the store is
// suspect, by the timeline, and what was not acknowledged is taken in again.
func TestNothingAcknowledgedIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts two Postgres: not in a short test")
	}
	primary, standby := pair(t)
	s := open(t, primary, true)
	first, second := messages("first", 3), messages("second", 3)
	place := node.Place{Partition: node.Partition{Topic: "input", TopicID: uuid.UUID{15: 1}}}
	_, state, err := s.Positions(t.Context(), []node.Place{place})
	must(t, err)
	if !state.Claims() {
		t.Fatalf("the state is %+v in the beginning", state)
	}
	result, err := s.Take(t.Context(), takeOf(place, first[:2], false))
	must(t, err)
	place.Position = result.Positions[0]
	result, err = s.Take(t.Context(), takeOf(place, first[2:], true))
	must(t, err)
	place.Position = result.Positions[0]
	held := result.Results[0].Claim

	must(t, standby.Freeze(t.Context()))
	repeated := takeOf(place, second, false)
	after := place
	after.Offset += int64(len(second))
	others := messages("second", 3) // of the same ids
	for _, c := range []struct {
		name string
		call func() (any, error)
	}{
		{"take", func() (any, error) { return s.Take(t.Context(), repeated) }},
		{"repeated take", func() (any, error) { return s.Take(t.Context(), repeated) }},
		{"take of duplicates", func() (any, error) { return s.Take(t.Context(), takeOf(after, others, false)) }},
		{"delete", func() (any, error) { return s.Settle(t.Context(), node.Removals(first[0].Ref())) }},
		{"repeated delete", func() (any, error) { return s.Settle(t.Context(), node.Removals(first[0].Ref())) }},
		{"reset", func() (any, error) { return s.Reset(t.Context(), []node.Release{{Claim: held}}) }},
		{"repeated reset", func() (any, error) { return s.Reset(t.Context(), []node.Release{{Claim: held}}) }},
	} {
		start := time.Now()
		if answer, err := c.call(); err == nil {
			t.Errorf("%s: answered %+v, which rests on a commit that the standby lacks", c.name, answer)
		} else {
			t.Logf("%s: %v, after %v", c.name, err, time.Since(start).Round(time.Millisecond))
		}
	}

	must(t, primary.Kill(t.Context()))
	must(t, standby.Kill(t.Context()))
	must(t, standby.Start(t.Context()))
	must(t, standby.Ready(t.Context(), time.Minute))
	must(t, standby.Promote(t.Context()))
	s = open(t, standby, false)
	positions, state, err := s.Positions(t.Context(), []node.Place{place})
	must(t, err)
	if positions[0] != place.Position || !state.Suspect {
		t.Fatalf("after the failover the position is %+v, want %+v, and the state %+v",
			positions[0], place.Position, state)
	}
	state, err = s.CatchUp(t.Context(), node.CatchUpRequest{Lineage: state.Lineage, Begin: true})
	must(t, err)
	if state != (node.State{Lineage: 2}) {
		t.Errorf("after a new lineage the state is %+v", state)
	}
	result, err = s.Take(t.Context(), repeated)
	must(t, err)
	if result.Taken != len(second) || result.Results[0].Outcome != node.Scheduled {
		t.Errorf("the take after the failover: %+v", result)
	}
	reset, err := s.Reset(t.Context(), []node.Release{{Claim: held}})
	must(t, err)
	claimed, err := s.Claim(t.Context(), node.ClaimRequest{
		Until: time.Now(), Lanes: []node.Share{{Lane: "output", Limit: 100, Bytes: 1 << 20}},
	})
	must(t, err)
	if want := len(first) + len(second); len(claimed.Messages) != want || reset[0] != node.Freed {
		t.Errorf("%d messages after the failover, want %d; the claim was held: %v",
			len(claimed.Messages), want, reset[0])
	}
}

// pair starts a primary, with the tables, and its synchronous standby.
func pair(t *testing.T) (primary, standby *servers.Postgres) {
	t.Helper()
	s, err := servers.Open(t.Context(), servers.Config{Backend: servers.Processes, Logs: t.TempDir(), Say: os.Stderr})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	primary, err = s.Postgres(t.Context(), servers.PostgresConfig{})
	must(t, err)
	must(t, primary.Start(t.Context()))
	must(t, primary.Ready(t.Context(), time.Minute))
	db, err := postgres.OpenDB(primary.Admin.String(), postgres.Options{})
	must(t, err)
	_, err = migrations.Up(t.Context(), db, migrations.Postgres)
	must(t, err)
	must(t, db.Close())
	standby, err = s.Standby(t.Context(), primary, "standby")
	must(t, err)
	return primary, standby
}

func open(t *testing.T, on *servers.Postgres, fails bool) *postgres.Store {
	t.Helper()
	options := postgres.Options{Timeout: time.Minute}
	if fails {
		options.Timeout = limit
	}
	s, err := postgres.Open(context.Background(), on.Admin.String(), options)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

func messages(name string, n int) []node.Message {
	list := make([]node.Message, n)
	for i := range list {
		list[i] = node.Message{
			ID: fmt.Sprint(name, i), Lane: "output", Incarnation: uuid.New(),
			Deadline: time.Now(), Value: []byte(name),
		}
	}
	return list
}

// takeOf returns the take of messages as the records of a partition from place on.
func takeOf(place node.Place, list []node.Message, claim bool) node.TakeRequest {
	request := node.TakeRequest{Node: uuid.UUID{1}, Hold: time.Minute, From: []node.Place{place}}
	for i, m := range list {
		request.Items = append(request.Items, node.Item{
			Epoch: place.Epoch, Offset: place.Offset + int64(i), Action: node.Schedule, Message: m, Claim: claim,
		})
	}
	return request
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
