package chaos

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// history collects what an outsider sees: what the client has submitted, what appeared on the topics, what happened to
// the rows, which processes there were, and what went wrong. Each event has the time of the clock of this machine,
// which all servers share:
//
//   - a submission, the moment before it was sent: it can't have been appended earlier;
//   - a record that fires, the time at which the broker appended it, in whole milliseconds, rounded down;
//   - a change of a row, the time of its commit.
//
// Two events of different sources whose times differ by less than a millisecond may have happened in the other order.
// Only one such pair matters, the record that justifies a delete: rounding down puts the record first, as it must
// have been.
type history struct {
	since time.Time

	mu     sync.Mutex
	events []check.Event
	err    error

	rows     rows
	dead     string               // the dead-letter topic
	said     string               // the outcome topic; "" for none
	told     map[string][]outcome // by the place of the instruction
	fired    map[int]int          // records of each submission on the output topic
	seen     chan int             // submissions that have just fired, for whoever wants to know
	copied   map[int]int
	letters  map[int][]letter // what the dead letters of each submission say
	deletes  []deletion       // that were executed, as the nodes' own connections show
	journal  *journalView     // what waits in the journal; nil where messages wait in Postgres
	machine  machine
	stop     context.CancelFunc
	waits    sync.WaitGroup
	consumer *kgo.Client
}

func newHistory() *history {
	return &history{
		// Without its monotonic part, so that all events are dated by one clock: the servers know no other.
		since: time.Now().Round(0), rows: rows{tables: map[uint32]string{}, columns: map[uint32][]string{}},
		told: map[string][]outcome{}, fired: map[int]int{}, copied: map[int]int{},
		letters: map[int][]letter{}, seen: make(chan int, 1000),
	}
}

// now is the time that an event of this moment has.
func (h *history) now() time.Duration { return time.Since(h.since) }

// add adds an event. One without a time happens now.
func (h *history) add(e check.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.At == 0 {
		e.At = h.now()
	}
	h.events = append(h.events, e)
}

// excuse takes note that nothing need come of a submission that was acknowledged: Kafka has lost it, and nobody else
// has it.
func (h *history) excuse(number int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.events {
		if e := &h.events[i]; e.Kind == check.Submit && e.Message == number {
			e.Flaw = check.Unacknowledged
		}
	}
}

// fail notes that the history is incomplete.
func (h *history) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
	}
}

// collect begins to read the topics and the slot.
func (h *history) collect(ctx context.Context, c *cluster) error {
	ctx, h.stop = context.WithCancel(ctx)
	h.dead, h.said = c.topics.dead, c.topics.said
	topics, isolation := c.topics.outputs(), kgo.ReadUncommitted()
	if c.scenario.Journal {
		h.journal = newJournalView(c.topics)
		topics, isolation = h.journal.topics(), kgo.ReadCommitted()
	}
	var err error
	h.consumer, err = c.kafka.Connect(kgo.ConsumeTopics(topics...), kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxWait(200*time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		return err
	}
	h.waits.Go(func() { h.consume(ctx) })
	if c.postgres != nil {
		h.rows.slot, h.rows.settles = c.postgres.slot, storeTimeout(c.config.HoldTime)
		h.waits.Go(func() { h.ask(ctx, c) })
	}
	if c.follows() {
		h.waits.Go(func() { h.follow(ctx, c) })
	}
	return nil
}

// consume takes the records of the output and the dead-letter topic.
func (h *history) consume(ctx context.Context) {
	for ctx.Err() == nil {
		h.consumer.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			if h.journal.keeps(r) || r.Attrs.IsControl() {
				return
			}
			if r.Topic == h.said {
				h.tell(r)
				return
			}
			e := check.Event{
				Kind: check.Fire, At: r.Timestamp.Sub(h.since), Message: numberOf(r.Headers), Topic: r.Topic,
				Payload: payloadOf(r), Key: keyOf(r.Key), Partition: fmt.Sprintf("%s/%d", r.Topic, r.Partition),
			}
			counts := h.fired
			if r.Topic == h.dead {
				e.Kind, counts = check.Copy, h.copied
			}
			h.add(e)
			h.mu.Lock()
			counts[e.Message]++
			if e.Kind == check.Copy {
				h.letters[e.Message] = append(h.letters[e.Message], h.letterOf(r))
			}
			h.mu.Unlock()
			select {
			case h.seen <- e.Message:
			default: // nobody looks
			}
		})
	}
}

// follow reads the slot again and again. While Postgres is away it tries again.
func (h *history) follow(ctx context.Context, c *cluster) {
	again := time.NewTicker(300 * time.Millisecond)
	defer again.Stop()
	for {
		_ = h.drainSlot(ctx, c) // the server may be away; the last read of all counts
		select {
		case <-ctx.Done():
			return
		case <-again.C:
		}
	}
}

// drainSlot takes what is in the slot.
func (h *history) drainSlot(ctx context.Context, c *cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return c.postgres.now().Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		if _, err := conn.Exec(ctx, "SET timezone TO 'UTC'"); err != nil {
			return fmt.Errorf("read the replication slot: %w", err)
		}
		for {
			changes, err := h.rows.read(ctx, conn)
			if err != nil {
				return err
			}
			for _, change := range changes {
				events, err := change.events(h.since)
				if err != nil {
					h.fail(err)
				}
				for _, e := range events {
					h.add(e)
				}
			}
			if len(changes) == 0 {
				return nil
			}
		}
	})
}

// delete takes a delete that was executed.
func (h *history) delete(d deletion) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deletes = append(h.deletes, d)
}

// deletions returns the deletes that were executed, each at the time at which the server said so. One whose incarnation
// was inserted since shortly before the server was asked says nothing: the insert may have come after it.
func (h *history) deletions(events []check.Event) []check.Event {
	const shortly = 100 * time.Millisecond
	inserts := map[check.UUID][]time.Duration{}
	for i := range events {
		if e := &events[i]; e.Kind == check.Insert {
			inserts[e.Incarnation] = append(inserts[e.Incarnation], e.At)
		}
	}
	var all []check.Event
	for _, d := range h.deletes {
		asked, done := d.asked.Sub(h.since), d.done.Sub(h.since)
		for i, incarnation := range d.incarnations {
			if !slices.ContainsFunc(inserts[incarnation], func(at time.Duration) bool {
				return at > asked-shortly && at <= done
			}) {
				all = append(all, check.Event{
					Kind: check.DeleteDone, At: done, ID: d.ids[i], Topic: d.topics[i], Incarnation: incarnation,
				})
			}
		}
	}
	return all
}

// hasFired reports whether a record of the submission was seen on the output topic.
func (h *history) hasFired(n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fired[n] > 0
}

// outcomes returns how many records of each submission were seen: on the output topic, and on the dead-letter topic.
func (h *history) outcomes(n int) (fired, copied int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fired[n], h.copied[n]
}

// close ends the collection. What is in the slot by then is in the history.
func (h *history) close(ctx context.Context, c *cluster) {
	if h.stop == nil {
		return
	}
	h.stop()
	h.waits.Wait()
	h.stop = nil
	h.consumer.Close()
	if c.follows() {
		// A server that has been slow may still be busy with a look that was given up.
		err := servers.Await(ctx, time.Minute, func(ctx context.Context) error { return h.drainSlot(ctx, c) })
		if err != nil {
			h.fail(err)
		}
	}
}

// rank orders events of one instant: what is a cause comes before what it is the cause of.
func rank(k check.Kind) int {
	order := []check.Kind{
		check.Configure, check.Submit, check.Start, check.Cut, check.Fault, check.Pause, check.Resume,
		check.Unlock, check.Insert, check.Claim, check.Fire, check.Copy, check.Reset, check.Delete, check.DeleteDone,
		check.Lock, check.Mend, check.Term, check.Stop, check.Crash, check.Heal, check.End,
	}
	return slices.Index(order, k)
}

// verdict orders the history, writes it to a file, and judges it. Row changes keep the order of their commits: a server
// commits one transaction after the other, and their times can't tell which of two was first.
func (h *history) verdict(config check.Config, file string) (check.Verdict, []check.Event, error) {
	h.mu.Lock()
	events := append(slices.Clone(h.events), h.deletions(h.events)...)
	err := h.err
	h.mu.Unlock()
	if err != nil {
		return check.Verdict{}, nil, fmt.Errorf("collect the history: %w", err)
	}
	for _, e := range events {
		config.Messages = max(config.Messages, e.Message)
	}
	events = append(events, check.Event{Kind: check.Configure, Config: &config},
		check.Event{Kind: check.Heal, At: h.healed().Sub(h.since)})
	inCommitOrder(events)
	slices.SortStableFunc(events, func(a, b check.Event) int {
		return cmp.Or(cmp.Compare(max(a.At, 0), max(b.At, 0)), cmp.Compare(rank(a.Kind), rank(b.Kind)))
	})
	for i := range events {
		events[i].At = max(events[i].At, 0)
	}
	out, err := os.Create(file)
	if err != nil {
		return check.Verdict{}, nil, fmt.Errorf("write the history: %w", err)
	}
	w := check.NewWriter(out)
	judge := check.New()
	for i := range events {
		w.Add(&events[i])
		judge.Add(&events[i])
	}
	if err := w.Flush(); err != nil {
		return check.Verdict{}, nil, err
	}
	if err := out.Close(); err != nil {
		return check.Verdict{}, nil, fmt.Errorf("write the history: %w", err)
	}
	return judge.Verdict(), events, nil
}

// inCommitOrder lets no change of a row have an earlier time than the one before it in the log, so that sorting by time
// keeps their order.
func inCommitOrder(events []check.Event) {
	var last time.Duration
	for i := range events {
		switch events[i].Kind {
		case check.Insert, check.Claim, check.Reset, check.Delete, check.Pause, check.Resume:
			last = max(last, events[i].At)
			events[i].At = last
		default:
		}
	}
}
