package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// outcome is what became of an instruction, as a record of an outcome topic tells it.
type outcome struct {
	ID      string `json:"id"`
	Action  string `json:"action"`
	Outcome string `json:"outcome,omitempty"` // "" while nobody has told
	At      string `json:"at,omitempty"`      // when the record was taken in

	// Deadline is that which the message has now, FormerDeadline that which it had before, where it is another one.
	Deadline       string `json:"deadline,omitempty"`
	FormerDeadline string `json:"former_deadline,omitempty"`
	Delay          string `json:"delay,omitempty"` // in place of the deadline, while nobody has told

	// Opens is when the lane opens, where it is closed and the message waits for that.
	Opens string `json:"opens,omitempty"`

	// Former says that content which was replaced may come out all the same.
	Former string `json:"former,omitempty"`

	// Sequence is, of a series that was cancelled, the number of the first occurrence that does not come; of one that
	// was stopped that of the last one that may.
	Sequence int64 `json:"sequence,omitempty"`

	// Reason and Error say why the record was rejected.
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`

	// Topic, Partition and Offset name the record.
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`

	Lineage int64 `json:"lineage,omitempty"`
}

// newOutcome reads the headers of an outcome.
func newOutcome(header func(name string) string) *outcome {
	number := func(name string, bits int) int64 {
		n, err := strconv.ParseInt(header(name), 10, bits)
		if err != nil {
			return -1
		}
		return n
	}
	o := &outcome{
		ID: header(node.HeaderID), Action: header(node.HeaderAction), Outcome: header(node.HeaderOutcome),
		At: header(node.HeaderOutcomeAt), Deadline: header(node.HeaderDeadline),
		FormerDeadline: header(node.HeaderFormerDeadline), Former: header(node.HeaderFormer),
		Opens:  header(node.HeaderOpens),
		Reason: header(node.HeaderReason), Error: header(node.HeaderError),
		Topic:     header(node.HeaderSourceTopic),
		Partition: int32(number(node.HeaderSourcePartition, 32)), Offset: number(node.HeaderSourceOffset, 64),
		Lineage: number(node.HeaderLineage, 64),
	}
	if header(node.HeaderSequence) != "" {
		o.Sequence = number(node.HeaderSequence, 64)
	}
	return o
}

// isOf reports whether an outcome is that of a record.
func (o *outcome) isOf(r *kgo.Record) bool {
	return o.Topic == r.Topic && o.Partition == r.Partition && o.Offset == r.Offset
}

// sentence says what the outcome means.
func (o *outcome) sentence() string {
	text, at := o.Outcome, "at "+o.Deadline
	switch {
	case o.Opens != "":
		at = "at " + o.Opens + ", when its lane opens"
	case o.longPast() && o.Outcome != node.TooLate.String():
		at = "now: its deadline, " + o.Deadline + ", has passed"
	}
	switch o.Outcome {
	case node.Cancelled.String():
		text = "it does not come out; it was due at " + o.FormerDeadline
		if o.Sequence > 0 {
			text = fmt.Sprintf("occurrence %d, which was due at %s, does not come out, nor does any after it",
				o.Sequence, o.FormerDeadline)
		}
	case node.Stopped.String():
		text = fmt.Sprintf("no occurrence comes after %d, which may have come out, or may yet", o.Sequence)
	case node.Rescheduled.String():
		text = "it comes out " + at
		if o.FormerDeadline != "" {
			text += ", and no longer at " + o.FormerDeadline
		}
	case node.Replaced.String():
		text = "the new message comes out " + at
	case node.Scheduled.String():
		text = "it comes out " + at
		if o.Action == node.Replace.String() {
			text = "there was nothing to replace; " + text
		}
	case node.Duplicate.String():
		text = "a message with this id waits already, and comes out " + at + "; this one does not"
	case node.FiredNow.String():
		text = "it comes out now"
		if o.Opens != "" {
			text = "it comes out " + at
		}
		if o.FormerDeadline != "" {
			text += "; it was due at " + o.FormerDeadline
		}
	case node.TooLate.String():
		text = "it comes out as it is, if it has not come out just now; it is due " + at
	case node.NotFound.String():
		text = fmt.Sprintf("no message with this id waits: it has come out, never came in, or is in another partition "+
			"than %d of %s (see --partitioner)", o.Partition, o.Topic)
	case node.OutcomeRejected:
		text = o.Reason + ": " + o.Error
	}
	if o.Former != "" {
		text += "; what it has replaced may have come out, or may yet"
	}
	return text
}

// longPast reports whether the deadline had passed long before the record was taken in, so that nobody waits for it.
func (o *outcome) longPast() bool {
	due, err := node.ParseDeadline([]byte(o.Deadline), node.EpochRejected)
	taken, also := node.ParseDeadline([]byte(o.At), node.EpochRejected)
	return err == nil && also == nil && taken.Sub(due) > time.Minute
}

// outcomeError is an outcome that is no success. It has been printed.
type outcomeError struct {
	outcome string
	code    int
}

// Error returns the outcome.
func (e *outcomeError) Error() string { return e.outcome }

// print prints the outcome, and returns an error if it is no success.
func (f *outcomeFlags) print(w *world, o *outcome) error {
	var err error
	if f.Output == "json" {
		err = printJSON(w.stdout, o)
	} else {
		_, err = fmt.Fprintf(w.stdout, "%s  %s  %s\n",
			printable(o.Outcome), readable([]byte(o.ID)), printable(o.sentence()))
	}
	if err != nil {
		return err
	}
	switch o.Outcome {
	case node.Cancelled.String(), node.Rescheduled.String(), node.Replaced.String(), node.Scheduled.String(),
		node.FiredNow.String(), node.Stopped.String():
		return nil
	case node.TooLate.String():
		return &outcomeError{o.Outcome, exitTooLate}
	case node.NotFound.String():
		return &outcomeError{o.Outcome, exitNotFound}
	}
	return &outcomeError{o.Outcome, exitFailure}
}

// endsOf returns where each partition of an outcome topic ends.
func endsOf(ctx context.Context, client *kgo.Client, topic string) (map[int32]kgo.Offset, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*answerTimeout)
	defer cancel()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err == nil {
		err = listed.Error()
	}
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition) || err == nil && len(listed[topic]) == 0:
		return nil, fmt.Errorf("topic %s, where the outcome is looked for, does not exist, and nothing was sent; "+
			"--outcome-topic names another one, and --no-wait does without", topic)
	case err != nil:
		return nil, fmt.Errorf("look up where topic %s ends: %w; nothing was sent", topic, err)
	}
	ends := map[int32]kgo.Offset{}
	for partition, offset := range listed[topic] {
		ends[partition] = kgo.NewOffset().At(offset.Offset)
	}
	return ends, nil
}

// awaitOutcome waits for the outcome of a record that was sent. An outcome may come more than once, and always says the
// same, unless the store was set back meanwhile and has decided anew: the one of the highest lineage counts, of those
// that have come by then.
func awaitOutcome(
	ctx context.Context, client *kgo.Client, topic string, record *kgo.Record, timeout time.Duration,
) (*outcome, error) {
	sent := fmt.Sprintf("the record is in topic %s, partition %d, offset %d, and acts when it is taken in",
		record.Topic, record.Partition, record.Offset)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		fetches := client.PollFetches(limited)
		var found *outcome
		for records := fetches.RecordIter(); !records.Done(); {
			if o := outcomeOf(records.Next()); o.isOf(record) && (found == nil || o.Lineage > found.Lineage) {
				found = o
			}
		}
		switch {
		case found != nil:
			return found, nil
		case ctx.Err() != nil:
			return nil, fmt.Errorf("interrupted before there was an outcome: %s", sent)
		case limited.Err() != nil:
			return nil, fmt.Errorf("no outcome came on topic %s within %v: no node has taken the record in, or their "+
				"--outcome-topic is another one; %s", topic, timeout, sent)
		}
		if failed := fetches.Errors(); len(failed) > 0 && !kerr.IsRetriable(failed[0].Err) {
			return nil, fmt.Errorf("read topic %s for the outcome: %s; %s", topic, oneLine(failed[0].Err), sent)
		}
	}
}

// outcomeOf reads a record of an outcome topic.
func outcomeOf(r *kgo.Record) *outcome {
	return newOutcome(func(name string) string {
		for _, h := range r.Headers {
			if h.Key == name {
				return string(h.Value)
			}
		}
		return ""
	})
}

// told returns what became of an instruction, as a line of "chronos dev".
func told(m *node.Message) string {
	o := newOutcome(func(name string) string {
		for _, h := range m.Headers {
			if h.Name == name {
				return string(h.Value)
			}
		}
		return ""
	})
	return fmt.Sprintf("%s  %s: %s, %s",
		readable([]byte(o.ID)), printable(o.Action), printable(o.Outcome), printable(o.sentence()))
}
