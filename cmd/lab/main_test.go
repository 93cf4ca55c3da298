package main_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lab "chronos/cmd/lab"
)

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command to its end.
func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := lab.Run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// failingWriter is a standard output that is gone.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// writeFile writes a file for the test and returns its path.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHelp asks each command what it is for.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		nil, {"--help"}, {"-h"}, {"sim", "--help"}, {"check", "--help"}, {"model", "--help"}, {"chaos", "-h"},
	} {
		got := run(t, "", args...)
		if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "Usage: lab") {
			t.Errorf("lab %q exits with %d and says\n%s%s", args, got.code, got.stdout, got.stderr)
		}
	}
	if got := run(t, "", "simm"); got.code != 2 || !strings.HasPrefix(got.stderr, "lab: unexpected argument simm") {
		t.Errorf("a command that does not exist: exit code %d, %q", got.code, got.stderr)
	}
}
