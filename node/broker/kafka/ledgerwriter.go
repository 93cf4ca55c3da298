package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/ledger"
)

// ledgerWriter is ledger.Writer: a transactional producer.
type ledgerWriter struct {
	config LedgerConfig
	number int32
	client *kgo.Client
	silent *silentWatch
	fence  int64
	spent  bool
	closed sync.Once
}

// Fence implements ledger.Writer.
func (w *ledgerWriter) Fence() int64 { return w.fence }

// Close implements ledger.Writer.
func (w *ledgerWriter) Close() { w.closed.Do(w.client.Close) }

// Commit implements ledger.Writer. It does not end with ctx, but within its own time limit: to stop in the middle would
// leave the outcome unknown.
func (w *ledgerWriter) Commit(ctx context.Context, transaction ledger.Transaction) (end int64, err error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("commit: %w: %w", ledger.ErrAborted, err)
	}
	if w.spent {
		return 0, fmt.Errorf("commit: %w: %w", ledger.ErrFenced, ledger.ErrAborted)
	}
	tried, err := w.silent.admit(transaction.Outputs)
	if err != nil {
		return 0, fmt.Errorf("commit: %w: %w", ledger.ErrAborted, err)
	}
	patience := w.config.CommitTimeout
	if len(tried) > 0 {
		patience /= 4 // all that comes for the partition waits for the trial
		unanswered := map[topicPartition]bool{}
		defer func() {
			for _, name := range tried {
				unanswered[name] = err != nil
			}
			w.silent.conclude(tried, unanswered)
		}()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.CommitTimeout)
	defer cancel()
	for tries := 1; ; tries++ {
		end, err = w.prepare(ctx, patience, &transaction)
		switch {
		case err == nil:
			return end, w.conclude(ctx)
		case w.spent || tries == maxTries || ctx.Err() != nil:
			return 0, err
		case !errors.Is(err, kerr.OutOfOrderSequenceNumber) && !errors.Is(err, errAnother):
			return 0, err
		}
	}
}

// maxTries is how often a transaction is tried whose records a broker takes for out of order, or whose producer has
// become another one for such a reason. A busy broker does so now and then with the first records after a transaction
// that has just ended. Nothing is there of one that is aborted, which also begins the count anew; so nothing is said to
// the caller, who would have to give up what hangs on it.
const maxTries = 3

// identity is whom the brokers take a producer for. It is another one after each transaction, and stays the same from
// the beginning of one to its end.
type identity struct {
	id    int64
	epoch int16
}

// errAnother says that the producer has become another one in the middle of a transaction.
var errAnother = errors.New("the producer has become another one, and what it had appended before is aborted")

// identity returns that of the producer. It asks a broker if there is none, or none any more.
func (w *ledgerWriter) identity(ctx context.Context) (is identity, err error) {
	is.id, is.epoch, err = w.client.ProducerID(ctx)
	return is, err
}

// prepare has all of a transaction be on the brokers, where nobody sees it yet. They may take as long as patience for
// its records.
func (w *ledgerWriter) prepare(
	ctx context.Context, patience time.Duration, transaction *ledger.Transaction,
) (end int64, err error) {
	before, err := w.identity(ctx)
	if err != nil {
		return 0, w.spend(fmt.Errorf("begin: %w: %w", ledger.ErrAborted, err))
	}
	if err := w.client.BeginTransaction(); err != nil {
		return 0, w.spend(fmt.Errorf("begin: %w: %w", ledger.ErrAborted, err))
	}
	a := w.append(ctx, patience, transaction)
	err = a.err()
	if err == nil {
		err = w.still(ctx, before)
	}
	if err != nil {
		return 0, w.abort(ctx, err)
	}
	return a.end, nil
}

// still returns an error if the producer is not the one that has begun the transaction. What that one has appended is
// aborted, and what was appended since would be committed without it:
//
//	writer   appends the tombstone of x; it is acknowledged
//	broker   has forgotten the producer in a partition of the output, and refuses x, and says that its log begins
//	         behind all that the producer has ever appended to it
//	client   takes that for harmless: it becomes another producer, which aborts the tombstone, and appends x again
//	writer   hears that all was appended, and commits: x is out, and waits
//
// The other way round x would be lost.
func (w *ledgerWriter) still(ctx context.Context, before identity) error {
	now, err := w.identity(ctx)
	if err == nil && now != before {
		err = errAnother
	}
	return err
}

// conclude commits what was prepared.
func (w *ledgerWriter) conclude(ctx context.Context) error {
	if err := w.client.EndTransaction(ctx, kgo.TryCommit); err != nil {
		return w.unended(ctx, err)
	}
	return nil
}

// appended is what became of the records of a transaction.
type appended struct {
	mu       sync.Mutex
	end      int64
	entries  int    // that have no answer
	open     []bool // outputs that have none
	refusals ledger.RefusedError
	refused  bool
	other    error
}

// append appends all of a transaction, and waits until the brokers have it, or do not take it.
func (w *ledgerWriter) append(
	ctx context.Context, patience time.Duration, transaction *ledger.Transaction,
) *appended {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a := &appended{
		entries: len(transaction.Entries), open: slices.Repeat([]bool{true}, len(transaction.Outputs)),
		refusals: ledger.RefusedError{Errs: make([]error, len(transaction.Outputs))},
	}
	for _, e := range transaction.Entries {
		record := &kgo.Record{Topic: w.config.Topic, Partition: w.number, Key: e.Key, Value: e.Value}
		w.client.Produce(ctx, record, func(r *kgo.Record, err error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			if err == nil {
				a.entries--
			}
			if a.end = max(a.end, r.Offset+1); err == nil || a.follows(err) {
				return
			}
			if judge(err) == refused {
				err = fmt.Errorf("%w: %w", ledger.ErrRefused, err)
			}
			a.other = fmt.Errorf("append to partition %d of topic %s: %w", w.number, w.config.Topic, err)
		})
	}
	for i, r := range transaction.Outputs {
		record := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Name, Value: h.Value})
		}
		w.client.Produce(ctx, record, func(r *kgo.Record, err error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.output(i, r.Topic, err)
		})
	}
	err := w.client.Flush(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil && a.other == nil {
		a.other = fmt.Errorf("append: %w", err)
	}
	if ctx.Err() != nil && a.entries == 0 && !a.refused {
		w.unanswered(a, transaction.Outputs)
	}
	return a
}

// unanswered blames the outputs that nobody has answered for it that a transaction has run into its time limit, where
// the journal has answered: their partitions are silent. Where one of them belongs is known by its key. The caller has
// the mutex of a.
func (w *ledgerWriter) unanswered(a *appended, outputs []node.Record) {
	silent, answered := map[topicPartition]bool{}, map[topicPartition]bool{}
	bytes := map[topicPartition]int{}
	for i := range outputs {
		name, known := w.silent.partitionOf(&outputs[i])
		switch {
		case !known:
		case a.open[i]:
			bytes[name] += wireSize(&outputs[i])
			a.refused, a.refusals.Errs[i] = true, unsent(name, time.Now(), nil)
			silent[name] = false
		default:
			answered[name] = true
		}
	}
	for name := range silent {
		silent[name] = answered[name] || bytes[name] > slowBytes
	}
	w.silent.note(silent)
}

// output notes what became of an output.
func (a *appended) output(i int, topic string, err error) {
	a.open[i] = false
	switch verdict := judge(err); {
	case err == nil:
	case verdict == refused:
		a.refused, a.refusals.Errs[i] = true, fmt.Errorf("%w: %w", node.RecordRejected, err)
	case verdict == noTopic || meansFormer(err):
		a.refused, a.refusals.Errs[i] = true, fmt.Errorf("%w: %w", node.TopicMissing, err)
	case !a.follows(err):
		a.other, a.open[i] = fmt.Errorf("append to topic %s: %w", topic, err), true
	default:
		a.open[i] = true
	}
}

// follows reports whether a record failed since another one did, as all of a transaction do.
func (a *appended) follows(err error) bool {
	return a.other != nil && (errors.Is(err, kgo.ErrAborting) || errors.Is(err, context.DeadlineExceeded))
}

// err says why the transaction can't be committed. Who is fenced is refused nothing.
func (a *appended) err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refused && !isFenced(a.other) {
		return &a.refusals
	}
	return a.other
}

// abort ends a transaction that was not committed, and never will be: nobody has asked for that.
func (w *ledgerWriter) abort(ctx context.Context, cause error) error {
	cause = fmt.Errorf("%w: %w", ledger.ErrAborted, cause)
	if isFenced(cause) {
		return w.spend(cause)
	}
	// It gets as much time to stop as it had, however little of that is left: a writer that can't stop is spent.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.config.CommitTimeout)
	defer cancel()
	if err := w.client.AbortBufferedRecords(ctx); err != nil {
		return w.spend(fmt.Errorf("%w; abort: %w", cause, err))
	}
	if err := w.client.EndTransaction(ctx, kgo.TryAbort); err != nil {
		return w.spend(fmt.Errorf("%w; abort: %w", cause, err))
	}
	if meansFormer(cause) {
		return w.spend(cause)
	}
	return cause
}

// meansFormer reports whether an error says that the client means a topic that was deleted: it never appends to another
// one that has its name by now. It could be told to forget the topic; see draw for what may come of that. And a client
// that was made in its place would fence whoever owns the partition by now. So the partition is owned anew.
func meansFormer(err error) bool {
	var refusals *ledger.RefusedError
	if errors.As(err, &refusals) && slices.ContainsFunc(refusals.Errs, meansFormer) {
		return true
	}
	return errors.Is(err, kerr.UnknownTopicID)
}

// unended deals with the failure of a commit: that of one that was not attempted is the end of its transaction. Of
// another one nobody knows. That holds for a writer that is fenced, too:
//
//	A asks for the commit, which takes effect; the answer is lost
//	                  B owns the partition
//	franz-go, for A, asks again: fenced
func (w *ledgerWriter) unended(ctx context.Context, err error) error {
	if errors.Is(err, kerr.OperationNotAttempted) || errors.Is(err, kerr.TransactionAbortable) {
		return w.abort(ctx, err)
	}
	w.spent = true
	if isFenced(err) {
		return fmt.Errorf("commit: %w: %w", ledger.ErrFenced, err)
	}
	return fmt.Errorf("commit: %w", err)
}

// spend ends a writer whose producer can't go on: because there is another one, or because it could not abort what it
// had begun, while no broker answered, or because it means a topic that was deleted. The difference is a session of the
// consumer group: who is fenced waits for that long before he owns the partition anew.
func (w *ledgerWriter) spend(cause error) error {
	w.spent = true
	if isFenced(cause) {
		return fmt.Errorf("%w: %w", ledger.ErrFenced, cause)
	}
	return fmt.Errorf("%w: %w", ledger.ErrSpent, cause)
}

// isFenced reports whether an error says that another producer has the transactional id.
func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) ||
		errors.Is(err, kerr.InvalidProducerIDMapping) || errors.Is(err, kerr.InvalidTxnState)
}
