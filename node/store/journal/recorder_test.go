package journal_test

import (
	"hash/fnv"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim/check"
)

// recorder tells package check, the judge, what happens in a world. It believes no node: what was taken in, decided,
// stored and settled it reads off the transactions that were committed, at the instant at which they take effect; what
// comes out, off the records in them; and what a consumer sees, by reading what was committed as any consumer does.
// From the engine it takes two things, what it rejects, and which calls have failed.
//
// A transaction tells no order of what it does, but the order in which the input was written does, and the outcomes
// that it stores. transaction puts the two together.
type recorder struct {
	world *engines
	began time.Time

	mu        sync.Mutex
	judge     *check.Judge
	broken    []check.Violation
	history   []string // where somebody has asked for it
	ended     bool
	rows      map[node.MessageID]*recorded // what there is, by the journal
	records   map[int32][]*submission      // the input, by its partitions
	last      map[int]uuid.UUID            // the last incarnation of each number, whether there is a row or not
	positions map[int32]int64
	replies   map[origin]int // the numbers of what tells of outcomes, by the record that it is about
	committed map[int32]int64
	made      uint64
	seen      map[place]int64 // by partition of a topic, where the consumer is
	pauses    pauses
	calls     calls
	waits     waits
	http      requests
	outcomes  map[string]int // how often there was each
}

// submission is a record of the input.
type submission struct {
	number    int
	id, lane  string
	action    string // as it is written; none for a message
	confirmed bool
	invalid   bool
	poison    bool // its topic refuses it
	deadline  time.Time
	every     time.Duration
	times     int

	request uuid.UUID // by HTTP; none for a record of a producer
	ask     uuid.UUID // the name of its record
	again   bool      // the request was decided before

	origin
}

// origin is where a record of the input stands, by the number that its partition has in the world.
type origin struct {
	partition int32
	offset    int64
}

// place is a partition of a topic.
type place struct {
	topic  string
	number int32
}

// recorded is a message that there is.
type recorded struct {
	ref      node.Ref
	number   int // of the submission, or of what tells of an outcome
	sequence int // of a series; 0 for none
	of       *submission
	deadline time.Time
	joined   time.Time // when it had that
}

// Numbers of what the store makes of submissions, which are numbered from 1.
const (
	firstOccurrence = 1_000_000
	maxOccurrences  = 100
	firstReply      = 1_000_000_000
)

// judged are the invariants that a history of these worlds could break. docs/CORRECTNESS.md says why not the others.
const judged = "S1 S2 S5 S6 S7 S8 S9 S10 S11 S12 S16 S17 S18 S19 S20 S21 S22 S24 S25 S26 S29 " +
	"L2 L3 L5 L6 L10 L12 L16 L21"

// headerNumber is a header of every submission, which comes out with it.
const headerNumber = "number"

func newRecorder(w *engines) *recorder {
	j := &recorder{
		world: w, began: time.Now(), judge: check.New(), rows: map[node.MessageID]*recorded{},
		records: map[int32][]*submission{}, positions: map[int32]int64{}, replies: map[origin]int{},
		committed: map[int32]int64{}, last: map[int]uuid.UUID{}, seen: map[place]int64{}, outcomes: map[string]int{},
		pauses: newPauses(), calls: newCalls(), waits: newWaits(), http: newRequests(),
	}
	c, most := node.Default(), 100*time.Millisecond // of a call, with the time between two transactions
	config := &check.Config{
		Recorded: []check.Kind{
			check.Submit, check.Fire, check.Copy, check.See, check.Start, check.Stop, check.Crash, check.Deliver,
			check.Commit, check.Rewind, check.Reject, check.Lost, check.Place, check.Take, check.Move, check.Lineage,
			check.Insert, check.Decide, check.Answer, check.Recur, check.Duplicate, check.Delete, check.Fault,
			check.Hang, check.Heal, check.Truncate, check.Retain, check.Drop, check.Pause, check.Resume,
		},
		HoldTime: c.HoldTime, PollInterval: c.PollInterval, DetectionInterval: c.DetectionInterval,
		IdleInterval: c.IdleInterval, Lookahead: c.Lookahead, LeaveAfter: c.LeaveAfter, StoreTimeout: c.StoreTimeout(),
		PublishTimeout: c.PublishTimeout(), PublishableAge: c.PublishableAge(), Retry: 1500 * time.Millisecond,
		StandBack: 2500 * time.Millisecond, StoreLatency: most, BrokerLatency: most, ClockError: time.Millisecond,
		Session: groupSession, Rebalance: time.Second, Settle: 10 * time.Second,
		Begin: time.Duration(j.began.UnixNano()), DeadLetter: true, Nodes: 3, Lanes: 5, Messages: 1000,
		RetryFor: retryFor, CallWait: retryFor * 6 / 5, Ordered: w.ordered,
	}
	if w.ordered { // one after the other, and what the one before was moved for stands back
		config.CallWait += config.Behind()
	}
	j.add(&check.Event{Kind: check.Configure, Config: config})
	j.waits.begin(config)
	w.cluster.Watch(j.watch)
	return j
}

// add tells the judge of an event. The caller has mu, except in newRecorder.
func (j *recorder) add(e *check.Event) {
	if j.ended {
		return
	}
	if e.Kind != check.Configure {
		e.At = time.Since(j.began)
	}
	if os.Getenv("CHRONOS_HISTORY") != "" {
		j.history = append(j.history, e.String())
	}
	j.ended = e.Kind == check.End
	j.broken = append(j.broken, j.judge.Add(e)...)
	if e.Kind != check.Configure {
		j.waits.add(e)
	}
}

// tell tells the judge of an event.
func (j *recorder) tell(e *check.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.add(e)
}

// end ends the history, and says what it has broken. CHRONOS_HISTORY=file keeps it.
func (j *recorder) end() {
	j.see()
	j.tell(&check.Event{Kind: check.End})
	j.mu.Lock()
	defer j.mu.Unlock()
	verdict := j.judge.Verdict()
	if got := strings.Join(verdict.Judged, " "); got != judged {
		j.world.Errorf("judged are %s, and not %s", got, judged)
	}
	for name := range strings.FieldsSeq(waited) {
		if !slices.Contains(j.waits.judge.Verdict().Judged, name) {
			j.world.Errorf("%s is not judged", name)
		}
	}
	broken := slices.Concat(j.broken[:min(len(j.broken), 5)], j.waits.broken[:min(len(j.waits.broken), 5)])
	for _, v := range broken {
		j.world.Errorf("%v", v.String())
	}
	if file := os.Getenv("CHRONOS_HISTORY"); file != "" {
		text := "chronos history 1\n" + strings.Join(j.history, "\n") + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			j.world.Error(err)
		}
	}
}

// instant returns an instant as a history has it.
func (j *recorder) instant(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(j.began)
}

// submitted tells of a record of the input. It has not been read by anybody yet.
func (j *recorder) submitted(s *submission, r *node.Record, at origin) {
	j.mu.Lock()
	defer j.mu.Unlock()
	s.origin = at
	j.records[at.partition] = append(j.records[at.partition], s)
	e := &check.Event{
		Kind: check.Submit, Message: s.number, ID: s.id, Topic: s.lane, Deadline: j.instant(s.deadline),
		Key: digest(r.Key), Partition: j.world.inputName(at.partition), Offset: r.Offset, Action: s.action,
		Every: s.every, Limit: s.times,
	}
	if s.confirmed {
		e.Action = "schedule"
	}
	if s.action == "" || s.action == "replace" {
		e.Payload = content(r)
	}
	if s.poison {
		e.Flaw = check.Poison
	}
	if s.invalid {
		e.Flaw = check.Invalid
	}
	j.add(e)
}

// digest digests bytes; 0 is for none.
func digest(b []byte) uint64 {
	if b == nil {
		return 0
	}
	sum := fnv.New64a()
	_, _ = sum.Write(b)
	return max(sum.Sum64(), 1)
}

// content digests what a record of the input and that of the output have in common.
func content(r *node.Record) uint64 {
	parts := [][]byte{r.Key, r.Value}
	for _, h := range r.Headers {
		if h.Name != node.HeaderSequence && h.Name != node.HeaderRequest && !node.IsRequest(h.Name) {
			parts = append(parts, []byte(h.Name), h.Value)
		}
	}
	sum := fnv.New64a()
	for _, part := range parts {
		_, _ = sum.Write(strconv.AppendInt(nil, int64(len(part)), 10))
		_, _ = sum.Write(part)
	}
	return sum.Sum64()
}

// headerOf returns the value of a header.
func headerOf(headers []node.Header, name string) string {
	for _, h := range headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

func numberOf(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// occurrence returns the number of an occurrence of a series, of which the first is the submission itself.
func occurrence(number, sequence int) int {
	if sequence <= 1 {
		return number
	}
	return firstOccurrence + number*maxOccurrences + sequence
}

// identify returns the number of what has come out.
func (j *recorder) identify(headers []node.Header) int {
	if headerOf(headers, node.HeaderOutcome) != "" {
		number := int32(numberOf(headerOf(headers, node.HeaderSourcePartition)))
		return j.replies[origin{
			j.world.inlets.called(headerOf(headers, node.HeaderSourceTopic), number),
			int64(numberOf(headerOf(headers, node.HeaderSourceOffset))),
		}]
	}
	return occurrence(numberOf(headerOf(headers, headerNumber)), numberOf(headerOf(headers, node.HeaderSequence)))
}

// see has a consumer read on that reads what was committed, on all topics.
func (j *recorder) see() {
	for _, topic := range []string{output, second, deadLetters, outcomes} {
		for _, r := range j.world.cluster.Records(topic, true) {
			j.mu.Lock()
			if at := (place{topic, r.Partition}); r.Offset >= j.seen[at] {
				j.seen[at] = r.Offset + 1
				j.add(&check.Event{Kind: check.See, Message: j.identify(r.Headers), Topic: topic})
			}
			j.mu.Unlock()
		}
	}
}

// offset tells that the group has committed an offset; a lower one than before is late.
func (j *recorder) offset(node string, number int32, offset int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	kind := check.Commit
	if offset < j.committed[number] {
		kind = check.Rewind
	}
	j.committed[number] = offset
	j.add(&check.Event{Kind: kind, Node: node, Partition: j.world.inputName(number), Offset: offset})
}

// said takes what the engine says of records that are no submissions, and of calls that have failed.
func (j *recorder) said(name string, e node.Event) {
	switch e := e.(type) {
	case node.Rejected:
		j.tell(&check.Event{
			Kind: check.Reject, Node: name, Message: numberOf(headerOf(e.Record.Headers, headerNumber)),
			Text: e.Detail,
		})
	case node.Failed:
		j.failed(name, e)
	}
}

// delivered tells that a node is handed a record of the input.
func (j *recorder) delivered(name string, r *node.Record) {
	j.tell(&check.Event{
		Kind: check.Deliver, Node: name, Message: numberOf(headerOf(r.Headers, headerNumber)),
	})
}
