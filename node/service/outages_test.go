package service_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kerr"

	"chronos/node"
	"chronos/node/service"
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
			for _, o := range j.Outages() {
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
		if o := j.Outages()[1]; strings.Contains(o.Effect, "looked up") {
			t.Errorf("nothing can be looked up while the store is away, too: %s", o.Effect)
		}
		j.Observe(storeBack)
		told("Kafka has not answered since ")
		if o := j.Outages()[0]; !strings.Contains(o.Effect, "looked up and changed") {
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
