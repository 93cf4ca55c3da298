// Package brokertest are the conformance suites of node.Source and node.Sink: what their comments promise, as named
// cases that every adapter to Kafka passes, on a fake broker and on a real one.
//
// A case looks at the cluster by a plain client of its own (Cluster), so that an adapter cannot agree with itself
// about something wrong, and breaks the network of a node where the contract says what happens then (Network).
// No case sleeps: each waits for what it expects, up to a deadline.
package brokertest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"chronos/node"
)

// Source is a node.Source that can be closed, as adapters are.
type Source interface {
	node.Source

	Close(ctx context.Context) error
}

// Sink is a node.Sink that can be closed, as adapters are.
type Sink interface {
	node.Sink

	Close()
}

// Dial is how to open a connection to a broker.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// SourceOptions say how a case wants a Source.
type SourceOptions struct {
	// Group is the consumer group.
	Group string

	// Inputs are the topics to consume.
	Inputs []string

	// Dial is nil for the ordinary way.
	Dial Dial
}

// SinkOptions say how a case wants a Sink.
type SinkOptions struct {
	// PublishTimeout is the time limit of Publish.
	PublishTimeout time.Duration

	// Dial is nil for the ordinary way.
	Dial Dial
}

// Environment is a cluster and the adapters to test on it.
type Environment struct {
	// Cluster is the cluster, seen without the adapters. Cases make topics and groups of their own on it.
	Cluster *Cluster

	// OpenSource returns a new Source, which the case closes. Its session must time out within ten seconds.
	OpenSource func(t testing.TB, options SourceOptions) Source

	// OpenSink returns a new Sink, which the case closes.
	OpenSink func(t testing.TB, options SinkOptions) Sink

	// Fake says that the cluster does not check what is in a record. The cases about that are left out.
	Fake bool
}

// Run runs every case as a parallel subtest.
func Run(t *testing.T, env Environment) {
	groups := [][]testCase{
		pollCases(), startCases(), commitCases(), groupCases(), publishCases(), networkCases(),
	}
	if !env.Fake {
		groups = append(groups, realCases())
	}
	for _, group := range groups {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(t, env)
			})
		}
	}
}

type testCase struct {
	name string
	run  func(t *testing.T, env Environment)
}

// patience is how long a case waits for what must come. It is much longer than anything takes, except for the
// end of a session, so that a slow machine does not fail a case.
const patience = time.Minute

// defaultPublishTimeout is that of the cases that do not care.
const defaultPublishTimeout = patience

// consumer is a reader whose source can be closed.
type consumer struct {
	*Reader

	source Source
}

// open opens a Source for a case, read at the positions of its group, and closes it at the end.
func (env Environment) open(t testing.TB, options SourceOptions) *consumer {
	t.Helper()
	if options.Group == "" {
		options.Group = unique("group")
	}
	source := env.OpenSource(t, options)
	t.Cleanup(func() { _ = source.Close(context.Background()) })
	return &consumer{NewReader(source, env.Cluster.Positions(options.Group)), source}
}

// publisher opens a Sink for a case and closes it at the end.
func (env Environment) publisher(t testing.TB, options ...SinkOptions) Sink {
	t.Helper()
	use := SinkOptions{PublishTimeout: defaultPublishTimeout}
	for _, o := range options {
		use = o
	}
	sink := env.OpenSink(t, use)
	t.Cleanup(sink.Close)
	return sink
}

// closeNow closes a Source and expects that it leaves its group.
func closeNow(t *testing.T, c *consumer) {
	t.Helper()
	if err := c.source.Close(t.Context()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// poll polls once and expects no error.
func poll(t *testing.T, b *consumer) []node.Record {
	t.Helper()
	records, err := b.Poll(t.Context())
	if err != nil {
		t.Fatalf("poll: %v", err)
	}
	return records
}

// pollUntil polls until done is true of all records polled so far, and returns them.
func pollUntil(t *testing.T, b *consumer, what string, done func([]node.Record) bool) []node.Record {
	t.Helper()
	var all []node.Record
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		all = append(all, poll(t, b)...)
		if done(all) {
			return all
		}
	}
	t.Fatalf("still not after %v: %s; polled %d records", patience, what, len(all))
	return nil
}

// pollN polls until there are n records, and expects no more.
func pollN(t *testing.T, b *consumer, n int) []node.Record {
	t.Helper()
	all := pollUntil(t, b, fmt.Sprintf("%d records", n), func(all []node.Record) bool { return len(all) >= n })
	if len(all) > n {
		t.Fatalf("polled %d records, want %d", len(all), n)
	}
	return all
}

// pollBatch polls until a poll returns records, and returns those of that poll.
func pollBatch(t *testing.T, b *consumer) []node.Record {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if records := poll(t, b); len(records) > 0 {
			return records
		}
	}
	t.Fatalf("no records within %v", patience)
	return nil
}

// pollWhole polls until one poll returns all n records that there are, starting over with a new membership when they
// came in pieces: what Commit takes are the records of one poll.
func pollWhole(t *testing.T, b *consumer, n int) []node.Record {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		records := poll(t, b)
		if len(records) == n {
			return records
		}
		if len(records) > 0 {
			leave(t, b)
		}
	}
	t.Fatalf("no poll returned %d records within %v", n, patience)
	return nil
}

// commit commits records, again and again if need be: a commit that takes long says that it is not over.
func commit(t *testing.T, b *consumer, records []node.Record) {
	t.Helper()
	var last error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if last = b.Commit(t.Context(), records); last == nil {
			return
		}
	}
	t.Fatalf("commit, still after %v: %v", patience, last)
}

func leave(t *testing.T, b *consumer) {
	t.Helper()
	if err := b.Leave(t.Context()); err != nil {
		t.Fatalf("leave: %v", err)
	}
}

// publish publishes records and expects all to be acknowledged.
func publish(t *testing.T, b Sink, records ...node.Record) {
	t.Helper()
	for i, err := range b.Publish(t.Context(), records) {
		if err != nil {
			t.Fatalf("publish record %d of %d: %v", i, len(records), err)
		}
	}
}

// await waits until done is true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// values returns the values of records as texts.
func values(records []node.Record) []string {
	list := make([]string, len(records))
	for i, r := range records {
		list[i] = string(r.Value)
	}
	return list
}

// texts returns n records on a topic with the values "prefix-0", "prefix-1" and so on, each with its value as key.
func texts(topic, prefix string, n int) []node.Record {
	records := make([]node.Record, n)
	for i := range records {
		text := fmt.Sprintf("%s-%d", prefix, i)
		records[i] = node.Record{Topic: topic, Key: []byte(text), Value: []byte(text)}
	}
	return records
}

// sameBytes reports whether a and b are the same bytes, and either both null or neither.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }

// samePayload returns how the payloads of two records differ; empty if they do not.
func samePayload(got, want node.Record) string {
	if !sameBytes(got.Key, want.Key) {
		return fmt.Sprintf("key is %s, want %s", show(got.Key), show(want.Key))
	}
	if !sameBytes(got.Value, want.Value) {
		return fmt.Sprintf("value is %s, want %s", show(got.Value), show(want.Value))
	}
	if len(got.Headers) != len(want.Headers) {
		return fmt.Sprintf("there are %d headers, want %d", len(got.Headers), len(want.Headers))
	}
	for i, h := range got.Headers {
		if w := want.Headers[i]; h.Name != w.Name || !sameBytes(h.Value, w.Value) {
			return fmt.Sprintf("header %d is %q=%s, want %q=%s", i, h.Name, show(h.Value), w.Name, show(w.Value))
		}
	}
	return ""
}

// show returns bytes for a person, and tells null from empty.
func show(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) > 40 {
		return fmt.Sprintf("%q... of %d bytes", b[:40], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// payloads returns records on a topic with every kind of key, value and headers that Kafka tells apart.
func payloads(topic string) []node.Record {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	kinds := [][]byte{nil, {}, []byte("text"), {0}, {0xff, 0xfe, 0}, every}
	var records []node.Record
	for _, key := range kinds {
		for _, value := range kinds {
			records = append(records, node.Record{Topic: topic, Key: key, Value: value})
		}
	}
	headers := [][]node.Header{
		{{Name: "null", Value: nil}, {Name: "empty", Value: []byte{}}, {Name: "binary", Value: every}},
		{{Name: "twice", Value: []byte("1")}, {Name: "other"}, {Name: "twice", Value: []byte("2")}},
		{{Name: "twice", Value: nil}, {Name: "twice", Value: nil}},
		{{Name: "", Value: []byte("no name")}},
		{{Name: "NUL\x00", Value: []byte{0}}, {Name: "not UTF-8 \xff\xfe", Value: []byte("x")}},
		{{Name: "ünïcode", Value: []byte("☃")}},
	}
	for _, h := range headers {
		records = append(records,
			node.Record{Topic: topic, Key: []byte("k"), Value: []byte("v"), Headers: h},
			node.Record{Topic: topic, Headers: h},
		)
	}
	return records
}
