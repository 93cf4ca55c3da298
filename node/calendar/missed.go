package calendar

import "time"

// Tolerance is how late an occurrence may be without having been missed, if nobody says otherwise. It is longer than it
// takes other nodes to notice that one has died, and a server to start again, so that neither costs the report
// of the day; and so long that an interval of a second does not outrun a slow store.
const Tolerance = time.Minute

// Action is what to do with an occurrence that is due.
type Action string

// The actions.
const (
	Publish  Action = "publish"
	PassOver Action = "pass_over" // put another one in its place, unpublished
	End      Action = "end"       // remove it, unpublished: no other one comes
)

// Verdict is what becomes of an occurrence that is due.
type Verdict struct {
	Action Action
	Passed int64      // how many are passed over, from the one that is due on; 0 if it is to be published
	Next   Occurrence // what takes its place, if the action is PassOver; it may be due as well
}

// Judge says, by the policy of the series, what to do with the occurrence due, which nobody has published yet.
//
// An occurrence has been missed if it is late by more than tolerance. One that has not is published, whatever the
// policy: a late second is no outage. If it has been missed:
//
//   - all publishes it, and so each in turn, as fast as they can be published. If most is not 0, only the latest most
//     of those that are due are published: the first of these takes the place of the one that is due.
//   - one publishes it if no later one is due; otherwise the latest that is due takes its place.
//   - skip lets the latest that is due take its place if that has not been missed; otherwise the first that is not due
//     yet, and if there is none the series ends.
//
// What is passed over keeps its number: a gap in the sequence numbers is what a consumer sees of it, and it counts
// for the end by count as if it had come out.
//
// An occurrence that takes another's place has to be judged again when it is claimed. It is published at the latest
// when storing, claiming and judging take less than half the tolerance, however short the interval is.
//
// The work is bounded by the outage, not by what was missed: nothing for an interval, and for a cron expression three
// steps for each month and each change of clocks in it. That is 0.4 ms for one since 1970.
func (s *Series) Judge(due Occurrence, now time.Time, tolerance time.Duration, most int64) Verdict {
	all := s.missed == MissedAll
	if all && most == 0 || now.Sub(due.At) <= tolerance {
		return Verdict{Action: Publish}
	}
	at, upTo := due.At.UnixMicro(), now.UnixMicro()
	total := s.passed(at, upTo)
	later := max(0, min(total, s.count-due.Sequence))
	after := func(n int64) Occurrence {
		return Occurrence{due.Sequence + n, time.UnixMicro(s.nth(at, upTo, n)).UTC()}
	}
	latest := due
	if later > 0 && !all {
		latest = after(later)
	}
	switch {
	case all && later < most:
		return Verdict{Action: Publish}
	case all:
		over := later - most + 1
		return Verdict{PassOver, over, after(over)}
	case s.missed == MissedOne && later == 0:
		return Verdict{Action: Publish}
	case s.missed == MissedOne || now.Sub(latest.At) <= tolerance:
		return Verdict{PassOver, later, latest}
	}
	next, found := s.Following(latest)
	if !found {
		return Verdict{Action: End, Passed: later + 1}
	}
	return Verdict{PassOver, later + 1, next}
}
