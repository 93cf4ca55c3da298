package queue

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/calendar"
)

const (
	// always is the normal form of a window that is never closed.
	always = "always"

	maxTags    = 64 // of anything
	maxPaths   = 64 // of a queue
	maxPath    = 255
	maxPromise = 64 // actions

	// maxLimit bounds time limits and depths far beyond what anybody means.
	maxLimit = 10 * 365 * 24 * time.Hour

	// maxAction bounds the bytes of an action that others may name: its tags make it longer.
	maxAction = 4 << 20

	// spare is what the headers of a task take in a message.
	spare = 1 << 10
)

// normalise refuses a queue that can never be one, and brings it into the form that is kept.
func (q *Queue) normalise(now time.Time) error {
	if q.ID == uuid.Nil {
		return refuse(Invalid, "A queue must have a UUID.")
	}
	if why := checkName(q.Name); why != "" {
		return refuse(Invalid, "The name of a queue %s.", why)
	}
	if q.Kind != Async && q.Kind != Sync {
		return refuse(Invalid, "The kind of a queue is %.20q; it must be %s or %s.", q.Kind, Async, Sync)
	}
	if q.Window == "" {
		q.Window = always
	}
	window, err := calendar.ParseWindow(q.Window, now)
	if err != nil {
		return refuse(Invalid, "The window of a queue: %v.", strings.TrimSuffix(err.Error(), "."))
	}
	q.Window = window.String()
	if q.TimeLimit == 0 {
		q.TimeLimit = DefaultTimeLimit
	}
	q.TimeLimit = q.TimeLimit.Truncate(time.Microsecond)
	switch {
	case q.TimeLimit < time.Millisecond || q.TimeLimit > maxLimit:
		return refuse(Invalid, "The time limit of a queue is %v; it must be from 1ms to %d days.", q.TimeLimit,
			maxLimit/(24*time.Hour))
	case q.Depth < 0 || q.Depth > math.MaxInt32:
		return refuse(Invalid, "The depth of a queue is %d; it must be from 0, for no bound, to %d.", q.Depth,
			math.MaxInt32)
	case len(q.Paths) > maxPaths:
		return refuse(Invalid, "A queue has %d paths; it may have %d.", len(q.Paths), maxPaths)
	}
	for _, path := range q.Paths {
		if why := checkPath(path); why != "" {
			return refuse(Invalid, "The path %.300q of a queue %s.", path, why)
		}
	}
	q.Paths = unique(q.Paths)
	q.Tags, err = checkTags(q.Tags)
	return err
}

// checkName returns why a name cannot be that of a queue, in words that go on from "the name"; empty if it can.
func checkName(name string) string {
	if _, why := node.CheckID(name); why != "" {
		return why
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return "has control characters"
	}
	return ""
}

// checkPath returns why a path cannot be that of a queue; empty if it can.
func checkPath(path string) string {
	switch {
	case !strings.HasPrefix(path, "/"):
		return "does not begin with /: write it like /apps/mail"
	case path == "/":
		return "is that of everything: leave it out, or name a place inside"
	case strings.HasSuffix(path, "/"):
		return "ends with /: leave that out"
	case strings.Contains(path, "//"):
		return "has two / in a row: name what is between them, or leave one out"
	case len(path) > maxPath:
		return fmt.Sprintf("has more than %d bytes", maxPath)
	case !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl):
		return "is not UTF-8, or has control characters"
	}
	return ""
}

// prefixes returns all true prefixes, by segments, of some paths: those of /apps/mail/out are /apps and /apps/mail.
func prefixes(paths []string) []string {
	var all []string
	for _, path := range paths {
		for i := 1; i < len(path); i++ {
			if path[i] == '/' {
				all = append(all, path[:i])
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Prefixes returns the paths at which a queue lies that contains this one, for stores.
func (q *Queue) Prefixes() []string { return prefixes(q.Paths) }

// Inside reports whether a queue lies inside one of some paths: whether one of its own has one of them as a true
// prefix.
func (q *Queue) Inside(paths []string) bool {
	return slices.ContainsFunc(q.Paths, func(own string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(own, path+"/") })
	})
}

// At reports whether a queue lies at one of some paths exactly.
func (q *Queue) At(paths []string) bool {
	return slices.ContainsFunc(q.Paths, func(own string) bool { return slices.Contains(paths, own) })
}

// unique returns what is in a list, each once, in its order; nil for nothing.
func unique(list []string) []string {
	var kept []string
	for _, one := range list {
		if !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

func checkTags(tags []string) ([]string, error) {
	if len(tags) > maxTags {
		return nil, refuse(Invalid, "There are %d tags; there may be %d.", len(tags), maxTags)
	}
	for _, tag := range tags {
		if why := checkName(tag); why != "" {
			return nil, refuse(Invalid, "The tag %.150q %s.", tag, why)
		}
	}
	return unique(tags), nil
}

// checkLabel refuses a name for people, which may be empty, and need not be unique.
func checkLabel(what, name string) error {
	if name == "" {
		return nil
	}
	if why := checkName(name); why != "" {
		return refuse(Invalid, "The name of %s %s.", what, why)
	}
	return nil
}

// normalise refuses a task that can never be one, and brings it into the form that is kept. What becomes of a task is
// not looked at.
func (t *Task) normalise() error {
	if t.ID == uuid.Nil {
		return refuse(Invalid, "A task must have a UUID.")
	}
	if t.Queue == uuid.Nil {
		t.Queue = Root
	}
	if err := checkLabel("a task", t.Name); err != nil {
		return err
	}
	tags, err := checkTags(t.Tags)
	if err != nil {
		return err
	}
	t.Tags = tags
	if !t.When.IsZero() {
		t.When = t.When.UTC().Truncate(time.Microsecond)
	}
	switch {
	case t.Priority < math.MinInt32 || t.Priority > math.MaxInt32:
		return refuse(Invalid, "The priority %d of a task is not from %d to %d.", t.Priority, math.MinInt32,
			math.MaxInt32)
	case t.When.Year() < 1 || t.When.Year() > 9999:
		return refuse(Invalid, "The time of a task is in the year %d, which is not 1 to 9999.", t.When.Year())
	case len(t.Promise) > maxPromise:
		return refuse(Invalid, "A task has %d actions to run when it is completed; it may have %d.", len(t.Promise),
			maxPromise)
	case (t.Execution == uuid.Nil) == (t.Inline == nil):
		return refuse(Invalid, "A task must have one action to run: its execution.")
	}
	if len(t.Promise) == 0 {
		t.Promise = nil
	}
	if t.Inline != nil {
		inline := *t.Inline
		inline.ID, inline.Name, inline.Tags = uuid.Nil, "", nil
		if err := inline.checkContent(true); err != nil {
			return err
		}
		t.Inline = &inline
	}
	t.Fates = strings.Repeat(string(FateOpen), len(t.Promise))
	t.Arrival, t.Status, t.Reason, t.Run = 0, Pending, "", uuid.Nil
	t.Arrived, t.Started, t.Ended = time.Time{}, time.Time{}, time.Time{}
	return nil
}

// check refuses an action that can never be one, and brings it into the form that is kept.
func (a *Action) check() error {
	if a.ID == uuid.Nil {
		return refuse(Invalid, "An action must have a UUID.")
	}
	if err := checkLabel("an action", a.Name); err != nil {
		return err
	}
	tags, err := checkTags(a.Tags)
	if err != nil {
		return err
	}
	a.Tags = tags
	if err := a.checkHeaders(); err != nil {
		return err
	}
	return a.checkContent(false)
}

// checkHeaders refuses headers that stand for what Chronos itself says in a message: of those that come twice the last
// one counts, so that another URL would be requested than the one that the action shows.
func (a *Action) checkHeaders() error {
	for _, h := range a.Headers {
		ours := a.Topic == "" && strings.HasPrefix(h.Name, "chronos")
		switch h.Name {
		case node.HeaderTask, node.HeaderTaskRun, node.HeaderTaskStatus, node.HeaderTaskPart:
			ours = true
		}
		if ours {
			return refuse(Invalid, "An action has a header %.60q, by which Chronos itself says what it is about. "+
				"Leave it out.", h.Name)
		}
	}
	return nil
}

// checkContent refuses an action that is neither a request nor a record.
func (a *Action) checkContent(inline bool) error {
	if len(a.Headers) == 0 {
		a.Headers = nil
	}
	size, limit := len(a.URI)+len(a.Key)+len(a.Payload), maxAction
	if inline {
		limit = node.MaxMessageBytes - spare
	}
	for _, h := range a.Headers {
		size += len(h.Name) + len(h.Value)
	}
	if size > limit {
		return refuse(Invalid, "An action has %d bytes; it may have %d.", size, limit)
	}
	if a.Topic != "" {
		return a.checkRecord(inline)
	}
	uri := string(Expand([]byte(a.URI), Tags{API: "http://x/", Completion: "http://x/"}))
	switch {
	case a.URI == "":
		return refuse(Invalid, "An action must have a URI to request, or a topic to write to.")
	case !utf8.ValidString(uri) || strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		return refuse(Invalid, "The URI %.200q of an action has blanks or control characters, or is not UTF-8.", a.URI)
	case !strings.HasPrefix(uri, "http://") && !strings.HasPrefix(uri, "https://"):
		return refuse(Invalid, "The URI %.200q of an action must begin with http:// or https://.", a.URI)
	case !slices.Contains([]string{"GET", "POST", "HEAD", "PUT", "DELETE"}, a.Method):
		return refuse(Invalid, "The method %.20q of an action must be GET, POST, HEAD, PUT or DELETE.", a.Method)
	case a.Key != nil:
		return refuse(Invalid, "An action that is a request has no key: only a record has one.")
	}
	return nil
}

// checkRecord refuses an action with a topic that is no record.
func (a *Action) checkRecord(inline bool) error {
	switch {
	case !node.IsTopic(a.Topic) && (!inline || !node.IsCallbackLane(a.Topic) || a.Topic == Lane):
		return refuse(Invalid, "The topic %.300q of an action is no name of a topic in Kafka.", a.Topic)
	case a.URI != "" || a.Method != "":
		return refuse(Invalid, "An action has a topic and a URI, or a method: it is either a record or a request.")
	case inline:
		return nil
	}
	addressed := usesAddress(a.Payload)
	for _, h := range a.Headers {
		addressed = addressed || usesAddress(h.Value)
	}
	if addressed {
		return refuse(Invalid, "An action that is a record must not have the tags of addresses: whoever reads it is "+
			"told the task and its run in the headers %s and %s.", node.HeaderTask, node.HeaderTaskRun)
	}
	return nil
}
