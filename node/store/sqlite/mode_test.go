package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"chronos/node/store/sqlite"
)

// A new file is for its owner alone, and so is what SQLite keeps beside it. A file that is there keeps its mode.
func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	for _, made := range []os.FileMode{0, 0o640} {
		path := filepath.Join(t.TempDir(), "chronos.db")
		want := os.FileMode(0o600)
		if made != 0 {
			want = made
			if err := os.WriteFile(path, nil, made); err != nil {
				t.Fatal(err)
			}
		}
		store, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		paths, err := filepath.Glob(path + "*")
		if err != nil || len(paths) < 2 {
			t.Errorf("there are the files %v, %v", paths, err)
		}
		for _, p := range paths {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has mode %v, %v, want %v", p, info.Mode(), err, want)
			}
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
