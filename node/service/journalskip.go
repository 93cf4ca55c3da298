package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/journal"
)

// UnreadableEntry is an entry of a journal that this release cannot read.
type UnreadableEntry struct {
	Topic string // that of the journal
	journal.Unreadable
}

// JournalExtent is where a partition of a journal begins and ends.
type JournalExtent struct {
	Topic string // that of the journal
	node.Extent
}

// Unreadable is what a search for unreadable entries has found.
type Unreadable struct {
	Entries []UnreadableEntry

	// Partitions are those that were searched, and Left is how many of their oldest offsets were not, for lack of time.
	Partitions []JournalExtent
	Left       int64
}

// SearchUnreadable searches all topics of the journal for entries that this release cannot read and nobody has skipped.
// Of each partition it returns the newest of them, a limit at most. It reads the newest entries first, and ends without
// an error when the time is over.
func (j *Journal) SearchUnreadable(ctx context.Context, limit int, most time.Duration) (u Unreadable, err error) {
	o, err := j.connect()
	if err != nil {
		return u, err
	}
	defer o.disconnect()
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for _, part := range o.parts {
		extents, err := part.ledger.Extents(limited)
		if err != nil {
			return u, fmt.Errorf("look at the journal %s: %w", part.Topic, err)
		}
		for _, extent := range extents {
			if extent.End == node.UnknownEnd {
				return u, fmt.Errorf("partition %d of the journal %s has no leader", extent.Number, part.Topic)
			}
			found, from, err := journal.Search(limited, part.ledger, extent, limit)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return u, fmt.Errorf("read the journal %s: %w", part.Topic, err)
			}
			for _, one := range found {
				u.Entries = append(u.Entries, UnreadableEntry{part.Topic, one})
			}
			u.Left += from - extent.First
			u.Partitions = append(u.Partitions, JournalExtent{part.Topic, extent})
		}
	}
	return u, nil
}

// Skip has nodes get past unreadable entries: it appends a skip of each to the partition that the entry is in. By says
// who has asked for it, for people. After an error those before it are skipped.
func (j *Journal) Skip(ctx context.Context, entries []UnreadableEntry, by string) error {
	o, err := j.connect()
	if err != nil {
		return err
	}
	defer o.disconnect()
	senders, err := o.openSenders(nil, func(t JournalTopic) string { return t.Topic })
	if err != nil {
		return err
	}
	defer senders.Close()
	for i := range entries {
		record, err := journal.Skip(&entries[i].Unreadable, by, time.Now())
		if err == nil {
			at := slices.IndexFunc(o.parts, func(p *journalPart) bool { return p.Topic == entries[i].Topic })
			err = senders.senders[at].Send(ctx, entries[i].Number, record)
		}
		if err != nil {
			return fmt.Errorf("skip offset %d of partition %d of the journal %s: %w", entries[i].Offset,
				entries[i].Number, entries[i].Topic, err)
		}
	}
	return nil
}
