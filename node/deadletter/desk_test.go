package deadletter_test

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/broker/embedded"
	"chronos/node/broker/kafka"
	"chronos/node/deadletter"
)

// letter is a dead letter as a node writes it.
func letter(id, reason, source string, more ...kgo.RecordHeader) *kgo.Record {
	return &kgo.Record{
		Topic: "dead", Key: []byte("key of " + id), Value: []byte("value of " + id),
		Headers: append([]kgo.RecordHeader{
			{Key: node.HeaderID, Value: []byte(id)},
			{Key: "own", Value: []byte("1")},
			{Key: node.HeaderReason, Value: []byte(reason)},
			{Key: node.HeaderError, Value: []byte("because")},
			{Key: node.HeaderSourceTopic, Value: []byte(source)},
			{Key: node.HeaderSourcePartition, Value: []byte("0")},
			{Key: node.HeaderSourceOffset, Value: []byte("7")},
		}, more...),
	}
}

// start returns a desk over a broker, and a client that produces there and reads topic in.
func start(t *testing.T) (*deadletter.Desk, *kgo.Client) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it is closed with the broker
	if err != nil {
		t.Fatal(err)
	}
	broker, err := embedded.Start(embedded.Config{Listener: listener, Topics: []string{"in", "other", "dead"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	options, err := kafka.ConnectionOptions(kafka.Connection{Brokers: []string{broker.Address()}})
	if err != nil {
		t.Fatal(err)
	}
	options = append(options, kafka.ProducerOptions()...)
	client, err := kgo.NewClient(append(slices.Clone(options), kgo.ConsumeTopics("in"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return deadletter.New(deadletter.Config{
		Options: options, Topics: []string{"dead", "missing"}, Inputs: []string{"in"},
	}), client
}

func produce(t *testing.T, client *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// Goal: dead letters are listed, the latest first, with counts by reason, and those that are meant go back as they were
// sent, once, by a dry run first; others stay, each with why. Method: an embedded broker, dead letters of all kinds.
func TestReplay(t *testing.T) {
	t.Parallel()
	desk, client := start(t)
	past := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	future := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	produce(t, client,
		letter("a", "publish_rejected", "in", kgo.RecordHeader{Key: node.HeaderNotAfter, Value: []byte(future)}),
		letter("b", "invalid_deadline", "in"),
		letter("c", "publish_rejected", "in", kgo.RecordHeader{Key: node.HeaderCut, Value: []byte("value")}),
		letter("d", "publish_rejected", "other"),
		letter("e", "publish_rejected", ""),
		letter("f", "publish_rejected", "in", kgo.RecordHeader{Key: node.HeaderNotAfter, Value: []byte(past)}),
		&kgo.Record{Topic: "dead", Value: []byte("a stranger's")},
	)
	list, err := desk.List(t.Context(), deadletter.Filter{Topic: "dead"})
	if err != nil || list.Matched != 7 || list.Looked != 7 || list.Older || list.Letters[6].ID != "a" ||
		list.Letters[5].Reason != "invalid_deadline" || list.Letters[5].Source != "in" ||
		list.Letters[0].Reason != "" ||
		!maps.Equal(list.Reasons, map[string]int{"publish_rejected": 5, "invalid_deadline": 1, "": 1}) {
		t.Errorf("listed: %+v, %v", list, err)
	}
	list, err = desk.List(t.Context(), deadletter.Filter{Topic: "dead", Reason: "publish_rejected", ID: "d"})
	if err != nil || list.Matched != 1 || len(list.Letters) != 1 || string(list.Letters[0].Key) != "key of d" {
		t.Errorf("of d: %+v, %v", list, err)
	}
	all := deadletter.Request{Filter: deadletter.Filter{Topic: "dead"}, DryRun: true}
	dry, err := desk.Replay(t.Context(), all)
	if err != nil || dry.Matched != 7 || dry.Next != "" || !maps.Equal(dry.Back, map[string]int{"in": 2}) ||
		!maps.Equal(dry.Again, map[string]int{"invalid_deadline": 1}) || len(dry.LeftOut) != 5 {
		t.Fatalf("the dry run: %+v, %v", dry, err)
	}
	produce(t, client, letter("later", "publish_rejected", "in")) // which nobody has counted
	done, err := desk.Replay(t.Context(), deadletter.Request{Filter: all.Filter, Cursor: dry.Window})
	if err != nil || done.Matched != 7 || !maps.Equal(done.Back, dry.Back) {
		t.Fatalf("the replay: %+v, %v", done, err)
	}
	produce(t, client, &kgo.Record{Topic: "in", Value: []byte("the end")})
	var back []string
	for len(back) == 0 || back[len(back)-1] != "the end" {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			text := string(r.Value)
			for _, h := range r.Headers {
				text += fmt.Sprintf(" %s=%s", h.Key, h.Value)
			}
			back = append(back, text)
		})
	}
	if want := []string{
		"value of a chronosMessageId=a own=1 chronosNotAfter=" + future, "value of b chronosMessageId=b own=1",
		"the end",
	}; !slices.Equal(back, want) {
		t.Errorf("back came %q, want %q", back, want)
	}
}

// Goal: a walk over more than one page counts and writes each dead letter once, and a list of very many says that it
// has not looked at all. Method: 1,230 dead letters of two kinds.
func TestReplayByPages(t *testing.T) {
	t.Parallel()
	desk, client := start(t)
	var records []*kgo.Record
	for i := range 1230 {
		records = append(records, letter(fmt.Sprint(i), []string{"store_refused", "too_far"}[i%2], "in"))
	}
	produce(t, client, records...)
	list, err := desk.List(t.Context(), deadletter.Filter{Topic: "dead"})
	if err != nil || !list.Older || list.Looked != 1000 || list.Matched != 1000 || len(list.Letters) != 100 ||
		list.Letters[0].ID != "1229" {
		t.Errorf("listed %d of %d, older %v: %v", len(list.Letters), list.Matched, list.Older, err)
	}
	for _, dry := range []bool{true, false} {
		request := deadletter.Request{Filter: deadletter.Filter{Topic: "dead", Reason: "store_refused"}, DryRun: dry}
		pages, count := 0, 0
		for more := true; more; more = request.Cursor != "" {
			done, err := desk.Replay(t.Context(), request)
			if err != nil {
				t.Fatal(err)
			}
			pages, count, request.Cursor = pages+1, count+done.Back["in"], done.Next
		}
		if pages != 3 || count != 615 {
			t.Errorf("dry %v: %d on %d pages", dry, count, pages)
		}
	}
	for read := map[string]bool{}; len(read) < 615; {
		client.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			if read[string(r.Key)] {
				t.Errorf("%s is back twice", r.Key)
			}
			read[string(r.Key)] = true
		})
	}
}

// Goal: what a journal writes is read to its end, which is a mark and no record, and what was aborted is left out.
// Method: two transactions, of which the second is aborted.
func TestTransactions(t *testing.T) {
	t.Parallel()
	desk, client := start(t)
	writer, err := kgo.NewClient(append(client.Opts(), kgo.TransactionalID("journal"), kgo.ConsumeTopics())...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(writer.Close)
	for id, end := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := writer.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		produce(t, writer, letter(strconv.Itoa(id), "expired", "in"))
		if err := writer.EndTransaction(t.Context(), end); err != nil {
			t.Fatal(err)
		}
	}
	list, err := desk.List(t.Context(), deadletter.Filter{Topic: "dead"})
	if err != nil || list.Matched != 1 || list.Letters[0].ID != "0" {
		t.Errorf("listed: %+v, %v", list, err)
	}
	done, err := desk.Replay(t.Context(), deadletter.Request{Filter: deadletter.Filter{Topic: "dead"}})
	if err != nil || done.Back["in"] != 1 || done.Next != "" || len(done.Again) > 0 {
		t.Errorf("put back: %+v, %v", done, err)
	}
}

// Goal: what makes no sense is told in a sentence, and nothing is read or written elsewhere. Method: topics that are
// none of this node's, one that is missing, a cursor that was made up.
func TestRefused(t *testing.T) {
	t.Parallel()
	desk, _ := start(t)
	for _, c := range []struct{ topic, cursor, says string }{
		{"in", "", `"in" is no dead-letter topic of this node: it has dead, missing`},
		{"missing", "", "topic missing does not exist"},
		{"dead", "x", "the cursor is none"},
		{"dead", "eyIwIjp7ImZyb20iOi0xLCJlbmQiOjF9fQ", "the cursor is none"}, // from -1
	} {
		filter := deadletter.Filter{Topic: c.topic}
		_, err := desk.Replay(t.Context(), deadletter.Request{Filter: filter, Cursor: c.cursor})
		var wrong *deadletter.RequestError
		if !errors.As(err, &wrong) || !strings.Contains(wrong.Sentence, c.says) {
			t.Errorf("%+v: %v", c, err)
		}
		if c.cursor != "" {
			continue
		}
		if _, err := desk.List(t.Context(), filter); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("list %+v: %v", c, err)
		}
	}
}
