package service

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// unpublished says which topic messages could not be published on: one line for each topic and kind of failure, and
// a reminder while it goes on.
func (r *Reporter) unpublished(e node.Unpublished) {
	r.counts.unpublished += int64(len(e.Messages))
	topics := map[string]int{}
	for _, m := range e.Messages {
		topics[m.Lane]++
	}
	level, sentence := slog.LevelWarn, "could not publish messages; they wait in the store"
	if e.Permanent {
		level = slog.LevelError
		sentence = "could not publish messages, and cannot until somebody acts; they wait in the store"
	}
	if node.IsCallback(e.Messages[0].Lane) && !e.Permanent {
		sentence = "callbacks failed; they wait in the store, and are tried again"
	}
	cause := oneLine(e.Err)
	for _, topic := range slices.Sorted(maps.Keys(topics)) {
		// What is said later must not hold on to the event, which has all the payloads.
		r.lateness.failing(topic, cause)
		key := unpublishedOn(topic, e.Permanent)
		t := r.distinct(key)
		for i := range e.Messages {
			if m := &e.Messages[i]; m.Lane == topic && len(t.distinct) < maxDistinct {
				t.distinct[m.Incarnation] = true
			}
		}
		r.tally(key, topics[topic], func(tries int) {
			messages := fmt.Sprint(len(t.distinct))
			if len(t.distinct) == maxDistinct {
				messages = "10,000+"
			}
			clear(t.distinct)
			r.say(level, sentence, slog.String("topic", topic), slog.String("messages", messages),
				slog.Int("tries", tries), slog.String("error", cause))
		})
	}
}

// maxDistinct bounds how many messages are told apart that fail again and again.
const maxDistinct = 10_000

// distinct returns a tally that tells messages from tries.
func (r *Reporter) distinct(key string) *tally {
	t := r.tallies[key]
	if t == nil {
		t = &tally{}
		r.tallies[key] = t
	}
	if t.distinct == nil {
		t.distinct = map[uuid.UUID]bool{}
	}
	return t
}

// unpublishedOn names the tally of what could not be published on a topic.
func unpublishedOn(topic string, permanent bool) string {
	return fmt.Sprint("unpublished ", topic, permanent)
}

// tally adds count to what say is to be called with: now, if it was not within the last reminderInterval.
func (r *Reporter) tally(key string, count int, say func(count int)) {
	now := time.Now()
	t := r.tallies[key]
	if t == nil {
		t = &tally{}
		r.tallies[key] = t
	}
	t.count += count
	t.say = say
	if now.Sub(t.saidLast) >= reminderInterval {
		say(t.count)
		t.count, t.saidLast = 0, now
	}
}
