package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/store/transfer"
)

// shard is a partition that this node owns: its writer, and the local copy of what it says.
type shard struct {
	number int32
	db     *disk
	now    func() time.Time

	// maxAge is how old the local copy may be that is caught up.
	maxAge time.Duration

	// observe is told how the local copy is caught up; nil for nobody.
	observe func(Replay)

	// mu is held for as long as a transaction takes: a writer has one at a time. Whoever has it may read the local
	// copy, and nobody else changes a message in it.
	mu     sync.Mutex
	writer ledger.Writer

	// spacing is the longest time that a transaction waits for, from the beginning of the one before; that one began
	// and ended then, and moved as many entries.
	spacing      time.Duration
	began, ended time.Time
	moved        int

	// jobs are the changes that wait for mu, and joining guards them.
	joining sync.Mutex
	jobs    []*job

	// place is up to where the local copy has come, and asOf an instant at which the journal ended there: when this
	// node began a transaction that was committed, or to read, or asked where it ends (see keepYoung). What is written
	// to the copy alone makes it no younger:
	//
	//	A claims x, and is stopped     B owns, fires x     compaction removes the tombstone of x
	//	A goes on, gives its claim back; owns again, and trusts a copy that is young and has x: x comes out once more
	place ledger.Place
	asOf  time.Time

	// committed is when this node began the last transaction that was committed, or to own the partition. It changes
	// under mu.
	committed time.Time

	// known is that of the goal to which the local copy is brought.
	known int64

	// group is whom the partition belongs to; empty for nobody yet.
	group string

	// seal is what the partition is sealed for, or was. It changes under mu.
	seal transfer.Seal

	// positions are those of the input partitions. They change under mu and quick: either is enough to read them.
	positions map[node.Partition]node.Position

	// quick is held for moments, with mu or without: messages are claimed and looked at while a transaction is on its
	// way. What that does to the local copy and to what is below happens under quick, all of it, when it is committed.
	// So a claim sees a message as it is before the transaction, or as it is after it:
	//
	//	intake   cancels x, which waits: a transaction is on its way
	//	claimer  claims x
	//	intake   is answered: x and the claim are removed
	//	firer    fires x: it is not there, and nothing comes out
	quick sync.Mutex

	// swept is a place among answers in the order in which they expire, before which there are none: they were removed.
	// It changes under mu. A sweep begins there, and so does not step over all that was removed since the last
	// compaction, for each request anew.
	swept mark

	// lost says that the writer is spent: nothing is taken in and nothing fired until the partition is owned anew. If
	// it is fenced, another node owns it.
	lost, fenced bool

	// claims are those that this process holds. Nobody else can have any.
	claims map[node.MessageID]held

	// free has for each part of a lane on which somebody has claimed a place before which nobody can claim anything:
	// all there is claimed. Claims raise it (see waiting), and sink lowers it.
	free map[node.Part]mark

	// form is parkedVersion once something was parked in the local copy. It changes under mu.
	form byte

	// heads has for each of some lines a place in it before which nobody stands. Looks raise it, sink lowers it, and it
	// has maxHeads lines at most.
	heads map[lineKey]mark

	// switches is what is paused and was, by lane, and closing the pauses that are being committed. They change under
	// quick. Nothing before heard is a wish that is still to be done; behind the transaction that ends at foreign
	// somebody else may have written, before it as well. Both are guarded by mu, and hearing is held for a look.
	switches       map[string]*switched
	closing        map[string]int
	heard, foreign int64
	hearing        sync.Mutex

	// spotted are unreadable entries that have appeared while this node owned the partition. They change under quick.
	spotted []Unreadable

	// since is when this node came to own the partition, ahead how long before it falls due a message is claimed, and
	// fresh are the incarnations on callback lanes that this node has stored since, of those that mayBeOut has to tell
	// from others: it changes under mu and quick.
	since time.Time
	ahead time.Duration
	fresh map[uuid.UUID]bool

	// ours is an instant at which the partition was this node's, as a look or a transaction has shown. It changes under
	// quick.
	ours time.Time
}

// newShard returns a partition whose transactions a writer makes, of which nothing is known yet.
func newShard(number int32, db *disk, now func() time.Time, maxAge time.Duration, writer ledger.Writer) *shard {
	return &shard{
		number: number, db: db, now: now, maxAge: maxAge, writer: writer,
		positions: map[node.Partition]node.Position{}, claims: map[node.MessageID]held{}, free: map[node.Part]mark{},
		heads: map[lineKey]mark{}, fresh: map[uuid.UUID]bool{},
	}
}

// held is a claim.
type held struct {
	node.Claim

	attempts int // this one included

	// row is the head of what the local copy has of the message. It changes with that, under mu and quick: so whoever
	// settles what was claimed need not read it again.
	row *row
}

// The kinds of keys in the local copy, behind the number of the partition.
const (
	placeKind    = 'm' // the place of the copy
	groupKind    = 'g' // the consumer group
	sealKind     = 's' // the seal
	positionKind = 'p' // of an input partition
	rowKind      = 'r' // lane, NUL, id: the head of a message
	dueKind      = 'd' // lane, NUL, due time, id: all of it, or nothing if it is apart
	apartKind    = 'c' // as dueKind: all of a message that is apart
	parkedKind   = 'k' // lane, NUL, part, NUL, due time, id: as dueKind, of a message that is parked
	parkedApart  = 'b' // as parkedKind: all of a message that is parked and apart
	answerKind   = 'a' // the id of a request
	expiryKind   = 'x' // when an answer expires, the id of its request
	switchKind   = 'z' // lane: whether it is paused
	wishKind     = 'w' // the name of a wish that nobody has done
	lineKind     = 'l' // lane, NUL, line, deadline, id

	unreadableKind = 'u' // offset, digest: an entry that cannot be read, and that nobody has skipped
)

// key returns a key of the local copy.
func (s *shard) key(kind byte, parts ...[]byte) []byte {
	key := append(binary.BigEndian.AppendUint32(nil, uint32(s.number)), kind)
	for _, part := range parts {
		key = append(key, part...)
	}
	return key
}

func (s *shard) rowKey(name node.MessageID) []byte {
	return s.key(rowKind, []byte(name.Lane), []byte{0}, []byte(name.ID))
}

// partPrefix is what the keys of the messages that wait on a part of a lane begin with.
func (s *shard) partPrefix(p node.Part) []byte {
	if p.Name == "" {
		return s.key(dueKind, []byte(p.Lane), []byte{0})
	}
	return s.key(parkedKind, []byte(p.Lane), []byte{0}, []byte(p.Name), []byte{0})
}

// partOf returns where the message under a key waits, and its place there. The key is of dueKind or parkedKind.
func partOf(key []byte) (p node.Part, at mark) {
	lane, rest, _ := bytes.Cut(key[5:], []byte{0})
	p.Lane = string(lane)
	if key[4] == parkedKind {
		var name []byte
		name, rest, _ = bytes.Cut(rest, []byte{0})
		p.Name = string(name)
	}
	return p, mark(rest)
}

func (s *shard) dueKey(r *row) []byte {
	return append(binary.BigEndian.AppendUint64(s.partPrefix(r.where()), order(r.due)), r.ID...)
}

// large is of how many bytes a message is apart. Whoever counts what waits goes through keys, up to outlook.Limit of
// them four times a minute for each lane, and what lies between them is read with them from the disk: a gigabyte, if
// those were messages of 100 kB.
const large = 1 << 10

// apartKey returns the key of what is apart, of that under which nothing is.
func apartKey(due []byte) []byte {
	key := slices.Clone(due)
	if key[4] = apartKind; due[4] == parkedKind {
		key[4] = parkedApart
	}
	return key
}

// at returns the message that falls due under a key, of what is under that. It keeps no part of either.
func (s *shard) at(from pebble.Reader, due, value []byte) (r *row, err error) {
	if len(value) > 0 {
		r, err = decode(value)
	} else {
		var some bool
		if r, some, err = get(s.db, from, apartKey(due), decode); err == nil && !some {
			err = fmt.Errorf("%w: under %q", errPart, due)
		}
	}
	if err != nil {
		return nil, err
	}
	r.apart = len(value) == 0
	p, _ := partOf(due)
	r.part = p.Name
	return r, nil
}

// order has instants in the order of unsigned numbers.
func order(t time.Time) uint64 { return uint64(t.UnixMicro()) ^ 1<<63 }

// change is what a transaction does to a shard, before it is committed. The local copy is as it was until then.
type change struct {
	*shard

	rows      map[node.MessageID]*row // nil for removed
	before    map[node.MessageID]*row // heads of what is stored; nil for nothing
	positions map[node.Partition]node.Position
	outputs   []node.Record
	answers   map[uuid.UUID]*answer // nil for removed
	switches  map[string]*switched  // nil for none
	wishes    []uuid.UUID           // that are done
	swept     mark                  // that of the shard, as the change leaves it; see sweepAnswers
	finder    *finder               // where heads are looked up; nil to look up each by itself
	lines     []lineKey             // in which messages are settled
	group     string                // whom the partition belongs to from now on; empty for no change
	seal      *transfer.Seal        // what it is sealed for from now on; nil for no change
}

func (s *shard) change() *change {
	return &change{
		shard: s, rows: map[node.MessageID]*row{}, before: map[node.MessageID]*row{},
		positions: map[node.Partition]node.Position{}, answers: map[uuid.UUID]*answer{}, swept: s.swept,
	}
}

// isLost reports whether the writer is spent, and whether another node owns the partition.
func (s *shard) isLost() (lost, fenced bool) {
	s.quick.Lock()
	defer s.quick.Unlock()
	return s.lost, s.fenced
}

// lose notes that the writer is spent.
func (s *shard) lose(fenced bool) {
	s.quick.Lock()
	defer s.quick.Unlock()
	s.lost, s.fenced = true, s.fenced || fenced
}

// get returns what is stored of a message, as the change leaves it; nil for nothing. It may be a head. What is returned
// is not to be changed.
func (c *change) get(name node.MessageID) (*row, error) {
	if r, changed := c.rows[name]; changed {
		return r, nil
	}
	return c.former(name)
}

// former returns the head of what is stored of a message; nil for nothing. It is read once: the local copy stays as it
// is for as long as there is the change, whose maker has mu.
func (c *change) former(name node.MessageID) (*row, error) {
	if r, known := c.before[name]; known {
		return r, nil
	}
	c.quick.Lock()
	claim, claimed := c.claims[name]
	c.quick.Unlock()
	r := claim.row
	if !claimed {
		var err error
		if c.finder != nil {
			r, err = c.finder.head(c.rowKey(name))
		} else {
			r, err = c.headOf(name)
		}
		if err != nil {
			return nil, err
		}
	}
	c.before[name] = r
	return r, nil
}

// whole returns a row with its content, of what get has returned, to be changed.
func (c *change) whole(r *row) (*row, error) {
	if r.head {
		return c.stored(nameOf(&r.Message))
	}
	return new(*r), nil
}

// stored returns what the local copy has of a message; nil for nothing. The caller has mu or quick.
func (s *shard) stored(name node.MessageID) (*row, error) { return s.storedIn(s.db, name) }

// storedIn returns what there is of a message, read from the local copy or through a batch.
func (s *shard) storedIn(from pebble.Reader, name node.MessageID) (*row, error) {
	head, _, err := get(s.db, from, s.rowKey(name), decodeHead)
	if err != nil || head == nil {
		return nil, err
	}
	due := s.dueKey(head)
	r, some, err := get(s.db, from, due, func(value []byte) (*row, error) { return s.at(from, due, value) })
	if err == nil && !some {
		err = s.db.damaged(fmt.Errorf("%w: %q", errPart, name.ID))
	}
	return r, err
}

// headOf returns the head of what the local copy has of a message; nil for nothing.
func (s *shard) headOf(name node.MessageID) (*row, error) {
	r, _, err := get(s.db, s.db, s.rowKey(name), decodeHead)
	return r, err
}

// kept returns what instructions are decided on.
func (s *shard) kept(r *row) *node.Kept {
	if r == nil {
		return nil
	}
	attempts := r.attempts
	s.quick.Lock()
	claim, claimed := s.claims[nameOf(&r.Message)]
	s.quick.Unlock()
	if claimed = claimed && claim.Incarnation == r.Incarnation; claimed {
		attempts = claim.attempts
	}
	if s.mayBeOut(r) {
		attempts = max(attempts, 1)
	}
	return &node.Kept{
		Incarnation: r.Incarnation, Deadline: r.Deadline, Due: r.due, Claimed: claimed, Attempts: attempts,
		Bound: r.bound, Former: r.former, Sequence: r.Sequence, Stopped: r.stopped,
	}
}

func nameOf(m *node.Message) node.MessageID { return node.MessageID{ID: m.ID, Lane: m.Lane} }

// commit commits a change to the journal, and then applies it to the local copy. After an error that is not
// ledger.ErrAborted the shard is lost: what has become of the change stands in the journal.
func (c *change) commit(ctx context.Context) error {
	if lost, _ := c.isLost(); lost {
		return fmt.Errorf("partition %s: %w: %w", ledger.Name(c.number), ledger.ErrFenced, ledger.ErrAborted)
	}
	if err := c.db.works(); err != nil {
		c.lose(false)
		return fmt.Errorf("partition %s: %w: %w", ledger.Name(c.number), ledger.ErrAborted, err)
	}
	entries, batch, err := c.prepare()
	if err != nil {
		return err
	}
	if len(entries) == 0 && len(c.outputs) == 0 {
		return nil
	}
	c.moved += len(entries)
	began := c.now()
	end, err := c.writer.Commit(ctx, ledger.Transaction{Entries: entries, Outputs: c.outputs})
	if err != nil {
		fenced := errors.Is(err, ledger.ErrFenced)
		if fenced || errors.Is(err, ledger.ErrSpent) || !errors.Is(err, ledger.ErrAborted) {
			c.lose(fenced)
		}
		return fmt.Errorf("partition %s: %w", ledger.Name(c.number), err)
	}
	// The epoch stays that of the fence: it was the leader's then, and if it is another one's by now, the copy is
	// found to be of another log, and made anew, which is not necessary but right.
	if len(entries) > 0 { // outputs alone leave no mark in the journal
		c.overhear(end, len(entries))
	}
	c.place.Offset, c.asOf, c.committed = max(c.place.Offset, end), began, began
	if err := c.applied(batch); err != nil {
		c.lose(false) // the journal has it
		return err
	}
	if c.group != "" {
		c.shard.group = c.group
	}
	if c.seal != nil {
		c.shard.seal = *c.seal
	}
	return nil
}

// applied applies a change that was committed, for all who look on: the messages, and the claims on them.
func (c *change) applied(batch *pebble.Batch) error {
	c.quick.Lock()
	defer c.quick.Unlock()
	if err := c.apply(batch); err != nil {
		return err
	}
	c.shard.swept = c.swept
	for id, a := range c.answers {
		if a != nil {
			c.shard.swept = min(c.shard.swept, expiryOf(id, a))
		}
	}
	maps.Copy(c.shard.positions, c.positions)
	maps.Copy(c.shard.switches, c.switches)
	c.ours = c.asOf
	for name, r := range c.rows {
		c.freshen(c.before[name], r)
		claim, claimed := c.claims[name]
		switch {
		case !claimed:
		case r == nil || r.Incarnation != claim.Incarnation:
			delete(c.claims, name)
		default:
			claim.row = new(*r)
			claim.row.behead()
			c.claims[name] = claim
		}
		if r != nil {
			c.sink(r)
		}
	}
	return c.advance()
}

// prepare returns what a change says to the journal, and to the local copy.
func (c *change) prepare() ([]ledger.Entry, *pebble.Batch, error) {
	var entries []ledger.Entry
	batch := c.db.NewBatch()
	for _, name := range slices.SortedFunc(maps.Keys(c.rows), compareNames) {
		before, err := c.former(name)
		if err != nil {
			return nil, nil, err
		}
		after := c.rows[name]
		if before != nil && (after == nil || after.Incarnation != before.Incarnation) {
			entries = append(entries, ledger.Entry{Key: journalKey(before.Ref())})
		}
		var value []byte
		if after != nil {
			value = after.encode()
			entries = append(entries, ledger.Entry{Key: journalKey(after.Ref()), Value: value})
		}
		if err := c.put(batch, before, after, name, value); err != nil {
			return nil, nil, err
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(c.positions), comparePartitions) {
		value := writePosition(c.positions[p])
		entries = append(entries, ledger.Entry{Key: inputKey(p), Value: value})
		if err := batch.Set(c.key(positionKind, inputKey(p)[1:]), value, nil); err != nil {
			return nil, nil, err
		}
	}
	entries, err := c.prepareAnswers(entries, batch)
	if err != nil {
		return nil, nil, err
	}
	if entries, err = c.prepareSwitches(entries, batch); err != nil {
		return nil, nil, err
	}
	if c.group != "" {
		entries = append(entries, ledger.Entry{Key: []byte{groupKey}, Value: []byte(c.group)})
		if err := batch.Set(c.key(groupKind), []byte(c.group), nil); err != nil {
			return nil, nil, err
		}
	}
	if c.seal != nil {
		value := writeSeal(c.seal)
		entries = append(entries, ledger.Entry{Key: []byte{sealKey}, Value: value})
		if err := batch.Set(c.key(sealKind), value, nil); err != nil {
			return nil, nil, err
		}
	}
	return entries, batch, nil
}

func compareNames(a, b node.MessageID) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
}

func comparePartitions(a, b node.Partition) int { return bytes.Compare(inputKey(a), inputKey(b)) }

// put has a batch replace what the local copy has of a message. After may be a head: value is all of it, encoded. That
// is stored where the message falls due, so that a claim reads what it takes in one go; what is large is apart, in the
// same order. By its id there is the head, which is what most instructions need, and which says whether it is apart.
func (s *shard) put(batch *pebble.Batch, before, after *row, name node.MessageID, value []byte) error {
	if err := s.stand(batch, before, after); err != nil {
		return fmt.Errorf("write the local copy: %w", err)
	}
	if before != nil {
		due := s.dueKey(before)
		if err := batch.Delete(due, nil); err != nil {
			return fmt.Errorf("write the local copy: %w", err)
		}
		if before.apart {
			if err := batch.Delete(apartKey(due), nil); err != nil {
				return fmt.Errorf("write the local copy: %w", err)
			}
		}
	}
	if after == nil {
		return batch.Delete(s.rowKey(name), nil) //nolint:wrapcheck // apply says what it was
	}
	due := s.dueKey(after)
	if after.apart = len(value) >= large; after.apart {
		if err := batch.Set(apartKey(due), value, nil); err != nil {
			return fmt.Errorf("write the local copy: %w", err)
		}
		value = nil
	}
	if err := batch.Set(due, value, nil); err != nil {
		return fmt.Errorf("write the local copy: %w", err)
	}
	return batch.Set(s.rowKey(name), after.encodeHead(), nil) //nolint:wrapcheck // apply says what it was
}

// apply writes to the local copy, with the place up to which it has come: so it is never ahead of that. It is not
// synced: what the disk loses is read again.
func (s *shard) apply(batch *pebble.Batch) error {
	value := append([]byte{max(s.form, copyVersion)}, s.place.TopicID[:]...)
	value = binary.BigEndian.AppendUint32(value, uint32(s.place.Epoch))
	value = binary.BigEndian.AppendUint64(value, uint64(s.place.Offset))
	value = binary.BigEndian.AppendUint64(value, uint64(s.asOf.UnixMicro()))
	if err := batch.Set(s.key(placeKind), value, nil); err != nil {
		return fmt.Errorf("write the local copy: %w", err)
	}
	if err := s.db.write(batch, s.now()); err != nil {
		return err
	}
	return batch.Close() //nolint:wrapcheck // which lends its memory to the next one, and has no errors
}

// local returns up to where the local copy has come, and an instant at which the journal ended there; false if there is
// no copy, or none that this release can read.
func (s *shard) local() (place ledger.Place, at time.Time, some bool, err error) {
	_, some, err = get(s.db, s.db, s.key(placeKind), func(data []byte) (struct{}, error) {
		if len(data) == 37 && (data[0] == copyVersion || data[0] == parkedVersion) {
			s.form = data[0]
			place = ledger.Place{
				TopicID: uuid.UUID(data[1:17]), Number: s.number,
				Position: node.Position{
					Epoch:  int32(binary.BigEndian.Uint32(data[17:])),
					Offset: int64(binary.BigEndian.Uint64(data[21:])),
				},
			}
			at = time.UnixMicro(int64(binary.BigEndian.Uint64(data[29:])))
		}
		return struct{}{}, nil
	})
	return place, at, some && !at.IsZero(), err
}

// wipe removes the local copy. Where there is none, nothing is written: a range that was removed is looked at by every
// read until Pebble has compacted it.
func (s *shard) wipe() error {
	from := binary.BigEndian.AppendUint32(nil, uint32(s.number))
	to := binary.BigEndian.AppendUint32(nil, uint32(s.number)+1)
	some := false
	if err := s.between(from, to, func(_, _ []byte) (bool, error) {
		some = true
		return false, nil
	}); err != nil || !some {
		return err
	}
	batch := s.db.NewBatch()
	if err := batch.DeleteRange(from, to, nil); err != nil {
		return fmt.Errorf("remove the local copy: %w", err)
	}
	return s.db.write(batch, s.now())
}
