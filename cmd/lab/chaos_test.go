package main_test

import (
	"bytes"
	"strings"
	"testing"

	lab "chronos/cmd/lab"
)

// TestChaosCommandLine asks for what needs no servers: each answer has its exit code, and a mistake is named.
func TestChaosCommandLine(t *testing.T) {
	for line, want := range map[string]struct {
		code           int
		stdout, stderr string
	}{
		"--scenario list":               {0, "killed-nodes", ""},
		"--help":                        {0, "Exit codes", ""},
		"--scenario killed-noses":       {2, "", `there is no scenario "killed-noses": --scenario list`},
		"--kafka localhost:9092":        {2, "", "--kafka and --postgres go together"},
		"--backend clouds":              {2, "", "--backend must be one of"},
		"--seed seven":                  {2, "", "--seed: expected a valid 64 bit uint"},
		"--scenario no-fault --at-once": {2, "", "--at-once"},
	} {
		var stdout, stderr bytes.Buffer
		code := lab.Run(t.Context(), append([]string{"chaos"}, strings.Fields(line)...), nil, &stdout, &stderr)
		if code != want.code || !strings.Contains(stdout.String(), want.stdout) ||
			!strings.Contains(stderr.String(), want.stderr) {
			t.Errorf("%s: exit code %d\n%s%s", line, code, stdout.String(), stderr.String())
		}
	}
}
