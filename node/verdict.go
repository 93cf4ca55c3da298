package node

import (
	"errors"
	"fmt"
	"time"
)

// failure is a claimed message that could not be published, and why.
type failure struct {
	*holding

	err  error
	took time.Duration // how long the call to the sink took

	// letter is why its copy could not be published on the dead-letter topic; nil if it was not tried.
	letter error
}

// part returns the part that has not answered.
func (f *failure) part() Part {
	if u, is := errors.AsType[*UnavailableError](f.err); is {
		return Part{f.Lane, u.Part}
	}
	return f.Where()
}

// parks reports whether the message waits for a part that does not answer: it was not tried for that reason, or it was
// a probe.
func (f *failure) parks() bool {
	return unavailable(f.err) || f.Part != "" && !untried(f.err) && !errors.Is(f.err, ErrRejected)
}

// cause returns why, for people: with what became of the copy.
func (f *failure) cause() error {
	if f.letter == nil || errors.Is(f.letter, ErrRejected) {
		return f.err
	}
	return fmt.Errorf("%w; and its dead letter: %w", f.err, f.letter)
}

// unsent reports whether surely neither the message nor its copy was appended.
func (f *failure) unsent() bool { return unsent(f.err) && (f.letter == nil || unsent(f.letter)) }

// reached reports whether a broker has answered about the message, or about its copy if that was tried.
func (f *failure) reached() bool {
	if f.letter != nil {
		return errors.Is(f.letter, ErrRejected)
	}
	return errors.Is(f.err, ErrRejected)
}

// unavailable reports whether a publish failed with err because the part of its lane where the record belongs does not
// answer. That says nothing about the other parts.
func unavailable(err error) bool {
	_, is := errors.AsType[*UnavailableError](err)
	return is
}

// untried reports whether a publish that failed with err was not tried, for whatever reason. Want of time or of a
// connection is no fault of the lane: what was not tried for it keeps its place in the order of the lane.
func untried(err error) bool { return errors.Is(err, ErrUnsent) }

// permanent reports whether a publish that failed with err will fail again until somebody acts.
func permanent(err error) bool {
	return errors.Is(err, ErrRejected) || errors.Is(err, ErrNoTopic)
}

// unsent reports whether a publish that failed with err has surely appended nothing.
func unsent(err error) bool { return permanent(err) || errors.Is(err, ErrUnsent) }
