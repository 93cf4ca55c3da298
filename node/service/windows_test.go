package service_test

import (
	"testing"
	"time"

	"chronos/node/calendar"
	"chronos/node/service"
)

// What nodes say of a window is the same for the same window, however it was written, and another thing for another
// one: also where the words are alike and the openings are not, as with two databases of zones.
func TestWindowForPeers(t *testing.T) {
	told := func(text string) string {
		w, err := calendar.ParseWindow(text, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		return service.WindowForPeers(w)
	}
	if a, b := told("8am to 8pm every day in Europe/London"), told("daily 08:00 - 20:00 in Europe/London"); a != b {
		t.Errorf("%s and %s are the same", a, b)
	}
	words, err := calendar.ParseWindow("8am to 8pm every day in Europe/London", time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	moved := service.WindowForPeers(elsewhere{words})
	if a := told("8am to 8pm every day in Europe/London"); a == moved {
		t.Errorf("%s, and by other rules %s", a, moved)
	}
	for _, text := range []string{"always", "never", "always except 2am to 3am on 1 january 2199"} {
		if told(text) == "" {
			t.Errorf("nothing is told of %s", text)
		}
	}
}

// elsewhere is a window whose zone has other rules here.
type elsewhere struct{ *calendar.Window }

// Next implements node.Window.
func (e elsewhere) Next(after time.Time) (time.Time, bool) {
	next, some := e.Window.Next(after.Add(time.Hour))
	return next.Add(-time.Hour), some
}
