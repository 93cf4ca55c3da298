package calendar_test

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/node/calendar"
)

// matcher is an expression and, written by hand, what it means on a wall clock.
type matcher struct {
	text   string
	hourly bool
	match  func(w time.Time) bool
}

// matchers are written so that every change of a clock in the world has something to leave out and to show twice.
var matchers = []matcher{
	{"30 * * * *", true, func(w time.Time) bool { return w.Minute() == 30 }},
	{"*/20 0-23 * * *", true, func(w time.Time) bool { return w.Minute()%20 == 0 }},
	{"0 0 * * *", false, func(w time.Time) bool { return w.Hour() == 0 && w.Minute() == 0 }},
	{"15 0-3,22,23 * * *", false, func(w time.Time) bool {
		return w.Minute() == 15 && (w.Hour() <= 3 || w.Hour() >= 22)
	}},
	{"*/10 1,2 * * sun", false, func(w time.Time) bool {
		return w.Minute()%10 == 0 && (w.Hour() == 1 || w.Hour() == 2) && w.Weekday() == time.Sunday
	}},
	{"0 */2 * * *", false, func(w time.Time) bool { return w.Minute() == 0 && w.Hour()%2 == 0 }},
}

// sighting is a look at the clock on a wall.
type sighting struct {
	at    time.Time // the instant
	local time.Time
	wall  int64 // minutes, as the clock shows them
}

// observe looks at a zone's clock once a minute, from six hours before on, so as to know what it has shown.
func observe(zone *time.Location, from, to time.Time) []sighting {
	var sightings []sighting
	for t := from.Add(-6 * time.Hour); t.Before(to); t = t.Add(time.Minute) {
		local := t.In(zone)
		_, offset := local.Zone()
		sightings = append(sightings, sighting{t, local, (t.Unix() + int64(offset)) / 60})
	}
	return sightings
}

// watch does what a cron daemon does at each look, and knows no more. It returns what comes from from on.
func (m *matcher) watch(sightings []sighting, from time.Time) []time.Time {
	var times []time.Time
	shown := sightings[0].wall - 1 // the latest minute that the clock has shown
	for _, s := range sightings {
		comes := m.match(s.local) && (m.hourly || s.wall > shown)
		for left := shown + 1; !m.hourly && left < s.wall; left++ {
			comes = comes || m.match(time.Unix(left*60, 0).UTC())
		}
		shown = max(shown, s.wall)
		if comes && !s.at.Before(from) {
			times = append(times, s.at)
		}
	}
	return times
}

// changes returns a day around each change of a zone's clock, found by looking at its offset every six hours.
func changes(zone *time.Location, from, to time.Time) [][2]time.Time {
	var windows [][2]time.Time
	_, before := from.In(zone).Zone()
	for t := from; t.Before(to); t = t.Add(6 * time.Hour) {
		if _, offset := t.In(zone).Zone(); offset != before {
			windows = append(windows, [2]time.Time{t.Add(-12 * time.Hour), t.Add(12 * time.Hour)})
			before = offset
		}
	}
	return windows
}

// TestAllZones compares with the watch, in all zones of the database, around each change of a clock. By default in two
// years; CHRONOS_ALL_ZONES=1 has it take all from 1973 on, before which offsets are not all whole minutes.
func TestAllZones(t *testing.T) {
	from, to := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 5, 0, 0, 0, 0, time.UTC)
	if os.Getenv("CHRONOS_ALL_ZONES") != "" {
		from, to = time.Date(1973, 1, 5, 0, 0, 0, 0, time.UTC), time.Date(2050, 1, 5, 0, 0, 0, 0, time.UTC)
	}
	names, seen, windows := zoneNames(t), map[string]bool{}, 0
	for _, name := range names {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		around := changes(zone, from, to)
		windows += len(around)
		around = append(around, leapYearEnd())
		if !unseen(seen, zone, around) {
			continue
		}
		for _, w := range around {
			compare(t, name, w[0], w[1])
		}
	}
	if len(names) < 400 || len(seen) < 10 || windows < 100 {
		t.Errorf("saw %d zones, %d kinds and %d changes only", len(names), len(seen), windows)
	}
	t.Logf("%d zones, %d different, %d changes", len(names), len(seen), windows)
}

// leapYearEnd is the end of a leap year after what the database lists, about which Go is mistaken.
func leapYearEnd() [2]time.Time {
	return [2]time.Time{
		time.Date(2040, 12, 30, 18, 0, 0, 0, time.UTC), time.Date(2041, 1, 1, 18, 0, 0, 0, time.UTC),
	}
}

// unseen reports whether a zone's changes are not those of another name, or of another place with the same clock.
func unseen(seen map[string]bool, zone *time.Location, around [][2]time.Time) bool {
	fingerprint := ""
	for _, w := range around {
		fingerprint += w[0].In(zone).Format(time.RFC3339) + w[1].In(zone).Format(time.RFC3339)
	}
	if seen[fingerprint] {
		return false
	}
	seen[fingerprint] = true
	return true
}

// TestQuietZones compares with the watch in a zone without changes, and in one whose clock skipped a day.
func TestQuietZones(t *testing.T) {
	for name, day := range map[string]time.Time{
		"UTC":          time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC),
		"Asia/Kolkata": time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC),
		"Pacific/Apia": time.Date(2011, 12, 30, 0, 0, 0, 0, time.UTC),
	} {
		compare(t, name, day, day.Add(72*time.Hour))
	}
}

// compare asks each matcher's series for what the watch has seen, and for the count of it.
func compare(t *testing.T, name string, from, to time.Time) {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	sightings := observe(zone, from, to)
	for _, m := range matchers {
		s := series(t, calendar.Words{Repeat: m.text, Zone: name, Asked: from})
		var got []time.Time
		for at, more := s.First().At, true; more && at.Before(to); at, more = s.Next(at) {
			got = append(got, at)
		}
		if want := m.watch(sightings, from); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%s in %s from %v: got\n%v, want\n%v", m.text, name, from, got, want)
			continue
		}
		if len(got) < 2 {
			continue
		}
		// All but the last have been missed: the verdict knows their number and the last of them.
		last := int64(len(got) - 1)
		want := calendar.Verdict{
			Action: calendar.PassOver, Passed: last, Next: calendar.Occurrence{Sequence: last + 1, At: got[last]},
		}
		if verdict := s.Judge(s.First(), got[last], 0, 0); verdict != want {
			t.Errorf("%s in %s: at %v the verdict is %v, want %v", m.text, name, got[last], verdict, want)
		}
	}
}

// zoneNames lists the database of the compiler.
func zoneNames(t *testing.T) []string {
	t.Helper()
	root, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatalf("ask where the compiler is: %v", err)
	}
	archive, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Fatalf("open the compiler's time zones: %v", err)
	}
	defer func() {
		if err := archive.Close(); err != nil {
			t.Error(err)
		}
	}()
	var names []string
	for _, file := range archive.File {
		switch name := file.Name; name {
		case "EST", "MST", "HST", "Factory":
		default:
			if !strings.HasSuffix(name, "/") {
				names = append(names, name)
			}
		}
	}
	return names
}
