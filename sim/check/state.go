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
	lanes        map[string]*lane
	lines        map[lineKey]*line
	older        bool                     // there was an older deployment, which kept no positions
	upgraded     bool                     // and the store was not set back since
	paused       map[string]pause         // by lane; the intake has no name
	lastLock     time.Duration            // until when the last one was
	locked       int                      // how many rows are locked now
	locks        map[rowKey]time.Duration // until when rows are, or were, locked by sessions that are no node's
	placed       map[placedKey]string     // the partition of each key of each topic
	decision     decision                 // the last one
	past         map[pastKey][]string     // what was decided on instructions that came past Kafka: the outcomes
	requests     map[UUID]int             // the era in which a request was decided on last
	tasks        tasks                    // and queues
	era          int                      // goes up when the store is set back, and when a lineage begins

	// publishes counts the calls of Publish events, and appended says, of each call, topic and key, which record of
	// the call has appeared last.
	publishes int
	appended  map[appendedKey]int32

	faults   int           // so far, terms included
	terms    int           // of them, processes that were asked to end
	hangs    int           // so far
	pauses   int           // so far
	cuts     int           // processes that do not reach the store
	fault    time.Duration // when the last one was
	wrong    time.Duration // when anything last went wrong, or was mended
	healed   time.Duration // -1 before
	jumped   time.Duration // when the store's clock was set last; -1 for never
	rejected int           // submissions that had to be rejected, or were

	// rewindowed says that some process has gone by other windows than the configuration says.
	rewindowed bool

	lineage  int64         // of the store
	lineages int           // that have begun
	undone   int64         // the highest that was the store's when it was set back
	begun    time.Duration // when the last one did; -1 for never
	catching bool          // it has not caught up yet
	caught   time.Duration // when it had; -1 for never
	setBack  time.Duration // when the store was set back last; -1 for never
	dropped  time.Duration // when an input topic was deleted last; -1 for never

	// rewound says that a position was lowered in a new lineage.
	rewound bool

	// forgetful says that the store has lost something that somebody was told is stored.
	forgetful bool
}

// submission is one record on an input topic, appended once or more often.
type submission struct {
	number     int
	key        rowKey
	deadline   time.Duration
	payload    uint64
	digest     uint64 // of its key
	flaw       string
	lettered   bool                     // a copy of it was stored, for the dead letters
	copyFailed map[string]time.Duration // when a publish of one of its copies failed last, by whose it was
	action     string                   // what it asks for; "" to be scheduled
	asked      time.Duration            // the deadline that it has asked for
	notAfter   time.Duration            // when it is not to be published any more; 0 for no such time
	every      time.Duration            // of a series: its interval
	times      int                      // of a series: how many occurrences there are
	sequence   int                      // of an occurrence; 0 of what does not recur
	series     *submission              // of an occurrence: the series, which is the first one
	reached    int                      // of a series: the highest sequence number that has come out
	told       time.Duration            // when somebody was told that it does not come out as it was
	toldIn     int                      // in which era; 0 for none
	of         int                      // of an answer: the submission that it is about
	said       string                   // of an answer: the outcome
	former     string                   // of an answer: whether replaced content may come out; "" if nobody knows
	brought    bool                     // past Kafka, by a request that came by HTTP
	at         time.Duration            // when it was appended first, or stored, if it was brought
	partition  string                   // of its input topic
	offset     int64

	appended, delivered int32 // to its input topic, and to nodes
	there               int32 // records of it that Kafka still has, where partitions are recorded
	taken               int32 // records of it that a take has ever dealt with
	rejected, covered   bool
	inserts, claims     int32
	kept                int32 // rows of it that are stored
	attempts            int32 // publishes begun under a claim
	fires, copies       int32 // records on the output and on a dead-letter topic
	seen                int32 // records of it that a consumer was handed that reads only what was committed
	letters             int32 // rows of its dead letters that were deleted
	loose               int32 // of which nobody knows which incarnation they are of
	first               time.Duration
	gone                time.Duration // when its row was deleted last
	excuse              string        // why it may fire more than once; "" for no reason

	// What follows is only of the time since the store was set back, or a lineage began.
	stored   int32 // inserts
	met      bool  // its id was stored
	answered int32 // answers about it

	// call is the one publish that it was in, counted from 1, and nth its place there; call is -1 if there were more.
	call int
	nth  int32
}

// incarnation is one insert of a submission.
type incarnation struct {
	*submission

	id        UUID
	comes     time.Duration // its deadline: a store that is set back may have another one of the submission
	known     bool          // that is known
	copied    rowKey        // where it is a copy of what was rejected, the row
	published int32         // records that appeared by a claim on it
	rows      int32         // how often it was inserted
	before    int32         // claims on it before the healing
	after     int32         // records after the healing

	tried              time.Duration            // when its publish failed first
	rejections, failed int                      // publishes that failed: rejected by the topic, and for other reasons
	failedBy           map[string]time.Duration // and when the last one did, by whose it was

	calls    int           // callbacks of it that ended without a good answer
	called   time.Duration // when the last of them ended
	failedAt time.Duration // when a publish of it failed last, for whatever reason

	begun  time.Duration            // when a publish of it began last
	unsure map[string]time.Duration // and when the last one of each node did that had no known outcome
	held   time.Duration            // since when the node that began it has had its claim
	last   *request                 // where it is a callback, the last one that was begun

	stamp, since time.Duration // of the last claim on it: as it is stored, and when that was

	barred int           // the era in which an outcome has said that it does not come out; 0 for none
	made   time.Duration // when it was first stored
}

// row is a message in the store.
type row struct {
	*incarnation

	key      rowKey
	deadline time.Duration // as it is stored
	due      time.Duration
	owner    UUID
	stamp    time.Duration
	expires  time.Duration // 0 where nobody has said it
	since    time.Duration // when it was claimed
	orphan   bool          // its owner was dead when the world healed
	attempts int           // claims on it under which something may have been published
	bound    bool          // an outcome has said that it comes out, or may
	promised bool          // an outcome has said that it comes out
	stopped  bool          // an outcome has said that it is the last of its series
	former   bool          // what it has replaced may come out
	maybe    bool          // or it may not: claims are not recorded
	restored bool          // it was there before the store was set back: of what comes before, nothing is known

	part    string // on which it is parked; "" for none
	placed  bool   // that is known: it was stored, or reset, since the store was set back
	counted bool   // it was parked before

	behind  bool          // it has stood back, and may have come forward since
	joined  time.Duration // since when it stands in its line
	waiting time.Duration // since when nobody claims it
	ahead   int           // how many claims there had been on its lane by then
}

// asks notes the deadline of an incarnation, which never changes.
func (i *incarnation) asks(deadline time.Duration) { i.comes, i.known = deadline, true }

// ready reports whether somebody holds a claim.
func (r *row) ready() bool { return r.owner != UUID{} }

// process is one life of a node.
type process struct {
	name     string
	id       UUID
	started  time.Duration
	dead     bool
	stopping bool
	jumped   time.Duration            // when its clock was set last; -1 for never
	due      map[string]time.Duration // by lane, of the last row that it was given a claim on
	failed   map[string]time.Duration // by lane, when a publish of it failed last
	errors   map[string]*burst        // by call
	call     int                      // the last publish that it has begun
	member   bool                     // of the consumer group
	joined   time.Duration
	cut      time.Duration          // since when it does not reach the store; -1 when it does
	cutOff   bool                   // it does not reach the brokers
	away     time.Duration          // until when it is stopped
	windows  []Window               // that it goes by; nil for those of the configuration
	begun    map[string][]beginning // by lane with a pace: the publishes of the last second
	requests []*request             // the callbacks that it has made lately, the earliest first
	parkings map[part]*parking
}

// burst counts what happens within a second.
type burst struct {
	since time.Duration
	count int
}

// lane is what there is to know of an output or a dead-letter topic.
type lane struct {
	begun   []begun  // the publishes, where it has a pace
	takings []taking // all claims
	hung    bool     // at any time, or one of its partitions

	// silent are the partitions of the topic that hung, at any time, or that nodes did not reach: to whom, "" for all.
	silent map[string]map[string]bool
	whole  bool // all of it hung, at any time

	answers map[string]time.Duration // by partition: when all of these have ended, as far as known
	parked  int                      // how many messages were ever parked on it
}

// pause is since when something is paused, in true time and by the clock of the store.
type pause struct{ since, stamp time.Duration }

// partition is a part of an input topic.
type partition struct {
	log        []*record         // the earliest first, and those too that retention took
	lost       map[place]*record // those that a truncation took, and those that are no submissions
	start, end int64             // of the log
	furthest   int64             // the highest end that there ever was
	guessed    bool              // nothing was seen of the log: it begins where the group's offset is, as far as known
	dropped    bool

	committed int64
	older     int64         // what an older deployment had committed
	reached   int64         // the highest that was ever committed
	newest    place         // the latest that was ever committed, by its epoch first, where that is known
	told      place         // the same of what takes have told nodes
	heard     time.Duration // when something was committed last; 0 for never

	kept     bool // it has a position
	position place
	highest  int64 // the highest position that there ever was
	begin    int64 // where the first position was: nothing before it has to be taken in
	checked  int64 // all before it was seen to be taken in
	unwound  int64 // the same before a position was lowered on purpose
	mark     int64 // it has to be taken in up to here
}

// place is an offset and an epoch.
type place struct {
	offset int64
	epoch  int
}

// record is one record of a partition.
type record struct {
	*submission // nil where it is none

	place
	taken bool // in this lineage
	once  bool // in any
	gone  bool // retention took it
	told  bool // and somebody has said so
}

// from returns the place in the log of the first record at that offset or behind it.
func (p *partition) from(offset int64) int {
	at, _ := slices.BinarySearchFunc(p.log, offset, func(r *record, o int64) int {
		return cmp.Compare(r.place.offset,
			o)
	})
	return at
}

// between returns the records at offsets from, up to, not including, to.
func (p *partition) between(from, to int64) []*record {
	if to <= from {
		return nil
	}
	return p.log[p.from(from):p.from(to)]
}

// find returns the record at that place, or nil if nobody knows it.
func (p *partition) find(at place) *record {
	if r := p.lost[at]; r != nil {
		return r
	}
	for _, r := range p.between(at.offset, at.offset+1) {
		if at.epoch == Unknowable || r.epoch == at.epoch {
			return r
		}
	}
	return nil
}

// last returns the offset behind the last record that Kafka still has.
func (p *partition) last() int64 {
	for _, r := range slices.Backward(p.log) {
		if !r.gone {
			return r.place.offset + 1
		}
	}
	return 0
}

type placedKey struct {
	topic string
	key   uint64
}

type appendedKey struct {
	placedKey

	call int
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
		lanes:        map[string]*lane{},
		lines:        map[lineKey]*line{},
		paused:       map[string]pause{},
		locks:        map[rowKey]time.Duration{},
		placed:       map[placedKey]string{},
		appended:     map[appendedKey]int32{},
		past:         map[pastKey][]string{},
		requests:     map[UUID]int{},
		tasks:        newTasks(),
		era:          1,
		healed:       -1,
		jumped:       -1,
		lineage:      1,
		begun:        -1,
		caught:       -1,
		setBack:      -1,
		dropped:      -1,
	}
}

// process returns what is known of a process. Of one that nobody has seen start, that it runs.
func (s *state) process(name string) *process {
	p := s.processes[name]
	if p == nil {
		p = &process{
			name: name, jumped: -1, cut: -1, due: map[string]time.Duration{}, failed: map[string]time.Duration{},
			errors: map[string]*burst{},
		}
		s.processes[name] = p
	}
	return p
}

// partition returns the partition of that name, which begins at the offset if it is new.
func (s *state) partition(name string, start int64) *partition {
	p := s.partitions[name]
	if p == nil {
		p = &partition{
			lost: map[place]*record{}, start: start, end: start, furthest: start, committed: start, reached: start,
			newest: place{start, Unknowable}, told: place{start, Unknowable},
		}
		s.partitions[name] = p
	}
	return p
}

func (s *state) lane(topic string) *lane {
	l := s.lanes[topic]
	if l == nil {
		l = &lane{}
		s.lanes[topic] = l
	}
	return l
}

// rowOf returns the row of exactly the incarnation that the event names, or nil.
func (s *state) rowOf(e *Event) *row {
	if r := s.rows[e.row()]; r != nil && r.id == e.Incarnation {
		return r
	}
	return nil
}

// stored returns the row of the submission on its output topic, or nil.
func (s *state) stored(sub *submission) *row {
	if r := s.rows[sub.key]; r != nil && r.submission == sub {
		return r
	}
	return nil
}

// published returns the incarnation that a record or a publish is of, and whether that is known or follows from what is
// stored. nil if it is of none.
func (s *state) published(e *Event) (i *incarnation, known bool) {
	if i := s.incarnations[e.Incarnation]; i != nil {
		return i, true
	}
	if sub := s.submissions[e.Message]; sub != nil && e.Incarnation == (UUID{}) {
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

// finished reports whether something has come of a submission, at any time, as it has to before its offset is
// committed. Where there are dead-letter topics, a copy of what is rejected belongs to that.
func (s *state) finished(sub *submission) bool {
	return sub.rejected && !s.config.DeadLetter || sub.covered || sub.inserts > 0 || sub.fires > 0 || sub.copies > 0
}

// settled reports whether something has come of a submission in this lineage, as it has to before a position is moved
// past it; or is there from the one before: a take that is repeated, since it was not answered, finds its own message.
func (s *state) settled(sub *submission) bool {
	return sub.rejected && !s.config.DeadLetter || sub.met || sub.stored > 0 || s.stored(sub) != nil
}

// inKafka reports whether the submission could still be consumed, as far as anybody knows.
func (sub *submission) inKafka() bool { return sub.partition == "" || sub.there > 0 }

// excused notes the first reason why a submission may fire more than once.
func (sub *submission) excused(reason string) {
	if sub.excuse == "" {
		sub.excuse = reason
	}
}

func (s *state) partitionNames() []string { return slices.Sorted(maps.Keys(s.partitions)) }

func (s *state) processNames() []string { return slices.Sorted(maps.Keys(s.processes)) }
