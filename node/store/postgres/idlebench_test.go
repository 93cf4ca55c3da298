package postgres_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/clock/system"
	"chronos/node/queue"
	"chronos/node/store/postgres"
)

// BenchmarkIdleNodes measures what nodes cost that have nothing to do, a hundred of them on one server by default
// (CHRONOS_TEST_NODES), each with its engine and its Keeper of queues, in one process, over five pools, each of which
// listens: transactions of the server and its CPU time, for each node and second; without an idle interval, and with
// that of the default. Then one node after another stores a message that is due in 300 ms, and tells its engine, as
// the service does; and then some process does, which has no engine to tell: the nodes hear of that by the store. How
// late these come out is reported, too.
func BenchmarkIdleNodes(b *testing.B) {
	nodes := 100
	if text := os.Getenv("CHRONOS_TEST_NODES"); text != "" {
		var err error
		if nodes, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, idle := range []time.Duration{0, time.Second} {
		b.Run(fmt.Sprint("nodes=", nodes, "/idle=", idle), func(b *testing.B) {
			for b.Loop() {
				newIdleNodes(b, nodes, idle).measure()
			}
		})
	}
}

// idleNodes are nodes in one process that share a store.
type idleNodes struct {
	*testing.B

	address string
	stores  []*postgres.Store
	nodes   []*node.Node

	mu   sync.Mutex
	late []time.Duration // of what has come out since the last look
}

func newIdleNodes(b *testing.B, count int, idle time.Duration) *idleNodes {
	n := &idleNodes{B: b, address: newSchema(b, newDatabase(b))}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	b.Cleanup(running.Wait)
	b.Cleanup(cancel)
	const mostPools = 5 // the servers of tests have few connections
	var stores []*postgres.Store
	for i := range count {
		config := node.Default()
		config.IdleInterval = idle
		config.Routes = []node.Route{{Input: "in", Output: "out", DeadLetter: "dead"}}
		_, _ = rand.Read(config.Seed[:]) // never fails
		if len(stores) < mostPools {
			stores = append(stores, open(b, n.address, postgres.Options{Timeout: config.StoreTimeout()}))
		}
		store := stores[i%len(stores)]
		clock := system.New()
		one, err := node.New(config, node.Ports{
			Clock: clock, Store: store, Source: quietSource{}, Sink: n, Hears: store.Hears,
		}, func(node.Event) {})
		if err != nil {
			b.Fatal(err)
		}
		n.stores, n.nodes = append(n.stores, store), append(n.nodes, one)
		keeper := queue.Keeper{Store: store, Clock: clock}
		running.Go(func() { keeper.Run(ctx) })
		running.Go(func() {
			loops := &goroutines{}
			loops.ctx, loops.cancel = context.WithCancel(context.Background())
			one.Run(ctx, loops)
		})
	}
	for i, store := range stores {
		running.Go(func() {
			store.Listen(ctx, func() {
				for at := i; at < len(n.nodes); at += len(stores) {
					n.nodes[at].Stir()
				}
			})
		})
	}
	return n
}

// measure waits until all have begun, and then watches them.
func (n *idleNodes) measure() {
	const settle, watched = 5 * time.Second, 20 * time.Second
	count := float64(len(n.nodes)) * watched.Seconds()
	wait(settle)
	commits, server, own := n.commits(), n.serverTime(), ownTime()
	wait(watched)
	n.ReportMetric(float64(n.commits()-commits)/count, "tx/s/node")
	n.ReportMetric(float64((n.serverTime()-server).Microseconds())/1000/count, "server-ms/s/node")
	n.ReportMetric(float64((ownTime()-own).Microseconds())/1000/count, "node-ms/s/node")
	n.ReportMetric(n.fire(true), "late-max-ms")
	n.ReportMetric(n.fire(false), "unannounced-late-max-ms")
	n.ReportMetric(0, "ns/op")
}

// fire stores messages that are due in 300 ms, by one node after another while all rest, and returns by how many
// milliseconds the last one is late.
func (n *idleNodes) fire(told bool) float64 {
	const messages = 8
	for i := range messages {
		id, due := uuid.New(), time.Now().UTC().Add(300*time.Millisecond).Truncate(time.Microsecond)
		at := i % len(n.nodes)
		_, err := n.stores[at].Take(context.Background(), node.TakeRequest{Items: []node.Item{{
			From: node.NoPlace, Action: node.Schedule, Message: node.Message{
				ID: id.String(), Lane: "out", Incarnation: id, Deadline: due,
				Value: []byte(due.Format(time.RFC3339Nano)),
			},
		}}})
		if err != nil {
			n.Fatal(err)
		}
		if told {
			n.nodes[at].Stir()
		}
		wait(2500 * time.Millisecond) // until all rest again
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.late) != messages {
		n.Errorf("%d messages have come out of %d", len(n.late), messages)
		return 0
	}
	late := slices.Max(n.late)
	n.late = nil
	return float64(late.Microseconds()) / 1000
}

// Publish implements node.Sink. The value of a message is its deadline.
func (n *idleNodes) Publish(_ context.Context, records []node.Record) []error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range records {
		if due, err := time.Parse(time.RFC3339Nano, string(records[i].Value)); err == nil {
			n.late = append(n.late, time.Since(due))
		}
	}
	return make([]error, len(records))
}

// commits returns how many transactions the database has seen.
func (n *idleNodes) commits() (commits int64) {
	conn := connect(n, n.address)
	const query = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
	if err := conn.QueryRow(context.Background(), query).Scan(&commits); err != nil {
		n.Fatal(err)
	}
	return commits
}

// serverTime returns the CPU time of the server's processes for this database, if they are on this machine.
func (n *idleNodes) serverTime() (used time.Duration) {
	conn := connect(n, n.address)
	rows, err := conn.Query(context.Background(),
		"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	if err != nil {
		n.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			n.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		for _, field := range fields[11:13] { // utime and stime
			ticks, err := strconv.Atoi(field)
			if err != nil {
				n.Fatal(err)
			}
			used += time.Duration(ticks) * 10 * time.Millisecond
		}
	}
	return used
}

// ownTime returns the CPU time of this process.
func ownTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// wait returns after a while.
func wait(d time.Duration) { <-time.After(d) }

// goroutines are the tasks of one node.
type goroutines struct {
	ctx     context.Context //nolint:containedctx // it is what Go hands to each loop
	cancel  func()
	running sync.WaitGroup
}

// Go implements node.Tasks.
func (g *goroutines) Go(_ node.Operation, loop func(ctx context.Context)) {
	g.running.Go(func() { loop(g.ctx) })
}

// Stop implements node.Tasks.
func (g *goroutines) Stop() {
	g.cancel()
	g.running.Wait()
}

// quietSource is an input topic that nothing comes from.
type quietSource struct{}

// Poll implements node.Source.
func (quietSource) Poll(ctx context.Context) (node.Batch, error) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Second):
	}
	return node.Batch{}, nil
}

// Start implements node.Source.
func (quietSource) Pause([]node.Partition) {}

func (quietSource) Start(context.Context, []node.Place) error { return nil }

// Commit implements node.Source.
func (quietSource) Commit(context.Context, []node.Place) error { return nil }

// Extents implements node.Source.
func (quietSource) Extents(context.Context) ([]node.Extent, error) { return nil, nil }

// Leave implements node.Source.
func (quietSource) Leave(context.Context) error { return nil }
