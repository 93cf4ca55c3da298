package calendar_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/node/calendar"
)

// dense are windows that change at the hours at which clocks do.
var dense = []saying{
	{"midnight to 1am every day", "", on(anyDay).between(0, 60)},
	{"2am to 3am every day", "", on(anyDay).between(2*am, 3*am)},
	{"1am to 1:30am every day", "", on(anyDay).between(1*am, 1*am+30)},
	{"10pm to 4am every saturday", "", weekday(6).between(22*60, 28*60)},
	{"always except 1:59am to 3:01am every sunday", "", except(open, weekday(0).between(119, 181))},
	{"every day outside 00:15 to 23:45", "", either(on(anyDay).between(0, 15), on(anyDay).between(1425, 1440))},
	{"saturday 11pm to sunday 2:30am", "", weekday(6).between(23*60, 26*60+30)},
	{"all day on the last day of the month and on the last sunday of the month", "", whole(either(lastDay,
		func(d time.Time) bool { return d.Weekday() == time.Sunday && d.AddDate(0, 0, 7).Month() != d.Month() }))},
}

// watchWindow looks at a zone's clock once a minute, and compares what the window says of that minute, and when it says
// that it changes.
func watchWindow(t interface {
	Helper()
	Errorf(format string, args ...any)
}, w *calendar.Window, means when, sightings []sighting,
) {
	t.Helper()
	first := sightings[0].at
	last, changes := means(time.Unix(sightings[0].wall*60, 0).UTC()), []time.Time(nil)
	for i, s := range sightings {
		want := means(time.Unix(s.wall*60, 0).UTC())
		if i%7 == 0 || want != last {
			if got := w.Open(s.at); got != want {
				t.Errorf("%v: at %v, when the clock shows %v, open is %t", w, s.at, s.local, got)
				return
			}
		}
		if want != last {
			changes, last = append(changes, s.at), want
		}
	}
	end := sightings[len(sightings)-1].at
	watchLeftOut(t, w, means, sightings)
	at := first
	for _, want := range changes {
		got, found := w.Next(at)
		if !found || !got.Equal(want) {
			t.Errorf("%v: after %v it changes at %v (%t), want %v", w, at, got, found, want)
			return
		}
		// From any instant in between it is the same.
		if middle := at.Add(want.Sub(at) / 2); !middle.Equal(at) {
			if got, _ := w.Next(middle); !got.Equal(want) {
				t.Errorf("%v: after %v it changes at %v, want %v", w, middle, got, want)
				return
			}
		}
		at = want
	}
	if got, found := w.Next(at); found && !got.After(end) {
		t.Errorf("%v: after %v it changes at %v, want none before %v", w, at, got, end)
	}
}

// watchLeftOut looks for openings in what a zone's clock has left out, minute by minute.
func watchLeftOut(t interface {
	Helper()
	Errorf(format string, args ...any)
}, w *calendar.Window, means when, sightings []sighting,
) {
	t.Helper()
	clock := func(minute int64) string { return time.Unix(minute*60, 0).UTC().Format("15:04") }
	opens := func(minute int64) bool { return means(time.Unix(minute*60, 0).UTC()) }
	var want []calendar.LeftOut
	for i := 1; i < len(sightings); i++ {
		from, found := int64(0), false
		for minute := sightings[i-1].wall + 1; minute <= sightings[i].wall; minute++ {
			switch {
			case opens(minute) && !opens(minute-1) && minute < sightings[i].wall:
				from, found = minute, true
			case !opens(minute) && found:
				to := strings.Replace(clock(minute), "00:00", "24:00", 1)
				want, found = append(want, calendar.LeftOut{At: sightings[i].at, From: clock(from), To: to}), false
			}
		}
	}
	var got []calendar.LeftOut
	for o := range w.LeftOut(sightings[0].at, sightings[len(sightings)-1].at) {
		got = append(got, o)
	}
	same := func(a, b calendar.LeftOut) bool { return a.At.Equal(b.At) && a.From == b.From && a.To == b.To }
	if !slices.EqualFunc(got, want, same) {
		t.Errorf("%v: %v are left out, want %v", w, got, want)
	}
}

// TestWindowsInAllZones watches windows in all zones of the database, around each change of a clock, as TestAllZones
// does with series. By default in one year, half of the windows
// at each; CHRONOS_ALL_ZONES=1 has it take all from 1973 on.
func TestWindowsInAllZones(t *testing.T) {
	from, to := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC), time.Date(2027, 1, 5, 0, 0, 0, 0, time.UTC)
	if os.Getenv("CHRONOS_ALL_ZONES") != "" {
		from, to = time.Date(1973, 1, 5, 0, 0, 0, 0, time.UTC), time.Date(2050, 1, 5, 0, 0, 0, 0, time.UTC)
	}
	seen, compared := map[string]bool{}, 0
	for _, name := range zoneNames(t) {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		around := append(changes(zone, from, to), leapYearEnd())
		if !unseen(seen, zone, around) || aliased(name) {
			continue
		}
		for _, between := range around {
			some := dense
			if os.Getenv("CHRONOS_ALL_ZONES") == "" { // Each half of the windows at every other change.
				some = [][]saying{dense[:len(dense)/2], dense[len(dense)/2:]}[compared%2]
			}
			compared++
			watchAll(t, name, observe(zone, between[0], between[1]), some)
		}
	}
	if compared < 50 {
		t.Errorf("compared %d changes only", compared)
	}
	t.Logf("%d changes of clocks", compared)
}

// aliased reports whether a name of the database is one that windows refuse, because people mean something else by it.
func aliased(name string) bool {
	return slices.Contains([]string{"CET", "EET", "MET", "WET"}, name)
}

// watchAll watches windows in a zone.
func watchAll(t *testing.T, zone string, sightings []sighting, all []saying) {
	t.Helper()
	for _, s := range all {
		watchWindow(t, window(t, s.text+" in "+zone), s.means, sightings)
	}
}

// TestOddYears watches windows where clocks did something that they seldom do.
func TestOddYears(t *testing.T) {
	for _, c := range []struct {
		zone string
		day  time.Time
	}{
		{"Pacific/Apia", time.Date(2011, 12, 30, 0, 0, 0, 0, time.UTC)},               // a day left out
		{"Pacific/Kwajalein", time.Date(1993, 8, 21, 0, 0, 0, 0, time.UTC)},           // another
		{"America/Sao_Paulo", time.Date(2018, 11, 4, 0, 0, 0, 0, time.UTC)},           // no midnight
		{"America/Santiago", time.Date(2026, 9, 6, 0, 0, 0, 0, time.UTC)},             // no midnight
		{"Australia/Lord_Howe", time.Date(2026, 4, 4, 0, 0, 0, 0, time.UTC)},          // half an hour back
		{"Antarctica/Troll", time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC)},            // two hours
		{"Africa/Casablanca", time.Date(2026, 3, 22, 0, 0, 0, 0, time.UTC)},           // Ramadan
		{"Asia/Pyongyang", time.Date(2018, 5, 4, 0, 0, 0, 0, time.UTC)},               // half an hour
		{"America/Caracas", time.Date(2007, 12, 9, 0, 0, 0, 0, time.UTC)},             // half an hour back
		{"Europe/London", time.Date(1947, 4, 13, 0, 0, 0, 0, time.UTC)},               // double summer time
		{"America/New_York", time.Date(1974, 1, 6, 0, 0, 0, 0, time.UTC)},             // in winter
		{"Europe/Dublin", time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC)},              // winter time is what is put
		{"America/Scoresbysund", time.Date(2024, 3, 31, 0, 0, 0, 0, time.UTC)},        // both at once
		{"Antarctica/Casey", time.Date(2010, 3, 4, 12, 0, 0, 0, time.UTC)},            // three hours
		{"America/Godthab", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)},            // on Saturday evening
		{"Asia/Gaza", time.Date(2026, 10, 24, 0, 0, 0, 0, time.UTC)},                  // its own days
		{"Pacific/Fiji", time.Date(2040, 12, 30, 12, 0, 0, 0, time.UTC)},              // the end of a leap year
		{"America/Argentina/San_Luis", time.Date(2008, 1, 20, 12, 0, 0, 0, time.UTC)}, // half of a change
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		watchAll(t, c.zone, observe(zone, c.day.Add(-24*time.Hour), c.day.Add(72*time.Hour)), dense)
	}
}

// TestSecondsOfOffsets watches a clock that was 44 minutes and 30 seconds behind, by the second, when it was set right.
func TestSecondsOfOffsets(t *testing.T) {
	const zone = "Africa/Monrovia"
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	set := time.Date(1972, 1, 7, 0, 44, 30, 0, time.UTC)
	for _, s := range dense {
		w := window(t, s.text+" in "+zone)
		next, found := w.Next(set.Add(-2*time.Hour - time.Second))
		last := w.Open(set.Add(-2*time.Hour - time.Second))
		for at := set.Add(-2 * time.Hour); at.Before(set.Add(2 * time.Hour)); at = at.Add(time.Second) {
			want := s.means(wallOf(at, place))
			if got := w.Open(at); got != want {
				t.Fatalf("%v: at %v open is %t", w, at, got)
			}
			if want != last {
				if !found || !next.Equal(at) {
					t.Fatalf("%v: it changes at %v, want %v", w, next, at)
				}
				next, found = w.Next(at)
				last = want
			}
		}
	}
}

// TestClocksOfNewYork has what section F of the research decided for the days on which New York and Santiago change
// their clocks: what a window's opening is like that day, in hours.
func TestClocksOfNewYork(t *testing.T) {
	const santiagoMidnight = "midnight to 1am on 6 september 2026 and 8 september 2026 in America/Santiago"
	for _, c := range []struct{ text, from, want string }{
		{"2 - 4am every day in America/New_York", "2026-03-08 05:00", "03:00 1h0m0s"},
		{"2am - 3am every day in America/New_York", "2026-03-08 05:00", "02:00 1h0m0s"}, // on the next day
		{"1am to 2am every day in America/New_York", "2026-11-01 04:00", "01:00 2h0m0s"},
		{"1am to 1:30am every day in America/New_York", "2026-11-01 04:00", "01:00 30m0s, 01:00 30m0s"},
		{"1am to 1:30am on 2026-11-01 in America/New_York", "2026-11-01 04:00", "01:00 30m0s, 01:00 30m0s"},
		{"10pm to 4am every day in America/New_York", "2026-10-31 16:00", "22:00 7h0m0s"},
		{"10pm to 4am every day in America/New_York", "2026-03-07 16:00", "22:00 5h0m0s"},
		{santiagoMidnight, "2026-09-05 16:00", "00:00 1h0m0s"},
	} {
		w := window(t, c.text)
		var got []string
		for o := range w.Openings(at(c.from)) {
			got = append(got, o.Start.In(w.Zone()).Format("15:04 ")+o.End.Sub(o.Start).String())
			if len(got) > strings.Count(c.want, ",") {
				break
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: got %s, want %s", c.text, text, c.want)
		}
	}
	santiago := window(t, santiagoMidnight)
	if next, _ := santiago.Next(at("2026-09-05 16:00")); !next.Equal(at("2026-09-08 03:00")) {
		t.Errorf("Santiago's missing midnight opens at %v", next)
	}
}

// drawDays draws days in words and by hand.
func drawDays(t *rapid.T) (string, on) {
	names := strings.Fields("sunday monday tuesday wednesday thursday friday saturday")
	months := strings.Fields("january february march april may june july august september october november december")
	some := time.Weekday(rapid.IntRange(0, 6).Draw(t, "weekday"))
	day := rapid.IntRange(1, 28).Draw(t, "day")
	month := time.Month(rapid.IntRange(1, 12).Draw(t, "month"))
	name, monthName := names[some], months[month-1]
	switch rapid.IntRange(0, 10).Draw(t, "kind") {
	case 0:
		return "every day", anyDay
	case 1:
		return "weekdays", weekdays
	case 2:
		return "every " + name, weekday(some)
	case 3:
		other := (some + 2) % 7
		return name + " to " + names[other], weekday(some, some+1, (some+1)%7, other)
	case 4:
		return fmt.Sprintf("on the %dth day of the month and the last day of the month", day),
			func(d time.Time) bool { return d.Day() == day || lastDay(d) }
	case 5:
		n := rapid.IntRange(1, 5).Draw(t, "nth")
		return "the " + strings.Fields("first second third fourth 5th")[n-1] + " " + name + " of the month",
			func(d time.Time) bool { return d.Weekday() == some && (d.Day()+6)/7 == n }
	case 6:
		return fmt.Sprintf("%s %d", monthName, day), dayOfYear(day, month)
	case 7:
		next := month%12 + 1
		return fmt.Sprintf("weekends from %d %s to %d %s", day, monthName, day, months[next-1]),
			func(d time.Time) bool {
				after := d.Month() == month && d.Day() >= day
				return weekends(d) && (after || d.Month() == next && d.Day() <= day)
			}
	case 8:
		return name + "s in " + monthName, func(d time.Time) bool { return d.Weekday() == some && d.Month() == month }
	case 9:
		return "every 3rd " + name + " from 2001-01-01", func(d time.Time) bool {
			since := int(d.Truncate(24*time.Hour).Sub(time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)) / (24 * time.Hour))
			return d.Weekday() == some && since >= 0 && since/7%3 == 0
		}
	default:
		return "the last weekday of the month", func(d time.Time) bool {
			for next := d.AddDate(0, 0, 1); next.Month() == d.Month(); next = next.AddDate(0, 0, 1) {
				if weekdays(next) {
					return false
				}
			}
			return weekdays(d)
		}
	}
}

// drawClause draws hours on days, in words and by hand.
func drawClause(t *rapid.T) (string, when) {
	text, is := drawDays(t)
	from := rapid.IntRange(0, 95).Draw(t, "from") * 15
	to := rapid.IntRange(0, 95).Draw(t, "to") * 15
	clock := func(minute int) string { return fmt.Sprintf("%02d:%02d", minute/60, minute%60) }
	hours := clock(from) + "-" + clock(to)
	if to <= from {
		to += 1440
	}
	switch rapid.IntRange(0, 4).Draw(t, "form") {
	case 0:
		return "all day " + text, whole(is)
	case 1:
		return text + " " + hours, is.between(from, to)
	case 2:
		return text + " outside " + hours, except(whole(is), either(on(anyDay).between(from, to)))
	default:
		return hours + " " + text, is.between(from, to)
	}
}

// TestRandomWindows draws windows with exceptions, and watches them where clocks are odd: what is parsed means what was
// drawn, and so does its normal form.
func TestRandomWindows(t *testing.T) {
	places := []string{
		"UTC", "America/New_York", "Europe/London", "Australia/Lord_Howe", "America/Santiago", "Africa/Casablanca",
		"Antarctica/Troll", "Asia/Tehran", "Pacific/Apia", "Asia/Kathmandu",
	}
	rapid.Check(t, func(t *rapid.T) {
		text, means := drawClause(t)
		for range rapid.IntRange(0, 2).Draw(t, "more") {
			also, too := drawClause(t)
			text, means = text+"; "+also, either(means, too)
		}
		if rapid.IntRange(0, 3).Draw(t, "always") == 0 {
			text, means = "always", open
		}
		for i := range rapid.IntRange(0, 2).Draw(t, "exceptions") {
			but, not := drawClause(t)
			text, means = text+[]string{" except ", "; "}[min(i, 1)]+but, except(means, not)
		}
		name := rapid.SampledFrom(places).Draw(t, "zone")
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		w, err := calendar.ParseWindow(text+" in "+name, time.Time{})
		if err != nil {
			if strings.Contains(err.Error(), "never opens") || strings.Contains(err.Error(), "nothing outside") {
				t.Skip("it never opens")
			}
			t.Fatalf("%s: %v", text, err)
		}
		from := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC)
		from = from.Add(time.Duration(rapid.IntRange(0, 20*365).Draw(t, "when")) * 24 * time.Hour)
		around := changes(zone, from, from.AddDate(1, 0, 0))
		if len(around) > 0 && rapid.Bool().Draw(t, "at a change") {
			from = around[0][0]
		}
		sightings := observe(zone, from, from.Add(24*time.Hour))
		watchWindow(t, w, means, sightings)
		again, err := calendar.ParseWindow(w.String(), time.Time{})
		if err != nil || again.String() != w.String() {
			t.Fatalf("the normal form of %s, %v, is read as %v (%v)", text, w, again, err)
		}
		watchWindow(t, again, means, sightings)
	})
}
