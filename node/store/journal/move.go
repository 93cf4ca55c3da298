package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/queue"
	"chronos/node/store/inspect"
	"chronos/node/store/transfer"
)

// Log is a ledger of which anybody can see where it ends, who owns it or not.
type Log interface {
	ledger.Ledger

	// Stable returns the offset behind everything in a partition that has been committed, and before which no
	// transaction is open: what stands below it stays, and can be read.
	Stable(ctx context.Context, number int32) (int64, error)
}

// MoveConfig says what a Mover moves.
type MoveConfig struct {
	// Log is the journal, and Partitions how many it has: all of them are moved.
	Log        Log
	Partitions int32

	// Dir is a folder for a copy of all of it. It should be a new one.
	Dir string

	// Now is the clock, for people, and for the age of the copy. MaxAge is that of Config.
	Now    func() time.Time
	MaxAge time.Duration

	// Silence is how long Kafka may say nothing of a partition; a minute if zero. After that, it is a SilentError.
	Silence time.Duration

	// Fit says what the journal can hold, and where.
	Fit Fit
}

// Mover moves the contents of a journal. What it looks at it reads like any consumer, and disturbs nobody. What it
// changes it owns for that: nodes that run are fenced, and end when they own again and find the seal. A node that comes
// meanwhile fences the Mover, which then owns anew, reads what has been committed, and decides again.
//
// Every change is a transaction for each partition, and there is none over several of them. So a seal says of its
// partition how far that has come, and what is true of the journal follows from all of them:
//
//	any is sealed for an export     the journal is, and to seal it again seals the others
//	any is being filled             so is the journal, up to the line that the hindmost has
//	else any was filled             so was the journal
//
// Its methods are called one at a time. The caller closes it.
type Mover struct {
	config MoveConfig
	db     *disk
	owner  uuid.UUID

	mu    sync.Mutex
	parts []*shard // by number; nil before the first look

	// covered has by the partition up to which line of the import there is nothing left to say in it.
	covered []int64

	// indexed says that there is an index of all messages by name, and what it has found.
	indexed       bool
	stored, twice int64

	// answers is how many answers there were then.
	answers int64
}

var _ transfer.Picky = (*Mover)(nil)

// Fits implements transfer.Picky.
func (m *Mover) Fits() transfer.Fits {
	fit := m.config.Fit
	return &fit
}

// tries is how often a change of one partition is begun, and begun anew when somebody has fenced it.
const tries = 10

// OpenMover opens the copy. It looks at nothing yet.
func OpenMover(config MoveConfig) (*Mover, error) {
	store, err := Open(Config{Dir: config.Dir, Now: config.Now, MaxAge: config.MaxAge})
	if err != nil {
		return nil, err
	}
	config.MaxAge = store.config.MaxAge
	config.Log = &limited{config.Log, cmp.Or(config.Silence, defaultSilence)}
	owner, err := uuid.NewRandom()
	if err != nil {
		return nil, fmt.Errorf("draw the name of an owner: %w", errors.Join(err, store.Close()))
	}
	return &Mover{
		config: config, db: store.db, owner: owner,
		parts: make([]*shard, config.Partitions), covered: make([]int64, config.Partitions),
	}, nil
}

// Close gives up what is owned, and closes the copy.
func (m *Mover) Close() error {
	for _, p := range m.parts {
		if p != nil {
			p.writer.Close()
		}
	}
	if err := m.db.Close(); err != nil {
		return fmt.Errorf("close the copy of the journal: %w", err)
	}
	return nil
}

// wall returns the time as Store.wall does.
func (m *Mover) wall() time.Time { return m.config.Now().Round(0) }

// onlooker is the writer of a partition that nobody here owns: its copy is read up to an end.
type onlooker struct{ end int64 }

// Fence implements ledger.Writer.
func (o onlooker) Fence() int64 { return o.end - 1 }

// Commit implements ledger.Writer.
func (o onlooker) Commit(context.Context, ledger.Transaction) (int64, error) {
	return 0, fmt.Errorf("%w: %w", ledger.ErrFenced, ledger.ErrAborted)
}

// Close implements ledger.Writer.
func (o onlooker) Close() {}

// look has the copy of each partition be what is in it, and owns nothing.
func (m *Mover) look(ctx context.Context) error {
	read := make([]bool, len(m.parts))
	err := atOnce(len(m.parts), func(i int) error {
		end, err := m.config.Log.Stable(ctx, int32(i))
		if err != nil {
			return fmt.Errorf("look at partition %d of the journal: %w", i, err)
		}
		if p := m.parts[i]; p != nil && p.writer == (onlooker{end}) {
			return nil
		}
		read[i] = true
		return m.read(ctx, int32(i), onlooker{end})
	})
	m.indexed = m.indexed && !slices.Contains(read, true)
	return err
}

// own owns a partition, and has its copy be what is in it.
func (m *Mover) own(ctx context.Context, number int32) error {
	fence := ledger.Entry{Key: []byte{fenceKey}, Value: m.owner[:]}
	writer, err := m.config.Log.Own(ctx, number, fence)
	if err != nil {
		return err
	}
	if err := m.read(ctx, number, writer); err != nil {
		writer.Close()
		return err
	}
	return nil
}

// read reads a partition up to the fence of a writer, which is the one of the partition from then on.
func (m *Mover) read(ctx context.Context, number int32, writer ledger.Writer) error {
	_, looks := writer.(onlooker)
	p := newShard(number, m.db, m.wall, m.config.MaxAge, writer)
	p.lost = looks
	if err := p.catchUp(ctx, m.config.Log); err != nil {
		return fmt.Errorf("read partition %d of the journal: %w", number, err)
	}
	if before := m.parts[number]; before != nil {
		before.writer.Close()
	}
	m.parts[number] = p
	return nil
}

// write has a partition say what decide adds to a change, in one transaction. Decide reports whether there is anything
// to say; it is asked before the partition is owned, so that nobody is fenced in vain, and again after that. If the
// transaction is refused, or nobody knows its end, the partition is owned anew, and what it says then decides.
func (m *Mover) write(ctx context.Context, number int32, decide func(*change) (bool, error)) error {
	var last error
	for range tries {
		p := m.parts[number]
		c := p.change()
		goes, err := decide(c)
		if err != nil || !goes {
			return err
		}
		if lost, _ := p.isLost(); lost {
			last = m.own(ctx, number)
		} else if last = c.commit(ctx); last == nil {
			return nil
		}
		if _, silent := errors.AsType[*SilentError](last); silent || ctx.Err() != nil {
			return last
		}
	}
	return fmt.Errorf("partition %d of the journal was owned %d times, and each time somebody else came or Kafka did "+
		"not answer; stop the nodes, and do it again: %w", number, tries/2, last)
}

// writeAll is write in all partitions, at once.
func (m *Mover) writeAll(ctx context.Context, decide func(*change) (bool, error)) error {
	m.indexed = false
	return atOnce(len(m.parts), func(i int) error { return m.write(ctx, int32(i), decide) })
}

// seal returns what follows from the seals of all partitions.
func (m *Mover) seal() (seal transfer.Seal) {
	lines, open := int64(-1), false
	for i, p := range m.parts {
		switch p.seal.Kind {
		case transfer.Exported:
			return p.seal
		case transfer.Importing:
			seal = p.seal
			if covered := max(p.seal.Lines, m.covered[i]); lines < 0 || covered < lines {
				lines = covered
			}
		case transfer.Imported:
			if seal.Kind == transfer.Open {
				seal = p.seal
			}
		case transfer.Open:
			open = true
		}
	}
	if seal.Kind == transfer.Importing {
		if seal.Lines, seal.Lineage = lines, 0; open {
			seal.Lines = 0
		}
	}
	return seal
}

// Sealed implements transfer.Store. Others may have changed the seal since the last look. A journal of which a part is
// open is not sealed for an export: what that part has may come out.
func (m *Mover) Sealed(ctx context.Context) (transfer.Seal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look(ctx); err != nil {
		return transfer.Seal{}, err
	}
	seal := m.seal()
	if seal.Kind == transfer.Exported && slices.ContainsFunc(m.parts, func(p *shard) bool { return p.seal != seal }) {
		return transfer.Seal{}, nil
	}
	return seal, nil
}

// Contents implements transfer.Store.
func (m *Mover) Contents(ctx context.Context) (transfer.Contents, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look(ctx); err != nil {
		return transfer.Contents{}, err
	}
	return m.contents()
}

func (m *Mover) contents() (c transfer.Contents, err error) {
	if err := m.index(); err != nil {
		return c, err
	}
	c.Seal, c.Messages, c.Answers = m.seal(), m.stored, m.answers
	c.State = m.state()
	if m.twice > 0 {
		c.Unmovable = fmt.Sprintf("%d ids wait in it more than once, on one topic and under keys of several "+
			"partitions, and no other store can hold that: cancel them under one of their keys", m.twice)
	}
	for _, p := range m.parts {
		if p.group != "" {
			c.Bound.Cluster, c.Bound.Group = m.config.Fit.Cluster, p.group
		}
		for in, position := range p.positions {
			in.Topic = m.config.Fit.Input.Topic // the journal has always had this one
			c.Places = append(c.Places, inspect.Place{Place: node.Place{Partition: in, Position: position}, Mark: -1})
		}
	}
	c.Bound.Partitions = len(c.Places)
	c.Pauses = pausesOf(m.parts)
	input := m.config.Fit.Input
	if input.TopicID != uuid.Nil && len(c.Places) > 0 && !slices.ContainsFunc(c.Places, func(p inspect.Place) bool {
		return p.TopicID == input.TopicID
	}) {
		c.Unmovable = fmt.Sprintf("none of its positions is of the input topic %s: name the one that it belongs to "+
			"(--input-topic), so that the positions are moved under that name", input.Topic)
	}
	slices.SortFunc(c.Places, func(a, b inspect.Place) int {
		return comparePlaces(a.Partition, b.Partition)
	})
	return c, nil
}

// comparePlaces has partitions of one topic in the order of their numbers, then of the ids that the topic has had.
func comparePlaces(a, b node.Partition) int {
	if a.Number != b.Number {
		return int(a.Number - b.Number)
	}
	return bytes.Compare(a.TopicID[:], b.TopicID[:])
}

// state returns the state of the journal, as that of a database would be: a sealed one stands before a gate.
func (m *Mover) state() node.State {
	s := state()
	for _, p := range m.parts {
		s.Lineage = max(s.Lineage, p.lineage())
	}
	if seal := m.seal(); seal.Sealed() {
		s.CatchingUp, s.Holding = true, true
	}
	return s
}

// seals returns the seals of all partitions.
func (m *Mover) seals() (seals []transfer.Seal) {
	for _, p := range m.parts {
		seals = append(seals, p.seal)
	}
	return seals
}

// isUndone reports whether an export has been undone in some of the partitions that have these seals.
func isUndone(seals []transfer.Seal, id uuid.UUID) bool {
	return slices.ContainsFunc(seals, func(s transfer.Seal) bool { return s.Kind == transfer.Open && s.ID == id })
}

// Seal implements transfer.Store. Partitions of which some node takes messages in meanwhile are sealed one after the
// other; each is the state of the instant of its own seal, and none has a message of another one.
//
// Where an export has sealed a part and died, the rest gets the same seal; and where several exports have begun, all
// get that of the first partition. But where one was undone in a part, what that has may have come out since, and
// whoever reads the journal for that export must not go on: all get a new one.
//
//	export   seals 0 and 1, reads 0              reads 1: x waits; ends: is it sealed as it was?
//	undo            opens 1, dies; x comes out           export, again: seals 1
func (m *Mover) Seal(ctx context.Context, id uuid.UUID, by string) (transfer.Seal, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look(ctx); err != nil {
		return transfer.Seal{}, err
	}
	seal, seen := m.seal(), m.seals()
	if seal.Kind != transfer.Exported || isUndone(seen, seal.ID) {
		contents, err := m.contents()
		if err == nil {
			contents.State.Holding = false // of a part of it
			err = contents.Refusal()
		}
		if err != nil {
			return seal, err
		}
		seal = transfer.Seal{
			Kind: transfer.Exported, ID: id, By: by, Since: m.config.Now().UTC().Truncate(time.Microsecond),
			Lineage: m.state().Lineage,
		}
	}
	err := m.writeAll(ctx, func(c *change) (bool, error) {
		switch c.shard.seal.Kind {
		case transfer.Exported:
			switch c.shard.seal.ID {
			case seal.ID:
				return false, nil
			case seen[c.number].ID:
			default:
				return false, fmt.Errorf("another export, %s, has begun to seal the journal: do it again",
					c.shard.seal.ID)
			}
		case transfer.Importing:
			return false, (&transfer.Contents{Seal: c.shard.seal}).Refusal()
		case transfer.Open, transfer.Imported:
		}
		c.seal = &seal
		return true, nil
	})
	return m.seal(), err
}

// Unseal implements transfer.Store. Nothing has to be waited for: no owner of before the seal can fire.
func (m *Mover) Unseal(ctx context.Context) (node.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.look(ctx); err != nil {
		return node.State{}, err
	}
	if seal := m.seal(); seal.Kind != transfer.Exported {
		return m.state(), transfer.NotExported(&seal)
	}
	err := m.writeAll(ctx, func(c *change) (bool, error) {
		if c.shard.seal.Kind != transfer.Exported {
			return false, nil
		}
		c.seal = &transfer.Seal{ID: c.shard.seal.ID, Lineage: c.shard.seal.Lineage}
		return true, nil
	})
	return m.state(), err
}

// Held implements transfer.Store. A claim in a journal is of a process: whoever had one is fenced, and publishes
// nothing. A callback may be under way, which is made at least once.
func (m *Mover) Held(ctx context.Context) (transfer.Held, error) { return transfer.Held{}, ctx.Err() }

// QueuesBehind implements transfer.Store: there are none, nor tasks, nor actions.
func (m *Mover) QueuesBehind(ctx context.Context, _ string, _ int) ([]queue.Queue, error) {
	return nil, ctx.Err()
}

// TasksBehind implements transfer.Store.
func (m *Mover) TasksBehind(ctx context.Context, _ uuid.UUID, _, _ int) ([]queue.Task, error) {
	return nil, ctx.Err()
}

// ActionsBehind implements transfer.Store.
func (m *Mover) ActionsBehind(ctx context.Context, _ uuid.UUID, _, _ int) ([]queue.Action, error) {
	return nil, ctx.Err()
}

// The index of all messages by their names stands in the copy as that of a partition that no topic has. Its keys are
// id, NUL, lane, NUL and the number of the partition: neither ids nor lanes have a NUL, so that they are in the order
// of names.
const (
	indexNumber = math.MaxInt32
	indexKind   = 'o'
)

func (m *Mover) indexKey(name node.MessageID, number uint32) []byte {
	s := shard{number: indexNumber}
	return binary.BigEndian.AppendUint32(
		s.key(indexKind, []byte(name.ID), []byte{0}, []byte(name.Lane), []byte{0}), number)
}

// readIndexKey is the reverse of indexKey.
func readIndexKey(key []byte) (name node.MessageID, number int32) {
	names := key[5 : len(key)-5]
	id, lane, _ := bytes.Cut(names, []byte{0})
	return node.MessageID{ID: string(id), Lane: string(lane)}, int32(binary.BigEndian.Uint32(key[len(key)-4:]))
}

// index makes the index, if what it is of has changed.
func (m *Mover) index() error {
	if m.indexed {
		return nil
	}
	all := &shard{number: indexNumber, db: m.db, now: m.wall}
	if err := all.wipe(); err != nil {
		return err
	}
	for _, p := range m.parts {
		if err := m.indexPart(p); err != nil {
			return err
		}
	}
	m.stored, m.twice, m.answers = 0, 0, 0
	for _, p := range m.parts {
		n, err := p.count(p.tells(m.config.Now()))
		if err != nil {
			return err
		}
		m.answers += n
	}
	var last node.MessageID
	prefix := all.key(indexKind)
	err := all.scan(prefix, prefix, func(key, _ []byte) (bool, error) {
		name, _ := readIndexKey(key)
		if m.stored++; name == last {
			m.twice++
		}
		last = name
		return true, nil
	})
	m.indexed = err == nil
	return err
}

func (m *Mover) indexPart(p *shard) error {
	prefix := p.key(rowKind)
	batch := m.db.NewBatch()
	flush := func() error {
		if err := m.db.write(batch, m.wall()); err != nil {
			return err
		}
		batch = m.db.NewBatch()
		return nil
	}
	err := p.scan(prefix, prefix, func(key, _ []byte) (bool, error) {
		lane, id, _ := bytes.Cut(key[len(prefix):], []byte{0})
		name := node.MessageID{ID: string(id), Lane: string(lane)}
		if err := batch.Set(m.indexKey(name, uint32(p.number)), nil, nil); err != nil {
			return false, fmt.Errorf("write the copy: %w", err)
		}
		if batch.Count() < replayBatch {
			return true, nil
		}
		return true, flush()
	})
	return errors.Join(err, flush())
}

// Messages implements transfer.Store.
func (m *Mover) Messages(
	ctx context.Context, after node.MessageID, limit, size int,
) (messages []transfer.Message, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.index(); err != nil {
		return nil, err
	}
	if m.twice > 0 { // since the look that found none
		return nil, fmt.Errorf("%d ids wait in several partitions of the journal, which no other store can hold: undo "+
			"the export, cancel them under one of their keys, and export again", m.twice)
	}
	all := &shard{number: indexNumber, db: m.db, now: m.wall}
	prefix := all.key(indexKind)
	from := prefix
	if after != (node.MessageID{}) {
		from = m.indexKey(after, 1<<32-1) // behind all partitions
	}
	err = all.scan(prefix, from, func(key, _ []byte) (bool, error) {
		if len(messages) >= limit || size <= 0 {
			return false, nil
		}
		name, number := readIndexKey(key)
		r, err := m.parts[number].stored(name)
		if err != nil || r == nil {
			return err == nil, err
		}
		size -= r.Size()
		messages = append(messages, transfer.Message{
			Message: r.Message, Due: r.due, Attempts: r.attempts,
			Bound: r.bound, Former: r.former, Stopped: r.stopped, Behind: r.behind,
		})
		return true, nil
	})
	return messages, err
}
