package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
	"chronos/node/ledger"
)

// LedgerConfig says what a Ledger is kept in. Connection.Brokers, Topic and Name must be set; the zero value of every
// other field has the meaning that its comment states.
type LedgerConfig struct {
	Connection

	// Topic is the compacted topic.
	Topic string

	// Name begins the transactional ids, one for each partition: writers with one name fence each other.
	Name string

	// Compression is how transactions are compressed: entries and outputs alike, since a producer has one compression.
	// The topic of the ledger may have another one (compression.type), which the brokers see to.
	Compression Compression

	// CommitTimeout bounds one transaction from its first record to its end, 1 s or more; 5 s if zero.
	CommitTimeout time.Duration

	// TransactionTimeout is when the brokers abort a transaction whose writer is silent; 10 s if zero. Consumers of the
	// output topics that read what was committed are held up for that long by a writer that was stopped, and until the
	// brokers look, which is every 10 s by default, if no other one takes its partition over. It must not be less than
	// CommitTimeout.
	TransactionTimeout time.Duration
}

const (
	defaultCommitTimeout      = 5 * time.Second
	defaultTransactionTimeout = 10 * time.Second

	// appendTries is how often the leader of a partition may say that what is to be appended is not replicated yet,
	// within the time of a commit. A leader that says nothing for the time between two of these and requestOverhead is
	// given up: 4 s, so that the commit can still go to another one.
	appendTries = 5

	// LedgerBatchBytes is the size of the largest batch that a transaction appends. A topic that takes less refuses
	// full batches, and with them what was to be taken in, forever.
	LedgerBatchBytes = bulkBytes

	// maxTransaction is more records than a transaction has.
	maxTransaction = 1 << 20
)

// validate returns a *node.ConfigError for the first setting that is not allowed, or nil.
func (c *LedgerConfig) validate() error {
	if err := c.Connection.validate(); err != nil {
		return err
	}
	switch {
	case c.Topic == "":
		return &node.ConfigError{Setting: "Topic", Value: "empty", Allowed: "it must name the topic of the journal"}
	case c.Name == "":
		return &node.ConfigError{Setting: "Name", Value: "empty", Allowed: "it must say who writes the journal"}
	}
	if err := validateDuration("CommitTimeout", c.CommitTimeout, time.Second); err != nil {
		return err
	}
	return validateDuration("TransactionTimeout", c.TransactionTimeout, c.CommitTimeout)
}

// TransactionalID returns the transactional id of the writers of a partition.
func (c *LedgerConfig) TransactionalID(number int32) string {
	return c.Name + "/" + strconv.Itoa(int(number))
}

// Ledger is ledger.Ledger on a Kafka cluster. NewLedger makes one; Close ends it.
type Ledger struct {
	config LedgerConfig
	admin  *Admin
	seeds  *seeds
	silent *silentWatch // of the output topics
}

var _ ledger.Ledger = (*Ledger)(nil)

// NewLedger returns a Ledger for config. It connects to nothing yet; a configuration that can never work is an error, a
// *node.ConfigError wherever one setting is to blame.
func NewLedger(config LedgerConfig) (*Ledger, error) {
	config.Connection = connectionDefaults(config.Connection)
	config.CommitTimeout = cmp.Or(config.CommitTimeout, defaultCommitTimeout)
	config.TransactionTimeout = cmp.Or(config.TransactionTimeout, defaultTransactionTimeout)
	if err := config.validate(); err != nil {
		return nil, err
	}
	seeds := newSeeds(&config.Connection)
	config.Hooks = append(slices.Clone(config.Hooks), seeds)
	if err := kgo.ValidateOpts(config.writerOptions(0)...); err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	admin, err := NewAdmin(config.Connection)
	if err != nil {
		return nil, err
	}
	silent := &silentWatch{admin: admin.client, log: config.Logger, work: newBackground()}
	return &Ledger{config, admin, seeds, silent}, nil
}

// Close closes the connections of the Ledger. Its writers are closed by themselves.
func (l *Ledger) Close() {
	l.silent.work.end()
	l.admin.Close()
	l.silent.work.wait()
}

// writerOptions returns the options of the client of a writer.
func (c *LedgerConfig) writerOptions(number int32) []kgo.Opt {
	options := append(c.options(), ProducerOptions()...)
	return append(options,
		kgo.TransactionalID(c.TransactionalID(number)),
		kgo.TransactionTimeout(c.TransactionTimeout),
		kgo.RecordPartitioner(ledgerPartitioner{c.Topic, javaPartitioner()}),
		kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(maxTransaction),
		kgo.ProducerBatchMaxBytes(LedgerBatchBytes),
		c.Compression.option(),
		kgo.ProduceRequestTimeout(c.CommitTimeout/appendTries),
	)
}

// ledgerPartitioner has entries go where they are told, and outputs where a Java producer would send them.
type ledgerPartitioner struct {
	topic   string
	outputs kgo.Partitioner
}

// ForTopic implements kgo.Partitioner.
func (p ledgerPartitioner) ForTopic(topic string) kgo.TopicPartitioner {
	if topic == p.topic {
		return kgo.ManualPartitioner().ForTopic(topic)
	}
	return p.outputs.ForTopic(topic)
}

// Begin implements ledger.Ledger.
func (l *Ledger) Begin(ctx context.Context, number int32) (ledger.Place, error) {
	return l.place(ctx, number, func(e node.Extent) int64 { return e.First })
}

// End implements ledger.Ledger.
func (l *Ledger) End(ctx context.Context, number int32) (ledger.Place, error) {
	return l.place(ctx, number, func(e node.Extent) int64 { return e.End })
}

// place returns the place at an offset that follows from the extent of a partition. It waits for the leader of that one
// alone: whoever takes a partition over, or asks its owner, has nothing to do with the others.
func (l *Ledger) place(ctx context.Context, number int32, offset func(node.Extent) int64) (ledger.Place, error) {
	extent, err := l.admin.extentOf(ctx, topicPartition{l.config.Topic, number})
	if err != nil {
		return ledger.Place{}, err
	}
	return ledger.Place{
		TopicID: extent.TopicID, Number: number,
		Position: node.Position{Epoch: node.UnknownEpoch, Offset: offset(extent)},
	}, nil
}

// Extents implements ledger.Ledger.
func (l *Ledger) Extents(ctx context.Context) ([]node.Extent, error) {
	return l.admin.extentsAsFarAsKnown(ctx, []string{l.config.Topic})
}

// Read implements ledger.Ledger.
func (l *Ledger) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	if err := l.sameTopic(ctx, from); err != nil {
		return err
	}
	if from.Offset >= until {
		return nil
	}
	options := append(l.config.options(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.config.Topic: {
			from.Number: kgo.NewOffset().At(from.Offset).WithEpoch(from.Epoch),
		}}),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // which lets an end be seen that is a marker
		kgo.FetchMaxWait(pollWait/2),
	)
	client, err := l.seeds.client(ctx, options)
	if err != nil {
		return fmt.Errorf("configure Kafka client: %w", err)
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("read partition %d of topic %s: %w", from.Number, l.config.Topic, err)
		}
		if err := l.readError(from, fetches); err != nil {
			return err
		}
		for records := fetches.RecordIter(); !records.Done(); {
			r := records.Next()
			if r.Offset < until && !r.Attrs.IsControl() {
				if err := each(ledger.Committed{
					Entry: ledger.Entry{Key: r.Key, Value: r.Value}, Epoch: r.LeaderEpoch, Offset: r.Offset,
					At: r.Timestamp,
				}); err != nil {
					return err
				}
			}
			if r.Offset+1 >= until {
				return nil
			}
		}
	}
}

// sameTopic checks that the topic is the one that a place was in.
func (l *Ledger) sameTopic(ctx context.Context, from ledger.Place) error {
	var now uuid.UUID
	err := l.admin.try(ctx, func(client *kgo.Client) error {
		ids, err := topicIDs(ctx, client, []string{l.config.Topic})
		now = ids[l.config.Topic]
		return err
	})
	if err == nil && now != from.TopicID {
		return fmt.Errorf("topic %s was created again: %w", l.config.Topic, ledger.ErrTruncated)
	}
	return err
}

// readError returns what keeps a reader from going on; nil while franz-go is at it.
func (l *Ledger) readError(from ledger.Place, fetches kgo.Fetches) error {
	var problem error
	fetches.EachError(func(_ string, _ int32, err error) {
		var loss *kgo.ErrDataLoss
		switch {
		case errors.As(err, &loss), errors.Is(err, kerr.OffsetOutOfRange), errors.Is(err, kerr.UnknownTopicID):
			problem = fmt.Errorf("read partition %d of topic %s from offset %d: %w: %w",
				from.Number, l.config.Topic, from.Offset, ledger.ErrTruncated, err)
		case kerr.IsRetriable(err) || problem != nil:
		default:
			problem = fmt.Errorf("read partition %d of topic %s: %w", from.Number, l.config.Topic, err)
		}
	})
	return problem
}

// Own implements ledger.Ledger.
func (l *Ledger) Own(ctx context.Context, number int32, fence ledger.Entry) (ledger.Writer, error) {
	outputs := watchedPartitioner{javaPartitioner(), &l.silent.silentPartitions}
	options := append(l.config.writerOptions(number), kgo.RecordPartitioner(ledgerPartitioner{l.config.Topic, outputs}))
	client, err := l.seeds.client(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("configure Kafka client: %w", err)
	}
	w := &ledgerWriter{config: l.config, number: number, client: client, silent: l.silent}
	// This fences the writer of before, and has what it has begun be aborted.
	if _, _, err := client.ProducerID(ctx); err != nil {
		w.Close()
		return nil, fmt.Errorf("own partition %d of topic %s: %w", number, l.config.Topic, err)
	}
	end, err := w.Commit(ctx, ledger.Transaction{Entries: []ledger.Entry{fence}})
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("own partition %d of topic %s: %w", number, l.config.Topic, err)
	}
	w.fence = end - 1
	return w, nil
}
