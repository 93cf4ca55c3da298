package node

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxTopicLength is the greatest length of a lane's name in bytes: Kafka's limit for the name of a topic.
const MaxTopicLength = 249

// CheckID returns why id cannot be the id of a message, as a code and in words that go on from "the id", and two
// empty strings if it can. It is the only rule for ids: decoding, every store and every other way in apply it.
func CheckID(id string) (reason Reason, why string) {
	switch {
	case id == "":
		return EmptyID, "is empty"
	case len(id) > MaxIDLength:
		return IDTooLong, fmt.Sprintf("has %d bytes, more than %d", len(id), MaxIDLength)
	case !utf8.ValidString(id):
		return InvalidID, "is not UTF-8"
	case strings.ContainsRune(id, 0):
		return InvalidID, "has a NUL byte"
	}
	return "", ""
}

// Refusal returns why m is not a message that a store keeps, in one sentence, and nothing if it is one. A store may
// have further reasons of its own, such as a limit on sizes, but none of them is about id, lane or deadline.
func (m *Message) Refusal() string {
	if _, why := CheckID(m.ID); why != "" {
		return "the id " + why
	}
	switch {
	case m.Lane == "":
		return "the topic is empty"
	case len(m.Lane) > MaxTopicLength:
		return fmt.Sprintf("the topic has %d bytes, more than %d", len(m.Lane), MaxTopicLength)
	case !utf8.ValidString(m.Lane):
		return "the topic is not UTF-8"
	case strings.ContainsRune(m.Lane, 0):
		return "the topic has a NUL byte"
	case m.Deadline.Before(time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)) ||
		!m.Deadline.Before(time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)):
		return fmt.Sprintf("the deadline is in the year %d, which is not 1 to 9999", m.Deadline.UTC().Year())
	}
	return ""
}

// Refusal returns why a store does not do what an item asks for, see Message.Refusal. Pass asks for nothing.
func (i *Item) Refusal() string {
	if i.Action == Pass {
		return ""
	}
	return i.Message.Refusal()
}
