package admin_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/node"
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

// What waits for a closed lane is not overdue, nor is it when the lane has just opened: not in a list of what is, and
// not by its own state. On other lanes, and a while after the opening, it is.
func TestClosedLaneIsNotOverdue(t *testing.T) {
	s := newService(t, admin.Rights{})
	hour := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	s.put(t, "night", func(m *node.Message) { m.Deadline = hour })
	s.put(t, "elsewhere", func(m *node.Message) { m.Deadline, m.Lane = hour, "other" })
	for name, c := range map[string]struct {
		out     hours.State
		overdue string
	}{
		"closed": {hours.State{}, "c elsewhere"}, // c is there in all these tests, on another lane
		"opened": {hours.State{Open: true, Opened: time.Now()}, "c elsewhere"},
		"open":   {hours.State{Open: true, Opened: time.Now().Add(-time.Minute)}, "c elsewhere night"},
	} {
		s.api.Hours = func(lane string, _ time.Time) (hours.State, bool) { return c.out, lane == "out" }
		var listed admin.Messages
		s.ask(t, 200, "GET", "/v1/messages?state=overdue", "", &listed)
		var ids []string
		for _, m := range listed.Messages {
			if ids = append(ids, m.ID); m.State != "overdue" {
				t.Errorf("%s: %s is listed as overdue, and is %s", name, m.ID, m.State)
			}
		}
		if slices.Sort(ids); strings.Join(ids, " ") != c.overdue {
			t.Errorf("%s: %v is overdue, want %s", name, ids, c.overdue)
		}
		for _, asks := range []string{"", "&state=waiting"} {
			if s.ask(t, 200, "GET", "/v1/messages?lane=out"+asks, "", &listed); len(listed.Messages) == 0 {
				t.Errorf("%s: nothing is listed%s", name, asks)
			}
		}
		s.ask(t, 200, "GET", "/v1/messages/night", "", &listed)
		if state := listed.Messages[0].State; (state == "overdue") != strings.Contains(c.overdue, "night") ||
			state != "overdue" && state != "waiting" {
			t.Errorf("%s: it is %s", name, state)
		}
	}
}
