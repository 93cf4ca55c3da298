package main_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// says runs a command with a store of its own, and asks for its exit code and for what it says.
func (s *service) says(t *testing.T, code int, pattern, command string, args ...string) {
	t.Helper()
	got := run(t, "", append(append(strings.Fields(command), "--store", s.database.String()), args...)...)
	if said := got.stdout + got.stderr; got.code != code || !regexp.MustCompile(pattern).MatchString(said) {
		t.Errorf("chronos %s exits with %d, want %d, and says\n%s\nwant %s", command, got.code, code, said, pattern)
	}
}

// move exports the store, and imports it into another one, which is that of the service from then on. Each step is
// looked at before, and done twice.
func (s *service) move(t *testing.T, to *url.URL, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), file)
	const unchanged = `Nothing was changed\. The same command with --yes does it\.\n`
	s.says(t, 0, `It would be sealed.*\n(Nodes that run on it.*\n)?`+unchanged, "export --to "+file)
	s.says(t, 0, `Sealed, as export \S+, in lineage \d+\.\n(?s:.*)Done: \S+ has \d+ messages, 4 positions`,
		"export --yes --to "+file)
	s.says(t, 0, `It stays sealed, and is written once more.*\n(?s:.*)Done: `, "export --yes --to "+file+".again.gz")
	if left, err := filepath.Glob(file + "*.partial"); err != nil || len(left) > 0 {
		t.Errorf("%v is left behind: %v", left, err)
	}
	source := s.database
	s.database = to
	s.says(t, 0, "applied", "migrate up")
	s.says(t, 0, `is complete\. It is export .*\nThe store \S+ would belong to consumer group .*\n`+unchanged,
		"import "+file)
	s.says(t, 0, `Done: lineage \d+ of the store \S+ has begun`, "import --yes "+file)
	s.says(t, 0, `there is nothing to do`, "import --yes "+file+".again.gz")
	s.database = source
	sealed := s.start(t)
	select {
	case <-sealed.done:
	case <-time.After(patience):
		t.Fatal("a node starts on a store that is sealed")
	}
	if code := sealed.command.ProcessState.ExitCode(); code != 1 ||
		!strings.Contains(sealed.log.String(), `the store was sealed by \"chronos export\"`) {
		t.Errorf("a node that is started on a sealed store exits with %d and says\n%s", code, sealed.log)
	}
	s.database = to
}

// TestEndToEndMove moves from Postgres, while two nodes run, to SQLite, and from there to another database. Records
// come in before, between and after. Goal: each message comes out once, not before its time, byte for byte; a series
// goes on; the nodes end by themselves; and none starts on a store that was left.
func TestEndToEndMove(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.database
	nodes := []*nodeProcess{s.start(t), s.start(t)}
	const each = 60
	now := time.Now()
	soon, late := now.Add(20*time.Second).Truncate(time.Millisecond), now.Add(35*time.Second).Truncate(time.Millisecond)
	records := append(s.batch(0, each, now), s.batch(each, 2*each, soon)...)
	records = append(records, s.batch(2*each, 3*each, late)...)
	odd := map[string][]byte{}
	for i, value := range payloads() {
		id := fmt.Sprintf("odd-%d", i)
		odd[id] = value
		records = append(records, s.record(id, late, value))
	}
	records = append(records, s.record("tick", soon, []byte("tick"), kgo.RecordHeader{
		Key: "chronosRepeat", Value: []byte("every 8s"),
	}, kgo.RecordHeader{Key: "chronosRepeatCount", Value: []byte("3")},
		kgo.RecordHeader{Key: "chronosMissed", Value: []byte("all")}))
	s.submit(t, records...)
	s.read(t, s.output, patience, distinct(each))
	s.drainedTo(t, len(records)-each)

	s.move(t, &url.URL{Scheme: "sqlite", Opaque: filepath.Join(t.TempDir(), "moved.db")}, "waiting.zst")
	for _, n := range nodes {
		select {
		case <-n.done:
		case <-time.After(patience):
			t.Fatal("a node goes on although its store is sealed")
		}
		if code := n.command.ProcessState.ExitCode(); code != 1 {
			t.Errorf("a node whose store was sealed exits with %d", code)
		}
	}
	s.submit(t, s.batch(3*each, 4*each, soon)...)
	node := s.start(t)
	s.read(t, s.output, patience, distinct(3*each+1))
	if code := node.end(t, os.Interrupt); code != 0 {
		t.Errorf("the node on SQLite exits with %d", code)
	}

	s.move(t, database(t), "waiting.jsonl")
	s.submit(t, s.batch(4*each, 5*each, late)...)
	s.start(t)
	all := s.read(t, s.output, 2*patience, distinct(5*each+1+len(odd)))
	s.drained(t)
	all = s.read(t, s.output, patience, atLeast(len(all)+3-times(all)["tick"]))
	for id, count := range times(all) {
		if want := map[bool]int{true: 3, false: 1}[id == "tick"]; count != want {
			t.Errorf("%s came %d times, want %d", id, count, want)
		}
	}
	for _, a := range all {
		id := string(a.Key)
		var number int
		_, err := fmt.Sscanf(id, "m-%05d", &number)
		due := late
		if err == nil && number < 2*each || err == nil && number >= 3*each && number < 4*each || id == "tick" {
			due = soon
		}
		if (err != nil || number >= each) && a.Timestamp.Before(due) {
			t.Errorf("%s came at %v, before %v", id, a.Timestamp, due)
		}
		if value, is := odd[id]; is && string(a.Value) != string(value) {
			t.Errorf("%s came with %q, want %q", id, a.Value, value)
		}
	}
	s.database = first
	s.says(t, 0, `If that export was imported anywhere, .* come out twice\.\nNothing was changed`, "export --undo")
}
