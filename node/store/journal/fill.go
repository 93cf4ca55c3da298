package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/node/store/transfer"
)

// Receive implements transfer.Store. The first batch seals all partitions before the first message is in any. Each
// batch is one transaction for each partition that it has something for, together with the line that it ends at; what a
// partition has received already is left out, by the number of its line. So an import that died between two partitions
// goes on where the hindmost is, and nothing is stored twice:
//
//	partition 0   has lines to 2000     the import is run again, from line 1000 on: nothing to do here
//	partition 1   has lines to 1000                                                 takes its part of the batch
//
// A partition for which a batch has nothing is not written to. The last batch opens the partitions when all of them
// have everything: a node that owns one of those that are open may fire there, while another one is not open yet.
func (m *Mover) Receive(ctx context.Context, batch transfer.Batch) (transfer.Seal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parts[0] == nil {
		if err := m.look(ctx); err != nil {
			return transfer.Seal{}, err
		}
	}
	seal := m.seal()
	fit := m.config.Fit
	if err := fit.refuse(&batch, &seal); err != nil || seal.Kind == transfer.Imported {
		return seal, err
	}
	fit.Add(&batch)
	if err := fit.Refusal(); err != nil {
		return seal, err
	}
	if err := m.begin(ctx, &batch, seal); err != nil {
		return m.seal(), err
	}
	if seal = m.seal(); !batch.Goes(&seal) {
		return seal, nil
	}
	if err := m.fill(ctx, &batch, &fit); err != nil {
		return m.seal(), err
	}
	if !batch.Last {
		return m.seal(), nil
	}
	err := m.writeAll(ctx, func(c *change) (bool, error) {
		if c.shard.seal.Kind == transfer.Imported {
			return false, batch.Refuse(&c.shard.seal)
		}
		open := c.shard.seal
		open.Kind, open.Lines, open.Lineage = transfer.Imported, batch.To, max(state().Lineage, batch.Lineage)+1
		open.Way = ""
		c.seal = &open
		if batch.Cluster != "" && !fit.OtherInput {
			c.group = batch.Group
		}
		return true, fit.refuse(&batch, &c.shard.seal)
	})
	return m.seal(), err
}

// refuse returns the error for a batch that comes to a partition, or to the journal, which is in another's hands, or
// which this import has begun to fill in another way; nil if it may go on there. Each partition leaves out what it has
// by the number of the line, so that messages have to go where they would have gone before:
//
//	--place key      partition 0 has lines to 2000, partition 1 to 1000; dies
//	--place origin   line 1500, whose key leads to 0 and which came from 1, goes to 1 as well
//	                 line 1600, whose key leads to 1 and which came from 0, goes to neither
func (f *Fit) refuse(batch *transfer.Batch, seal *transfer.Seal) error {
	if err := batch.Refuse(seal); err != nil {
		return err
	}
	if way := f.way(); seal.Kind == transfer.Importing && seal.Way != "" && seal.Way != way {
		return &transfer.RefusedError{Reason: fmt.Sprintf("this import has begun with messages placed by %s, and now "+
			"they would be placed by %s: go on as it began (--place %s)", seal.Way, way, seal.Way)}
	}
	return nil
}

// begin seals the partitions that are not sealed yet, if no one has been used. When it is refused nothing has changed:
// what it has sealed by then is open again.
func (m *Mover) begin(ctx context.Context, batch *transfer.Batch, seal transfer.Seal) error {
	if seal.Kind == transfer.Open {
		contents, err := m.contents()
		if err == nil {
			err = batch.Unfit(&contents)
		}
		if err != nil {
			return err
		}
		clear(m.covered)
		seal = batch.Begin()
		seal.Since, seal.Way = m.config.Now().UTC().Truncate(time.Microsecond), m.config.Fit.way()
	}
	seal.Lines = 0
	err := m.writeAll(ctx, func(c *change) (bool, error) {
		if c.shard.seal.Kind != transfer.Open {
			return false, m.config.Fit.refuse(batch, &c.shard.seal)
		}
		if reason, err := c.used(); err != nil || reason != "" {
			return false, refusal(reason, err)
		}
		c.seal = &seal
		return true, nil
	})
	if !transfer.IsRefused(err) {
		return err
	}
	if failed := m.retreat(ctx, &seal); failed != nil {
		// It is no refusal any more: something has changed.
		return fmt.Errorf("%s; and what is sealed by now could not be opened: %w", err.Error(), failed)
	}
	return err
}

// retreat opens the partitions that have the seal of an import which has brought nothing yet.
func (m *Mover) retreat(ctx context.Context, seal *transfer.Seal) error {
	return m.writeAll(ctx, func(c *change) (bool, error) {
		c.seal = &transfer.Seal{}
		return c.shard.seal == *seal, nil
	})
}

// used returns why a partition is none that has never been used; "" if it is.
func (s *shard) used() (reason string, err error) {
	if len(s.positions) > 0 {
		return "it has taken records in", nil
	}
	for _, is := range s.switches {
		if is.Pause != nil {
			return "it has pauses", nil
		}
	}
	prefix := s.key(rowKind)
	err = s.scan(prefix, prefix, func(_, _ []byte) (bool, error) {
		reason = "it has messages"
		return false, nil
	})
	return reason, err
}

// refusal returns the error for a partition that has been used.
func refusal(reason string, err error) error {
	if err != nil {
		return err
	}
	return &transfer.RefusedError{Reason: reason + ", and only a store that has never been used can be filled"}
}

// fill has each partition take its part of a batch.
func (m *Mover) fill(ctx context.Context, batch *transfer.Batch, fit *Fit) error {
	m.indexed = false
	parts, err := fit.share(batch, m.config.Partitions)
	if err != nil {
		return err
	}
	if err := atOnce(len(m.parts), func(i int) error {
		return m.write(ctx, int32(i), func(c *change) (bool, error) {
			had := c.shard.seal
			if had.Kind == transfer.Imported {
				return false, nil
			}
			if had.Kind == transfer.Open {
				return false, errors.New("somebody has opened it meanwhile: do it again")
			}
			if err := fit.refuse(batch, &had); err != nil {
				return false, err
			}
			if err := c.receive(batch, &parts[i]); err != nil {
				return false, err
			}
			had.Lines = max(had.Lines, batch.To)
			c.seal = &had
			return len(c.rows)+len(c.positions)+len(c.switches)+len(c.answers) > 0, nil
		})
	}); err != nil {
		return err
	}
	for i := range m.covered {
		m.covered[i] = max(m.covered[i], batch.To)
	}
	return nil
}

// receive adds what of a batch goes to the partition to a change, and the pauses, which go to all, as far as the
// partition has not received them yet. A message that is there already has come from somebody else.
func (c *change) receive(batch *transfer.Batch, of *part) error {
	before := batch.From + 1
	for _, i := range of.places {
		if before+int64(i) > c.shard.seal.Lines {
			c.positions[nameless(batch.Places[i].Partition)] = batch.Places[i].Position
		}
	}
	for i, p := range batch.Pauses {
		if before+int64(len(batch.Places)+i) > c.shard.seal.Lines {
			c.pauses(p.Lane, &switched{Pause: &paused{Since: p.Since, By: p.By, Why: p.Why}})
		}
	}
	before += int64(len(batch.Places) + len(batch.Pauses))
	for _, i := range of.answers {
		if a := &batch.Answers[i]; before+int64(i) > c.shard.seal.Lines {
			c.answers[a.Request] = &answer{Told: a.Told, Expires: a.Expires.UTC()}
		}
	}
	before += int64(len(batch.Answers))
	for _, i := range of.messages {
		if before+int64(i) <= c.shard.seal.Lines {
			continue
		}
		m := &batch.Messages[i]
		name := nameOf(&m.Message)
		there, err := c.get(name)
		if err != nil {
			return err
		}
		if there != nil {
			return batch.Taken(m.ID)
		}
		c.rows[name] = &row{
			Message: m.Message, due: m.Due.UTC().Truncate(time.Microsecond), attempts: m.Attempts,
			bound: m.Bound, former: m.Former, stopped: m.Stopped, behind: m.Behind,
		}
	}
	return nil
}
