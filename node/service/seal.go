package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"chronos/node/store/inspect"
	"chronos/node/store/transfer"
)

// Mover returns the side of the store that its contents are moved by, if it is a database: see Target.OpenMove.
func (s *Store) Mover() (transfer.Store, error) {
	mover, is := s.Store.(transfer.Store)
	if s.journal != nil {
		return nil, errors.New("the store is a journal in Kafka, of which a node has a part only")
	}
	if !is {
		return nil, fmt.Errorf("the contents of a store of the kind %q cannot be moved", s.dialect)
	}
	return mover, nil
}

// SealedError says that a store is not to be used, because its contents are being moved, or were.
type SealedError struct{ Seal transfer.Seal }

// Error returns the sentence for a person.
func (e *SealedError) Error() string {
	if e.Seal.Kind == transfer.Importing {
		return fmt.Sprintf("an import of export %s has begun to fill the store, and is not done: run \"chronos "+
			"import\" again with the same file, which goes on where it ended", e.Seal.ID)
	}
	return fmt.Sprintf("the store was sealed by \"chronos export\" at %s, and nothing fires from it any more: run "+
		"nodes on the store that export %s was imported into; if it was not, and is not going to be, \"chronos "+
		"export --undo --yes\" opens this one again", e.Seal.Since.Format(time.RFC3339), e.Seal.ID)
}

// checkSeal returns an error if the store is sealed.
func (s *Service) checkSeal(ctx context.Context) error {
	mover, is := s.store.Store.(transfer.Store)
	if !is {
		return nil
	}
	limited, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	seal, err := mover.Sealed(limited)
	if err == nil && seal.Sealed() {
		return &SealedError{Seal: seal}
	}
	return err
}

// watchSeal ends the node with an error when somebody has sealed the store. The store sees to it that nothing is
// claimed or taken in from then on; this is so that the node leaves its group, and somebody learns of it.
func (s *Service) watchSeal(ctx context.Context, end context.CancelCauseFunc) {
	ticker := time.NewTicker(inspect.BeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := s.checkSeal(ctx); isSealed(err) {
			end(err)
			return
		}
	}
}

func isSealed(err error) bool {
	_, is := err.(*SealedError) //nolint:errorlint // it is never wrapped
	return is
}
