package calendar

import "fmt"

// Reason is why a series or a window is rejected, as a word for programs.
type Reason string

// The reasons. They are part of what users see in dead letters, and don't change.
const (
	InvalidRepeat    Reason = "invalid_repeat"      // neither an interval nor a cron expression
	RepeatOutOfRange Reason = "repeat_out_of_range" // a field names what does not exist, such as minute 60
	RepeatTooOften   Reason = "repeat_too_often"    // an interval of less than MinInterval
	RepeatNever      Reason = "repeat_never"        // nothing matches, such as the 30th of February
	UnknownZone      Reason = "unknown_zone"        // no time zone of that name
	NeedlessZone     Reason = "needless_zone"       // a zone for an interval
	InvalidCount     Reason = "invalid_count"       // no number from 1 on
	InvalidMissed    Reason = "invalid_missed"      // no policy
	UntilBeforeFirst Reason = "until_before_first"  // the end is before the beginning

	InvalidWindow Reason = "invalid_window" // no window, or one that may mean two things
	WindowNever   Reason = "window_never"   // a window that never opens
)

// Part is which of the words of a series an error is about.
type Part string

// The parts.
const (
	PartRepeat Part = "repeat"
	PartZone   Part = "zone"
	PartCount  Part = "count"
	PartUntil  Part = "until"
	PartMissed Part = "missed"
)

// SeriesError says why words are no series.
type SeriesError struct {
	Reason Reason
	Part   Part
	Why    string // one sentence about the part, which it does not name, such as "minute 60 is not between 0 and 59"
}

// Error returns the sentence.
func (e *SeriesError) Error() string { return e.Why }

func refuse(reason Reason, part Part, format string, args ...any) *SeriesError {
	return &SeriesError{reason, part, fmt.Sprintf(format, args...)}
}

// quoted shows at most 40 bytes of what somebody wrote.
func quoted(text string) string {
	const limit = 40
	if len(text) > limit {
		return fmt.Sprintf("%+q and more", text[:limit])
	}
	return fmt.Sprintf("%+q", text)
}

// WindowError says why words are no window.
type WindowError struct {
	Reason Reason // InvalidWindow, UnknownZone or WindowNever
	At     int    // which character of the text it is about, from 1 on; 0 is all of it
	Text   string // what stands there
	Why    string // what is wrong with it, and what to write instead
}

// Error returns one sentence.
func (e *WindowError) Error() string {
	switch {
	case e.At == 0:
		return e.Why
	case e.Text == "":
		return "at its end: " + e.Why
	}
	return fmt.Sprintf("%s at character %d: %s", quoted(e.Text), e.At, e.Why)
}
