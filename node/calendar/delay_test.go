package calendar_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/node/calendar"
)

func TestParseDelay(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		text string
		want time.Duration
		err  error
	}{
		{"0", 0, nil},
		{"1h30m", 90 * time.Minute, nil},
		{"500ms", 500 * time.Millisecond, nil},
		{"1d12h", 36 * time.Hour, nil},
		{"PT5S", 5 * time.Second, nil},
		{"pt5s", 5 * time.Second, nil},
		{"P1DT2H", 26 * time.Hour, nil},
		{"P2W", 14 * day, nil},
		{"P1W2DT3H4M5.678S", 9*day + 3*time.Hour + 4*time.Minute + 5678*time.Millisecond, nil},
		{"PT0S", 0, nil},
		{"PT0.001S", time.Millisecond, nil},
		{"PT0,000000001S", 1, nil},
		{"PT1M", time.Minute, nil},
		{"PT36H", 36 * time.Hour, nil},
		{"PT0.5H", 30 * time.Minute, nil},
		{"P0.5D", 12 * time.Hour, nil},
		{"P106751D", 106751 * day, nil},

		{"40000w", 0, calendar.ErrRange}, // which would be a positive number again
		{"P300000D", 0, calendar.ErrRange},

		{"", 0, calendar.ErrDelayForm},
		{"5", 0, calendar.ErrDelayForm},
		{"soon", 0, calendar.ErrDelayForm},
		{"P", 0, calendar.ErrDelayForm},
		{"PT", 0, calendar.ErrDelayForm},
		{"P1DT", 0, calendar.ErrDelayForm},
		{"P1", 0, calendar.ErrDelayForm},
		{"P1H", 0, calendar.ErrDelayForm},       // hours stand behind T
		{"PT1D", 0, calendar.ErrDelayForm},      // and days before it
		{"PT5S1M", 0, calendar.ErrDelayForm},    // in order
		{"PT1S1S", 0, calendar.ErrDelayForm},    // and once
		{"PT0.5H30M", 0, calendar.ErrDelayForm}, // a fraction comes last
		{"P0.5DT1H", 0, calendar.ErrDelayForm},
		{"PT1.2.3S", 0, calendar.ErrDelayForm},
		{"PT1,2,3S", 0, calendar.ErrDelayForm},
		{"PT.S", 0, calendar.ErrDelayForm},
		{"PTS", 0, calendar.ErrDelayForm},
		{"PT5s ", 0, calendar.ErrDelayForm},
		{"PT-5S", 0, calendar.ErrDelayForm},
		{"+PT5S", 0, calendar.ErrDelayForm},
		{"P0003-06-04", 0, calendar.ErrDelayForm},
		{"PT5\u017f", 0, calendar.ErrDelayForm}, // a long s
		{"PT5\u00b5S", 0, calendar.ErrDelayForm},
		{"-PT5S", 0, calendar.ErrNegative},
		{"-5s", 0, calendar.ErrNegative},
		{"P1Y", 0, calendar.ErrMonths},
		{"P1M", 0, calendar.ErrMonths},
		{"P1Y2M3D", 0, calendar.ErrMonths},
		{"P106752D", 0, calendar.ErrRange},
		{"P106751DT24H", 0, calendar.ErrRange},
		{"PT99999999999999999999S", 0, calendar.ErrRange},
		{"15251w", 0, calendar.ErrRange},
	} {
		if got, err := calendar.ParseDelay(c.text); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q is %v, %v; want %v, %v", c.text, got, err, c.want, c.err)
		}
	}
}

// TestDelaysSayWhy pins the sentences, which stand in dead letters behind the name and the value of the header.
func TestDelaysSayWhy(t *testing.T) {
	for text, want := range map[string]string{
		"soon":  "it must be a time such as 100ms, 1m30s or 1d12h, or PT1M30S of ISO 8601",
		"-5s":   "it must not be negative",
		"P1M":   "months and years have no fixed length: count in days, such as P30D",
		"P999W": "",
		"P9W1Y": "it must be a time such as 100ms, 1m30s or 1d12h, or PT1M30S of ISO 8601",
		"P1e9D": "it must be a time such as 100ms, 1m30s or 1d12h, or PT1M30S of ISO 8601",
	} {
		_, err := calendar.ParseDelay(text)
		if got := sentence(err); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func sentence(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestISOIsExact writes each duration in the form of ISO 8601, to the nanosecond, and reads it again.
func TestISOIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Min(0).Draw(t, "duration"))
		text := fmt.Sprintf("PT%dH%dM%d.%09dS", want/time.Hour, want%time.Hour/time.Minute,
			want%time.Minute/time.Second, want%time.Second)
		if got, err := calendar.ParseDelay(text); err != nil || got != want {
			t.Fatalf("%s is %v, %v; want %v", text, got, err, want)
		}
	})
}

// FuzzParseDelay asks that a delay is never negative and never panics, and that what is read is read again from how Go
// writes it.
func FuzzParseDelay(f *testing.F) {
	for _, seed := range []string{
		"1d12h", "PT5S", "P1DT2H", "P2W", "-PT1S", "P1M", "PT1,5S", "P.D", "PT99999999999H", "+P",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := calendar.ParseDelay(text)
		switch {
		case got < 0:
			t.Errorf("%q is %v", text, got)
		case err != nil && got != 0:
			t.Errorf("%q is %v and wrong", text, got)
		case err == nil:
			if again, err := calendar.ParseDelay(got.String()); err != nil || again != got {
				t.Errorf("%q is %v, and that is %v, %v", text, got, again, err)
			}
		}
	})
}
