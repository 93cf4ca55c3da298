package queue

import (
	"bytes"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// NewRoot returns the queue root as every store has it at first.
func NewRoot() Queue {
	return Queue{ID: Root, Name: RootName, Kind: Async, Window: always, TimeLimit: DefaultTimeLimit}
}

// Clone returns a copy that shares no memory with q.
func (q *Queue) Clone() Queue {
	c := *q
	c.Paths, c.Tags = slices.Clone(q.Paths), slices.Clone(q.Tags)
	return c
}

// Clone returns a copy that shares no memory with t.
func (t *Task) Clone() Task {
	c := *t
	c.Tags, c.Promise = slices.Clone(t.Tags), slices.Clone(t.Promise)
	if t.Inline != nil {
		inline := t.Inline.Clone()
		c.Inline = &inline
	}
	return c
}

// Clone returns a copy that shares no memory with a.
func (a *Action) Clone() Action {
	c := *a
	c.Tags, c.Key, c.Payload = slices.Clone(a.Tags), slices.Clone(a.Key), slices.Clone(a.Payload)
	c.Headers = nil
	for _, h := range a.Headers {
		c.Headers = append(c.Headers, node.Header{Name: h.Name, Value: slices.Clone(h.Value)})
	}
	return c
}

// Queues reports whether a queue fits the filter. Limit is not looked at here.
func (f *Filter) Queues(q *Queue) bool {
	return (f.ID == uuid.Nil || f.ID == q.ID) && (f.Name == "" || f.Name == q.Name) && f.tagged(q.Tags) &&
		(len(f.Paths) == 0 || q.At(f.Paths)) && q.Name > f.AfterName
}

// Tasks reports whether a task fits the filter. Limit is not looked at here.
func (f *Filter) Tasks(t *Task) bool {
	return (f.ID == uuid.Nil || f.ID == t.ID) && f.tagged(t.Tags) && (f.Queue == uuid.Nil || f.Queue == t.Queue) &&
		(f.Status == "" || f.Status == t.Status) && f.after(t.ID)
}

// Actions reports whether an action fits the filter. Limit is not looked at here.
func (f *Filter) Actions(a *Action) bool {
	return (f.ID == uuid.Nil || f.ID == a.ID) && f.tagged(a.Tags) && f.after(a.ID)
}

func (f *Filter) tagged(tags []string) bool { return f.Tag == "" || slices.Contains(tags, f.Tag) }

func (f *Filter) after(id uuid.UUID) bool { return bytes.Compare(id[:], f.AfterID[:]) > 0 }
