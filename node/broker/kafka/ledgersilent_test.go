package kafka_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"chronos/node"
	"chronos/node/ledger"
)

// One output partition takes nothing. The transaction that finds out runs into its time limit, and blames the outputs
// of that partition. From then on such outputs are refused at once, and the writer commits what others have. A
// transaction that has outputs for that partition only is tried; it goes through soon after the partition is back.
func TestLedgerSilentOutput(t *testing.T) {
	t.Parallel()
	for what, fail := range map[string]func(*kfake.Cluster, string) *kfake.FaultHandle{
		"no leader": func(c *kfake.Cluster, topic string) *kfake.FaultHandle { return leaderless(c, topic, 1) },
		"too few replicas": func(c *kfake.Cluster, topic string) *kfake.FaultHandle {
			return c.Fault(kfake.Fault{
				Keys: []kmsg.Key{kmsg.Produce}, Topic: topic, Partitions: []int32{1},
				Err: kerr.NotEnoughReplicas, Count: -1,
			})
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			const limit = 4 * time.Second
			w := newWriting(t, limit)
			topic := w.plain.Topic(t, 2)
			commit := func(keys ...string) error {
				entry := ledger.Entry{Key: []byte(keys[0]), Value: []byte("entry")}
				transaction := ledger.Transaction{Entries: []ledger.Entry{entry}}
				for _, key := range keys {
					transaction.Outputs = append(transaction.Outputs, node.Record{
						Topic: topic, Key: []byte(key), Value: []byte(key),
					})
				}
				_, err := w.w.Commit(t.Context(), transaction)
				return err
			}
			var keys [2]string // by the partition
			for i := range 20 {
				if err := commit(fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
			for _, r := range w.plain.Read(t, topic) {
				keys[r.Partition] = string(r.Key)
			}
			fault := fail(w.Cluster, topic)
			blamed := func() {
				t.Helper()
				err := commit(keys[0], keys[1])
				refusal, is := errors.AsType[*ledger.RefusedError](err)
				if !is || !errors.Is(err, ledger.ErrAborted) || errors.Is(err, ledger.ErrSpent) ||
					refusal.Errs[0] != nil {
					t.Fatalf("a partition does not answer, and the error is %v", err)
				}
				if u, is := errors.AsType[*node.PublishError](refusal.Errs[1]); !is || u.Part != "1" {
					t.Fatalf("the output is blamed for %v", refusal.Errs[1])
				}
			}
			blamed()
			start := time.Now()
			for range 5 {
				blamed()
				if err := commit(keys[0]); err != nil {
					t.Fatalf("the other partition: %v", err)
				}
			}
			if took := time.Since(start); took > limit/2 {
				t.Errorf("ten transactions took %v beside a partition that does not answer", took)
			}
			_ = commit(keys[1]) // a probe, perhaps
			fault.Remove()
			start = time.Now()
			await(t, "the partition takes a probe", func() bool { return commit(keys[1]) == nil })
			if took := time.Since(start); took > limit {
				t.Errorf("it took %v until the partition was found to be back", took)
			}
			if err := commit(keys[0], keys[1]); err != nil {
				t.Errorf("both partitions: %v", err)
			}
		})
	}
}
