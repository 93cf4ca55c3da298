package kafka_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/broker/brokertest"
	"chronos/node/broker/kafka"
	"chronos/node/ledger"
)

// writing is the writer of a journal on a fake cluster, with an output topic, of one partition each.
type writing struct {
	testing.TB
	*kfake.Cluster

	plain         *brokertest.Cluster
	l             *kafka.Ledger
	w             ledger.Writer
	topic, output string
}

// newWriting returns a writer whose commits may take that long; 10 s, for a machine that is busy, if limit is zero.
func newWriting(t testing.TB, limit time.Duration) *writing {
	t.Helper()
	cluster, plain := newFake(t)
	w := &writing{TB: t, Cluster: cluster, plain: plain, topic: plain.Topic(t, 1), output: plain.Topic(t, 1)}
	var err error
	if w.l, err = kafka.NewLedger(kafka.LedgerConfig{
		Connection: kafka.Connection{Brokers: cluster.ListenAddrs()}, Topic: w.topic, Name: "chronos",
		CommitTimeout: cmp.Or(limit, 10*time.Second),
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.l.Close)
	w.own()
	return w
}

// own makes a writer.
func (w *writing) own() {
	w.Helper()
	var err error
	if w.w, err = w.l.Own(w.Context(), 0, ledger.Entry{Key: []byte("fence"), Value: []byte("fence")}); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(w.w.Close)
}

// lead has brokers lead the partitions.
func (w *writing) lead(journal, output int32) {
	w.Helper()
	err := errors.Join(w.MoveTopicPartition(w.topic, 0, journal), w.MoveTopicPartition(w.output, 0, output))
	if err != nil {
		w.Fatal(err)
	}
}

// commit commits an entry of that name.
func (w *writing) commit(ctx context.Context, name string) error {
	entries := []ledger.Entry{{Key: []byte(name), Value: []byte(name)}}
	_, err := w.w.Commit(ctx, ledger.Transaction{Entries: entries})
	return err
}

// fire commits an entry and an output of that name.
func (w *writing) fire(name string) error {
	_, err := w.w.Commit(w.Context(), ledger.Transaction{
		Entries: []ledger.Entry{{Key: []byte(name), Value: []byte(name)}},
		Outputs: []node.Record{{Topic: w.output, Key: []byte(name), Value: []byte(name)}},
	})
	return err
}

// check compares what was committed to a topic.
func (w *writing) check(topic string, want ...string) {
	w.Helper()
	var got []string
	for _, r := range consume(w, w.ListenAddrs(), topic, true) {
		got = append(got, string(r.Value))
	}
	if !slices.Equal(got, want) {
		w.Errorf("there are %q, want %q", got, want)
	}
}

// The partition of an output has forgotten the writer in the middle of a transaction, and its log begins behind all
// that the writer has ever appended to it. Then franz-go becomes another producer, by which the brokers abort what
// they have acknowledged, and appends the rest. Goal: the transaction is there, all of it. Method: the output is
// refused once the entry is appended.
func TestLedgerProducerChanges(t *testing.T) {
	t.Parallel()
	w := newWriting(t, 0)
	const journal, output = 0, 1
	w.lead(journal, output)
	if err := w.fire("before"); err != nil {
		t.Fatal(err)
	}
	appended := make(chan struct{})
	tell := sync.OnceFunc(func() { close(appended) })
	w.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		if w.CurrentNode() == journal {
			tell()
			return nil, nil, false
		}
		w.SleepControl(func() { <-appended })
		return refusing(request, kerr.OutOfOrderSequenceNumber), nil, true
	})
	if err := w.fire("after"); err != nil {
		t.Error(err)
	}
	w.check(w.topic, "fence", "before", "after")
	w.check(w.output, "before", "after")
}

// refusing returns an answer that refuses all of a request, by a broker whose logs begin behind everything.
func refusing(request kmsg.Request, err *kerr.Error) kmsg.Response {
	produce := request.(*kmsg.ProduceRequest)
	response := produce.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range produce.Topics {
		answer := kmsg.NewProduceResponseTopic()
		answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			one := kmsg.NewProduceResponseTopicPartition()
			one.Partition, one.ErrorCode, one.LogStartOffset = p.Partition, err.Code, 1<<30
			answer.Partitions = append(answer.Partitions, one)
		}
		response.Topics = append(response.Topics, answer)
	}
	return response
}

// A writer that has to become another producer before it can begin, and to whom nobody answers, gives that up within
// the time of a commit.
func TestLedgerBeginsInTime(t *testing.T) {
	t.Parallel()
	const limit = 2 * time.Second
	w := newWriting(t, limit)
	w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.EndTxn}, Err: kerr.TransactionAbortable, Count: 1})
	if err := w.commit(t.Context(), "aborted"); !errors.Is(err, ledger.ErrAborted) || errors.Is(err, ledger.ErrSpent) {
		t.Fatalf("a commit that is to be aborted: %v", err)
	}
	w.ControlKey(int16(kmsg.InitProducerID), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		return nil, nil, true
	})
	began := time.Now()
	err := w.commit(t.Context(), "unanswered")
	if took := time.Since(began); took > limit+3*time.Second {
		t.Errorf("the commit took %v, with a limit of %v", took, limit)
	}
	if !errors.Is(err, ledger.ErrAborted) || !errors.Is(err, ledger.ErrSpent) || errors.Is(err, ledger.ErrFenced) {
		t.Errorf("nobody has answered: %v", err)
	}
}

// A transaction that is refused when most of its time is over is aborted all the same, and its writer goes on. Method:
// brokers that are slow, so that the end of the transaction is answered behind the end of its time.
func TestLedgerAbortHasTime(t *testing.T) {
	t.Parallel()
	const limit = 4 * time.Second
	w := newWriting(t, limit)
	began := time.Now()
	for key, answered := range map[kmsg.Key]time.Duration{
		kmsg.Produce: limit - limit/4, kmsg.EndTxn: limit + limit/4,
	} {
		w.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			w.SleepControl(func() { <-time.After(time.Until(began.Add(answered))) })
			return nil, nil, false
		})
	}
	w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: w.topic, Err: kerr.MessageTooLarge, Count: 1})
	err := w.commit(t.Context(), "refused")
	if !errors.Is(err, ledger.ErrRefused) || !errors.Is(err, ledger.ErrAborted) || errors.Is(err, ledger.ErrSpent) {
		t.Errorf("it is refused late: %v", err)
	}
	if err := w.commit(t.Context(), "next"); err != nil {
		t.Errorf("the next one: %v", err)
	}
	w.check(w.topic, "fence", "next")
}

// Who does not wait any more does not stop a commit in the middle: it would be unknown what has become of it.
func TestLedgerCommitGoesOn(t *testing.T) {
	t.Parallel()
	w := newWriting(t, 0)
	ctx, cancel := context.WithCancel(t.Context())
	w.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		cancel()
		return nil, nil, false
	})
	if err := w.commit(ctx, "entry"); err != nil {
		t.Error(err)
	}
	w.check(w.topic, "fence", "entry")
	if err := w.commit(ctx, "late"); !errors.Is(err, ledger.ErrAborted) || errors.Is(err, ledger.ErrSpent) {
		t.Errorf("what was not begun: %v", err)
	}
}

// Who is fenced learns that, and not that an output is refused: the partition is not his any more, and who is to blame
// for the transaction is of no interest. Method: one answer says both.
func TestLedgerFencedIsRefusedNothing(t *testing.T) {
	t.Parallel()
	w := newWriting(t, 0)
	w.lead(0, 0)
	if err := w.fire("before"); err != nil {
		t.Fatal(err)
	}
	for topic, err := range map[string]*kerr.Error{w.topic: kerr.InvalidProducerEpoch, w.output: kerr.MessageTooLarge} {
		w.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Err: err, Count: 1})
	}
	err := w.fire("after")
	var refusal *ledger.RefusedError
	if !errors.Is(err, ledger.ErrFenced) || !errors.Is(err, ledger.ErrAborted) || errors.As(err, &refusal) {
		t.Errorf("who is fenced is told: %v", err)
	}
	w.check(w.output, "before")
}

// An output topic that is deleted, and created again, is published on again. franz-go would mean the former one for as
// long as there is the client. Goal: while there is none, and for one transaction behind that at most, the output is to
// blame; the writer is fenced by nobody, and who makes another one need not wait.
func TestLedgerRecreatedOutput(t *testing.T) {
	t.Parallel()
	w := newWriting(t, 0)
	owned := 1
	fire := func(name string) error {
		err := w.fire(name)
		if err == nil {
			return nil
		}
		var refusal *ledger.RefusedError
		isBlamed := errors.As(err, &refusal) && node.KindOf(refusal.Errs[0]) == node.TopicMissing
		if !isBlamed || errors.Is(err, ledger.ErrFenced) {
			t.Fatalf("%s: %v, want that there is no topic", name, err)
		}
		if errors.Is(err, ledger.ErrSpent) {
			w.own()
			owned++
		}
		return err
	}
	const rounds = 3
	for round := range rounds {
		await(t, "the topic accepts a record", func() bool { return fire("there") == nil })
		w.check(w.output, "there")
		if err := w.DeleteTopic(w.output); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // somebody notices before it is there again
			for range 2 {
				if fire("nowhere") == nil {
					t.Fatal("there is no topic, and it accepts a record")
				}
			}
		}
		w.plain.CreateTopic(t, w.output, 1)
	}
	if owned > 1+rounds {
		t.Errorf("the partition was owned %d times, and the topic was created again %d times", owned, rounds)
	}
}

// The same in the middle of a transaction, which has been appended to the former one, and would be committed without
// that. Method: the entry waits until the topic is another one, and is refused for a reason to look topics up, until
// the client has done so: it asks one request after the other, and the first one may have been on its way before.
func TestLedgerRecreatedOutputWithin(t *testing.T) {
	t.Parallel()
	w := newWriting(t, 0)
	const journal, output = 0, 1
	w.lead(journal, output)
	if err := w.fire("before"); err != nil {
		t.Fatal(err)
	}
	appended := make(chan struct{})
	tell := sync.OnceFunc(func() { close(appended) })
	var again atomic.Bool
	var looked atomic.Int32
	w.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		if again.Load() {
			looked.Add(1)
		}
		return nil, nil, false
	})
	w.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		w.KeepControl()
		if w.CurrentNode() == output {
			tell()
			return nil, nil, false
		}
		if !again.Load() {
			w.SleepControl(func() {
				<-appended
				if err := errors.Join(w.DeleteTopic(w.output), w.CreateTopic(w.output, 1, nil)); err != nil {
					t.Error(err)
				}
			})
			again.Store(true)
		}
		if looked.Load() > 1 {
			return nil, nil, false
		}
		return refusing(request, kerr.NotLeaderForPartition), nil, true
	})
	err := w.fire("lost")
	if !errors.Is(err, ledger.ErrAborted) || !errors.Is(err, ledger.ErrSpent) || errors.Is(err, ledger.ErrFenced) {
		t.Errorf("what was appended to a topic that is no more: %v", err)
	}
	w.own()
	if err := w.fire("after"); err != nil {
		t.Error(err)
	}
	w.check(w.topic, "fence", "before", "fence", "after")
	w.check(w.output, "after")
}
