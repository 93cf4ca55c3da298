package calendar_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"chronos/node/calendar"
)

// instant reads an instant that a test has written.
func instant(t testing.TB, text string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// series makes a series that a test has written right.
func series(t testing.TB, w calendar.Words) *calendar.Series {
	t.Helper()
	s, err := calendar.New(w)
	if err != nil {
		t.Fatalf("%+v: %v", w, err)
	}
	return s
}

// TestSeriesYields has what comes after an instant, for each thing that a rule can say and for what other libraries
// get wrong about the changes of clocks.
func TestSeriesYields(t *testing.T) {
	for _, c := range table(t, "testdata/yields.txt", 4) {
		rule, zone, asked, want := c[0], strings.Trim(c[1], "-"), c[2], c[3]
		s := series(t, calendar.Words{Repeat: rule, Zone: zone, Asked: instant(t, asked)})
		o := s.First()
		for i, text := range strings.Fields(want) {
			if want := (calendar.Occurrence{Sequence: int64(i + 1), At: instant(t, text)}); o != want {
				t.Errorf("%s in %s from %s: got %v, want %v", rule, zone, asked, o, want)
				break
			}
			o, _ = s.Following(o)
		}
	}
}

// table reads lines of columns between bars; what begins with # is a comment, and so is what stands in further columns.
func table(t testing.TB, file string, columns int) [][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		row := strings.Split(line, " | ")
		if len(row) < columns {
			t.Fatalf("%s: %q has %d columns, want %d", file, line, len(row), columns)
		}
		rows = append(rows, row)
	}
	return rows
}

// TestFirstOccurrence asks that the deadline is the first occurrence even if the rule does not match it, and that
// intervals count from it.
func TestFirstOccurrence(t *testing.T) {
	first := instant(t, "2030-01-01T10:10:10.5Z")
	for rule, want := range map[string]string{
		"0 * * * *": "2030-01-01T11:00:00Z",
		"every 1h":  "2030-01-01T11:10:10.5Z",
	} {
		s := series(t, calendar.Words{Repeat: rule, First: first, Asked: instant(t, "2020-01-01T00:00:00Z")})
		if o := s.First(); o != (calendar.Occurrence{Sequence: 1, At: first}) {
			t.Errorf("%s begins with %v", rule, o)
		}
		if next, found := s.Next(first); !found || !next.Equal(instant(t, want)) {
			t.Errorf("%s: the second is at %v, %v; want %s", rule, next, found, want)
		}
		for _, before := range []time.Duration{time.Hour, time.Minute, time.Microsecond} {
			if next, found := s.Next(first.Add(-before)); !found || !next.Equal(first) {
				t.Errorf("%s: %v before the first comes %v, %v", rule, before, next, found)
			}
		}
	}
	s := series(t, calendar.Words{Repeat: "every 1h", First: first.Add(1)})
	if o := s.First(); !o.At.Equal(first.Add(time.Microsecond)) {
		t.Errorf("a first occurrence that is finer than a microsecond is at %v", o.At)
	}
}

// TestEnds has each way in which a series ends.
func TestEnds(t *testing.T) {
	first := instant(t, "2030-01-01T00:00:00Z")
	for _, c := range []struct {
		name  string
		words calendar.Words
		want  int64
	}{
		{"by count", calendar.Words{Repeat: "every 1h", Count: "3"}, 3},
		{"after one", calendar.Words{Repeat: "every 1h", Count: "1"}, 1},
		{"by an instant", calendar.Words{Repeat: "every 1h", Until: first.Add(150 * time.Minute)}, 3},
		{"at the last", calendar.Words{Repeat: "every 1h", Until: first.Add(2 * time.Hour)}, 3}, // until includes
		{"just before", calendar.Words{Repeat: "every 1h", Until: first.Add(2*time.Hour - 1)}, 2},
		{"at the first", calendar.Words{Repeat: "every 1h", Until: first}, 1},
		{"by the earlier", calendar.Words{Repeat: "@hourly", Count: "5", Until: first.Add(2 * time.Hour)}, 3},
		{"by the other", calendar.Words{Repeat: "@hourly", Count: "2", Until: first.Add(2 * time.Hour)}, 2},
		{"with the calendar", calendar.Words{Repeat: "@yearly"}, 7970},
		{"beyond it", calendar.Words{Repeat: "every 876000h", Until: first.AddDate(9000, 0, 0)}, 80},
		{"with it, by steps", calendar.Words{Repeat: "every 876000h"}, 80}, // a hundred years, more or less
	} {
		c.words.First = first
		s := series(t, c.words)
		o, more, n := s.First(), true, int64(0)
		for ; more; o, more = s.Following(o) {
			n++
		}
		if n != c.want {
			t.Errorf("%s: %d occurrences, want %d", c.name, n, c.want)
		}
	}
}

// TestRejections pins reason, part and sentence of all that is no series.
func TestRejections(t *testing.T) {
	for _, c := range table(t, "testdata/rejected.txt", 5) {
		words := calendar.Words{Repeat: strings.Trim(c[0], "-"), Asked: instant(t, "2030-01-01T00:00:00Z")}
		for word := range strings.FieldsSeq(strings.Trim(c[1], "-")) {
			switch name, value, _ := strings.Cut(word, "="); name {
			case "zone":
				words.Zone = value
			case "count":
				words.Count = value
			case "missed":
				words.Missed = value
			case "asked":
				words.Asked = instant(t, value)
			case "first":
				words.First = instant(t, value)
			case "until":
				words.Until = instant(t, value)
			default:
				t.Fatalf("%q is no word", word)
			}
		}
		reject(t, words, calendar.SeriesError{
			Reason: calendar.Reason(c[2]), Part: calendar.Part(c[3]), Why: c[4],
		})
	}
	reject(t, calendar.Words{Repeat: strings.Repeat("1,", 200) + "1 * * * *"}, calendar.SeriesError{
		Reason: calendar.InvalidRepeat, Part: calendar.PartRepeat, Why: "it has 409 bytes, more than 256",
	})
}

func reject(t *testing.T, words calendar.Words, want calendar.SeriesError) {
	t.Helper()
	_, err := calendar.New(words)
	got := &calendar.SeriesError{}
	if !errors.As(err, &got) {
		t.Errorf("%+v: %v, want a SeriesError", words, err)
	} else if *got != want || err.Error() != want.Why {
		t.Errorf("%+v is\n%q, want\n%q", words, *got, want)
	}
}

// TestStoredText pins what is written into stores, which must be read for as long as there are any.
func TestStoredText(t *testing.T) {
	first := instant(t, "2030-01-01T00:00:00.5Z")
	for want, words := range map[string]calendar.Words{
		"every 1m30s from 2030-01-01T00:00:00.5Z missed one": {Repeat: "Every PT90S"},
		"every 24h0m0s from 2030-01-01T00:00:00.5Z count 7 missed all": {
			Repeat: "@every  1d", Count: "007", Missed: "all",
		},
		"0 0 * * * in UTC from 2030-01-01T00:00:00.5Z missed one": {Repeat: "@daily"},
		"5 0 9 ? JAN fri#2 in Asia/Tokyo from 2030-01-01T00:00:00.5Z missed skip": {
			Repeat: " 5 0 9 ?  JAN fri#2", Zone: "Asia/Tokyo", Missed: "skip",
		},
		"every 1s from 2030-01-01T00:00:00.5Z until 2031-01-01T00:00:00Z missed one": {
			Repeat: "every 1s", Until: instant(t, "2031-01-01T00:00:00.0000009Z"),
		},
	} {
		words.First = first
		s := series(t, words)
		if got := s.String(); got != want {
			t.Errorf("%+v is stored as\n%s, want\n%s", words, got, want)
		}
		if again, err := calendar.Parse(want); err != nil || *again != *s {
			t.Errorf("%s is read as %v, %v", want, again, err)
		}
	}
	for _, text := range []string{
		"", "every 1s", "every 1s from", "every 1s from now missed one", "every 1s from 2030-01-01T00:00:00Z missed",
		"every 1s from 2030-01-01T00:00:00Z count 0", "every 1s from 2030-01-01T00:00:00Z often yes",
		"every 1s from 2030-01-01T00:00:00Z until soon",
	} {
		if s, err := calendar.Parse(text); err == nil {
			t.Errorf("%q is read as %v", text, s)
		}
	}
}
