package metaswitch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"chronos/node"
)

// timer is what the body of a request says.
type timer struct {
	interval, repeatFor time.Duration

	// start is when the timer was begun, from which its pops are counted, and sequence how many pops came before. Both
	// are for timers that are brought along from another cluster; elsewhere they are now, and 0.
	start    time.Time
	sequence int64

	uri, opaque string

	factor uint32 // of replication: as in the URL, or the body, or 2
	tags   map[string]uint64
}

// defaultFactor is the replication factor of a timer of which nobody says one.
const defaultFactor = 2

// parse reads the body of a POST or a PUT. factor is that of the URL, 0 for none. The error is a sentence for whoever
// has sent the request.
func parse(body []byte, factor uint32, now time.Time) (*timer, error) {
	if !utf8.Valid(body) {
		return nil, errors.New("the body is not UTF-8: put binary data for opaque in Base64")
	}
	whole, err := objectOf("the body", body)
	if err != nil {
		return nil, err
	}
	t := &timer{start: now, factor: factor}
	for _, read := range []func(object) error{t.readTiming, t.readCallback, t.readReliability} {
		if err := read(whole); err != nil {
			return nil, err
		}
	}
	t.readTags(whole)
	return t, nil
}

// tombstone reports whether the timer is none: that is how a replica is told of a delete, and how a client may ask for
// one.
func (t *timer) tombstone() bool { return t.uri == "" && t.opaque == "" }

// pops returns how many times the timer pops in all. It pops once if it repeats for less than its interval: whether it
// is to pop again is asked behind each pop, and never before the first.
func (t *timer) pops() int64 {
	if t.interval == 0 {
		return 1
	}
	return max(1, int64(t.repeatFor/t.interval))
}

// first returns when the timer pops first, of all pops there are or were.
func (t *timer) first() time.Time { return t.start.Add(t.interval) }

// next returns when the timer pops next.
func (t *timer) next() time.Time { return t.start.Add(time.Duration(t.sequence+1) * t.interval) }

// readTiming reads the member timing.
func (t *timer) readTiming(whole object) error {
	timing, err := whole.object("timing")
	if err != nil {
		return err
	}
	interval, err := timing.seconds("interval")
	if err != nil {
		return err
	}
	repeatFor := interval
	if _, given := timing.members["repeat-for"]; given {
		if repeatFor, err = timing.seconds("repeat-for"); err != nil {
			return err
		}
	}
	if interval == 0 && repeatFor != 0 {
		return fmt.Errorf("timing.interval is 0, and timing.repeat-for is %d: a timer that repeats needs an interval",
			repeatFor/time.Second)
	}
	t.interval, t.repeatFor = interval, repeatFor
	if _, given := timing.members["start-time-delta"]; given {
		var delta int64
		if delta, err = timing.integer("start-time-delta", math.MinInt32, math.MaxInt32); err != nil {
			return err
		}
		t.start = t.start.Add(time.Duration(delta) * time.Millisecond)
	} else if _, given := timing.members["start-time"]; given {
		var start int64
		if start, err = timing.integer("start-time", 0, maxStart); err != nil {
			return err
		}
		t.start = startOf(start, t.start)
	}
	if _, given := timing.members["sequence-number"]; given {
		if t.sequence, err = timing.integer("sequence-number", 0, math.MaxInt32); err != nil {
			return err
		}
		if t.sequence > 0 && time.Duration(t.sequence+1) > maxAhead/max(t.interval, 1) {
			return errors.New("timing.sequence-number and timing.interval lead more than 290 years ahead")
		}
	}
	return nil
}

const (
	// maxStart is the last instant that start-time may name, in milliseconds: the year 9999 begins.
	maxStart = 253_370_764_800_000

	// maxAhead is the longest duration there is, or nearly so.
	maxAhead = 290 * 365 * 24 * time.Hour
)

// startOf returns the instant that a start-time names: milliseconds since 1970, of which their nodes send the lowest 32
// bits. Such a one is the nearest to now.
func startOf(start int64, now time.Time) time.Time {
	if start > math.MaxUint32 {
		return time.UnixMilli(start)
	}
	from := int32(uint32(start) - uint32(now.UnixMilli())) //nolint:gosec // it is meant to wrap
	return now.Add(time.Duration(from) * time.Millisecond)
}

// readCallback reads the member callback.
func (t *timer) readCallback(whole object) error {
	callback, err := whole.object("callback")
	if err != nil {
		return err
	}
	http, err := callback.object("http")
	if err != nil {
		return err
	}
	if t.uri, err = http.text("uri"); err != nil {
		return err
	}
	t.opaque, err = http.text("opaque")
	return err
}

// readReliability reads the member reliability. Of what it says the factor is kept, for the name of the timer. The
// rest is what nodes of a cluster tell each other, and is looked at as they do.
func (t *timer) readReliability(whole object) error {
	of := t.factor // that of the URL
	if t.factor == 0 {
		t.factor = defaultFactor
	}
	if _, given := whole.members["reliability"]; !given {
		return nil
	}
	reliability, err := whole.object("reliability")
	if err != nil {
		return err
	}
	if _, given := reliability.members["cluster-view-id"]; given {
		if _, err := reliability.text("cluster-view-id"); err != nil {
			return err
		}
	}
	if _, given := reliability.members["sites"]; given {
		if _, err := reliability.texts("sites"); err != nil {
			return err
		}
	}
	if _, given := reliability.members["replicas"]; given {
		replicas, err := reliability.texts("replicas")
		if err == nil && len(replicas) == 0 {
			err = errors.New("reliability.replicas is empty: it must name a replica, or be left out")
		}
		if of == 0 {
			t.factor = uint32(min(len(replicas), math.MaxInt32)) //nolint:gosec // just bounded
		}
		return err
	}
	if _, given := reliability.members["replication-factor"]; !given {
		return nil
	}
	factor, err := reliability.integer("replication-factor", 1, math.MaxInt32)
	switch {
	case err != nil:
		return err
	case of > 0 && factor != int64(of):
		return fmt.Errorf("the timer's name ends with the replication factor %d, and reliability.replication-factor "+
			"is %d: it cannot be changed", of, factor)
	}
	t.factor = uint32(factor)
	return nil
}

// readTags reads the member statistics. What is wrong there is left out, and is no error.
func (t *timer) readTags(whole object) {
	statistics, err := whole.object("statistics")
	if err != nil {
		return
	}
	var tags []json.RawMessage
	if json.Unmarshal(statistics.members["tag-info"], &tags) != nil {
		return
	}
	for i, raw := range tags {
		tag, err := objectOf(fmt.Sprintf("statistics.tag-info[%d]", i), raw)
		if err != nil {
			continue
		}
		name, err := tag.text("type")
		if err != nil || !isTag(name) {
			continue
		}
		count := int64(1)
		if _, given := tag.members["count"]; given {
			if count, err = tag.integer("count", 0, math.MaxUint32); err != nil {
				continue
			}
		}
		if t.tags == nil {
			t.tags = map[string]uint64{}
		}
		if _, known := t.tags[name]; known || len(t.tags) < maxTags {
			t.tags[name] += uint64(count)
		}
	}
}

const (
	// maxTagBytes is the length that a tag may have, by their document.
	maxTagBytes = 16

	// maxTags is how many tags one timer may have.
	maxTags = 32
)

// isTag reports whether a tag can be counted: 1 to 16 letters from A to Z and, beyond what their document says, digits
// and underscores, which their tests use.
func isTag(name string) bool {
	return name != "" && len(name) <= maxTagBytes && strings.IndexFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII || r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
}

// object is an object in JSON, whose members are read one by one: by their exact names, which struct tags are not.
type object struct {
	name    string // what to call it
	members map[string]json.RawMessage
}

func objectOf(name string, raw []byte) (object, error) {
	o := object{name: name}
	if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '{' {
		return o, fmt.Errorf("%s is not an object of JSON", name)
	}
	if err := json.Unmarshal(raw, &o.members); err != nil {
		return o, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	return o, nil
}

// path returns what to call a member.
func (o object) path(name string) string {
	if o.name == "the body" {
		return name
	}
	return o.name + "." + name
}

// member returns a member that must be there.
func (o object) member(name string) (json.RawMessage, error) {
	raw, given := o.members[name]
	if !given {
		return nil, fmt.Errorf("there is no %s", o.path(name))
	}
	return raw, nil
}

func (o object) object(name string) (object, error) {
	raw, err := o.member(name)
	if err != nil {
		return object{}, err
	}
	return objectOf(o.path(name), raw)
}

func (o object) text(name string) (string, error) {
	raw, err := o.member(name)
	if err != nil {
		return "", err
	}
	return textOf(o.path(name), raw)
}

func textOf(path string, raw []byte) (text string, err error) {
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", fmt.Errorf("%s is not a text", path)
	}
	if !node.WholeJSON(raw) {
		return "", fmt.Errorf("%s has half a surrogate pair, which is no character", path)
	}
	return text, nil
}

func (o object) texts(name string) ([]string, error) {
	var raw []json.RawMessage
	if json.Unmarshal(o.members[name], &raw) != nil || raw == nil {
		return nil, fmt.Errorf("%s is not a list", o.path(name))
	}
	texts := make([]string, len(raw))
	for i := range raw {
		var err error
		if texts[i], err = textOf(fmt.Sprintf("%s[%d]", o.path(name), i), raw[i]); err != nil {
			return nil, err
		}
	}
	return texts, nil
}

// integer returns a whole number between two others. 10.0 is none, there as here.
func (o object) integer(name string, least, most int64) (int64, error) {
	raw, err := o.member(name)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s is not a whole number from %d to %d", o.path(name), least, most)
	}
	return n, nil
}

func (o object) seconds(name string) (time.Duration, error) {
	n, err := o.integer(name, 0, math.MaxInt32)
	return time.Duration(n) * time.Second, err
}

// record returns the record that would ask for the same: the timer as a series.
func (t *timer) record(id string, now time.Time) node.Record {
	interval, first := t.interval, t.first()
	if interval == 0 {
		interval, first = time.Second, t.start // it pops once, and at once
	}
	headers := []node.Header{
		{Name: node.HeaderID, Value: []byte(id)},
		{Name: node.HeaderAction, Value: []byte(node.Replace.String())},
		{Name: node.HeaderDeadline, Value: upTo(first).UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z07:00")},
		{Name: node.HeaderRepeat, Value: []byte("every " + interval.String())},
		{Name: node.HeaderRepeatCount, Value: strconv.AppendInt(nil, t.pops(), 10)},
		{Name: node.HeaderURL, Value: []byte(t.uri)},
		{Name: "Content-Type", Value: []byte("application/octet-stream")},
	}
	if len(t.tags) > 0 {
		headers = append(headers, node.Header{Name: headerTags, Value: writeTags(t.tags)})
	}
	return node.Record{Timestamp: now, Headers: headers, Value: []byte(t.opaque)}
}

// upTo returns the first whole microsecond that is not before an instant: the store has no finer ones, and nothing is
// to pop early.
func upTo(t time.Time) time.Time {
	return t.Add(time.Microsecond - time.Nanosecond).Truncate(time.Microsecond)
}
