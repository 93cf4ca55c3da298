package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/sim/check"
	"chronos/sim/proof"
)

// recorder tells package check, the judge, what happens, as events of a history. It sees everything that an outsider
// sees, and the store; from the engine it takes one thing, what it rejects, because nothing else tells that.
type recorder struct {
	world *world
	check *check.Judge
	event check.Event // reused: nobody keeps it

	outputs []string            // where what is submitted may fire
	said    []string            // where the answers of each route go
	records map[recordKey]int   // the submission of each record of an input topic
	replies map[string]int      // the number of each answer, by its headers
	answers int                 // how many there are
	refused map[int]string      // the submissions that the store can never keep, and where they are to fire
	numbers map[uuid.UUID]int   // the submission of each incarnation
	stamps  map[uuid.UUID]int64 // what the store's clock really was when the incarnation was claimed
	held    map[*life]holdings  // the claims that each life was given
	past    map[uuid.UUID]int   // the submission of each instruction that came past Kafka

	restores int // how often the store was set back
}

// holdings are the claims of a life.
type holdings map[heldKey]held

// heldKey names a message among the claims of a life: a submission, or the copy of a rejected record of it, of which
// there is one for each offset.
type heldKey struct {
	number int
	source string
}

// held is a claim of a life: on what, since when at least, by its monotonic clock, in which lineage it was made, and
// what the life had said of lineages by then.
type held struct {
	incarnation uuid.UUID
	since       int64
	lineage     int64
	said        lineages

	// other says that the life held another claim on the submission when it was given this one: on another incarnation,
	// as when a record that replaces is appended twice, or on this one, which a store that was set back has forgotten,
	// or which has expired early because the clock of the store was set:
	//
	//	node 1  holds a claim on x, which is young by its own clock
	//	        the clock of the store is set 3 s forward: the claim has expired
	//	node 1  resets it, as any node may, and asks for claims: x is claimed again, and the answer is on its way
	//	node 1  publishes x under the first claim
	//	node 1  is answered, and publishes x under the second
	//
	// Both may be published, and which of them a record is of nobody can tell: it counts for the later one.
	other bool

	restores int // how often the store had been set back
	settings int // how often its clock had been set

	// claim is what the proof calls it, where somebody follows that; only of one that something is published under.
	claim proof.Element
}

// plain returns what is kept of the claim among those of a life.
func (h *held) plain() held {
	plain := *h
	plain.claim = 0
	return plain
}

// lineages is what a life has said of the lineages of the store.
type lineages struct {
	changes int   // how often it has said that there is another
	lineage int64 // which it has named then
	behind  bool  // the store has forgotten the one that it knows
}

// forgotten reports whether a life says to have forgotten a claim: one of another lineage than it knows now, and every
// one while the store has forgotten that. It publishes none of them any more, except for the dead-letter copy of what
// was being published, and was rejected.
func (h *held) forgotten(now lineages) bool {
	return h.said.behind || h.said != now && (now.behind || h.lineage != now.lineage)
}

func (j *recorder) heldKeyOf(headers []node.Header) heldKey {
	key := heldKey{number: j.number(headers)}
	if key.number >= firstAnswer {
		return key
	}
	for _, h := range headers {
		if h.Name == node.HeaderSourceOffset || h.Name == node.HeaderSourcePartition {
			key.source += string(h.Value) + " "
		}
	}
	return key
}

// heldKey returns the name of the message that a record is of. The copy of one that its topic rejects tells where it
// comes from, and the message does not.
func (j *recorder) heldKey(l *life, r *node.Record) heldKey {
	key := j.heldKeyOf(r.Headers)
	if _, held := j.held[l][key]; !held {
		key.source = ""
	}
	return key
}

// Answers, and the occurrences of series after the first, are submissions that the store makes. Their numbers begin
// here. A series has fewer occurrences than maxOccurrences.
const (
	firstOccurrence = 100_000_000
	maxOccurrences  = 40
	firstAnswer     = 2_000_000_000
)

// recordKey names a record of an input topic, of all that ever stood at its offset.
type recordKey struct {
	partition string
	offset    int64
	epoch     int32
}

// number returns the number of the submission, or of the answer, that headers belong to. Those of an answer name its
// record, and have the time at which it was decided, and so no other has the same. Those of an occurrence have its
// sequence number.
func (j *recorder) number(headers []node.Header) int {
	if n := j.replies[replyKey(headers)]; n > 0 {
		return n
	}
	sequence, err := strconv.Atoi(valueOf(headers, node.HeaderSequence))
	if err != nil {
		sequence = 1
	}
	return occurrenceNumber(numberIn(headers), sequence)
}

// occurrenceNumber returns the number of an occurrence of a series: the first is the submission itself.
func occurrenceNumber(number, sequence int) int {
	if number == 0 || sequence <= 1 {
		return number
	}
	return firstOccurrence + number*maxOccurrences + sequence
}

// replyKey returns what the headers of an answer are, and nothing for those of any other message.
func replyKey(headers []node.Header) string {
	if valueOf(headers, node.HeaderOutcome) == "" {
		return ""
	}
	var key strings.Builder
	for _, h := range headers {
		key.WriteString(h.Name + "=" + string(h.Value) + "\n")
	}
	return key.String()
}

// valueOf returns the value of the first header of that name.
func valueOf(headers []node.Header, name string) string {
	for _, h := range headers {
		if h.Name == name {
			return string(h.Value)
		}
	}
	return ""
}

// newRecorder begins a history.
func newRecorder(w *world) *recorder {
	j := &recorder{
		world:   w,
		check:   check.New(),
		records: map[recordKey]int{},
		replies: map[string]int{},
		refused: map[int]string{},
		numbers: map[uuid.UUID]int{},
		stamps:  map[uuid.UUID]int64{},
		held:    map[*life]holdings{},
		past:    map[uuid.UUID]int{},
	}
	for i := range w.options.Routes {
		route := w.options.route(i)
		for number := range callbacks + 1 {
			j.outputs = append(j.outputs, target(route, number))
		}
		j.said = append(j.said, route.Outcomes)
	}
	config := w.options.judged()
	config.ClockError += w.rateError()
	j.add(check.Event{Kind: check.Configure, Config: &config})
	if w.options.Queues > 0 {
		root := newQueueRows().queues[queue.Root]
		j.add(queueEvent(check.PutQueue, &root))
	}
	return j
}

// add takes an event at this instant. The first invariant that it breaks ends the run.
func (j *recorder) add(e check.Event) {
	w := j.world
	if w.violation != nil || e.Topic == queue.Lane && e.Kind != check.Pause && e.Kind != check.Resume {
		return // what is asked for tasks the judge knows as that, and not as submissions
	}
	j.event = e
	j.event.At = time.Duration(w.now)
	if w.history != nil {
		w.history(&j.event)
	}
	found := j.check.Add(&j.event)
	if len(found) == 0 {
		return
	}
	w.broken(found[0].Invariant, found[0].Detail)
	w.violation.Messages = found[0].Messages
	w.violation.Also = mapped(found[1:], func(v check.Violation) string { return v.Invariant })
}

// sinceEpoch returns an instant as a history has it; the zero time is zero.
func sinceEpoch(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return t.Sub(epoch())
}

func (j *recorder) started(l *life) {
	j.held[l] = holdings{}
	if f := j.world.follow; f != nil {
		f.started(l)
	}
	j.add(check.Event{Kind: check.Start, Node: l.label, Owner: check.UUID(l.node.ID()), Windows: l.itsOwn()})
	if l.host.stepped {
		j.stepped(l.host)
	}
	j.fated(l)
}

// fated tells that a life is cut off for good.
func (j *recorder) fated(l *life) {
	fate := l.host.fate
	if fate == FateNoStore || fate == FateNoNetwork {
		j.add(check.Event{Kind: check.Cut, Node: l.label, Port: "store"})
	}
	if fate == FateNoBroker || fate == FateNoNetwork {
		j.add(check.Event{Kind: check.Cut, Node: l.label, Port: "broker"})
	}
}

func (j *recorder) stopped(l *life) { j.ended(l, check.Stop) }
func (j *recorder) crashed(l *life) { j.ended(l, check.Crash) }

func (j *recorder) ended(l *life, kind check.Kind) {
	delete(j.held, l)
	if f := j.world.follow; f != nil {
		f.ended(l)
	}
	j.add(check.Event{Kind: kind, Node: l.label})
}

// joined and gone tell who is a member of the group. Nobody tells what a zombie believes.
func (j *recorder) joined(m *member) { j.add(check.Event{Kind: check.Join, Node: m.life.label}) }
func (j *recorder) gone(m *member)   { j.add(check.Event{Kind: check.Leave, Node: m.life.label}) }

// stepped tells that the wall clock of a host was set, now or in an earlier life: a process does not set it right.
func (j *recorder) stepped(h *host) {
	h.stepped = true
	if h.life != nil {
		j.add(check.Event{Kind: check.Jump, Node: h.life.label})
	}
}

func (j *recorder) storeStepped() {
	j.world.store.settings++
	j.add(check.Event{Kind: check.Jump, Stamp: sinceEpoch(j.world.store.instant())})
}

func (j *recorder) healed() {
	j.add(check.Event{Kind: check.Heal})
	for _, h := range j.world.hosts[1:] {
		if h.life != nil {
			j.fated(h.life)
		}
	}
}

func (j *recorder) struck(f Fault, l *life) {
	switch f.Kind { // they are events of their own
	case LaneHangs, PartitionHangs, CutPartition, LanePaused, IntakePaused, RowsLocked:
		return
	default:
	}
	e := check.Event{Kind: check.Fault, Text: f.String()}
	if l != nil {
		e.Node = l.label
	}
	switch f.Kind {
	case Stopped:
		e.Kind = check.Term
	case Pause, PauseSent, Suspended:
		e.Until = time.Duration(j.world.now) + f.For
	case Cluttered:
		e.Node, e.Until = "", time.Duration(j.world.now)+f.For
	default:
	}
	j.add(e)
	if lasts := max(f.For, 0); lasts > 0 && e.Kind == check.Fault {
		e.Text += " is over"
		j.world.after(lasts, func() { j.add(e) })
	}
}

// submitted tells of a record on an input topic.
func (j *recorder) submitted(s *Submission, r *node.Record, p *partition, deadline, last time.Time) {
	e := check.Event{
		Kind: check.Submit, Message: s.Number, ID: s.ID, Topic: j.output(s), Deadline: sinceEpoch(deadline),
		Key: keyDigest(r.Key), Partition: p.String(), Offset: r.Offset, Epoch: int(r.LeaderEpoch), Action: s.Action,
		NotAfter: sinceEpoch(last),
	}
	if s.stores() {
		e.Payload = uint64(relayed(r, true))
		e.Every, e.Limit = s.Every, s.Times
	}
	j.records[recordKey{e.Partition, e.Offset, r.LeaderEpoch}] = s.Number
	switch s.Flaw {
	case "":
	case Poison:
		e.Flaw = check.Poison
	case Unstorable:
		j.refused[s.Number] = j.output(s)
		e.Flaw = check.Invalid
	default:
		e.Flaw = check.Invalid
	}
	for _, h := range r.Headers {
		if h.Name == node.HeaderDeadline {
			e.Written = string(h.Value)
		}
	}
	j.add(e)
}

// brought tells of a message that somebody asks to store, by a request that came by HTTP.
func (j *recorder) brought(s *Submission, r *node.Record, deadline, last time.Time) {
	j.add(check.Event{
		Kind: check.Submit, Message: s.Number, ID: s.ID, Topic: j.output(s), Deadline: sinceEpoch(deadline),
		Payload: uint64(relayed(r, true)), Key: keyDigest(r.Key), Action: s.Action, NotAfter: sinceEpoch(last),
		Every: s.Every, Limit: s.Times, Past: true, Flaw: check.Unacknowledged,
	})
}

// output returns the topic on which a submission is to fire.
func (j *recorder) output(s *Submission) string {
	o := &j.world.options
	return target(o.route(s.Route%o.Routes), s.Target)
}

// isOutput reports whether a topic is one on which submissions fire, or answers.
func (j *recorder) isOutput(topic string) bool {
	return slices.Contains(j.outputs, topic) || slices.Contains(j.said, topic)
}

func partitionOf(r *node.Record) string { return fmt.Sprintf("%s/%d", r.Topic, r.Partition) }

// polls tells that a node asks for more records, if it had any.
func (j *recorder) polls(l *life) {
	if l.batch {
		l.batch = false
		j.add(check.Event{Kind: check.Poll, Node: l.label})
	}
}

// polled tells what a poll has returned to a node.
func (j *recorder) polled(l *life, b *node.Batch) {
	for i := range b.Records {
		l.batch = true
		if n := numberIn(b.Records[i].Headers); n > 0 {
			j.add(check.Event{Kind: check.Deliver, Node: l.label, Message: n})
		}
	}
}

// told takes what the engine says of itself: what it rejects, what it has missed, and which calls have failed.
func (j *recorder) told(l *life, e node.Event) {
	switch e := e.(type) {
	case node.Rejected:
		j.add(check.Event{Kind: check.Reject, Node: l.label, Message: numberIn(e.Record.Headers), Text: e.Detail})
	case node.RecordsLost:
		for _, loss := range e.Losses {
			j.add(check.Event{
				Kind: check.Lost, Node: l.label, Partition: j.shard(loss.Partition), Offset: loss.From, To: loss.To,
			})
		}
	case node.LineageChanged:
		l.said = lineages{l.said.changes + 1, e.To, e.To < e.From}
	case node.Failed:
		j.add(check.Event{Kind: check.Error, Node: l.label, Port: string(e.Port), Text: e.Call})
	}
}

// committed tells that the offset of a partition moves.
func (j *recorder) committed(l *life, p *partition) {
	w := j.world
	if w.observe != nil {
		w.step(&Step{
			Kind: StepCommit, Node: l.host.number, Life: l.number,
			Text: fmt.Sprintf("%v up to %d", p, p.committed.Offset),
		})
	}
	j.add(check.Event{
		Kind: check.Commit, Node: l.label, Partition: p.String(), Offset: p.committed.Offset,
		Epoch: int(p.committed.Epoch),
	})
}

// rewound tells that somebody has set the offset of a partition back, or that it has expired.
func (j *recorder) rewound(p *partition) {
	j.add(check.Event{Kind: check.Rewind, Partition: p.String(), Offset: max(p.committed.Offset, 0)})
}

// lowered tells that a commit has set the offset of a partition back: it has come late, or the store was set back, or
// the offset before it was that of a topic of the same name that was deleted.
func (j *recorder) lowered(l *life, p *partition) {
	e := check.Event{Kind: check.Rewind, Node: l.label, Partition: p.String(), Offset: p.committed.Offset}
	e.Epoch = int(p.committed.Epoch)
	j.add(e)
}

// finish ends the history.
func (j *recorder) finish() { j.add(check.Event{Kind: check.End}) }

// publishing tells that publishes begin. It returns for each record the claim that the node holds, or nothing.
func (j *recorder) publishing(l *life, records []node.Record) []held {
	w := j.world
	under := make([]held, len(records))
	mono := l.host.clock.mono(w.now)
	wall := sinceEpoch(l.host.clock.wall(w.now))
	for i := range records {
		e := check.Event{
			Kind: check.Publish, Node: l.label, Message: j.number(records[i].Headers), Topic: records[i].Topic,
			Wall: wall, Mono: time.Duration(mono), Nth: i,
		}
		h, held := j.held[l][j.heldKey(l, &records[i])]
		if !held && w.follow != nil {
			w.follow.unclaimed(l, e.Topic)
		}
		if held && (!h.forgotten(l.said) || !j.isOutput(records[i].Topic)) {
			under[i] = h
			e.Incarnation, e.Age = check.UUID(h.incarnation), time.Duration(mono-h.since)
			if w.follow != nil {
				if h.other {
					w.follow.vague(l, h.incarnation, j.siblings(h.incarnation))
				}
				under[i].claim = w.follow.sent(l, h.incarnation, records[i].Topic, h.other)
			}
		}
		j.add(e)
	}
	return under
}

// outcome takes note of the results that the engine gets for its publishes.
func (j *recorder) outcome(l *life, records []node.Record, results []error, under []held) {
	for i := range records {
		key := j.heldKey(l, &records[i])
		if f := j.world.follow; f != nil && under[i] != (held{}) {
			f.heard(l, under[i], records[i].Topic, results[i])
		}
		switch {
		case results[i] == nil && under[i] != held{} && j.held[l][key] == under[i].plain(): // not anew meanwhile
			if under[i].other {
				under[i].other = false
				j.held[l][key] = under[i].plain()
			} else {
				delete(j.held[l], key)
			}
		case results[i] != nil:
			j.add(check.Event{
				Kind: failure(results[i]), Node: l.label, Message: j.number(records[i].Headers),
				Topic: records[i].Topic, Incarnation: check.UUID(under[i].incarnation), Text: certainty(results[i]),
			})
		}
	}
}

// certainty says why nothing was appended, for certain; "" where nobody knows whether it was.
func certainty(err error) string {
	failed := node.FailureOf(err)
	switch failed.Kind {
	case node.RecordRejected:
		// A callback that is given up has failed once more, and that may have been with its receiver.
		if last, is := errors.AsType[*node.PublishError](failed.Err); is && last.Kind == node.OutcomeUnknown {
			return ""
		}
		return check.Rejected
	case node.TopicMissing:
		return check.Missing
	case node.NotSent, node.PartUnavailable, node.MessageGone:
		return check.Unsent
	case node.OutcomeUnknown, node.Acknowledged:
	}
	return ""
}

func failure(err error) check.Kind {
	if certainty(err) == "" {
		return check.Unknown
	}
	return check.Fail
}

// appending is where a record of a publish comes from.
type appending struct {
	life  *life
	under uuid.UUID // the incarnation, if there was a claim
	claim proof.Element
	twice bool
}

// published tells of a record on an output or dead-letter topic.
func (j *recorder) published(from appending, r *node.Record) {
	n := j.number(r.Headers)
	if f := j.world.follow; f != nil && from.claim != 0 {
		f.appended(from.claim, from.under)
	}
	e := check.Event{
		Kind: check.Fire, Node: from.life.label, Message: n, Topic: r.Topic, Payload: uint64(relayed(r, false)),
		Key: keyDigest(r.Key), Partition: partitionOf(r), Incarnation: check.UUID(from.under), Twice: from.twice,
	}
	if sent := j.world.app.sent[numberIn(r.Headers)]; sent != nil && j.output(sent.submission) != r.Topic {
		e.Kind, e.Text = check.Copy, valueOf(r.Headers, node.HeaderReason)
		if e.Text == string(node.Expired) {
			j.world.count("expired")
		}
	}
	if n >= firstAnswer {
		e.Text, e.Former = valueOf(r.Headers, node.HeaderOutcome), valueOf(r.Headers, node.HeaderFormer) != ""
	}
	j.add(e)
}

// relayed digests what a record of an input topic and that of its output topic must have in common: all but the Chronos
// headers, which are taken off on the way.
func relayed(r *node.Record, input bool) digest {
	var d digest
	part := func(b []byte) {
		d.bytes(b)
		d.number(uint64(number(b == nil)))
	}
	part(r.Key)
	part(r.Value)
	for _, h := range r.Headers {
		if h.Name != node.HeaderSequence && (!input || !node.IsRequest(h.Name)) {
			d.text(h.Name)
			part(h.Value)
		}
	}
	return d
}

// keyDigest digests a key; 0 is for none.
func keyDigest(key []byte) uint64 {
	if key == nil {
		return 0
	}
	var d digest
	d.bytes(key)
	return max(uint64(d), 1)
}

// unstorable reports whether the store can never keep a message. It can keep the dead-letter copy.
func (j *recorder) unstorable(m *node.Message) bool {
	lane, refused := j.refused[numberIn(m.Headers)]
	return refused && lane == m.Lane
}

// shard names a partition of an input topic, as it was when its topic had that id: a node may ask for it after the
// topic was deleted.
func (j *recorder) shard(p node.Partition) string {
	for _, t := range j.world.broker.input {
		if birth := slices.Index(t.ids, p.TopicID); birth >= 0 {
			return t.shard(p.Number, birth+1)
		}
	}
	return ""
}
