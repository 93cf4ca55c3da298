package main_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// TestEndToEndMoveJournal exports a journal while two nodes fire from it, gives its input topic more partitions, and
// imports into a journal that has as many. Goal: the nodes end by themselves; a consumer that reads what was committed
// sees each message once, in spite of the move; what is cancelled after it, by its key, does not come out; and a series
// goes on.
func TestEndToEndMoveJournal(t *testing.T) {
	t.Parallel()
	s := newJournalService(t)
	does := func(pattern, store string, args ...string) {
		t.Helper()
		got := run(t, "", append(args, "--store", store, "--brokers", s.brokers, "--input-topic", s.input)...)
		if said := got.stdout + got.stderr; got.code != 0 || !strings.Contains(said, pattern) {
			t.Fatalf("chronos %v: exit code %d, %s\nwant %s", args, got.code, said, pattern)
		}
	}
	small, large := s.store(), s.store()+".large"
	does("with 4 partitions", small, "migrate", "up")
	nodes := []*nodeProcess{s.node(t), s.node(t)}
	for _, n := range nodes {
		n.log.await(t, `"msg":"owns a partition of the journal"`, 1)
	}

	const messages, late = 2000, 100
	begin := time.Now().Add(5 * time.Second)
	after := begin.Add(45 * time.Second) // when the move is over, on a slow machine as well
	var records []*kgo.Record
	var want []string
	for i := range messages {
		id := fmt.Sprintf("message-%04d", i)
		records = append(records, s.record(id, begin.Add(time.Duration(i)*5*time.Millisecond), []byte(id)))
		want = append(want, id)
	}
	for i := range late {
		id := fmt.Sprintf("never-%03d", i)
		records = append(records, s.record(id, after, []byte(id)))
	}
	records = append(records, s.record("tick", begin, []byte("tick"), kgo.RecordHeader{
		Key: "chronosRepeat", Value: []byte("every 5s"),
	}, kgo.RecordHeader{Key: "chronosRepeatCount", Value: []byte("12")},
		kgo.RecordHeader{Key: "chronosMissed", Value: []byte("all")}))
	for range 12 {
		want = append(want, "tick")
	}
	s.submit(t, records...)
	seen := s.consume(t)
	seen.await(t, messages/3)

	file := filepath.Join(t.TempDir(), "waiting.zst")
	does("Sealed, as export", small, "export", "--yes", "--to", file)
	for _, n := range nodes {
		select {
		case <-n.done:
		case <-time.After(patience):
			t.Fatal("a node goes on although its journal is sealed")
		}
		if code := n.command.ProcessState.ExitCode(); code != 1 ||
			!strings.Contains(n.log.String(), `the store was sealed by \"chronos export\"`) {
			t.Errorf("a node whose journal was sealed exits with %d and says\n%s", code, n.log)
		}
	}
	does("It stays sealed, and is written once more", small, "export", "--yes", "--to", file+".again")

	s.cluster.AddPartitions(t, s.input, 7)
	does("with 7 partitions", large, "migrate", "up")
	does("has begun. Nodes may start on it", large, "import", "--yes", "--place", "key", file)
	does("there is nothing to do", large, "import", "--yes", "--place", "key", file+".again")
	var cancels []*kgo.Record
	for i := range late {
		cancel := s.record(fmt.Sprintf("never-%03d", i), after, nil)
		cancel.Headers = []kgo.RecordHeader{
			{Key: node.HeaderID, Value: cancel.Key}, {Key: node.HeaderAction, Value: []byte("cancel")},
		}
		cancels = append(cancels, cancel)
	}
	// A producer that has not been started since may not know of the new partitions, and send to the old ones.
	fresh, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.DisableClientMetrics())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fresh.Close)
	if err := fresh.ProduceSync(t.Context(), cancels...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.node(t, "--store", large)
	seen.await(t, len(want))
	if wait := time.Until(after.Add(time.Second)); wait > 0 {
		<-time.After(wait)
	}
	came := s.all(t)
	slices.Sort(came)
	slices.Sort(want)
	if !slices.Equal(came, want) {
		t.Errorf("%d messages came out, %d different ones, want %d; the last ones are %q", len(came),
			len(slices.Compact(slices.Clone(came))), len(want), came[max(0, len(came)-20):])
	}
}
