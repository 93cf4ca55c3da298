package main_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Goal: chronos doctor looks at the listener that the file of the nodes has, and at its tokens. Method: a file of
// SQLite and no Kafka, so that no server is needed.
func TestDoctorSeesTheListener(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "chronos.db")
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got)
	}
	tokens := writeFile(t, "tokens", "ops read,control "+strings.Repeat("7Gq1", 8)+"\neve read "+
		strings.Repeat("x0Zp", 8)+"\n")
	file := writeFile(t, "chronos.yaml", "store: "+store+"\napi-listen: 127.0.0.1:8081\n"+
		"admin-listen: 127.0.0.1:8080\nadmin-token-file: "+tokens+"\nadmin-allow: [read, control]\n")
	got := run(t, "", "doctor", "--config", file)
	if !regexp.MustCompile(`listener +\S+ +2 tokens, 1 of them with control`).MatchString(got.stdout) {
		t.Errorf("exit code %d\n%s%s", got.code, got.stdout, got.stderr)
	}
}

// Goal: doctor warns of a file of messages that other users of the machine may read, and not of one that the node has
// made. Method: a new file of SQLite, whose mode is changed then.
func TestDoctorSeesAnOpenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chronos.db")
	store := "sqlite:" + path
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got)
	}
	file := writeFile(t, "chronos.yaml", "store: "+store+"\napi-listen: 127.0.0.1:0\n")
	const warning = "WARNING  the file "
	if got := run(t, "", "doctor", "--config", file); strings.Contains(got.stdout, warning) {
		t.Errorf("of a new file:\n%s%s", got.stdout, got.stderr)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "", "doctor", "--config", file); !strings.Contains(got.stdout, warning) ||
		!strings.Contains(got.stdout, "has mode 0644") || !strings.Contains(got.stdout, "chmod 600 "+path) {
		t.Errorf("of an open one:\n%s%s", got.stdout, got.stderr)
	}
}
