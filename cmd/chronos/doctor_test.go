package main_test

import (
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
