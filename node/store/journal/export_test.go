package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/memory"
)

// Dump returns all rows of the partitions that the store owns, in the order of their ids, then lanes.
func (s *Store) Dump() ([]memory.Row, error) {
	var rows []memory.Row
	err := s.each(func(owned *shard) error {
		prefix := owned.key(rowKind)
		return owned.scan(prefix, prefix, func(_, value []byte) (bool, error) {
			head, err := decodeHead(value)
			if err != nil {
				return false, err
			}
			r, err := owned.stored(nameOf(&head.Message))
			if err != nil {
				return false, err
			}
			kept, claim := owned.kept(r), owned.claims[nameOf(&r.Message)]
			rows = append(rows, memory.Row{
				Message: r.Message, Due: r.due, ReadiedAt: claim.ReadiedAt, ReadiedBy: claim.ReadiedBy,
				Expires: claim.Expires, Attempts: kept.Attempts, Behind: r.behind, Bound: r.bound, Former: r.former,
				Stopped: r.stopped,
			})
			return true, nil
		})
	})
	slices.SortFunc(rows, func(a, b memory.Row) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return rows, err
}

// Owning returns how many attempts to own a partition are under way.
func (s *Source) Owning() (attempts int) {
	for _, t := range s.here {
		if t.done != nil {
			attempts++
		}
	}
	return attempts
}

// Rest is what a timer calls, which has been stopped too late, when nobody has waited for a partition for long.
func (a *Asker) Rest(number int32) {
	a.mu.Lock()
	t := a.tails[number]
	a.mu.Unlock()
	if t != nil {
		a.rest(t)
	}
}

// RestsUntil returns until when a partition rests whose last transaction began and ended then, and moved that many
// entries.
func RestsUntil(began, ended time.Time, moved int, spacing time.Duration) time.Time {
	return restsUntil(began, ended, moved, spacing)
}

// Crowd is how many entries a transaction has that is not followed by a rest.
const Crowd = crowd

// Filtered returns how many looks the filters of the local copy have answered, and how many reads it has made of what
// it does not have in memory.
func (s *Store) Filtered() (answered, reads int64) {
	m := s.db.Metrics()
	return m.Filter.Hits, m.BlockCache.Misses
}

// Large is from how many bytes on a message is kept apart from its key.
const Large = large

// Compact has all of the local copy be on disk, where it comes to rest.
func (s *Store) Compact() error {
	if err := s.db.flush(); err != nil {
		return err
	}
	return s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false)
}

// Age has the copy of a partition be one of an earlier form.
func (s *Store) Age(number int32) error {
	copied := &shard{number: number, db: s.db}
	key := copied.key(placeKind)
	value, _, err := get(s.db, s.db, key, func(data []byte) ([]byte, error) { return bytes.Clone(data), nil })
	if err != nil {
		return err
	}
	value[0]--
	return s.db.Set(key, value, pebble.NoSync)
}

// Waiting returns how many changes of a partition wait for the transaction that is on its way.
func (s *Store) Waiting(number int32) int {
	for _, owned := range s.owned() {
		if owned.number == number {
			owned.joining.Lock()
			defer owned.joining.Unlock()
			return len(owned.jobs)
		}
	}
	return 0
}

// Late returns a transaction of a partition that this node owns, to be begun when it does not own it any more.
func (s *Store) Late(number int32) func(context.Context) error {
	for _, owned := range s.owned() {
		if owned.number == number {
			return func(ctx context.Context) error {
				return owned.do(ctx, func(c *change) error {
					c.group = "late"
					return nil
				})
			}
		}
	}
	return nil
}

// Follower follows by rounds, of which each reads no more than some entries of a partition.
type Follower struct{ *follower }

// NewFollower returns one over a store; most 0 is for as many entries as usual.
func NewFollower(s *Store, most int) Follower {
	f := newFollower(s)
	if most > 0 {
		f.most = most
	}
	return Follower{f}
}

// Round is one of Follow.
func (f Follower) Round(ctx context.Context) ([]Standby, bool) { return f.round(ctx) }

// Copied returns the ids of what the local copy has of a partition, whether this node owns it or not.
func (s *Store) Copied(number int32) (ids []string, err error) {
	copied := &shard{number: number, db: s.db}
	prefix := copied.key(rowKind)
	err = copied.scan(prefix, prefix, func(_, value []byte) (bool, error) {
		r, err := decodeHead(value)
		if err == nil {
			ids = append(ids, r.ID)
		}
		return err == nil, err
	})
	return ids, err
}

// Pressed has the follower leave the disk to owners whenever pressed says so.
func (f Follower) Pressed(pressed func() bool) { f.pressed = pressed }

// IsPressed reports whether followers of the store leave the disk to owners.
func (s *Store) IsPressed() bool { return s.isPressed() }

// MaxFresh is how many messages of a partition are known to be fresh.
const MaxFresh = maxFresh

// Fresh returns how many messages are known to be fresh.
func (s *Store) Fresh() (n int) {
	_ = s.look(func(owned *shard) error {
		n += len(owned.fresh)
		return nil
	})
	return n
}

// Steps returns how many keys of the local copy scans have stepped over, with those that were removed.
func (s *Store) Steps() int64 { return s.db.steps.Load() }

// Flushed returns when it was begun last to write the local copies to disk.
func (s *Store) Flushed() time.Time { return time.UnixMicro(s.db.flushed.Load()) }

// Wish returns the record that wishes for a pause of a lane, or that it is resumed, under a name.
func Wish(name uuid.UUID, lane string, pause bool) (node.Record, error) {
	w := &wish{Name: name, Lane: lane}
	if pause {
		w.Pause = &paused{By: "somebody"}
	}
	e, err := w.entry()
	return node.Record{Key: e.Key, Value: e.Value}, err
}

// Switched returns what a record of the journal says of a lane, or of the intake; false for another record.
func Switched(r node.Record) (lane string, isPaused, some bool) {
	if len(r.Key) == 0 || r.Key[0] != switchKey || r.Value == nil {
		return "", false, false
	}
	is, err := readJSON[switched](aPause, r.Value)
	if err != nil {
		panic(err)
	}
	return string(r.Key[1:]), is.Pause != nil, true
}

// Granted returns the names of the wishes that a record of the journal answers.
func Granted(r node.Record) (names []uuid.UUID) {
	if len(r.Key) == 0 || r.Key[0] != switchKey || r.Value == nil {
		return nil
	}
	is, err := readJSON[switched](aPause, r.Value)
	if err != nil {
		panic(err)
	}
	for _, d := range is.Done {
		names = append(names, d.Name)
	}
	return names
}

// Said is what an entry of the journal says: one of its parts, or none of them if it is not about messages.
type Said struct {
	// Gone is the message that there is no more.
	Gone *node.Ref

	// Row is the message that there is, as the value says it.
	Row *memory.Row

	// Input and Position are the place up to which an input partition is taken in; Input has no name.
	Input    *node.Partition
	Position node.Position

	// Switched is the lane, or node.Intake, of which an owner says whether it is paused, and Paused that it is.
	Switched *string
	Paused   bool

	// Request is the request that is answered, Told what was told, and Asks the records that the entry answers.
	Request uuid.UUID
	Told    node.Told
	Asks    []uuid.UUID
}

// ReadEntry reads an entry of the journal.
func ReadEntry(key, value []byte) (Said, error) {
	switch {
	case key[0] == rowKey && value == nil:
		ref, err := readJournalKey(key)
		return Said{Gone: &ref}, err
	case key[0] == rowKey:
		r, err := decode(value)
		if err != nil {
			return Said{}, err
		}
		return Said{Row: &memory.Row{
			Message: r.Message, Due: r.due, Behind: r.behind, Bound: r.bound, Former: r.former, Stopped: r.stopped,
		}}, nil
	case key[0] == positionKey && value != nil:
		position, err := readPosition(value)
		p := &node.Partition{TopicID: uuid.UUID(key[1:17]), Number: int32(binary.BigEndian.Uint32(key[17:]))}
		return Said{Input: p, Position: position}, err
	case key[0] == answerKey && value != nil:
		a, err := readAnswer(value)
		if err != nil {
			return Said{}, err
		}
		return Said{Request: uuid.UUID(key[1:]), Told: a.Told, Asks: a.Asks}, nil
	case key[0] == switchKey && value != nil:
		lane := string(key[1:])
		is, err := readJSON[switched](aPause, value)
		return Said{Switched: &lane, Paused: err == nil && is.Pause != nil}, err
	}
	return Said{}, nil
}

// IsWish reports whether a record of the journal is a wish.
func IsWish(r node.Record) bool { return len(r.Key) > 0 && r.Key[0] == wishKey && r.Value != nil }

// Limited returns a Log that nobody waits for longer than a limit while it says nothing.
func Limited(log Log, limit time.Duration) Log { return &limited{log, limit} }

// Apart returns how many messages the local copies of the partitions that the store owns have apart from their keys.
func (s *Store) Apart() (n int, err error) {
	err = s.each(func(owned *shard) error {
		prefix := owned.key(apartKind)
		return owned.scan(prefix, prefix, func(_, _ []byte) (bool, error) {
			n++
			return true, nil
		})
	})
	return n, err
}
