package bench

import (
	"fmt"
	"time"
)

// Passed reports whether everything came out, once, not early, and as it went in.
func (r *Result) Passed() bool { return len(r.Faults) == 0 }

// judge says what is wrong with the service, and what to know about the measurement.
func (r *runner) judge(res *Result, e end, refusal error) {
	res.Faults, res.Notes = []string{}, []string{}
	res.faults(r.Patience)
	res.doubts(e, refusal)
	switch {
	case r.intake.failed != nil:
		res.note("What the service takes in was not measured to the end: %v.", r.intake.failed)
	case res.Intake != nil && res.Intake.Taken == 0:
		res.note("The group has committed nothing on the input topics: is --group the one of the service?")
	}
	if r.usage.failed != nil {
		res.note("What the processes use was not measured to the end: %v.", r.usage.failed)
	}
	if res.Filled = r.Fill; r.Fill {
		res.note("Nobody waited for what comes out: this run was to fill the service.")
	}
}

// fault adds what is wrong with what came out.
func (r *Result) fault(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// note adds what to know before a figure is believed.
func (r *Result) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

func (r *Result) faults(patience time.Duration) {
	in := &r.Integrity
	for _, f := range []struct {
		count int
		what  string
	}{
		{in.Missing, fmt.Sprintf("had not come %v after the last was due", patience)},
		{in.Doubled, "came again, though submitted once"},
		{in.Repeated, "came again that were submitted twice, one right after the other"},
		{in.Early, "were received before they were due, by this machine's clock"},
		{in.Sooner, "were appended before they were due, whatever the difference between the clocks"},
		{in.Value, "came with another value"},
		{in.Key, "came with another key"},
		{in.Header, "came with another header, or without it"},
		{in.Route, "came on the topic of another route"},
	} {
		if f.count > 0 {
			r.fault("%d %s", f.count, f.what)
		}
	}
}

// Where a measurement begins to say more about the generator and the machine than about the service.
const (
	lateSender = 100 * time.Millisecond // at p99
	shortRate  = 0.98                   // of what was asked for
	busyOthers = 0.2                    // CPUs
)

// doubts says what to know before a figure is believed.
func (r *Result) doubts(e end, refusal error) {
	s := &r.Sent
	switch {
	case e.interrupted:
		r.note("The run was interrupted. %d messages had not come by then: how late they would be, nobody knows.",
			r.Integrity.Waiting)
	case e.limited:
		r.note("The run was ended by --max-time. %d messages had not come by then: how late they would be, nobody "+
			"knows.", r.Integrity.Waiting)
	}
	if s.Messages < s.Planned {
		r.note("%d of %d messages were sent.", s.Messages, s.Planned)
	}
	if s.Refused > 0 {
		r.note("Kafka has not acknowledged %d submissions, which do not count as missing: %v.", s.Refused, refusal)
	}
	if !r.KeptUp() {
		r.note("The load was not what was asked for: %.0f messages/s were sent, one in a hundred more than %.0f ms "+
			"late. This machine or Kafka is the limit here, not the service.", s.PerSecond, s.Late.P99)
	}
	if s.Overdue > 0 {
		r.note("Kafka acknowledged %d messages when they were due already: their lateness is not the service's alone.",
			s.Overdue)
	}
	if in := r.Intake; in != nil && r.Load.Shape == Burst && in.Ended.Duration() > r.Load.Lead-r.Load.Advance {
		r.note("The burst was due before all of it was taken in: the figures of firing are of both. Raise --in.")
	}
	if r.Others > busyOthers {
		r.note("Processes that this run knows nothing about used %.1f CPUs of this machine meanwhile: its figures are "+
			"those of a machine that is not quiet.", r.Others)
	}
	if q := r.Received; q != nil && r.Load.Advance > 0 && q.AfterDeadline.Min >= 0 {
		r.note("Nothing came before its deadline. If the service has no timing advance, say --advance 0.")
	}
	r.clockNotes(e)
	if q := r.Received; q != nil && q.AfterDue.Count < 10_000 {
		r.note("Of %d messages, p99.99 is the latest one, and p99.9 one of the few latest: measure more for those.",
			q.AfterDue.Count)
	}
}

// clockNotes says what is known of the clocks.
func (r *Result) clockNotes(e end) {
	if e.clocks != nil {
		r.note("How the brokers' clocks differ from this machine's could not be measured: %v.", e.clocks)
	}
	if r.Stamped == nil {
		return
	}
	switch {
	case r.Stamped.Clock == "service":
		r.note("The timestamps of the output are the service's, not Kafka's: set message.timestamp.type to " +
			"LogAppendTime on the output topic to see when a record was appended.")
	case len(r.Clocks) == 0:
		r.note("How the brokers' clocks differ from this machine's is not known, so that \"by Kafka's clock\" " +
			"may be off by that: with message.timestamp.type LogAppendTime on the input topic it can be measured.")
	}
}

// KeptUp reports whether the load was what was asked for: sent in time and at its rate.
func (r *Result) KeptUp() bool {
	s := &r.Sent
	if r.Load.Shape == Burst && r.Load.Rate == 0 || s.Late == nil {
		return true
	}
	short := r.Load.Shape == Steady && s.Messages == s.Planned && s.Messages > 1 && s.PerSecond < shortRate*r.Load.Rate
	return !short && s.Late.P99.Duration() <= lateSender
}
