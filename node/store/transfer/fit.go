package transfer

import (
	"context"
	"io"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
)

// Picky is a store that can't hold everything that another one can. Whatever it can't is found before anything is
// sealed.
type Picky interface {
	Store

	// Fits returns what judges one import.
	Fits() Fits
}

// Fits judges what is to be imported: Add is told of all of it, batch by batch, and then Refusal returns why it is not
// to be; nil if it may be.
type Fits interface {
	Add(batch *Batch)
	Refusal() error
}

// CheckFor is Check, and has fits be told of what the export has.
func CheckFor(in io.Reader, tell func(Progress), fits Fits) (Header, Counts, error) {
	r, err := newReader(in)
	if err != nil {
		return Header{}, Counts{}, err
	}
	for {
		batch := Batch{ // what was read of it is let go
			ID: r.header.ID, Cluster: r.header.Cluster, Group: r.header.Group, Lineage: r.header.Lineage,
		}
		last, err := r.fill(&batch, 0)
		if err != nil {
			return r.header, r.counts, err
		}
		if fits != nil {
			fits.Add(&batch)
		}
		if last {
			return r.header, r.counts, nil
		}
		tell(Progress{r.counts, r.header.Messages})
	}
}

// Survey has fits be told of what is in a store, sealed or not. In one that is not sealed there may be something else
// by the time that it ends.
func Survey(ctx context.Context, source Store, tell func(Progress), fits Fits) error {
	contents, err := source.Contents(ctx)
	if err != nil {
		return err
	}
	fits.Add(&Batch{Places: contents.Places, Pauses: contents.Pauses})
	for after := uuid.Nil; ; {
		answers, err := source.Told(ctx, after, batchAnswers)
		if err != nil {
			return err
		}
		if len(answers) == 0 {
			break
		}
		fits.Add(&Batch{Answers: answers})
		after = answers[len(answers)-1].Request
	}
	if contents.Queues {
		if err := surveyQueues(ctx, source, fits); err != nil {
			return err
		}
	}
	counts, after := Counts{}, node.MessageID{}
	for {
		messages, err := source.Messages(ctx, after, batchMessages, batchBytes)
		if err != nil || len(messages) == 0 {
			return err
		}
		fits.Add(&Batch{Messages: messages})
		last := &messages[len(messages)-1]
		after = node.MessageID{ID: last.ID, Lane: last.Lane}
		counts.Messages += int64(len(messages))
		tell(Progress{counts, contents.Messages})
	}
}

// surveyQueues has fits be told of some queues, tasks and actions: one of a kind is too many for a store that has none.
func surveyQueues(ctx context.Context, source Store, fits Fits) error {
	queues, err := source.QueuesBehind(ctx, "", batchTasks)
	if err != nil {
		return err
	}
	tasks, err := source.TasksBehind(ctx, uuid.Nil, batchTasks, batchBytes)
	if err != nil {
		return err
	}
	actions, err := source.ActionsBehind(ctx, uuid.Nil, batchTasks, batchBytes)
	if err != nil {
		return err
	}
	root := queue.NewRoot().ID
	for i := range queues {
		if queues[i].ID != root {
			fits.Add(&Batch{Queues: queues[i : i+1]})
		}
	}
	fits.Add(&Batch{Tasks: tasks, Actions: actions})
	return nil
}
