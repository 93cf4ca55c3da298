package main

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/node"
)

// noLimit is the value of --not-after for none.
const noLimit = "none"

// limit is until when what goes back may come out. Nobody has asked for one where neither field is set.
type limit struct {
	none bool
	at   time.Time
}

// asked reads --not-after.
func (c *deadReplayCommand) asked() (limit, error) {
	switch {
	case c.NotAfter == nil:
		return limit{}, nil
	case *c.NotAfter == noLimit:
		return limit{none: true}, nil
	}
	at, err := node.ParseDeadline([]byte(*c.NotAfter), node.EpochRejected)
	if err != nil {
		return limit{}, usagef("--not-after is %s: it must be none, or an instant: %v", shown(string(*c.NotAfter)), err)
	}
	if !at.After(time.Now()) {
		return limit{}, usagef("--not-after is %s, which has passed: nothing would come out",
			shown(string(*c.NotAfter)))
	}
	return limit{at: at}, nil
}

// isSet reports whether somebody has asked for a limit, or for none.
func (l limit) isSet() bool { return l.none || !l.at.IsZero() }

// overdue reports whether a record would expire when it is taken in again, because the instant of its own header has
// passed. One that cannot be read is rejected again, which is not for this to say.
func overdue(headers []kgo.RecordHeader) bool {
	for _, h := range headers {
		if h.Key != node.HeaderNotAfter {
			continue
		}
		at, err := node.ParseDeadline(node.HeaderText(h.Value), node.EpochRejected)
		return err == nil && !at.After(time.Now())
	}
	return false
}

// limited returns the headers of a record with that limit in place of its own, if somebody has asked for one. An
// instruction that stores nothing has none, nor has a series, which ends otherwise.
func (l limit) limited(headers []kgo.RecordHeader) []kgo.RecordHeader {
	if !l.isSet() {
		return headers
	}
	stores := true
	headers = slices.DeleteFunc(headers, func(h kgo.RecordHeader) bool {
		switch h.Key {
		case node.HeaderAction:
			action := string(node.HeaderText(h.Value))
			stores = action == node.Schedule.String() || action == node.Replace.String()
		case node.HeaderRepeat:
			stores = false
		case node.HeaderNotAfter:
			return true
		}
		return false
	})
	if l.none || !stores {
		return headers
	}
	return append(headers, kgo.RecordHeader{
		Key: node.HeaderNotAfter, Value: []byte(l.at.UTC().Format(deadlineForm)),
	})
}
