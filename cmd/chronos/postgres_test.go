package main_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// database creates an empty database on the test server and returns its URL.
func database(tb testing.TB) *url.URL {
	tb.Helper()
	server := os.Getenv("CHRONOS_TEST_POSTGRES")
	switch {
	case server != "":
	case testing.Short():
		tb.Skip("without CHRONOS_TEST_POSTGRES there is no server to test on")
	default:
		tb.Fatal("set CHRONOS_TEST_POSTGRES or run make test")
	}
	db, err := sql.Open("pgx", server)
	if err != nil {
		tb.Fatal(err)
	}
	name := "chronos_test_" + strings.ToLower(rand.Text())
	if _, err := db.ExecContext(tb.Context(), "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		over := context.WithoutCancel(tb.Context())
		if _, err := db.ExecContext(over, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Error(err)
		}
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	address, err := url.Parse(server)
	if err != nil {
		tb.Fatalf("CHRONOS_TEST_POSTGRES is not a URL: %v", err)
	}
	address.Path = "/" + name
	return address
}

// gate is a way to a server that can be closed: then connections are refused, and those that were there end.
type gate struct {
	address, server string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]bool
}

// newGate returns a closed gate.
func newGate(t *testing.T, server string) *gate {
	t.Helper()
	g := &gate{address: freeAddress(t), server: server, open: map[net.Conn]bool{}}
	t.Cleanup(g.shut)
	return g
}

// unlock opens the gate.
func (g *gate) unlock(t *testing.T) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	g.mu.Lock()
	g.listener = listener
	g.mu.Unlock()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // shut
			}
			server, err := net.Dial("tcp", g.server) //nolint:noctx // shut closes it.
			if err != nil {
				_ = client.Close()
				continue
			}
			if !g.admit(listener, client, server) {
				_, _ = client.Close(), server.Close()
				return
			}
			pipe := func(to, from net.Conn) {
				_, _ = io.Copy(to, from) // until one of them is closed
				_ = to.Close()
			}
			go pipe(client, server)
			go pipe(server, client)
		}
	}()
}

// admit takes note of the two ends of a connection, unless the gate was shut since it was accepted. On a busy machine
// it may be, while the server is dialled: such a connection would go on behind a gate that is shut, and a node would
// find its store back, and then away once more.
func (g *gate) admit(by net.Listener, client, server net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != by {
		return false
	}
	g.open[client], g.open[server] = true, true
	return true
}

// shut closes the gate.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
	for connection := range g.open {
		_ = connection.Close()
	}
	clear(g.open)
}

// through returns the URL of the database by way of the gate, without its password, and a file with that.
func through(t *testing.T, g *gate, database *url.URL) (store, password string) {
	t.Helper()
	gated := *database
	secret, _ := database.User.Password()
	gated.User, gated.Host = url.User(database.User.Username()), g.address
	return gated.String(), writeFile(t, "password", secret+"\n")
}

// TestRunOnPostgres starts a node before its database, migrates it when it is there, takes it away for a while and
// brings it back: every message arrives, and every outage is said once.
func TestRunOnPostgres(t *testing.T) {
	t.Parallel()
	database := database(t)
	g := newGate(t, database.Host)
	store, password := through(t, g, database)
	_, address := cluster(t, "")
	p := start(t, "run", "--brokers", address, "--create-topics", "--migrate", "--store", store,
		"--store-password-file", password)
	p.stderr.await(t, logged("WARN", "store unavailable; retrying")+`,"call":"check the schema"`, 1)
	g.unlock(t)
	p.stderr.await(t, logged("INFO", "migrated the store")+`,"version":1,`, 1)
	p.stderr.await(t, logged("INFO", "started"), 1)
	p.stderr.await(t, logged("INFO", "store available again"), 1)

	produce(t, address, submission("1", time.Now().Add(time.Second), []byte("first")))
	if got := consume(t, address, "chronos.out", 1)[0]; string(got.Value) != "first" {
		t.Errorf("%q arrived", got.Value)
	}

	g.shut()
	p.stderr.await(t, logged("WARN", "store unavailable; retrying"), 2)
	produce(t, address, submission("2", time.Now().Add(time.Second), []byte("second")))
	g.unlock(t)
	if got := consume(t, address, "chronos.out", 2)[1]; string(got.Value) != "second" {
		t.Errorf("%q arrived", got.Value)
	}
	p.stderr.await(t, logged("INFO", "store available again"), 2)
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if n := strings.Count(p.stderr.String(), "unavailable"); n != 2 {
		t.Errorf("it says %d times that the store is unavailable, want twice:\n%s", n, p.stderr)
	}
}

// TestRunRefusesOldPostgres starts a node before its database, which then turns out to have no schema.
func TestRunRefusesOldPostgres(t *testing.T) {
	database := database(t)
	g := newGate(t, database.Host)
	store, password := through(t, g, database)
	_, address := cluster(t, "")
	p := start(t, "run", "--brokers", address, "--create-topics", "--store", store, "--store-password-file", password)
	p.stderr.await(t, logged("WARN", "store unavailable; retrying"), 1)
	g.unlock(t)
	if code := p.code(t); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	p.stderr.await(t, `"error":"the database schema is empty, but this chronos needs version \d+: `+
		`run \\"chronos migrate up\\", or start with --migrate"}\n`, 1)
}

// TestMigratePostgres migrates a real database by the commands.
func TestMigratePostgres(t *testing.T) {
	store := database(t).String()
	for _, c := range []struct {
		args, stdout, stderr string
		code                 int
	}{
		{
			"status",
			`^1  hanger    not applied\n2  messages  not applied\n` +
				`3  operate   not applied\n4  control   not applied\n` +
				`5  answers   not applied\n6  lines     not applied\n7  queues    not applied\n` +
				`8  paths     not applied\n$`,
			`^chronos: the database schema is empty`, 1,
		},
		{
			"up",
			`^applied 1 hanger\napplied 2 messages\napplied 3 operate\napplied 4 control\napplied 5 answers\n` +
				`applied 6 lines\napplied 7 queues\napplied 8 paths\n$`,
			`^$`, 0,
		},
		{"up", `^up to date already\n$`, `^$`, 0},
		{"status", `^1  hanger    applied \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n2  messages  applied `, `^$`, 0},
	} {
		got := run(t, "", "migrate", c.args, "--store", store)
		if got.code != c.code || !regexp.MustCompile(c.stdout).MatchString(got.stdout) ||
			!regexp.MustCompile(c.stderr).MatchString(got.stderr) {
			t.Errorf("migrate %s: exit code %d, stdout %q, stderr %q", c.args, got.code, got.stdout, got.stderr)
		}
	}
}

// TestRunRefusedByPostgres starts nodes that the server will never let in as they are: each ends by itself, with exit
// code 1 and a sentence that says what to do.
func TestRunRefusedByPostgres(t *testing.T) {
	t.Parallel()
	right := database(t)
	_, address := cluster(t, "")
	nowhere, nobody := *right, *right
	nowhere.Path = "/there_is_no_such_database"
	nobody.User = url.UserPassword("there_is_no_such_user", "x")
	for sentence, store := range map[string]*url.URL{
		"create the database, or set the right one in --store": &nowhere,
		"set the right (user|password)":                        &nobody,
	} {
		got := run(t, "", "run", "--brokers", address, "--create-topics", "--store", store.String())
		last := got.stderr[strings.LastIndex(strings.TrimSpace(got.stderr), "\n")+1:]
		if got.code != 1 || !regexp.MustCompile(
			`"msg":"the node can't go on","error":"check the schema: Postgres says .*: `+sentence).MatchString(last) {
			t.Errorf("exit code %d, and the last line is %s", got.code, last)
		}
	}
}
