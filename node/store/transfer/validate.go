package transfer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
)

const (
	// maxLine is how many bytes a line may have: the largest message, each byte of it escaped as six.
	maxLine = 6*node.MaxMessageBytes + 1<<20

	// maxWords bounds texts for people, as the listener for operators does.
	maxWords = 1000

	// maxLineage is far above any lineage: a store that is filled begins the next one.
	maxLineage = math.MaxInt64 / 2
)

// validate returns why a line says what no store could have exported, in one sentence; nil if all is well. It asks what
// intake asks of a submission, and what stores rely on. Check calls it for every line, before anything is written. What
// a submission may name, beside a lane that can exist, is to be asked here as well.
func validate(l *line) error {
	switch {
	case l.Export != nil:
		return l.Export.validate()
	case l.Position != nil:
		return l.Position.validate()
	case l.Pause != nil:
		return l.Pause.validate()
	case l.Answer != nil:
		return l.Answer.validate()
	case l.Message != nil:
		return l.Message.validate()
	case l.Queue != nil:
		q := l.Queue.queue()
		return q.Check()
	case l.Action != nil:
		a, err := l.Action.action()
		if err == nil {
			err = a.Check()
		}
		return err
	case l.Task != nil:
		t, err := l.Task.task()
		if err == nil {
			err = t.Check()
		}
		return err
	}
	return nil // the reader says that it knows no such line
}

// first returns the first reason that holds; nil for none.
func first(reasons ...reason) error {
	for _, r := range reasons {
		if r.holds {
			return errors.New(r.says)
		}
	}
	return nil
}

type reason struct {
	holds bool
	says  string
}

// outside says that a number is not from least to most.
func outside[T int | int32 | int64](what string, n, least, most T) reason {
	return reason{n < least || n > most, fmt.Sprintf("%s is %d, which is not from %d to %d", what, n, least, most)}
}

// noInstant says that an instant is none that stores keep: of the years 1 to 9999, in whole microseconds. The zero
// value is the first of these years.
func noInstant(what string, t time.Time) reason {
	if r := noYear(what, t); r.holds {
		return r
	}
	return reason{t.Nanosecond()%1000 != 0, what + " is not in whole microseconds"}
}

// noYear says that an instant is of no year from 1 to 9999.
func noYear(what string, t time.Time) reason {
	year := t.UTC().Year()
	return reason{year < 1 || year > 9999, fmt.Sprintf("%s is in the year %d, which is not 1 to 9999", what, year)}
}

// noLane says that a lane is neither a topic nor a callback lane.
func noLane(lane string) reason {
	return reason{!node.IsTopic(lane) && !node.IsCallbackLane(lane), fmt.Sprintf("there can be no lane %.300q", lane)}
}

// noWords says that a text for people is too long, or would move the cursor of their terminal.
func noWords(what, text string) reason {
	strange := func(r rune) bool { return unicode.IsControl(r) && r != '\t' && r != '\n' }
	switch {
	case len(text) > maxWords:
		return reason{true, fmt.Sprintf("%s has %d bytes, more than %d", what, len(text), maxWords)}
	case !utf8.ValidString(text):
		return reason{true, what + " is not UTF-8"}
	}
	return reason{strings.ContainsFunc(text, strange), fmt.Sprintf("%s has control characters: %.100q", what, text)}
}

// noID says that an id is none.
func noID(id string) reason {
	_, why := node.CheckID(id)
	return reason{why != "", "the id " + why}
}

func (h *Header) validate() error {
	return first(
		reason{h.ID == uuid.Nil, "the export has no id"},
		outside("the lineage", h.Lineage, 1, maxLineage),
		outside("the number of messages", h.Messages, -1, math.MaxInt64),
		noWords("the name of the store", h.Store), noWords("the release", h.Release), noWords("who exported it", h.By),
		noWords("the cluster", h.Cluster), noWords("the consumer group", h.Group),
		noYear("the instant of the export", h.Sealed),
		reason{(h.Cluster == "") != (h.Group == ""), "a cluster without a consumer group, or the reverse"},
	)
}

func (l *positionLine) validate() error {
	return first(
		reason{!node.IsTopic(l.Topic), fmt.Sprintf("there can be no topic %.300q", l.Topic)},
		outside("the partition", l.Partition, 0, math.MaxInt32), outside("the epoch", l.Epoch, -1, math.MaxInt32),
		outside("the offset", l.Offset, 0, math.MaxInt64), outside("the mark", value(l.Mark), 0, math.MaxInt64),
	)
}

func (l *pauseLine) validate() error {
	lane := noLane(l.Lane)
	lane.holds = lane.holds && l.Lane != node.Intake
	return first(lane, noYear("the instant of a pause", l.Since))
}

func (l *answerLine) validate() error {
	return first(
		reason{l.Request == uuid.Nil, "an answer without a request"}, noID(l.ID), noLane(l.Lane),
		outside("the lineage", l.Lineage, 0, maxLineage), outside("the sequence", l.Sequence, 0, math.MaxInt64),
		noYear("the end of an answer", l.Expires), noYear("the deadline", value(l.Deadline)),
		noYear("the former deadline", value(l.Former)),
	)
}

func (l *messageLine) validate() error {
	of := func(err error) error {
		if err != nil {
			return fmt.Errorf("message %.200q: %w", l.ID, err)
		}
		return nil
	}
	if err := first(
		noID(l.ID), noLane(l.Lane), reason{l.Incarnation == uuid.Nil, "it has no incarnation"},
		reason{l.Deadline == nil, "it has no deadline"}, noInstant("the deadline", value(l.Deadline)),
		noInstant("the instant that it is due", value(l.Due)), noInstant("notAfter", value(l.NotAfter)),
		outside("the number of attempts", l.Attempts, 0, math.MaxInt32),
	); err != nil {
		return of(err)
	}
	if err := of(l.validateSource()); err != nil {
		return err
	}
	m, err := l.message()
	if err != nil {
		return err
	}
	return of(first(outside("its size in bytes", m.Size(), 0, node.MaxMessageBytes)))
}

// validateSource looks at the series and at the record that a message comes from.
func (l *messageLine) validateSource() error {
	if s := l.Series; s != nil {
		if _, err := calendar.Parse(s.Rule); err != nil {
			return fmt.Errorf("the series %.200q: %w", s.Rule, err)
		}
		if err := first(
			outside("the sequence", s.Sequence, 1, math.MaxInt64-1),
			reason{s.At == nil, "an occurrence of a series without its instant"},
			noInstant("the instant of an occurrence", value(s.At)),
		); err != nil {
			return err
		}
	}
	if o := l.Origin; o != nil {
		return first(
			reason{!node.IsTopic(o.Topic), fmt.Sprintf("there can be no topic %.300q", o.Topic)},
			outside("the partition", o.Partition, 0, math.MaxInt32), outside("the offset", o.Offset, 0, math.MaxInt64),
		)
	}
	return nil
}
