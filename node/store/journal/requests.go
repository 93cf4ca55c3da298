package journal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/control"
	"chronos/node/intake"
	"chronos/node/ledger"
)

// Sender puts records on the input topics. It is safe for concurrent use.
type Sender interface {
	// Partition returns the partition that a key belongs to, as Java producers choose it: of the input topic through
	// which messages of the lane come in, where there are several.
	Partition(ctx context.Context, lane string, key []byte) (int32, error)

	// Send puts a record on a partition, and returns when Kafka has acknowledged it. After an error nobody knows
	// whether the record is there.
	Send(ctx context.Context, number int32, record node.Record) error
}

// Asker asks the owners of partitions, through the input topic, and hears of what they have committed:
//
//	asker    reads the partition of the journal from its end on
//	asker    sends the record, marked with the request
//	owner    takes it in: one transaction with the position, the effect, and the answer
//	asker    reads the answer
//
// So an answer is never given before the record is taken in, whoever the owner is by then. It can be missed: the node
// is slow, or nobody owns the partition. Then the outcome is unknown, and whoever asks again, under the same request,
// is told what was done (docs/adr/0027).
//
// Its memory is bounded by how many ask at the same time. NewAsker makes one; Close ends it.
type Asker struct {
	log    ledger.Ledger
	sender Sender
	marks  *node.Marks
	limits AskerLimits

	mu      sync.Mutex
	tails   map[int32]*tail
	asking  int
	closed  bool
	reading sync.WaitGroup
}

// AskerLimits bound what an Asker does.
type AskerLimits struct {
	// Wait is how long an answer is waited for, sending included; 10 s if zero.
	Wait time.Duration

	// Most is how many may ask at the same time; 2000 if zero. More are told intake.ErrBusy.
	Most int

	// Linger is how long a partition is read on after the last answer; 30 s if zero.
	Linger time.Duration
}

// ErrUnheard says that no answer has come in time. What was asked for may be done, now or later.
var ErrUnheard = errors.New("the node that owns the partition has not answered in time")

var errEnding = errors.New("this node ends")

// readAgain is the time before a partition is read on from where a read has ended, and readAnew that after a read which
// has failed: each read is a connection of its own.
const readAgain, readAnew = 20 * time.Millisecond, 250 * time.Millisecond

// NewAsker returns an Asker on a journal, whose records are marked by marks.
func NewAsker(log ledger.Ledger, sender Sender, marks *node.Marks, limits AskerLimits) *Asker {
	if limits.Wait == 0 {
		limits.Wait = 10 * time.Second
	}
	if limits.Most == 0 {
		limits.Most = 2000
	}
	if limits.Linger == 0 {
		limits.Linger = 30 * time.Second
	}
	return &Asker{log: log, sender: sender, marks: marks, limits: limits, tails: map[int32]*tail{}}
}

// tail reads a partition of the journal from an end on.
type tail struct {
	number  int32
	stop    context.CancelFunc
	ready   chan struct{} // closed when what is appended from now on will be read
	waiting map[uuid.UUID]chan<- heard
	idle    *time.Timer // ends it when nobody has waited for long; nil before anybody has left
}

// heard is what an asker hears.
type heard struct {
	answer  *answer
	granted granted // to a Switchboard
	err     error
}

// Ask asks for what an item asks for that has a Request. Record is the one that the item was read from. What belongs to
// one id goes to the partition that the id belongs to as a key, whatever the key of the record is. The error is a
// *control.RefusedError or intake.ErrBusy, and nothing has happened; after any other one nobody knows.
func (a *Asker) Ask(ctx context.Context, item node.Item, record node.Record) (node.ItemResult, error) {
	// What no owner keeps, Kafka may not take as a record: then nobody would ever know what has become of it.
	if reason := tooLarge(&item, ledger.MaxEntryBytes); reason != "" {
		return node.ItemResult{}, &control.RefusedError{ID: item.ID, Reason: reason}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, a.limits.Wait, ErrUnheard)
	defer cancel()
	number, err := a.sender.Partition(ctx, item.Lane, []byte(item.ID))
	if err != nil {
		return node.ItemResult{}, fmt.Errorf("find the partition of %q: %w", item.ID, err)
	}
	hears := make(chan heard, 1)
	t, err := a.join(ctx, number, item.Incarnation, hears)
	if err != nil {
		return node.ItemResult{}, err
	}
	defer a.leave(t, item.Incarnation)
	select {
	case <-t.ready:
	case h := <-hears: // it can't be read
		return node.ItemResult{}, h.err
	case <-ctx.Done():
		return node.ItemResult{}, context.Cause(ctx)
	}
	if err := a.sender.Send(ctx, number, a.marks.Requesting(record, &item)); err != nil {
		return node.ItemResult{}, fmt.Errorf("send the record of %q: %w", item.ID, err)
	}
	select {
	case h := <-hears:
		return h.result(item.ID)
	case <-ctx.Done():
		return node.ItemResult{}, context.Cause(ctx)
	}
}

// result returns what was heard.
func (h *heard) result(id string) (node.ItemResult, error) {
	switch {
	case h.err != nil:
		return node.ItemResult{}, h.err
	case h.answer.Refused != "":
		return node.ItemResult{}, &control.RefusedError{ID: id, Reason: h.answer.Refused}
	}
	return node.ItemResult{Outcome: h.answer.Told.Outcome, Told: &h.answer.Told}, nil
}

// join has an asker hear of the answer to its record. The partition is read from then on, if it is not already.
func (a *Asker) join(ctx context.Context, number int32, ask uuid.UUID, hears chan<- heard) (*tail, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errEnding
	}
	if a.asking >= a.limits.Most {
		return nil, intake.ErrBusy
	}
	a.asking++
	t := a.tails[number]
	if t == nil {
		reading, stop := context.WithCancel(context.WithoutCancel(ctx))
		t = &tail{number: number, stop: stop, ready: make(chan struct{}), waiting: map[uuid.UUID]chan<- heard{}}
		a.tails[number] = t
		a.reading.Go(func() { a.end(t, a.read(reading, t)) })
	}
	t.waiting[ask] = hears
	if t.idle != nil {
		t.idle.Stop() // or it finds that somebody waits
	}
	return t, nil
}

// leave forgets an asker. A partition that nobody waits for is read for a while, since the next one may come.
func (a *Asker) leave(t *tail, ask uuid.UUID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asking--
	delete(t.waiting, ask)
	if len(t.waiting) > 0 || a.tails[t.number] != t {
		return
	}
	if t.idle == nil {
		t.idle = time.AfterFunc(a.limits.Linger, func() { a.rest(t) })
		return
	}
	t.idle.Reset(a.limits.Linger)
}

// rest ends the reading of a partition that nobody waits for.
func (a *Asker) rest(t *tail) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(t.waiting) == 0 && a.tails[t.number] == t {
		delete(a.tails, t.number)
		t.stop()
	}
}

// read reads a partition until ctx is done, or what it reads is not there any more.
func (a *Asker) read(ctx context.Context, t *tail) error {
	place, err := a.log.End(ctx, t.number)
	if err != nil {
		return fmt.Errorf("read partition %s of the journal: %w", ledger.Name(t.number), err)
	}
	close(t.ready)
	for {
		err := a.log.Read(ctx, place, math.MaxInt64, func(e ledger.Committed) error {
			place.Position = node.Position{Epoch: node.UnknownEpoch, Offset: e.Offset + 1}
			switch {
			case len(e.Key) == 0 || e.Value == nil:
			case e.Key[0] == answerKey:
				a.tell(t, e.Value)
			case e.Key[0] == switchKey:
				a.tellSwitch(t, e.Value)
			}
			return nil
		})
		if errors.Is(err, ledger.ErrTruncated) {
			return err
		}
		wait := readAgain
		if err != nil {
			wait = readAnew
		}
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // it is the end
		case <-time.After(wait):
		}
	}
}

// tell tells those who wait for it of an answer. One that can't be read answers nobody.
func (a *Asker) tell(t *tail, value []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(t.waiting) == 0 {
		return
	}
	told, err := readAnswer(value)
	if err != nil {
		return
	}
	for _, ask := range told.Asks {
		if hears := t.waiting[ask]; hears != nil {
			hears <- heard{answer: told}
			delete(t.waiting, ask)
		}
	}
}

// end tells all who wait that a partition is not read any more.
func (a *Asker) end(t *tail, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	t.stop()
	if a.tails[t.number] == t {
		delete(a.tails, t.number)
	}
	for ask, hears := range t.waiting {
		hears <- heard{err: err}
		delete(t.waiting, ask)
	}
}

// Close ends all reading. Whoever still waits does not hear any more.
func (a *Asker) Close() {
	a.mu.Lock()
	a.closed = true
	for _, t := range a.tails {
		t.stop()
	}
	a.mu.Unlock()
	a.reading.Wait()
}

// AskBeside is Ask in a process that has a store as well. An answer stands in the journal a moment before the copy of
// the owner has what it says. If the store is the owner, its copy has it when AskBeside returns: whoever was told
// *cancelled*, and looks, does not find the message.
func (a *Asker) AskBeside(
	ctx context.Context, store *Store, item node.Item, record node.Record,
) (node.ItemResult, error) {
	result, err := a.Ask(ctx, item, record)
	if err != nil {
		return result, err
	}
	number, err := a.sender.Partition(ctx, item.Lane, []byte(item.ID))
	if err != nil {
		return result, nil //nolint:nilerr // it is done, wherever that is
	}
	for _, owned := range store.working() {
		if owned.number == number {
			owned.await()
		}
	}
	return result, nil
}

// Elsewhere reports whether the partition that an id on a lane belongs to as a key is not owned by a store. Its message
// is with another node, or nobody has taken it over yet.
func (a *Asker) Elsewhere(ctx context.Context, store *Store, of node.MessageID) (bool, error) {
	number, err := a.sender.Partition(ctx, of.Lane, []byte(of.ID))
	if err != nil {
		return false, fmt.Errorf("find the partition of %q: %w", of.ID, err)
	}
	return !slices.ContainsFunc(store.working(), func(owned *shard) bool { return owned.number == number }), nil
}
