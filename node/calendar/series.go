package calendar

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// MinInterval is the shortest interval of a series. Each occurrence is a transaction of the store, and one message
	// must not keep it busy; a second is also the finest that cron knows.
	MinInterval = time.Second

	// MaxRuleBytes is the greatest length of a rule. What people write is a tenth of it.
	MaxRuleBytes = 256

	// MaxCount is the greatest number of occurrences that can be asked for.
	MaxCount = 1_000_000_000_000
)

// Policy says what becomes of occurrences that were missed, because the service was down or could not publish. See
// Series.Judge.
type Policy string

// The policies.
const (
	MissedOne  Policy = "one"  // the latest comes out, then on time again
	MissedAll  Policy = "all"  // all come out, one after the other
	MissedSkip Policy = "skip" // none comes out; then on time again
)

// Words are what somebody asks for. Empty words, and instants that are zero, were not given.
type Words struct {
	Repeat string // such as "every 20s", "30 9 * * mon-fri" or "@daily"
	Zone   string // an IANA name, for a cron expression; UTC if not given
	Count  string // after so many occurrences it ends
	Missed string // a Policy; MissedOne if not given
	Until  time.Time

	// First is the first occurrence. If it is not given, the first is the first match of a cron expression not before
	// Asked, or one interval after Asked.
	First time.Time
	Asked time.Time // when it was asked for: the timestamp of the record

	stored bool // it was taken in before, and must be read, whatever is refused by now
}

// Series is what recurs. It does not change, so that several goroutines may ask it at once.
type Series struct {
	every  int64 // microseconds; 0 if cron says when
	rule   string
	zoned  zoned
	first  int64 // microseconds since 1970, as all instants here: the store has no finer ones
	until  int64 // the last instant at which something may come
	count  int64 // math.MaxInt64 if it has no end
	missed Policy
}

// Occurrence is one firing of a series. Sequence counts instants from 1, not publishes.
type Occurrence struct {
	Sequence int64
	At       time.Time
}

// lastInstant is the last microsecond of the year 9999.
func lastInstant() int64 { return time.Date(lastYear+1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro() - 1 }

// New makes a series of what somebody asks for, or says, as a SeriesError, why it is none.
func New(w Words) (*Series, error) {
	s := &Series{until: lastInstant(), count: math.MaxInt64, missed: MissedOne}
	if err := s.read(w); err != nil {
		return nil, err
	}
	if !w.Until.IsZero() {
		s.until = min(s.until, w.Until.UnixMicro())
	}
	switch asked := roundUp(w.Asked); {
	case !w.First.IsZero():
		s.first = roundUp(w.First)
	case s.every > 0:
		s.first = asked + s.every
	default:
		s.first = math.MaxInt64
		if first, found := s.zoned.next(ceilSecond(asked)); found {
			s.first = first * 1e6
		}
	}
	switch {
	case s.first > lastInstant():
		return nil, refuse(RepeatNever, PartRepeat, "it does not come before the year 10000")
	case s.first > s.until:
		return nil, refuse(UntilBeforeFirst, PartUntil,
			"it is before the first occurrence, which is at %s", instant(s.first))
	}
	return s, nil
}

// read reads everything except the instants.
func (s *Series) read(w Words) *SeriesError {
	var err *SeriesError
	if s.zoned.zone, err = zone(w.Zone); err != nil {
		return err
	}
	if err := s.readRule(w.Repeat, w.Zone, w.stored); err != nil {
		return err
	}
	if w.Count != "" {
		n, err := strconv.ParseInt(w.Count, 10, 64)
		if err != nil || n < 1 || n > MaxCount || strings.Trim(w.Count, "0123456789") != "" {
			return refuse(InvalidCount, PartCount, "it must be a whole number from 1 to %d", int64(MaxCount))
		}
		s.count = n
	}
	switch p := Policy(w.Missed); p {
	case MissedOne, MissedAll, MissedSkip:
		s.missed = p
	case "":
	default:
		return refuse(InvalidMissed, PartMissed, "it must be one, all or skip")
	}
	return nil
}

// readRule reads the interval or the cron expression.
func (s *Series) readRule(text, zone string, stored bool) *SeriesError {
	if len(text) > MaxRuleBytes {
		return refuse(InvalidRepeat, PartRepeat, "it has %d bytes, more than %d", len(text), MaxRuleBytes)
	}
	text = strings.Join(strings.Fields(text), " ")
	head, rest, _ := strings.Cut(text, " ")
	switch head = strings.ToLower(head); {
	case text == "":
		return refuse(InvalidRepeat, PartRepeat, "it must be an interval such as every 20s, or a cron expression")
	case head == "every" || head == "@every":
		return s.readInterval(rest, zone)
	case head[0] == '@':
		expression, found := nickname(strings.ToLower(text))
		if !found {
			return refuse(InvalidRepeat, PartRepeat,
				"it must be one of @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually")
		}
		text = expression
	case strings.Contains(head, "tz="):
		return refuse(InvalidRepeat, PartRepeat,
			"the zone is not part of a cron expression here: it has a header of its own")
	}
	cron, err := parseCron(text, stored)
	s.zoned.cron, s.rule = cron, text
	return err
}

func (s *Series) readInterval(text, zone string) *SeriesError {
	d, err := ParseDelay(text)
	switch {
	case err != nil:
		return refuse(InvalidRepeat, PartRepeat, "what follows every is no interval: %v", err)
	case d < MinInterval:
		return refuse(RepeatTooOften, PartRepeat, "the shortest interval is %v", MinInterval)
	case d%time.Microsecond != 0:
		return refuse(InvalidRepeat, PartRepeat, "an interval must be of whole microseconds")
	case zone != "":
		return refuse(NeedlessZone, PartZone,
			"an interval knows no time zone, and a day is 24 hours: for a time of the day write a cron expression")
	}
	s.every, s.rule = d.Microseconds(), "every "+d.String()
	return nil
}

// roundUp returns the first microsecond that is not before t: nothing is early.
func roundUp(t time.Time) int64 {
	micros := t.UnixMicro()
	if t.Nanosecond()%1000 != 0 {
		micros++
	}
	return micros
}

// ceilSecond returns the first second that is not before an instant in microseconds.
func ceilSecond(micros int64) int64 { return time.UnixMicro(micros + 999_999).Unix() }

// instant shows an instant to people and to Parse.
func instant(micros int64) string { return time.UnixMicro(micros).UTC().Format(time.RFC3339Nano) }

// First returns the first occurrence. There always is one.
func (s *Series) First() Occurrence { return Occurrence{1, time.UnixMicro(s.first).UTC()} }

// Missed returns the policy.
func (s *Series) Missed() Policy { return s.missed }

// Next returns the first instant of the series after an instant, and whether there is one. It knows when the series
// ends, but not by which count: that takes an Occurrence, and Following.
func (s *Series) Next(after time.Time) (time.Time, bool) {
	next, found := s.next(after.UnixMicro())
	return time.UnixMicro(next).UTC(), found
}

func (s *Series) next(after int64) (int64, bool) {
	next := s.first
	switch {
	case after < s.first:
	case after >= s.until:
		return 0, false
	case s.every > 0:
		steps := (after-s.first)/s.every + 1
		if steps > (s.until-s.first)/s.every {
			return 0, false
		}
		next += steps * s.every
	default:
		second, found := s.zoned.next(time.UnixMicro(after).Unix() + 1)
		if !found {
			return 0, false
		}
		next = second * 1e6
	}
	return next, next <= s.until
}

// Following returns the occurrence after o, and whether there is one. O need not be at an instant of the series: what
// was moved by hand is followed by the first instant after it.
func (s *Series) Following(o Occurrence) (Occurrence, bool) {
	next, found := s.Next(o.At)
	if !found || o.Sequence >= s.count {
		return Occurrence{}, false
	}
	return Occurrence{o.Sequence + 1, next}, true
}

// passed counts the instants after one and up to another.
func (s *Series) passed(after, upTo int64) int64 {
	upTo = min(upTo, s.until)
	n := int64(0)
	if after < s.first && s.first <= upTo {
		n++
	}
	after = max(after, s.first)
	switch {
	case after >= upTo:
		return n
	case s.every > 0:
		return n + (upTo-s.first)/s.every - (after-s.first)/s.every
	}
	return n + s.zoned.count(time.UnixMicro(after).Unix()+1, time.UnixMicro(upTo).Unix()+1)
}

// nth returns the n-th instant after one, which must not lie behind upTo. It halves the stretch in which it is to be
// found, and counts only what comes in the first half of what is left: all of it together is little more than one count
// of the whole.
func (s *Series) nth(after, upTo, n int64) int64 {
	for upTo-after > 1 {
		middle := after + (upTo-after)/2
		if before := s.passed(after, middle); before < n {
			n -= before
			after = middle
		} else {
			upTo = middle
		}
	}
	return upTo
}

// String returns the series as text for Parse.
func (s *Series) String() string {
	var b strings.Builder
	b.WriteString(s.rule)
	if s.every == 0 {
		b.WriteString(" in " + s.zoned.zone.String())
	}
	b.WriteString(" from " + instant(s.first))
	if s.until != lastInstant() {
		b.WriteString(" until " + instant(s.until))
	}
	if s.count != math.MaxInt64 {
		b.WriteString(" count " + strconv.FormatInt(s.count, 10))
	}
	b.WriteString(" missed " + string(s.missed))
	return b.String()
}

// errText is the error of a text that String did not write.
var errText = errors.New("this is no stored series")

// Parse reads what String has written: the same series again.
func Parse(text string) (*Series, error) {
	rule, rest, found := strings.Cut(text, " from ")
	fields := strings.Fields(rest)
	if !found || len(fields)%2 != 1 {
		return nil, errText
	}
	var w Words
	var err error
	if w.First, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
		return nil, errText
	}
	w.stored = true
	w.Repeat, w.Zone, _ = strings.Cut(rule, " in ")
	for i := 1; i < len(fields); i += 2 {
		switch value := fields[i+1]; fields[i] {
		case "until":
			w.Until, err = time.Parse(time.RFC3339Nano, value)
		case "count":
			w.Count = value
		case "missed":
			w.Missed = value
		default:
			err = errText
		}
		if err != nil {
			return nil, errText
		}
	}
	s, err := New(w)
	if err != nil {
		return nil, fmt.Errorf("read a stored series: %w", err)
	}
	return s, nil
}
