package servers_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"chronos/chaos/servers"
)

// open prepares servers that are processes, and closes them in the end.
func open(t *testing.T) *servers.Servers {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts Kafka and Postgres: not in a short test")
	}
	s, err := servers.Open(t.Context(), servers.Config{Backend: servers.Processes, Logs: t.TempDir(), Say: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// postgres starts a server with a table of one column.
func postgres(t *testing.T, s *servers.Servers) *servers.Postgres {
	t.Helper()
	p, err := s.Postgres(t.Context(), servers.PostgresConfig{Settings: servers.Durable(nil)})
	if err != nil {
		t.Fatal(err)
	}
	must(t, p.Start(t.Context()))
	must(t, p.Ready(t.Context(), time.Minute))
	must(t, p.Exec(t.Context(), "CREATE TABLE t (n int)"))
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sum adds up what is in the table.
func sum(t *testing.T, p *servers.Postgres) int {
	t.Helper()
	total := 0
	must(t, p.Do(t.Context(), func(ctx context.Context, conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT coalesce(sum(n), 0) FROM t").Scan(&total)
	}))
	return total
}

// TestBackups sets a server back twice: to a base backup that was taken while somebody wrote, and to a copy of its data
// that was made while it was down. What was committed later is gone, and nothing else is.
func TestBackups(t *testing.T) {
	s := open(t)
	p := postgres(t, s)
	must(t, p.Exec(t.Context(), "INSERT INTO t VALUES (1)"))
	online, err := p.Backup(t.Context())
	must(t, err)
	must(t, p.Exec(t.Context(), "INSERT INTO t VALUES (10)"))
	must(t, p.Kill(t.Context()))
	offline, err := p.Copy()
	must(t, err)
	again := func(b *servers.Backup) int {
		must(t, p.Kill(t.Context()))
		if b != nil {
			must(t, p.Restore(b))
		}
		must(t, p.Start(t.Context()))
		must(t, p.Ready(t.Context(), time.Minute))
		return sum(t, p)
	}
	if got := again(nil); got != 11 {
		t.Errorf("after a crash there is %d, want 11", got)
	}
	must(t, p.Exec(t.Context(), "INSERT INTO t VALUES (100)"))
	if got := again(online); got != 1 {
		t.Errorf("after the restore of the base backup there is %d, want 1", got)
	}
	if got := again(offline); got != 11 {
		t.Errorf("after the restore of the copy there is %d, want 11", got)
	}
	if online.At.After(offline.At) {
		t.Error("the base backup is dated after the copy")
	}
}

// TestStandby lets a primary commit to a standby, freezes that, and promotes it. A commit that the standby has not is
// one that nobody was told of, and it is gone then.
func TestStandby(t *testing.T) {
	s := open(t)
	p := postgres(t, s)
	standby, err := s.Standby(t.Context(), p, "standby")
	must(t, err)
	must(t, p.Exec(t.Context(), "INSERT INTO t VALUES (1)"))
	must(t, standby.Freeze(t.Context()))
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := p.Exec(short, "INSERT INTO t VALUES (10)"); err == nil {
		t.Error("a commit did not wait for the frozen standby")
	}
	must(t, p.Kill(t.Context()))
	must(t, standby.Kill(t.Context()))
	must(t, standby.Start(t.Context()))
	must(t, standby.Ready(t.Context(), time.Minute))
	must(t, standby.Promote(t.Context()))
	if got := sum(t, standby); got != 1 {
		t.Errorf("after the failover there is %d, want 1", got)
	}
	must(t, standby.Exec(t.Context(), "INSERT INTO t VALUES (100)"))
}

// TestClusters starts two Kafka clusters at once, one of them with three brokers. They are two, and places are kept.
func TestClusters(t *testing.T) {
	s := open(t)
	ids := map[string]bool{}
	for _, config := range []servers.KafkaConfig{{Brokers: 3, Nodes: 1}, {Name: "other"}} {
		k, err := s.Kafka(t.Context(), config)
		must(t, err)
		must(t, k.Start(t.Context()))
		must(t, k.Create(t.Context(), servers.Topic{
			Name: "t", Partitions: 2, On: map[int][]int32{1: {1}}, Settings: map[string]string{"retention.ms": "1000"},
		}))
		must(t, k.Whole(t.Context(), time.Minute))
		client, err := k.Connect()
		must(t, err)
		metadata, err := kadm.NewClient(client).Metadata(t.Context(), "t")
		client.Close()
		must(t, err)
		ids[metadata.Cluster] = true
		places := metadata.Topics["t"].Partitions
		if len(metadata.Brokers) != len(k.Brokers) || len(places[1].Replicas) != 1 ||
			len(places[0].Replicas) != len(k.Brokers) {
			t.Errorf("%d brokers, partitions %v", len(metadata.Brokers), places)
		}
	}
	if len(ids) != 2 {
		t.Errorf("the clusters are %v", ids)
	}
}

// TestImpossible asks for what nobody here may do: it is an error that says so.
func TestImpossible(t *testing.T) {
	s, err := servers.Open(t.Context(), servers.Config{Backend: servers.Given, Logs: t.TempDir(), Say: io.Discard})
	must(t, err)
	defer s.Close() //nolint:errcheck // there is nothing to end
	given, err := servers.GivenPostgres("postgres://somebody@127.0.0.1:1/x")
	must(t, err)
	_, kafka := s.Kafka(t.Context(), servers.KafkaConfig{})
	_, database := s.Postgres(t.Context(), servers.PostgresConfig{})
	_, backup := given.Backup(t.Context())
	for what, err := range map[string]error{
		"kafka": kafka, "postgres": database, "backup": backup, "kill": given.Kill(t.Context()),
		"restore": given.Restore(&servers.Backup{}),
	} {
		if err == nil {
			t.Errorf("%s: it was done", what)
		}
	}
	if _, err := servers.Open(t.Context(), servers.Config{Backend: "clouds"}); err == nil {
		t.Error("there are servers in clouds")
	}
}

// TestCollector starts a broker with the Java of Kafka's own scripts: it keeps the log of its collector, and another
// one has none.
func TestCollector(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts Kafka: not in a short test")
	}
	for _, shipped := range []bool{true, false} {
		s, err := servers.Open(t.Context(), servers.Config{
			Backend: servers.Processes, Logs: t.TempDir(), Say: os.Stderr, Shipped: shipped,
		})
		must(t, err)
		k, err := s.Kafka(t.Context(), servers.KafkaConfig{})
		must(t, err)
		if !shipped {
			if k.Brokers[0].Collector != "" {
				t.Errorf("it is to have a log: %s", k.Brokers[0].Collector)
			}
			must(t, s.Close())
			continue
		}
		must(t, k.Start(t.Context()))
		log, err := os.ReadFile(k.Brokers[0].Collector)
		if err != nil || !bytes.Contains(log, []byte("] Using G1")) {
			t.Errorf("%v\n%s", err, log)
		}
		must(t, s.Close())
	}
}
