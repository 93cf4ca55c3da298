package journal_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"chronos/node/store/journal"
)

// Goal: whatever is wrong with what is in the folder of a local copy, the node has what it had, at once or after one
// restart; and nobody is told that the folder is the wrong one. Method: a copy with messages on disk, of which one file
// is spoiled in one way.
func TestDamagedCopy(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(data []byte) []byte{
		"a flipped bit in the middle": func(data []byte) []byte { data[len(data)/3] ^= 1; return data },
		"a flipped bit at the end":    func(data []byte) []byte { data[len(data)-1] ^= 1; return data },
		"cut in the middle":           func(data []byte) []byte { return data[:len(data)/2] },
		"empty":                       func([]byte) []byte { return []byte{} },
		"zeroes":                      func(data []byte) []byte { return make([]byte, len(data)) },
		"garbage":                     func(data []byte) []byte { return bytes.Repeat([]byte("rubbish"), len(data)) },
		"lost":                        func([]byte) []byte { return nil },
	} {
		for _, pattern := range []string{"*.sst", "MANIFEST-*", "marker.manifest*", "marker.format*", "OPTIONS-*"} {
			t.Run(pattern+" "+name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				dir := t.TempDir()
				want := w.copyIn(dir)
				w.spoil(dir, pattern, spoil)
				for restarts := 0; ; restarts++ {
					got, err := w.reopened(dir)
					if err == nil {
						if !slices.Equal(got, want) {
							t.Errorf("after %d restarts it has %d messages, want %d", restarts, len(got), len(want))
						}
						return
					}
					problem, is := errors.AsType[*journal.DiskError](err)
					if !is || !problem.Damaged || restarts > 0 {
						t.Fatalf("after %d restarts: %v", restarts, err)
					}
				}
			})
		}
	}
}

// copyIn makes a copy with many messages that is on disk, and returns what is in it.
func (w *world) copyIn(dir string) []string {
	w.Helper()
	store, err := journal.Open(journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: dir, Now: w.clock.Now,
	})
	if err != nil {
		w.Fatal(err)
	}
	own(w.T, store, 0)
	w.takeMany(store)
	want := w.ids(store)
	if err := errors.Join(store.Compact(), store.Close()); err != nil {
		w.Fatal(err)
	}
	return want
}

// spoil changes all files of a pattern, or removes them where nil is left of one.
func (w *world) spoil(dir, pattern string, spoil func([]byte) []byte) {
	w.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		w.Fatalf("%s: %v, %v", pattern, paths, err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil && len(data) > 0 {
			data = spoil(data)
		}
		if data == nil {
			err = os.Remove(path)
		} else if err == nil {
			err = os.WriteFile(path, data, 0o600)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

// reopened is what a node does that starts on a copy: it owns the partition, and looks at everything.
func (w *world) reopened(dir string) (ids []string, err error) {
	w.Helper()
	store, err := journal.Open(journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: dir, Now: w.clock.Now,
	})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closing := store.Close(); err == nil {
			err = closing
		}
	}()
	if err := store.Own(w.Context(), 0, uuid.New()); err != nil {
		return nil, err
	}
	rows, err := store.Dump()
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	return w.ids(store), nil
}

// A folder that is not one of a local copy is refused, and nothing in it is touched; so is one that another node uses,
// and one whose database nobody has labelled. A new disk, and a folder of an earlier release, are good.
func TestWrongFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	open := func(dir string) error {
		store, err := journal.Open(journal.Config{
			Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: dir, Now: w.clock.Now,
		})
		if err == nil {
			err = store.Close()
		}
		return err
	}
	refused := func(dir, why string) {
		t.Helper()
		problem, is := errors.AsType[*journal.FolderError](open(dir))
		if !is || !strings.Contains(problem.Error(), why) ||
			!strings.Contains(problem.Error(), "belongs to this node") {
			t.Errorf("%s: %v", why, problem)
		}
	}
	foreign := t.TempDir()
	precious := filepath.Join(foreign, "precious.txt")
	if err := os.WriteFile(precious, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(foreign, `such as "precious.txt"`)
	if data, err := os.ReadFile(precious); err != nil || string(data) != "mine" {
		t.Errorf("it has touched what is not its own: %q, %v", data, err)
	}
	if names, _ := os.ReadDir(foreign); len(names) != 1 {
		t.Errorf("it leaves %v in a folder that is not its own", names)
	}

	used := t.TempDir()
	store, err := journal.Open(journal.Config{
		Ledger: w.cluster.Ledger(topicName, "chronos"), Dir: used, Now: w.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	refused(used, "is in use by another node")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := open(used); err != nil {
		t.Errorf("when the other node has ended: %v", err)
	}

	former := t.TempDir() // which has no label
	want := w.copyIn(former)
	w.spoil(former, "CHRONOS-COPY", func([]byte) []byte { return nil })
	if got, err := w.reopened(former); err != nil || !slices.Equal(got, want) {
		t.Errorf("a folder of an earlier release: %d messages of %d, %v", len(got), len(want), err)
	}
	w.spoil(former, "CHRONOS-COPY", func([]byte) []byte { return nil })
	w.spoil(former, "MANIFEST-*", func([]byte) []byte { return []byte("garbage") })
	refused(former, "nothing shows that it is a local copy")

	fresh := t.TempDir()
	if err := os.Mkdir(filepath.Join(fresh, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := open(fresh); err != nil {
		t.Errorf("a new disk: %v", err)
	}
	made := filepath.Join(t.TempDir(), "new", "folder")
	if err := open(made); err != nil {
		t.Fatal(err)
	}
	if is, err := os.Stat(made); err != nil || is.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v, want 0700", is.Mode(), err)
	}
}
