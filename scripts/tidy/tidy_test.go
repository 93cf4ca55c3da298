package tidy_test

import (
	"slices"
	"strings"
	"testing"

	"chronos/scripts/tidy"
)

// root is the folder of the repository, from here.
const root = "../.."

// TestEngineIsReplayable applies the rules of replayed code to the engine, and to the calendar that tells it when a
// series goes on.
func TestEngineIsReplayable(t *testing.T) {
	for folder, least := range map[string]int{"node": 10, "node/calendar": 5} {
		code, err := tidy.Load(t.Context(), root+"/"+folder)
		if err != nil {
			t.Fatal(err)
		}
		if len(code.Trees) < least {
			t.Fatalf("%s has %d files only: this looks in the wrong place", folder, len(code.Trees))
		}
		for _, finding := range tidy.Replayed(code) {
			// The one thing that a series has from the machine is when clocks are changed.
			if folder == "node/calendar" && strings.HasPrefix(finding, "zone.go:") &&
				strings.HasSuffix(finding, ": uses time.LoadLocation") {
				continue
			}
			t.Error(folder + "/" + finding)
		}
	}
}

// TestImports holds the arrows of the tree that matter most, indirect imports included: the calendar, the migrations,
// the model and the proof import nothing of ours, the engine only the calendar, and the program that runs in production
// links nothing of the laboratory, where things are broken on purpose, and no conformance suite.
func TestImports(t *testing.T) {
	for pkg, allowed := range map[string]func(path string) bool{
		"chronos/node": func(path string) bool {
			return path == "github.com/google/uuid" || path == "chronos/node/calendar"
		},
		"chronos/migrations":    func(path string) bool { return !strings.HasPrefix(path, "chronos") },
		"chronos/sim/model":     func(string) bool { return false },
		"chronos/sim/proof":     func(string) bool { return false },
		"chronos/node/calendar": func(string) bool { return false },
		"chronos/cmd/chronos": func(path string) bool {
			return !strings.HasPrefix(path, "chronos/") || slices.Contains(production(), path)
		},
	} {
		findings, err := tidy.Foreign(t.Context(), root, pkg, allowed)
		if err != nil {
			t.Error(err)
		}
		for _, finding := range findings {
			t.Error(finding)
		}
	}
}

// production lists our packages that the program which runs in production may link.
func production() []string {
	return []string{
		"chronos/cmd/chronos/bench", "chronos/cmd/chronos/bench/cluster", "chronos/cmd/chronos/bench/machine",
		"chronos/migrations", "chronos/node", "chronos/node/admin", "chronos/node/api", "chronos/node/broker/embedded",
		"chronos/node/broker/kafka", "chronos/node/broker/none", "chronos/node/calendar", "chronos/node/callback",
		"chronos/node/clock/system", "chronos/node/control", "chronos/node/credential", "chronos/node/deadletter",
		"chronos/node/intake",
		"chronos/node/hours", "chronos/node/ledger", "chronos/node/listener", "chronos/node/metaswitch",
		"chronos/node/horae", "chronos/node/queue", "chronos/node/queue/desk",
		"chronos/node/metrics", "chronos/node/service", "chronos/node/service/doctor",
		"chronos/node/service/properties", "chronos/node/store/headers", "chronos/node/store/inspect",
		"chronos/node/store/journal",
		"chronos/node/store/outlook", "chronos/node/store/postgres", "chronos/node/store/postgres/marks",
		"chronos/node/store/sqlite", "chronos/node/store/transfer", "chronos/node/traces", "chronos/node/view",
	}
}

// TestTree applies the rules on files and folders to everything in the repository.
func TestTree(t *testing.T) {
	files, err := tidy.Tracked(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 30 {
		t.Fatalf("the repository has %d files only: this looks in the wrong place", len(files))
	}
	for _, file := range files {
		for _, guard := range []func(tidy.File) []string{
			tidy.Long, tidy.Leftover, tidy.MachinePath, tidy.Misplaced,
		} {
			for _, finding := range guard(file) {
				t.Error(finding)
			}
		}
	}
}
