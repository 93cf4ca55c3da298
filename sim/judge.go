package sim

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// Violation says which invariant was broken, when, and how.
type Violation struct {
	Invariant string
	Detail    string
	At        time.Duration
	Messages  []int // the submissions of the id concerned
}

// judge sees everything that an outsider sees, and the store. It checks each invariant at the event that can break it.
type judge struct {
	world *world

	submissions  map[int]*submitted
	rows         map[node.MessageID]*row
	incarnations map[uuid.UUID]*incarnation
	lives        map[*life]*process

	healedAt  int64
	storeJump int64 // when the store's clock last jumped
}

// submitted is what the judge knows of a submission.
type submitted struct {
	*Submission

	payload     digest // of what is to be relayed
	submittedAt int64
	deadline    time.Time
	output      string

	appended, polled        int // how often on its input topic, and delivered to a node
	rejected, covered       bool
	inserts, claims         int
	attempts, direct, fires int    // publishes begun: claimed ones and direct ones; and records on the output topic
	copies                  int    // records on a dead-letter topic
	excuse                  string // why it may fire more than once; "" for no reason
}

// row is a message in the store.
type row struct {
	*incarnation

	due       time.Time
	lasting   bool // it was put off for long
	readiedAt time.Time
	stamp     time.Time // what the store's clock really was at the claim
	owner     uuid.UUID
}

// incarnation is one insert of a submission.
type incarnation struct {
	*submitted

	id        uuid.UUID
	published int // appended by a holder of a claim on it
}

// process is what the judge knows of a life.
type process struct {
	batch    map[node.MessageID][]int // what it has polled last
	polledAt int64
	checked  map[node.MessageID]bool // which ids were absent when it looked, since then
	held     map[heldKey]holding     // its claims
}

// heldKey names a message among the claims of a life: a submission, or the copy of a rejected record of it, of which
// there is one for each offset.
type heldKey struct {
	number int
	source string
}

func keyOf(s *submitted, headers []node.Header) heldKey {
	key := heldKey{number: s.Number}
	for _, h := range headers {
		if h.Name == node.HeaderSourceOffset || h.Name == node.HeaderSourcePartition {
			key.source += string(h.Value) + " "
		}
	}
	return key
}

// holding is a claim of a life: on what, and since when at least, by its monotonic clock.
type holding struct {
	*incarnation

	since int64
}

func newJudge(w *world) *judge {
	return &judge{
		world:        w,
		submissions:  map[int]*submitted{},
		rows:         map[node.MessageID]*row{},
		incarnations: map[uuid.UUID]*incarnation{},
		lives:        map[*life]*process{},
	}
}

func (j *judge) broken(invariant string, s *submitted, format string, args ...any) {
	w := j.world
	if w.violation != nil {
		return
	}
	w.broken(invariant, fmt.Sprintf(format, args...))
	if s != nil {
		for _, other := range j.submissionsInOrder() {
			if other.ID == s.ID && other.output == s.output {
				w.violation.Messages = append(w.violation.Messages, other.Number)
			}
		}
		w.violation.Detail = fmt.Sprintf("submission %d, id %s: ", s.Number, s.ID) + w.violation.Detail
	}
}

func (j *judge) excuse(s *submitted, reason string) {
	if s.excuse == "" {
		s.excuse = reason
	}
}

func (j *judge) started(l *life) {
	j.lives[l] = &process{
		batch: map[node.MessageID][]int{}, checked: map[node.MessageID]bool{}, held: map[heldKey]holding{},
	}
}

func (j *judge) stopped(l *life) { delete(j.lives, l) }
func (j *judge) crashed(l *life) { delete(j.lives, l) }

// process returns what is known of a life; of one that is gone, nothing.
func (j *judge) process(l *life) *process {
	if p := j.lives[l]; p != nil {
		return p
	}
	return &process{held: map[heldKey]holding{}, checked: map[node.MessageID]bool{}}
}

func (j *judge) paused(*life, time.Duration) {}
func (j *judge) stepped(h *host)             { h.stepped = j.world.now }
func (j *judge) storeStepped()               { j.storeJump = j.world.now }
func (j *judge) healed()                     { j.healedAt = j.world.now }
func (j *judge) rewound(*partition)          {}
func (j *judge) struck(Fault, *life)         {}

// submitted notes a record on an input topic.
func (j *judge) submitted(s *Submission, r *node.Record, deadline time.Time) {
	known := j.submissions[s.Number]
	if known == nil {
		output := j.world.options.route(s.Route % j.world.options.Routes).Output
		known = &submitted{
			Submission: s, payload: relayed(r), submittedAt: j.world.now, deadline: deadline, output: output,
		}
		j.submissions[s.Number] = known
	}
	known.appended++
	if known.appended > 1 {
		j.excuse(known, "submitted twice")
	}
}

// polled notes that records were delivered to a node.
func (j *judge) polled(l *life, records []node.Record) {
	p := j.process(l)
	p.batch, p.polledAt = make(map[node.MessageID][]int, len(records)), j.world.now
	clear(p.checked)
	for i := range records {
		s := j.submissions[numberIn(records[i].Headers)]
		s.polled++
		if s.polled > s.appended {
			j.excuse(s, "delivered again")
		}
		id := node.MessageID{ID: s.ID, Topic: s.output}
		p.batch[id] = append(p.batch[id], s.Number)
	}
}

// event takes what the engine says of itself. Only rejections are taken from there: nothing else tells them.
func (j *judge) event(_ *life, e node.Event) {
	r, is := e.(node.Rejected)
	if !is {
		return
	}
	s := j.submissions[numberIn(r.Record.Headers)]
	s.rejected = true
	if s.Flaw == "" || s.Flaw == Poison {
		j.broken("S1", s, "a valid submission was rejected: %s", r.Detail)
	}
}

// committed checks S10 and S1: what a committed offset leaves behind is taken care of.
func (j *judge) committed(l *life, p *partition, from int64) {
	if w := j.world; w.observe != nil {
		w.step(&Step{
			Kind: StepCommit, Node: l.host.number, Life: l.number, Text: fmt.Sprintf("%v up to %d", p, p.committed),
		})
	}
	if p.committed > p.end {
		j.broken("S10", nil, "the offset %d of %v was committed, which ends at %d", p.committed, p, p.end)
		return
	}
	for offset := max(from, p.base); offset < p.committed; offset++ {
		s := j.submissions[numberIn(p.log[offset-p.base].Headers)]
		if !s.rejected && !s.covered && s.inserts == 0 && s.fires == 0 && s.copies == 0 {
			j.broken("S10", s, "its offset was committed, and it is neither stored nor fired nor rejected")
		}
	}
}

// publishing checks what must hold when a publish begins. It returns for each record the incarnation that the
// node holds a claim on; nil for a direct one.
func (j *judge) publishing(l *life, records []node.Record) []*incarnation {
	p := j.process(l)
	direct := l.running.operation == node.Enqueue
	under := make([]*incarnation, len(records))
	w := j.world
	config := node.Config{HoldTime: w.options.HoldTime}
	for i := range records {
		s := j.submissions[numberIn(records[i].Headers)]
		if s == nil {
			j.broken("S6", nil, "a record that nobody submitted is published")
			return under
		}
		if records[i].Topic != s.output {
			if h, held := p.held[keyOf(s, records[i].Headers)]; held && !direct {
				under[i] = h.incarnation
			}
			continue // a copy for a dead-letter topic
		}
		advance := w.options.TimingAdvance
		if w.options.AdaptiveAdvance {
			advance = max(advance, w.options.Lookahead)
		}
		due := l.host.clock.wall(w.now).Add(advance)
		// A direct publish was decided on before the look into the store.
		jumped := w.now-l.host.stepped <= int64(w.options.storeTimeout()) || direct && l.host.stepped >= p.polledAt
		if s.deadline.After(due) && !jumped {
			j.broken("S8", s, "it is published %v too early", s.deadline.Sub(due))
		}
		if direct {
			s.direct++
			j.checkAbsent(p, s)
			continue
		}
		s.attempts++
		h, held := p.held[keyOf(s, records[i].Headers)]
		switch {
		case !held:
			j.broken("S3", s, "it is published without a claim")
		case l.host.clock.mono(w.now)-h.since > int64(config.PublishableAge()):
			j.broken("S13", s, "it is published under a claim that is %v old",
				time.Duration(l.host.clock.mono(w.now)-h.since))
		case s.attempts > s.claims:
			j.broken("S5", s, "it is published %d times under %d claims", s.attempts, s.claims)
		}
		under[i] = h.incarnation
	}
	return under
}

// checkAbsent checks S9: a node publishes at once only what it has looked for and not found.
func (j *judge) checkAbsent(p *process, s *submitted) {
	id := node.MessageID{ID: s.ID, Topic: s.output}
	if !p.checked[id] {
		j.broken("S9", s, "it is published at once, and nobody has looked whether its id is stored")
	}
	delete(p.checked, id)
}

// outcome notes the results that the engine gets for its publishes.
func (j *judge) outcome(l *life, records []node.Record, results []error, under []*incarnation) {
	p := j.process(l)
	for i := range records {
		s := j.submissions[numberIn(records[i].Headers)]
		if s == nil {
			continue
		}
		if results[i] == nil && under[i] != nil {
			delete(p.held, keyOf(s, records[i].Headers))
		} else if results[i] != nil && !rejected(results[i]) {
			j.excuse(s, "a publish of unknown outcome")
		}
	}
}

// published checks a record on an output or dead-letter topic.
func (j *judge) published(_ *life, r *node.Record, under *incarnation, duplicated bool) {
	s := j.submissions[numberIn(r.Headers)]
	if under != nil {
		under.published++
	}
	if r.Topic != s.output {
		s.copies++
		return
	}
	w := j.world
	s.fires++
	if duplicated {
		j.excuse(s, "appended twice by the broker")
	}
	if s.fires == 1 {
		j.checkPunctual(s)
		if under == nil {
			w.count("fired-direct")
		}
		if s.After > 0 {
			w.count("reused-id-fired")
		}
	} else {
		w.count("fired-twice")
		if s.excuse == "" {
			j.broken("S5", s, "it fires %d times without an excuse", s.fires)
		}
	}
	j.checkFidelity(s, r)
}

// checkPunctual checks L5: as long as nothing has gone wrong, a message is late by one poll at most.
func (j *judge) checkPunctual(s *submitted) {
	const joined = 6 * time.Second // when the group has settled at the latest
	w := j.world
	o := &w.options
	if len(w.fired) > 0 || s.submittedAt < int64(joined) || j.healedAt > 0 {
		return
	}
	due := s.deadline.Sub(epoch())
	if !o.AdaptiveAdvance {
		due -= o.TimingAdvance
	}
	due = max(due, time.Duration(s.submittedAt))
	drift := time.Duration(w.now / 1_000_000 * int64(o.Drift))
	bound := o.PollInterval*11/10 + 20*(o.StoreLatency+o.BrokerLatency) + 2*o.Skew + drift
	if late := time.Duration(w.now) - due; late > bound {
		j.broken("L5", s, "it fires %v late, more than %v, and nothing has gone wrong", late, bound)
	}
}

// checkFidelity checks S6: key, value and the other headers are what was submitted, byte for byte.
func (j *judge) checkFidelity(s *submitted, r *node.Record) {
	if relayed(r) != s.payload {
		j.broken("S6", s, "its key, value or headers have changed: key %q, value %q, headers %q",
			r.Key, r.Value, r.Headers)
	}
}

// relayed digests what a record of an input topic and that of its output topic must have in common.
func relayed(r *node.Record) digest {
	var d digest
	part := func(b []byte) {
		d.bytes(b)
		d.number(uint64(number(b == nil)))
	}
	part(r.Key)
	part(r.Value)
	for _, h := range r.Headers {
		if h.Name != node.HeaderID && h.Name != node.HeaderDeadline {
			d.text(h.Name)
			part(h.Value)
		}
	}
	return d
}
