package service_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"chronos/node/service"
)

// TestReference asks that docs/REFERENCE.md is what the table says. CHRONOS_UPDATE=1 writes it anew.
func TestReference(t *testing.T) {
	var page bytes.Buffer
	if err := service.WriteReference(&page); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join("..", "..", "docs", "REFERENCE.md")
	if os.Getenv("CHRONOS_UPDATE") != "" {
		if err := os.WriteFile(name, page.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, page.Bytes()) {
		t.Errorf("docs/REFERENCE.md is out of date (%v): run CHRONOS_UPDATE=1 go test ./node/service", err)
	}
	for _, row := range service.Table(service.Run) {
		if !strings.Contains(page.String(), "`--"+row.Name) {
			t.Errorf("the page lacks --%s", row.Name)
		}
	}
}

// TestTable asks that each row has a name and a value of its own, and help.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range service.Table(service.All) {
		if seen[row.Name] || row.Help == "" || row.Commands.String() == "" || !row.Toggle() && row.PlaceHolder == "" {
			t.Errorf("the row of %q is there twice, or lacks something: %+v", row.Name, row)
		}
		seen[row.Name] = true
		known := func(g service.Group) bool { return g.Key == row.Group }
		if row.Group != "" && !slices.ContainsFunc(service.Groups(), known) {
			t.Errorf("%s stands under %q, which is no heading", row.Name, row.Group)
		}
	}
}

// TestBounds gives each time the values at the bounds that the reference states, and those just outside.
func TestBounds(t *testing.T) {
	for _, c := range []struct{ name, least, below, most, above string }{
		{"timing-advance", "0s", "-1ns", "10s", "10001ms"},
		{"hold-time", "2500ms", "2499ms", "1h", "3600001ms"},
		{"poll-interval", "1ms", "999us", "1s", "1001ms"},
		{"detection-interval", "10ms", "9ms", "1h", "3600001ms"},
		{"lookahead", "0s", "-1ns", "999ms", "1s"},
		{"leave-after", "1s", "999ms", "1h", "3600001ms"},
		{"session-timeout", "1s", "999ms", "30m", "1800001ms"},
	} {
		for value, want := range map[string]bool{c.least: true, c.below: false, c.most: true, c.above: false} {
			settings, err := service.Read(service.Run, map[string]service.Value{
				"store": service.FlagValue("store", "sqlite:x"), c.name: service.FlagValue(c.name, value),
			}, nil)
			if err == nil {
				_, err = settings.Config()
			}
			var usage *service.UsageError
			if (err == nil) != want || err != nil && !errors.As(err, &usage) {
				t.Errorf("--%s %s: %v, want it allowed: %v", c.name, value, err, want)
			}
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"", "ab", 2},
		{"abc", "abc", 0},
		{"abc", "axc", 1},
		{"abc", "ac", 1},
		{"ac", "abc", 1},
		{"abcd", "acbd", 2},
		{"hold-tmie", "hold-time", 2},
		{"kitten", "sitting", 3},
	} {
		if got := service.EditDistance(c.a, c.b); got != c.want {
			t.Errorf("the distance from %q to %q is %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
