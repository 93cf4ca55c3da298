package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"chronos/node"
	"chronos/node/metrics"
	"chronos/node/service"
	"chronos/node/store/outlook"
)

// Goal: what a person reads of a failure says what is the matter, and shows no address, no name of a user and no word
// of a library. Method: errors as the libraries make them.
func TestCauses(t *testing.T) {
	t.Parallel()
	dial := func(err error) error {
		return fmt.Errorf("failed to connect to `user=chronos database=secret`: %w", &net.OpError{
			Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 5432}, Err: err,
		})
	}
	for want, err := range map[string]error{
		"it refuses connections":                  dial(syscall.ECONNREFUSED),
		"there is no way to its host":             dial(syscall.EHOSTUNREACH),
		"the name of its host cannot be resolved": dial(&net.DNSError{Err: "no such host", Name: "db.secret"}),
		"it does not answer in time":              dial(context.DeadlineExceeded),
		"it has closed the connection":            dial(io.ErrUnexpectedEOF),
		"it is starting or stopping":              dial(&pgconn.PgError{Code: "57P03"}),
		"it has no connection left":               dial(&pgconn.PgError{Code: "53300"}),
		"it is a standby, or read-only":           dial(&pgconn.PgError{Code: "25006"}),
		`Postgres says "no space" (53200)`:        dial(&pgconn.PgError{Code: "53200", Message: "no space"}),
		"set the right password":                  dial(&pgconn.PgError{Code: "28P01", Message: "no"}),
		"fewer in-sync replicas":                  fmt.Errorf("publish: %w", kerr.NotEnoughReplicas),
		"there is no such topic":                  fmt.Errorf("publish: %w", node.TopicMissing),
		`larger than the max message size`: fmt.Errorf("x: %w: %w",
			node.RecordRejected, kerr.MessageTooLarge),
		"grant it Read and Describe":                   fmt.Errorf("poll: %w", kerr.TopicAuthorizationFailed),
		"the log of the node has the error":            errors.New("user=chronos database=secret"),
		"a partition has no leader at the moment":      kerr.LeaderNotAvailable,
		"it took too long, and was told to give up":    &pgconn.PgError{Code: "57014"},
		"its disk is full":                             &pgconn.PgError{Code: "53100"},
		"its schema is not the one":                    &pgconn.PgError{Code: "42P01"},
		"Kafka rejects the message: it has no key: re": fmt.Errorf("it has no key: %w", node.RecordRejected),
	} {
		got := service.Cause(err)
		if !strings.Contains(got, want) || strings.Contains(got, "secret") || strings.Contains(got, "10.0.0.5") ||
			strings.HasSuffix(got, ".") {
			t.Errorf("%v: %q, want one with %q", err, got, want)
		}
	}
}

// Goal: a cause names the system that it is about. Method: the same error of a topic and of a callback, whose own
// sentence names its receiver and stands for itself.
func TestCauseNamesItsSystem(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		fmt.Errorf("the connection to a.example was lost: %w", syscall.ECONNRESET), io.EOF, context.DeadlineExceeded,
		fmt.Errorf("%w: refused", node.RecordRejected), syscall.ECONNREFUSED,
	} {
		if got := service.CauseOn("out", err); !strings.HasPrefix(got, "Kafka ") {
			t.Errorf("%v on a topic: %q", err, got)
		}
		if got := service.CauseOn("http:a", err); got != "" {
			t.Errorf("%v on a callback lane: %q, and its own sentence would do", err, got)
		}
	}
}

// Goal: what is out is told with its beginning, its cause and what that means; and no more when it is back. Method: the
// store goes, then Kafka and one of its topics; the store comes back, then Kafka, whose topic stays away.
func TestOutages(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.text.reset()
		failed := storeFailed
		failed.Err = refused
		begun := time.Now().UTC()
		told := func(want ...string) {
			t.Helper()
			var got []string
			for _, o := range j.Problems() {
				got = append(got, o.Sentence(time.Now()))
			}
			for i := range max(len(got), len(want)) {
				if i >= len(got) || i >= len(want) || !strings.HasPrefix(got[i], want[i]) {
					t.Fatalf("out are\n%q, want\n%q", got, want)
				}
			}
		}
		told()
		j.Observe(failed)
		pass(13 * time.Second)
		store := "The store has not answered since " + begun.Format("15:04:05") + " UTC (13s): it refuses " +
			"connections: it does not run, or does not run there. Until it answers, nothing is taken in"
		told(store)
		j.Observe(node.Failed{Port: node.PortSink, Lane: "out", Err: kerr.NotEnoughReplicas})
		j.Observe(node.Failed{Port: node.PortSource, Call: "poll", Err: context.DeadlineExceeded})
		told(store, "Kafka has not answered since ")
		if o := j.Problems()[1]; strings.Contains(o.Effect, "looked up") {
			t.Errorf("nothing can be looked up while the store is away, too: %s", o.Effect)
		}
		j.Observe(storeBack)
		told("Kafka has not answered since ")
		if o := j.Problems()[0]; !strings.Contains(o.Effect, "looked up and changed") {
			t.Errorf("messages can be looked up: %s", o.Effect)
		}
		j.Available(node.PortSource)
		told("Topic out has not taken a message since " + begun.Add(13*time.Second).Format("15:04:05") +
			" UTC (0s): a partition has fewer in-sync replicas")
		j.Observe(node.Resumed{Port: node.PortSink, Lane: "out"})
		told()
		// A look for lanes is given up soon where there are many dead entries: the store answers all else.
		j.Observe(node.Failed{Port: node.PortStore, Call: "parts", Err: errors.New("it took too long")})
		told()
		if text := j.text.String(); !strings.Contains(text, "could not look for lanes that no route names") {
			t.Errorf("the log says\n%s", text)
		}
		pass(time.Minute)
		j.text.reset()
	})
}

// measured is what metrics would tell.
type measured struct {
	mu      sync.Mutex // the reporter looks by itself
	all     []metrics.Operation
	intakes []metrics.Intake
	unsure  bool
}

// become changes what is measured.
func (m *measured) become(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

func (m *measured) Operations() []metrics.Operation {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all)
}

func (m *measured) Intakes() []metrics.Intake {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.intakes)
}

func (m *measured) Unsure(node.Port) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.unsure
}

func (m *measured) Failing(port node.Port) (failing []metrics.Operation) {
	for _, o := range m.Operations() {
		if o.Port == port && o.Failing {
			failing = append(failing, o)
		}
	}
	return failing
}

// sentences returns the problems as people read them.
func (j *journal) sentences() (all []string) {
	for _, p := range j.Problems() {
		all = append(all, fmt.Sprintf("%s by %s, %v: %s", p.What, p.Fault, p.Unready, p.Sentence(time.Now())))
	}
	return all
}

// told asks for problems that contain these.
func (j *journal) told(t *testing.T, want ...string) {
	t.Helper()
	got := j.sentences()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !strings.Contains(got[i], want[i]) {
			t.Fatalf("not well is\n%q, want\n%q", got, want)
		}
	}
}

// Goal: a call of the store that fails is a problem of its own while others go well, and is not over before it has gone
// well; nor does the log say so. Method: takes fail, for want of space, and the node leaves its group, so that all
// calls that it makes go well.
func TestOneCallFails(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		now := time.Now()
		full := &pgconn.PgError{Code: "53100"}
		take := metrics.Operation{Port: node.PortStore, Call: "take", Failing: true, Since: now, Err: full}
		m := &measured{all: []metrics.Operation{take}}
		j.Measure(m)
		j.Observe(node.Failed{Operation: node.Enqueue, Port: node.PortStore, Call: "take", Err: full, Attempt: 1})
		j.told(t, "store by the store, true: The store has not answered since 00:00:00 UTC (0s): its disk is full. "+
			"Until")
		pass(10 * time.Second)
		claim := metrics.Operation{Port: node.PortStore, Call: "claim", Succeeded: time.Now()}
		m.become(func() { m.all = append(m.all, claim) })
		j.Observe(node.Resumed{Operation: node.Enqueue, Port: node.PortStore})
		j.text.reset()
		pass(20 * time.Second)
		j.told(t, "store by the store, true: The store has not taken any messages in since 00:00:00 UTC (30s): its "+
			"disk is full. What is sent meanwhile waits in Kafka")
		j.expect(t)
		m.become(func() { m.all = nil })
		pass(2 * time.Second)
		j.told(t)
		j.expect(t, `level=INFO msg="store available again" since=2000-01-01T00:00:10.000Z away=10s`)
	})
}

// Goal: a record that waits is a problem as soon as nothing of its partition is taken in, with the cause; one that
// waits in a partition that gets on is none for a while; and a pause is none at all. Method: states of the intake.
func TestIntakeStands(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		begun := time.Now()
		m := &measured{intakes: []metrics.Intake{
			{Partition: node.Partition{Topic: "in", Number: 4}, Position: 7, End: 12, Since: begun, Moved: begun},
			{Partition: node.Partition{Topic: "in", Number: 5}, Position: 9, End: 9, Moved: begun},
		}}
		j.Measure(m)
		pass(29 * time.Second)
		j.told(t)
		pass(time.Second)
		j.told(t, "intake by unknown, true: Records have not been taken in: 5 of in/4 since 00:00:00 UTC (30s): this "+
			"node knows no reason")
		poll := metrics.Operation{
			Port: node.PortSource, Call: "poll", Failing: true, Since: begun, Err: context.DeadlineExceeded,
		}
		m.become(func() { m.all = []metrics.Operation{poll} })
		j.told(t, "Kafka by Kafka, true: Kafka has not answered", "intake by Kafka, true: ")
		if got := j.sentences()[1]; !strings.Contains(got, ": Kafka does not answer in time. They wait in Kafka") {
			t.Errorf("intake: %s", got)
		}
		m.become(func() { m.all = nil })
		j.Paused([]node.Pause{{Lane: node.Intake, By: "me"}})
		j.told(t)
		j.Paused(nil)
		m.become(func() { m.intakes[0].Moved = time.Now() })
		j.told(t)
		pass(5 * time.Minute)
		m.become(func() { m.intakes[0].Moved = time.Now() })
		j.told(t, "intake by this node, false: Records wait to be taken in: 5 of in/4 since 00:00:00 UTC (5m30s): "+
			"more comes than nodes take in")
	})
}

// Goal: a lane has a problem since the deadline of its first message, with the system at fault; a receiver that fails
// is not Kafka; what is paused is no problem; and a look that fails ends nothing. Method: outlooks, as the store takes
// them.
func TestLateLanes(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		begun := time.Now()
		lanes := []outlook.Lane{
			{
				Name: "http:crm", Oldest: begun, Overdue: outlook.Count{N: 3}, Deferred: outlook.Count{N: 3},
				Within: make([]outlook.Count, 4),
			},
			{Name: "out", Oldest: begun, Overdue: outlook.Count{N: 1}, Within: make([]outlook.Count, 4)},
		}
		seen := outlook.Outlook{Lanes: lanes}
		j.Observe(node.Unpublished{
			Messages: []node.Message{{Lane: "http:crm"}}, Err: errors.New("127.0.0.1:25900 cannot be reached"),
		})
		j.Seen(seen, nil)
		pass(31 * time.Second)
		j.Seen(seen, nil)
		j.told(t, "lane by receiver, false: Lane http:crm has 3 messages that should have come out, the first since "+
			"00:00:00 UTC (31s): messages could not be published on http:crm: 127.0.0.1:25900 cannot be reached. They",
			"lane by unknown, true: Lane out has 1 message that should have come out, the first since 00:00:00 UTC "+
				"(31s): this node knows no reason, and fires nothing on out. ")
		pass(5 * time.Minute) // each message is tried again within that
		j.Seen(outlook.Outlook{}, errors.New("it did not answer"))
		j.told(t, "(5m31s): messages could not be published on http:crm", "lane by unknown")
		j.Paused([]node.Pause{{Lane: "out", By: "me"}})
		j.told(t, "http:crm")
		j.Seen(outlook.Outlook{Lanes: []outlook.Lane{{Name: "http:crm"}, {Name: "out"}}}, nil)
		j.told(t)
		if text := j.text.String(); strings.Count(text, "nothing is overdue any more") != 1 {
			t.Errorf("the log has\n%s", text)
		}
	})
}

// Goal: with a journal, of which a node sees its own partitions only, it does not say that nothing is overdue because
// it has lost the partitions in which something is. Method: Kafka goes, and with it the partitions; then the node gets
// one of two back, and what was overdue in the other one is not its own any more.
func TestLostPartitionsAreNotOnTime(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		m := &measured{}
		j.Measure(m)
		late := outlook.Outlook{Partitions: []int32{1, 2}, Lanes: []outlook.Lane{
			{Name: "out", Oldest: time.Now(), Overdue: outlook.Count{N: 460}, Within: make([]outlook.Count, 4)},
		}}
		none := func(partitions ...int32) outlook.Outlook {
			return outlook.Outlook{Partitions: append([]int32{}, partitions...), Lanes: []outlook.Lane{{Name: "out"}}}
		}
		j.Seen(late, nil)
		pass(time.Minute)
		j.Seen(late, nil)
		m.become(func() { m.unsure = true })
		pass(time.Minute)
		j.text.reset()
		j.Seen(none(), nil)
		j.told(t, "Lane out has 460 messages that should have come out, the first since 00:00:00 UTC (2m0s)")
		j.expect(t)
		m.become(func() { m.unsure = false })
		j.Seen(none(2), nil)
		j.told(t)
		j.expect(t, `level=INFO msg="other nodes have the partitions now in which messages were overdue: they tell `+
			`what becomes of these" since=2000-01-01T00:00:00.000Z`)
		j.Seen(late, nil)
		j.text.reset()
		j.Seen(none(1, 2), nil)
		j.expect(t, `level=INFO msg="nothing is overdue any more" away=0s`)
	})
}

// Goal: a topic is not said to be available again while all of Kafka is away. Method: a topic that has failed and gone
// well once, just before Kafka goes.
func TestTopicIsNotBackWithoutKafka(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(node.Failed{Port: node.PortSink, Lane: "out", Call: "publish", Err: errRefused})
		j.Observe(node.Resumed{Port: node.PortSink, Lane: "out"})
		j.Observe(node.Failed{Port: node.PortSource, Call: "poll", Err: errRefused})
		j.text.reset()
		pass(20 * time.Second)
		j.expect(t)
		j.Available(node.PortSource)
		pass(10 * time.Second)
		if text := j.text.String(); strings.Count(text, "available again") != 2 {
			t.Errorf("the log has\n%s", text)
		}
	})
}

// Goal: a process that stood still says so, and for how long; that explains what is late. Nodes are named by host and
// process. Method: two ticks that lie 13 s apart, and a claim of another node.
func TestStoodStill(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		now := time.Now()
		j.Lived(now, now.Add(3*time.Second))
		j.expect(t)
		j.Lived(now.Add(-13*time.Second), now)
		j.expect(t, `level=WARN msg="this process stood still: it was stopped, had no CPU, or its machine was `+
			`suspended; others take over meanwhile what it held, and some of that may come twice" for=12s`)
		j.Names(map[string]string{otherID.String(): "db-3, pid 17"})
		j.Observe(node.Suspected{Claims: []node.Claim{{
			ReadiedBy: otherID, ReadiedAt: now, Ref: node.Ref{ID: "a", Lane: "out"},
		}}})
		if text := j.text.String(); !strings.Contains(text, "suspected failure of "+otherID.String()+
			" on db-3, pid 17 for message a") {
			t.Errorf("the log has\n%s", text)
		}
		j.text.reset()
	})
}
