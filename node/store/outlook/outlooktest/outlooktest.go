// Package outlooktest is what the outlook of every store has to be.
package outlooktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/outlook"
)

// Store is a store that tells.
type Store interface {
	node.Store
	outlook.Source
}

// Run tests an empty store. Goal: an outlook counts each message where it belongs, lane by lane and part by part.
// Method: a few messages of each kind, none of them near an edge.
func Run(t *testing.T, store Store) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	place := node.Place{
		Partition: node.Partition{Topic: "input", TopicID: uuid.New(), Number: 3},
		Position:  node.Position{Epoch: node.UnknownEpoch},
	}
	if _, _, err := store.Positions(t.Context(), []node.Place{place}); err != nil {
		t.Fatal(err)
	}
	request := node.TakeRequest{Node: uuid.New(), Hold: time.Minute, From: []node.Place{place}}
	for _, kind := range []struct {
		lane    string
		n       int
		due     time.Duration
		claimed bool
	}{
		{"a", 3, -time.Hour, false},
		{"a", 2, -2 * time.Hour, true},
		{"a", 4, 30 * time.Second, false},
		{"a", 2, 5 * time.Minute, false},
		{"a", 1, 48 * time.Hour, false},
		{"a", 1, 10 * time.Second, true},
		{"b", 2, 2 * time.Hour, false},
		{"c", 1, -time.Hour, false},
		{"parted", 3, -time.Hour, true},
		{"parted", 2, 45 * time.Minute, true},
		{"parted", 1, 50 * time.Minute, false},
		{"failing", 3, -3 * time.Hour, true},
		{"failing", 1, -time.Hour, false},
		{"failing", 2, 5 * time.Minute, false},
	} {
		for i := range kind.n {
			offset := int64(len(request.Items))
			request.Items = append(request.Items, node.Item{
				Offset: offset, Epoch: node.UnknownEpoch, Action: node.Schedule, Claim: kind.claimed,
				Message: node.Message{
					ID: fmt.Sprint(kind.lane, offset), Lane: kind.lane, Incarnation: uuid.New(),
					Deadline: now.Add(kind.due + time.Duration(i)*time.Millisecond),
					Origin:   node.Origin{Topic: "input", Partition: 3, Offset: offset},
				},
			})
		}
	}
	result, err := store.Take(t.Context(), request)
	if err != nil || result.Taken != len(request.Items) {
		t.Fatalf("take: %+v, error %v", result, err)
	}
	Park(t, store, result.Results, func(lane string, i int) string {
		if lane != "parted" {
			return ""
		}
		return []string{"7", "a host"}[i%2]
	})
	putOff(t, store, result.Results, now)
	checkOutlook(t, store, now)
}

// putOff gives the claims on the lane failing back: the first is tried again in 50 s, the second one was to be
// tried two hours ago, and the third one is parked, and is tried again in 50 s.
func putOff(t *testing.T, store node.Store, results []node.ItemResult, now time.Time) {
	t.Helper()
	var releases []node.Release
	for _, result := range results {
		if result.Claim.Lane == "failing" {
			releases = append(releases, node.Release{Claim: result.Claim, Due: now.Add(50 * time.Second)})
		}
	}
	if len(releases) != 3 {
		t.Fatalf("%d claims are to be put off, want 3", len(releases))
	}
	releases[1].Due, releases[2].Part = now.Add(-2*time.Hour), "a host"
	reset, err := store.Reset(t.Context(), releases)
	if err != nil || slices.ContainsFunc(reset, func(s node.Settled) bool { return s != node.Freed }) {
		t.Fatalf("put off: %v, error %v", reset, err)
	}
}

func checkOutlook(t *testing.T, store Store, now time.Time) {
	t.Helper()
	seen, err := store.Outlook(t.Context(), outlook.Request{
		Now: now, Lanes: []string{"a", "b", "none", "parted", "failing"},
	})
	if err != nil || len(seen.Lanes) != 5 || seen.Incomplete {
		t.Fatalf("outlook %+v, error %v", seen, err)
	}
	for i, want := range []struct {
		waiting, claimed, overdue, deferred int
		within                              [4]int
		oldest, next                        time.Time
	}{
		{10, 3, 5, 0, [4]int{4, 6, 6, 6}, now.Add(-2 * time.Hour), now.Add(30 * time.Second)},
		{2, 0, 0, 0, [4]int{0, 0, 0, 2}, time.Time{}, now.Add(2 * time.Hour)},
		{},
		{6, 0, 3, 0, [4]int{0, 0, 3, 3}, now.Add(-time.Hour), now.Add(45 * time.Minute)},
		{6, 0, 4, 2, [4]int{2, 4, 4, 4}, now.Add(-3 * time.Hour), now.Add(50 * time.Second)},
	} {
		lane := seen.Lanes[i]
		within := [4]int{lane.Within[0].N, lane.Within[1].N, lane.Within[2].N, lane.Within[3].N}
		if lane.Waiting.N != want.waiting || lane.Claimed.N != want.claimed || lane.Overdue.N != want.overdue ||
			lane.Deferred.N != want.deferred ||
			within != want.within || !lane.Oldest.Equal(want.oldest) || !lane.Next.Equal(want.next) ||
			lane.Estimated() {
			t.Errorf("lane %q is %+v, want %+v", lane.Name, lane, want)
		}
		for _, o := range lane.Origins {
			if o.Topic != "input" || o.Partition != 3 || want.overdue == 0 {
				t.Errorf("what is overdue on lane %q came from %+v", lane.Name, lane.Origins)
			}
		}
	}
	checkParked(t, seen.Lanes[3].Parked, now)
}

// Park parks the messages whose claims a take has returned, each on the part that part returns for its lane and its
// place among all.
func Park(t *testing.T, store node.Store, results []node.ItemResult, part func(lane string, i int) string) {
	t.Helper()
	var releases []node.Release
	for i, result := range results {
		if name := part(result.Claim.Lane, i); name != "" {
			releases = append(releases, node.Release{Claim: result.Claim, Part: name})
		}
	}
	reset, err := store.Reset(t.Context(), releases)
	if err != nil || slices.ContainsFunc(reset, func(s node.Settled) bool { return s != node.Freed }) {
		t.Fatalf("park: %v, error %v", reset, err)
	}
}

func checkParked(t *testing.T, got []outlook.Parked, now time.Time) {
	t.Helper()
	want := []outlook.Parked{
		{Part: "7", Waiting: outlook.Count{N: 3}, Oldest: now.Add(-time.Hour)},
		{Part: "a host", Waiting: outlook.Count{N: 2}, Oldest: now.Add(-time.Hour + time.Millisecond)},
	}
	if !slices.Equal(got, want) {
		t.Errorf("parked are %+v, want %+v", got, want)
	}
}
