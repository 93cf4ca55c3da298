package node_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"chronos/node"
)

// Every kind of bad record is rejected with its reason, copied to the dead-letter topic byte for byte, and in
// nobody's way: the good ones around them fire, and everything is committed.
func TestBadRecords(t *testing.T) {
	h := func(name, value string) node.Header { return node.Header{Name: name, Value: []byte(value)} }
	id, deadline := h(node.HeaderID, "x"), h(node.HeaderDeadline, "2022-12-01T11:09:01")
	long := strings.Repeat("é", 64)
	for name, c := range map[string]struct {
		headers []node.Header
		want    node.Reason
	}{
		"no headers":         {nil, node.MissingID},
		"no id":              {[]node.Header{deadline}, node.MissingID},
		"other case":         {[]node.Header{h("chronosMessageID", "x"), deadline}, node.MissingID},
		"id twice":           {[]node.Header{id, deadline, id}, node.RepeatedID},
		"two deadlines only": {[]node.Header{deadline, deadline}, node.MissingID},
		"empty id":           {[]node.Header{h(node.HeaderID, ""), deadline}, node.EmptyID},
		"null id":            {[]node.Header{{Name: node.HeaderID}, deadline}, node.EmptyID},
		"long id":            {[]node.Header{h(node.HeaderID, long+"x"), deadline}, node.IDTooLong},
		"binary id":          {[]node.Header{h(node.HeaderID, "\xff"), deadline}, node.InvalidID},
		"id with NUL":        {[]node.Header{h(node.HeaderID, "a\x00b"), deadline}, node.InvalidID},
		"no deadline":        {[]node.Header{id}, node.MissingDeadline},
		"deadline twice":     {[]node.Header{id, deadline, deadline}, node.RepeatedDeadline},
		"null deadline":      {[]node.Header{id, {Name: node.HeaderDeadline}}, node.InvalidDeadline},
		"no time":            {[]node.Header{id, h(node.HeaderDeadline, "soon")}, node.InvalidDeadline},
		"number":             {[]node.Header{id, h(node.HeaderDeadline, "1669892941")}, node.InvalidDeadline},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.submit("good1", time.Second)
				bad := w.submitRecord(node.Record{Key: nil, Value: []byte{0, 0xff}, Headers: c.headers})
				w.submit("good2", -time.Second)
				w.run(config(0), nil)
				pass(2 * time.Second)
				if got := w.values("out"); len(got) != 2 {
					t.Errorf("delivered %v", got)
				}
				rejected := seen[node.Rejected](w)
				if len(rejected) != 1 || rejected[0].Reason != c.want || rejected[0].Record.Offset != bad.Offset {
					t.Fatalf("rejected: %+v, want %s", rejected, c.want)
				}
				checkDeadLetter(t, w.on("dead"), bad, c.want)
				w.empty()
			})
		})
	}
}

func checkDeadLetter(t *testing.T, dead []delivery, bad node.Record, reason node.Reason) {
	t.Helper()
	if len(dead) != 1 {
		t.Fatalf("%d dead letters", len(dead))
	}
	got := dead[0].Record
	if !bytes.Equal(got.Key, bad.Key) || (got.Key == nil) != (bad.Key == nil) || !bytes.Equal(got.Value, bad.Value) {
		t.Errorf("its key and value are %q and %q", got.Key, got.Value)
	}
	for i, h := range bad.Headers {
		g := got.Headers[i]
		if g.Name != h.Name || !bytes.Equal(g.Value, h.Value) || (g.Value == nil) != (h.Value == nil) {
			t.Errorf("header %d is %q, was %q", i, g, h)
		}
	}
	if header(got, node.HeaderReason) != string(reason) || header(got, node.HeaderError) == "" ||
		header(got, node.HeaderSourceTopic) != "in" || header(got, node.HeaderSourceOffset) != "1" ||
		header(got, node.HeaderSourcePartition) != "0" {
		t.Errorf("its reason headers: %q", got.Headers)
	}
}

// An id of 128 bytes is valid, and what is relayed is configured.
func TestRelayHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := config(0)
		c.RelayHeaders = []string{node.HeaderID}
		w.submit(strings.Repeat("é", 64), time.Second)
		w.run(c, nil)
		pass(2 * time.Second)
		got := w.on("out")
		if len(got) != 1 || header(got[0].Record, node.HeaderID) != strings.Repeat("é", 64) ||
			got[0].Headers[1].Name != node.HeaderID || header(got[0].Record, node.HeaderDeadline) != "" {
			t.Errorf("delivered %v", got)
		}
	})
}

// A dead-letter topic that is missing blocks nothing, and gets its copy when it is there.
func TestDeadLetterTopicMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var missing atomic.Bool
		missing.Store(true)
		w.refuse = func(r node.Record) error {
			if r.Topic == "dead" && missing.Load() {
				return node.TopicMissing
			}
			return nil
		}
		w.submitRecord(node.Record{Value: []byte("bad")})
		w.submit("good", time.Second)
		w.run(config(0), nil)
		pass(10 * time.Second)
		if len(w.on("out")) != 1 || w.commits() != 2 {
			t.Errorf("delivered %v, committed %d", w.on("out"), w.commits())
		}
		missing.Store(false)
		pass(time.Minute)
		if got := w.on("dead"); len(got) != 1 || string(got[0].Value) != "bad" {
			t.Errorf("dead letters %v", got)
		}
		w.empty()
	})
}
