package node

import (
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Action is what a record asks for.
type Action int

// The actions. All but Pass are instructions, which the header chronosAction names.
const (
	// Pass: nothing; the record was dealt with otherwise, or is none of ours. The position moves behind it.
	Pass Action = iota

	// Schedule: store the message, unless one of its id and lane waits or is ready.
	Schedule

	// Replace: store the message in place of the one of its id and lane, whatever has become of that.
	Replace

	// Reschedule: give the message that waits another deadline. Its key, value and headers stay.
	Reschedule

	// Cancel: remove the message that waits.
	Cancel

	// FireNow: let the message that waits come out now.
	FireNow
)

// String returns the action as the header chronosAction names it.
func (a Action) String() string {
	switch a {
	case Schedule:
		return "schedule"
	case Replace:
		return "replace"
	case Reschedule:
		return "reschedule"
	case Cancel:
		return "cancel"
	case FireNow:
		return "fire"
	case Pass:
	}
	return "pass"
}

// Stores reports whether the action brings a message with it that may be stored.
func (a Action) Stores() bool { return a == Schedule || a == Replace }

// Outcome is what became of a record.
type Outcome int

// The outcomes of a take.
const (
	// Skipped: the record was taken in before, whatever its action was, and its message is not in the store (any
	// more) under the incarnation of the request.
	Skipped Outcome = iota + 1

	// Passed: the action was Pass, and this call has taken the record in.
	Passed

	// Scheduled: the message is stored, by this call or by an earlier one with the same incarnation. A record that was
	// taken in before has this outcome, too, so that a repeated take answers as the first one did. So has a Replace
	// that found nothing to replace.
	Scheduled

	// Duplicate: another incarnation of the same id and lane waits or is ready, or came earlier in the request. To
	// people that is "ignored".
	Duplicate

	// Untaken: its partition was refused; or it stands in none (NoPlace), and nothing is taken in now.
	Untaken

	// Replaced: the message is stored in place of another one.
	Replaced

	// Rescheduled: the message that waits has another deadline.
	Rescheduled

	// Cancelled: the message that waited is gone, and does not come out.
	Cancelled

	// FiredNow: the message that waited is due, and comes out. To people that is "fired".
	FiredNow

	// TooLate: the message comes out as it is, unless a later Replace takes it over: it is claimed, or was and may
	// have been published.
	TooLate

	// Stopped: the message is an occurrence of a series that comes out, or may have; none comes after it.
	Stopped

	// NotFound: no message of the id and lane waits or is ready, or none of the incarnation that Item.Only names. It
	// has come out, or there never was one.
	NotFound

	// Blocked: it cannot be decided at present, and nothing was done for the item: another session has the row of the
	// message locked, or is inserting one of its name, or has the row of the partition locked; or callbacks of an
	// earlier lineage may be under way on its lane (State.HoldingCalls). The caller repeats it later.
	Blocked
)

// OutcomeRejected is the value of the header chronosOutcome where the record was no valid instruction.
const OutcomeRejected = "rejected"

// String returns the outcome as the header chronosOutcome names it, and nothing for one that nobody is told of.
func (o Outcome) String() string {
	switch o {
	case Scheduled:
		return "scheduled"
	case Duplicate:
		return "ignored"
	case Replaced:
		return "replaced"
	case Rescheduled:
		return "rescheduled"
	case Cancelled:
		return "cancelled"
	case FiredNow:
		return "fired"
	case TooLate:
		return "too_late"
	case Stopped:
		return "stopped"
	case NotFound:
		return "not_found"
	case Skipped, Passed, Untaken, Blocked:
	}
	return ""
}

// ParseOutcome returns the outcome of which a word is the String.
func ParseOutcome(word string) (Outcome, error) {
	for o := Skipped; o <= NotFound; o++ {
		if word != "" && o.String() == word {
			return o, nil
		}
	}
	return 0, fmt.Errorf("there is no outcome %q", word)
}

// Kept is what a store keeps of a message beside its content, as far as instructions are decided on it.
type Kept struct {
	Incarnation uuid.UUID

	// Deadline is that of the message, and Due when it falls due.
	Deadline, Due time.Time

	// Claimed says that some node holds it, and Attempts how many claims on this incarnation may have led to a
	// publish, that of now included.
	Claimed  bool
	Attempts int

	// Bound says that an outcome was given that says that the message comes out: TooLate, Stopped or FiredNow. It does.
	// Giving a claim back does not clear it; otherwise this would happen:
	//
	//	A claims x
	//	                  cancel x: too_late
	//	A gives x back, unsent
	//	                  cancel x: cancelled, although it was promised to come out
	Bound bool

	// Sequence is the number of the occurrence, of a series; 0 if it is none. Stopped says that no other one follows.
	Sequence int64
	Stopped  bool

	// Former says that content which this message has replaced may still come out.
	Former bool
}

// free reports whether the message can be kept from coming out as it is: nobody has been in a position to publish it.
func (k *Kept) free() bool { return !k.Claimed && k.Attempts == 0 && !k.Bound }

// Verdict is what becomes of an instruction.
type Verdict struct {
	Outcome Outcome

	// Before and After are what the store has kept of the message and is to keep from now on, unclaimed if it is
	// another incarnation; nil for nothing.
	Before, After *Kept

	// Brings says that key, value and headers are those of the item from now on. Otherwise they stay as they are.
	Brings bool
}

// Decide says what becomes of an instruction whose message the store keeps as before, or not at all (nil). It is the
// table of docs/ALGORITHM.md, and the one place where it stands in code. The store calls it under the lock of the row,
// in the order of the items, each with what the ones before it have left, and gives no claim before the last: what an
// earlier item of the same take has brought is in nobody's hands yet.
func (i *Item) Decide(before *Kept) Verdict {
	v := Verdict{Before: before, After: before}
	switch {
	case i.Action == Pass:
		v.Outcome = Passed
	case before == nil && (i.Only != uuid.Nil || !i.Action.Stores()):
		v.Outcome = NotFound
	case before == nil:
		v.Outcome, v.After, v.Brings = Scheduled, i.fresh(), true
	case i.Action.Stores() && before.Incarnation == i.Incarnation:
		v.Outcome = Scheduled
	case i.Only != uuid.Nil && before.Incarnation != i.Only:
		v.Outcome = NotFound
	case i.Action == Schedule:
		v.Outcome = Duplicate
	case i.Action == Replace:
		v.Outcome, v.After, v.Brings = Replaced, i.fresh(), true
		v.After.Former = before.Former || before.Claimed || before.Attempts > 0
	case !before.free() && i.Action == Cancel && before.Sequence > 0:
		stopped := *before
		stopped.Stopped, stopped.Bound = true, true // it is named as the last one: a later cancel must not take it back
		v.Outcome, v.After = Stopped, &stopped
	case !before.free():
		bound := *before
		bound.Bound = true
		v.Outcome, v.After = TooLate, &bound
	case i.Action == Cancel:
		v.Outcome, v.After = Cancelled, nil
	case i.Action == Reschedule:
		v.Outcome, v.After = Rescheduled, i.moved(before)
	default: // FireNow
		v.Outcome, v.After = FiredNow, i.moved(before)
		v.After.Bound = true
		if before.Deadline.Before(v.After.Deadline) {
			v.After.Deadline = before.Deadline // it is overdue
		}
		if before.Due.Before(v.After.Due) {
			v.After.Due = before.Due // and keeps its place before what has fallen due since
		}
	}
	return v
}

// fresh returns what is kept of the incarnation that an item brings.
func (i *Item) fresh() *Kept {
	deadline := i.Deadline.UTC().Truncate(time.Microsecond)
	return &Kept{Incarnation: i.Incarnation, Deadline: deadline, Due: deadline, Sequence: i.Sequence}
}

// Moved returns the incarnation of a message that the item has given another time: it is made of the one before and of
// the item's own. The item's alone would not do. If it is decided once more, because the store was set back, it may
// meet another message of its id and lane, and two messages with one incarnation are one to whoever deletes:
//
//	A takes in: reschedule x             x1 waits, and is i now
//	A claims and publishes x1, i
//	                                     the store is set back, to where x2 waits
//	B takes in: reschedule x             x2 waits, and would be i now
//	A deletes i, which was published     x2 is gone, and never comes out
func (i *Item) Moved(before uuid.UUID) uuid.UUID { return uuid.NewSHA1(before, i.Incarnation[:]) }

// moved returns what is kept of a message that is due at another time.
func (i *Item) moved(before *Kept) *Kept {
	after := i.fresh()
	after.Incarnation = i.Moved(before.Incarnation)
	after.Former, after.Sequence, after.Stopped = before.Former, before.Sequence, before.Stopped
	return after
}

// Answer says whom to tell of the outcome of an instruction: the message is what is published, due at once, as far as
// the store need not decide. It is stored by the take that decides, so that there is an outcome exactly where there is
// an effect.
type Answer struct {
	Message

	// Rejected says that the record was no valid instruction: its action is none, or that of the copy for the
	// dead-letter topic.
	Rejected bool

	// Opens is when the lane of the message opens, if it is closed when the record is taken in; zero otherwise. Who
	// asks for something sooner is told: it waits until then.
	Opens time.Time
}

// Ref returns the reference of the message that tells of an outcome in a lineage of the store. Each lineage has its
// own: what one has answered is to come out, even if the next one decides otherwise.
func (a *Answer) Ref(lineage int64) Ref {
	number := strconv.FormatInt(lineage, 10)
	return Ref{ID: a.ID + "/" + number, Lane: a.Lane, Incarnation: uuid.NewSHA1(a.Incarnation, []byte(number))}
}

// Reply returns the message that tells of a verdict on the item in a lineage of the store, and whether anybody is told.
// A message that is stored under its id and lane already stays, as with Schedule.
func (i *Item) Reply(v Verdict, lineage int64) (Message, bool) {
	if i.Answer == nil {
		return Message{}, false
	}
	m := i.Answer.Message
	ref := i.Answer.Ref(lineage)
	m.ID, m.Incarnation = ref.ID, ref.Incarnation
	outcome := v.Outcome.String()
	if i.Answer.Rejected {
		outcome = OutcomeRejected
	}
	if i.Answer.Rejected || v.Outcome == NotFound {
		v.Before, v.After = nil, nil // what is stored is none of what was asked about
	}
	headers := append([]Header(nil), m.Headers...)
	add := func(name, value string) { headers = append(headers, Header{name, []byte(value)}) }
	add(HeaderOutcome, outcome)
	if v.After != nil {
		add(HeaderDeadline, headerTime(v.After.Deadline))
	}
	if v.Before != nil && (v.After == nil || !v.After.Deadline.Equal(v.Before.Deadline)) {
		add(HeaderFormerDeadline, headerTime(v.Before.Deadline))
	}
	if v.Before != nil && v.Before.Former || v.After != nil && v.After.Former {
		add(HeaderFormer, "may appear")
	}
	if v.Before != nil && v.Before.Sequence > 0 && (v.Outcome == Cancelled || v.Outcome == Stopped) {
		add(HeaderSequence, strconv.FormatInt(v.Before.Sequence, 10))
	}
	if v.After != nil && i.Answer.Opens.After(v.After.Deadline) {
		add(HeaderOpens, headerTime(i.Answer.Opens))
	}
	add(HeaderLineage, strconv.FormatInt(lineage, 10))
	m.Headers = headers
	return m, true
}

// headerTime writes an instant as headers have it: in microseconds, as a store keeps it.
func headerTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// answer prepares what tells of the outcome of a record, on the outcome topic of its route.
func answer(p Partition, r Record, id, action, topic string, now time.Time) *Answer {
	now = now.UTC().Truncate(time.Microsecond)
	a := &Answer{Message: Message{
		ID:       derivedID("outcome", p, r),
		Lane:     topic,
		Deadline: now,
		Origin:   origin(r),
		Key:      r.Key,
		Headers: append([]Header{{HeaderID, []byte(id)}, {HeaderAction, []byte(action)}},
			append(sourceHeaders(origin(r)), Header{HeaderOutcomeAt, []byte(headerTime(now))})...),
	}}
	if a.Size() > MaxMessageBytes-maxReplyBytes {
		a.Key = nil // a record of nothing but a key that is as large as can be
	}
	return a
}

// maxReplyBytes is more than the headers that Reply adds.
const maxReplyBytes = 1 << 10

// derivedID gives what Chronos itself makes of a record an id, the same at each redelivery. Another record that comes
// to stand at the same offset, after Kafka has lost the end of a log or in a topic that was created again, has another.
func derivedID(kind string, p Partition, r Record) string {
	name := fmt.Sprintf("%s/%s/%d/%d/%d", p.Topic, p.TopicID, p.Number, r.LeaderEpoch, r.Offset)
	return internalID(kind + "/" + name)
}
