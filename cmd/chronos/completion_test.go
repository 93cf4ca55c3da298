package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUsualWords types what other programs have.
func TestUsualWords(t *testing.T) {
	version := run(t, "", "version").stdout
	for _, word := range []string{"--version", "-v"} {
		if got := run(t, "", word); got.code != 0 || got.stdout != version {
			t.Errorf("chronos %s exits with %d: %s%s", word, got.code, got.stdout, got.stderr)
		}
	}
	for words, want := range map[string]string{
		"help": "--help", "help send": "send --help", "help dead list": "dead list -h",
	} {
		want := run(t, "", strings.Fields(want)...)
		if got := run(t, "", strings.Fields(words)...); got.code != 0 || got.stdout != want.stdout {
			t.Errorf("chronos %s exits with %d: %s%s", words, got.code, got.stdout, got.stderr)
		}
	}
	var parsed struct{ Version, Go, OS, Arch string }
	got := run(t, "", "version", "-o", "json")
	if err := json.Unmarshal([]byte(got.stdout), &parsed); err != nil || !strings.Contains(version, parsed.Version) ||
		parsed.Version == "" || parsed.OS == "" {
		t.Errorf("exit code %d (%v): %s", got.code, err, got.stdout)
	}
}

// TestCompletion completes command lines, and asks for all that fits.
func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"com"}, "completion"},
		{[]string{"re"}, "replace reschedule resume rewind"},
		{[]string{"migrate", ""}, "print status up"},
		{[]string{"dead", "re"}, "replay"},
		{[]string{"send", "--ti"}, "--timeout"},
		{[]string{"send", "--partitioner", ""}, "crc32 fnv1a murmur2"},
		{[]string{"count", "-o", "j"}, "json"},
		{[]string{"run", "--store", "pos"}, ""},
		{[]string{"run", "--store", "send", "--hold"}, "--hold-time"},
		{[]string{"dead", "--brokers", "dead", "l"}, "list"},
		{[]string{"completion", ""}, "bash fish zsh"},
		{[]string{"nosuch", "--x"}, ""},
	} {
		got := run(t, "", append([]string{"completion", "words"}, c.words...)...)
		if words := strings.Join(strings.Fields(got.stdout), " "); got.code != 0 || words != c.want {
			t.Errorf("%q is completed to %q, want %q: %s", c.words, words, c.want, got.stderr)
		}
	}
	all := strings.Fields(run(t, "", "completion", "words").stdout)
	if len(all) < 25 || !slices.Contains(all, "send") {
		t.Errorf("these are all commands: %q", all)
	}
	says(t, 2, `must be one of "bash","zsh","fish"`, "completion", "tcsh")
}

// TestCompletionOfShells has shells that are there load what is printed for them, and complete a line.
func TestCompletionOfShells(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asChronos, self)
	if err := os.WriteFile(filepath.Join(folder, "chronos"), []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	for shell, script := range map[string]string{
		"bash": `source <(chronos completion bash); COMP_WORDS=(chronos migrate st); COMP_CWORD=2; _chronos
			echo "${COMPREPLY[@]}"; complete -p chronos >/dev/null`,
		"zsh": `compdef() {}; compadd() { shift; echo "$@" }; words=(chronos migrate st); CURRENT=3
			source <(chronos completion zsh); _chronos`,
		"fish": `chronos completion fish | source; complete -C 'chronos migrate st' | cut -f1`,
	} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue // what it loads is looked at by those who have it
		}
		command := commandContext(t, path, "-c", script)
		command.Env = append(os.Environ(), "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := command.CombinedOutput(); err != nil || strings.TrimSpace(string(out)) != "status" {
			t.Errorf("%s completes to %q (%v)", shell, out, err)
		}
	}
}
