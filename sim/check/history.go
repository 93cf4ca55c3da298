package check

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// header is the first line of every history.
const header = "chronos history 1"

// maxLine bounds a line of a history, in bytes.
const maxLine = 1 << 20

// Writer writes a history as text, one event to a line. docs/HISTORY.md describes the format.
type Writer struct {
	out *bufio.Writer
	err error
}

// NewWriter begins a history.
func NewWriter(out io.Writer) *Writer {
	w := &Writer{out: bufio.NewWriter(out)}
	_, w.err = w.out.WriteString(header + "\n")
	return w
}

// Add writes an event. An error is kept for Flush.
func (w *Writer) Add(e *Event) {
	if w.err == nil {
		_, w.err = w.out.WriteString(e.String() + "\n")
	}
}

// Flush writes what is left and returns the first error that there was.
func (w *Writer) Flush() error {
	if w.err != nil {
		return fmt.Errorf("write the history: %w", w.err)
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("write the history: %w", err)
	}
	return nil
}

// String returns the event as a line of a history.
func (e *Event) String() string {
	var line strings.Builder
	line.WriteString(e.At.String() + " " + string(e.Kind))
	fields := e.fields()
	if e.Config != nil {
		fields = e.Config.fields()
	}
	for _, f := range fields {
		if value := f.get(); value != "" {
			line.WriteString(" " + f.name + "=" + quoted(value))
		}
	}
	return line.String()
}

// quoted quotes a value that would not be read back as it is.
func quoted(value string) string {
	plain := func(r rune) bool { return r <= ' ' || r == '"' || r == '\\' || r > '~' }
	if value == "-" || strings.ContainsFunc(value, plain) {
		return strconv.Quote(value)
	}
	return value
}

// Read reads a history and hands each event to add, in order. Empty lines and lines that begin with # are comments.
// An error names the line.
func Read(in io.Reader, add func(*Event) error) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	begun := false
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case line == "" || line[0] == '#':
			continue
		case !begun && line != header:
			return fmt.Errorf("line %d: this is no history: its first line is %q instead of %q", n, line, header)
		case !begun:
			begun = true
			continue
		}
		e, err := ParseEvent(line)
		if err == nil {
			err = add(e)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the history: %w", err)
	}
	if !begun {
		return fmt.Errorf("this is no history: it is empty")
	}
	return nil
}

// ParseEvent reads a line of a history.
func ParseEvent(line string) (*Event, error) {
	at, rest, _ := strings.Cut(line, " ")
	kind, rest, _ := strings.Cut(rest, " ")
	e := &Event{Kind: Kind(kind)}
	var err error
	if e.At, err = time.ParseDuration(at); err != nil {
		return nil, fmt.Errorf("%q is no time: %w", at, err)
	}
	if !slices.Contains(Kinds(), e.Kind) {
		return nil, fmt.Errorf("there is no kind of event %q", kind)
	}
	fields := e.fields()
	if e.Kind == Configure {
		e.Config = &Config{}
		fields = e.Config.fields()
	}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		var name, value string
		if name, value, rest, err = cutField(rest); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s has no field %q", kind, name)
		}
		if err := fields[i].set(value); err != nil {
			return nil, fmt.Errorf("set %s to %q: %w", name, value, err)
		}
	}
	return e, nil
}

// cutField takes the first name=value off a line.
func cutField(line string) (name, value, rest string, err error) {
	name, line, found := strings.Cut(line, "=")
	if !found {
		return "", "", "", fmt.Errorf("%q is not of the form name=value", name)
	}
	if !strings.HasPrefix(line, `"`) {
		value, rest, _ = strings.Cut(line, " ")
		return name, value, rest, nil
	}
	prefix, err := strconv.QuotedPrefix(line)
	if err != nil {
		return "", "", "", fmt.Errorf("the value of %s has no end: %w", name, err)
	}
	value, err = strconv.Unquote(prefix)
	return name, value, line[len(prefix):], err
}

// Kinds returns all kinds of events.
func Kinds() []Kind {
	return []Kind{
		Submit, Fire, Copy, See, Truncate, Retain, Drop,
		Start, Term, Stop, Crash, Jump, Cut, Mend,
		Join, Leave, Poll, Deliver, Commit, Rewind, Reject, Lost,
		Place, Upgrade, Take, Move, Lineage, Mark, CaughtUp,
		Insert, Decide, Hear, Answer, Recur, Duplicate, Ready, Claim, Reset, Delete, DeleteDone,
		Rollback, Keep, KeepPlace, Taken, Pause, Resume, Lock, Unlock,
		Publish, Unknown, Fail, Hang, Unreached, Work,
		PutQueue, DropQueue, Arrive, Done, Promise, Withdraw, Begin, QueueGone, KeepQueue, KeepTask, Call, Accept, Told,
		Configure, Fault, Error, Heal, End,
	}
}

// field is one value of an event, by its name. get returns "" for the zero value.
type field struct {
	name string
	get  func() string
	set  func(string) error
}

func (e *Event) fields() []field {
	return []field{
		fieldOf("node", &e.Node, parseText),
		fieldOf("port", &e.Port, parseText),
		fieldOf("message", &e.Message, strconv.Atoi),
		fieldOf("id", &e.ID, parseText),
		fieldOf("topic", &e.Topic, parseText),
		fieldOf("partition", &e.Partition, parseText),
		fieldOf("part", &e.Part, parseText),
		fieldOf("offset", &e.Offset, parseOffset),
		fieldOf("to", &e.To, parseOffset),
		fieldOf("epoch", &e.Epoch, strconv.Atoi),
		fieldOf("lineage", &e.Lineage, parseOffset),
		fieldOf("incarnation", &e.Incarnation, ParseUUID),
		fieldOf("owner", &e.Owner, ParseUUID),
		fieldOf("stamp", &e.Stamp, time.ParseDuration),
		fieldOf("age", &e.Age, time.ParseDuration),
		fieldOf("expires", &e.Expires, time.ParseDuration),
		fieldOf("deadline", &e.Deadline, time.ParseDuration),
		fieldOf("action", &e.Action, parseText),
		fieldOf("of", &e.Of, strconv.Atoi),
		fieldOf("next", &e.Next, ParseUUID),
		fieldOf("only", &e.Only, ParseUUID),
		fieldOf("request", &e.Request, ParseUUID),
		fieldOf("written", &e.Written, parseText),
		fieldOf("every", &e.Every, time.ParseDuration),
		fieldOf("not_after", &e.NotAfter, time.ParseDuration),
		fieldOf("due", &e.Due, time.ParseDuration),
		fieldOf("until", &e.Until, time.ParseDuration),
		fieldOf("wall", &e.Wall, time.ParseDuration),
		fieldOf("mono", &e.Mono, time.ParseDuration),
		fieldOf("limit", &e.Limit, strconv.Atoi),
		fieldOf("nth", &e.Nth, strconv.Atoi),
		fieldOf("payload", &e.Payload, parseDigest),
		fieldOf("key", &e.Key, parseDigest),
		fieldOf("flaw", &e.Flaw, parseFlaw),
		fieldOf("skipped", &e.Skipped, strconv.ParseBool),
		fieldOf("adopted", &e.Adopted, strconv.ParseBool),
		fieldOf("unsent", &e.Unsent, strconv.ParseBool),
		fieldOf("behind", &e.Behind, strconv.ParseBool),
		fieldOf("former", &e.Former, strconv.ParseBool),
		fieldOf("past", &e.Past, strconv.ParseBool),
		fieldOf("twice", &e.Twice, strconv.ParseBool),
		fieldOf("text", &e.Text, parseText),
		windowsField(&e.Windows),
		fieldOf("queue", &e.Queue, ParseUUID),
		fieldOf("task", &e.Task, ParseUUID),
		fieldOf("run", &e.Run, ParseUUID),
		fieldOf("priority", &e.Priority, strconv.Atoi),
		fieldOf("arrival", &e.Arrival, parseOffset),
		fieldOf("paths", &e.Paths, parseText),
		fieldOf("lasts", &e.Lasts, time.ParseDuration),
		fieldOf("sync", &e.Sync, strconv.ParseBool),
		fieldOf("drain", &e.Drain, strconv.ParseBool),
		fieldOf("deleting", &e.Deleting, strconv.ParseBool),
	}
}

func windowsField(windows *[]Window) field {
	return field{
		"windows",
		func() string { return windowsText(*windows) },
		func(s string) (err error) { *windows, err = parseWindows(s); return err },
	}
}

func (c *Config) fields() []field {
	recorded := field{
		"recorded",
		func() string { return joined(c.Recorded) },
		func(s string) (err error) { c.Recorded, err = parseKinds(s); return err },
	}
	return []field{
		recorded,
		fieldOf("hold_time", &c.HoldTime, time.ParseDuration),
		fieldOf("timing_advance", &c.TimingAdvance, time.ParseDuration),
		fieldOf("adaptive", &c.Adaptive, strconv.ParseBool),
		fieldOf("poll_interval", &c.PollInterval, time.ParseDuration),
		fieldOf("idle_interval", &c.IdleInterval, time.ParseDuration),
		fieldOf("detection_interval", &c.DetectionInterval, time.ParseDuration),
		fieldOf("lookahead", &c.Lookahead, time.ParseDuration),
		fieldOf("leave_after", &c.LeaveAfter, time.ParseDuration),
		fieldOf("store_timeout", &c.StoreTimeout, time.ParseDuration),
		fieldOf("publish_timeout", &c.PublishTimeout, time.ParseDuration),
		fieldOf("publishable_age", &c.PublishableAge, time.ParseDuration),
		fieldOf("retry", &c.Retry, time.ParseDuration),
		fieldOf("stand_back", &c.StandBack, time.ParseDuration),
		fieldOf("call_wait", &c.CallWait, time.ParseDuration),
		fieldOf("ordered", &c.Ordered, strconv.ParseBool),
		fieldOf("retry_for", &c.RetryFor, time.ParseDuration),
		fieldOf("store_latency", &c.StoreLatency, time.ParseDuration),
		fieldOf("broker_latency", &c.BrokerLatency, time.ParseDuration),
		fieldOf("clock_error", &c.ClockError, time.ParseDuration),
		fieldOf("session", &c.Session, time.ParseDuration),
		fieldOf("rebalance", &c.Rebalance, time.ParseDuration),
		fieldOf("settle", &c.Settle, time.ParseDuration),
		fieldOf("nodes", &c.Nodes, strconv.Atoi),
		fieldOf("hops", &c.Hops, strconv.Atoi),
		fieldOf("lanes", &c.Lanes, strconv.Atoi),
		fieldOf("calls", &c.Calls, strconv.Atoi),
		fieldOf("lane_calls", &c.LaneCalls, strconv.Atoi),
		fieldOf("batch", &c.Batch, strconv.Atoi),
		fieldOf("messages", &c.Messages, strconv.Atoi),
		fieldOf("dead_letter", &c.DeadLetter, strconv.ParseBool),
		fieldOf("begin", &c.Begin, time.ParseDuration),
		windowsField(&c.Windows),
		{
			"paces",
			func() string { return pacesText(c.Paces) },
			func(s string) (err error) { c.Paces, err = parsePaces(s); return err },
		},
	}
}

func fieldOf[T comparable](name string, value *T, parse func(string) (T, error)) field {
	get := func() string {
		var zero T
		if *value == zero {
			return ""
		}
		if digest, is := any(*value).(uint64); is {
			return strconv.FormatUint(digest, 16)
		}
		return fmt.Sprint(*value)
	}
	return field{name, get, func(s string) (err error) { *value, err = parse(s); return err }}
}

func parseText(s string) (string, error) { return s, nil }

func parseOffset(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) }

func parseDigest(s string) (uint64, error) { return strconv.ParseUint(s, 16, 64) }

func parseFlaw(s string) (string, error) {
	if !slices.Contains([]string{Invalid, Poison, Unacknowledged}, s) {
		return "", fmt.Errorf("there is no such flaw")
	}
	return s, nil
}

func joined(kinds []Kind) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ",")
}

func parseKinds(s string) ([]Kind, error) {
	var kinds []Kind
	for name := range strings.SplitSeq(s, ",") {
		if !slices.Contains(Kinds(), Kind(name)) {
			return nil, fmt.Errorf("there is no kind of event %q", name)
		}
		kinds = append(kinds, Kind(name))
	}
	return kinds, nil
}
