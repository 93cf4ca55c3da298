package main_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// operate runs a command with the settings of the nodes, and returns its exit code and all that it says.
func (s *service) operate(t *testing.T, brokers string, args ...string) (code int, said string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), s.binary, append(args,
		"--brokers", brokers, "--group", s.input, "--store", s.database.String(),
		"--input-topic", s.input, "--output-topic", s.output, "--dead-letter-topic", s.dead)...)
	out, err := command.CombinedOutput()
	if command.ProcessState == nil {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(out)
}

// pausing pauses the output topic, or resumes it: command is "pause" or "resume".
func (s *service) pausing(t *testing.T, command string) {
	t.Helper()
	if got := run(t, "", command, s.output, "--store", s.database.String()); got.code != 0 {
		t.Fatalf("%s: exit code %d, stderr %q", command, got.code, got.stderr)
	}
}

// batch returns a record for each number from first up to, not including, end, due at an instant.
func (s *service) batch(first, end int, due time.Time) []*kgo.Record {
	var records []*kgo.Record
	for i := first; i < end; i++ {
		id := fmt.Sprintf("m-%05d", i)
		records = append(records, s.record(id, due, []byte(id)))
	}
	return records
}

// times returns how often each key has come.
func times(all []arrived) map[string]int {
	count := map[string]int{}
	for _, a := range all {
		count[string(a.Key)]++
	}
	return count
}

// atLeast returns a condition: that many records have come.
func atLeast(want int) func([]arrived) bool {
	return func(all []arrived) bool { return len(all) >= want }
}

// TestEndToEndRewind rewinds while two nodes run: what has fired fires once more, what waits fires once at its time,
// and a cluster that the store does not belong to is refused beside them.
func TestEndToEndRewind(t *testing.T) {
	t.Parallel()
	s := newService(t)
	nodes := []*nodeProcess{s.start(t), s.start(t)}
	for _, n := range nodes { // One that comes to its first partition later knows of no lineage before the rewind.
		n.log.await(t, `"msg":"reading partitions from`, 1)
	}
	const fired, waiting = 300, 200
	s.submit(t, s.batch(0, fired, time.Now())...)
	s.read(t, s.output, patience, distinct(fired))
	s.pausing(t, "pause") // what falls due before the rewind, on a slow machine, waits for it
	due := time.Now().Add(10 * time.Second)
	s.submit(t, s.batch(fired, fired+waiting, due)...)
	s.drainedTo(t, waiting)

	_, elsewhere := cluster(t, "")
	if code, said := s.operate(t, elsewhere, "run", "--create-topics", "--log-format", "json"); code != 1 ||
		!strings.Contains(said, `"msg":"the node can't go on","error":"the store belongs to consumer group `+s.input) {
		t.Errorf("a node of another cluster exits with %d and says\n%s", code, said)
	}

	rewind := []string{"rewind", "--topic", s.input, "--to-earliest"}
	code, said := s.operate(t, s.brokers, rewind...)
	if code != 0 || !strings.Contains(said, "Up to 500 records are taken in again.") ||
		!strings.Contains(said, "Nothing was changed.") {
		t.Fatalf("rewind exits with %d and says\n%s", code, said)
	}
	if code, said = s.operate(t, s.brokers, append(rewind, "--yes")...); code != 0 ||
		!regexp.MustCompile(`Done: lineage \d+ of the store has begun\.`).MatchString(said) {
		t.Fatalf("rewind --yes exits with %d and says\n%s", code, said)
	}
	t.Logf("it says\n%s", said)
	s.pausing(t, "resume")
	got := s.read(t, s.output, 2*patience, atLeast(2*fired+waiting))
	for id, count := range times(got) {
		if want := map[bool]int{true: 2, false: 1}[id < fmt.Sprintf("m-%05d", fired)]; count != want {
			t.Errorf("%s came %d times, want %d", id, count, want)
		}
	}
	for _, a := range got {
		if string(a.Key) >= fmt.Sprintf("m-%05d", fired) && a.Timestamp.Before(due.Truncate(time.Millisecond)) {
			t.Errorf("%s is early", a.Key)
		}
	}
	s.drained(t)
	s.rewindTo(t, len(got))
	for _, n := range nodes {
		if code := n.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("a node that was asked to stop exits with %d", code)
		}
		if log := n.log.String(); !strings.Contains(log, "the store was set back or rewound") ||
			!strings.Contains(log, "the store has caught up") {
			t.Errorf("a node does not tell of the rewind:\n%s", log)
		}
	}
}

// rewindTo rewinds to an instant, and one partition to an offset: what was submitted from there on fires once more, and
// nothing else. So many records have come before.
func (s *service) rewindTo(t *testing.T, before int) {
	t.Helper()
	const fresh = 60
	records := s.batch(1000, 1000+fresh, time.Now())
	s.submit(t, records...)
	before += fresh
	s.read(t, s.output, patience, atLeast(before))
	s.drained(t)

	from, last := records[0].Timestamp, records[0]
	for _, r := range records {
		if r.Timestamp.Before(from) {
			from = r.Timestamp
		}
		if r.Partition == last.Partition && r.Offset > last.Offset {
			last = r
		}
	}
	for _, c := range []struct {
		to   []string
		want map[string]int // how often the fresh ones have come then, other than once before
		more int
	}{
		{[]string{"--to-time", from.UTC().Format(time.RFC3339Nano)}, map[string]int{}, fresh},
		{
			[]string{"--partition", fmt.Sprint(last.Partition), "--to-offset", fmt.Sprint(last.Offset)},
			map[string]int{string(last.Key): 3},
			1,
		},
	} {
		code, said := s.operate(t, s.brokers, append([]string{"rewind", "--topic", s.input, "--yes"}, c.to...)...)
		if code != 0 || !strings.Contains(said, "of the store has begun.") {
			t.Fatalf("rewind %v exits with %d and says\n%s", c.to, code, said)
		}
		before += c.more
		count := times(s.read(t, s.output, 2*patience, atLeast(before)))
		s.drained(t)
		for _, r := range records {
			want := 2
			if n, other := c.want[string(r.Key)]; other {
				want = n
			}
			if got := count[string(r.Key)]; got != want {
				t.Errorf("rewind %v: %s has come %d times, want %d", c.to, r.Key, got, want)
			}
		}
	}
}

// TestEndToEndRestore goes back to a copy of the database that was made while nodes were stopped: what came after the
// copy is taken in again by itself and fires, and what fired in between is the only duplicate.
func TestEndToEndRestore(t *testing.T) {
	t.Parallel()
	s := newService(t)
	node := s.start(t)
	due := time.Now().Add(45 * time.Second) // after the second node has gone
	const each = 100
	s.submit(t, append(s.batch(0, each, time.Now()), s.batch(each, 2*each, due)...)...)
	s.read(t, s.output, patience, distinct(each))
	s.drainedTo(t, each)
	node.end(t, syscall.SIGTERM)
	backup := s.copyDatabase(t)

	node = s.start(t)
	s.submit(t, append(s.batch(2*each, 3*each, time.Now()), s.batch(3*each, 4*each, due)...)...)
	s.read(t, s.output, patience, distinct(2*each))
	s.drainedTo(t, 2*each)
	node.end(t, syscall.SIGTERM)

	s.database = backup
	node = s.start(t)
	got := s.read(t, s.output, 3*patience, atLeast(5*each))
	s.drained(t)
	for id, count := range times(got) {
		between := id >= fmt.Sprintf("m-%05d", 2*each) && id < fmt.Sprintf("m-%05d", 3*each)
		if want := map[bool]int{true: 2, false: 1}[between]; count != want {
			t.Errorf("%s came %d times, want %d", id, count, want)
		}
	}
	if n := len(times(got)); n != 4*each {
		t.Errorf("%d messages came, want %d", n, 4*each)
	}
	if log := node.log.String(); !strings.Contains(log, "the store was set back: nothing fires until") {
		t.Errorf("the node does not tell of the restore:\n%s", log)
	}
}

// TestEndToEndRestoreBeforeAdoption goes back to a database of before its upgrade from a version without positions,
// which adopts committed offsets: those of now are of nodes that have gone on since, and must not be adopted. What
// came meanwhile comes again.
func TestEndToEndRestoreBeforeAdoption(t *testing.T) {
	t.Parallel()
	s := newService(t)
	node := s.start(t)
	const fired, lost = 100, 50
	s.submit(t, s.batch(0, fired, time.Now())...)
	s.read(t, s.output, patience, distinct(fired))
	s.pausing(t, "pause") // until the first node has gone, however long that takes
	s.submit(t, s.batch(fired, fired+lost, time.Now())...)
	s.drainedTo(t, lost)
	if code := node.end(t, syscall.SIGTERM); code != 0 {
		t.Fatalf("the node exits with %d", code)
	}
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // what counts was waited for
	// What is left has not been taken in, as far as the store knows.
	if _, err := db.ExecContext(t.Context(), `
		TRUNCATE messages, partitions, positions; UPDATE store SET adopting = true`); err != nil {
		t.Fatal(err)
	}

	s.pausing(t, "resume")
	node = s.start(t)
	got := s.read(t, s.output, 3*patience, atLeast(2*fired+lost))
	s.drained(t)
	for id, count := range times(got) {
		if want := map[bool]int{true: 2, false: 1}[id < fmt.Sprintf("m-%05d", fired)]; count != want {
			t.Errorf("%s came %d times, want %d", id, count, want)
		}
	}
	if log := node.log.String(); !strings.Contains(log, "set back to before it adopted committed offsets") {
		t.Errorf("the node does not tell of it:\n%s", log)
	}
}

// drainedTo waits until the store has that many messages.
func (s *service) drainedTo(t *testing.T, want int) {
	t.Helper()
	tooLate := time.Now().Add(patience)
	for left := -1; left != want; {
		if left = s.stored(t); left != want && time.Now().After(tooLate) {
			t.Fatalf("%d messages are in the store, want %d", left, want)
		}
	}
}

// copyDatabase copies the database, which nobody may use meanwhile, and returns the URL of the copy.
func (s *service) copyDatabase(t *testing.T) *url.URL {
	t.Helper()
	db, err := sql.Open("pgx", s.server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // what counts was waited for
	name := strings.TrimPrefix(s.database.Path, "/")
	if _, err := db.ExecContext(t.Context(), "CREATE DATABASE "+name+"_copy TEMPLATE "+name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.dropDatabase(t, name+"_copy") })
	copied := *s.database
	copied.Path += "_copy"
	return &copied
}

// server returns the URL of the server's own database.
func (s *service) server(t *testing.T) string {
	t.Helper()
	own := *s.database
	own.Path = "/postgres"
	return own.String()
}

// dropDatabase drops a database, whoever uses it.
func (s *service) dropDatabase(t *testing.T, name string) {
	t.Helper()
	db, err := sql.Open("pgx", s.server(t))
	if err == nil {
		_, err = db.ExecContext(context.WithoutCancel(t.Context()), "DROP DATABASE "+name+" WITH (FORCE)")
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Error(err)
	}
}
