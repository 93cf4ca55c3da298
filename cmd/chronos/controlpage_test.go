package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestControlPage runs what docs/CONTROL.md says, line by line.
func TestControlPage(t *testing.T) {
	typePage(t, "TestControlPage", "CONTROL.md", "--targets", "mails")
}

// typePage runs what a page of docs says, line by line, in a shell, with this program for chronos, beside a "chronos
// dev" with args, and compares what appears with what the page shows. Instants, durations, and the names of people,
// machines and incarnations are not compared. CHRONOS_UPDATE=1 writes the page anew, as it appears.
func typePage(t *testing.T, test, name string, args ...string) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("the page has the options of date of this system")
	}
	page := filepath.Join("..", "..", "docs", name)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asChronos, self)
	if err := os.WriteFile(filepath.Join(folder, "chronos"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	update := os.Getenv("CHRONOS_UPDATE") != ""
	t.Setenv("CHRONOS_UPDATE", "")                        // which brings back what it was
	if err := os.Unsetenv("CHRONOS_UPDATE"); err != nil { // it is no setting of chronos
		t.Fatal(err)
	}
	p, address := dev(t, args...)
	found := []string{
		"http://127.0.0.1:8080", p.stdout.await(t, `A page, metrics and health: (http://\S+)`, 1)[1],
		"http://127.0.0.1:8081", p.stdout.await(t, `curl -X PUT (http://[^/]+)/v1/`, 1)[1],
		"http://127.0.0.1:8015", p.stdout.await(t, `Queues as horae has them: (http://[^,]+),`, 1)[1],
	}
	if slices.Contains(args, "--metaswitch-listen") {
		found = append(found, "http://127.0.0.1:7253", p.stdout.await(t, `Metaswitch's Chronos has them: (\S+)`, 1)[1])
	}
	places := strings.NewReplacer(found...)
	t.Setenv("CHRONOS_BROKERS", address)

	blocks := regexp.MustCompile("(?ms)^```(console|dev)\n(.*?)^```$")
	shown := blocks.ReplaceAllStringFunc(string(text), func(block string) string {
		parts := blocks.FindStringSubmatch(block)
		var lines []string
		if parts[1] == "dev" {
			lines = devLines(t, p)
		} else {
			for line := range strings.Lines(parts[2]) {
				if command, is := strings.CutPrefix(line, "$ "); is {
					out := shell(t, folder, places.Replace(command))
					out = regexp.MustCompile(`by \S+@\S+`).ReplaceAllString(out, "by ann@laptop.")
					lines = append(lines, strings.TrimSuffix(line, "\n"), strings.TrimSuffix(out, "\n"))
				}
			}
		}
		return "```" + parts[1] + "\n" + strings.Join(lines, "\n") + "\n```"
	})
	comparePage(t, test, name, string(text), shown, update)
}

// comparePage compares a page of docs with what it would be, or writes it anew.
func comparePage(t *testing.T, test, name, text, shown string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", name), []byte(shown), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, got := masked(text), masked(shown)
	for i, line := range got {
		if i >= len(want) || line != want[i] {
			t.Fatalf("line %d of docs/%s would be\n%s\nlook whether that is right, and run "+
				"CHRONOS_UPDATE=1 go test ./cmd/chronos -run %s", i+1, name, line, test)
		}
	}
	if len(got) != len(want) {
		t.Errorf("docs/%s has %d lines, and would have %d", name, len(want), len(got))
	}
}

// devLines returns the lines that "chronos dev" has printed since it began, in the order of what they are about: a
// message that fires at once may come before or after its outcome.
func devLines(t *testing.T, p *program) []string {
	t.Helper()
	p.stdout.await(t, `(?m)outcome  order-4  cancel: rejected.*\n`, 1)
	_, screen, _ := strings.Cut(p.stdout.String(), "Ctrl-C stops.\n")
	return strings.Split(strings.TrimSpace(screen), "\n")
}

// masked returns the lines of a page without what differs from run to run. Those of dev are sorted.
func masked(page string) []string {
	for _, mask := range []struct{ pattern, by string }{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3,6})?Z`, "INSTANT"},
		{`(?m)^\d\d:\d\d:\d\d\.\d{3}Z`, "TIME"},
		{`\S+( ms)? (late|early)`, "LATE"},
		{`Paused (just now|\S+ ago)`, "Paused"},
		{`matched, in \S+\.`, "MATCHED"},
		{`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`, "UUID"},
		{`"next":"eyJ[^"]*"`, `"next":"CURSOR"`},
		{`/timers/[0-9a-f]{16}-`, "/timers/TIMER-"},
	} {
		page = regexp.MustCompile(mask.pattern).ReplaceAllString(page, mask.by)
	}
	lines := strings.Split(page, "\n")
	if begin := slices.Index(lines, "```dev"); begin >= 0 {
		end := begin + 1 + slices.Index(lines[begin+1:], "```")
		slices.Sort(lines[begin+1 : end])
	}
	return lines
}
