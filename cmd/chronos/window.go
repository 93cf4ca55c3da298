package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/calendar"
)

// windowCommand shows what a window of operation in words means.
type windowCommand struct {
	Window []text `arg:"" placeholder:"WORDS" help:"Such as \"10pm to 4am every saturday in Europe/Malta\"."`
	From   *text  `placeholder:"INSTANT" help:"Look from then on, not from now on. No zone is UTC."`
	Count  int    `default:"10" placeholder:"N" help:"How many openings to show at most."`
	Output string `short:"o" enum:"table,json" default:"table" placeholder:"FORM" help:"table, for people, or json."`
}

// Help says what it is for.
func (c *windowCommand) Help() string {
	return `Reads a window of operation in plain words, and prints how it is understood: its normal form, and when it
opens next, on the clock of its zone. It needs no node and no store. docs/WINDOWS.md teaches the words; for example

  chronos window always except 2 - 4am every sunday
  chronos window "9am to 5pm every weekday except 25 december in Europe/London"
  chronos window "2am to 4am on the last friday of the month" --from 2030-01-01T00:00:00Z

The exit code is 2 if the words are no window; the message says where, and what to write instead.`
}

// maxOpenings is how many openings are shown at most: what waits for more is a program, and has the package for it.
const maxOpenings = 1000

// shownWindow is what is shown of a window.
type shownWindow struct {
	Window   string         `json:"window"` // in its normal form
	Zone     string         `json:"zone"`
	From     time.Time      `json:"from"`
	Open     bool           `json:"open"`             // at From
	Changes  *time.Time     `json:"changes,omitzero"` // when that changes first; missing if it never does
	Notes    []string       `json:"notes,omitempty"`
	Openings []shownOpening `json:"openings"`
	LeftOut  []shownGap     `json:"left_out,omitempty"` // between From and the last of Openings
}

// shownGap is an opening that does not come, because clocks are put forward over it.
type shownGap struct {
	At   time.Time `json:"at"`
	From string    `json:"from"`
	To   string    `json:"to"`
}

// shownOpening is an opening, in the zone of its window. The first one begins with From if the window is open then.
type shownOpening struct {
	Start   time.Time  `json:"start"`
	End     *time.Time `json:"end,omitzero"` // missing if it does not close again
	Seconds int64      `json:"seconds,omitzero"`
}

// Run reads and shows.
func (c *windowCommand) Run(_ context.Context, w *world) error {
	if c.Count < 1 || c.Count > maxOpenings {
		return usagef("--count is %d: it must be from 1 to %d", c.Count, maxOpenings)
	}
	from := time.Now().Truncate(time.Second)
	if c.From != nil {
		var err error
		if from, err = node.ParseDeadline([]byte(*c.From), node.EpochRejected); err != nil {
			return usagef("--from is %s: %v", shown(string(*c.From)), err)
		}
	}
	words := make([]string, len(c.Window))
	for i, word := range c.Window {
		words[i] = string(word)
	}
	window, err := calendar.ParseWindow(strings.Join(words, " "), from)
	if err != nil {
		return usagef("this is no window: %v", err)
	}
	found := lookAt(window, from, c.Count)
	if c.Output == "json" {
		return printJSON(w.stdout, found)
	}
	return printWindow(&page{out: w.stdout}, window, found)
}

// lookAt finds out what a window does from an instant on.
func lookAt(window *calendar.Window, from time.Time, count int) *shownWindow {
	zone := window.Zone()
	found := &shownWindow{
		Window: window.String(), Zone: zone.String(), From: from.In(zone), Open: window.Open(from),
		Notes: window.Notes(), Openings: []shownOpening{},
	}
	if change, changes := window.Next(from); changes {
		change = change.In(zone)
		found.Changes = &change
	}
	for opening := range window.Openings(from) {
		shown := shownOpening{Start: opening.Start.In(zone)}
		if !opening.End.IsZero() {
			end := opening.End.In(zone)
			shown.End, shown.Seconds = &end, int64(end.Sub(shown.Start)/time.Second)
		}
		if found.Openings = append(found.Openings, shown); len(found.Openings) == count {
			break
		}
	}
	if n := len(found.Openings); n > 0 {
		for gap := range window.LeftOut(from, found.Openings[n-1].Start) {
			found.LeftOut = append(found.LeftOut, shownGap{gap.At.In(zone), gap.From, gap.To})
			if len(found.LeftOut) == count {
				break
			}
		}
	}
	return found
}

// printWindow writes it for a person.
func printWindow(page *page, window *calendar.Window, found *shownWindow) error {
	page.line("%s", found.Window)
	page.line("")
	switch {
	case window.Always():
		page.line("It is always open.")
	case window.Never():
		page.line("It is never open.")
	case found.Open && found.Changes == nil:
		page.line("It is open, and does not close again.")
	case found.Open:
		page.line("It is open, and closes %s.", ago(*found.Changes, found.From))
	case found.Changes == nil:
		page.line("It is closed, and does not open again.")
	default:
		page.line("It is closed, and opens %s.", ago(*found.Changes, found.From))
	}
	if !window.Always() && len(found.Openings) > 0 {
		page.line("")
		page.table(openingRows(found.Openings)...)
	}
	for _, gap := range found.LeftOut {
		page.line("")
		page.line("Note: On %s it does not open from %s to %s: clocks go forward then, and leave that out.",
			gap.At.Format("Mon 2006-01-02"), gap.From, gap.To)
	}
	for _, note := range found.Notes {
		if !window.Always() {
			page.line("")
			page.line("Note: %s", note)
		}
	}
	return page.err
}

// openingRows are the openings as rows of a table.
func openingRows(openings []shownOpening) [][]any {
	const clock = "Mon 2006-01-02 15:04 MST"
	rows, changes := [][]any{{"opens", "closes", "for"}}, false
	for _, opening := range openings {
		row := []any{opening.Start.Format(clock), "never", "ever"}
		if opening.End != nil {
			row[1], row[2] = opening.End.Format(clock), lasts(time.Duration(opening.Seconds)*time.Second)
			if change := clockChange(opening.Start, *opening.End); change != "" {
				row, changes = append(row, change), true
			}
		}
		rows = append(rows, row)
	}
	for i := range rows {
		if changes && len(rows[i]) < 4 {
			rows[i] = append(rows[i], "")
		}
	}
	return rows
}

// lasts shows how long something is open, to the second.
func lasts(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= 2*day {
		return strings.TrimSuffix(fmt.Sprintf("%dd%s", d/day, lasts(d%day)), "0s")
	}
	text := d.String()
	if d%time.Minute == 0 && d > 0 {
		text = strings.TrimSuffix(text, "0s")
	}
	if d%time.Hour == 0 && d > 0 {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// clockChange says that the clocks are changed while something is open, or when it opens or closes, so that it is
// longer or shorter than the words say.
func clockChange(start, end time.Time) string {
	_, before := start.Add(-time.Second).Zone()
	_, after := end.Zone()
	switch by := time.Duration(after-before) * time.Second; {
	case by > 0:
		return "clocks go forward by " + lasts(by)
	case by < 0:
		return "clocks go back by " + lasts(-by)
	}
	return ""
}
