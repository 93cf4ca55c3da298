package calendar_test

import (
	"errors"
	"testing"
	"time"

	"chronos/node/calendar"
)

func TestParseDuration(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		text string
		want time.Duration
		err  error
	}{
		{"0", 0, nil},
		{"-0", 0, nil},
		{"0s", 0, nil},
		{"100ms", 100 * time.Millisecond, nil},
		{"1m30s", 90 * time.Second, nil},
		{"36h", 36 * time.Hour, nil},
		{"1d", day, nil},
		{"1w", 7 * day, nil},
		{"1d12h", 36 * time.Hour, nil},
		{"2w3d4h5m6s7ms8us9ns", 17*day + 4*time.Hour + 5*time.Minute + 6*time.Second + 7_008_009, nil},
		{"12h1d", 36 * time.Hour, nil}, // in any order, as Go has it
		{"1.5d", 36 * time.Hour, nil},
		{".5w", 84 * time.Hour, nil},
		{"1.d", day, nil},
		{"+1d", day, nil},
		{"-1d12h", -36 * time.Hour, nil},
		{"1µs", time.Microsecond, nil},
		{"1μs", time.Microsecond, nil},
		{"106751d", 106751 * day, nil},
		{"15250w", 15250 * 7 * day, nil},

		{"", 0, calendar.ErrForm},
		{"-", 0, calendar.ErrForm},
		{"--1d", 0, calendar.ErrForm},
		{"5", 0, calendar.ErrForm},
		{"1d5", 0, calendar.ErrForm},
		{"d", 0, calendar.ErrForm},
		{".d", 0, calendar.ErrForm},
		{"1.2.3d", 0, calendar.ErrForm},
		{"1D", 0, calendar.ErrForm},
		{"1 d", 0, calendar.ErrForm},
		{"1d 12h", 0, calendar.ErrForm},
		{"1d-12h", 0, calendar.ErrForm},
		{"1day", 0, calendar.ErrForm},
		{"1mo", 0, calendar.ErrForm},
		{"1y", 0, calendar.ErrForm},
		{"soon", 0, calendar.ErrForm},
		{"1\x00d", 0, calendar.ErrForm},
		{"106752d", 0, calendar.ErrRange},
		{"15251w", 0, calendar.ErrRange},
		{"99999999999999999999d", 0, calendar.ErrRange},
		{"15250w9999h", 0, calendar.ErrRange},
	} {
		if got, err := calendar.ParseDuration(c.text); got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%q is %v, %v; want %v, %v", c.text, got, err, c.want, c.err)
		}
	}
}

// FuzzParseDuration compares with Go: what Go reads means the same. What is read, is read again from how Go
// writes it.
func FuzzParseDuration(f *testing.F) {
	for _, seed := range []string{"1d12h", "-1.5w", "1h0m0s", "0", "+.5ms", "9999999999h", "1.d", "1µs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := calendar.ParseDuration(text)
		plain, plainErr := time.ParseDuration(text)
		switch {
		case plainErr == nil && plain == -1<<63: // Go has one more on that side.
		case plainErr == nil && (err != nil || got != plain):
			t.Errorf("%q is %v, %v; Go has %v", text, got, err, plain)
		case err == nil:
			if again, err := calendar.ParseDuration(got.String()); err != nil || again != got {
				t.Errorf("%q is %v, and that is %v, %v", text, got, again, err)
			}
		case got != 0:
			t.Errorf("%q is %v and wrong", text, got)
		}
	})
}
