package admin_test

import (
	"strings"
	"testing"
	"time"

	"chronos/node/admin"
	"chronos/node/hours"
)

// A lane that is closed says until when; and whoever fires a message there, or resumes it, is told.
func TestClosedLane(t *testing.T) {
	s := newService(t, admin.Rights{Control: true})
	opens := time.Now().UTC().Add(2 * time.Hour).Truncate(time.Minute)
	s.api.Hours = func(lane string, at time.Time) (hours.State, bool) {
		if lane != "out" {
			return hours.State{}, false
		}
		return hours.State{Window: "some words", Open: !at.Before(opens), Changes: opens}, true
	}
	var all admin.Lanes
	s.ask(t, 200, "GET", "/v1/lanes", "", &all)
	for _, l := range all.Lanes {
		out := l.Name == "out"
		if l.Closed != out || (l.Window == "some words") != out || out != (l.Changes != nil && l.Changes.Equal(opens)) {
			t.Errorf("lane %s: %+v", l.Name, l)
		}
	}
	when := opens.Format("2006-01-02 15:04:05.000 UTC")
	fired := s.instruct(t, "fire", "fired", s.put(t, "fired", nil), "")
	if !strings.Contains(fired.Says, "comes out when the lane opens, at "+when+".") {
		t.Errorf("fire says %q", fired.Says)
	}
	moved := s.instruct(t, "reschedule", "moved", s.put(t, "moved", nil), `, "delay": "3h"`)
	if !strings.HasPrefix(moved.Says, "It comes out at ") {
		t.Errorf("reschedule to when it is open says %q", moved.Says)
	}
	s.ask(t, 200, "PUT", "/v1/pauses/lanes/out", "{}", nil)
	var resumed admin.Resumed
	s.ask(t, 200, "DELETE", "/v1/pauses/lanes/out", "", &resumed)
	if !resumed.Was || resumed.Opens == nil || !resumed.Opens.Equal(opens) {
		t.Errorf("resume says %+v", resumed)
	}
	s.ask(t, 200, "DELETE", "/v1/pauses/lanes/idle", "", &resumed)
}
