// Package journal is a node.Store that keeps everything in Kafka itself: in a compacted topic with as many partitions
// as the input topic has, of which a node owns those whose input partitions it reads. What it has taken in and what it
// fires is committed by Kafka's transactions, and so comes out exactly once for consumers that read what was committed:
//
//	take    position and messages                     one transaction in the partition
//	fire    output records and tombstones             one transaction in the partition and the output topics
//
// What a node works with is a local copy of the partitions that it owns, in Pebble: messages by lane and due time, and
// their heads by id. The copy follows the journal, and is never ahead of it. Nothing of a partition is taken in or
// fired before the copy has come to the fence that the new owner has committed.
//
// docs/adr/0025-a-journal.md says why it is so, and what it does not do yet.
package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/store/inspect"
)

// Config says where a store keeps what.
type Config struct {
	// Ledger is the journal; where there are several input topics, the ledger.Several of the journals of Inputs.
	Ledger ledger.Ledger

	// Inputs are the names of the input topics, in the order of their journals. Empty where there is one, whatever it
	// is called.
	Inputs []string

	// Dir is the folder of the local copy, on the file system Files; on that of this machine if that is nil.
	Dir   string
	Files vfs.FS

	// Now is the clock by which claims expire.
	Now func() time.Time

	// MaxAge is how old a local copy may be that is caught up; an older one is made anew. It must be less than the
	// delete.retention.ms of the topic: behind that, tombstones that the copy has not seen may be gone. An hour if
	// zero.
	MaxAge time.Duration

	// MaxEntry is the largest message, as it is stored; ledger.MaxEntryBytes if zero.
	MaxEntry int

	// Group is the consumer group whose input the journal is of: a partition that belongs to another one is not taken
	// over. Empty for whichever it belongs to.
	Group string

	// Spacing bounds how long a transaction of a partition rests, from the beginning of the one before; zero for no
	// rest. It rests for as long as the one before took. What comes meanwhile is in it, together.
	Spacing time.Duration

	// Observe is told how a local copy is caught up, now and then and when it is done; nil for nobody. The calls of
	// several partitions may come at the same time.
	Observe func(Replay)
}

// Replay is how a local copy is caught up with its partition of the journal.
type Replay struct {
	Number int32

	// Anew says that the copy is made anew, and not caught up from where it was.
	Anew bool

	// Read is how many entries have been read, and Left how many there may be still: fewer, if there is compaction.
	Read, Left int64
}

// OtherGroupError says that a partition belongs to another consumer group.
type OtherGroupError struct {
	Number      int32
	Group, Ours string
}

// Error returns the sentence for a person.
func (e *OtherGroupError) Error() string {
	return fmt.Sprintf("partition %s of the journal belongs to consumer group %s, and this node is of group %s: give "+
		"this deployment a journal of its own, or the group that the journal belongs to", ledger.Name(e.Number),
		e.Group, e.Ours)
}

// Store is a node.Store. It is safe for concurrent use. Open makes one; Close ends it.
//
// An id is unique on its lane among the messages of one input partition: submissions of one id have to have one key.
type Store struct {
	config Config
	db     *disk

	mu     sync.Mutex
	closed bool
	shards map[int32]*shard
	names  map[uuid.UUID]string // of input topics, for people
	inputs []uuid.UUID          // the identities of the input topics; see Identify
	roster map[uuid.UUID]inspect.Node
	busy   map[int32]int // calls of Own and Release, by the partition: see keepOff
	turn   *turn         // of the follower; nil for none

	board  *Switchboard  // nil for none
	called chan struct{} // has Listen look
	ahead  time.Duration // see ClaimAhead
}

var _ node.Store = (*Store)(nil)

// memTable is how many bytes the local copies have in memory before they are written to disk.
const memTable = 32 << 20

// cacheSize is how many bytes the local copies have in memory of what is on disk, beside those of memTable: Pebble
// takes them out of it, those that are being written to disk as well. Filters and indexes have to fit in, or each look
// reads them from the disk.
const cacheSize = 64<<20 + 3*memTable

// Open opens the local copy. It owns nothing yet.
func Open(config Config) (*Store, error) {
	config.MaxAge = cmp.Or(config.MaxAge, time.Hour)
	config.MaxEntry = cmp.Or(config.MaxEntry, ledger.MaxEntryBytes)
	db, err := openDisk(config.Dir, config.Files)
	if err != nil {
		return nil, err
	}
	return &Store{
		config: config, db: db, shards: map[int32]*shard{}, names: map[uuid.UUID]string{},
		roster: map[uuid.UUID]inspect.Node{}, busy: map[int32]int{}, called: make(chan struct{}, 1),
	}, nil
}

// Close gives up everything that is owned, and closes the local copy, which is caught up the next time. Follow must
// have ended. What is called afterwards has an error, or finds nothing that is owned.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, owned := range s.owned() {
		s.Release(owned.number)
	}
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close the local copy of the journal: %w", err)
	}
	return nil
}

// ClaimAhead has the store know how long before it falls due a message is claimed at most, by this node and those that
// owned what it comes to own: node.Config.ClaimAhead. It is called before the store is used.
func (s *Store) ClaimAhead(ahead time.Duration) { s.ahead = ahead }

// DiskSize returns how many bytes the local copy has on disk, once what is in memory has been written there.
func (s *Store) DiskSize() (uint64, error) { return s.db.size() }

// Own makes this node the owner of a partition, and returns when its local copy says what the journal says. Only the
// assignment of the input partition justifies it: who owned it before is fenced.
func (s *Store) Own(ctx context.Context, number int32, owner uuid.UUID) error {
	defer s.keepOff(number)()
	s.interrupt()
	s.Release(number)
	if err := s.db.read(s.db.works); err != nil {
		return err // and fences nobody who could go on
	}
	began := s.config.Now()
	writer, err := s.config.Ledger.Own(ctx, number, ledger.Entry{Key: []byte{fenceKey}, Value: owner[:]})
	if err != nil {
		return err
	}
	owned := newShard(number, s.db, s.wall, s.config.MaxAge, writer)
	owned.ours, owned.since, owned.ahead = began, s.config.Now(), s.ahead
	owned.observe, owned.spacing, owned.committed = s.config.Observe, s.config.Spacing, began
	if err := owned.catchUp(ctx, s.config.Ledger); err != nil {
		writer.Close()
		return fmt.Errorf("catch up partition %s of the journal: %w", ledger.Name(number), err)
	}
	if err := s.swapped(owned); err != nil {
		writer.Close()
		return err
	}
	if owned.seal.Sealed() {
		writer.Close()
		return &SealedError{Number: number, Seal: owned.seal}
	}
	if err := owned.belong(ctx, s.config.Group); err != nil {
		writer.Close()
		return err
	}
	if err := owned.obeyed(ctx); err != nil {
		writer.Close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		writer.Close()
		return errClosed
	}
	s.shards[number] = owned
	return nil
}

// wall returns the time without the reading of a monotonic clock. That one stands still while a machine is suspended,
// and Kafka removes tombstones meanwhile.
func (s *Store) wall() time.Time { return s.config.Now().Round(0) }

// Release gives a partition up. The local copy stays, and is caught up when the partition comes back.
func (s *Store) Release(number int32) {
	defer s.keepOff(number)()
	s.mu.Lock()
	owned := s.shards[number]
	delete(s.shards, number)
	s.mu.Unlock()
	if owned == nil {
		return
	}
	owned.mu.Lock()
	defer owned.mu.Unlock()
	owned.lose(false)
	owned.writer.Close()
}

// Loss is a partition whose writer is spent: nothing is taken in or fired there until it is owned anew.
type Loss struct {
	Number int32

	// Fenced says that another node owns it. Otherwise the outcome of a transaction is unknown.
	Fenced bool
}

// Lost returns the partitions whose writers are spent, in order; all of them once the disk has failed.
func (s *Store) Lost() []Loss {
	var lost []Loss
	for _, owned := range s.owned() {
		if is, fenced := owned.isLost(); is || s.db.works() != nil {
			lost = append(lost, Loss{owned.number, fenced})
		}
	}
	return lost
}

// owned returns the partitions that this node owns, by number.
func (s *Store) owned() []*shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.shards), func(a, b *shard) int { return cmp.Compare(a.number, b.number) })
}

// each calls do with each partition that works, one after the other, and with its transactions to itself.
func (s *Store) each(do func(*shard) error) error {
	var errs []error
	for _, owned := range s.owned() {
		owned.mu.Lock()
		if lost, _ := owned.isLost(); !lost {
			errs = append(errs, do(owned))
		}
		owned.mu.Unlock()
	}
	return errors.Join(errs...)
}

// working returns the partitions that this node owns and has not lost.
func (s *Store) working() []*shard {
	return slices.DeleteFunc(s.owned(), func(owned *shard) bool {
		lost, _ := owned.isLost()
		return lost
	})
}

// atOnce calls do with the numbers up to n, all at once, and waits for all of them.
func atOnce(n int, do func(i int) error) error {
	if n == 1 {
		return do(0)
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = do(i) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// look calls do with each partition that works, one after the other, while their claims stand still. It waits for no
// transaction.
func (s *Store) look(do func(*shard) error) error {
	var errs []error
	for _, owned := range s.owned() {
		owned.quick.Lock()
		if !owned.lost {
			errs = append(errs, do(owned))
		}
		owned.quick.Unlock()
	}
	return errors.Join(errs...)
}

// lock locks the partitions of these numbers that are owned, in order, and returns them.
func (s *Store) lock(number func(int32) bool) (locked []*shard, unlock func()) {
	locked = slices.DeleteFunc(s.owned(), func(owned *shard) bool { return !number(owned.number) })
	for _, owned := range locked {
		owned.mu.Lock()
	}
	return locked, func() {
		for _, owned := range locked {
			owned.mu.Unlock()
		}
	}
}

// state is what the store says of itself: Kafka is not set back.
func state() node.State { return node.State{Lineage: 1} }

// nameless returns a partition without the name of its topic, which is for people.
func nameless(p node.Partition) node.Partition {
	p.Topic = ""
	return p
}

// Bind implements node.Store. The journal is on the cluster that it belongs to, and the transactional ids of its
// writers have the name of the group.
func (s *Store) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	bound := node.Bound{Cluster: request.Cluster, Group: request.Group}
	if err := ctx.Err(); err != nil {
		return node.Bound{}, err
	}
	return bound, s.each(func(owned *shard) error {
		bound.Partitions += len(owned.positions)
		return nil
	})
}

// Positions implements node.Store. A partition that is not owned is an error.
func (s *Store) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.State{}, err
	}
	positions := make([]node.Position, len(places))
	for i, place := range places {
		position, err := s.position(ctx, place)
		if err != nil {
			return nil, node.State{}, err
		}
		positions[i] = position
	}
	return positions, s.state(), nil
}

// position returns the position of a partition, which is that of place if there was none. That of a partition that is
// lost is the last one known: its takes are refused. It has to be answered, since whoever asks does so until then, and
// hears of the loss in a poll only.
func (s *Store) position(ctx context.Context, place node.Place) (node.Position, error) {
	wanted := s.number(place.Partition)
	locked, unlock := s.lock(func(number int32) bool { return number == wanted })
	defer unlock()
	if len(locked) == 0 {
		return node.Position{}, fmt.Errorf("this node does not own partition %s of the journal: it owns what it has "+
			"been assigned", ledger.Name(wanted))
	}
	s.name(place.Partition)
	position, found := locked[0].positions[nameless(place.Partition)]
	if found {
		return position, nil
	}
	if lost, _ := locked[0].isLost(); lost {
		return place.Position, nil // it is asked for again when the partition is owned anew
	}
	c := locked[0].change()
	c.positions[nameless(place.Partition)] = place.Position
	return place.Position, c.commit(ctx)
}

// errSetBack says that the journal lacks what was committed to it.
var errSetBack = errors.New("the journal has lost what was committed to it, or a rewind was asked for: an unclean " +
	"election of a leader is the usual cause; restore the topic, or export what is left and import it; if instead " +
	"the input topic was deleted and created again, stop all nodes, and delete what the consumer group has committed " +
	"(kafka-consumer-groups.sh --delete-offsets)")

// CatchUp implements node.Store. Kafka keeps what it has committed; what shows that it has not is an error.
func (s *Store) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	if err := ctx.Err(); err != nil {
		return node.State{}, err
	}
	if request.Begin && request.Lineage == state().Lineage {
		return node.State{}, errSetBack
	}
	return s.state(), nil
}

// name remembers the name of a topic, which is for people.
func (s *Store) name(p node.Partition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[p.TopicID] = p.Topic
}

// belong has the partition belong to a group, if it belongs to nobody yet. What belongs to another group is an error.
// Of two deployments with one journal the second one has fenced the first by then, which takes the partition back when
// the second has ended.
func (s *shard) belong(ctx context.Context, group string) error {
	switch {
	case group == "" || s.group == group:
		return nil
	case s.group != "":
		return &OtherGroupError{Number: s.number, Group: s.group, Ours: group}
	}
	c := s.change()
	c.group = group
	return c.commit(ctx)
}

// loadGroup reads from the local copy whom the partition belongs to.
func (s *shard) loadGroup() (err error) {
	s.group, _, err = get(s.db, s.db, s.key(groupKind), func(value []byte) (string, error) {
		return string(value), nil
	})
	return err
}

// loadPositions reads the positions of input partitions from the local copy.
func (s *shard) loadPositions() error {
	prefix := s.key(positionKind)
	return s.scan(prefix, prefix, func(key, value []byte) (bool, error) {
		rest := key[len(prefix):]
		if len(rest) != 20 {
			return false, errForeign
		}
		position, err := readPosition(value)
		number := int32(uint32(rest[16])<<24 | uint32(rest[17])<<16 | uint32(rest[18])<<8 | uint32(rest[19]))
		s.positions[node.Partition{TopicID: uuid.UUID(rest[:16]), Number: number}] = position
		return err == nil, err
	})
}

// scan calls each with the keys of the local copy that begin with a prefix, from one of them on, as long as that
// reports true. Each may keep nothing of its arguments.
func (s *shard) scan(prefix, from []byte, each func(key, value []byte) (bool, error)) error {
	upper := slices.Clone(prefix)
	for upper[len(upper)-1] == 0xff {
		upper = upper[:len(upper)-1]
	}
	upper[len(upper)-1]++
	return s.between(from, upper, each)
}

// between calls each with the keys of the local copy from one up to another one, not including that, as scan does.
func (s *shard) between(from, to []byte, each func(key, value []byte) (bool, error)) error {
	return s.db.read(func() error {
		iterator, err := s.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			return fmt.Errorf("read the local copy: %w", err)
		}
		more := true
		for valid := iterator.First(); valid && more && err == nil; valid = iterator.Next() {
			more, err = each(iterator.Key(), iterator.Value())
		}
		s.db.steps.Add(int64(iterator.Stats().ForwardStepCount[pebble.InternalIterCall]))
		return errors.Join(err, iterator.Close())
	})
}
