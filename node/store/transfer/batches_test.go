package transfer_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/memory"
	"chronos/node/store/transfer"
)

// enough is how many bytes are read at once, or go into a store at once, and largest how many a row of large has.
const enough, largest = 4 << 20, 1 << 20

// measured is a store that is told how much goes through the memory at once.
type measured struct {
	transfer.Store
	fataler

	pages int
}

// moves checks a page, or a batch.
func (m *measured) moves(what string, size int) {
	m.Helper()
	if m.pages++; size >= enough+largest {
		m.Fatalf("%s: %d bytes at once", what, size)
	}
}

func (m *measured) Messages(
	ctx context.Context, after node.MessageID, limit, size int,
) ([]transfer.Message, error) {
	messages, err := m.Store.Messages(ctx, after, limit, size)
	m.moves("messages", sizeOf(&transfer.Batch{Messages: messages}))
	return messages, err
}

func (m *measured) QueuesBehind(ctx context.Context, name string, limit int) ([]queue.Queue, error) {
	queues, err := m.Store.QueuesBehind(ctx, name, limit)
	m.moves("queues", sizeOf(&transfer.Batch{Queues: queues}))
	return queues, err
}

func (m *measured) TasksBehind(ctx context.Context, id uuid.UUID, limit, size int) ([]queue.Task, error) {
	tasks, err := m.Store.TasksBehind(ctx, id, limit, size)
	m.moves("tasks", sizeOf(&transfer.Batch{Tasks: tasks}))
	return tasks, err
}

func (m *measured) ActionsBehind(ctx context.Context, id uuid.UUID, limit, size int) ([]queue.Action, error) {
	actions, err := m.Store.ActionsBehind(ctx, id, limit, size)
	m.moves("actions", sizeOf(&transfer.Batch{Actions: actions}))
	return actions, err
}

func (m *measured) Receive(ctx context.Context, b transfer.Batch) (transfer.Seal, error) {
	m.moves("a batch", sizeOf(&b))
	return m.Store.Receive(ctx, b)
}

// sizeOf returns how many bytes that are not bounded by something else a batch has.
func sizeOf(b *transfer.Batch) (size int) {
	for i := range b.Messages {
		size += b.Messages[i].Size()
	}
	for i := range b.Queues {
		size += len(strings.Join(b.Queues[i].Paths, "")) + len(strings.Join(b.Queues[i].Tags, ""))
	}
	for i := range b.Actions {
		size += len(b.Actions[i].Payload)
	}
	for i := range b.Tasks {
		if b.Tasks[i].Inline != nil {
			size += len(b.Tasks[i].Inline.Payload)
		}
	}
	return size
}

// large is a store with more of each kind than goes through the memory at once.
func large(t fataler) *memory.Store {
	t.Helper()
	var e everything
	payload := bytes.Repeat([]byte{0xff}, largest)
	for i := range 6 {
		id, name := uuid.UUID{0: 1, 15: byte(i)}, fmt.Sprintf("%03d", i)
		m := transfer.Message{Message: node.Message{ID: name, Lane: "topic", Incarnation: id, Value: payload}}
		m.Deadline = time.UnixMicro(1e15).UTC()
		m.Due = m.Deadline
		e.messages = append(e.messages, m)
		e.actions = append(e.actions, queue.Action{ID: id, Topic: "topic", Payload: payload})
		e.tasks = append(e.tasks, queue.Task{
			ID: id, Queue: queue.Root, Status: queue.Pending, Inline: &queue.Action{Topic: "topic", Payload: payload},
		})
	}
	for i := range 400 {
		q := queue.NewRoot()
		q.ID, q.Name = uuid.UUID{0: 1, 14: byte(i >> 8), 15: byte(i)}, fmt.Sprintf("%03d", i)
		for n := range 64 {
			q.Paths = append(q.Paths, fmt.Sprintf("/%s/%03d/%d", strings.Repeat("x", 200), i, n))
		}
		e.queues = append(e.queues, q)
	}
	e.queues = append(e.queues, queue.NewRoot())
	store := memory.New(time.Now)
	_, err := store.Receive(context.Background(), e.batch())
	check(t, err)
	return store
}

// TestLarge moves more of each kind than goes through the memory at once. Goal: what is read at once is bounded, and so
// is what goes into a store in one transaction, whatever it is about.
func TestLarge(t *testing.T) {
	source := large(t)
	from := &measured{Store: source, fataler: t}
	file := exported(t, from)
	if want := 12; from.pages < want {
		t.Errorf("%d pages are read, want %d or more", from.pages, want)
	}
	target := memory.New(time.Now)
	into := &measured{Store: target, fataler: t}
	_, err := transfer.Import(t.Context(), into, bytes.NewReader(file), "test", quiet)
	check(t, err)
	// All these paths are not asked for one by one.
	same(t, "the target", of(t, struct{ transfer.Store }{target}), of(t, struct{ transfer.Store }{source}), true)

	// Whoever asks whether it fits a journal reads no more at once.
	check(t, transfer.Survey(t.Context(), from, quiet, &judge{}))
	fits := &judge{}
	_, _, err = transfer.CheckFor(bytes.NewReader(file), quiet, fits)
	if check(t, err); fits.most == 0 || fits.most >= enough+largest {
		t.Errorf("to check the file, %d bytes are kept at once", fits.most)
	}
}

// judge is told of what is to fit, and knows how much that was at most.
type judge struct{ most int }

func (j *judge) Add(batch *transfer.Batch) { j.most = max(j.most, sizeOf(batch)) }

func (j *judge) Refusal() error { return nil }
