package transfer

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	"chronos/node"
)

// How much goes through the memory at once.
const (
	batchMessages = 1000
	batchBytes    = 4 << 20
	batchAnswers  = 1000
)

// Progress is how far an export or an import has come. It is told behind each batch.
type Progress struct {
	Counts

	// Of is how many messages there are about; -1 if that is not known.
	Of int64
}

// Drain waits until no claim in a store that is sealed can lead to a publish: each has been settled, or given up, or
// has expired. sleep waits; it returns an error when the wait is over for good. tell is told of what is held before
// each wait.
func Drain(
	ctx context.Context, source Store, sleep func(context.Context, time.Duration) error, tell func(Held),
) error {
	for {
		held, err := source.Held(ctx)
		if err != nil || held.Claims == 0 {
			return err
		}
		tell(held)
		if err := sleep(ctx, min(held.For, time.Second)); err != nil {
			return err
		}
	}
}

// Export writes everything that is in a store to out, which is sealed and drained. The header has what people want to
// know; what the store says is set here. It returns what it has written, and the hash of it.
func Export(
	ctx context.Context, source Store, header Header, out io.Writer, tell func(Progress),
) (counts Counts, sum string, err error) {
	contents, err := source.Contents(ctx)
	if err != nil {
		return counts, "", err
	}
	seal := &contents.Seal
	if seal.Kind != Exported {
		return counts, "", &RefusedError{Reason: "it is not sealed: somebody has undone that"}
	}
	header.Version, header.ID, header.By, header.Sealed = Version, seal.ID, seal.By, seal.Since
	header.Cluster, header.Group, header.Lineage = contents.Bound.Cluster, contents.Bound.Group, seal.Lineage
	header.Messages = contents.Messages
	w := newWriter(out)
	if err := w.write(line{Export: &header}); err != nil {
		return counts, "", err
	}
	for i := range contents.Places {
		if err := w.write(line{Position: lineOfPlace(&contents.Places[i])}); err != nil {
			return w.counts, "", err
		}
	}
	for _, p := range contents.Pauses {
		if err := w.write(line{Pause: &pauseLine{p.Lane, p.Since, p.By, p.Why}}); err != nil {
			return w.counts, "", err
		}
	}
	report := func() { tell(Progress{w.counts, contents.Messages}) }
	if err := exportAnswers(ctx, source, w, report); err != nil {
		return w.counts, "", err
	}
	if err := exportMessages(ctx, source, w, report); err != nil {
		return w.counts, "", err
	}
	if err := exportQueues(ctx, source, w, report); err != nil {
		return w.counts, "", err
	}
	// Somebody may have opened the store meanwhile, and what was read is then of no one instant.
	after, err := source.Sealed(ctx)
	switch {
	case err != nil:
		return w.counts, "", err
	case after != *seal:
		return w.counts, "", &RefusedError{Reason: "it was opened while it was read: somebody has undone the export"}
	}
	sum, err = w.end()
	return w.counts, sum, err
}

func exportAnswers(ctx context.Context, source Store, w *writer, report func()) error {
	var after uuid.UUID
	for {
		answers, err := source.Told(ctx, after, batchAnswers)
		if err != nil || len(answers) == 0 {
			return err
		}
		for i := range answers {
			if err := w.write(line{Answer: lineOfAnswer(&answers[i])}); err != nil {
				return err
			}
		}
		after = answers[len(answers)-1].Request
		report()
	}
}

func exportMessages(ctx context.Context, source Store, w *writer, report func()) error {
	var after node.MessageID
	for {
		messages, err := source.Messages(ctx, after, batchMessages, batchBytes)
		if err != nil || len(messages) == 0 {
			return err
		}
		for i := range messages {
			if err := w.write(line{Message: lineOfMessage(&messages[i])}); err != nil {
				return err
			}
		}
		last := &messages[len(messages)-1]
		after = node.MessageID{ID: last.ID, Lane: last.Lane}
		report()
	}
}

// Check reads an export to its end, and returns its header and what is in it. The error says what is wrong with the
// file.
func Check(in io.Reader, tell func(Progress)) (Header, Counts, error) { return CheckFor(in, tell, nil) }

// fill reads lines until the batch is full, or ends at the line upTo, and reports whether the last line was among them.
// What is counted is the lines themselves: whatever they are about, a batch has not much more than they have.
func (r *reader) fill(batch *Batch, upTo int64) (last bool, err error) {
	batch.From, batch.To = r.lines, r.lines
	end := r.bytes + batchBytes
	for n := 0; n < batchMessages && r.bytes < end && (n == 0 || r.lines != upTo); n++ {
		if last, err = r.next(batch); err != nil || last {
			return last, err
		}
	}
	return false, nil
}

// Import reads an export, which Check has found complete, into a store, and opens the store when all is there. Lines
// that the store has received before are read again, and not sent. It returns the seal after it.
func Import(ctx context.Context, target Store, in io.Reader, by string, tell func(Progress)) (Seal, error) {
	r, err := newReader(in)
	if err != nil {
		return Seal{}, err
	}
	seal, err := target.Sealed(ctx)
	if err != nil {
		return seal, err
	}
	for {
		batch := Batch{
			ID: r.header.ID, By: by, Cluster: r.header.Cluster, Group: r.header.Group, Lineage: r.header.Lineage,
		}
		if batch.Last, err = r.fill(&batch, seal.Lines); err != nil {
			return seal, err
		}
		if err := batch.Refuse(&seal); err != nil {
			return seal, err
		}
		switch {
		case seal.Kind == Imported:
			return seal, nil
		case seal.Kind == Importing && !batch.Last && batch.To <= seal.Lines:
			tell(Progress{r.counts, r.header.Messages})
			continue // it has been received
		}
		if seal, err = receive(ctx, target, batch); err != nil {
			return seal, err
		}
		tell(Progress{r.counts, r.header.Messages})
		if batch.Last {
			return seal, nil
		}
	}
}

// receive hands a batch over, and once more if it is not known whether it was received: the store tells.
func receive(ctx context.Context, target Store, batch Batch) (seal Seal, err error) {
	for range 2 {
		if seal, err = target.Receive(ctx, batch); err == nil || IsRefused(err) || ctx.Err() != nil {
			break
		}
	}
	switch {
	case err != nil:
		return seal, err
	case batch.Last && seal.Kind == Imported, !batch.Last && seal.Lines == batch.To:
		return seal, nil
	}
	return seal, fmt.Errorf("the store has received %d lines, and not %d: another import of this file is under "+
		"way; wait until that is done", seal.Lines, batch.To)
}
