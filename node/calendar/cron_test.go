package calendar_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/netresearch/go-cron"
	"pgregory.net/rapid"

	"chronos/node/calendar"
)

// drawField makes a field of a cron expression that we and the other library understand in the same way.
func drawField(t *rapid.T, name string, low, high int, names []string) string {
	value := func(from int) string {
		n := rapid.IntRange(from, high).Draw(t, name)
		if n-low < len(names) && rapid.Bool().Draw(t, "named") {
			return names[n-low]
		}
		return fmt.Sprint(n)
	}
	item := func() string {
		text := "*"
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0, 1:
			return value(low)
		case 2:
			from := rapid.IntRange(low, high-2).Draw(t, "from")
			text = fmt.Sprintf("%d-%s", from, value(from+2))
		}
		if rapid.Bool().Draw(t, "stepped") {
			text += fmt.Sprintf("/%d", rapid.IntRange(1, 2).Draw(t, "step"))
		}
		return text
	}
	items := []string{item()}
	for range rapid.IntRange(0, 2).Draw(t, "more") {
		items = append(items, item())
	}
	if slices.Contains(items, "*") {
		return "*" // In a list it means the same, but not to everybody.
	}
	return strings.Join(items, ",")
}

// TestCronAsAnotherReadsIt compares what an expression yields in UTC with a library that has nothing in common with
// this package. Why the library is not used is in docs/adr/0013-series.md.
func TestCronAsAnotherReadsIt(t *testing.T) {
	parser := cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow |
		cron.DowOrDom | cron.DomL | cron.DomW | cron.DowNth | cron.DowLast).WithMaxSearchYears(50)
	months := strings.Fields("jan feb mar apr may jun jul aug sep oct nov dec")
	weekdays := strings.Fields("sun mon tue wed thu fri sat")
	rapid.Check(t, func(t *rapid.T) {
		day := drawField(t, "day", 1, 31, nil)
		if rapid.Bool().Draw(t, "special day") {
			day = rapid.SampledFrom([]string{"L", "LW", "15W", "1W", "30W", "1,L", "*"}).Draw(t, "day")
		}
		weekday := drawField(t, "weekday", 0, 6, weekdays)
		if rapid.Bool().Draw(t, "special weekday") {
			weekday = rapid.SampledFrom([]string{
				"fri#2", "mon#5", "sunL", "mon,friL", "5-7", "7", "*",
			}).Draw(t, "weekday")
		}
		if strings.HasPrefix(day, "*/") || strings.HasPrefix(weekday, "*/") { // which is no star to the other library
			day, weekday = strings.TrimPrefix(day, "*/2,"), strings.TrimPrefix(weekday, "*/2,")
			if strings.HasPrefix(day, "*/") {
				day = "*"
			}
			if strings.HasPrefix(weekday, "*/") {
				weekday = "*"
			}
		}
		theirs := strings.ReplaceAll(strings.ReplaceAll(weekday, "friL", "fri#L"), "sunL", "sun#L")
		common := strings.Join([]string{
			drawField(t, "second", 0, 59, nil), drawField(t, "minute", 0, 59, nil), drawField(t, "hour", 0, 23, nil),
			day, drawField(t, "month", 1, 12, months),
		}, " ")
		other, err := parser.Parse(common + " " + theirs)
		if err != nil {
			t.Fatalf("%s %s: the other library says %v", common, theirs, err)
		}
		asked := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "asked"), 0).UTC()
		s, err := calendar.New(calendar.Words{Repeat: common + " " + weekday, Asked: asked.Add(time.Microsecond)})
		at := asked
		for range 20 {
			if at = other.Next(at); at.IsZero() {
				break
			}
			if err != nil {
				t.Fatalf("%s %s: %v, but it comes at %v", common, weekday, err, at)
			}
			before := at
			if got, _ := s.Next(before.Add(-time.Microsecond)); !got.Equal(at) {
				t.Fatalf("%s %s: %v, and the other library says %v", common, weekday, got, at)
			}
			if first := s.First().At; first.After(at) {
				t.Fatalf("%s %s: the first is %v, and the other library says %v", common, weekday, first, at)
			}
		}
	})
}

// TestStarRule compares the days on which an expression comes with those that Vixie's rule says, counted out by hand:
// where a field for days begins with a *, both fields have to match, and where none does, either is enough.
func TestStarRule(t *testing.T) {
	odd := func(t time.Time) bool { return t.Day()%2 == 1 }
	on := func(day time.Weekday) func(time.Time) bool {
		return func(t time.Time) bool { return t.Weekday() == day }
	}
	for _, c := range []struct {
		days string
		want func(time.Time) bool
	}{
		{"*/1 * mon", on(time.Monday)},
		{"* * mon", on(time.Monday)},
		{"? * mon", on(time.Monday)},
		{"*/2 * mon", func(t time.Time) bool { return odd(t) && t.Weekday() == time.Monday }},
		{"1-7 * */7", func(t time.Time) bool { return t.Day() <= 7 && t.Weekday() == time.Sunday }},
		{"16 * */1", func(t time.Time) bool { return t.Day() == 16 }},
		{"16 * */2", func(t time.Time) bool { return t.Day() == 16 && t.Weekday()%2 == 0 }},
		{"*,16 * mon", on(time.Monday)},
		{"16,* * mon", func(time.Time) bool { return true }},
		{"1-31/2 * mon", func(t time.Time) bool { return odd(t) || t.Weekday() == time.Monday }},
		{"L * */6", func(t time.Time) bool { return t.AddDate(0, 0, 1).Day() == 1 && t.Weekday()%6 == 0 }},
		{"*/2 * *", odd},
	} {
		s, err := calendar.New(calendar.Words{
			Repeat: "0 9 " + c.days, Asked: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		})
		if err != nil {
			t.Fatalf("%s: %v", c.days, err)
		}
		next := s.First().At
		for day := time.Date(2026, 1, 1, 9, 0, 0, 0, time.UTC); day.Year() < 2030; day = day.AddDate(0, 0, 1) {
			comes := next.Equal(day)
			if comes != c.want(day) {
				t.Fatalf("%s: on %s, a %s, it comes: %v", c.days, day.Format(time.DateOnly), day.Weekday(), comes)
			}
			if comes {
				next, _ = s.Next(day)
			}
		}
	}
}

// TestStoredIsRead asks that what was taken in before is read, although it would be refused by now.
func TestStoredIsRead(t *testing.T) {
	for text, want := range map[string]string{
		"0 22-0 * * * in UTC from 2030-01-01T22:00:00Z missed one": "2030-01-01T23:00:00Z",
		"0 0 30 2 */2 in UTC from 2030-02-01T00:00:00Z missed one": "",
	} {
		s, err := calendar.Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if o, found := s.Following(s.First()); found != (want != "") || found && o.At.Format(time.RFC3339) != want {
			t.Errorf("%s: then comes %v, %v", text, o, found)
		}
	}
}

// FuzzNew asks that whatever somebody writes is rejected with a sentence or is a series that goes on, comes back from
// its text, and judges an outage of a year in no time.
func FuzzNew(f *testing.F) {
	for _, seed := range [][4]string{
		{"every 90s", "", "", "one"},
		{"@every PT1H", "", "3", "all"},
		{"30 2 * * *", "America/New_York", "", "skip"},
		{"* * * * * *", "Australia/Lord_Howe", "10", ""},
		{"0 9 L,15W,LW 1-6/2 fri#2,monL", "Europe/Dublin", "", ""},
		{"0 0 30 2 *", "", "", ""},
		{"30-10 * * * *", "../x", "-1", "x"},
		{"CRON_TZ=", "right/UTC", "", ""},
		{"0 0 29 2 mon-sun", "Pacific/Apia", "", ""},
		{"in from in", "", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3], int64(1_772_900_000_000_000))
	}
	f.Fuzz(func(t *testing.T, repeat, zone, count, missed string, asked int64) {
		at := time.UnixMicro(asked).UTC()
		if at.Year() < 1 || at.Year() > 9990 {
			return
		}
		s, err := calendar.New(calendar.Words{Repeat: repeat, Zone: zone, Count: count, Missed: missed, Asked: at})
		if err != nil {
			if err.Error() == "" || s != nil {
				t.Errorf("%q is %v and wrong, without a sentence", repeat, s)
			}
			return
		}
		if again, err := calendar.Parse(s.String()); err != nil || *again != *s {
			t.Errorf("%s is read as %v, %v", s, again, err)
		}
		due := s.First()
		if due.At.Before(at) {
			t.Errorf("%s begins before it was asked for, at %v", s, at)
		}
		for range 3 {
			next, found := s.Following(due)
			if found && !next.At.After(due.At) {
				t.Errorf("%s: after %v comes %v", s, due, next)
			}
			if !found {
				return
			}
			due = next
		}
		now := due.At.AddDate(1, 0, 0)
		v := s.Judge(due, now, calendar.Tolerance, 0)
		if v.Action == calendar.PassOver && s.Missed() == calendar.MissedOne {
			if next, found := s.Next(v.Next.At); v.Next.At.After(now) || found && count == "" && !next.After(now) {
				t.Errorf("%s: at %v the latest is %v, and %v comes next", s, now, v.Next.At, next)
			}
		}
	})
}

// FuzzParse asks that a store's text never does worse than be refused.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"every 1m30s from 2030-01-01T00:00:00.5Z missed one",
		"0 0 * * * in UTC from 2030-01-01T00:00:00Z until 2031-01-01T00:00:00Z count 7 missed skip",
		" from ", "every 1s from 2030-01-01T00:00:00Z count", " in  from  ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := calendar.Parse(text)
		if err != nil {
			return
		}
		if again, err := calendar.Parse(s.String()); err != nil || *again != *s {
			t.Errorf("%q is %v, and that is %v, %v", text, s, again, err)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ rule, zone string }{
		{"every 20s", ""},
		{"* * * * * *", ""},
		{"30 9 * * mon-fri", ""},
		{"30 9 * * mon-fri", "America/New_York"},
		{"30 * * * *", "America/New_York"},
		{"0 9 29 2 *", "America/New_York"},
	} {
		b.Run(c.rule+" "+c.zone, func(b *testing.B) {
			first := instant(b, "2030-01-01T00:00:00Z")
			s := series(b, calendar.Words{Repeat: c.rule, Zone: c.zone, First: first})
			at := first
			for b.Loop() {
				var found bool
				if at, found = s.Next(at); !found {
					at = first
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	text := "30 9 * * mon-fri in America/New_York from 2030-01-01T00:00:00Z missed one"
	for b.Loop() {
		if _, err := calendar.Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkJudge is the price of an outage.
func BenchmarkJudge(b *testing.B) {
	for _, years := range []int{0, 1, 100} {
		for _, rule := range []string{"every 1s", "* * * * * *", "*/20 1-3 * * mon-fri"} {
			b.Run(fmt.Sprintf("%s/%d years", rule, years), func(b *testing.B) {
				w := calendar.Words{Repeat: rule, First: instant(b, "2030-01-01T00:00:00Z")}
				if rule[0] != 'e' {
					w.Zone = "America/New_York"
				}
				s := series(b, w)
				now := w.First.AddDate(years, 0, 1)
				for b.Loop() {
					s.Judge(s.First(), now, calendar.Tolerance, 0)
				}
			})
		}
	}
}
