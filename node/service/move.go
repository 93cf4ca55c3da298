package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/broker/kafka"
	"chronos/node/store/journal"
	"chronos/node/store/transfer"
)

// MoveOptions say how the contents of a store are moved. All but the first are about a journal that is filled.
type MoveOptions struct {
	// Fill says that the store is to be filled, so that everything about it has to be as nodes need it.
	Fill bool

	// OtherInput leaves positions of other topics, and whom the source belonged to, behind.
	OtherInput bool

	// Placing says to which partition each message goes.
	Placing journal.Placing
}

// OpenMove opens a store whose contents are to be moved, which must answer, and have the schema that this program
// needs. The limit is that of one call of a database. The caller closes the Store, and with it what it is moved by.
func (t *Target) OpenMove(
	ctx context.Context, limit time.Duration, options MoveOptions,
) (store *Store, mover transfer.Store, err error) {
	if t.journal != nil {
		return t.journal.openMove(ctx, options)
	}
	if options.OtherInput || options.Placing != journal.PlaceSame {
		return nil, nil, Usagef("--other-input and --place are for a journal in Kafka, and %s is none", t.String())
	}
	if store, err = t.OpenThere(ctx, limit); err != nil {
		return nil, nil, err
	}
	if mover, err = store.Mover(); err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return store, mover, nil
}

// openMove opens the journal with a copy of all of it, in a new folder that is removed in the end. To be exported, its
// topic need not be as nodes need it: the input topic may have got more partitions, which is why it is moved.
func (j *Journal) openMove(ctx context.Context, options MoveOptions) (store *Store, mover transfer.Store, err error) {
	if len(j.More) > 0 {
		return nil, nil, Usagef("journal:%s is several journals, and each is moved by itself: name one of them, as in "+
			"--store journal:%s --input-topic %s, in place of the routes", j.named(), j.Topic, j.Input)
	}
	only := *j
	only.Dir = ""
	if store, err = only.open(); err != nil {
		return nil, nil, err
	}
	done := store.close
	defer func() {
		if err != nil {
			err = errors.Join(err, done())
		}
	}()
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	topic, problems, err := store.journal.look(limited)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the journal %s: %s", j.Topic, CauseHere(err))
	}
	if len(problems) > 0 && (options.Fill || topic.Partitions == 0) {
		return nil, nil, &JournalError{j.Topic, problems[0]}
	}
	id, cluster, err := store.journal.ledger.Identify(limited, j.Input)
	if err != nil {
		return nil, nil, fmt.Errorf("look up the input topic %s: %s", j.Input, CauseHere(err))
	}
	dir, err := os.MkdirTemp("", "chronos-move-")
	if err != nil {
		return nil, nil, fmt.Errorf("make a folder for a copy of the journal: %w", err)
	}
	m, err := journal.OpenMover(journal.MoveConfig{
		Log: store.journal.ledger, Partitions: topic.Partitions, Dir: dir, Now: time.Now,
		MaxAge: journalRetention / 2, Fit: fitOf(&topic, cluster, j.Input, id, options),
	})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(dir))
	}
	store.close = func() error { return errors.Join(m.Close(), done(), os.RemoveAll(dir)) }
	return store, m, nil
}

// fitOf returns what a journal can hold.
func fitOf(topic *kafka.LedgerTopic, cluster, input string, id uuid.UUID, options MoveOptions) journal.Fit {
	return journal.Fit{
		Cluster: cluster, Input: node.Partition{Topic: input, TopicID: id}, Partitions: topic.Partitions,
		Choose:     func(key []byte) int32 { return kafka.JavaPartition(key, topic.Partitions) },
		OtherInput: options.OtherInput, Placing: options.Placing,
	}
}

// FitsJournal returns what judges whether a journal in Kafka could hold something, whichever that is.
func FitsJournal() transfer.Fits { return &journal.Fit{} }
