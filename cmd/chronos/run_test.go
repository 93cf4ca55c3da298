package main_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// cluster starts an empty broker at address; at a free one if it is empty.
func cluster(t *testing.T, address string) (*kfake.Cluster, string) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.DefaultNumPartitions(1),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return listener, nil }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, listener.Addr().String()
}

// The ports of freeAddress: above those of the servers that package chaos/servers starts, and below those that the
// kernel gives out by itself. So nobody else takes one while its test does not listen on it.
const (
	firstPort = 32_000
	lastPort  = 32_767
)

// ports counts the ports that were tried.
var ports atomic.Uint32

// freeAddress returns an address that nobody listens on, another one each time.
func freeAddress(t *testing.T) string {
	t.Helper()
	start := uint32(os.Getpid()) * 61 // Another process of this test begins somewhere else.
	for range lastPort - firstPort {
		address := fmt.Sprintf("127.0.0.1:%d", firstPort+(start+ports.Add(1))%(lastPort-firstPort+1))
		if listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", address); err == nil {
			_ = listener.Close() // It was only a look.
			return address
		}
	}
	t.Fatalf("somebody listens on every port from %d to %d", firstPort, lastPort)
	return ""
}

// logged returns the pattern of a line of the log.
func logged(level, message string) string {
	return `"level":"` + level + `","msg":"` + regexp.QuoteMeta(message) + `"`
}

// TestRunService runs a node with what it creates by itself, delivers messages of two routes, and stops it by a
// signal.
func TestRunService(t *testing.T) {
	c, address := cluster(t, "")
	file := writeFile(t, "chronos.yaml", `
store: sqlite:`+filepath.Join(t.TempDir(), "chronos.db")+`
brokers: `+address+`
migrate: true
create-topics: true
create-partitions: 3
routes:
  - {input: a.in, output: a.out, dead-letter: dead}
  - {input: b.in, output: b.out}
`)
	p := startProcess(t, "run", "--config", file)
	id := p.stderr.await(t, `"msg":"started","node_id":"([0-9a-f-]{36})"`, 1)[1]
	for _, topic := range []string{"a.in", "a.out", "dead", "b.in", "b.out"} {
		if partitions := c.PartitionInfos(topic); len(partitions) != 3 {
			t.Errorf("topic %s has %d partitions, want 3", topic, len(partitions))
		}
	}
	soon := time.Now().Add(200 * time.Millisecond)
	records := []*kgo.Record{submission("1", soon, []byte("a")), submission("1", soon, []byte("b")), {Topic: "b.in"}}
	records[0].Topic, records[1].Topic = "a.in", "b.in"
	produce(t, address, records...)
	for _, name := range []string{"a", "b"} {
		got := consume(t, address, name+".out", 1)[0]
		if string(got.Value) != name || len(got.Headers) != 0 {
			t.Errorf("on %s.out is %q with headers %v", name, got.Value, got.Headers)
		}
	}
	p.stderr.await(t, logged("WARN", "rejected a record")+`,"topic":"b.in","partition":\d,"offset":\d,`+
		`"reason":"missing_id","detail":"there is no header chronosMessageId","copied_to":"nowhere"`, 1)
	began := time.Now()
	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 || time.Since(began) > 10*time.Second {
		t.Errorf("exit code %d after %v", code, time.Since(began))
	}
	p.stderr.await(t, logged("INFO", "stopping: finishing what is in flight"), 1)
	p.stderr.await(t, logged("INFO", "stopped")+`,"submitted":3,"enqueued":2,"fired":2,`+
		`"duplicates_ignored":0,"rejected":1,"dead_lettered":0,`, 1)
	if p.stdout.String() != "" || !strings.Contains(p.stderr.String(), id) {
		t.Errorf("stdout %q, stderr\n%s", p.stdout, p.stderr)
	}
}

// TestRunRefusesOldSchema asks for a sentence and exit code 1, and that "migrate up" helps. The sentence is a line of
// the log, in its format: what collects the log must not miss the line that says why the node has ended. In a log
// that is text it is the line of any other command.
func TestRunRefusesOldSchema(t *testing.T) {
	_, address := cluster(t, "")
	store := "sqlite:" + filepath.Join(t.TempDir(), "chronos.db")
	args := []string{"run", "--brokers", address, "--store", store, "--create-topics"}
	got := run(t, "", args...)
	sentence := regexp.QuoteMeta(`"level":"ERROR","msg":"the node can't go on","error":"`) +
		`the database schema is empty, but this chronos needs version \d+: ` +
		`run \\"chronos migrate up\\", or start with --migrate"}\n$`
	if got.code != 1 || !regexp.MustCompile(sentence).MatchString(got.stderr) {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	asText := run(t, "", append(args, "--log-format", "text")...)
	if asText.code != 1 || !strings.Contains(asText.stderr, "\nchronos: the database schema is empty, ") {
		t.Errorf("as text: exit code %d: %s", asText.code, asText.stderr)
	}
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 {
		t.Fatalf("migrate up: exit code %d: %s", got.code, got.stderr)
	}
	p := start(t, args...)
	p.stderr.await(t, logged("INFO", "started"), 1)
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

// TestRunRefusesNewSchema gives the store a migration of a later release.
func TestRunRefusesNewSchema(t *testing.T) {
	_, address := cluster(t, "")
	path := filepath.Join(t.TempDir(), "chronos.db")
	if got := run(t, "", "migrate", "up", "--store", "sqlite:"+path); got.code != 0 {
		t.Fatalf("migrate up: exit code %d: %s", got.code, got.stderr)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(),
		"INSERT INTO chronos_migrations (version_id, is_applied) VALUES (9999, true)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	got := run(t, "", "run", "--brokers", address, "--store", "sqlite:"+path, "--create-topics", "--migrate")
	if got.code != 1 || !strings.Contains(got.stderr, `"error":"the database schema is at version 9999, but `) {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
}

// TestRunWaitsForTopics starts a node before its topics: it says once which are missing, and starts when they are
// there.
func TestRunWaitsForTopics(t *testing.T) {
	c, address := cluster(t, "")
	if err := c.CreateTopic("chronos.in", 1, nil); err != nil {
		t.Fatal(err)
	}
	p := start(t, "run", "--brokers", address, "--store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"),
		"--migrate", "--dead-letter-topic", "dead")
	warning := logged("WARN", "topics chronos.out and dead do not exist: waiting until somebody creates what is "+
		"missing, as --create-topics would")
	p.stderr.await(t, warning, 1)
	for _, topic := range []string{"chronos.out", "dead"} {
		if err := c.CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	p.stderr.await(t, logged("INFO", "started"), 1)
	if n := len(regexp.MustCompile(`do not exist`).FindAllString(p.stderr.String(), -1)); n != 1 {
		t.Errorf("it says %d times that topics do not exist", n)
	}
}

// TestRunWaitsForKafka starts a node before Kafka, and stops another one that still waits.
func TestRunWaitsForKafka(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	var nodes []*program
	for range 2 {
		nodes = append(nodes, start(t, "run", "--brokers", address, "--create-topics", "--migrate",
			"--store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db")))
	}
	for _, p := range nodes {
		p.stderr.await(t, logged("WARN", "Kafka unavailable; retrying")+`,"call":"look up topics",`, 1)
	}
	nodes[1].stop()
	if code := nodes[1].code(t); code != 0 {
		t.Errorf("exit code %d: %s", code, nodes[1].stderr)
	}
	cluster(t, address)
	nodes[0].stderr.await(t, logged("INFO", "started"), 1)
	nodes[0].stderr.await(t, logged("INFO", "Kafka available again"), 1)
	if n := strings.Count(nodes[0].stderr.String(), "navailable"); n != 1 {
		t.Errorf("it says %d times that Kafka is unavailable:\n%s", n, nodes[0].stderr)
	}
}

// TestRunWaitsForPostgres starts a node without its store. That it says so once, and stops when it is told to, is what
// can be seen without a server.
func TestRunWaitsForPostgres(t *testing.T) {
	_, address := cluster(t, "")
	p := start(t, "run", "--brokers", address, "--create-topics", "--store", "postgres://u@"+freeAddress(t)+"/db")
	p.stderr.await(t, logged("WARN", "store unavailable; retrying")+`,"call":"check the schema",`, 1)
	p.stop()
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}

// TestRunOutage takes Kafka away from a node that runs: it says so once, and when it is back.
func TestRunOutage(t *testing.T) {
	t.Parallel()
	folder, address := t.TempDir(), freeAddress(t)
	first := start(t, "dev", "--listen", address, "--data-dir", folder)
	first.address(t)
	p := start(t, "run", "--brokers", address, "--group", "g", "--output-topic", "out", "--create-topics", "--migrate",
		"--store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"))
	p.stderr.await(t, logged("INFO", "started"), 1)
	produce(t, address, submission("1", time.Now().Add(3*time.Second), []byte("x")))
	p.stderr.await(t, `"msg":"partitions assigned"`, 1)
	first.stop()
	first.code(t)
	p.stderr.await(t, logged("WARN", "Kafka unavailable; retrying"), 1)
	start(t, "dev", "--listen", address, "--data-dir", folder).address(t)
	if got := consume(t, address, "out", 1)[0]; string(got.Value) != "x" {
		t.Errorf("%q arrived", got.Value)
	}
	p.stderr.await(t, logged("INFO", "Kafka available again"), 1)
	if n := strings.Count(p.stderr.String(), "Kafka unavailable"); n != 1 {
		t.Errorf("it says %d times that Kafka is unavailable:\n%s", n, p.stderr)
	}
}

// TestSecondSignalEndsAtOnce freezes Kafka, so that the node takes seconds to leave its group, and does not wait for
// that.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	broker := startProcess(t, "dev", "--listen", "127.0.0.1:0")
	address := broker.address(t)
	p := startProcess(t, "run", "--brokers", address, "--group", "g", "--migrate",
		"--store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"))
	p.stderr.await(t, `"msg":"partitions assigned"`, 1)
	broker.signal(t, syscall.SIGSTOP)
	p.signal(t, syscall.SIGTERM)
	p.stderr.await(t, logged("INFO", "stopping: finishing what is in flight"), 1)
	// What comes before the first signal has been dealt with is not the second one, so there are more.
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for ; p.command.Process.Signal(syscall.SIGTERM) == nil; <-again.C {
		continue
	}
	p.code(t)
	if status := p.command.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v, want by the signal:\n%s", p.command.ProcessState, p.stderr)
	}
}

func TestMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chronos.db")
	store := "sqlite:" + path
	missing := run(t, "", "migrate", "status", "--store", store)
	want := "chronos: there is no store " + store + ": no such file or directory; \"chronos migrate up\" " +
		"makes a new one\n"
	if missing.code != 1 || missing.stderr != want {
		t.Errorf("status without a file: exit code %d, %q, want %q", missing.code, missing.stderr, want)
	}
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 ||
		!regexp.MustCompile(`^(applied \d+ \w+\n)+$`).MatchString(got.stdout) {
		t.Errorf("first up: exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	if got := run(t, "", "migrate", "up", "--store", store); got.code != 0 || got.stdout != "up to date already\n" {
		t.Errorf("second up: exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	if got := run(t, "", "migrate", "status", "--store", store); got.code != 0 ||
		!regexp.MustCompile(`^(\d+  \w+ +applied \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\n)+$`).MatchString(got.stdout) {
		t.Errorf("status: exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	for args, want := range map[string]string{
		"": " jsonb ", " --store " + aStore: " jsonb ", " --store " + store: " BLOB ",
	} {
		got := run(t, "", strings.Fields("migrate print"+args)...)
		if got.code != 0 || !strings.Contains(got.stdout, want) {
			t.Errorf("print%s: exit code %d, %q, %q", args, got.code, got.stdout, got.stderr)
		}
	}
	none := run(t, "", "migrate", "up")
	if none.code != 2 || !strings.HasPrefix(none.stderr, "chronos: --store is not set") {
		t.Errorf("up without a store: exit code %d, %q", none.code, none.stderr)
	}
	away := run(t, "", "migrate", "up", "--store", "postgres://u:secret@127.0.0.1:1/db")
	want = "chronos: reach the store postgres://u:xxxxx@127.0.0.1:1/db: "
	if away.code != 1 || !strings.HasPrefix(away.stderr, want) {
		t.Errorf("up without a server: exit code %d, %q", away.code, away.stderr)
	}
}

// TestMigrateStatusOfEmptyStore asks that a schema that is not up to date is exit code 1.
func TestMigrateStatusOfEmptyStore(t *testing.T) {
	path := writeFile(t, "chronos.db", "")
	got := run(t, "", "migrate", "status", "--store", "sqlite:"+path)
	if got.code != 1 || !strings.Contains(got.stdout, "not applied") ||
		!strings.HasPrefix(got.stderr, "chronos: the database schema is empty") {
		t.Errorf("exit code %d, %q, %q", got.code, got.stdout, got.stderr)
	}
}

// TestRunStopsBeforeItStarts stops a node at every stage of its start, and asks for exit code 0.
func TestRunStopsBeforeItStarts(t *testing.T) {
	_, address := cluster(t, "")
	for _, after := range []time.Duration{0, time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			got := runUntil(ctx, "", "run", "--brokers", address, "--migrate", "--create-topics",
				"--store", "sqlite:"+filepath.Join(t.TempDir(), "chronos.db"))
			if got.code != 0 || strings.Contains(got.stderr, "chronos: ") {
				t.Errorf("exit code %d: %s", got.code, got.stderr)
			}
		})
	}
}
