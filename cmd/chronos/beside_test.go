package main_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	chronos "chronos/cmd/chronos"
)

// beside runs a command with these environment variables beside a node at a URL, as beside "chronos dev" at its default
// address.
func beside(t *testing.T, url string, env []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := chronos.RunBeside(ctx, env, url, &stdout, &stderr, args...)
	return result{code, stdout.String(), stderr.String()}
}

// TestCommandsFindDev asks that every command that asks a node or a store finds the node of "chronos dev" with nothing
// but its own arguments, and says which node it asks.
func TestCommandsFindDev(t *testing.T) {
	t.Parallel()
	p, _ := dev(t, "--admin-listen", "127.0.0.1:0")
	at := p.stdout.await(t, `A page, metrics and health: (http://\S+)`, 1)[1]
	p.stdout.await(t, `  export CHRONOS_ADMIN=`+at+` CHRONOS_BROKERS=127\.0\.0\.1:\d+\n`, 1)
	for _, command := range []string{
		"list", "count", "top", "pause chronos.out", "resume chronos.out", "pause --intake", "resume --intake",
		"queue list", "queue put q --kind sync", "queue get q", "queue delete q", "task list",
		"action list", "health",
	} {
		got := beside(t, at, nil, strings.Fields(command)...)
		asks := "chronos: asking the node at " + at + ": neither --store nor --admin is set\n"
		if command == "health" {
			asks = "" // it asks nothing else, ever
		}
		if got.code != 0 || got.stderr != asks || got.stdout == "" {
			t.Errorf("chronos %s exits with %d: %s%s", command, got.code, got.stdout, got.stderr)
		}
	}
}

// TestWhereCommandsAsk names nodes and stores in all places, and asks which one is asked: the nearest one that was
// named, and the node that has a store which no other process can open.
func TestWhereCommandsAsk(t *testing.T) {
	t.Parallel()
	p, _ := dev(t, "--admin-listen", "127.0.0.1:0")
	at := p.stdout.await(t, `A page, metrics and health: (http://\S+)`, 1)[1]
	listen := strings.TrimPrefix(at, "http://")
	folder := t.TempDir()
	store := "sqlite:" + filepath.Join(folder, "own.db")
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got.stderr)
	}
	nowhere := "http://" + freeAddress(t)
	file := func(text string) string { return writeFile(t, "chronos.yaml", text) }
	for _, c := range []struct {
		name string
		env  []string
		args []string
		code int
		says string // on stderr
	}{
		{"nothing", nil, nil, 2, `^chronos: neither --store nor --admin is set, and no node answers at ` + nowhere},
		{"environment", []string{"CHRONOS_ADMIN=" + at}, nil, 0, `^chronos: asking the node at ` + at +
			`: CHRONOS_ADMIN says so\n$`},
		{"flag", nil, []string{"--admin", at + "/"}, 0, `^$`},
		{"flag before environment", []string{"CHRONOS_ADMIN=" + nowhere}, []string{"--admin", at}, 0, `^$`},
		{"store by flag before environment", []string{"CHRONOS_ADMIN=" + nowhere}, []string{"--store", store}, 0, `^$`},
		{"node before store", []string{"CHRONOS_ADMIN=" + at, "CHRONOS_STORE=" + store}, nil, 0, `CHRONOS_ADMIN says`},
		{"environment before file", []string{"CHRONOS_STORE=" + store}, []string{
			"--config", file("admin: " + nowhere),
		}, 0, `^$`},
		{
			"listener of the file", nil,
			[]string{"--config", file("admin-listen: " + listen)},
			0,
			`^chronos: asking the node at ` + at + `: no --admin is set, and \S+chronos\.yaml:1: admin-listen is ` +
				`there\n$`,
		},
		{
			"journal", nil,
			[]string{"--config", file("store: journal:j\nadmin-listen: " + listen)},
			0,
			`asking the node at ` + at + `: journal:j is a journal, of which each node has its part, and `,
		},
		{
			"journal alone", nil,
			[]string{"--store", "journal:j"},
			2,
			`ask a node, with --admin http://127\.0\.0\.1:8080, or set admin-listen as its nodes have it`,
		},
		{"no URL", nil, []string{"--admin", "there"}, 2, `--admin is there: it must be a URL`},
		{"off", nil, []string{"--config", file("admin-listen: off")}, 2, `admin-listen is off: name the address`},
	} {
		got := beside(t, nowhere, c.env, append([]string{"count"}, c.args...)...)
		if got.code != c.code || !regexp.MustCompile(c.says).MatchString(got.stderr) {
			t.Errorf("%s: exit code %d, want %d: %s", c.name, got.code, c.code, got.stderr)
		}
	}
}

// TestAskNodeOfFile has a node hold its SQLite file, and asks for what waits with nothing but the settings of the node:
// its listener is asked, with its token and its certificate.
func TestAskNodeOfFile(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	certificate, key := newAuthority(t).issue(t)
	listen := freeAddress(t)
	token := writeFile(t, "token", "a-secret-of-mine\n")
	file := writeFile(t, "chronos.yaml", `
store: sqlite:`+filepath.Join(t.TempDir(), "chronos.db")+`
brokers: `+address+`
migrate: true
admin-listen: `+listen+`
admin-allow: [read, control]
admin-tls-cert: `+writeFile(t, "cert.pem", certificate)+`
admin-tls-key: `+writeFile(t, "key.pem", key)+`
admin-token-file: `+token+`
`)
	p := start(t, "run", "--config", file)
	p.stderr.await(t, logged("INFO", "started"), 1)
	if got := run(t, "", "count", "--config", file); got.code != 0 ||
		!strings.Contains(got.stderr, "asking the node at https://"+listen+": sqlite:") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	if err := os.WriteFile(token, []byte("ann read 0123456789abcdef\nbob read 0123456789abcdeg\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := run(t, "", "count", "--config", file, "--token-file", token); got.code != 2 || strings.Contains(
		got.stderr, "0123456789abcde") || !strings.Contains(got.stderr, "it must hold one token and nothing else") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	// Of several tokens none is taken: the audit would name somebody else.
	if got := run(t, "", "count", "--config", file); got.code != 1 || !strings.Contains(got.stderr, "token") {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// TestLookMakesNoFile asks that a command which looks at a store that is not there says so, and makes none.
func TestLookMakesNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	store := "sqlite:" + filepath.Join(folder, "nosuch.db")
	for _, command := range []string{
		"count", "list", "get x", "top --once", "pause a", "resume a", "cancel --lane a", "queue list",
		"migrate status", "export --to -", "bind", "rewind --topic a --to-earliest", "doctor",
	} {
		args := append(strings.Fields(command), "--store", store)
		got := run(t, "", args...)
		if got.code == 0 || !strings.Contains(got.stdout+got.stderr, "no such file") &&
			!strings.Contains(got.stdout+got.stderr, "not there") {
			t.Errorf("chronos %s exits with %d: %s%s", command, got.code, got.stdout, got.stderr)
		}
	}
	if left := files(t, folder); len(left) != 0 {
		t.Errorf("there is %v", left)
	}
}

// TestOneVoiceAboutStores has commands meet a database server that is not there. All say the same, in words, and none
// says what the driver says.
func TestOneVoiceAboutStores(t *testing.T) {
	t.Parallel()
	store := "postgres://u@" + freeAddress(t) + "/db"
	want := "chronos: reach the store " + store + ": it refuses connections: it does not run, or does not run there\n"
	for _, command := range []string{
		"count", "list", "get x", "top --once", "pause a", "cancel --lane a", "queue list", "migrate status",
		"migrate up", "export --to -", "bind", "rewind --topic chronos.in --to-earliest",
	} {
		got := run(t, "", append(strings.Fields(command), "--store", store)...)
		if got.code != 1 || got.stderr != want {
			t.Errorf("chronos %s exits with %d: %s%s", command, got.code, got.stdout, got.stderr)
		}
	}
}

// TestNamesThatDoNotExist asks a node, and a store itself, about things that are not there. All commands say so, and
// end with the same code; of what is there and empty none does.
func TestNamesThatDoNotExist(t *testing.T) {
	t.Parallel()
	p, _ := dev(t, "--admin-listen", "127.0.0.1:0")
	at := p.stdout.await(t, `A page, metrics and health: (http://\S+)`, 1)[1]
	store := "sqlite:" + filepath.Join(t.TempDir(), "own.db")
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatal(got.stderr)
	}
	for _, place := range []string{"--admin " + at, "--store " + store} {
		for _, command := range []string{
			"resume chronos.outt", "count --lane chronos.outt", "list --lane chronos.outt",
			"cancel --lane chronos.outt", "get nosuch", "queue get nosuch", "queue delete nosuch",
			"task get 20000000-0000-4000-8000-000000000001", "task delete 20000000-0000-4000-8000-000000000001",
			"task complete 20000000-0000-4000-8000-000000000001",
			"action get 20000000-0000-4000-8000-000000000001",
		} {
			got := run(t, "", strings.Fields(command+" "+place)...)
			if got.code != 4 || !regexp.MustCompile(`(?im)^chronos: (there is no|no) `).MatchString(got.stderr) ||
				strings.Contains(got.stderr, "status") {
				t.Errorf("chronos %s %s exits with %d: %s%s", command, place, got.code, got.stdout, got.stderr)
			}
		}
	}
	for command, code := range map[string]int{
		"resume chronos.out": 0, "count --lane chronos.out": 0, "list --lane chronos.out": 0, "pause chronos.outt": 4,
		"cancel --lane chronos.out": 4, // there is none to cancel
	} {
		got := run(t, "", strings.Fields(command+" --admin "+at)...)
		if got.code != code || strings.Contains(got.stderr, "there is no lane") != (command == "pause chronos.outt") {
			t.Errorf("chronos %s exits with %d, want %d: %s%s", command, got.code, code, got.stdout, got.stderr)
		}
	}
	// What is paused is there, whatever waits.
	says(t, 0, `^Paused`, "pause", "retired", "--store", store)
	says(t, 0, `^Resumed`, "resume", "retired", "--store", store)
	says(t, 4, `^chronos: there is no lane retired in the store`, "resume", "retired", "--store", store)
}
