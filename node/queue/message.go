package queue

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// What a message of the lane is to its task, in the header node.HeaderTaskPart; node.TaskArrives and node.TaskEnds are
// the others.
const (
	partExecution     = "execution"
	partPromisePrefix = "promise/" // and the place of the action in Task.Promise
	partRelief        = "relief"
)

func partPromise(i int) string { return partPromisePrefix + strconv.Itoa(i) }

// derive returns what is named by something that happens once, as far as one history of the store goes: the instant
// tells histories apart, where a store was set back.
func derive(of uuid.UUID, what string, at time.Time) uuid.UUID {
	return uuid.NewSHA1(of, []byte(what+"/"+strconv.FormatInt(at.UnixMicro(), 10)))
}

// message returns the message of an action that a task asks for.
func (r *run) message(t *Task, a *Action, part string) node.Message {
	m := r.plain(a, Tags{Task: t.ID.String(), Status: string(t.Status)}, a == t.Inline)
	m.ID = node.InternalPrefix + t.ID.String() + "/" + t.Run.String() + "/" + part
	m.Incarnation = derive(t.Run, part, r.now)
	m.Headers = append(m.Headers,
		node.Header{Name: node.HeaderTask, Value: []byte(t.ID.String())},
		node.Header{Name: node.HeaderTaskRun, Value: []byte(t.Run.String())},
	)
	if part != partExecution {
		m.Headers = append(m.Headers, node.Header{Name: node.HeaderTaskStatus, Value: []byte(t.Status)})
	}
	if a.Topic == "" {
		m.Headers = append(m.Headers, node.Header{Name: node.HeaderTaskPart, Value: []byte(part)})
	}
	return m
}

// relief returns the message of the relief of a queue.
func (r *run) relief(q *Queue, a *Action) node.Message {
	m := r.plain(a, Tags{}, false)
	m.Incarnation = derive(q.ID, partRelief, r.now)
	m.ID = node.InternalPrefix + q.ID.String() + "/" + m.Incarnation.String() + "/" + partRelief
	if a.Topic == "" {
		m.Headers = append(m.Headers, node.Header{Name: node.HeaderTaskPart, Value: []byte(partRelief)})
	}
	return m
}

// plain returns the message of an action, due at once, without a name. The tags of a request are replaced when it is
// made, since only the node that makes it knows its address; those of a record at once.
func (r *run) plain(a *Action, tags Tags, asIs bool) node.Message {
	m := node.Message{Lane: a.Topic, Deadline: r.now, Key: a.Key, Value: a.Payload}
	if a.Topic == "" {
		m.Lane = Lane
		m.Headers = append(m.Headers,
			node.Header{Name: node.HeaderURL, Value: []byte(a.URI)},
			node.Header{Name: node.HeaderMethod, Value: []byte(a.Method)})
		m.Headers = append(m.Headers, a.Headers...)
		return m
	}
	if asIs {
		m.Headers = append(m.Headers, a.Headers...)
		return m
	}
	m.Value = Expand(a.Payload, tags)
	for _, h := range a.Headers {
		m.Headers = append(m.Headers, node.Header{Name: h.Name, Value: Expand(h.Value, tags)})
	}
	return m
}

// Tags are what the tags of an action stand for.
type Tags struct {
	API        string // the address of this service, with a / at its end
	Completion string // the address that completes the task
	Task       string // its UUID
	Status     string // its status
}

// The tags, which stand between << and >> after HORAE_ or CHRONOS_.
const (
	tagAPI        = "API_URI"
	tagCompletion = "COMPLETION_URI"
	tagTask       = "TASK_UUID"
	tagStatus     = "TASK_STATUS"
)

// Expand replaces the tags in a text. What is no tag stays as it is; nothing that is put in is looked at again.
func Expand(text []byte, tags Tags) []byte {
	if !bytes.Contains(text, []byte("<<")) {
		return text
	}
	var pairs []string
	for _, tag := range [][2]string{
		{tagAPI, tags.API}, {tagCompletion, tags.Completion}, {tagTask, tags.Task}, {tagStatus, tags.Status},
	} {
		pairs = append(pairs, "<<HORAE_"+tag[0]+">>", tag[1], "<<CHRONOS_"+tag[0]+">>", tag[1])
	}
	return []byte(strings.NewReplacer(pairs...).Replace(string(text)))
}

// usesAddress reports whether a text has a tag that stands for an address.
func usesAddress(text []byte) bool {
	const mark = "\x00"
	return !bytes.Equal(Expand(text, Tags{Task: mark, Status: mark}),
		Expand(text, Tags{API: mark, Completion: mark, Task: mark, Status: mark}))
}
