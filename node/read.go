package node

import (
	"fmt"
	"time"
)

// UnfitError says why something that somebody asks for past Kafka is no valid instruction.
type UnfitError struct {
	Reason Reason
	Detail string // a sentence, in which headers are called by their names
	Header string // the one that is to blame; "" if none is
}

// Error returns the sentence.
func (u *UnfitError) Error() string { return u.Detail }

// Read reads an instruction that comes past Kafka, by the same rules and limits as one that comes as a record: r is
// that record, with the headers that ask for something, and a timestamp that delays count from. The lane is given, and
// so no header names one. The item stands in no partition, and has no incarnation yet. The error is an *UnfitError.
func (c *Config) Read(r Record, lane string, now func() time.Time) (Item, error) {
	in := c.decode(r, Route{Output: lane})
	if in.rejected == nil {
		in.rejected = c.Limits.exceeded(r, &in.message, now)
	}
	if in.task && in.rejected == nil {
		in.rejected = &rejection{InvalidQueue, "tasks of queues are brought and completed by requests for tasks, and " +
			"not by messages that say so", HeaderQueue}
	}
	if in.rejected == nil {
		if why := in.message.laneRefusal(); why != "" {
			in.rejected = &rejection{UnknownTopic, why, HeaderTopic}
		}
	}
	if in.rejected != nil {
		return Item{}, &UnfitError{in.rejected.reason, in.rejected.detail, in.rejected.header}
	}
	item := Item{From: NoPlace, Action: in.action, Message: in.message}
	if item.Action == FireNow {
		item.Deadline = now().UTC().Truncate(time.Microsecond)
	}
	return item, nil
}

// Refusal returns why nodes with this configuration reject a record of the input topic of a route, by the same rules
// and limits as when they take it in; nil if they do not. What only a node knows is left out: how many lanes it has
// found, and where requests may go.
func (c *Config) Refusal(r Record, route Route, now func() time.Time) *UnfitError {
	in := c.decode(r, route)
	if in.rejected == nil {
		in.rejected = c.Limits.exceeded(r, &in.message, now)
	}
	if in.rejected == nil {
		return nil
	}
	return &UnfitError{in.rejected.reason, in.rejected.detail, in.rejected.header}
}

// MostFound is how many lanes messages may wait on, at the same time, that nobody has named: topics that a target with
// a * stands for, and callback lanes. Each has a part of every claim, so whoever makes up names must find an end.
const MostFound = mostFound

// laneRefusal returns why nothing comes out on the lane of a message, and nothing if something may: it is neither the
// name of a topic nor that of a callback lane.
func (m *Message) laneRefusal() string {
	if IsTopic(m.Lane) || IsCallbackLane(m.Lane) {
		return ""
	}
	return fmt.Sprintf("there can be no lane %s: the name of a topic has 1 to 249 letters, digits, dots, underscores "+
		"and "+
		"hyphens, and that of a callback lane begins with %s", quoted([]byte(m.Lane)), CallbackPrefix)
}
