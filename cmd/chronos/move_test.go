package main_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	chronos "chronos/cmd/chronos"
	"chronos/node"
	"chronos/node/store/inspect"
)

// TestMoveSentences asks for a sentence and an exit code for each mistake that a person can make in a move, and that
// none of them changes anything.
func TestMoveSentences(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	at := func(name string) string { return filepath.Join(folder, name) }
	used, fresh := &deployment{[]string{"--store", "sqlite:" + at("used.db")}}, &deployment{
		[]string{"--store", "sqlite:" + at("fresh.db")},
	}
	missing := &deployment{[]string{"--store", "sqlite:" + at("missing.db")}}
	for _, d := range []*deployment{used, fresh} {
		d.does(t, 0, "applied", "migrate up")
	}
	address := clusterWithTopics(t)
	produce(t, address, submission("gone", time.Now(), nil),
		submission("waits", time.Now().Add(time.Hour), []byte("x")))
	(&deployment{append([]string{"--brokers", address}, used.settings...)}).fires(t, address, 1)

	used.does(t, 2, `--to is not set: it must be the name of a file`, "export")
	used.does(t, 2, `--undo and --to exclude each other`, "export --undo --to x")
	missing.does(t, 1, `missing\.db: no such file or directory; "chronos migrate up" makes a new one\n$`,
		"export --to "+at("x"))
	used.does(t, 1, `nothing was changed in the store \S+: it is not sealed\n$`, "export --undo")
	used.does(t, 0, `has 1 message, positions of 1 partition, 0 pauses and 0 remembered answers\.\nIt would be sealed`,
		"export --to "+at("x"))
	if err := os.WriteFile(at("there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used.does(t, 2, `--to is \S+, which is there already: name another file, or remove it\n$`,
		"export --yes --to "+at("there"))
	used.does(t, 1, `not sealed`, "export --undo --yes") // none of that has sealed it
	used.does(t, 0,
		`Sealed, as export \S+, in lineage 2\.\nDone: \S+ has 1 message, 1 position, 0 pauses and 0 answers`,
		"export --yes --to "+at("moved"))
	used.does(t, 1, `: it was exported itself, as \S+\n$`, "import --yes "+at("moved"))
	sealed := &deployment{append([]string{"--brokers", address}, used.settings...)}
	sealed.does(t, 1, `the store was sealed by \\?"chronos export\\?" at `, "rewind --topic chronos.in --to-earliest")
	sealed.does(t, 1, `the store was sealed by \\?"chronos export\\?" at `, "run")

	content, err := os.ReadFile(at("moved"))
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"cut":     string(content[:len(content)/2]),
		"changed": strings.Replace(string(content), `"waits"`, `"waitz"`, 1),
		"none":    "hello\n",
		"future":  strings.Replace(string(content), `"version":1`, `"version":7`, 1),
	} {
		if err := os.WriteFile(at(name), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fresh.does(t, 1, `cut: the file ends after \d+ lines, without its last one`, "import --yes "+at("cut"))
	fresh.does(t, 1, `changed: the file was changed since it was written`, "import --yes "+at("changed"))
	fresh.does(t, 1, `none: the first line is not that of an export of Chronos\n$`, "import --yes "+at("none"))
	fresh.does(t, 1, `future: the file is of version 7, and this program reads version 1`, "import --yes "+at("future"))
	fresh.does(t, 1, `no such file or directory\n$`, "import --yes "+at("nothing"))
	fresh.does(t, 0, `Nothing was changed\.`, "import "+at("moved"))
	fresh.does(t, 0, `Done: lineage 3 of the store \S+ has begun`, "import --yes "+at("moved"))
	fresh.does(t, 0, `has 1 message, positions of 1 partition`, "export --to "+at("y"))

	// Somebody thinks better of it, and imports nothing.
	used.does(t, 0, `Done: lineage 3 of the store has begun\. Nodes may start on it\.\n$`, "export --undo --yes")
	used.does(t, 1, `it has messages, and only a store that has never been used can be filled\n$`,
		"import --yes "+at("moved"))
	sealed.does(t, 0, `There is nothing to rewind|goes to`, "rewind --topic chronos.in --to-earliest")
}

// unasked is a store that can't say which nodes run on it.
type unasked struct {
	node.Store
	inspect.Roster

	err error
}

func (u unasked) Nodes(context.Context) ([]inspect.Node, time.Time, error) {
	return nil, time.Time{}, fmt.Errorf("look for nodes: %w", u.err)
}

// An export does not fail because a store is too busy to say which nodes run on it: that is for people. It says so.
func TestBusyRoster(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	err := chronos.RosterOf(t.Context(), unasked{err: inspect.ErrTooLong}, &said)
	if err != nil || !strings.Contains(said.String(), "too busy to say") {
		t.Errorf("it says %q, %v", &said, err)
	}
	broken := errors.New("broken")
	if err := chronos.RosterOf(t.Context(), unasked{err: broken}, &said); !errors.Is(err, broken) {
		t.Errorf("a store that is broken: %v", err)
	}
}
