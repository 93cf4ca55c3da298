package calendar_test

import (
	"errors"
	"testing"
	"time"

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
		w, err := calendar.ParseWindow(text, time.Unix(askedAt, 0))
		if err != nil {
			var no *calendar.WindowError
			if !errors.As(err, &no) || no.Error() == "" || len(no.Error()) > 500 {
				t.Errorf("the error is %v", err)
			}
			return
		}
		again, err := calendar.ParseWindow(w.String(), time.Time{})
		if err != nil || again.String() != w.String() || again.Always() != w.Always() {
			t.Fatalf("%v is read as %v (%v)", w, again, err)
		}
		at := time.Unix(instant, 0)
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
				return
			}
			if !next.After(at) || w.Open(next) == open || w.Open(next.Add(-time.Nanosecond)) != open {
				t.Fatalf("%v: at %v it is no change after %v", w, next, at)
			}
			at = next
		}
	})
}
