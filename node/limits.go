package node

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"chronos/node/calendar"
)

// Limits bound what a submission may be. What exceeds them is rejected, with a reason for each of them, and goes to the
// dead-letter topic. They protect those who share a service from one another: see docs/SECURITY.md.
type Limits struct {
	// MaxDelay is how far ahead of the node's clock a deadline may lie when its record is taken in; 0 for as far as
	// it likes. A record that is taken in again later, after a rewind, may pass then. A series all of whose occurrences
	// come out, however late (calendar.MissedAll), may not begin further behind the clock either. Anything else that
	// is overdue is one message, which is due at once.
	MaxDelay time.Duration

	// MaxMissed is how many occurrences that are due of such a series come out late: the latest ones. Those before them
	// are passed over. 0 for any number.
	MaxMissed int

	// MaxBytes bounds key, value and headers together, by Message.Size; 0 for MaxMessageBytes, which is the most.
	MaxBytes int

	// MaxHeaders bounds how many headers a record may have, those of Chronos included; 0 for any number.
	MaxHeaders int

	// MaxHeaderBytes bounds the names and values of these together; 0 for any size.
	MaxHeaderBytes int
}

// DefaultMaxMissed is MaxMissed where nothing else is said.
const DefaultMaxMissed = 1000

// minHeaders is how many headers every submission has: id and deadline.
const minHeaders = 2

// minHeaderBytes is enough for the headers of every submission: the longest id, and a deadline that is written out.
const minHeaderBytes = 256

// validate returns a *ConfigError for the first limit that is not allowed, or nil.
func (l *Limits) validate() error {
	if l.MaxDelay < 0 {
		return &ConfigError{"MaxDelay", l.MaxDelay.String(), "it must be 0s, for no limit, or more"}
	}
	for _, b := range []struct {
		setting         string
		value, min, max int
	}{
		{"MaxBytes", l.MaxBytes, minHeaderBytes, MaxMessageBytes},
		{"MaxMissed", l.MaxMissed, 0, math.MaxInt32},
		{"MaxHeaders", l.MaxHeaders, minHeaders, math.MaxInt32},
		{"MaxHeaderBytes", l.MaxHeaderBytes, minHeaderBytes, MaxMessageBytes},
	} {
		if b.value != 0 && (b.value < b.min || b.value > b.max) {
			return &ConfigError{
				b.setting, strconv.Itoa(b.value), fmt.Sprintf("it must be from %d to %d, or 0 for the default",
					b.min, b.max),
			}
		}
	}
	return nil
}

// exceeded returns a rejection for a record that is a valid submission, m, and exceeds a limit; nil if it does not.
func (l *Limits) exceeded(r Record, m *Message, now func() time.Time) *rejection {
	if l.MaxHeaders > 0 && len(r.Headers) > l.MaxHeaders {
		return &rejection{TooManyHeaders, fmt.Sprintf(
			"there are %d headers, more than %d", len(r.Headers), l.MaxHeaders), ""}
	}
	if l.MaxHeaderBytes > 0 {
		size := 0
		for _, h := range r.Headers {
			size += len(h.Name) + len(h.Value)
		}
		if size > l.MaxHeaderBytes {
			return &rejection{HeadersTooLarge, fmt.Sprintf(
				"the headers have %d bytes, more than %d", size, l.MaxHeaderBytes), ""}
		}
	}
	if size := m.Size(); l.MaxBytes > 0 && size > l.MaxBytes {
		return &rejection{
			TooLarge, fmt.Sprintf("key, value and headers have %d bytes, more than %d", size, l.MaxBytes), "",
		}
	}
	if l.MaxDelay > 0 {
		return l.tooFar(m, now())
	}
	return nil
}

// tooFar returns a rejection for a message that is due too far ahead, or for a series that would have to catch up with
// too long a time; nil for others.
func (l *Limits) tooFar(m *Message, now time.Time) *rejection {
	first, last := now.Add(-l.MaxDelay), now.Add(l.MaxDelay)
	if m.Deadline.After(last) {
		return &rejection{TooFar, fmt.Sprintf("the deadline is %s, and a delay may be %v: no later than %s now",
			m.Deadline.Format(time.RFC3339), l.MaxDelay, last.UTC().Format(time.RFC3339)), HeaderDeadline}
	}
	if !m.Recurs() || !m.At.Before(first) {
		return nil
	}
	series, err := calendar.Parse(m.Series)
	assert(err == nil, "a series that was just read: %v", err)
	if series.Missed() != calendar.MissedAll {
		return nil
	}
	return &rejection{TooFar, fmt.Sprintf("the series begins at %s, and all that was missed of it is to come out: it "+
		"may begin %v ago at most, no earlier than %s now", m.At.Format(time.RFC3339), l.MaxDelay,
		first.UTC().Format(time.RFC3339)), HeaderDeadline}
}
