package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	web "chronos/node/client"
)

// inputsService is a service with two input topics, of which each has a journal.
type inputsService struct {
	*journalService

	second  string // input topic, with two partitions
	outputs [2]string
	file    string // has the routes
}

func newInputsService(tb testing.TB) *inputsService {
	tb.Helper()
	s := &inputsService{journalService: newJournalService(tb)}
	s.second, s.outputs = s.input+"2", [2]string{s.output, s.output + "2"}
	for topic, partitions := range map[string]int32{s.second: 2, s.outputs[1]: 3} {
		s.cluster.CreateTopic(tb, topic, partitions)
	}
	s.file = filepath.Join(s.folder, "routes.yaml")
	routes := fmt.Sprintf("routes:\n- {input: %s, output: %s}\n- {input: %s, output: %s, targets: [%s]}\n",
		s.input, s.outputs[0], s.second, s.outputs[1], s.outputs[0])
	if err := os.WriteFile(s.file, []byte(routes), 0o600); err != nil {
		tb.Fatal(err)
	}
	return s
}

// both starts a node with both input topics. Its store is journals of these names, or the right ones.
func (s *inputsService) both(tb testing.TB, data, first, second string, more ...string) *nodeProcess {
	tb.Helper()
	secret := filepath.Join(s.folder, "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("7Gq1", 8)), 0o600); err != nil {
		tb.Fatal(err)
	}
	return s.process(tb, append([]string{
		"--store", fmt.Sprintf("journal:%s=%s,%s=%s", s.input, first, s.second, second), "--config", s.file,
		"--request-secret-file", secret,
		"--data-dir", filepath.Join(s.folder, data), "--brokers", s.brokers, "--group", s.input,
	}, more...)...)
}

// A deployment that began with one input topic gets a second one, of another size. Goal: what waited is found again and
// comes out; both topics share a lane and have the same ids, and each message comes out once, when a node is killed in
// the middle, too; a pause is answered by the owners of both; messages by HTTP come in through the topic of their lane;
// and who names the journals the wrong way round is told so, and harms nothing.
func TestJournalInputs(t *testing.T) {
	t.Parallel()
	s := newInputsService(t)
	alone := s.node(t)
	begin := time.Now().Add(25 * time.Second) // when all of them have started, also on a slow machine
	var want []string
	const messages = 400
	submit := func(part, topic string) {
		var records []*kgo.Record
		for i := range messages {
			id := fmt.Sprintf("m-%03d", i)
			value := part + " " + id
			r := s.record(id, begin.Add(time.Duration(i)*10*time.Millisecond), []byte(value))
			r.Topic = topic
			if topic == s.second {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: "chronosTopic", Value: []byte(s.outputs[0])})
			}
			records, want = append(records, r), append(want, value)
		}
		s.submit(t, records...)
	}
	alone.log.await(t, `"msg":"owns a partition of the journal"`, 4)
	submit("first", s.input)
	if code := alone.end(t, syscall.SIGTERM); code != 0 {
		t.Fatalf("exit code %d", code)
	}

	journals := [2]string{s.input + ".journal", s.second + ".journal"}
	killed := s.both(t, "1", journals[0], journals[1], "--api-listen", "127.0.0.1:0", "--standby")
	submit("second", s.second)
	killed.log.await(t, `"msg":"owns a partition of the journal"`, 6)
	wrong := s.both(t, "wrong", journals[1], journals[0])
	select {
	case <-wrong.done:
	case <-time.After(patience):
		t.Fatal("a node that names the journals the wrong way round goes on")
	}
	if said := wrong.log.String(); !strings.Contains(said, "has 2 partitions, and its input topic") {
		t.Errorf("it says %s", said)
	}
	staying := s.both(t, "2", journals[0], journals[1], "--api-listen", "127.0.0.1:0", "--standby",
		"--admin-listen", "127.0.0.1:0", "--admin-allow", "control")
	staying.log.await(t, `"msg":"owns a partition of the journal"`, 1)

	c := staying.api(t)
	for i, lane := range s.outputs {
		id := fmt.Sprint("by HTTP on ", i)
		var outcome web.Outcome
		var err error
		for try := range 10 { // the partition may be on its way from node to node
			outcome, err = c.Put(t.Context(), lane, id, web.Message{When: web.At(begin), Value: []byte(id)},
				web.WithKey(fmt.Sprint(t.Name(), i)))
			if err == nil {
				break
			}
			t.Logf("put, try %d: %v", try, err)
		}
		if err != nil || outcome.Outcome != "scheduled" {
			t.Errorf("%s: %+v, %v", lane, outcome, err)
		}
	}
	want = append(want, "by HTTP on 0")

	admin := staying.log.await(t, `"msg":"serving metrics and health","url":"([^"]+)"`, 1)[1]
	for _, one := range [][2]string{{"pause", "Paused"}, {"resume", "Resumed"}} {
		var got result
		for range 10 { // until the owners of all partitions have answered
			if got = run(t, "", one[0], s.outputs[0], "--admin", admin); got.code == 0 {
				break
			}
		}
		if !strings.Contains(got.stdout, one[1]) {
			t.Errorf("%s: exit code %d, %s%s", one[0], got.code, got.stdout, got.stderr)
		}
	}

	seen := s.consume(t)
	seen.await(t, messages/2)
	if code := killed.end(t, syscall.SIGKILL); code != -1 {
		t.Errorf("the node that was killed exits with %d", code)
	}
	seen.await(t, len(want))
	came := s.all(t)
	slices.Sort(came)
	slices.Sort(want)
	if !slices.Equal(came, want) {
		t.Errorf("%d messages came out, %d different ones, want %d", len(came),
			len(slices.Compact(slices.Clone(came))), len(want))
	}
	s.output = s.outputs[1]
	s.consume(t).await(t, 1)
}
