package node

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// The headers that make a record a submission. Their names are compared byte for byte.
const (
	HeaderID       = "chronosMessageId"
	HeaderDeadline = "chronosDeadline"
)

// The headers that are added to a copy on a dead-letter topic, after all that the record had. Their values are
// text.
const (
	HeaderReason          = "chronosReason" // a Reason
	HeaderError           = "chronosError"  // a sentence
	HeaderSourceTopic     = "chronosSourceTopic"
	HeaderSourcePartition = "chronosSourcePartition"
	HeaderSourceOffset    = "chronosSourceOffset"
	HeaderCut             = "chronosCut" // what is missing of a copy that would not have fitted
)

// MaxIDLength is the greatest length of a message id in bytes.
const MaxIDLength = 128

// rejection says why a record is no valid submission.
type rejection struct {
	reason Reason
	detail string
}

// decode turns a record of the input topic of route into a message, without an incarnation. It returns a
// rejection, and no message, for a record that is not a valid submission. The message shares the record's bytes.
func (c *Config) decode(r Record, route Route) (Message, *rejection) {
	var ids, deadlines [][]byte
	for _, h := range r.Headers {
		switch h.Name {
		case HeaderID:
			ids = append(ids, h.Value)
		case HeaderDeadline:
			deadlines = append(deadlines, h.Value)
		}
	}
	if rejected := checkID(ids); rejected != nil {
		return Message{}, rejected
	}
	deadline, rejected := c.checkDeadline(deadlines)
	if rejected != nil {
		return Message{}, rejected
	}
	m := Message{
		ID:       string(ids[0]),
		Lane:     route.Output,
		Deadline: deadline,
		Origin:   origin(r),
		Key:      r.Key,
		Value:    r.Value,
		Headers:  c.relayed(r.Headers),
	}
	if size := m.Size(); size > MaxMessageBytes {
		return Message{}, &rejection{TooLarge, fmt.Sprintf(
			"key, value and headers have %d bytes, more than %d", size, MaxMessageBytes)}
	}
	return m, nil
}

func checkID(values [][]byte) *rejection {
	switch {
	case len(values) == 0:
		return &rejection{MissingID, "there is no header " + HeaderID}
	case len(values) > 1:
		return &rejection{RepeatedID, fmt.Sprintf("there are %d headers %s", len(values), HeaderID)}
	}
	if reason, why := CheckID(string(values[0])); why != "" {
		return &rejection{reason, "the header " + HeaderID + " " + why}
	}
	return nil
}

func (c *Config) checkDeadline(values [][]byte) (time.Time, *rejection) {
	switch len(values) {
	case 0:
		return time.Time{}, &rejection{MissingDeadline, "there is no header " + HeaderDeadline}
	case 1:
	default:
		return time.Time{}, &rejection{
			RepeatedDeadline, fmt.Sprintf("there are %d headers %s", len(values), HeaderDeadline),
		}
	}
	deadline, err := ParseDeadline(values[0], c.EpochDeadlines)
	if err != nil {
		return time.Time{}, &rejection{InvalidDeadline, fmt.Sprintf(
			"the header %s is %s: %v", HeaderDeadline, quoted(values[0]), err)}
	}
	return deadline, nil
}

// quoted shows at most 40 bytes of a value to a person.
func quoted(value []byte) string {
	const limit = 40
	if len(value) > limit {
		return strconv.QuoteToASCII(string(value[:limit])) + " and more"
	}
	return strconv.QuoteToASCII(string(value))
}

// relayed returns the headers without those of Chronos, but for those that the configuration relays. Order,
// repetition, nulls and bytes stay as they are.
func (c *Config) relayed(headers []Header) []Header {
	kept := make([]Header, 0, len(headers))
	for _, h := range headers {
		own := h.Name == HeaderID || h.Name == HeaderDeadline
		if !own || slices.Contains(c.RelayHeaders, h.Name) {
			kept = append(kept, h)
		}
	}
	return kept
}

// deadLetterID gives the copy of a rejected record an id of its own, the same at each redelivery. Another record that
// comes to stand at the same offset, after Kafka has lost the end of a log or in a topic that was created again, has
// another.
func deadLetterID(p Partition, r Record) string {
	name := fmt.Sprintf("%s/%s/%d/%d/%d", p.Topic, p.TopicID, p.Number, r.LeaderEpoch, r.Offset)
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte("chronos:rejected/"+name)).String()
}

// origin returns where a record comes from.
func origin(r Record) Origin { return Origin{r.Topic, r.Partition, r.Offset} }

// sourceHeaders tell where a message comes from.
func sourceHeaders(o Origin) []Header {
	if o.Topic == "" {
		return nil
	}
	return []Header{
		{HeaderSourceTopic, []byte(o.Topic)},
		{HeaderSourcePartition, strconv.AppendInt(nil, int64(o.Partition), 10)},
		{HeaderSourceOffset, strconv.AppendInt(nil, o.Offset, 10)},
	}
}

// deadLetterOfRecord returns the copy of a rejected record as a message that has lapsed: it takes the same way
// to its topic as any other message, through the store.
func deadLetterOfRecord(p Partition, r Record, rejected *rejection, topic string, now time.Time) Message {
	headers := append(slices.Clip(r.Headers),
		Header{HeaderReason, []byte(rejected.reason)},
		Header{HeaderError, []byte(rejected.detail)},
	)
	m := Message{
		ID:       deadLetterID(p, r),
		Lane:     topic,
		Deadline: now.UTC().Truncate(time.Microsecond),
		Origin:   origin(r),
		Key:      r.Key,
		Value:    r.Value,
		Headers:  append(headers, sourceHeaders(origin(r))...),
	}
	if size := m.Size(); size > MaxMessageBytes {
		short := cutRecord(record(&m), 1, size-MaxMessageBytes)
		if m.Key, m.Value, m.Headers = short.Key, short.Value, short.Headers; m.Size() > MaxMessageBytes {
			short = cutRecord(record(&m), cuts, 0)
			m.Key, m.Value, m.Headers = short.Key, short.Value, short.Headers
		}
	}
	return m
}

// deadLetterOfMessage returns the copy of a message that its output topic rejects for good. The headers that made
// it a submission are there again, so that it can be submitted anew once the cause is gone.
func deadLetterOfMessage(m *Message, cause error, topic string) Record {
	headers := slices.DeleteFunc(slices.Clone(m.Headers), func(h Header) bool {
		return h.Name == HeaderID || h.Name == HeaderDeadline
	})
	headers = append(headers,
		Header{HeaderID, []byte(m.ID)},
		Header{HeaderDeadline, []byte(m.Deadline.Format("2006-01-02T15:04:05.000000Z07:00"))},
		Header{HeaderReason, []byte(PublishRejected)},
		Header{HeaderError, []byte(cause.Error())},
	)
	return Record{Topic: topic, Key: m.Key, Value: m.Value, Headers: append(headers, sourceHeaders(m.Origin)...)}
}

const (
	// cuts is how much a copy can be cut: the end of the value, all of it, and then the key and the headers too,
	// except for those of Chronos.
	cuts = 3

	// cutBytes is how much of the value goes first: more than the headers that a copy has on top of its record.
	cutBytes = 4 << 10
)

// cutRecord returns a copy of a record that is smaller, and says so in a header. The first cut takes at least bytes off
// the value. No cut is the record itself.
func cutRecord(r Record, cut, bytes int) Record {
	if cut == 0 {
		return r
	}
	whole := len(r.Value)
	switch keep := whole - max(cutBytes, bytes+cutBytes/4); {
	case r.Value == nil:
	case cut == 1 && keep > 0:
		r.Value = r.Value[:keep]
	default:
		r.Value = []byte{}
	}
	note := fmt.Sprintf("value: %d of %d bytes", len(r.Value), whole)
	headers := slices.DeleteFunc(slices.Clone(r.Headers), func(h Header) bool { return h.Name == HeaderCut })
	if cut >= cuts {
		note += "; key and headers: none"
		r.Key = nil
		headers = slices.DeleteFunc(headers, func(h Header) bool { return !isOurs(h.Name) })
	}
	r.Headers = append(headers, Header{HeaderCut, []byte(note)})
	return r
}

// isOurs reports whether a header is one that Chronos reads or writes.
func isOurs(name string) bool {
	switch name {
	case HeaderID, HeaderDeadline, HeaderReason, HeaderError, HeaderSourceTopic, HeaderSourcePartition,
		HeaderSourceOffset, HeaderCut:
		return true
	}
	return false
}
