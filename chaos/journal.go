package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
)

// dataDir is the folder for the local copy of what the node owns of a journal.
func (n *chronosNode) dataDir() string { return n.log(fmt.Sprintf("data-%d", n.number)) }

// store returns the name of the journal as a node takes it.
func (t topics) store() string { return "journal:" + t.journal }

// prepareJournal creates the topic of the journal as an operator does, and has it compacted every few seconds: within
// an hour, as it is by default, would be after the scenario. The local copies are removed in the end.
func (c *cluster) prepareJournal(ctx context.Context) error {
	// The broker that is asked may not have heard yet of the input topic, which was created a moment ago.
	const within = 30 * time.Second
	err := servers.Await(ctx, within, func(ctx context.Context) error {
		migrate := exec.CommandContext(ctx, cmp.Or(c.config.Migrator, c.config.Binary), "migrate", "up",
			"--store", c.topics.store(), "--brokers", strings.Join(c.kafka.Addresses, ","),
			"--input-topic", c.topics.routes[0].in)
		if out, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("migrate: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for n := range c.scenario.Nodes {
		dir := (&chronosNode{number: n + 1, log: c.logs}).dataDir()
		c.cleanUp = append(c.cleanUp, func() error { return os.RemoveAll(dir) })
	}
	client, err := c.kafka.Connect()
	if err != nil {
		return err
	}
	defer client.Close()
	segment, dirty := "3000", "0.01"
	altered, err := kadm.NewClient(client).AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Name: "segment.ms", Value: &segment}, {Name: "min.cleanable.dirty.ratio", Value: &dirty},
	}, c.topics.journal)
	for _, a := range altered {
		err = cmp.Or(err, a.Err)
	}
	if err != nil {
		return fmt.Errorf("have the journal compacted: %w", err)
	}
	return nil
}

// compactOften are properties of brokers that look every second for what can be compacted.
func compactOften() map[string]string { return map[string]string{"log.cleaner.backoff.ms": "1000"} }

// journalView is what a consumer knows of a journal that reads what was committed. It knows one thing of its format:
// the key of an entry that is a message begins with an r. A nil one knows nothing.
type journalView struct {
	topic   string
	outputs []string

	mu    sync.Mutex
	waits map[string]bool  // the messages that wait, by partition and key
	read  map[string]int64 // of each partition of the journal and the outputs, the offset after the last record
}

func newJournalView(t topics) *journalView {
	return &journalView{topic: t.journal, outputs: t.outputs(), waits: map[string]bool{}, read: map[string]int64{}}
}

// topics returns all that there is to be read.
func (v *journalView) topics() []string { return append([]string{v.topic}, v.outputs...) }

// keeps takes note of a record, and tells whether it is one of the journal, and so no message that comes out. What a
// transaction ends with is a record as well: control records have to be kept.
func (v *journalView) keeps(r *kgo.Record) bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.read[place(r.Topic, r.Partition)] = r.Offset + 1
	if r.Topic != v.topic {
		return false
	}
	if len(r.Key) > 0 && r.Key[0] == 'r' && !r.Attrs.IsControl() {
		name := place(r.Topic, r.Partition) + " " + string(r.Key)
		if r.Value == nil {
			delete(v.waits, name)
		} else {
			v.waits[name] = true
		}
	}
	return true
}

// place names a partition.
func place(topic string, partition int32) string { return fmt.Sprintf("%s/%d", topic, partition) }

// left returns how many messages wait.
func (v *journalView) left() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.waits)
}

// caughtUp returns nil if no transaction is open, and everything was read up to the end of each partition of the
// topics.
func (v *journalView) caughtUp(ctx context.Context, client *kgo.Client, topics ...string) error {
	admin := kadm.NewClient(client)
	stable, err := admin.ListCommittedOffsets(ctx, topics...)
	if err == nil {
		err = stable.Error()
	}
	var ends kadm.ListedOffsets
	if err == nil {
		ends, err = admin.ListEndOffsets(ctx, topics...)
	}
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return fmt.Errorf("look for the ends of the topics: %w", err)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	var behind error
	ends.Each(func(end kadm.ListedOffset) {
		s, _ := stable.Lookup(end.Topic, end.Partition)
		if at := v.read[place(end.Topic, end.Partition)]; s.Offset < end.Offset || at < end.Offset {
			behind = fmt.Errorf("%s ends at %d, is stable up to %d, and was read up to %d",
				place(end.Topic, end.Partition), end.Offset, s.Offset, at)
		}
	})
	return behind
}

// leftInJournal counts the messages that wait in the journal; 1 where there is none as far as anybody sees, and
// something is still to be read or to be decided on.
func (h *history) leftInJournal(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	left := h.journal.left()
	if left == 0 && h.journal.caughtUp(ctx, h.consumer, h.journal.topics()...) != nil {
		return 1
	}
	return left
}

// goneQuiet waits for what may still come when everything has come out: a node that fires what has come out already
// does it at once, and its transaction ends, in one way or the other, within the ten seconds that the brokers give it.
func (h *history) goneQuiet(ctx context.Context) {
	const silence, longest = 3 * time.Second, 15 * time.Second
	sleepUntil(ctx, time.Now().Add(silence))
	err := servers.Await(ctx, longest, func(ctx context.Context) error {
		return h.journal.caughtUp(ctx, h.consumer, h.journal.topics()...)
	})
	if err != nil {
		h.fail(fmt.Errorf("wait for the end of all transactions: %w", err))
	}
}

// emptyJournal reads the journal anew, as a node without a local copy does, and demands that nothing waits in it. It
// says how much compaction has left.
func emptyJournal(r *run, _ *Result) string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	v := newJournalView(r.topics)
	client, err := r.kafka.Connect(kgo.ConsumeTopics(v.topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	read := 0
	for err = errors.New("nothing was read"); err != nil; err = v.caughtUp(ctx, client, v.topic) {
		short, done := context.WithTimeout(ctx, 500*time.Millisecond)
		client.PollFetches(short).EachRecord(func(record *kgo.Record) {
			v.keeps(record)
			read++
		})
		done()
		if ctx.Err() != nil {
			return fmt.Sprintf("the journal can't be read: %v", err)
		}
	}
	ever := int64(0)
	for _, end := range v.read {
		ever += end
	}
	r.say("of %d records of the journal %d are left", ever, read)
	if left := v.left(); left > 0 {
		return fmt.Sprintf("%d messages are left in the journal, and have come out", left)
	}
	return ""
}
