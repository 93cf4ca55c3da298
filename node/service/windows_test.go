package service_test

import (
	"os"
	"path/filepath"
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

// A topic that has an entry of its own has what that says, as a callback lane has: of what it does not say, the entry
// with a * says nothing either. What has no entry goes by that.
func TestEntryOfItsOwn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.yaml")
	text := "routes:\n  - {input: a, output: b, targets: \"c, d\"}\nlanes:\n" +
		"  - {name: \"*\", window: never, max-per-second: 5}\n" +
		"  - {name: b, window: always}\n  - {name: c, max-per-second: 7}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	settings, err := service.Read(service.Run, map[string]service.Value{
		"store":   service.FlagValue("store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db")),
		"brokers": service.FlagValue("brokers", "127.0.0.1:1"), "config": service.FlagValue("config", file),
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config, err := settings.Config()
	if err != nil {
		t.Fatal(err)
	}
	for lane, want := range map[string]struct {
		pace   int
		closed bool
	}{"b": {0, false}, "c": {7, false}, "d": {5, true}} {
		w := config.Node.WindowOf(lane)
		if pace, closed := config.Node.PaceOf(lane), w != nil && !w.Open(time.Now()); pace != want.pace ||
			closed != want.closed {
			t.Errorf("%s has the pace %d, and is closed: %v; want %+v", lane, pace, closed, want)
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
