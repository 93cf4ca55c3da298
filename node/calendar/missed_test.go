package calendar_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/node/calendar"
)

// TestJudge has the verdicts over an outage, with numbers that can be counted by hand.
func TestJudge(t *testing.T) {
	for _, c := range table(t, "testdata/judged.txt", 7) {
		sequence, err := strconv.ParseInt(c[3], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		s := series(t, calendar.Words{
			Repeat: c[0], Count: strings.Trim(c[1], "-"), Missed: c[2], First: instant(t, "2030-01-01T00:00:00Z"),
		})
		due := calendar.Occurrence{Sequence: sequence, At: instant(t, c[4])}
		if got := shown(s.Judge(due, instant(t, c[5]), calendar.Tolerance, 0)); got != c[6] {
			t.Errorf("%s: got %s", strings.Join(c, " | "), got)
		}
	}
}

// TestJudgeUntil asks that what would come after the end of a series was not missed.
func TestJudgeUntil(t *testing.T) {
	first := instant(t, "2030-01-01T00:00:00Z")
	for _, repeat := range []string{"every 1h", "@hourly"} {
		for policy, want := range map[string]string{
			"one": "pass_over 2 to 3 at 2030-01-01T02:00:00Z", "skip": "end 3", "all": "publish",
		} {
			until := first.Add(2 * time.Hour)
			s := series(t, calendar.Words{Repeat: repeat, First: first, Missed: policy, Until: until})
			if got := shown(s.Judge(s.First(), first.Add(30*time.Hour), calendar.Tolerance, 0)); got != want {
				t.Errorf("%s, %s: got %s, want %s", repeat, policy, got, want)
			}
		}
	}
}

// shown is a verdict as the tables and the documentation have it.
func shown(v calendar.Verdict) string {
	switch v.Action {
	case calendar.Publish:
	case calendar.PassOver:
		return fmt.Sprintf("%s %d to %d at %s", v.Action, v.Passed, v.Next.Sequence, v.Next.At.Format(time.RFC3339))
	case calendar.End:
		return fmt.Sprintf("%s %d", v.Action, v.Passed)
	}
	return string(v.Action)
}

// draw makes a series of one of the rules, in some zone, with an end or without.
func draw(t *rapid.T) (*calendar.Series, time.Time) {
	// Around changes of clocks in New York and Santiago.
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	asked := start.Add(time.Duration(rapid.Int64Range(0, 400*86400e6).Draw(t, "asked")) * time.Microsecond)
	w := calendar.Words{
		Asked: asked,
		Repeat: rapid.SampledFrom([]string{
			"every 1s", "every 7m", "every 36h", "every 1.000001s", "* * * * * *", "*/7 30 * * * *", "30 * * * *",
			"*/20 0-3 * * *", "0 0 * * *", "30 1,2 * * sun", "0 9 1,L * fri", "0 0 29 2 *", "15 2 LW * *",
			"0 */5 * * *",
		}).Draw(t, "repeat"),
		Missed: rapid.SampledFrom([]string{"one", "all", "skip"}).Draw(t, "missed"),
		Count:  rapid.SampledFrom([]string{"", "1", "2", "30", "100000"}).Draw(t, "count"),
	}
	if w.Repeat[0] != 'e' {
		w.Zone = rapid.SampledFrom([]string{
			"", "America/New_York", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca", "Asia/Kathmandu",
		}).Draw(t, "zone")
	}
	if rapid.Bool().Draw(t, "deadline") {
		w.First = asked.Add(time.Duration(rapid.Int64Range(0, 86400e6).Draw(t, "first")) * time.Microsecond)
	}
	if rapid.Bool().Draw(t, "until") {
		w.Until = asked.Add(time.Duration(rapid.Int64Range(0, 3*86400e6).Draw(t, "end")) * time.Microsecond)
	}
	s, err := calendar.New(w)
	if refused := (&calendar.SeriesError{}); errors.As(err, &refused) && refused.Reason == calendar.UntilBeforeFirst {
		w.Until = time.Time{}
		s, err = calendar.New(w)
	}
	if err != nil {
		t.Fatalf("%+v: %v", w, err)
	}
	return s, asked
}

// TestSeriesKeepsItsWord checks what holds for every series: what is next is later, and nothing lies between; the text
// is the series; a verdict is what going through the occurrences one by one would find.
func TestSeriesKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, asked := draw(t)
		if again, err := calendar.Parse(s.String()); err != nil || *again != *s {
			t.Fatalf("%s is read as %v, %v", s, again, err)
		}
		due := s.First()
		if due.At.Before(asked) || due.Sequence != 1 {
			t.Fatalf("the first is %v, asked for at %v", due, asked)
		}
		for range rapid.IntRange(0, 40).Draw(t, "published") {
			next, found := s.Following(due)
			if !found {
				break
			}
			if !next.At.After(due.At) || next.Sequence != due.Sequence+1 {
				t.Fatalf("after %v comes %v", due, next)
			}
			between := due.At.Add(time.Duration(rapid.Int64Range(0, int64(next.At.Sub(due.At))-1).Draw(t, "between")))
			if again, found := s.Next(between); !found || !again.Equal(next.At) {
				t.Fatalf("after %v comes %v, and after %v, %v", due.At, next.At, between, again)
			}
			due = next
		}
		tolerance := time.Duration(rapid.Int64Range(0, 120e9).Draw(t, "tolerance"))
		now := due.At.Add(time.Duration(rapid.Int64Range(-1e9, 2000e9).Draw(t, "late")))
		if rapid.Bool().Draw(t, "long") {
			now = due.At.Add(time.Duration(rapid.Int64Range(0, 3*86400e9).Draw(t, "later")))
		}
		most := rapid.Int64Range(0, 5).Draw(t, "most")
		if got, want := s.Judge(due, now, tolerance, most), walk(s, due, now, tolerance, most); got != want {
			t.Fatalf("%s: %v at %v is judged %v, want %v", s, due, now, got, want)
		}
	})
}

// walk is Judge, one occurrence after the other.
func walk(
	s *calendar.Series, due calendar.Occurrence, now time.Time, tolerance time.Duration, most int64,
) calendar.Verdict {
	missed := func(o calendar.Occurrence) bool { return now.Sub(o.At) > tolerance }
	if !missed(due) {
		return calendar.Verdict{Action: calendar.Publish}
	}
	if s.Missed() == calendar.MissedAll {
		left := []calendar.Occurrence{due} // which are due
		for o, more := s.Following(due); more && !o.At.After(now); o, more = s.Following(o) {
			left = append(left, o)
		}
		if most == 0 || int64(len(left)) <= most {
			return calendar.Verdict{Action: calendar.Publish}
		}
		over := int64(len(left)) - most
		return calendar.Verdict{Action: calendar.PassOver, Passed: over, Next: left[over]}
	}
	latest := due
	next, more := s.Following(due)
	for more && !next.At.After(now) {
		latest = next
		next, more = s.Following(latest)
	}
	passed := latest.Sequence - due.Sequence
	switch {
	case s.Missed() == calendar.MissedOne && passed == 0:
		return calendar.Verdict{Action: calendar.Publish}
	case s.Missed() == calendar.MissedOne || !missed(latest):
		return calendar.Verdict{Action: calendar.PassOver, Passed: passed, Next: latest}
	case more:
		return calendar.Verdict{Action: calendar.PassOver, Passed: passed + 1, Next: next}
	}
	return calendar.Verdict{Action: calendar.End, Passed: passed + 1}
}

// TestNoDrift asks that the n-th occurrence of an interval is where arithmetic puts it, however late each was seen.
func TestNoDrift(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		every := time.Duration(rapid.Int64Range(1e6, 100*86400e6).Draw(t, "every")) * time.Microsecond
		first := time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, "first")).UTC()
		s, err := calendar.New(calendar.Words{Repeat: "every " + every.String(), First: first})
		if err != nil {
			t.Fatal(err)
		}
		at := first
		for n := range rapid.IntRange(1, 50).Draw(t, "n") {
			late := time.Duration(rapid.Int64Range(0, int64(every)-1).Draw(t, "late"))
			at, _ = s.Next(at.Add(late))
			if want := first.Add(time.Duration(n+1) * every); !at.Equal(want) {
				t.Fatalf("%s: the occurrence %d is at %v, want %v", s, n+2, at, want)
			}
		}
	})
}

// TestJudgingMakesProgress asks that the shortest interval comes out under every policy although storing and claiming
// take almost half the tolerance each time: passing over must not go on forever.
func TestJudgingMakesProgress(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := draw(t)
		due := s.First()
		now := due.At.Add(time.Duration(rapid.Int64Range(0, 86400e9).Draw(t, "late")))
		for range 3 {
			verdict := s.Judge(due, now, calendar.Tolerance, 0)
			if verdict.Action != calendar.PassOver {
				return
			}
			due = verdict.Next
			turn := time.Duration(rapid.Int64Range(0, int64(calendar.Tolerance/2)-1).Draw(t, "turn"))
			if now = now.Add(turn); now.Before(due.At) {
				now = due.At.Add(turn)
			}
		}
		t.Fatalf("%s: %v is not published at %v either", s, due, now)
	})
}

// TestJudgingCostsTheOutage asks that a series which has ended long ago, by its count, costs about as much to judge as
// one that goes on: a deadline of 1970 is what comes of an application that has forgotten to set it, and hundreds of
// such series in one batch must not keep the others from being published in time.
func TestJudgingCostsTheOutage(t *testing.T) {
	first, now := instant(t, "0001-01-01T00:00:00Z"), instant(t, "2030-01-01T00:00:00Z")
	cost := func(count string) time.Duration {
		s := series(t, calendar.Words{Repeat: "* * * * *", Zone: "Europe/Berlin", Count: count, First: first})
		least := time.Hour
		for range 3 {
			began := time.Now()
			s.Judge(s.First(), now, calendar.Tolerance, 0)
			least = min(least, time.Since(began))
		}
		return least
	}
	if endless, ended := cost(""), cost("5"); ended > 20*endless {
		t.Errorf("it costs %v to judge a series that has ended, and %v to judge one that goes on", ended, endless)
	}
}

// TestJudgeMost asks that of all that were missed the latest come out, as many as may, whoever is asked first.
func TestJudgeMost(t *testing.T) {
	first := instant(t, "2030-01-01T00:00:00Z")
	for _, repeat := range []string{"every 1h", "@hourly"} {
		for _, c := range []struct {
			most, due int64
			want      string
		}{
			{0, 1, "publish"},
			{31, 1, "publish"},
			{30, 1, "pass_over 1 to 2 at 2030-01-01T01:00:00Z"},
			{1, 1, "pass_over 30 to 31 at 2030-01-02T06:00:00Z"},
			{5, 27, "publish"},
			{5, 26, "pass_over 1 to 27 at 2030-01-02T02:00:00Z"},
		} {
			s := series(t, calendar.Words{Repeat: repeat, First: first, Missed: "all"})
			due := calendar.Occurrence{Sequence: c.due, At: first.Add(time.Duration(c.due-1) * time.Hour)}
			now := first.Add(30*time.Hour + 2*time.Minute)
			if got := shown(s.Judge(due, now, calendar.Tolerance, c.most)); got != c.want {
				t.Errorf("%s, %d of %d: got %s, want %s", repeat, c.most, c.due, got, c.want)
			}
		}
	}
}
