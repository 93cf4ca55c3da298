package main_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/broker/brokertest"
)

// service is a set of node processes of the built binary on the real Kafka and the real Postgres of the test run, with
// topics and a database of its own.
type service struct {
	binary, brokers       string
	input, output, dead   string
	database              *url.URL
	cluster               *brokertest.Cluster
	producer              *kgo.Client
	advance, hold, detect time.Duration
}

var (
	// built is the folder of the binary, which TestMain makes and removes.
	built string

	// binary builds it, once for all tests.
	binary = sync.OnceValues(func() (string, error) {
		path := filepath.Join(built, "chronos")
		out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, ".").CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("go build: %w\n%s", err, out)
		}
		return path, nil
	})
)

// newService makes the topics and the database.
func newService(tb testing.TB) *service {
	tb.Helper()
	s := newTopics(tb)
	s.database = database(tb)
	return s
}

// newTopics makes the topics.
func newTopics(tb testing.TB) *service {
	tb.Helper()
	s := &service{
		brokers: os.Getenv("CHRONOS_TEST_KAFKA"),
		hold:    5 * time.Second, detect: 500 * time.Millisecond,
	}
	switch {
	case s.brokers != "":
	case testing.Short():
		tb.Skip("without CHRONOS_TEST_KAFKA there is no server to test on")
	default:
		tb.Fatal("set CHRONOS_TEST_KAFKA or run make test")
	}
	var err error
	if s.binary, err = binary(); err != nil {
		tb.Fatal(err)
	}
	name := "e2e-" + strings.ToLower(rand.Text()[:10])
	s.input, s.output, s.dead = name+".in", name+".out", name+".dead"
	if s.producer, err = kgo.NewClient(
		kgo.SeedBrokers(s.brokers), kgo.ProducerBatchMaxBytes(16<<20), kgo.DisableClientMetrics(),
	); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.producer.Close)
	s.cluster = brokertest.NewCluster(tb, kgo.SeedBrokers(s.brokers), kgo.DisableClientMetrics())
	for _, topic := range []string{s.input, s.output, s.dead} {
		s.cluster.CreateTopic(tb, topic, 4, "max.message.bytes", "2097152")
	}
	return s
}

// unhurried gives the calls of a node six times as long. A publish that takes longer than it may is of unknown outcome,
// and comes twice: on a machine that runs all tests at once, two seconds are no limit where each is to come once.
var unhurried = []string{"--hold-time", "30s"}

// nodeProcess is a node.
type nodeProcess struct {
	command *exec.Cmd
	log     *stream
	done    chan struct{}
}

// start starts a node, with more settings if there are any.
func (s *service) start(tb testing.TB, more ...string) *nodeProcess {
	tb.Helper()
	return s.launch(tb, append([]string{
		"--brokers", s.brokers, "--group", s.input, "--input-topic", s.input, "--output-topic", s.output,
		"--dead-letter-topic", s.dead,
	}, more...)...)
}

// launch starts a node of which nothing is said but its store.
func (s *service) launch(tb testing.TB, more ...string) *nodeProcess {
	tb.Helper()
	return s.process(tb, append([]string{"--store", s.database.String()}, more...)...)
}

// process starts a node that is told its store as well.
func (s *service) process(tb testing.TB, more ...string) *nodeProcess {
	tb.Helper()
	p := &nodeProcess{log: newStream(), done: make(chan struct{})}
	p.command = exec.CommandContext(context.WithoutCancel(tb.Context()), s.binary, append([]string{
		"run", "--migrate", "--log-format", "json",
	}, more...)...)
	p.command.Stderr, p.command.Stdout = p.log, p.log
	p.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.command.Start(); err != nil {
		tb.Fatal(err)
	}
	go func() {
		_ = p.command.Wait() // The exit code says it all.
		close(p.done)
	}()
	tb.Cleanup(func() {
		_ = p.command.Process.Kill() // unless it has ended
		<-p.done
		if tb.Failed() {
			tb.Logf("log of a node:\n%s", p.log)
		}
	})
	return p
}

// end sends a signal and returns the exit code.
func (p *nodeProcess) end(tb testing.TB, s os.Signal) int {
	tb.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		tb.Fatal(err)
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		tb.Fatalf("a node has not ended %v after %v", patience, s)
	}
	return p.command.ProcessState.ExitCode()
}

// submit sends records and waits for their acknowledgements.
func (s *service) submit(tb testing.TB, records ...*kgo.Record) {
	tb.Helper()
	if err := s.producer.ProduceSync(tb.Context(), records...).FirstErr(); err != nil {
		tb.Fatal(err)
	}
}

// record returns a submission.
func (s *service) record(id string, deadline time.Time, value []byte, more ...kgo.RecordHeader) *kgo.Record {
	r := submission(id, deadline, value, more...)
	r.Topic, r.Key = s.input, []byte(id)
	return r
}

// arrived is a record of an output topic and when it was there.
type arrived struct {
	*kgo.Record

	at time.Time
}

// read reads a topic until enough says so; it fails after limit.
func (s *service) read(
	tb testing.TB, topic string, limit time.Duration, enough func([]arrived) bool,
) []arrived {
	tb.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(s.brokers), kgo.ConsumeTopics(topic), kgo.DisableClientMetrics(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		tb.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(tb.Context(), limit)
	defer cancel()
	var all []arrived
	for !enough(all) {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			tb.Fatalf("%d records came on %s in %v, and that is not enough", len(all), topic, limit)
		}
		now := time.Now()
		for _, r := range fetches.Records() {
			all = append(all, arrived{r, now})
		}
	}
	return all
}

// stored returns how many messages the store has.
func (s *service) stored(tb testing.TB) (count int) {
	tb.Helper()
	db, err := sql.Open("pgx", s.database.String())
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // nothing was written
	if err := db.QueryRowContext(tb.Context(), "SELECT count(*) FROM messages").Scan(&count); err != nil {
		tb.Fatal(err)
	}
	return count
}

// drained waits until the store is empty. A callback that a killed node had claimed is called again when its claim has
// expired, which takes 38 s.
func (s *service) drained(t *testing.T) {
	t.Helper()
	tooLate := time.Now().Add(2 * patience)
	for left := -1; left != 0; {
		if left = s.stored(t); left != 0 && time.Now().After(tooLate) {
			t.Fatalf("%d messages are left in the store", left)
		}
	}
}

// caughtUp waits until the tools of Kafka show no lag.
func (s *service) caughtUp(t *testing.T) {
	t.Helper()
	tooLate := time.Now().Add(patience)
	for lag := int64(-1); lag != 0; {
		groups, err := kadm.NewClient(s.producer).Lag(t.Context(), s.input)
		if err != nil {
			t.Fatal(err)
		}
		group := groups[s.input]
		if lag = group.Lag.Total(); len(group.Lag) == 0 || group.Error() != nil {
			lag = -1
		}
		if lag != 0 && time.Now().After(tooLate) {
			t.Fatalf("Kafka's tools show a lag of %d (%v)", lag, group.Error())
		}
	}
}

// distinct returns a condition: that many different keys have come.
func distinct(want int) func([]arrived) bool {
	seen := map[string]bool{}
	looked := 0
	return func(all []arrived) bool {
		for ; looked < len(all); looked++ {
			seen[string(all[looked].Key)] = true
		}
		return len(seen) >= want
	}
}

// payloads are values and headers of every odd kind; the key is the id, except for the records of oddKeys.
func payloads() [][]byte {
	random := make([]byte, 300)
	_, _ = rand.Read(random) // it never fails
	return [][]byte{
		nil,
		{},
		[]byte(`{"b": 1.10, "a":[1,2 ], "a":null}`),
		{0},
		{0xff, 0, 0xfe},
		random, []byte("text"),
		bytes.Repeat([]byte("x"), 5000),
	}
}

// TestEndToEnd runs two nodes on real servers: thousands of messages with mixed delays, every byte compared, nothing
// lost, nothing early, nothing twice, and bad records on the dead-letter topic.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	s := newService(t)
	nodes := []*nodeProcess{s.start(t, unhurried...), s.start(t, unhurried...)}
	const messages = 5000
	values := payloads()
	odd := []kgo.RecordHeader{
		{Key: "h", Value: nil},
		{Key: "h", Value: []byte{}},
		{Key: "h", Value: []byte{0, 0xff}},
		{Key: "", Value: []byte("é")},
	}
	sent := map[string]*kgo.Record{}
	deadlines := map[string]time.Time{}
	var batch []*kgo.Record
	for i := range messages {
		id := fmt.Sprintf("m-%05d", i)
		deadline := time.Now().Add(time.Duration(i*7%6000-500) * time.Millisecond).Truncate(time.Millisecond)
		value := values[i%len(values)]
		if i%1000 == 1 {
			value = bytes.Repeat([]byte{byte(i), 0}, 1<<19)
		}
		r := s.record(id, deadline, value, odd[:i%5]...)
		sent[id], deadlines[id] = r, deadline
		batch = append(batch, r)
		if i%10 == 0 {
			batch = append(batch, s.record(id+"-twice", time.Now().Add(8*time.Second), []byte("first")),
				s.record(id+"-twice", time.Now().Add(time.Hour), []byte("second")))
		}
	}
	bad := []*kgo.Record{
		{Topic: s.input, Key: []byte{0}, Value: []byte("no headers")},
		{Topic: s.input, Value: []byte("soon"), Headers: []kgo.RecordHeader{
			{Key: "chronosMessageId", Value: []byte("x")}, {Key: "chronosDeadline", Value: []byte("soon")},
		}},
	}
	s.submit(t, append(batch, bad...)...)
	const twice = messages / 10
	got := s.read(t, s.output, 2*patience, distinct(messages+twice))
	checkFidelity(t, got, sent, deadlines, s.advance)
	if len(got) != messages+twice {
		t.Errorf("%d records for %d messages, and nothing has failed", len(got), messages+twice)
	}
	dead := s.read(t, s.dead, patience, func(all []arrived) bool { return len(all) >= len(bad) })
	for _, b := range bad {
		if !slices.ContainsFunc(dead, func(d arrived) bool {
			return bytes.Equal(d.Value, b.Value) && bytes.Equal(d.Key, b.Key) && len(d.Headers) == len(b.Headers)+5
		}) {
			t.Errorf("%q is not on the dead-letter topic", b.Value)
		}
	}
	s.drained(t)
	s.caughtUp(t)
	for _, n := range nodes {
		if code := n.end(t, syscall.SIGTERM); code != 0 {
			t.Errorf("a node that was asked to stop exits with %d", code)
		}
	}
}

// checkFidelity compares every byte, and reports the lateness of what did not lapse before it was sent.
func checkFidelity(
	t *testing.T, got []arrived, sent map[string]*kgo.Record, deadlines map[string]time.Time, advance time.Duration,
) {
	t.Helper()
	var lateness []time.Duration
	for _, g := range got {
		want := sent[string(g.Key)]
		if want == nil {
			if string(g.Value) != "first" {
				t.Errorf("%s came with %q", g.Key, g.Value)
			}
			continue
		}
		if !bytes.Equal(g.Value, want.Value) || (g.Value == nil) != (want.Value == nil) {
			t.Errorf("the value of %s has changed", g.Key)
		}
		headers := want.Headers[2:] // behind those of Chronos
		if !slices.EqualFunc(g.Headers, headers, func(a, b kgo.RecordHeader) bool {
			return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
		}) {
			t.Errorf("the headers of %s are %q, were %q", g.Key, g.Headers, headers)
		}
		late := g.at.Sub(deadlines[string(g.Key)])
		// The output record's own time is cut to milliseconds.
		if g.Timestamp.Before(deadlines[string(g.Key)].Add(-advance - time.Millisecond)) {
			t.Errorf("%s is early by %v", g.Key, -late)
		}
		lateness = append(lateness, late)
	}
	slices.Sort(lateness)
	t.Logf("lateness of %d: p50 %v, p99 %v, max %v", len(lateness),
		lateness[len(lateness)/2], lateness[len(lateness)*99/100], lateness[len(lateness)-1])
}

// TestEndToEndKill kills nodes with kill -9 while they work, and starts others: nothing is lost or early, and what
// they had claimed fires within the hold time and a look for it.
func TestEndToEndKill(t *testing.T) {
	t.Parallel()
	s := newService(t)
	nodes := []*nodeProcess{s.start(t), s.start(t)}
	const messages = 3000
	sent := map[string]*kgo.Record{}
	deadlines := map[string]time.Time{}
	var batch []*kgo.Record
	for i := range messages {
		id := fmt.Sprintf("m-%05d", i)
		deadline := time.Now().Add(time.Duration(i*3) * time.Millisecond).Truncate(time.Millisecond)
		r := s.record(id, deadline, []byte("value "+id))
		sent[id], deadlines[id] = r, deadline
		batch = append(batch, r)
	}
	s.submit(t, batch...)
	s.read(t, s.output, patience, distinct(messages/4))
	nodes[0].end(t, syscall.SIGKILL)
	s.start(t)
	s.read(t, s.output, patience, distinct(messages/2))
	nodes[1].end(t, syscall.SIGKILL)
	s.start(t)
	got := s.read(t, s.output, 2*patience, distinct(messages))
	checkFidelity(t, got, sent, deadlines, s.advance)
	s.drained(t)
	t.Logf("%d of %d came twice", len(got)-messages, messages)
}

// TestEndToEndBurst has 70,000 messages fall due at the same instant, more than a statement has parameters: each
// comes once.
func TestEndToEndBurst(t *testing.T) {
	t.Parallel()
	s := newService(t)
	const messages = 70_000
	due := time.Now().Add(15 * time.Second)
	batch := make([]*kgo.Record, messages)
	for i := range batch {
		batch[i] = s.record(fmt.Sprintf("m-%05d", i), due, []byte("value"))
	}
	s.submit(t, batch...)
	s.start(t, unhurried...)
	got := s.read(t, s.output, 3*patience, distinct(messages))
	s.drained(t)
	if len(got) != messages {
		t.Errorf("%d records for %d messages, and nothing has failed", len(got), messages)
	}
	t.Logf("the last of %d came %v after the instant", messages, got[len(got)-1].at.Sub(due))
}
