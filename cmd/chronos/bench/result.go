package bench

import (
	"time"
)

// Result is what a run has shown. Its JSON is an interface: fields may come, and none changes its meaning.
type Result struct {
	Began   time.Time `json:"began"`
	Took    Millis    `json:"took_ms"`
	Service string    `json:"service,omitempty"` // where it is: brokers and topics
	Machine string    `json:"machine,omitempty"`

	Load   Load    `json:"load"`
	Sent   Sent    `json:"sent"`
	Intake *Intake `json:"intake,omitempty"` // nil if nobody knows
	Fired  Fired   `json:"fired"`

	// After they were due, when they were received and as the records' timestamps say.
	Received *Lateness `json:"received,omitempty"`
	Stamped  *Lateness `json:"stamped,omitempty"`

	Integrity Integrity `json:"integrity"`
	Filled    bool      `json:"filled,omitempty"` // nobody waited for what comes out

	Processes []Process `json:"processes,omitempty"`
	Others    float64   `json:"other_cpus"` // what else the machine did; -1 if not known
	Clocks    []Clock   `json:"clocks,omitempty"`

	Faults  []string `json:"faults"` // what is wrong with what came out
	Notes   []string `json:"notes"`  // what to know before a figure is believed
	Seconds []Second `json:"seconds"`
}

// Sent is what the generator and Kafka made of the load.
type Sent struct {
	Planned      int        `json:"planned"`
	Messages     int        `json:"messages"`
	Acknowledged int        `json:"acknowledged"`
	Refused      int        `json:"refused"` // submissions without an acknowledgement, also of what was sent twice
	Twice        int        `json:"twice"`
	PerSecond    float64    `json:"per_second"`
	Overdue      int        `json:"acknowledged_overdue"`
	Late         *Quantiles `json:"late,omitempty"`        // when it was sent, after its time by the schedule
	Acknowledge  *Quantiles `json:"acknowledge,omitempty"` // how long Kafka took
}

// Intake is how fast the service took submissions in, by the offsets that its consumer group has committed.
type Intake struct {
	Taken     int64   `json:"taken"`
	PerSecond float64 `json:"per_second"` // from the first look that saw any to the one that saw the last
	Took      Millis  `json:"took_ms"`
	Ended     Millis  `json:"ended_ms"` // since the start
}

// Fired is how fast what is measured came out.
type Fired struct {
	Messages         int     `json:"messages"`
	PerSecondStamped float64 `json:"per_second_stamped"` // by the first and the last timestamp
	PerSecond        float64 `json:"per_second"`         // by when the first and the last were received
}

// Lateness is when messages came, after they were due and after their deadline, by one clock.
type Lateness struct {
	// Clock is "receiver", "broker" or "service".
	Clock         string       `json:"clock"`
	AfterDue      *Quantiles   `json:"after_due"`
	AfterDeadline *Quantiles   `json:"after_deadline"`
	Curve         []CurvePoint `json:"curve"`
}

// Integrity is whether all came out, once, and as it went in. It is of all messages, the warm-up included.
type Integrity struct {
	Came     int `json:"came"`
	Missing  int `json:"missing"`          // had not come when the patience was over
	Waiting  int `json:"waiting"`          // had not come when the run was cut short
	Doubled  int `json:"doubled"`          // records beyond the first, of messages that were submitted once
	Repeated int `json:"repeated"`         // of messages that were submitted twice
	Early    int `json:"early"`            // received before they were due, by this machine's clock
	Sooner   int `json:"early_by_broker"`  // appended before they were due, whatever the difference of clocks
	Value    int `json:"damaged_values"`   // records whose value is not what was sent
	Key      int `json:"damaged_keys"`     //
	Header   int `json:"damaged_headers"`  //
	Route    int `json:"wrong_topics"`     //
	Foreign  int `json:"others_on_topics"` // records that are not of this run

	Samples []Sample `json:"samples,omitempty"`
}

// result sums the run up.
func (r *runner) result(load *Load, clocks []Clock, e end) *Result {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	res := &Result{
		Began: l.start, Took: millis(time.Since(l.start)), Load: *load, Clocks: clocks, Seconds: l.seconds,
		Sent: Sent{
			Planned: l.plan.Messages(), Messages: l.sent, Acknowledged: l.acknowledged, Refused: l.refused,
			Twice: l.repeats, PerSecond: rate(l.sent, l.lastSent.Sub(l.firstSent)), Overdue: l.overdue,
			Late: l.sendLate.quantiles(), Acknowledge: l.ack.quantiles(),
		},
		Intake: r.intake.sum(l.start),
		Fired: Fired{
			Messages: l.measured, PerSecondStamped: rate(l.measured, l.lastStamp.Sub(l.firstStamp)),
			PerSecond: rate(l.measured, l.lastCame.Sub(l.firstCame)),
		},
		Integrity: Integrity{
			Came: l.came, Doubled: l.doubled, Repeated: l.repeated, Foreign: l.foreign,
			Early: int(l.received.earlierThan(0)), Value: l.damaged.Value, Key: l.damaged.Key,
			Header: l.damaged.Header, Route: l.damaged.Route,
		},
	}
	switch {
	case r.Fill:
	case e.interrupted || e.limited:
		res.Integrity.Waiting = l.open
	default:
		res.Integrity.Missing = l.missing()
	}
	res.Integrity.Samples = l.samples
	res.Processes, res.Others = r.usage.sum(l.sent)
	res.Received = lateness("receiver", l.received, load.Advance)
	stamps := "service"
	if l.stamped > 0 && l.byBroker == l.stamped {
		stamps = "broker"
		if len(clocks) > 0 {
			res.Integrity.Sooner = int(l.appended.earlierThan(max(time.Millisecond-lowest(clocks), 0)))
		}
	}
	res.Stamped = lateness(stamps, l.appended, load.Advance)
	r.judge(res, e, l.refusal)
	return res
}

// lowest returns how far ahead of this machine's clock each broker's is at least. A timestamp is cut to milliseconds,
// so that what it says may be a millisecond early even then.
func lowest(clocks []Clock) time.Duration {
	low := clocks[0].Low
	for _, c := range clocks {
		low = min(low, c.Low)
	}
	return low.Duration()
}

func lateness(clock string, s *signed, advance time.Duration) *Lateness {
	q := s.quantiles()
	if q == nil {
		return nil
	}
	return &Lateness{Clock: clock, AfterDue: q, AfterDeadline: q.later(-advance), Curve: s.curve()}
}

// rate returns how many a second count in some time are; 0 where that can't be told.
func rate(count int, in time.Duration) float64 {
	if in <= 0 {
		return 0
	}
	return float64(count) / in.Seconds()
}

// sum returns what is known of the intake; nil if nothing is.
func (n *intake) sum(start time.Time) *Intake {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.known {
		return nil
	}
	sum := &Intake{Taken: n.lastSeen}
	if !n.ended.IsZero() {
		sum.Took, sum.Ended = millis(n.ended.Sub(n.begun)), millis(n.ended.Sub(start))
		sum.PerSecond = rate(int(n.lastSeen-n.first), n.ended.Sub(n.begun))
	}
	return sum
}
