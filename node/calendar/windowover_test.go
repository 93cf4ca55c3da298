package calendar_test

import (
	"strings"
	"testing"
	"time"
)

// TestWindowLeftOutForEver asks windows that the clocks of their zones leave out each year when they open. The answer
// must be never, and cost at most the changes of the clocks in this century, and not those up to the year 9999. Windows
// beside them, which do open, must say when.
func TestWindowLeftOutForEver(t *testing.T) {
	for text, never := range map[string]string{
		"2:30am to 2:45am on the last Sunday of March in Europe/Berlin":         "opens",
		"2am to 3am on the second Sunday of March in America/New_York":          "opens", // it did until 2006
		"always except 2am to 3am on the last Sunday of March in Europe/Berlin": "closes",
		"2:30am to 3:15am on the last Sunday of March in Europe/Berlin":         "",
		"2:30am to 2:45am on the last Sunday of March in UTC":                   "",
		"2:30am to 2:45am on the last Sunday of March in Europe/London":         "",
		"2:30am to 2:45am on the last Sunday of October in Europe/Berlin":       "",
		"2:30am to 2:45am on February 29 in Europe/Berlin":                      "",
		"2:30am to 2:45am on 2032-03-28 in America/New_York":                    "",
		"2:30am to 2:45am on the last Sunday of March in Africa/Casablanca":     "",
	} {
		w := window(t, text)
		for _, after := range []time.Time{asked, asked.AddDate(40, 0, 0), asked.AddDate(2000, 0, 0)} {
			next, found := w.Next(after)
			if found && never != "" {
				t.Errorf("%s: changes at %v", text, next)
			}
			if looked := w.Looked(after); looked > 4*(2102-asked.Year()) { // with what splits a year besides
				t.Errorf("%s: looks at %d stretches of the clock", text, looked)
			}
		}
		noted := strings.Contains(strings.Join(w.Notes(), " "), "It never "+never+" any more")
		if noted != (never != "") {
			t.Errorf("%s: the notes are %q", text, w.Notes())
		}
	}
}
