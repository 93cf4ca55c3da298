package main_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// says runs a command and asks for its exit code and what it prints: a pattern for the output, or for the errors.
func says(t *testing.T, code int, pattern string, args ...string) string {
	t.Helper()
	got := run(t, "", args...)
	said := got.stdout
	if code != 0 {
		said = got.stderr
	}
	if got.code != code || !regexp.MustCompile(pattern).MatchString(said) {
		t.Errorf("chronos %q exits with %d, want %d; it says\n%s%s\nwant %s",
			args, got.code, code, got.stdout, got.stderr,
			pattern)
	}
	return said
}

// TestAskNode asks a node as a person does: what waits, a pause in which what falls due stays, and what it says then.
func TestAskNode(t *testing.T) {
	p, address := dev(t, "--admin-listen", "127.0.0.1:0")
	at := p.stdout.await(t, `A page, metrics and health: (http://\S+)`, 1)[1]
	produce(t, address, submission("later", time.Now().Add(time.Hour), []byte("the value")))
	for end := time.Now().Add(patience); run(t, "", "get", "later", "--admin", at).code != 0; {
		if time.Now().After(end) {
			t.Fatal("the message is not taken in")
		}
	}
	shown := says(t, 0, `(?s)id +later\n +lane +chronos\.out\n +state +waiting\n.*in 1h0?m?\n.*attempts +0\n`,
		"get", "later", "--admin", at)
	if regexp.MustCompile("the value").MatchString(shown) {
		t.Errorf("get shows the value, and nobody asked for it:\n%s", shown)
	}
	says(t, 0, `value +the value\n`, "get", "later", "--payload", "--admin", at)
	says(t, 1, `^chronos: no message with id other waits`, "get", "other", "--admin", at)
	says(t, 0, `"lane": "chronos\.out"`, "list", "-o", "json", "--admin", at)
	says(t, 0, `^0 shown, 1 looked at\.\n$`, "list", "--key", "nobody's", "--admin", at)
	says(t, 2, `--until is tomorrow: `, "list", "--until", "tomorrow", "--admin", at)
	says(t, 1, `status 404: there is no lane nobodys`, "pause", "nobodys", "--admin", at)
	says(t, 2, `either a lane or --intake`, "pause", "--admin", at)

	says(t, 0, `^Paused 0s ago by \S+ \(a test\)\.\n$|^Paused \d+ms ago by \S+ \(a test\)\.\n$`,
		"pause", "chronos.out", "--reason", "a test", "--admin", at)
	p.stderr.await(t, `audit: somebody has changed something .*action=pause`, 1)
	p.stderr.await(t, `paused: nothing comes out of this lane`, 1)
	produce(t, address, submission("due", time.Now(), nil))
	for end := time.Now().Add(patience); ; {
		got := run(t, "", "list", "--state", "overdue", "--admin", at)
		if regexp.MustCompile(`due +chronos\.out +overdue`).MatchString(got.stdout) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("it is not listed as overdue: %s%s", got.stdout, got.stderr)
		}
	}
	says(t, 0, `(?s)chronos\.out +2 .*PAUSED .*ready`, "top", "--admin", at)
	says(t, 0, `^Resumed`, "resume", "chronos.out", "--admin", at)
	consume(t, address, "chronos.out", 1)
	says(t, 0, `^It was not paused\.\n$`, "resume", "chronos.out", "--admin", at)
}

// TestAskStore asks the store itself, while no node runs, and is told where to ask while a node has its file.
func TestAskStore(t *testing.T) {
	t.Parallel()
	address := clusterWithTopics(t)
	store := "sqlite:" + filepath.Join(t.TempDir(), "chronos.db")
	d := &deployment{[]string{"--brokers", address, "--store", store}}
	produce(t, address, submission("gone", time.Now(), nil), submission("waits", time.Now().Add(time.Hour), nil))
	d.fires(t, address, 1)
	says(t, 0, `(?s)chronos\.out +1 +0 +0 `, "count", "--store", store)
	says(t, 0, `^Paused .*\n$`, "pause", "--intake", "--store", store)
	says(t, 0, `The intake is PAUSED`, "count", "--store", store)
	produce(t, address, submission("stays", time.Now(), nil))
	p := startProcess(t, append([]string{"run"}, d.settings...)...)
	p.stderr.await(t, `paused: nothing is taken in`, 1)
	says(t, 1, `in use by another process; if a node has it, ask that: --admin`, "count", "--store", store)
	p.stop()
	p.code(t)
	says(t, 0, `^1 shown|(?s)waits.*\n1 shown`, "list", "--store", store)
	says(t, 0, `^Resumed`, "resume", "--intake", "--store", store)
	d.fires(t, address, 2)
	says(t, 2, `--admin is there: it must be a URL`, "count", "--admin", "there")
	says(t, 2, `--store is not set`, "count")
}

// TestDead puts back what a node has rejected, after a dry run, and no more than was meant.
func TestDead(t *testing.T) {
	p, address := dev(t, "--admin-listen", "off")
	bad := func(id, deadline string) *kgo.Record {
		return &kgo.Record{
			Topic: "chronos.in", Key: []byte("key of " + id), Value: []byte(id), Headers: []kgo.RecordHeader{
				{Key: "chronosMessageId", Value: []byte(id)},
				{Key: "own", Value: []byte("1")},
				{Key: "chronosDeadline", Value: []byte(deadline)},
			},
		}
	}
	produce(t, address, bad("one", "tomorrow"), bad("two", "soon"))
	consume(t, address, "chronos.dead", 2)
	dead := func(code int, pattern string, args ...string) {
		t.Helper()
		says(t, code, pattern, append(append([]string{"dead"}, args...), "--brokers", address)...)
	}
	dead(0, `(?s)one +invalid_deadline +chronos\.in.*2 dead letters: invalid_deadline 2\.\n$`, "list", "chronos.dead")
	dead(0, `^0 dead letters\.\n$`, "list", "chronos.dead", "--reason", "other")
	dead(0, `^0 dead letters\.\n$`, "list", "chronos.dead", "--since", "2999-01-01T00:00:00Z")
	dead(0, `(?s)key +key of two\n.*header +own = 1\n.*value +two\n.*1 dead letters`,
		"show", "chronos.dead", "--id", "two")
	dead(1, `topic nothing does not exist`, "list", "nothing")
	dead(0, `(?s)1 dead letters.*1 go back to chronos\.in\.\nNothing was changed\.`,
		"replay", "chronos.dead", "--id", "one")
	dead(0, `there are more, see --limit`, "replay", "chronos.dead", "--limit", "1")
	dead(1, `there are more than --limit 1 .* nothing was written`, "replay", "chronos.dead", "--limit", "1", "--yes")
	dead(0, `2 go back to elsewhere`, "replay", "chronos.dead", "--to", "elsewhere")
	dead(0, `Done: 1 are written`, "replay", "chronos.dead", "--id", "one", "--to", "chronos.out", "--yes")
	r := consume(t, address, "chronos.out", 1)[0]
	if got := fmt.Sprint(string(r.Key), string(r.Value), len(r.Headers)); got != "key of oneone3" {
		t.Errorf("what was put back is %s: %v", got, r.Headers)
	}
	dead(0, `Done: 1 are written`, "replay", "chronos.dead", "--id", "two", "--yes")
	consume(t, address, "chronos.dead", 3) // it is rejected again: the cause is not gone
	p.stop()
}
