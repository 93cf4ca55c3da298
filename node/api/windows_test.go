package api_test

import (
	"strings"
	"testing"
	"time"

	"chronos/node/api"
)

// Goal: what waits for a lane that its window keeps closed is not overdue, by its state and in lists.
func TestExcused(t *testing.T) {
	w := newWorld(t, func(a *api.API) {
		a.Excused = func(lane string, at time.Time) bool { return lane == "out" && at.Hour() < 12 }
	})
	for _, lane := range []string{"out", "mails.x"} {
		w.ask(t, "PUT", "/v1/lanes/"+lane+"/messages/m", `{"delay":"1m"}`).want(t, 201, "scheduled")
	}
	for _, c := range []struct {
		lane, state string
		later       time.Duration
	}{{"out", "waiting", time.Hour}, {"mails.x", "overdue", 0}, {"out", "overdue", 3 * time.Hour}} {
		w.now = w.now.Add(c.later)
		got := w.ask(t, "GET", "/v1/lanes/"+c.lane+"/messages/m", "").want(t, 200, "")
		if !strings.Contains(got.text, `"state":"`+c.state+`"`) {
			t.Errorf("%s: it is not %s: %s", c.lane, c.state, got.text)
		}
		got = w.ask(t, "GET", "/v1/lanes/"+c.lane+"/messages?state=overdue", "").want(t, 200, "")
		if strings.Contains(got.text, `"id":"m"`) != (c.state == "overdue") {
			t.Errorf("%s: overdue are %s", c.lane, got.text)
		}
	}
}
