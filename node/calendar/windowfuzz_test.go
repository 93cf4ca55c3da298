package calendar_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/node/calendar"
)

// FuzzWindow gives ParseWindow any text. It must say what is wrong in one sentence, or read it as a window whose normal
// form is one that means the same, and whose changes are changes.
func FuzzWindow(f *testing.F) {
	for i, s := range sentences() {
		f.Add(s.text, asked.Unix(), asked.Unix()+int64(i)*86_399)
	}
	for _, file := range []string{"testdata/windows.txt", "testdata/nowindows.txt"} {
		for i, row := range table(f, file, 2) {
			f.Add(row[0], int64(0), asked.Unix()+int64(i)*86_399)
		}
	}
	f.Fuzz(func(t *testing.T, text string, askedAt, instant int64) {
		checkWindow(t, text, time.Unix(askedAt, 0), time.Unix(instant, 0))
	})
}

// TestWordSalad draws words of the grammar in any order, and asks for the same.
func TestWordSalad(t *testing.T) {
	words := strings.Fields(`always never except and and , ; to to - until from every every on on the the of of in in
		day days weekday weekends monday saturdays fri month months march april feb 25 1 30 1st 2nd 31st last first
		other 9am 5pm 9 17 22:00 06:30 noon midnight 24:00 24/7 all day before after outside between 2030-03-06
		25/12
		06/03/2030 6 may 2031 year yearly daily UTC Europe/London GMT+2 where timezone = at`)
	understood := 0
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 9).Draw(t, "words"), " ")
		at := asked.Add(time.Duration(rapid.IntRange(-100_000, 100_000).Draw(t, "minutes")) * time.Minute)
		if checkWindow(t, text, asked, at) {
			understood++
		}
	})
	t.Logf("%d were understood", understood)
}

// checkWindow reports whether a text is a window, and asks for what is true of each.
func checkWindow(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string, askedAt, at time.Time,
) bool {
	t.Helper()
	w, err := calendar.ParseWindow(text, askedAt)
	if err != nil {
		var no *calendar.WindowError
		if !errors.As(err, &no) || no.Error() == "" || len(no.Error()) > 500 {
			t.Fatalf("the error is %v", err)
		}
		return false
	}
	again, err := calendar.ParseWindow(w.String(), time.Time{})
	if err != nil || again.String() != w.String() || again.Always() != w.Always() {
		t.Fatalf("%q: %v is read as %v (%v)", text, w, again, err)
	}
	for range 3 {
		open := w.Open(at)
		if again.Open(at) != open {
			t.Fatalf("%v: at %v, open is %t, and %t by its normal form", w, at, open, !open)
		}
		next, changes := w.Next(at)
		if nextAgain, too := again.Next(at); too != changes || !nextAgain.Equal(next) {
			t.Fatalf("%v: after %v it changes at %v, and at %v by its normal form", w, at, next, nextAgain)
		}
		if !changes {
			break
		}
		if !next.After(at) || w.Open(next) == open || w.Open(next.Add(-time.Nanosecond)) != open {
			t.Fatalf("%v: at %v it is no change after %v", w, next, at)
		}
		at = next
	}
	return true
}
