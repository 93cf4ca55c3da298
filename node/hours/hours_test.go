package hours_test

import (
	"context"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/calendar"
	"chronos/node/hours"
	"chronos/node/store/outlook"
)

// instant reads an instant of a day in 2030.
func instant(t *testing.T, text string) time.Time {
	t.Helper()
	at, err := time.Parse("01-02 15:04:05", text)
	if err != nil {
		t.Fatal(err)
	}
	return at.AddDate(2030, 0, 0)
}

func open(t *testing.T, windows map[string]string) *hours.Hours {
	t.Helper()
	config := node.Default()
	config.Routes = []node.Route{{Input: "in", Output: "out"}}
	for lane, text := range windows {
		w, err := calendar.ParseWindow(text, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		config.Windows = append(config.Windows, node.LaneWindow{Lane: lane, Window: w})
	}
	return hours.New(&config)
}

// What is asked is told, in any order of the instants, and each state is that of its own instant.
func TestAt(t *testing.T) {
	h := open(t, map[string]string{
		"out": "8am to 8pm every day", "rare": "1pm to 2pm on 6 march 2028", "never": "never", "always": "always",
	})
	for _, c := range []struct {
		lane, at, changes, opened string
		open                      bool
	}{
		{"out", "03-06 07:59:59", "03-06 08:00:00", "03-05 08:00:00", false},
		{"out", "03-06 08:00:00", "03-06 20:00:00", "03-06 08:00:00", true},
		{"out", "03-06 19:59:59", "03-06 20:00:00", "03-06 08:00:00", true},
		{"out", "03-06 20:00:00", "03-07 08:00:00", "03-06 08:00:00", false},
		{"out", "03-06 09:00:00", "03-06 20:00:00", "03-06 08:00:00", true}, // back again
		{"never", "03-06 09:00:00", "", "", false},
		{"always", "03-06 09:00:00", "", "", true},
	} {
		state, has := h.At(c.lane, instant(t, c.at))
		want := hours.State{Window: state.Window, Open: c.open}
		if c.changes != "" {
			want.Changes = instant(t, c.changes)
		}
		if c.opened != "" {
			want.Opened = instant(t, c.opened)
		}
		if !has || state.Open != want.Open || !state.Changes.Equal(want.Changes) || !state.Opened.Equal(want.Opened) {
			t.Errorf("%s at %s: %+v, want %+v", c.lane, c.at, state, want)
		}
	}
	if rare, _ := h.At("rare", instant(t, "03-06 09:00:00")); rare.Opened.Year() != 2028 || rare.Opened.Hour() != 13 {
		t.Errorf("it opened last at %v", rare.Opened)
	}
	if _, has := h.At("other", instant(t, "03-06 09:00:00")); has {
		t.Error("a lane without a window has one")
	}
	if text := h.Closed("out", instant(t, "03-06 21:00:00")); text != "closed until Thu 2030-03-07 08:00 UTC" {
		t.Error(text)
	}
	if text := h.Closed("never", instant(t, "03-06 21:00:00")); text != "closed forever" {
		t.Error(text)
	}
	for _, lane := range []string{"out", "other"} {
		if text := h.Closed(lane, instant(t, "03-06 12:00:00")); text != "" {
			t.Error(text)
		}
	}
}

// told is an outlook of a lane on which five messages are overdue since midnight.
type told struct{ midnight time.Time }

func (s told) Outlook(_ context.Context, r outlook.Request) (seen outlook.Outlook, err error) {
	for _, lane := range r.Lanes {
		seen.Lanes = append(seen.Lanes, outlook.Lane{
			Name: lane, Overdue: outlook.Count{N: 5}, Oldest: s.midnight, Origins: []outlook.Origin{{Topic: "in"}},
		})
	}
	return seen, nil
}

// What waits for a closed lane is not overdue, and what waits since midnight when a lane opened at eight is overdue
// since eight.
func TestOutlook(t *testing.T) {
	h := open(t, map[string]string{"out": "8am to 8pm every day"})
	source := h.Outlook(told{instant(t, "03-06 00:00:00")})
	for at, want := range map[string]struct {
		overdue int
		oldest  string
	}{
		"03-06 07:00:00": {0, ""},
		"03-06 08:00:01": {0, ""},
		"03-06 08:00:05": {5, "03-06 08:00:00"},
		"03-06 21:00:00": {0, ""},
	} {
		seen, err := source.Outlook(t.Context(), outlook.Request{Now: instant(t, at), Lanes: []string{"out", "other"}})
		if err != nil {
			t.Fatal(err)
		}
		l := seen.Lanes[0]
		if l.Overdue.N != want.overdue || (want.oldest == "") != l.Oldest.IsZero() ||
			want.oldest != "" && !l.Oldest.Equal(instant(t, want.oldest)) {
			t.Errorf("at %s: %+v, want %+v", at, l, want)
		}
		if other := seen.Lanes[1]; other.Overdue.N != 5 || len(other.Origins) != 1 {
			t.Errorf("a lane without a window: %+v", other)
		}
	}
	if none := open(t, nil).Outlook(source); none != source {
		t.Error("without windows, it is not the same")
	}
}
