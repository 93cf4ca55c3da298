package journal

import (
	"fmt"

	"github.com/google/uuid"

	"chronos/node/ledger"
	"chronos/node/store/transfer"
)

// A seal is an entry of each partition of its own (ADR 23): what keeps an owner from claiming, firing and taking in is
// the copy of it that the owner has read up to its fence. So whoever writes it has to own the partition:
//
//	mover   owns the partition: the node of before is fenced      writes the seal, and reads what waits
//	node    fires x: fenced, and x does not come out              owns anew: the seal, and the node ends
//
// A transaction of the node that was committed before the fence stands before the seal, and the mover has read it; one
// that was not never comes out. So nothing has to be waited for, as it has in a database, where a claim lasts.

// SealedError says that a partition is not to be used, because the contents of the journal are being moved, or were.
type SealedError struct {
	Number int32
	Seal   transfer.Seal
}

// Error returns the sentence for a person.
func (e *SealedError) Error() string {
	return fmt.Sprintf("partition %s of the journal is sealed (%s) for export %s", ledger.Name(e.Number), e.Seal.Kind,
		e.Seal.ID)
}

// writeSeal returns the value of a seal.
func writeSeal(seal *transfer.Seal) []byte {
	e := encoder{version}
	e.text(string(seal.Kind))
	e = append(e, seal.ID[:]...)
	e.text(seal.By)
	e.instant(seal.Since)
	e.number(seal.Lineage)
	e.number(seal.Lines)
	if seal.Way != "" {
		e.text(seal.Way)
	}
	return e
}

func readSeal(value []byte) (seal transfer.Seal, err error) {
	if len(value) == 0 || value[0] != version {
		return seal, fmt.Errorf("%w: a seal", errForeign)
	}
	d := decoder{rest: value[1:]}
	seal.Kind = transfer.Kind(d.text())
	if id := d.take(int64(len(uuid.UUID{}))); id != nil {
		seal.ID = uuid.UUID(id)
	}
	seal.By, seal.Since, seal.Lineage, seal.Lines = d.text(), d.instant(), d.number(), d.number()
	if len(d.rest) > 0 {
		seal.Way = d.text()
	}
	if d.failed || len(d.rest) > 0 {
		return seal, fmt.Errorf("%w: a seal", errForeign)
	}
	return seal, nil
}

// loadSeal reads the seal from the local copy.
func (s *shard) loadSeal() (err error) {
	s.seal, _, err = get(s.db, s.db, s.key(sealKind), readSeal)
	return err
}

// lineage is the one that outcomes tell of: above that of the store which the journal was filled from, and else 1. The
// journal itself begins none.
func (s *shard) lineage() int64 { return max(state().Lineage, s.seal.Lineage) }
