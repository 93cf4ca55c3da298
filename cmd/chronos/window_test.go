package main_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestWindowsPage runs what docs/WINDOWS.md says, line by line, and compares what appears with what the page shows.
// CHRONOS_UPDATE=1 writes the page anew, as it appears.
func TestWindowsPage(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("the page is for a shell")
	}
	const name = "WINDOWS.md"
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("CHRONOS_UPDATE") != ""
	folder, commands := shellFolder(t), 0
	blocks := regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
	shown := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		lines := []string{"```console"}
		for line := range strings.Lines(block) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				commands++
				out := shell(t, folder, strings.TrimSpace(command)+" 2>&1 || true") // some of them are refused
				lines = append(lines, strings.TrimSuffix(line, "\n"), strings.TrimSuffix(out, "\n"))
			}
		}
		return strings.Join(append(lines, "```"), "\n")
	})
	if commands < 10 {
		t.Errorf("the page has %d commands only", commands)
	}
	comparePage(t, "TestWindowsPage", name, string(text), shown, update)
}

// TestWindow asks for what chronos window prints, and for its exit codes.
func TestWindow(t *testing.T) {
	t.Parallel()
	const from = "--from=2030-01-01T12:00:00Z"
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string // some of it
	}{
		{[]string{"10pm to 4am every saturday in Europe/Malta", from}, 0, "22:00 to 04:00 every saturday " +
			"in Europe/Malta\n\n" +
			"It is closed, and opens in 4 days.\n\n" +
			"  opens                     closes                    for\n" +
			"  Sat 2030-01-05 22:00 CET  Sun 2030-01-06 04:00 CET  6h\n", ""},
		{[]string{"9am", "to", "5pm", "on", "weekdays", from, "--count=1"}, 0, "It is open, and closes in 5h0m.\n\n" +
			"  opens                     closes                    for\n" +
			"  Tue 2030-01-01 12:00 UTC  Tue 2030-01-01 17:00 UTC  5h\n", ""},
		{[]string{"2", "-", "4am", "every", "sunday", from}, 0, "02:00 to 04:00 every sunday in UTC", ""},
		{[]string{"2am to 4am on saturday", from}, 0, "02:00 to 04:00 on 5 january 2030 in UTC", ""},
		{[]string{"always", from}, 0, "always\n\nIt is always open.\n", ""},
		{[]string{"all day weekdays and weekends", from}, 0, "It is always open.\n", ""},
		{[]string{"never", from}, 0, "never\n\nIt is never open.\n", ""},
		{[]string{"always except 2030-01-03", from}, 0, "never                     ever\n", ""},
		{[]string{"all day every day from 2029-01-01", from}, 0, "It is open, and does not close again.\n", ""},
		{[]string{"1am to 2am on 2029-01-01", from}, 0, "It is closed, and does not open again.\n", ""},
		{[]string{"1am to 2am every 31st of the month", from}, 0, "\nNote: Not every month has a 31st", ""},
		{[]string{"monday 1am to sunday 2pm", from}, 0, "6d13h\n", ""},
		{
			[]string{"1am to 3am every day in Europe/London", "--from=2030-03-30T12:00:00Z"},
			0,
			"  Sun 2030-03-31 02:00 BST  Sun 2030-03-31 03:00 BST  1h   clocks go forward by 1h\n", "",
		},
		{
			[]string{"2am to 3am every day in America/New_York", "--from=2026-03-07T12:00:00Z"},
			0,
			"\nNote: On Sun 2026-03-08 it does not open from 02:00 to 03:00: clocks go forward", "",
		},
		{
			[]string{"10pm to 4am every day in America/New_York", "--from=2026-10-31T12:00:00Z"},
			0,
			"7h   clocks go back by 1h\n", "",
		},
		{[]string{"9 to 5 every weekday"}, 2, "", "chronos: this is no window: \"9 to 5\" at character 1: is this " +
			"in the morning or in the afternoon? Write 9am to 5pm, or 09:00 to 05:00\n"},
		{[]string{"always", "--from=tomorrow"}, 2, "", "chronos: --from is tomorrow: "},
		{[]string{"always", "--count=0"}, 2, "", "chronos: --count is 0: it must be from 1 to 1000\n"},
		{nil, 2, "", "chronos: expected"},
		{[]string{"9am to 5pm every \xff"}, 2, "", "chronos: this is no window: it must be text in UTF-8\n"},
	} {
		got := run(t, "", append([]string{"window"}, c.args...)...)
		if got.code != c.code || !strings.Contains(got.stdout, c.stdout) || !strings.HasPrefix(got.stderr, c.stderr) ||
			c.stderr == "" && got.stderr != "" {
			t.Errorf("chronos window %q exits with %d and says\n%s%s\nwant %d and\n%s%s",
				c.args, got.code, got.stdout, got.stderr, c.code, c.stdout, c.stderr)
		}
	}
}

// TestWindowJSON asks for the openings as JSON.
func TestWindowJSON(t *testing.T) {
	t.Parallel()
	got := run(t, "", "window", "9am to 5pm weekdays in UTC+2", "--from=2030-01-01T12:00:00Z", "--count=2", "-ojson")
	var found struct {
		Window, Zone  string
		Open          bool
		From, Changes string
		Openings      []struct {
			Start, End string
			Seconds    int
		}
	}
	if err := json.Unmarshal([]byte(got.stdout), &found); err != nil {
		t.Fatalf("%v in\n%s%s", err, got.stdout, got.stderr)
	}
	if found.Window != "09:00 to 17:00 every weekday in UTC+02:00" || found.Zone != "UTC+02:00" || !found.Open ||
		found.From != "2030-01-01T14:00:00+02:00" || found.Changes != "2030-01-01T17:00:00+02:00" ||
		len(found.Openings) != 2 || found.Openings[0].Start != found.From || found.Openings[1].Seconds != 8*3600 ||
		found.Openings[1].End != "2030-01-02T17:00:00+02:00" {
		t.Errorf("got %+v", found)
	}
	got = run(t, "", "window", "always", "-o", "json")
	if strings.Contains(got.stdout, `"changes"`) || strings.Contains(got.stdout, `"end"`) ||
		!strings.Contains(got.stdout, `"start"`) {
		t.Errorf("what is always open changes:\n%s", got.stdout)
	}
}
