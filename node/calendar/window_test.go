package calendar_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/node/calendar"
)

// asked is when windows of tests are asked for: a Tuesday at noon.
var asked = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// window makes a window that is known to be right.
func window(t testing.TB, text string) *calendar.Window {
	t.Helper()
	w, err := calendar.ParseWindow(text, asked)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w
}

// on is a predicate about the day that a clock shows, and hours one about the day and the minute of it. Written like
// this, by hand, they say what a sentence means without any of the package's code.
type on func(d time.Time) bool

// between opens from a minute of the days on and before another, which may be of the days after.
func (is on) between(from, to int) func(w time.Time) bool {
	return func(w time.Time) bool {
		for back := 0; back*1440 < to; back++ {
			minute := w.Hour()*60 + w.Minute() + back*1440
			if from <= minute && minute < to && is(w.AddDate(0, 0, -back)) {
				return true
			}
		}
		return false
	}
}

func anyDay(time.Time) bool     { return true }
func weekdays(d time.Time) bool { return 1 <= d.Weekday() && d.Weekday() <= 5 }
func weekends(d time.Time) bool { return !weekdays(d) }

func weekday(days ...time.Weekday) on {
	return func(d time.Time) bool { return slices.Contains(days, d.Weekday()) }
}

func dayOfMonth(day int) on { return func(d time.Time) bool { return d.Day() == day } }

func dayOfYear(day int, month time.Month) on {
	return func(d time.Time) bool { return d.Day() == day && d.Month() == month }
}

func date(year int, month time.Month, day int) on {
	return func(d time.Time) bool { return d.Year() == year && d.Month() == month && d.Day() == day }
}

func lastDay(d time.Time) bool { return d.AddDate(0, 0, 1).Day() == 1 }

type when = func(w time.Time) bool

func either(some ...when) when {
	return func(w time.Time) bool { return slices.ContainsFunc(some, func(one when) bool { return one(w) }) }
}

func except(base, exception when) when {
	return func(w time.Time) bool { return base(w) && !exception(w) }
}

func whole(is on) when { return is.between(0, 1440) }

var open when = func(time.Time) bool { return true }

// at is a time of the day.
const (
	am = 60
	pm = 60
)

// saying is a window in words, what is understood, and what it means.
type saying struct {
	text, normal string
	means        when
}

// seedSentences are the ten of horae's own README, and those that its tests accept.
var seedSentences = []saying{
	{"Always", "always", open},
	{
		"Always on except 2 - 4am every Sunday", "always except 02:00 to 04:00 every sunday in UTC",
		except(open, weekday(0).between(2*am, 4*am)),
	},
	{"Never", "never", except(open, open)},
	{"4.34am - 17:00 every day", "04:34 to 17:00 every day in UTC", on(anyDay).between(4*am+34, 17*60)},
	{"1am to 11pm every thursday", "01:00 to 23:00 every thursday in UTC", weekday(4).between(1*am, 23*60)},
	{
		"1am to 2am every 1st of the month", "01:00 to 02:00 on the 1st of the month in UTC",
		dayOfMonth(1).between(1*am, 2*am),
	},
	{
		"4am to 6am every 01/01 yearly", "04:00 to 06:00 every 1 january in UTC",
		dayOfYear(1, time.January).between(4*am, 6*am),
	},
	{
		"10pm to 4am every saturday where timezone = GMT", "22:00 to 04:00 every saturday in GMT",
		weekday(6).between(22*60, 28*60),
	},
	{"2am - 4am every saturday", "02:00 to 04:00 every saturday in UTC", weekday(6).between(2*am, 4*am)},
	{
		"Always on except 00:00 - 11:59 on Saturday", "always except 00:00 to 11:59 on 5 january 2030 in UTC",
		except(open, date(2030, time.January, 5).between(0, 11*60+59)),
	},
	{"2pm to 4pm every day", "14:00 to 16:00 every day in UTC", on(anyDay).between(14*60, 16*60)},
	{"10pm - 1am every weekday", "22:00 to 01:00 every weekday in UTC", on(weekdays).between(22*60, 25*60)},
	{
		"4pm - 4:30 every 1st of January", "16:00 to 16:30 every 1 january in UTC",
		dayOfYear(1, time.January).between(16*60, 16*60+30),
	},
	{
		"10:01 to 11:00 on 1st of the month", "10:01 to 11:00 on the 1st of the month in UTC",
		dayOfMonth(1).between(10*60+1, 11*60),
	},
	{
		"00:00 to 1:00 every 13th of the month", "00:00 to 01:00 on the 13th of the month in UTC",
		dayOfMonth(13).between(0, 60),
	},
	{
		"any time except 5pm to 6pm every weekend", "always except 17:00 to 18:00 every saturday and sunday in UTC",
		except(open, on(weekends).between(17*60, 18*60)),
	},
	{
		"2am - 4am on 06/03/2015", "02:00 to 04:00 on 6 march 2015 in UTC",
		date(2015, time.March, 6).between(2*am, 4*am),
	},
	{
		"2:00 to 4:00 every weekday where timezone = GMT", "02:00 to 04:00 every weekday in GMT",
		on(weekdays).between(2*am, 4*am),
	},
}

// fortySentences are what people were thought to write when the grammar was made; the first ten are the seed's.
var fortySentences = []saying{
	{"9am to 5pm on weekdays", "09:00 to 17:00 every weekday in UTC", on(weekdays).between(9*am, 17*60)},
	{"09:00-17:00 mon-fri", "09:00 to 17:00 every weekday in UTC", on(weekdays).between(9*am, 17*60)},
	{
		"9-17 Mon, Wed and Fri", "09:00 to 17:00 every monday, wednesday and friday in UTC",
		weekday(1, 3, 5).between(9*am, 17*60),
	},
	{"9am to noon every day", "09:00 to 12:00 every day in UTC", on(anyDay).between(9*am, 12*60)},
	{"noon to midnight every day", "12:00 to 24:00 every day in UTC", on(anyDay).between(12*60, 24*60)},
	{"midnight to 6am daily", "00:00 to 06:00 every day in UTC", on(anyDay).between(0, 6*am)},
	{"12am to 1am every day", "00:00 to 01:00 every day in UTC", on(anyDay).between(0, 1*am)},
	{"12pm to 1pm every day", "12:00 to 13:00 every day in UTC", on(anyDay).between(12*60, 13*60)},
	{"00:00 to 24:00 every monday", "all day every monday in UTC", whole(weekday(1))},
	{"all day every sunday", "all day every sunday in UTC", whole(weekday(0))},
	{"weekends", "all day every saturday and sunday in UTC", whole(weekends)},
	{"monday 9am to friday 5pm", "monday 09:00 to friday 17:00 in UTC", weekday(1).between(9*am, 4*1440+17*60)},
	{
		"2am to 4am on the last day of the month", "02:00 to 04:00 on the last day of the month in UTC",
		on(lastDay).between(2*am, 4*am),
	},
	{
		"2am to 4am every 31st of the month", "02:00 to 04:00 on the 31st of the month in UTC",
		dayOfMonth(31).between(2*am, 4*am),
	},
	{
		"2am to 4am on the first monday of the month", "02:00 to 04:00 on the first monday of the month in UTC",
		on(func(d time.Time) bool { return d.Weekday() == time.Monday && d.Day() <= 7 }).between(2*am, 4*am),
	},
	{
		"2am to 4am on the last friday of the month", "02:00 to 04:00 on the last friday of the month in UTC",
		on(func(d time.Time) bool {
			return d.Weekday() == time.Friday && d.AddDate(0, 0, 7).Month() != d.Month()
		}).between(2*am, 4*am),
	},
	{
		"2am to 4am every 29th of february", "02:00 to 04:00 every 29 february in UTC",
		dayOfYear(29, time.February).between(2*am, 4*am),
	},
	{
		"2am - 4am on 06/03/2030", "02:00 to 04:00 on 6 march 2030 in UTC",
		date(2030, time.March, 6).between(2*am, 4*am),
	},
	{
		"2am - 4am on 2030-03-06", "02:00 to 04:00 on 6 march 2030 in UTC",
		date(2030, time.March, 6).between(2*am, 4*am),
	},
	{
		"from 2030-03-06 22:00 to 2030-03-08 06:00", "from 6 march 2030 22:00 to 8 march 2030 06:00 in UTC",
		date(2030, time.March, 6).between(22*60, 2*1440+6*am),
	},
	{
		"9am to 5pm every weekday except 25 december", "09:00 to 17:00 every weekday except every 25 december in UTC",
		except(on(weekdays).between(9*am, 17*60), whole(dayOfYear(25, time.December))),
	},
	{
		"9am to 5pm every weekday except noon to 1pm", "09:00 to 17:00 every weekday except 12:00 to 13:00 in UTC",
		except(on(weekdays).between(9*am, 17*60), on(anyDay).between(12*60, 13*60)),
	},
	{
		"always except saturdays, sundays and 1 january",
		"always except every saturday and sunday and every 1 january in UTC",
		except(open, either(whole(weekends), whole(dayOfYear(1, time.January)))),
	},
	{
		"9am to 5pm weekdays and 10am to 2pm saturdays",
		"09:00 to 17:00 every weekday; 10:00 to 14:00 every saturday in UTC",
		either(on(weekdays).between(9*am, 17*60), weekday(6).between(10*am, 14*60)),
	},
	{
		"9am to 5pm every weekday in Europe/London", "09:00 to 17:00 every weekday in Europe/London",
		on(weekdays).between(9*am, 17*60),
	},
	{
		"22:00-06:00 every day in America/New_York", "22:00 to 06:00 every day in America/New_York",
		on(anyDay).between(22*60, 30*60),
	},
	{
		"weekdays outside 9am to 5pm", "00:00 to 09:00 and 17:00 to 24:00 every weekday in UTC",
		either(on(weekdays).between(0, 9*am), on(weekdays).between(17*60, 24*60)),
	},
	{
		"every 2nd saturday from 2030-01-05, 1am to 5am",
		"01:00 to 05:00 every 2nd saturday from 5 january 2030 in UTC",
		on(func(d time.Time) bool {
			since := int(d.Truncate(24*time.Hour).Sub(time.Date(2030, 1, 5, 0, 0, 0, 0, time.UTC)) / (24 * time.Hour))
			return since >= 0 && since%14 == 0
		}).between(1*am, 5*am),
	},
	{
		"9am to 5pm every day in march and april", "09:00 to 17:00 every day in march and april in UTC",
		on(func(d time.Time) bool { return d.Month() == time.March || d.Month() == time.April }).between(9*am, 17*60),
	},
}

// moreSentences are for what the others leave out.
var moreSentences = []saying{
	{
		"always except noon to 1pm on weekdays; 2am to 3am on the 3rd of the month; 24 december to 2 january",
		"always except 12:00 to 13:00 every weekday; 02:00 to 03:00 on the 3rd of the month; " +
			"every day from 24 december to 2 january in UTC",
		except(open, either(on(weekdays).between(12*60, 13*60), dayOfMonth(3).between(2*am, 3*am),
			whole(either(
				func(d time.Time) bool { return d.Month() == time.December && d.Day() >= 24 },
				func(d time.Time) bool { return d.Month() == time.January && d.Day() <= 2 },
			)))),
	},
	{
		"every 3rd sunday from 2030-01-05, 1am to 5am",
		"01:00 to 05:00 every 3rd sunday from 5 january 2030 in UTC",
		on(func(d time.Time) bool {
			since := int(d.Truncate(24*time.Hour).Sub(time.Date(2030, 1, 6, 0, 0, 0, 0, time.UTC)) / (24 * time.Hour))
			return since >= 0 && since%21 == 0
		}).between(1*am, 5*am),
	},
	{
		"1am to 5am on the last weekday of the month and on the second tuesday of march",
		"01:00 to 05:00 on the last weekday of the month and on the second tuesday of march in UTC",
		on(either(
			func(d time.Time) bool {
				left := d.AddDate(0, 1, -d.Day()).Day() - d.Day() // days of the month after this one
				return weekdays(d) && (left == 0 || d.Weekday() == time.Friday && left <= 2)
			},
			func(d time.Time) bool {
				return d.Month() == time.March && d.Weekday() == time.Tuesday && 8 <= d.Day() && d.Day() <= 14
			},
		)).between(1*am, 5*am),
	},
}

func sentences() []saying { return slices.Concat(seedSentences, fortySentences, moreSentences) }

// wallOf returns what a zone's clock shows, as a time in UTC.
func wallOf(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.UTC().Add(time.Duration(offset) * time.Second)
}

// TestSentences asks for the normal form of each sentence, and that it means what was written by hand: for thirteen
// months, looked at every 29 minutes, and every minute of some days, and at all its changes.
func TestSentences(t *testing.T) {
	from, to := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2031, 2, 1, 0, 0, 0, 0, time.UTC)
	if len(seedSentences) < 10 || len(seedSentences)+len(fortySentences) < 40+7 {
		t.Error("there are sentences missing")
	}
	for _, s := range sentences() {
		t.Run(s.text, func(t *testing.T) {
			w := window(t, s.text)
			if got := w.String(); got != s.normal {
				t.Errorf("it is understood as %q, want %q", got, s.normal)
			}
			again, err := calendar.ParseWindow(s.normal, time.Time{})
			if err != nil || again.String() != s.normal {
				t.Errorf("its normal form is read as %v (%v)", again, err)
			}
			changes := 0
			next, more := w.Next(from)
			last := w.Open(from)
			var step time.Duration
			for at := from; at.Before(to); at = at.Add(step) {
				if step = 29 * time.Minute; at.YearDay()%61 == 5 {
					step = time.Minute
				}
				for more && !next.After(at) { // What happens in between is as it is by hand, just before and after.
					changes, last = changes+1, !last
					before := s.means(wallOf(next.Add(-time.Second), w.Zone()))
					if s.means(wallOf(next, w.Zone())) != last || before == last {
						t.Fatalf("at %v it does not change to %t", next, last)
					}
					next, more = w.Next(next)
				}
				want := s.means(wallOf(at, w.Zone()))
				if got := w.Open(at); got != want || last != want {
					t.Fatalf("at %v: open is %t, by its changes %t, want %t", at, got, last, want)
				}
			}
			if lapsed := strings.Contains(s.text, "2015") || strings.Contains(s.text, "29th"); changes == 0 &&
				!lapsed && !w.Always() && !w.Never() {
				t.Error("it never changed")
			}
		})
	}
}

// TestWindowTable reads testdata/windows.txt: other ways to say things, and their normal form.
func TestWindowTable(t *testing.T) {
	rows := table(t, "testdata/windows.txt", 2)
	if len(rows) < 60 {
		t.Errorf("there are %d rows only", len(rows))
	}
	for _, row := range rows {
		w, err := calendar.ParseWindow(row[0], asked)
		if err != nil {
			t.Errorf("%s: %v", row[0], err)
			continue
		}
		if got := w.String(); got != row[1] {
			t.Errorf("%s: it is understood as\n%s, want\n%s", row[0], got, row[1])
		}
		again, err := calendar.ParseWindow(w.String(), time.Time{})
		if err != nil || again.String() != w.String() {
			t.Errorf("%s: its normal form is read as %v (%v)", row[0], again, err)
		}
	}
}

// TestRefusedWindows reads testdata/nowindows.txt: what is refused, where, and the sentence for it.
func TestRefusedWindows(t *testing.T) {
	rows := table(t, "testdata/nowindows.txt", 3)
	if len(rows) < 50 {
		t.Errorf("there are %d rows only", len(rows))
	}
	for _, row := range rows {
		text := row[0]
		if text == "-" {
			text = ""
		}
		_, err := calendar.ParseWindow(text, time.Time{})
		var no *calendar.WindowError
		if !errors.As(err, &no) {
			t.Errorf("%s: it is accepted", row[0])
			continue
		}
		if string(no.Reason) != row[1] || no.Error() != row[2] {
			t.Errorf("%s: got\n%s | %s, want\n%s | %s", row[0], no.Reason, no, row[1], row[2])
		}
		if no.At > 0 && !strings.HasPrefix(string([]rune(text)[no.At-1:]), no.Text) {
			t.Errorf("%s: at character %d there is no %q", row[0], no.At, no.Text)
		}
	}
	for _, text := range []string{strings.Repeat("x", calendar.MaxWindowBytes+1), "9am to 5pm every \xff"} {
		if w, err := calendar.ParseWindow(text, asked); err == nil {
			t.Errorf("%.30q is read as %v", text, w)
		}
	}
}

// TestPageOfWindows asks that the reasons are explained to users.
func TestPageOfWindows(t *testing.T) {
	page, err := os.ReadFile("../../docs/WINDOWS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range []calendar.Reason{calendar.InvalidWindow, calendar.UnknownZone, calendar.WindowNever} {
		if !strings.Contains(string(page), "`"+string(reason)+"`") {
			t.Errorf("docs/WINDOWS.md doesn't explain %s", reason)
		}
	}
}

// TestComing asks which day "on saturday" is: the one that is now, as long as the hours are not over.
func TestComing(t *testing.T) {
	for _, c := range []struct{ asked, text, want string }{
		{"2030-01-04 10:00", "2am to 4am on saturday", "02:00 to 04:00 on 5 january 2030 in UTC"},
		{"2030-01-05 03:59", "2am to 4am on saturday", "02:00 to 04:00 on 5 january 2030 in UTC"},
		{"2030-01-05 04:00", "2am to 4am on saturday", "02:00 to 04:00 on 12 january 2030 in UTC"},
		{"2030-01-05 23:00", "10pm to 4am on saturday", "22:00 to 04:00 on 5 january 2030 in UTC"},
		{"2030-01-05 23:00", "10pm to 4am on saturdays", "22:00 to 04:00 every saturday in UTC"},
		{"2030-01-04 12:00", "all day on saturday in Asia/Tokyo", "all day on 5 january 2030 in Asia/Tokyo"},
		{"2030-01-05 15:00", "all day on saturday in Asia/Tokyo", "all day on 12 january 2030 in Asia/Tokyo"},
		{"2030-01-04 12:00", "always except on saturday", "always except on 5 january 2030 in UTC"},
	} {
		w, err := calendar.ParseWindow(c.text, at(c.asked))
		if err != nil || w.String() != c.want {
			t.Errorf("%s at %s is %v (%v), want %s", c.text, c.asked, w, err, c.want)
		}
	}
}

// TestOpenings asks for openings in order, the first of which may have begun, and the last of which may have no end.
func TestOpenings(t *testing.T) {
	for _, c := range []struct{ text, from, want string }{
		{"9am to 5pm weekdays", "2030-01-04 10:00", "01-04 10:00 01-04 17:00, 01-07 09:00 01-07 17:00, 01-08 09:00"},
		{"always", "2030-01-04 10:00", "01-04 10:00 -"},
		{"never", "2030-01-04 10:00", ""},
		{"always except 2030-01-06", "2030-01-04 10:00", "01-04 10:00 01-06 00:00, 01-07 00:00 -"},
		{"1am to 2am on 2030-01-03", "2030-01-04 10:00", ""},
		{"1am to 2am on 2030-01-06", "2030-01-04 10:00", "01-06 01:00 01-06 02:00"},
		{"all day every day in january", "2030-02-04 10:00", "01-01 00:00 02-01 00:00, 01-01 00:00"},
	} {
		var got []string
		for o := range window(t, c.text).Openings(at(c.from)) {
			text := o.Start.Format("01-02 15:04 ") + o.End.Format("01-02 15:04")
			if o.End.IsZero() {
				text = o.Start.Format("01-02 15:04 -")
			}
			if got = append(got, text); len(got) == 3 {
				break
			}
		}
		if text := strings.Join(got, ", "); c.want == "" && text != "" || !strings.HasPrefix(text, c.want) {
			t.Errorf("%s from %s: got %s, want %s", c.text, c.from, text, c.want)
		}
	}
}

// TestAlwaysAndNever asks that a window which never closes says so, however it is put.
func TestAlwaysAndNever(t *testing.T) {
	for text, want := range map[string][2]bool{
		"always":                                {true, false},
		"never":                                 {false, true},
		"24/7":                                  {true, false},
		"all day":                               {true, false},
		"all day weekdays and all day weekends": {true, false},
		"9am to 5pm every day; 5pm to 9am every day":                              {true, false},
		"always except on 2030-01-06":                                             {false, false},
		"all day every day in january to november":                                {false, false},
		"9am to 5pm every day":                                                    {false, false},
		"all day on the 1st of the month; 1am to 2am every day":                   {false, false},
		"always except 1am to 2am on 29 february":                                 {false, false},
		"all day every 2nd day from 2030-01-05 and from 2030-01-06 to 2030-01-07": {false, false},
	} {
		w := window(t, text)
		if got := [2]bool{w.Always(), w.Never()}; got != want {
			t.Errorf("%s: always and never are %v, want %v", text, got, want)
		}
		_, changes := w.Next(asked)
		if settled := want[0] || want[1]; settled && changes || w.Open(asked) && want[1] {
			t.Errorf("%s changes, or is open", text)
		}
	}
}

// TestWindowNotes asks for what is told to who may have meant something else.
func TestWindowNotes(t *testing.T) {
	for text, want := range map[string]string{
		"always": "",
		"always except 00:00 - 11:59 on saturdays":        "leave the hours out",
		"9am to 23:59 every day":                          "for all of the hour write 24:00",
		"9am to 5:59pm every day":                         "for all of the hour write 18:00",
		"1am to 2am every 31st of the month":              "Not every month has a 31st",
		"1am to 2am every 29th of february":               "",
		"1am to 2am on the 31st of may and june":          "Not every month has a 31st",
		"all day every weekday and every weekend":         "",
		"midnight to noon and noon to midnight every day": "It is always open.",
	} {
		if got := strings.Join(window(t, text).Notes(), " "); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: the notes are %q, want %q in them", text, got, want)
		}
	}
}

// TestFarInstants asks at instants that no calendar has: nothing breaks, and nothing opens.
func TestFarInstants(t *testing.T) {
	w := window(t, "9am to 5pm every weekday in Europe/London")
	for _, at := range []time.Time{
		{}, time.Unix(-1<<62, 0), time.Unix(1<<62, 0), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
	} {
		w.Open(at)
		w.Next(at)
	}
	if next, found := w.Next(time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)); found {
		t.Errorf("after the end of the calendar there is %v", next)
	}
}
