package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node/admin"
)

// restricted returns the URL of the database for a role that is no superuser, and what gives it rights and takes them.
func restricted(t *testing.T, s *service) (store string, execute func(statement string)) {
	t.Helper()
	if got := run(t, "", "migrate", "up", "--store", s.database.String()); got.code != 0 {
		t.Fatal(got.stderr)
	}
	conn, err := pgx.Connect(t.Context(), s.database.String())
	if err != nil {
		t.Fatal(err)
	}
	role := "chronos_" + strings.ToLower(strings.ReplaceAll(s.input[4:14], "-", "_"))
	execute = func(statement string) {
		t.Helper()
		// The database is dropped when the test is over, and the role must not be needed by then.
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(statement, "NODE", role)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	execute("CREATE ROLE NODE LOGIN NOSUPERUSER PASSWORD 'secret'")
	execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO NODE")
	at := *s.database
	server := s.database.String()
	t.Cleanup(func() {
		late := context.WithoutCancel(t.Context())
		_ = conn.Close(late) // it was used
		over, err := pgx.Connect(late, server)
		if err == nil {
			_, err = over.Exec(late, "DROP OWNED BY "+role+"; DROP ROLE "+role)
		}
		if err != nil {
			t.Log(err) // the server goes with all its roles
		}
	})
	query := at.Query()
	at.User, at.RawQuery = nil, query.Encode()
	text := strings.Replace(at.String(), "://", "://"+role+":secret@", 1)
	return text, execute
}

// Goal: each surface says that the promise is not kept, what is at fault and since when, and none of them says that it
// is over before it is. Method: INSERT on the table of messages is revoked from a node on real servers, so that all
// else goes well, for longer than the node takes to leave its group and come back; meanwhile the receiver of a callback
// is away. Then both are cured.
func TestPromises(t *testing.T) {
	t.Parallel()
	s := newService(t)
	store, execute := restricted(t, s)
	receiver := freeAddress(t)
	file := writeFile(t, "chronos.yaml", `
hold-time: 2500ms
routes:
  - {input: `+s.input+`, output: `+s.output+`, dead-letter: `+s.dead+`, targets: ["http:hooks"]}
lanes:
  - {name: "http:hooks", allowed: [127.0.0.1]}
`)
	l := &listener{freeAddress(t)}
	p := s.process(t, "--store", store, "--brokers", s.brokers, "--group", s.input, "--config", file,
		"--admin-listen", l.address)
	l.awaitStatus(t, "/readyz", http.StatusOK, "ok\n")
	hook := s.record("hook", time.Now(), nil, kgo.RecordHeader{Key: "chronosTopic", Value: []byte("http:hooks")},
		kgo.RecordHeader{Key: "chronosUrl", Value: []byte("http://" + receiver + "/")})
	s.submit(t, hook)
	p.log.await(t, `callbacks failed`, 1)

	execute("REVOKE INSERT ON messages FROM NODE")
	revoked := time.Now()
	s.submit(t, s.record("refused", time.Now(), nil))
	l.awaitStatus(t, "/readyz", http.StatusServiceUnavailable, "[-] store: take has not gone well for ")
	p.log.await(t, "left the consumer group", 1)
	left := time.Now()
	for time.Since(left) < 25*time.Second { // it leaves and comes back some times
		status, text := l.get(t, "/readyz")
		if status != http.StatusServiceUnavailable || !strings.Contains(text, "take has not gone well for") {
			t.Fatalf("%v after INSERT was revoked: %d %s", time.Since(revoked), status, text)
		}
		if strings.Contains(p.log.String(), "store available again") {
			t.Fatal("the log says that the store is available again")
		}
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // nothing must happen
	}
	families := l.scrape(t)
	if ready := sum(families, "chronos_ready"); ready != 0 {
		t.Errorf("chronos_ready is %v", ready)
	}
	if failing := sum(families, "chronos_operation_failing_seconds", "port=store", "call=take"); failing < 25 {
		t.Errorf("takes have failed for %v s", failing)
	}
	if waits := sum(families, "chronos_intake_waiting_seconds"); waits < 25 {
		t.Errorf("a record has waited for %v s", waits)
	}
	eventually(t, func() string { return overdueHook(t, l) })
	checkProblems(t, l)
	for command, want := range map[string]string{
		"top --once": "NOT READY: The store has not taken any messages in since ",
		"doctor":     "has not taken any messages in since ",
		"health":     "[-] store: take has not gone well for ",
	} {
		args := append(strings.Fields(command), "--config", file)
		if command == "health" {
			args = append(args, "--admin-listen", l.address)
		} else {
			args = append(args, "--store", s.database.String())
		}
		if command == "doctor" {
			args = append(args, "--brokers", s.brokers, "--group", s.input)
		}
		if got := run(t, "", args...); !strings.Contains(got.stdout, want) || command != "top --once" && got.code == 0 {
			t.Errorf("%s: exit code %d, want %q in\n%s%s", command, got.code, want, got.stdout, got.stderr)
		}
	}

	execute("GRANT INSERT ON messages TO NODE")
	p.log.await(t, "store available again", 1)
	s.read(t, s.output, patience, distinct(1))
	l.awaitStatus(t, "/readyz", http.StatusOK, "[!] lane http:hooks: ")
	cured := http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	listening, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", receiver)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = cured.Serve(listening) }()
	t.Cleanup(func() { _ = cured.Close() })
	p.log.await(t, "nothing is overdue any more", 1)
	l.awaitStatus(t, "/readyz", http.StatusOK, "ok\n")
	if strings.Count(p.log.String(), "nothing is overdue any more") != 1 || p.end(t, syscall.SIGTERM) != 0 {
		t.Errorf("the log has\n%s", p.log)
	}
}

// overdueHook says what is wrong with what is shown of the callback, which waits for its next try.
func overdueHook(t *testing.T, l *listener) string {
	t.Helper()
	families := l.scrape(t)
	overdue := sum(families, "chronos_overdue", "lane=http:hooks")
	oldest := sum(families, "chronos_oldest_overdue_seconds", "lane=http:hooks")
	if overdue != 1 || oldest < 30 {
		return fmt.Sprintf("%v callbacks are overdue, the oldest for %v s", overdue, oldest)
	}
	return ""
}

// checkProblems asks that the API names both problems, each with the system at fault.
func checkProblems(t *testing.T, l *listener) {
	t.Helper()
	eventually(t, func() string {
		_, text := l.get(t, "/v1/info")
		var info admin.Info
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return err.Error()
		}
		faults := ""
		for _, p := range info.Problems {
			faults += p.What + "/" + p.Call + " by " + p.Fault + "; "
			if p.What == "lane" && !strings.Contains(p.Cause, "127.0.0.1") {
				return "the lane is late because " + p.Cause
			}
			if p.Call == "take" && !strings.Contains(p.Cause, "grant") {
				return "takes fail because " + p.Cause
			}
		}
		if want := "store/take by the store; intake/ by the store; lane/ by receiver; "; faults != want {
			return fmt.Sprintf("the problems are %q, want %q", faults, want)
		}
		return ""
	})
}
