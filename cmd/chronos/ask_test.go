package main_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
	t.Parallel()
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
	says(t, 4, `^chronos: no message with id other waits`, "get", "other", "--admin", at)
	says(t, 0, `"lane": "chronos\.out"`, "list", "-o", "json", "--admin", at)
	says(t, 0, `^0 shown, 1 looked at\.\n$`, "list", "--key", "nobody's", "--admin", at)
	says(t, 2, `--until is tomorrow: `, "list", "--until", "tomorrow", "--admin", at)
	says(t, 4, `^chronos: there is no lane nobodys`, "pause", "nobodys", "--admin", at)
	says(t, 2, `either a lane or --intake`, "pause", "--admin", at)

	says(t, 0, `^Paused (just now|\S+s ago) by \S+ \(a test\)\.\n$`,
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
}

// TestDead puts back what a node has rejected, after a dry run, and no more than was meant.
func TestDead(t *testing.T) {
	t.Parallel()
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
	dead(0, `(?s)key +key of two\n.*header +own = 1\n.*value +two\n.*1 dead letter`,
		"show", "chronos.dead", "--id", "two")
	dead(4, `topic nothing does not exist`, "list", "nothing")
	dead(0, `(?s)1 dead letter: .*1 go back to chronos\.in\.\n1 of them would be rejected again, .*\nNothing was`,
		"replay", "chronos.dead", "--id", "one")
	dead(0, `there are more, see --limit`, "replay", "chronos.dead", "--limit", "1")
	dead(1, `there are more than --limit 1 .* nothing was written`, "replay", "chronos.dead", "--limit", "1", "--yes")
	dead(4, `^chronos: topic elsewhere, which 2 go back to, does not exist`,
		"replay", "chronos.dead", "--to", "elsewhere")
	dead(0, `Done: 1 are written`, "replay", "chronos.dead", "--id", "one", "--to", "chronos.out", "--yes")
	r := consume(t, address, "chronos.out", 1)[0]
	if got := fmt.Sprint(string(r.Key), string(r.Value), len(r.Headers)); got != "key of oneone3" {
		t.Errorf("what was put back is %s: %v", got, r.Headers)
	}
	dead(0, `Done: 1 are written`, "replay", "chronos.dead", "--id", "two", "--yes")
	consume(t, address, "chronos.dead", 3) // it is rejected again: the cause is not gone
	p.stop()
}

// TestDeadBehindTransaction has an application write to a dead-letter topic in a transaction, which ends with a mark
// that is no record.
func TestDeadBehindTransaction(t *testing.T) {
	_, address := dev(t, "--admin-listen", "off")
	c := client(t, address, kgo.TransactionalID("t"))
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	letter := &kgo.Record{Topic: "chronos.dead", Headers: []kgo.RecordHeader{
		{Key: "chronosMessageId", Value: []byte("x")}, {Key: "chronosReason", Value: []byte("too_far")},
	}}
	if err := c.ProduceSync(ctx, letter).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := c.EndTransaction(ctx, kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	says(t, 0, `(?s)x +too_far.*1 dead letter: too_far 1\.\n$`, "dead", "list", "chronos.dead", "--brokers", address)
}

// TestDeadReplayEndsHalfWay has a replay meet a topic that is not there. It says which dead letters were written, and
// going on as it says writes every other one once.
func TestDeadReplayEndsHalfWay(t *testing.T) {
	_, address := cluster(t, "")
	c := client(t, address)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(c)
	if _, err := admin.CreateTopics(ctx, 2, 1, nil, "dead", "in"); err != nil {
		t.Fatal(err)
	}
	const count, gone = 700, 650 // in each of two partitions; the last ones of the second came from elsewhere
	var letters []*kgo.Record
	for i := range 2 * count {
		source := "in"
		if i >= count+gone {
			source = "gone"
		}
		letters = append(letters, &kgo.Record{
			Topic: "dead", Partition: int32(i / count), Value: fmt.Append(nil, i), Headers: []kgo.RecordHeader{
				{Key: "chronosReason", Value: []byte("too_far")}, {Key: "chronosSourceTopic", Value: []byte(source)},
			},
		})
	}
	manual := client(t, address, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer manual.Close()
	if err := manual.ProduceSync(ctx, letters...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	replay := []string{"dead", "replay", "dead", "--limit", "5000", "--yes", "--brokers", address}
	got := run(t, "", replay...)
	if got.code != 1 || !strings.Contains(got.stdout, "\n500 of 1400 are written, up to offset 499 of partition 0.\n"+
		"1000 of 1400 are written, up to offset 299 of partition 1.\n") {
		t.Errorf("exit code %d, %q", got.code, got.stdout)
	}
	if want := "1350 of 1400 are written (partition 0: 0 to 699; partition 1: 0 to 649); these 50 may be or may not " +
		"(partition 1: 650 to 699); all behind them are not: go on with the same command and --after 0:699,1:649\n"; //
	!strings.HasSuffix(got.stderr, want) {
		t.Errorf("it says %q, want %q", got.stderr, want)
	}
	if _, err := admin.CreateTopics(ctx, 1, 1, nil, "gone"); err != nil {
		t.Fatal(err)
	}
	says(t, 0, `50 dead letters.*\n50 go back to gone\.\nDone: 50 are written\.\n$`,
		append(replay, "--after", "0:699,1:649")...)
	values := map[string]int{}
	for topic, n := range map[string]int{"in": count + gone, "gone": count - gone} {
		for _, r := range consume(t, address, topic, n) {
			values[string(r.Value)]++
		}
	}
	for i := range 2 * count {
		if values[fmt.Sprint(i)] != 1 {
			t.Errorf("dead letter %d was written %d times", i, values[fmt.Sprint(i)])
		}
	}
	says(t, 2, `--after is x: it must be PARTITION:OFFSET`, append(replay, "--after", "x")...)
}
