package node

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node/calendar"
)

// Recurrence says which occurrence of a series a message is; the zero value for a message that comes out once.
type Recurrence struct {
	// Series is what recurs, as calendar.Series writes it.
	Series string

	// Sequence counts the instants of the series, from 1.
	Sequence int64

	// At is the instant of the series, from which the next one follows. The deadline is the same, unless somebody has
	// moved it: UTC, whole microseconds.
	At time.Time
}

// Recurs reports whether the message is an occurrence of a series.
func (r *Recurrence) Recurs() bool { return r.Series != "" }

// Next is the occurrence that takes the place of one that is settled: the same content under another incarnation.
type Next struct {
	// Of is the occurrence that is settled.
	Of Ref

	// Incarnation is that of the next occurrence, Sequence its number, and At its instant and deadline. They are zero
	// where none follows: the series has ended, and the message is removed.
	Incarnation uuid.UUID
	Sequence    int64
	At          time.Time

	// Passed is how many occurrences are passed over, Of and those after it: 0 where it was published.
	Passed int64

	// Missed is the claim under which the occurrence is passed over; the zero value where it was published. It is
	// settled unless somebody has been told that it comes out. Otherwise this would happen:
	//
	//	A claims x, which was missed long ago
	//	                  cancel x, or fire it: too_late, it comes out as it is
	//	A settles x, and it has not come out
	Missed Claim
}

// PassesOver reports whether the occurrence is settled although it was not published.
func (n *Next) PassesOver() bool { return n.Missed != Claim{} }

// Ends reports whether no occurrence follows.
func (n *Next) Ends() bool { return n.Incarnation == uuid.Nil }

// Removes reports whether the message is removed, whatever its row says: it was published, and no occurrence follows.
func (n *Next) Removes() bool { return n.Ends() && !n.PassesOver() }

// Removals returns the argument of Store.Settle that removes messages.
func Removals(refs ...Ref) []Next {
	next := make([]Next, len(refs))
	for i, ref := range refs {
		next[i].Of = ref
	}
	return next
}

// Settle says what becomes of an occurrence that the store keeps as before, or not at all (nil), and of a message that
// comes out once, whose Next has nothing but Of. It is for the store to decide, on the row: a node may not have heard
// of a cancel.
func (n *Next) Settle(before *Kept) Settled {
	switch {
	case before == nil || before.Incarnation != n.Of.Incarnation:
		return Gone
	case n.PassesOver() && before.Bound:
		return Promised
	case n.Ends() || before.Stopped:
		return Removed
	}
	return Rearmed
}

// Settled is what became of a Next, or of a Release.
type Settled int

// What becomes of a Next, or of a Release.
const (
	// Gone: there is no message of the incarnation any more, or, of a Release, no such claim.
	Gone Settled = iota

	// Removed: the message is removed, because no occurrence follows, or because the series was stopped meanwhile.
	Removed

	// Rearmed: the message waits for its next occurrence.
	Rearmed

	// Promised: the message stays as it is, because it was to be passed over, and is bound to come out.
	Promised

	// Freed: the message waits again, and the claim is given up.
	Freed

	// Busy: another session has the row locked for longer than a moment, and nothing happened to it. The caller
	// repeats it later.
	Busy
)

// errSeries says that a series cannot be read here, by this release, or with the time zones of this machine.
var errSeries = errors.New("the series cannot be read")

// recur says what takes the place of an occurrence that is due, and whether it does so at once: the occurrence was
// missed then, and is not to be published by the policy of its series. Otherwise that comes once it is published.
//
// It is all that is asked of a series, before the publish, and so nothing can go wrong with it afterwards: somebody who
// has published an occurrence and cannot say which one is next would have to publish it again, or end the series.
//
// Most is Limits.MaxMissed. The incarnation is drawn by the caller. The error is NotSent.
func recur(m *Ready, now time.Time, most int, incarnation uuid.UUID) (next Next, missed bool, err error) {
	series, err := calendar.Parse(m.Series)
	if err != nil {
		return Next{}, false, fmt.Errorf("%w: %w: %w", NotSent, errSeries, err)
	}
	// How late it is, its deadline says, which somebody may have moved, and what follows, its instant. It comes out
	// whatever the policy is if somebody was told that it does, or wants it before its instant.
	due, v := calendar.Occurrence{Sequence: m.Sequence, At: m.At}, calendar.Verdict{Action: calendar.Publish}
	if !m.Bound && !m.Deadline.Before(m.At) && now.Sub(m.Deadline) > calendar.Tolerance {
		v = series.Judge(due, now, calendar.Tolerance, int64(most))
	}
	o, more := v.Next, v.Action == calendar.PassOver
	if v.Action == calendar.Publish {
		o, more = series.Following(due)
	}
	next.Of = m.Ref()
	if v.Action != calendar.Publish {
		next.Missed, next.Passed = m.Claim, v.Passed
	}
	if more {
		next.Incarnation, next.Sequence, next.At = incarnation, o.Sequence, o.At
	}
	return next, v.Action != calendar.Publish, nil
}

// recurring returns the headers of an occurrence: those of the message, with its number, and its own deadline where the
// deadline is relayed.
func recurring(m *Message) []Header {
	headers := slices.Clone(m.Headers)
	for i := range headers {
		if headers[i].Name == HeaderDeadline {
			headers[i].Value = []byte(headerTime(m.Deadline))
		}
	}
	return append(headers, Header{HeaderSequence, strconv.AppendInt(nil, m.Sequence, 10)})
}

// decodeSeries reads what a record asks to be repeated. First is its deadline, if it has one.
func (in *instruction) decodeSeries(c *Config, h *requested, r Record, first time.Time) *rejection {
	words := calendar.Words{First: first, Asked: r.Timestamp}
	given := ""
	for _, header := range []struct {
		name string
		word *string
	}{
		{HeaderRepeat, &words.Repeat},
		{HeaderRepeatZone, &words.Zone},
		{HeaderRepeatCount, &words.Count},
		{HeaderMissed, &words.Missed},
	} {
		value, found := h.get(header.name)
		if !found {
			continue
		}
		if *header.word = string(value); *header.word == "" {
			return &rejection{InvalidRepeat, "the header " + header.name + " is empty", header.name}
		}
		given = cmp.Or(given, header.name)
	}
	until, found := h.get(HeaderRepeatUntil)
	if found {
		given = cmp.Or(given, HeaderRepeatUntil)
	}
	switch {
	case given == "":
		return nil
	case h.count(HeaderRepeat) == 0:
		none := missing(InvalidRepeat, r.Headers, HeaderRepeat)
		none.detail = "there is a header " + given + ", and " + strings.TrimPrefix(none.detail, "there is ")
		return none
	case !in.action.Stores():
		return &rejection{
			InvalidRepeat, fmt.Sprintf("there is a header %s, which %s does not take", given, in.action), given,
		}
	case h.count(HeaderNotAfter) > 0:
		return &rejection{InvalidNotAfter, fmt.Sprintf("there are headers %s and %s: a series ends by %s",
			HeaderNotAfter, HeaderRepeat, HeaderRepeatUntil), HeaderNotAfter}
	case first.IsZero() && noBase(&r) != nil:
		value, _ := h.get(HeaderRepeat)
		return wrong(InvalidRepeat, HeaderRepeat, value, noBase(&r))
	}
	if found {
		var err error
		words.Until, err = c.instant(until)
		if err == nil && words.Until.IsZero() { // which is how package calendar is told of none
			err = errors.New("it is before everything")
		}
		if err != nil {
			return wrong(InvalidUntil, HeaderRepeatUntil, until, err)
		}
	}
	series, err := calendar.New(words)
	if bad, is := errors.AsType[*calendar.SeriesError](err); is {
		name := seriesHeader(bad.Part)
		value, _ := h.get(name)
		return wrong(Reason(bad.Reason), name, value, bad.Why)
	}
	assert(err == nil, "a series: %v", err)
	occurrence := series.First()
	in.message.Deadline = occurrence.At
	in.message.Recurrence = Recurrence{series.String(), occurrence.Sequence, occurrence.At}
	return nil
}

// seriesHeader returns the header that a part of a series comes from.
func seriesHeader(part calendar.Part) string {
	switch part {
	case calendar.PartZone:
		return HeaderRepeatZone
	case calendar.PartCount:
		return HeaderRepeatCount
	case calendar.PartUntil:
		return HeaderRepeatUntil
	case calendar.PartMissed:
		return HeaderMissed
	default:
		return HeaderRepeat
	}
}
