package journal

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// An entry that this release cannot read keeps a node from owning its partition: a newer release may have written it,
// and nothing tells what it says. If Chronos has not written it, an operator skips it: a skip is an entry of its own,
// later in the partition, which names the other one by its offset and its digest. Whoever reads the partition collects
// entries that it cannot read, and drops those that are skipped:
//
//	10   key "hello"                  unreadable
//	11   a message                    is read as ever
//	12   skip of 10                   10 is dropped
//	13   the fence                    nothing unreadable is left: the partition is owned
//
// The local copy notes what is left, so that it can go on from behind an unreadable entry. An owner that sees one
// notes it as passed, reports it, and goes on: its copy does not depend on it. If the copy begins behind the entry when
// the node owns the partition again, it reports the entry again and goes on. If it has to read the entry, it is refused
// like any other node.

// Unreadable is an entry of the journal that this release cannot read.
type Unreadable struct {
	Number int32 // of the partition
	Offset int64

	// At is when it was appended; zero if nobody says.
	At time.Time

	// Why says what is wrong with it.
	Why string

	// Key and Value are the first ShownBytes of both; Value is nil for a tombstone.
	Key, Value []byte

	// KeyBytes and ValueBytes are the sizes of both.
	KeyBytes, ValueBytes int

	// Digest tells it from every other entry that may stand at that offset in a log that has lost its end.
	Digest uuid.UUID
}

// ShownBytes is how many bytes of a key and of a value are shown.
const ShownBytes = 64

// String describes the entry in one line. Everything in it that Chronos has not written is quoted.
func (u *Unreadable) String() string {
	value := "a tombstone"
	if u.Value != nil {
		value = "value " + quoted(u.Value, u.ValueBytes)
	}
	at := ""
	if !u.At.IsZero() {
		at = ", appended " + u.At.UTC().Format(time.RFC3339)
	}
	return fmt.Sprintf("partition %s, offset %d: key %s, %s%s; %s", ledger.Name(u.Number), u.Offset,
		quoted(u.Key, u.KeyBytes), value, at, u.Why)
}

// quoted quotes the first bytes of so many.
func quoted(first []byte, all int) string {
	more := ""
	if len(first) < all {
		more = "..."
	}
	unit := "bytes"
	if all == 1 {
		unit = "byte"
	}
	return fmt.Sprintf("%s%s (%d %s)", strconv.QuoteToASCII(string(first)), more, all, unit)
}

// unreadable describes an entry that cannot be read because of err.
func unreadable(number int32, e *ledger.Committed, err error) *Unreadable {
	u := &Unreadable{
		Number: number, Offset: e.Offset, At: e.At, Why: strings.TrimPrefix(err.Error(), errForeign.Error()+": "),
		Key: e.Key[:min(len(e.Key), ShownBytes)], KeyBytes: len(e.Key), ValueBytes: len(e.Value), Digest: digest(e),
	}
	if e.Value != nil {
		u.Value = append([]byte{}, e.Value[:min(len(e.Value), ShownBytes)]...)
	}
	return u
}

// digest is a hash of the key and the value of an entry.
func digest(e *ledger.Committed) uuid.UUID {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(e.Key))))
	h.Write(e.Key)
	if e.Value != nil {
		h.Write([]byte{1})
		h.Write(e.Value)
	}
	return uuid.UUID(h.Sum(nil)[:16])
}

// UnreadableError says that a partition has entries that this release cannot read, and which nobody has skipped.
type UnreadableError struct {
	// Entries are the first of them, at least one, and All is how many there are.
	Entries []Unreadable
	All     int
}

// Error returns the sentence for a person.
func (e *UnreadableError) Error() string {
	has := "an entry that this release cannot read"
	if e.All > 1 {
		has = fmt.Sprintf("%d entries that this release cannot read, the first of them", e.All)
	}
	return fmt.Sprintf("the journal has %s, and the partition cannot be owned: %s; if a newer release of Chronos "+
		"wrote it, run that release; if Chronos did not, \"chronos journal skip\" shows it and gets past it", has,
		e.Entries[0].String())
}

// maxUnreadable is how many unreadable entries of a partition are described. The others are counted.
const maxUnreadable = 20

// skip is the value of the entry that skips an unreadable one.
type skip struct {
	Offset int64     `json:"offset"`
	Digest uuid.UUID `json:"digest"`

	// By and At say who skipped it, and when, for people.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at"`
}

// aSkip is what errors call the entry of a skip.
const aSkip = "a skip"

// Skip returns the record that skips an unreadable entry, to be sent to its partition of the journal. By and at say
// who skips it, and when, for people.
func Skip(u *Unreadable, by string, at time.Time) (node.Record, error) {
	value, err := writeJSON(aSkip, &skip{Offset: u.Offset, Digest: u.Digest, By: by, At: at.UTC()})
	return node.Record{Key: binary.BigEndian.AppendUint64([]byte{skipKey}, uint64(u.Offset)), Value: value}, err
}

// parsed is what an entry says, as far as it has to be decoded to know that it can be read.
type parsed struct {
	fence  bool     // of a node that came to own the partition
	ref    node.Ref // of a message
	head   *row     // of it, without its content; nil for a tombstone
	answer *answer  // nil for a tombstone, and for everything else
	wish   *wish    // nil for a wish that is done, and for everything else
	skip   *skip    // nil for everything else
}

// parse reads an entry. Any error is errForeign: the entry is none that this release knows.
func parse(e *ledger.Committed) (p parsed, err error) {
	if len(e.Key) == 0 {
		return p, fmt.Errorf("%w: it has no key", errForeign)
	}
	length := func(want int) error {
		if len(e.Key) != want {
			return fmt.Errorf("%w: its key is none that Chronos writes", errForeign)
		}
		return nil
	}
	const id = len(uuid.UUID{})
	switch e.Key[0] {
	case fenceKey:
		if p.fence = len(e.Key) == 1 && len(e.Value) == id; !p.fence {
			err = fmt.Errorf("%w: a fence", errForeign)
		}
	case groupKey:
		if err = length(1); err == nil && len(e.Value) == 0 {
			err = fmt.Errorf("%w: the group", errForeign)
		}
	case sealKey:
		if err = length(1); err == nil {
			_, err = readSeal(e.Value)
		}
	case positionKey:
		if err = length(1 + id + 4); err == nil {
			_, err = readPosition(e.Value)
		}
	case answerKey:
		if err = length(1 + id); err == nil && e.Value != nil {
			p.answer, err = readAnswer(e.Value)
		}
	case switchKey:
		if e.Value != nil {
			_, err = readJSON[switched](aPause, e.Value)
		}
	case wishKey:
		if err = length(1 + id); err == nil && e.Value != nil {
			p.wish, err = readWish(e.Value, e.Offset)
		}
	case skipKey:
		if err = length(1 + 8); err == nil {
			p.skip, err = readJSON[skip](aSkip, e.Value)
		}
	case rowKey:
		p.ref, p.head, err = parseRow(e)
	default:
		err = fmt.Errorf("%w: its key is none that Chronos writes", errForeign)
	}
	return p, err
}

// parseRow reads the entry of a message.
func parseRow(e *ledger.Committed) (ref node.Ref, head *row, err error) {
	if ref, err = readJournalKey(e.Key); err != nil || e.Value == nil {
		return ref, nil, err
	}
	if head, err = decodeHead(e.Value); err == nil && head.Ref() != ref {
		err = fmt.Errorf("%w: a message under the key of another one", errForeign)
	}
	return ref, head, err
}

// unreadableKey returns the key of an unreadable entry in the local copy.
func (s *shard) unreadableKey(offset int64, digest uuid.UUID) []byte {
	return append(binary.BigEndian.AppendUint64(s.key(unreadableKind), uint64(offset)), digest[:]...)
}

// note is an unreadable entry in the local copy.
type note struct {
	Unreadable

	// Passed says that this node owned the partition when the entry appeared, and that its copy does not depend on it.
	Passed bool
}

// note adds the note of an unreadable entry to a batch.
func (s *shard) note(batch *pebble.Batch, n *note) error {
	value, err := json.Marshal(n)
	if err != nil {
		return fmt.Errorf("describe an entry of the journal: %w", err)
	}
	return batch.Set(s.unreadableKey(n.Offset, n.Digest), value, nil) //nolint:wrapcheck // apply says what it was
}

// notes calls each with the unreadable entries that the local copy notes, in order.
func (s *shard) notes(each func(n *note)) error {
	prefix := s.key(unreadableKind)
	return s.scan(prefix, prefix, func(_, value []byte) (bool, error) {
		var n note
		err := json.Unmarshal(value, &n)
		n.Number = s.number
		each(&n)
		return true, err //nolint:wrapcheck // it says what it is
	})
}

// unread returns an *UnreadableError if the local copy has unreadable entries that nobody has skipped, and that this
// node has not passed as the owner.
func (s *shard) unread() error {
	left := &UnreadableError{}
	if err := s.notes(func(n *note) {
		if n.Passed {
			return
		}
		if left.All++; left.All <= maxUnreadable {
			left.Entries = append(left.Entries, n.Unreadable)
		}
	}); err != nil {
		return err
	}
	if left.All == 0 {
		return nil
	}
	return left
}

// reread reads the noted entries again, of a log that begins at a place, and drops the notes of those that are gone:
// nobody could skip them any more. Compaction removes an entry if there is a later one under its key. Entries close to
// each other are read together.
func (s *shard) reread(ctx context.Context, log ledger.Ledger, begin ledger.Place) error {
	var noted []note
	if err := s.notes(func(n *note) {
		noted = append(noted, note{Unreadable: Unreadable{Offset: n.Offset, Digest: n.Digest}})
	}); err != nil || len(noted) == 0 {
		return err
	}
	batch := s.db.NewBatch()
	for len(noted) > 0 {
		near := 1
		for near < len(noted) && noted[near].Offset-noted[near-1].Offset <= replayBatch {
			near++
		}
		there := map[int64]uuid.UUID{}
		from := begin
		from.Position = node.Position{Epoch: node.UnknownEpoch, Offset: max(begin.Offset, noted[0].Offset)}
		if until := noted[near-1].Offset + 1; from.Offset < until {
			if err := log.Read(ctx, from, until, func(e ledger.Committed) error {
				there[e.Offset] = digest(&e)
				return nil
			}); err != nil {
				return err
			}
		}
		for i := range noted[:near] {
			if n := &noted[i]; there[n.Offset] != n.Digest {
				if err := batch.Delete(s.unreadableKey(n.Offset, n.Digest), nil); err != nil {
					return fmt.Errorf("write the local copy: %w", err)
				}
			}
		}
		noted = noted[near:]
	}
	return s.db.write(batch, s.now())
}

// loadSpotted reads which unreadable entries this node has passed as the owner.
func (s *shard) loadSpotted() error {
	return s.notes(func(n *note) {
		if n.Passed && len(s.spotted) < maxUnreadable {
			s.spotted = append(s.spotted, n.Unreadable)
		}
	})
}

// spot notes unreadable entries that have appeared in a partition which this node owns, and drops one that is skipped.
func (s *shard) spot(e *ledger.Committed) (parsed, error) {
	p, err := parse(e)
	s.quick.Lock()
	defer s.quick.Unlock()
	if err == nil && p.skip == nil || s.lost { // who has lost the partition leaves the local copy alone
		return p, nil
	}
	known := slices.IndexFunc(s.spotted, func(u Unreadable) bool {
		return err != nil && u.Offset == e.Offset || p.skip != nil && u.Offset == p.skip.Offset &&
			u.Digest == p.skip.Digest
	})
	batch := s.db.NewBatch()
	if err != nil {
		u := unreadable(s.number, e, err)
		if known < 0 && len(s.spotted) < maxUnreadable {
			s.spotted = append(s.spotted, *u)
		}
		err = s.note(batch, &note{Unreadable: *u, Passed: true})
	} else {
		if known >= 0 {
			s.spotted = slices.Delete(s.spotted, known, known+1)
		}
		err = batch.Delete(s.unreadableKey(p.skip.Offset, p.skip.Digest), nil)
	}
	if err != nil {
		return p, fmt.Errorf("write the local copy: %w", err)
	}
	return p, s.db.write(batch, s.now())
}

// Unreadable returns the unreadable entries that have appeared in partitions which this node owns, while it did, 20 of
// each at most. They keep other nodes from taking the partition over.
func (s *Store) Unreadable() (all []Unreadable) {
	_ = s.look(func(owned *shard) error {
		all = append(all, owned.spotted...)
		return nil
	})
	return all
}

// searchStep is how many offsets Search reads at a time.
const searchStep = 100_000

// Search returns the unreadable entries of a partition that nobody has skipped, in order, at most a limit of them. It
// reads the newest first: so a skip comes before what it skips. If ctx is done before all was read, it returns what it
// has found, the offset from which on everything was read, and no error. It disturbs nobody.
func Search(ctx context.Context, log ledger.Ledger, extent node.Extent, limit int) (
	found []Unreadable, from int64, err error,
) {
	skipped := map[int64][]uuid.UUID{}
	for from = extent.End; from > extent.First; {
		step := max(extent.First, from-searchStep)
		some, err := searchPart(ctx, log, &extent, step, from, skipped)
		if err != nil && ctx.Err() != nil {
			return found, from, nil //nolint:nilerr // the time was over
		}
		if err != nil {
			return found, from, err
		}
		from = step
		found = append(some, found...)
		found = found[max(0, len(found)-limit):]
	}
	return found, from, nil
}

// searchPart is Search of the offsets from one up to another one. It adds the skips that it reads.
func searchPart(
	ctx context.Context, log ledger.Ledger, extent *node.Extent, from, until int64, skipped map[int64][]uuid.UUID,
) (found []Unreadable, err error) {
	place := ledger.Place{
		TopicID: extent.TopicID, Number: extent.Number,
		Position: node.Position{Epoch: node.UnknownEpoch, Offset: from},
	}
	err = log.Read(ctx, place, until, func(e ledger.Committed) error {
		switch p, err := parse(&e); {
		case err != nil:
			found = append(found, *unreadable(extent.Number, &e, err))
		case p.skip != nil:
			skipped[p.skip.Offset] = append(skipped[p.skip.Offset], p.skip.Digest)
		}
		return nil
	})
	return slices.DeleteFunc(found, func(u Unreadable) bool {
		return slices.Contains(skipped[u.Offset], u.Digest)
	}), err
}

// IsUnreadable reports whether an error is an *UnreadableError.
func IsUnreadable(err error) bool {
	_, is := errors.AsType[*UnreadableError](err)
	return is
}
