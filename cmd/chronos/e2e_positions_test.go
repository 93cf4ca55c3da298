package main_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// What becomes of positions on real servers: docs/CORRECTNESS.md has the table.

// fresh gives the service a producer that knows nothing of topics yet. One that knows a topic which was deleted may
// send nothing to the one that was created in its place.
func (s *service) fresh(tb testing.TB) {
	tb.Helper()
	producer, err := kgo.NewClient(
		kgo.SeedBrokers(s.brokers), kgo.ProducerBatchMaxBytes(16<<20), kgo.DisableClientMetrics())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(producer.Close)
	s.producer = producer
}

// recreate deletes a topic, waits until Kafka has forgotten what the group has committed for it, and creates it again.
// It returns what the group had committed.
func (s *service) recreate(tb testing.TB, topic string, partitions int32) kadm.Offsets {
	tb.Helper()
	admin := kadm.NewClient(s.producer)
	committed := s.committed(tb, topic)
	if _, err := admin.DeleteTopic(tb.Context(), topic); err != nil {
		tb.Fatal(err)
	}
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for tooLate := time.Now().Add(patience); len(s.committed(tb, topic)) > 0; <-ticker.C {
		if time.Now().After(tooLate) {
			tb.Fatalf("Kafka still has what the group has committed for %s", topic)
		}
	}
	s.cluster.CreateTopic(tb, topic, partitions)
	s.fresh(tb)
	return committed
}

// committed returns what the group has committed for a topic.
func (s *service) committed(tb testing.TB, topic string) kadm.Offsets {
	tb.Helper()
	responses, err := kadm.NewClient(s.producer).FetchOffsets(tb.Context(), s.input)
	if err != nil {
		tb.Fatal(err)
	}
	offsets := kadm.Offsets{}
	for _, response := range responses.Sorted() {
		if response.Topic == topic && response.At >= 0 {
			offsets.Add(response.Offset)
		}
	}
	return offsets
}

// commitAgain commits what the group has committed for a topic that is no more, by its name. So it is when a broker was
// away while the topic was deleted, and when one before Kafka 4.1 takes a commit that was on its way.
func (s *service) commitAgain(tb testing.TB, committed kadm.Offsets) {
	tb.Helper()
	if len(committed) == 0 {
		tb.Fatal("nothing was committed: that shows nothing")
	}
	err := kadm.NewClient(s.producer).CommitAllOffsets(tb.Context(), s.input, committed)
	if err != nil {
		tb.Fatal(err)
	}
}

// once checks that each key has come as often as it is wanted, and no other key.
func once(t *testing.T, got []arrived, want func(key string) int) {
	t.Helper()
	for key, count := range times(got) {
		if want(key) != count {
			t.Errorf("%s came %d times, want %d", key, count, want(key))
		}
	}
}

// routes writes a configuration with two routes from inputs of their own to the one output.
func (s *service) routes(t *testing.T, second string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "routes.yaml")
	text := fmt.Sprintf("routes:\n- {input: %s, output: %s}\n- {input: %s, output: %s}\n", s.input, s.output, second,
		s.output)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// An input topic is deleted and created again, twice: while nodes run, and while none does and the group still has what
// was committed for the former one, although the new one has come further by then. Goal: the new topic is read from its
// first record on, what was taken in from the former one comes out at its time, the other input goes on, nothing comes
// twice, and no store is taken for one that was set back.
func TestEndToEndRecreatedInput(t *testing.T) {
	t.Parallel()
	s := newService(t)
	second := s.input + "2"
	s.cluster.CreateTopic(t, second, 2)
	file := s.routes(t, second)
	start := func() *nodeProcess {
		return s.launch(t, "--brokers", s.brokers, "--group", s.input, "--config", file)
	}
	other := func(first, end int) []*kgo.Record {
		records := s.batch(first, end, time.Now())
		for _, r := range records {
			r.Topic = second
		}
		return records
	}
	nodes := []*nodeProcess{start(), start()}
	const waiting = 50
	due := time.Now().Add(70 * time.Second) // after both
	s.submit(t, append(append(s.batch(0, 100, time.Now()), s.batch(100, 100+waiting, due)...), other(200, 250)...)...)
	s.read(t, s.output, patience, distinct(150))
	s.drainedTo(t, waiting)
	s.caughtUp(t)

	s.recreate(t, s.input, 4)
	s.submit(t, append(s.batch(1000, 1400, time.Now()), other(250, 300)...)...)
	s.read(t, s.output, patience, distinct(600))
	s.drainedTo(t, waiting)
	s.caughtUp(t)
	said := ""
	for _, n := range nodes {
		if code := n.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("a node that was asked to stop exits with %d", code)
		}
		said += n.log.String()
	}

	former := s.recreate(t, s.input, 4)
	s.submit(t, append(s.batch(2000, 2800, time.Now()), other(300, 350)...)...)
	s.commitAgain(t, former)
	last := start()
	got := s.read(t, s.output, 3*patience, distinct(1450+waiting))
	s.drained(t)
	s.caughtUp(t)
	once(t, got, func(string) int { return 1 })
	for _, a := range got {
		key := string(a.Key)
		if key >= "m-00100" && key < "m-00150" && a.Timestamp.Before(due.Truncate(time.Millisecond)) {
			t.Errorf("%s is early", key)
		}
	}
	said += last.log.String()
	if !strings.Contains(said, "an input topic was deleted") {
		t.Error("no node says that an input topic was deleted")
	}
	if strings.Contains(said, "set back") {
		t.Errorf("the store was not set back, and a node says so:\n%s", said)
	}
}

// The same with journals, which cannot be set back: a node that took the former commits for ones of the new topic would
// stop at an error, and take in nothing of any input.
func TestJournalRecreatedInput(t *testing.T) {
	t.Parallel()
	s := newInputsService(t)
	s.outputs[1] = s.outputs[0]
	file := s.routes(t, s.second)
	if err := os.Rename(file, s.file); err != nil {
		t.Fatal(err)
	}
	journals := [2]string{s.input + ".journal", s.second + ".journal"}
	submit := func(topic, part string, many int) {
		var records []*kgo.Record
		for i := range many {
			id := fmt.Sprintf("%s-%04d", part, i)
			r := s.record(id, time.Now(), []byte(id))
			r.Topic = topic
			records = append(records, r)
		}
		s.submit(t, records...)
	}
	first := s.both(t, "1", journals[0], journals[1])
	submit(s.input, "first", 200)
	submit(s.second, "other", 50)
	seen := s.consume(t)
	seen.await(t, 250)
	s.caughtUp(t)

	s.recreate(t, s.input, 4)
	submit(s.input, "second", 400)
	submit(s.second, "more", 50)
	seen.await(t, 700)
	s.caughtUp(t)
	if code := first.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a node that was asked to stop exits with %d", code)
	}

	former := s.recreate(t, s.input, 4)
	submit(s.input, "third", 800)
	submit(s.second, "last", 50)
	s.commitAgain(t, former)
	s.both(t, "2", journals[0], journals[1])
	seen.await(t, 1550)
	count := map[string]int{}
	for _, value := range s.all(t) {
		if count[value]++; count[value] > 1 {
			t.Errorf("%s came %d times", value, count[value])
		}
	}
	s.caughtUp(t)
}

// Kafka deletes records behind the position while no node runs. Goal: nodes go on with the first record there is, what
// was taken in comes out, and people are told of each partition from where to where its records are lost.
func TestEndToEndRetention(t *testing.T) {
	t.Parallel()
	s := newService(t)
	one := s.start(t)
	const waiting = 40
	due := time.Now().Add(25 * time.Second)
	s.submit(t, append(s.batch(0, 100, time.Now()), s.batch(100, 100+waiting, due)...)...)
	s.read(t, s.output, patience, distinct(100))
	s.drainedTo(t, waiting)
	s.caughtUp(t)
	if code := one.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a node that was asked to stop exits with %d", code)
	}

	before := s.committed(t, s.input)
	s.submit(t, s.batch(1000, 1200, time.Now())...) // which nobody takes in
	admin := kadm.NewClient(s.producer)
	ends, err := admin.ListEndOffsets(t.Context(), s.input)
	if err != nil {
		t.Fatal(err)
	}
	responses, err := admin.DeleteRecords(t.Context(), ends.Offsets())
	if err == nil {
		err = responses.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.submit(t, s.batch(2000, 2100, time.Now())...)

	one = s.start(t)
	got := s.read(t, s.output, 2*patience, distinct(200+waiting))
	s.drained(t)
	s.caughtUp(t)
	once(t, got, func(key string) int {
		if key >= "m-01000" && key < "m-01200" {
			return 0
		}
		return 1
	})
	before.Each(func(o kadm.Offset) {
		end, _ := ends.Lookup(s.input, o.Partition)
		if end.Offset == o.At {
			return
		}
		one.log.await(t, `"msg":"Kafka has deleted records before they were taken in[^"]*"[^\n]*"partition":`+
			fmt.Sprintf(`%d,"from":%d,"to":%d[,}]`, o.Partition, o.At, end.Offset), 1)
	})
}

// An input topic gets a partition while nodes run. Goal: it is read from its first record on, within seconds, and
// nothing is lost of what came there before a node knew of it.
func TestEndToEndAddedPartition(t *testing.T) {
	t.Parallel()
	s := newService(t)
	nodes := []*nodeProcess{s.start(t), s.start(t)}
	s.submit(t, s.batch(0, 100, time.Now())...)
	s.read(t, s.output, patience, distinct(100))
	s.cluster.AddPartitions(t, s.input, 6)
	records := s.batch(1000, 1300, time.Now())
	for i, r := range records {
		r.Partition = int32(i % 6)
	}
	producer, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.DisableClientMetrics(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(producer.Close)
	if err := producer.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	got := s.read(t, s.output, patience, distinct(400))
	s.drained(t)
	s.caughtUp(t)
	once(t, got, func(string) int { return 1 })
	said := nodes[0].log.String() + nodes[1].log.String()
	if strings.Contains(said, "set back") {
		t.Errorf("the store was not set back, and a node says so:\n%s", said)
	}
}

// The database is set back to an earlier state of it while nodes run, and from then on no record comes: the partitions
// are idle. Goal: nodes notice by themselves, take in again what the store has lost, and fire nothing until they have;
// what had fired in between is the only duplicate; what was cancelled in between does not come out, although it is
// overdue before its cancel is taken in again; and people are told when it begins and when it is over.
func TestEndToEndRestoreUnderNodes(t *testing.T) {
	t.Parallel()
	s := newService(t)
	nodes := []*nodeProcess{s.start(t), s.start(t)}
	for _, n := range nodes { // a session that ends while the store is migrated ends its node
		n.log.await(t, `"msg":"started"`, 1)
	}
	due := time.Now().Add(60 * time.Second) // after the restore
	const each = 100
	s.submit(t, append(s.batch(0, each, time.Now()), s.batch(each, 2*each, due)...)...)
	s.read(t, s.output, patience, distinct(each))
	s.drainedTo(t, each)
	s.caughtUp(t)
	s.underNodes(t, "CREATE DATABASE %[1]s_backup TEMPLATE %[1]s")
	name := strings.TrimPrefix(s.database.Path, "/")
	t.Cleanup(func() { s.dropDatabase(t, name+"_gone") })

	never := time.Now().Add(8 * time.Second)
	s.submit(t, s.batch(4*each, 5*each, never)...)
	s.submit(t, append(s.batch(2*each, 3*each, time.Now()), s.batch(3*each, 4*each, due)...)...)
	cancels := s.batch(4*each, 5*each, never)
	for _, r := range cancels {
		r.Headers = []kgo.RecordHeader{
			{Key: node.HeaderID, Value: r.Key}, {Key: node.HeaderAction, Value: []byte("cancel")},
		}
	}
	s.submit(t, cancels...)
	s.read(t, s.output, patience, distinct(2*each))
	s.drainedTo(t, 2*each)
	s.caughtUp(t)
	if wait := time.Until(never); wait > 0 {
		<-time.After(wait)
	}
	s.underNodes(t, "ALTER DATABASE %[1]s RENAME TO %[1]s_gone", "ALTER DATABASE %[1]s_backup RENAME TO %[1]s")

	got := s.read(t, s.output, 3*patience, atLeast(5*each))
	s.drained(t)
	once(t, got, func(key string) int {
		switch {
		case key >= fmt.Sprintf("m-%05d", 4*each):
			return 0
		case key >= fmt.Sprintf("m-%05d", 2*each) && key < fmt.Sprintf("m-%05d", 3*each):
			return 2
		}
		return 1
	})
	if n := len(times(got)); n != 4*each {
		t.Errorf("%d messages came, want %d", n, 4*each)
	}
	said := ""
	for _, n := range nodes {
		if code := n.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("a node that was asked to stop exits with %d", code)
		}
		n.log.await(t, `"msg":"the store was set back or rewound|"msg":"the store was set back and does not know it`, 1)
		said += n.log.String()
	}
	for _, want := range []string{"the store was set back: nothing fires until", "the store has caught up"} {
		if !strings.Contains(said, want) {
			t.Errorf("no node says %q", want)
		}
	}
}

// underNodes does something about the database for which nobody may be connected to it, while nodes run: they are cut
// off, and come back by themselves.
func (s *service) underNodes(t *testing.T, statements ...string) {
	t.Helper()
	db, err := sql.Open("pgx", s.server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // what counts was waited for
	name := strings.TrimPrefix(s.database.Path, "/")
	for _, statement := range append([]string{"ALTER DATABASE %[1]s ALLOW_CONNECTIONS false"}, statements...) {
		// One that was about to connect may have come through.
		for try := 0; ; try++ {
			if _, err := db.ExecContext(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "+
				"WHERE datname LIKE $1", name+"%"); err != nil {
				t.Fatal(err)
			}
			_, err := db.ExecContext(t.Context(), fmt.Sprintf(statement, name))
			if err == nil {
				break
			}
			if try == 20 {
				t.Fatal(err)
			}
		}
	}
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()),
		fmt.Sprintf("ALTER DATABASE %s ALLOW_CONNECTIONS true", name)); err != nil {
		t.Fatal(err)
	}
}

// The store is one that knows nothing, and the group has come far: the database is the wrong one, or a new one. Goal: a
// node refuses, in a sentence, and changes nothing; an operator says where to begin, and it begins there.
func TestEndToEndStoreWithoutPositions(t *testing.T) {
	t.Parallel()
	s := newService(t)
	first := s.start(t)
	s.submit(t, s.batch(0, 100, time.Now())...)
	s.read(t, s.output, patience, distinct(100))
	s.drained(t)
	s.caughtUp(t)
	if code := first.end(t, syscall.SIGTERM); code != 0 {
		t.Errorf("a node that was asked to stop exits with %d", code)
	}
	before := s.committed(t, s.input)
	s.database = database(t)
	code, said := s.operate(t, s.brokers, "run", "--migrate", "--log-format", "json")
	if code != 1 || !strings.Contains(said, fmt.Sprintf("consumer group %s has committed offsets on 4 partitions, and "+
		"the store has never taken in anything", s.input)) {
		t.Fatalf("a node with an empty store exits with %d and says\n%s", code, said)
	}
	if after := s.committed(t, s.input); !reflect.DeepEqual(after, before) {
		t.Errorf("the group has committed %v after that, and %v before", after, before)
	}
	if code, said = s.operate(t, s.brokers, "bind", "--adopt", "--yes"); code != 0 {
		t.Fatalf("bind exits with %d and says\n%s", code, said)
	}
	s.start(t)
	s.submit(t, s.batch(100, 200, time.Now())...)
	got := s.read(t, s.output, patience, distinct(200))
	s.drained(t)
	once(t, got, func(string) int { return 1 })
}
