package service_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"chronos/node"
	"chronos/node/service"
)

// stream is an output that is written and read at the same time.
type stream struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func newStream() *stream { return &stream{} }

// Write appends to the output.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String returns the output so far.
func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// reset forgets the output so far.
func (s *stream) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Reset()
}

// journal is a reporter and the lines that it has written, without their time. Time is that of a synctest bubble.
type journal struct {
	*service.Reporter

	text *stream
}

// report runs test with a journal, in a bubble in which the reporter is watched.
func report(t *testing.T, level slog.Level, test func(t *testing.T, j *journal)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		j := &journal{text: newStream()}
		config := node.Default()
		config.Routes = []node.Route{{Input: "in", Output: "out", DeadLetter: "dead"}}
		j.Reporter = service.NewReporter(slog.New(slog.NewTextHandler(j.text, &slog.HandlerOptions{
			Level: level,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})), &config)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			j.Watch(ctx)
			close(done)
		}()
		test(t, j)
		cancel()
		<-done
	})
}

// expect asks that exactly lines were written since the last expect.
func (j *journal) expect(t *testing.T, lines ...string) {
	t.Helper()
	synctest.Wait()
	want := ""
	for _, line := range lines {
		want += line + "\n"
	}
	if got := j.text.String(); got != want {
		t.Errorf("the log has\n%swant\n%s", got, want)
	}
	j.text.reset()
}

// pass lets time go by.
func pass(d time.Duration) { <-time.After(d) }

var (
	nodeID     = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	otherID    = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	errRefused = errors.New("dial tcp 127.0.0.1:5432:\n\tconnection refused")
	downLine   = `level=WARN msg="store unavailable; retrying" call="fire: ready" ` +
		`error="dial tcp 127.0.0.1:5432: connection refused"`
	storeFailed = node.Failed{Operation: node.Fire, Port: node.PortStore, Call: "ready", Err: errRefused, Attempt: 1}
	storeBack   = node.Resumed{Operation: node.Fire, Port: node.PortStore, Attempts: 9}
)

func TestStarted(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(node.Started{NodeID: nodeID})
		j.expect(t, `level=INFO msg=started node_id=`+nodeID.String())
	})
}

// TestOutageIsThreeKindsOfLines lets three operations fail ten times a second for 70 s.
func TestOutageIsThreeKindsOfLines(t *testing.T) {
	const still = `still unavailable; retrying" since=2000-01-01T00:00:00.000Z`
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		for range 700 {
			for _, operation := range []node.Operation{node.Fire, node.Enqueue, node.Recover} {
				failed := storeFailed
				failed.Operation = operation
				j.Observe(failed)
			}
			pass(100 * time.Millisecond)
		}
		j.expect(t, downLine,
			strings.Replace(downLine, "unavailable; retrying\"", still+" away=30s", 1),
			strings.Replace(downLine, "unavailable; retrying\"", still+" away=1m0s", 1))
		for _, operation := range []node.Operation{node.Recover, node.Fire, node.Enqueue} {
			j.Observe(node.Resumed{Operation: operation, Port: node.PortStore, Attempts: 700})
			pass(300 * time.Millisecond)
		}
		j.expect(t)
		settle, _ := j.Limits()
		pass(settle + time.Second)
		j.expect(t, `level=INFO msg="store available again" since=2000-01-01T00:01:10.000Z away=1m10s`)
		pass(time.Hour)
		j.expect(t)
	})
}

// TestLateFailureIsNoSecondOutage lets a call that was under way when the store came back fail after another one
// succeeded.
func TestLateFailureIsNoSecondOutage(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(storeFailed)
		pass(5 * time.Second)
		j.Observe(storeBack)
		pass(time.Second)
		j.Observe(storeFailed)
		pass(time.Second)
		j.Observe(storeBack)
		pass(10 * time.Second)
		j.expect(t, downLine, `level=INFO msg="store available again" since=2000-01-01T00:00:07.000Z away=7s`)
	})
}

// TestOutageEndsByItself lets a call fail that is not needed again: nothing says that the port is back, nor does the
// log.
func TestOutageEndsByItself(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(storeFailed)
		pass(2 * time.Second)
		j.Observe(storeFailed)
		_, quiet := j.Limits()
		pass(quiet - time.Second)
		j.expect(t, downLine)
		pass(2 * time.Second)
		j.expect(t, `level=INFO msg="store is not tried any more, because nothing here waits for it: whether it is `+
			`available is not known" failed_last=2000-01-01T00:00:02.000Z away=2s`)
		pass(time.Hour)
		j.Observe(storeFailed)
		j.expect(t, downLine)
	})
}

func TestPortsAreApart(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Unavailable(node.PortSource, "look up topics", io.EOF)
		j.Observe(storeFailed)
		j.expect(t, `level=WARN msg="Kafka unavailable; retrying" call="look up topics" error=EOF`, downLine)
		pass(time.Second)
		j.Available(node.PortSource)
		pass(5 * time.Second)
		j.expect(t, `level=INFO msg="Kafka available again" since=2000-01-01T00:00:01.000Z away=1s`)
		j.Available(node.PortSource)
		j.Observe(node.Resumed{Port: node.PortSource})
		pass(5 * time.Second)
		j.expect(t)
	})
}

func TestRejectedIsOneLineEach(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		for offset := range int64(2) {
			j.Observe(node.Rejected{
				Record: node.Record{
					Topic: "in", Partition: 3, Offset: offset, Key: []byte("KEY"), Value: []byte("VALUE"),
				},
				Reason: node.MissingID, Detail: "there is no header chronosMessageId", DeadLetter: "dead",
			})
		}
		j.Observe(node.Rejected{Record: node.Record{Topic: "in"}, Reason: node.EmptyID, Detail: "it is empty"})
		j.expect(t,
			`level=WARN msg="rejected a record" topic=in partition=3 offset=0 reason=missing_id `+
				`detail="there is no header chronosMessageId" copied_to=dead`,
			`level=WARN msg="rejected a record" topic=in partition=3 offset=1 reason=missing_id `+
				`detail="there is no header chronosMessageId" copied_to=dead`,
			`level=WARN msg="rejected a record" topic=in partition=0 offset=0 reason=empty_id `+
				`detail="it is empty" copied_to=nowhere`)
	})
}

// TestFloodIsSummedUp rejects a thousand records within two seconds and lets a node fail that held a thousand messages:
// a few lines a second, and one that says how many more there were of which kind; nothing is lost at the end.
func TestFloodIsSummedUp(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		for i := range 1000 {
			reason := node.MissingID
			if i%4 == 0 {
				reason = node.EmptyID
			}
			j.Observe(node.Rejected{Record: node.Record{Topic: "in"}, Reason: reason})
			pass(2 * time.Millisecond)
		}
		pass(3 * time.Second)
		synctest.Wait()
		text := j.text.String()
		single, summed := strings.Count(text, `msg="rejected a record"`), 0
		for line := range strings.Lines(text) {
			var count int
			if _, after, ok := strings.Cut(line, `msg="rejected more records" count=`); ok {
				if _, err := fmt.Sscan(after, &count); err != nil || !strings.Contains(line, "missing_id: ") {
					t.Errorf("%v in %s", err, line)
				}
				summed += count
			}
		}
		if single+summed != 1000 || single > 20 || strings.Count(text, "\n") > 30 {
			t.Errorf("%d records have a line and %d are summed up, of 1000, in\n%s", single, summed, text)
		}
		j.text.reset()
		claims := make([]node.Claim, 1000)
		for i := range claims {
			claims[i] = node.Claim{Ref: node.Ref{ID: fmt.Sprint(i)}, ReadiedBy: nodeID}
		}
		j.Observe(node.Suspected{Claims: claims[:500]})
		j.Observe(node.Suspected{Claims: claims[500:800]})
		j.Observe(node.Suspected{Claims: claims[800:]})
		j.Summary()
		text = j.text.String()
		if !strings.Contains(text, `msg="suspected failures for more messages" count=500 of_which="`+nodeID.String()+
			`: 500"`) || strings.Count(text, "\n") != 3 {
			t.Errorf("the log has\n%s", text)
		}
	})
}

// TestRefusalIsSaidAsOne lets calls fail for what somebody has to mend: the line is the sentence about that, at once
// also when it follows an outage.
func TestRefusalIsSaidAsOne(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(storeFailed)
		denied := storeFailed
		denied.Err = fmt.Errorf("claim: %w", &pgconn.PgError{
			Severity: "ERROR", Code: "42501", Message: "permission denied for table hanger",
		})
		j.Observe(denied)
		j.Observe(denied)
		refused := node.Failed{Operation: node.Enqueue, Port: node.PortSource, Call: "poll"}
		refused.Err = fmt.Errorf("poll: %w", kerr.GroupAuthorizationFailed)
		j.Observe(refused)
		j.expect(t, downLine,
			`level=ERROR msg="Postgres says \"permission denied for table hanger\": grant that to the user of `+
				`--store, or migrate as the owner of the table" call="fire: ready" `+
				`error="claim: ERROR: permission denied for table hanger (SQLSTATE 42501)"`,
			`level=ERROR msg="Kafka forbids the user the consumer group: grant it Read on the group." `+
				`call="enqueue: poll" error="poll: GROUP_AUTHORIZATION_FAILED: Not authorized to access group: `+
				`Group authorization failed."`)
	})
}

// TestLeftBehind asks that a stop without the store says what it leaves.
func TestLeftBehind(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(node.LeftBehind{Claims: 7, Fired: 2})
		j.expect(t, `level=WARN msg="the store could not be told what this node leaves behind; others take the claims `+
			`over after the hold time, and fire again what has fired" claims=7 fired=2`)
	})
}

// TestSuspectedIsOneLineForEachNode has claims of three nodes expire: a line for each, with how many there were, where,
// and why as far as this node knows.
func TestSuspectedIsOneLineForEachNode(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		claim := func(id, lane string, owner uuid.UUID) node.Claim {
			return node.Claim{
				Ref: node.Ref{ID: id, Lane: lane}, ReadiedBy: owner,
				ReadiedAt: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
			}
		}
		const died = `cause="that node has died, was stopped for longer than the hold time, or cannot reach the store"`
		j.Observe(node.Started{NodeID: otherID})
		j.expect(t, `level=INFO msg=started node_id=`+otherID.String())
		j.Observe(node.Suspected{Claims: []node.Claim{
			claim("a", "out", nodeID), claim("b", "out", otherID), claim("c", "mails", nodeID),
			claim("d", "out", nodeID),
		}})
		j.expect(t,
			`level=WARN msg="suspected failure of `+nodeID.String()+` for 3 messages" lanes="mails: 1, out: 2" `+
				`claimed_at=2000-01-01T00:00:00.000Z first_id=a `+died,
			`level=WARN msg="suspected failure of `+otherID.String()+` for message b" lanes="out: 1" `+
				`claimed_at=2000-01-01T00:00:00.000Z cause="this node itself was too slow, or stopped: it did `+
				`not publish them within the hold time"`)
		pass(2 * time.Second)
		j.Observe(storeFailed)
		pass(3 * time.Second)
		j.text.reset()
		j.Observe(node.Suspected{Claims: []node.Claim{claim("a", "out", nodeID)}})
		pass(3 * time.Second)
		j.Observe(storeBack)
		pass(5 * time.Second)
		j.Observe(node.Suspected{Claims: []node.Claim{claim("a", "out", nodeID)}})
		j.expect(t,
			`level=WARN msg="suspected failure of `+nodeID.String()+` for message a" lanes="out: 1" `+
				`claimed_at=2000-01-01T00:00:00.000Z cause="the store was out of reach since 3s ago, so that no `+
				`node could tell it what it had fired"`,
			`level=INFO msg="store available again" since=2000-01-01T00:00:08.000Z away=6s`,
			`level=WARN msg="suspected failure of `+nodeID.String()+` for message a" lanes="out: 1" `+
				`claimed_at=2000-01-01T00:00:00.000Z cause="the store was out of reach until 5s ago, so that no `+
				`node could tell it what it had fired"`)
	})
}

func TestDeadLetteredIsOneLineEach(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		deadline := time.Date(2030, 1, 2, 3, 4, 5, 6000, time.UTC)
		j.Observe(node.DeadLettered{Messages: []node.Message{
			{ID: "a", Lane: "out", Deadline: deadline, Value: []byte("VALUE")},
			{ID: "copy of a rejected record, which had its line", Lane: "dead"},
		}})
		j.expect(t, `level=ERROR msg="a message went to the dead-letter topic, because Kafka rejects it" `+
			`id=a topic=out deadline=2030-01-02T03:04:05.000Z`)
	})
}

// TestExpiredIsOneLineEach has messages expire, with a dead-letter topic for their copies and without one.
func TestExpiredIsOneLineEach(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		deadline := time.Now().Add(-time.Minute).UTC()
		line := func(id, to string) string {
			return `level=WARN msg="did not publish a message, because the instant of its header chronosNotAfter has ` +
				`passed" id=` + id + ` topic=out deadline=1999-12-31T23:59:00.000Z ` +
				`not_after=1999-12-31T23:59:59.000Z copied_to=` + to
		}
		m := node.Message{Lane: "out", Deadline: deadline, NotAfter: deadline.Add(59 * time.Second)}
		copied, dropped := m, m
		copied.ID, dropped.ID = "a", "b"
		j.Observe(node.DeadLettered{Messages: []node.Message{copied}})
		j.Observe(node.Lapsed{Messages: []node.Message{dropped}})
		j.expect(t, line("a", `"the dead-letter topic"`), line("b", "nowhere"))
	})
}

// TestUnpublishedIsAddedUp lets the same messages fail every second for a minute and a half: tries add up, and messages
// are as many as there are.
func TestUnpublishedIsAddedUp(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		messages := []node.Message{
			{ID: "1", Lane: "b", Incarnation: uuid.UUID{1}},
			{ID: "2", Lane: "a", Incarnation: uuid.UUID{2}},
			{ID: "3", Lane: "b", Incarnation: uuid.UUID{3}},
		}
		for range 90 {
			j.Observe(node.Unpublished{Messages: messages, Err: errors.New("no"), Permanent: true})
			pass(time.Second)
		}
		line := func(topic string, count int) string {
			return `level=ERROR msg="could not publish messages, and cannot until somebody acts; ` +
				`they wait in the store" ` + fmt.Sprintf("topic=%s messages=%d tries=%d error=no", topic, count, count)
		}
		synctest.Wait()
		lines := strings.Split(strings.TrimSpace(j.text.String()), "\n")
		if len(lines) < 4 || lines[0] != line("a", 1) || lines[1] != line("b", 2) || len(lines) > 2*4 {
			t.Errorf("the log has\n%s", j.text.String())
		}
		j.text.reset()
		pass(time.Minute)
		synctest.Wait()
		rest := strings.Split(strings.TrimSpace(j.text.String()), "\n")
		total := 0
		for _, l := range append(lines, rest...) {
			var count int
			if _, after, ok := strings.Cut(l, "topic=b messages=2 tries="); ok {
				if _, err := fmt.Sscan(after, &count); err != nil {
					t.Fatal(err)
				}
				total += count
			}
		}
		if total != 180 {
			t.Errorf("the lines about topic b add up to %d tries of 2 messages, want 180", total)
		}
		j.text.reset()
		j.Observe(node.Unpublished{Messages: messages[:1], Err: errors.New("for now")})
		j.expect(t, `level=WARN msg="could not publish messages; they wait in the store" `+
			`topic=b messages=1 tries=1 error="for now"`)
	})
}

func TestOtherTrouble(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		j.Observe(node.Missing{Refs: []node.Ref{{ID: "x"}, {ID: "y"}}})
		j.Observe(node.Missing{Refs: []node.Ref{{ID: "z"}}, Repeated: true})
		j.Observe(node.LeftGroup{Outage: 12 * time.Second})
		j.Observe(node.Abandoned{Claims: make([]node.Claim, 4)})
		j.Observe(node.Abandoned{Claims: make([]node.Claim, 3)})
		j.Unreadable(errors.New("column is odd"))
		j.expect(t,
			`level=WARN msg="fired messages were gone from the store already: a peer has fired them as well" `+
				`messages=2 first_id=x`,
			`level=WARN msg="left the consumer group, because the store has been unavailable for too long; `+
				`this node consumes again when it is back" away=12s`,
			`level=WARN msg="gave up messages that this node had held for too long to publish them safely" messages=4`,
			`level=ERROR msg="messages in the store cannot be read: somebody has changed them by hand" `+
				`messages=1 error="column is odd"`)
		pass(service.ReminderInterval + time.Second)
		j.expect(t,
			`level=WARN msg="gave up messages that this node had held for too long to publish them safely" messages=3`)
		pass(time.Hour)
		j.expect(t)
	})
}

// TestDailyBusinessIsQuiet asks that what is as it should be is not said at level info, and that no line at any level
// has a key or a payload in it.
func TestDailyBusinessIsQuiet(t *testing.T) {
	for _, level := range []slog.Level{slog.LevelInfo, slog.LevelDebug} {
		report(t, level, func(t *testing.T, j *journal) {
			m := node.Message{
				ID: "id", Lane: "out", Key: []byte("PAYLOAD"), Value: []byte("PAYLOAD"),
				Headers: []node.Header{{Name: "PAYLOAD", Value: []byte("PAYLOAD")}},
			}
			for _, event := range []node.Event{
				node.Polled{Records: 3},
				node.Committed{Places: make([]node.Place, 3)},
				node.Enqueued{Messages: []node.Message{m}},
				node.Ignored{Messages: []node.Message{m}},
				node.Claimed{Messages: []node.Ready{{Message: m}}},
				node.Fired{Messages: []node.Message{m}, At: time.Now()},
				node.Deleted{Refs: []node.Ref{m.Ref()}},
				node.Released{Claims: make([]node.Claim, 1)},
			} {
				j.Observe(event)
			}
			if level == slog.LevelInfo {
				j.expect(t)
			}
			if strings.Contains(j.text.String(), "PAYLOAD") {
				t.Errorf("the log has a key or a payload:\n%s", j.text.String())
			}
		})
	}
}

// TestReporterKeepsNothing asks that no event, and so no payload, outlives its line.
func TestReporterKeepsNothing(t *testing.T) {
	report(t, slog.LevelDebug, func(t *testing.T, j *journal) {
		kept := func() weak.Pointer[node.Message] {
			m := []node.Message{{ID: "1", Lane: "out", Value: make([]byte, 1<<20)}}
			claims := []node.Claim{{Ref: m[0].Ref()}}
			for _, event := range []node.Event{
				node.Unpublished{Messages: m, Err: io.EOF},
				node.Unpublished{Messages: m, Err: io.EOF, Permanent: true},
				node.Fired{Messages: m},
				node.DeadLettered{Messages: m},
				node.Abandoned{Claims: claims},
			} {
				j.Observe(event)
				j.Observe(event)
			}
			return weak.Make(&m[0])
		}()
		runtime.GC()
		if kept.Value() != nil {
			t.Error("the reporter holds on to messages")
		}
	})
}

func TestSummary(t *testing.T) {
	report(t, slog.LevelInfo, func(t *testing.T, j *journal) {
		for _, event := range []node.Event{
			node.Polled{Records: 100},
			node.Enqueued{Messages: make([]node.Message, 90)},
			node.Fired{Messages: make([]node.Message, 80)},
			node.Fired{Messages: make([]node.Message, 7)},
			node.Ignored{Messages: make([]node.Message, 6)},
			node.Rejected{},
			node.DeadLettered{Messages: []node.Message{{Lane: "dead"}}},
			node.Unpublished{Messages: make([]node.Message, 5), Err: io.EOF},
			node.Suspected{Claims: make([]node.Claim, 4)},
			node.Abandoned{Claims: make([]node.Claim, 3)},
			node.Missing{Refs: make([]node.Ref, 2)},
			node.Missing{Refs: make([]node.Ref, 9), Repeated: true},
			storeFailed, storeFailed,
			node.Decided{Decisions: []node.Decision{{Outcome: node.TooLate}, {Outcome: node.Cancelled}}},
			node.Lapsed{Messages: make([]node.Message, 3)},
		} {
			j.Observe(event)
		}
		j.text.reset()
		j.Summary()
		j.expect(t, `level=INFO msg=stopped submitted=100 enqueued=90 fired=87 `+
			`duplicates_ignored=6 rejected=1 dead_lettered=1 tries_failed=5 suspected=4 given_up_as_too_old=3 `+
			`gone_already=2 outages=1 instructions=2 too_late=1 expired=3 taken_in_before=0 `+
			`lost_to_retention_at_most=0`)
	})
}
