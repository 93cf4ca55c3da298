package main_test

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// journalService is a service whose store is a journal in Kafka.
type journalService struct {
	*service

	folder string
	nodes  int
}

func newJournalService(tb testing.TB) *journalService {
	tb.Helper()
	return &journalService{service: newTopics(tb), folder: tb.TempDir()}
}

func (s *journalService) store() string { return "journal:" + s.input + ".journal" }

// node starts a node with a local copy of its own. The first one, the third, and so on are standbys of the others.
func (s *journalService) node(tb testing.TB, more ...string) *nodeProcess {
	tb.Helper()
	s.nodes++
	if s.nodes%2 == 1 {
		more = append(more, "--standby")
	}
	return s.process(tb, append([]string{
		"--store", s.store(), "--data-dir", filepath.Join(s.folder, fmt.Sprint(s.nodes)), "--brokers", s.brokers,
		"--group", s.input, "--input-topic", s.input, "--output-topic", s.output, "--dead-letter-topic", s.dead,
	}, more...)...)
}

// command runs a command of the binary to its end.
func (s *journalService) command(tb testing.TB, args ...string) (said string, code int) {
	tb.Helper()
	command := exec.CommandContext(tb.Context(), s.binary, append(args,
		"--store", s.store(), "--brokers", s.brokers, "--input-topic", s.input)...)
	out, err := command.CombinedOutput()
	if err != nil && command.ProcessState == nil {
		tb.Fatal(err)
	}
	return string(out), command.ProcessState.ExitCode()
}

// committed is a consumer of the output that reads what was committed.
type committed struct {
	*kgo.Client

	came []string
}

func (s *journalService) consume(tb testing.TB) *committed {
	tb.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.ConsumeTopics(s.output), kgo.DisableClientMetrics(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return &committed{Client: c}
}

// await reads until n messages have come.
func (c *committed) await(tb testing.TB, n int) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 2*time.Minute)
	defer cancel()
	for len(c.came) < n {
		c.PollFetches(ctx).EachRecord(func(r *kgo.Record) { c.came = append(c.came, string(r.Value)) })
		if ctx.Err() != nil {
			tb.Fatalf("%d messages came within two minutes, want %d", len(c.came), n)
		}
	}
}

// all returns what such a consumer sees from the beginning up to the end.
func (s *journalService) all(tb testing.TB) (came []string) {
	tb.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.ConsumeTopics(s.output), kgo.DisableClientMetrics(),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.KeepControlRecords())
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	ends, err := kadm.NewClient(c).ListEndOffsets(tb.Context(), s.output)
	if err != nil {
		tb.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	for len(left) > 0 && tb.Context().Err() == nil {
		c.PollFetches(tb.Context()).EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				came = append(came, string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return came
}

// S24 with the built binary: of three nodes one is stopped by SIGSTOP in the middle of its work, one is killed by
// SIGKILL, and the first one goes on when the third has taken all of it over. A consumer that reads what was committed
// sees each message once, and none that was cancelled.
func TestJournalProcesses(t *testing.T) {
	t.Parallel()
	s := newJournalService(t)
	if said, code := s.command(t, "migrate", "status"); code == 0 || !strings.Contains(said, "does not exist") {
		t.Errorf("status of a journal that is not there: exit code %d, %s", code, said)
	}
	if said, code := s.command(t, "migrate", "up"); code != 0 || !strings.Contains(said, "with 4 partitions") {
		t.Fatalf("migrate up: exit code %d, %s", code, said)
	}
	if said, code := s.command(t, "migrate", "status"); code != 0 {
		t.Errorf("status: exit code %d, %s", code, said)
	}
	stopped, killed, third := s.node(t), s.node(t), s.node(t)

	const messages = 3000
	begin := time.Now().Add(5 * time.Second)
	var records []*kgo.Record
	var want []string
	for i := range messages {
		id := fmt.Sprintf("message-%04d", i)
		due := begin.Add(time.Duration(i) * 5 * time.Millisecond) // 15 s of them
		records = append(records, s.record(id, due, []byte(id)))
		if i%10 == 9 && i > messages/2 {
			cancel := s.record(id, due, nil)
			cancel.Headers = []kgo.RecordHeader{
				{Key: node.HeaderID, Value: []byte(id)}, {Key: node.HeaderAction, Value: []byte("cancel")},
			}
			records = append(records, cancel)
			continue
		}
		want = append(want, id)
	}
	s.submit(t, records...)
	seen := s.consume(t)
	seen.await(t, messages/10)
	owned := strings.Count(stopped.log.String(), `"msg":"owns a partition of the journal"`)
	if err := stopped.command.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	third.log.await(t, `"msg":"all standby copies are warm`, 1)
	seen.await(t, messages/3)
	if code := killed.end(t, syscall.SIGKILL); code != -1 {
		t.Errorf("the node that was killed exits with %d", code)
	}
	seen.await(t, len(want)*3/4) // with what the two had, which the third has taken over
	third.log.await(t, `"copy_is_new":false`, 1)
	if err := stopped.command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	seen.await(t, len(want))
	stopped.log.await(t, `"msg":"owns a partition of the journal"`, owned+1) // so it has seen that it was fenced
	came := s.all(t)
	slices.Sort(came)
	if !slices.Equal(came, want) {
		t.Errorf("%d messages came out, %d different ones, want %d", len(came),
			len(slices.Compact(slices.Clone(came))), len(want))
	}
	if said, code := s.command(t, "doctor"); !strings.Contains(said, "a journal in Kafka, topic") {
		t.Errorf("doctor: exit code %d, %s", code, said)
	}
}

// A node says what is wrong, and ends: the journal of another consumer group, a topic that is none, a group that has
// come far with another store.
func TestJournalRefusals(t *testing.T) {
	t.Parallel()
	s := newJournalService(t)
	first := s.node(t)
	first.log.await(t, `owns a partition of the journal`, 4)
	for topic, partitions := range map[string]int32{s.dead + "x": 4, s.output + "x": 3} {
		s.cluster.CreateTopic(t, topic, partitions)
	}
	for _, c := range []struct {
		name string
		more []string
		want string
	}{
		{"another group", []string{"--group", "other"}, "belongs to consumer group " + s.input},
		{"a topic that deletes", []string{"--store", "journal:" + s.dead + "x"}, "has cleanup.policy=delete"},
		{"another input", []string{"--input-topic", s.output + "x"}, "has 4 partitions, and its input topic"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := s.node(t, c.more...)
			select {
			case <-p.done:
			case <-time.After(patience):
				t.Fatal("it goes on")
			}
			if said := p.log.String(); !strings.Contains(said, c.want) {
				t.Errorf("it says\n%s\nwant %s", said, c.want)
			}
		})
	}
	select {
	case <-first.done:
		t.Error("the first node has ended")
	default:
	}
}
