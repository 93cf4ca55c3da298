package main_test

import (
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/control"
	"chronos/node/store/memory"
)

// Goal: operators see what is parked, and for what. Method: a store with a message that is parked on a partition, one
// on a host, and one that waits, behind the API of a node.
func TestParkedIsShown(t *testing.T) {
	t.Parallel()
	store := memory.New(time.Now)
	var items []node.Item
	for id, lane := range map[string]string{"late": "orders.out", "called": "http:shop", "later": "orders.out"} {
		m := node.Message{ID: id, Lane: lane, Incarnation: uuid.New(), Deadline: time.Now().Add(-time.Minute)}
		if id == "later" {
			m.Deadline = m.Deadline.Add(time.Hour)
		}
		items = append(items, node.Item{Action: node.Schedule, Message: m})
	}
	if _, err := control.Instruct(t.Context(), store, items); err != nil {
		t.Fatal(err)
	}
	for lane, part := range map[string]string{"orders.out": "3", "http:shop": "shop.example"} {
		claimed, err := store.Claim(t.Context(), node.ClaimRequest{
			Node: uuid.New(), Hold: time.Hour, Until: time.Now(), Lanes: []node.Share{{Lane: lane, Limit: 9, Bytes: 9}},
		})
		if err != nil || len(claimed.Messages) != 1 {
			t.Fatal(claimed, err)
		}
		if _, err := store.Reset(t.Context(), []node.Release{
			{Claim: claimed.Messages[0].Claim, Part: part, Unsent: true},
		}); err != nil {
			t.Fatal(err)
		}
	}
	api := &admin.API{
		Store: store, Outlook: store, Taker: store, Lanes: []string{"orders.out", "http:shop"},
		Troubles: admin.NewTroubles(nil), Info: func() admin.Info { return admin.Info{Node: "me"} },
	}
	server := httptest.NewServer(api.Handler())
	defer server.Close()
	says(t, 0, `late +orders\.out +parked .*\n\n1 shown`,
		"list", "--state", "parked", "--lane", "orders.out", "--admin", server.URL)
	says(t, 0, `state +parked\n(?s:.*)parked +partition 3 of orders\.out does not answer\n`,
		"get", "late", "--admin", server.URL)
	says(t, 0, `parked +host shop\.example of http:shop does not answer\n`, "get", "called", "--admin", server.URL)
	for _, command := range [][]string{{"count"}, {"top", "--once"}} {
		says(t, 0, `http:shop +1 .*1 parked: host shop\.example does not answer\n`+
			` *orders\.out +2 +0 +1 .*1 parked: partition 3 does not answer\n`,
			append(command, "--admin", server.URL)...)
	}
}
