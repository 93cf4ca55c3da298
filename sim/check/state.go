package check

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// state is what has become of everything by the events so far. It is written by apply only; the invariants read it.
type state struct {
	config   Config
	recorded map[Kind]bool

	submissions  map[int]*submission
	namesakes    map[rowKey][]*submission // by id, where nobody records what is covered
	rows         map[rowKey]*row
	incarnations map[UUID]*incarnation
	processes    map[string]*process
	ids          map[UUID]*process // by node id
	partitions   map[string]*partition
	placed       map[placedKey]string // the partition of each key of each topic

	faults   int           // so far, terms included
	terms    int           // of them, processes that were asked to end
	cuts     int           // processes that do not reach the store
	fault    time.Duration // when the last one was
	healed   time.Duration // -1 before
	jumped   time.Duration // when the store's clock was set last; -1 for never
	rejected int           // submissions that had to be rejected, or were
}

// submission is one record on an input topic, appended once or more often.
type submission struct {
	number    int
	key       rowKey
	deadline  time.Duration
	payload   uint64
	flaw      string
	at        time.Duration // when it was appended first
	partition string        // of its input topic
	faults    int           // that were before

	appended, delivered int32 // to its input topic, and to nodes
	rejected, covered   bool
	inserts, claims     int32
	attempts            int32 // publishes begun under a claim
	fires, copies       int32 // records on the output and on a dead-letter topic
	loose               int32 // of which nobody knows which incarnation they are of
	first               time.Duration
	gone                time.Duration // when its row was deleted last
	excuse              string        // why it may fire more than once; "" for no reason
}

// incarnation is one insert of a submission.
type incarnation struct {
	*submission

	id        UUID
	published int32 // records that appeared by a claim on it
	rows      int32 // how often it was inserted
	before    int32 // claims on it before the healing
	after     int32 // records after the healing
}

// row is a message in the store.
type row struct {
	*incarnation

	key     rowKey
	due     time.Duration
	lasting bool // it was put off for longer than a failure of the brokers puts off
	owner   UUID
	stamp   time.Duration
	since   time.Duration // when it was claimed
	orphan  bool          // its owner was dead when the world healed
}

// ready tells whether somebody holds a claim.
func (r *row) ready() bool { return r.owner != UUID{} }

// process is one life of a node.
type process struct {
	name    string
	id      UUID
	dead    bool
	jumped  time.Duration // when its clock was set last; -1 for never
	polled  time.Duration // when it was given its batch
	batch   map[rowKey][]*submission
	checked map[rowKey]bool // the ids that it has looked for and not found, since then
	due     time.Duration   // of the last row that it was given a claim on
	member  bool            // of the consumer group
	holding bool            // it has been given a batch and has not committed it
	cut     time.Duration   // since when it does not reach the store; -1 when it does
	cutOff  bool            // it does not reach the brokers
}

// partition is a part of an input topic.
type partition struct {
	base      int64 // the first offset
	log       []*submission
	committed int64
	reached   int64 // the highest that was ever committed
}

func (p *partition) end() int64 { return p.base + int64(len(p.log)) }

type placedKey struct {
	topic string
	key   uint64
}

func newState() *state {
	return &state{
		recorded:     map[Kind]bool{},
		submissions:  map[int]*submission{},
		namesakes:    map[rowKey][]*submission{},
		rows:         map[rowKey]*row{},
		incarnations: map[UUID]*incarnation{},
		processes:    map[string]*process{},
		ids:          map[UUID]*process{},
		partitions:   map[string]*partition{},
		placed:       map[placedKey]string{},
		healed:       -1,
		jumped:       -1,
	}
}

// process returns what is known of a process. Of one that nobody has seen start, that it runs.
func (s *state) process(name string) *process {
	p := s.processes[name]
	if p == nil {
		p = &process{
			name: name, jumped: -1, cut: -1, batch: map[rowKey][]*submission{}, checked: map[rowKey]bool{},
		}
		s.processes[name] = p
	}
	return p
}

// rowOf returns the row of exactly the incarnation that the event names, or nil.
func (s *state) rowOf(e *Event) *row {
	if r := s.rows[e.row()]; r != nil && r.id == e.Incarnation {
		return r
	}
	return nil
}

// stored returns the row of the submission, or nil.
func (s *state) stored(sub *submission) *row {
	if r := s.rows[sub.key]; r != nil && r.submission == sub {
		return r
	}
	return nil
}

// published returns the incarnation that a record is of, and whether that is known or follows from what is stored. nil
// if it is of none.
func (s *state) published(e *Event) (i *incarnation, known bool) {
	if i := s.incarnations[e.Incarnation]; i != nil {
		return i, true
	}
	if sub := s.submissions[e.Message]; sub != nil && !e.Direct && e.Incarnation == (UUID{}) {
		if r := s.stored(sub); r != nil {
			return r.incarnation, false
		}
	}
	return nil, false
}

// inOrder returns the submissions by their numbers.
func (s *state) inOrder() []*submission {
	return slices.SortedFunc(maps.Values(s.submissions), func(a, b *submission) int {
		return cmp.Compare(a.number, b.number)
	})
}

// left returns the rows that there are, the earliest first.
func (s *state) left() []*row {
	return slices.SortedFunc(maps.Values(s.rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.key.id, b.key.id), cmp.Compare(a.key.topic, b.key.topic))
	})
}

// finished tells whether nothing more has to be done about a submission for its offset to be committed.
func (sub *submission) finished() bool {
	return sub.rejected || sub.covered || sub.inserts > 0 || sub.fires > 0 || sub.copies > 0
}

// excused notes the first reason why a submission may fire more than once.
func (sub *submission) excused(reason string) {
	if sub.excuse == "" {
		sub.excuse = reason
	}
}

func (s *state) partitionNames() []string { return slices.Sorted(maps.Keys(s.partitions)) }

func (s *state) processNames() []string { return slices.Sorted(maps.Keys(s.processes)) }
