package node

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Format says how the records of an input topic ask for something. Each is a function from a record to an instruction,
// and knows nothing of limits: those, and the rules for ids, are in decode.go for all of them.
type Format int

// The formats.
const (
	// FormatChronos is our own: the headers that RequestHeaders names.
	FormatChronos Format = iota

	// FormatAmnesix is that of Amnesix: the key is a subject, the value is a job as JSON. What comes out is a
	// callback.
	FormatAmnesix

	// FormatETF1 is that of kafka-message-scheduler by etf1: the key is the id, headers say when and where to.
	FormatETF1
)

// String returns the format as the key format of a route names it.
func (f Format) String() string {
	switch f {
	case FormatChronos:
		return "chronos"
	case FormatAmnesix:
		return "amnesix"
	case FormatETF1:
		return "etf1"
	}
	return "unknown"
}

// ParseFormat returns the format of which a word is the String, and whether there is one.
func ParseFormat(word string) (Format, bool) {
	for f := FormatChronos; f <= FormatETF1; f++ {
		if f.String() == word {
			return f, true
		}
	}
	return FormatChronos, false
}

// topicHeader returns the header by which a record names one of the targets of its route.
func (f Format) topicHeader() string {
	if f == FormatETF1 {
		return HeaderETF1Topic
	}
	return HeaderTopic
}

// The headers of etf1. The first three are those of a record that asks; the others are added to what comes out. None
// is taken away: their documentation says that the first three are, their code leaves them, and consumers see the
// code.
const (
	HeaderETF1Epoch = "scheduler-epoch"        // unix seconds
	HeaderETF1Topic = "scheduler-target-topic" // an output or a target of the route
	HeaderETF1Key   = "scheduler-target-key"   // the key of what comes out

	HeaderETF1Timestamp   = "scheduler-timestamp" // when the record was written, in unix seconds
	HeaderETF1SourceKey   = "scheduler-key"       // the key of the record: the id
	HeaderETF1SourceTopic = "scheduler-topic"     // the topic of the record
)

// The fields of a job of Amnesix.
const (
	amnesixID   = "id"
	amnesixTime = "time"
	amnesixURL  = "url"
)

// foreign reads a record of a format that is not ours. Whoever writes such records knows two things to ask for: a
// message, which takes the place of the one of its id, and none. The id is not checked yet.
func (c *Config) foreign(r Record, route Route) instruction {
	in := instruction{action: Replace, told: true}
	if r.Value == nil {
		in.action = Cancel
	}
	in.word = in.action.String()
	in.message.Lane = route.Output
	switch {
	case len(r.Key) == 0:
		in.rejected = &rejection{MissingKey, "the record has no key, which is a part of what it is called by", ""}
	case route.Format == FormatAmnesix:
		c.decodeAmnesix(&in, r)
	default:
		c.decodeETF1(&in, r, route)
	}
	return in
}

// decodeAmnesix reads a job of Amnesix. Key and id name it together. A null value has no id in it: the header
// chronosMessageId says which job of the key it cancels, by the id that the job's JSON has. Without that header it
// would have to mean all jobs of the key, which is more than one instruction, and more than anybody can be told the
// outcome of.
func (c *Config) decodeAmnesix(in *instruction, r Record) {
	if in.action == Cancel {
		h, _ := requestHeaders(r.Headers)
		id, _ := h.get(HeaderID)
		if in.rejected = checkID(&h, r.Headers); in.rejected == nil {
			in.id = jobID(r.Key, string(id))
		}
		return
	}
	var job map[string]json.RawMessage // not a struct, which would take fields of another case for these
	if !utf8.Valid(r.Value) {
		in.rejected = &rejection{InvalidJSON, "the value is not UTF-8, and so no JSON", ""}
		return
	}
	if err := json.Unmarshal(r.Value, &job); err != nil {
		in.rejected = &rejection{InvalidJSON, fmt.Sprintf(
			"the value is %s, which is no JSON object: %v", quoted(r.Value), err), ""}
		return
	}
	for _, name := range []string{amnesixID, amnesixTime, amnesixURL} {
		if len(job[name]) == 0 {
			in.rejected = &rejection{MissingField, "the value has no field " + name, ""}
			return
		}
	}
	var id, url string
	if err := json.Unmarshal(job[amnesixID], &id); err != nil || id == "" || !WholeJSON(job[amnesixID]) {
		in.rejected = wrongField(InvalidField, amnesixID, job, "it must be a text that is not empty")
		return
	}
	in.id = jobID(r.Key, id)
	if err := json.Unmarshal(job[amnesixURL], &url); err != nil || !isURL(url) || !WholeJSON(job[amnesixURL]) {
		in.rejected = wrongField(InvalidField, amnesixURL, job,
			"it must begin with http:// or https://, and have no spaces")
		return
	}
	deadline, err := unixSeconds(unquoted(job[amnesixTime]))
	if err != nil {
		in.rejected = wrongField(InvalidDeadline, amnesixTime, job, err)
		return
	}
	in.message.Deadline, in.message.Key, in.message.Value = deadline, r.Key, r.Value
	in.message.Headers = append(jobHeaders(c.relayed(r.Headers)), Header{HeaderURL, []byte(url)})
}

// wrongField rejects a field of a job.
func wrongField(reason Reason, name string, job map[string]json.RawMessage, why any) *rejection {
	return &rejection{reason, fmt.Sprintf("the field %s is %s: %v", name, quoted(job[name]), why), ""}
}

// jobHeaders returns the headers of a job without those that would say something else to request than its JSON does.
// The body of the request is that JSON, and unless the record says otherwise, it is called so.
func jobHeaders(headers []Header) []Header {
	kept, typed := make([]Header, 0, len(headers)+2), false
	for _, h := range headers {
		if h.Name == HeaderURL || h.Name == HeaderMethod {
			continue
		}
		typed = typed || strings.EqualFold(h.Name, "content-type")
		kept = append(kept, h)
	}
	if !typed {
		kept = append(kept, Header{"content-type", []byte("application/json")})
	}
	return kept
}

// jobID returns the id of a job: its key, a slash, and what the job calls itself. In the key a slash, a percent sign,
// and what is no text are written as in a URL. So two jobs never have the same id, and a person can tell which one it
// is.
func jobID(key []byte, id string) string {
	var b strings.Builder
	for len(key) > 0 {
		r, size := utf8.DecodeRune(key)
		if r == '/' || r == '%' || r < ' ' || r == 0x7f || r == utf8.RuneError && size == 1 {
			fmt.Fprintf(&b, "%%%02X", key[0])
		} else {
			b.Write(key[:size])
		}
		key = key[size:]
	}
	return b.String() + "/" + id
}

// isURL reports whether something looks like what can be requested. The sink decides, when it is due.
func isURL(text string) bool {
	lower := strings.ToLower(text)
	return (strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// unquoted returns the text of a field that may be a text or a number.
func unquoted(field json.RawMessage) []byte {
	var text string
	if json.Unmarshal(field, &text) == nil && field[0] == '"' {
		return []byte(text)
	}
	return field
}

// unixSeconds reads whole seconds since 1970.
func unixSeconds(value []byte) (time.Time, error) {
	if bytes.IndexByte(value, '.') >= 0 || !isNumber(value) {
		return time.Time{}, errors.New("it must be whole seconds since 1970-01-01T00:00:00Z")
	}
	return parseEpoch(string(value), EpochSeconds)
}

// decodeETF1 reads a schedule of etf1. Its key is its id; a null value cancels it. A message waits on the lane where
// it comes out, so a record of a route with several targets has to name one, also to cancel: with one output there is
// nothing to name.
func (c *Config) decodeETF1(in *instruction, r Record, route Route) {
	in.id = string(r.Key)
	var h [3]struct {
		value []byte
		count int
	}
	names := [...]string{HeaderETF1Epoch, HeaderETF1Topic, HeaderETF1Key}
	for _, one := range r.Headers {
		for at, name := range names {
			if one.Name != name {
				continue
			}
			h[at].value = one.Value
			if h[at].count++; h[at].count > 1 {
				in.rejected = &rejection{RepeatedHeader, "there is more than one header " + name, name}
				return
			}
		}
	}
	epoch, topic, key := h[0], h[1], h[2]
	switch lane := string(topic.value); {
	case topic.count > 0 && !route.serves(lane):
		in.rejected = noTarget(HeaderETF1Topic, lane, route)
	case topic.count > 0:
		in.message.Lane = lane
	case len(route.Targets) > 0:
		in.rejected = &rejection{MissingTopic, fmt.Sprintf("there is no header %s, and input topic %s has several "+
			"targets", HeaderETF1Topic, route.Input), HeaderETF1Topic}
	}
	if in.rejected != nil || in.action == Cancel {
		return
	}
	if epoch.count == 0 {
		in.rejected = missing(MissingDeadline, r.Headers, HeaderETF1Epoch)
		return
	}
	deadline, err := unixSeconds(epoch.value)
	if err != nil {
		in.rejected = wrong(InvalidDeadline, HeaderETF1Epoch, epoch.value, err)
		return
	}
	in.message.Deadline, in.message.Key, in.message.Value = deadline, key.value, r.Value
	in.message.Headers = c.relayed(r.Headers)
	if !r.Timestamp.IsZero() {
		in.message.Headers = append(in.message.Headers,
			Header{HeaderETF1Timestamp, strconv.AppendInt(nil, r.Timestamp.Unix(), 10)})
	}
	in.message.Headers = append(in.message.Headers,
		Header{HeaderETF1SourceKey, r.Key}, Header{HeaderETF1SourceTopic, []byte(r.Topic)})
}
