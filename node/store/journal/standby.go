package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/ledger"
)

// A standby copy is the local copy of a partition that another node owns. Follow keeps it warm: it reads what was
// committed, and no more than that, so that it needs no fence and disturbs nobody. The copy has the form, the place and
// the age of an owner's, and is one as soon as Own has read the last moments of the journal: there is one code path.
// Nothing else looks at it. Claims, counts and whatever people see are of the partitions that are owned.
//
// Reading up to an offset before which nothing is open is enough. What is committed there stays, and what was aborted
// is never seen:
//
//	owner      appends the output and the tombstone of x; the transaction is open
//	follower   asks where the end is: before that transaction; x waits in its copy
//	owner      dies; the follower's node owns the partition: the transaction is aborted, the copy goes on to the fence
//	           x waits, and comes out

// Standby is how it goes with the copy of a partition that another node owns.
type Standby struct {
	Number int32

	// Behind is how many entries the copy lacked at most when the node looked last.
	Behind int64

	// Warm says that the copy has come to the end of the journal, once at least since Follow began or the copy was made
	// anew. A takeover reads what is Behind, and what has come since the node looked.
	Warm bool

	// Err is why the copy could not be brought further; nil if nothing is wrong.
	Err error
}

const (
	// followInterval is the wait between two looks at the journal: what comes in between, a takeover has to read.
	followInterval = 2 * time.Second

	// followTurn is how many entries of a partition are read before the others have their turn: a copy that is made
	// anew takes minutes, and those of the others are to stay warm.
	followTurn = 100_000

	// followSilence is how long nothing may be read before a turn is given up, and lookLimit how long a look at the
	// ends takes at most.
	followSilence = 30 * time.Second
	lookLimit     = 10 * time.Second

	// yieldInterval is how long a follower waits before it writes on while the local copies have more to write than is
	// good for owners, and yields how many times it does so for one batch.
	yieldInterval = 10 * time.Millisecond
	yields        = 100
)

// Follow keeps copies of all partitions that this node does not own, until ctx is done. After each look observe is told
// of all of them, in order, in the calling goroutine. One partition is read at a time, and none while this node takes
// one over, which has to be quick.
func (s *Store) Follow(ctx context.Context, observe func([]Standby)) {
	f := newFollower(s)
	for ctx.Err() == nil {
		standbys, more := f.round(ctx)
		if ctx.Err() == nil {
			observe(standbys)
		}
		if !more {
			pause(ctx, followInterval)
		}
	}
}

// pause waits for a while, or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// follower is what Follow remembers.
type follower struct {
	store *Store

	// pressed reports whether the follower has to leave the disk to owners.
	pressed func() bool

	// most is how many entries are read in a turn.
	most int

	// reached is up to where the copies have been brought, by the partition.
	reached map[int32]reached

	// making are the copies that are being made anew, in several turns.
	making map[int32]making

	// last is what was said last: what is not known now is as it was.
	last []Standby
}

// reached is the end of a partition to which a copy was brought, and the place that the copy had then. What it has once
// an attempt to own the partition has begun to make it anew is another matter.
type reached struct {
	end   int64
	place ledger.Place
}

// making is what a follower knows of a copy that it has begun to make anew: when that was, and where the journal ended
// then. What stands before that end was there already. So it does not tell that the copy is old, whenever it was
// appended by the clock of an owner:
//
//	owner      appends x, by a clock that is hours ahead
//	follower   begins the copy: its turn is over before x
//	follower   reads x, which is hours younger than the copy: made anew, and again, forever
type making struct {
	began time.Time
	end   int64
}

func newFollower(s *Store) *follower {
	return &follower{
		store: s, pressed: s.isPressed, most: followTurn, reached: map[int32]reached{}, making: map[int32]making{},
	}
}

// round gives every partition that is not owned a turn, and reports whether one of them has more to read. What the
// journal lacks at an instant before the ends were asked for, a copy that comes to these ends lacks nothing of.
func (f *follower) round(ctx context.Context) (standbys []Standby, more bool) {
	began := f.store.wall()
	looking, done := context.WithTimeout(ctx, lookLimit)
	extents, err := f.store.config.Ledger.Extents(looking)
	done()
	for _, said := range f.last {
		isTold := func(e node.Extent) bool { return e.Number == said.Number }
		if err != nil && !slices.ContainsFunc(extents, isTold) {
			standbys = append(standbys, f.unknown(said.Number, err)...)
		}
	}
	for _, extent := range extents {
		if extent.End == node.UnknownEnd {
			standbys = append(standbys, f.unknown(extent.Number, errNoEnd)...)
			continue
		}
		turn, done := f.store.begin(ctx, extent.Number)
		if turn == nil {
			standbys = append(standbys, f.passedOver(extent.Number)...)
			continue
		}
		standby := f.follow(turn, extent, began)
		interrupted := turn.Err() != nil
		done()
		if over := errors.Is(standby.Err, errTurn); over || interrupted {
			standby.Err, more = nil, more || over
		}
		standbys = append(standbys, standby)
	}
	slices.SortFunc(standbys, func(a, b Standby) int { return cmp.Compare(a.Number, b.Number) })
	f.last = standbys
	return standbys, more
}

// passedOver returns what was said last of a partition that has no turn, because this node takes another one over just
// now; nothing if it is owned.
func (f *follower) passedOver(number int32) []Standby {
	i := slices.IndexFunc(f.last, func(standby Standby) bool { return standby.Number == number })
	if f.store.owns(number) {
		delete(f.reached, number)
		return nil
	}
	if i < 0 {
		return nil
	}
	return f.last[i : i+1]
}

// unknown returns what was said last of a partition of which nobody can tell more just now, with the reason; nothing if
// it is owned: this node may have come to own it since.
func (f *follower) unknown(number int32, why error) []Standby {
	said := slices.Clone(f.passedOver(number))
	for i := range said {
		said[i].Err = why
	}
	return said
}

// follow brings the copy of a partition to the end of an extent.
func (f *follower) follow(ctx context.Context, extent node.Extent, began time.Time) Standby {
	copied := &shard{
		number: extent.Number, db: f.store.db, now: f.store.wall, maxAge: f.store.config.MaxAge,
	}
	from, at, some, err := copied.local()
	if err != nil {
		return Standby{Number: extent.Number, Err: err}
	}
	if !some || from.TopicID != extent.TopicID {
		from = ledger.Place{Position: node.Position{Offset: extent.First}}
		delete(f.reached, extent.Number)
	}
	standby := Standby{Number: extent.Number, Behind: max(0, extent.End-max(from.Offset, extent.First))}
	before, warm := f.reached[extent.Number]
	if warm && before == (reached{extent.End, from}) {
		// Nothing has been decided since, however long that is: the copy lacks nothing of what there was when this was
		// asked. After an outage of Kafka the copies of all nodes would be made anew otherwise.
		copied.place = from
		return Standby{Number: extent.Number, Warm: true, Err: cmp.Or(copied.caughtUp(began), copied.unread())}
	}
	// A copy that ends behind what is decided is of a log that has lost its end, or of a leader that does not know yet
	// how far it may go. The latter knows in a moment; with the former the log is longer again at some time, and then
	// its epochs tell.
	if from.Offset > extent.End {
		standby.Warm = warm
		return standby
	}
	known := int64(0)
	if made := f.making[extent.Number]; made.began.UnixMicro() == at.UnixMicro() {
		known = made.end
	}
	standby.Err = copied.bring(ctx, &inTurns{Ledger: f.store.config.Ledger, follower: f}, goal{
		begin: ledger.Place{
			TopicID: extent.TopicID, Number: extent.Number,
			Position: node.Position{Epoch: node.UnknownEpoch, Offset: extent.First},
		},
		until: extent.End, last: extent.End, began: began, known: known,
	})
	if standby.Err == nil {
		standby.Err = copied.unread() // reported with each look, until it is skipped
	}
	switch {
	case standby.Err == nil || IsUnreadable(standby.Err):
		f.reached[extent.Number] = reached{extent.End, copied.place}
		delete(f.making, extent.Number)
	case copied.asOf.Equal(began): // it is being made anew
		standby.Behind = extent.End - extent.First
		delete(f.reached, extent.Number)
		f.making[extent.Number] = making{began, extent.End}
	}
	_, standby.Warm = f.reached[extent.Number]
	return standby
}

// inTurns is the journal as a follower reads it: for a turn, and behind the owners of this node.
type inTurns struct {
	ledger.Ledger

	follower *follower
}

// Read implements ledger.Ledger. It ends with errTurn when a turn is over.
func (l *inTurns) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	silence := time.AfterFunc(followSilence, func() { stop(errSilence) })
	defer silence.Stop()
	read := 0
	err := l.Ledger.Read(reading, from, until, func(e ledger.Committed) error {
		silence.Reset(followSilence)
		if err := each(e); err != nil {
			return err
		}
		read++
		if read%replayBatch == 0 {
			l.yield(reading)
			silence.Reset(followSilence)
		}
		if read >= l.follower.most {
			return errTurn
		}
		return nil
	})
	if err != nil && errors.Is(context.Cause(reading), errSilence) {
		return errSilence
	}
	return err
}

// yield waits while the local copies have more to write to disk than is good for owners, but not for long: then the
// follower is merely slow.
func (l *inTurns) yield(ctx context.Context) {
	for range yields {
		if ctx.Err() != nil || !l.follower.pressed() {
			return
		}
		pause(ctx, yieldInterval)
	}
}

// errNoEnd says that nobody can tell where a partition ends.
var errNoEnd = errors.New("the partition has no leader that could tell where it ends")

// errSilence says that nothing was read for a long time.
var errSilence = errors.New("nothing more of the journal comes, and it does not end there")

// isPressed reports whether the local copies have so much to write to disk that those who write more would be made to
// wait soon, owners as well. Pebble has them wait at two full tables in memory, or twelve layers on disk. One table is
// what there always is once something has been written; a second one is what is being written to disk.
func (s *Store) isPressed() bool {
	m := s.db.Metrics()
	return m.MemTable.Size > memTable || m.Levels[0].Sublevels > 4
}

// turn is a partition that is being followed.
type turn struct {
	stop context.CancelFunc
	done chan struct{}
}

// keepOff has nobody follow a partition until the function that it returns is called: its local copy is written by an
// owner who comes or goes. In a turn that has begun it may still be written: interrupt ends that.
//
//	follower   reads x, which waits, to be written to its copy
//	Own        reads the tombstone of x, and is done
//	follower   writes x: it would come out once more
func (s *Store) keepOff(number int32) (over func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[number]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.busy[number]--; s.busy[number] == 0 {
			delete(s.busy, number)
		}
	}
}

// interrupt ends the turn that is under way, of whatever partition.
func (s *Store) interrupt() {
	s.mu.Lock()
	turn := s.turn
	s.mu.Unlock()
	if turn != nil {
		turn.stop()
		<-turn.done
	}
}

// owns reports whether this node owns a partition, or is about to, or about to give it up.
func (s *Store) owns(number int32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards[number] != nil || s.busy[number] > 0
}

// begin begins a turn of a partition, with a context that is done when it is to end. It returns nil if the partition is
// owned, or if anything is taken over or given up just now.
func (s *Store) begin(ctx context.Context, number int32) (during context.Context, done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.busy) > 0 || s.shards[number] != nil {
		return nil, nil
	}
	ctx, stop := context.WithCancel(ctx)
	current := &turn{stop, make(chan struct{})}
	s.turn = current
	return ctx, func() {
		stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.turn = nil
		close(current.done)
	}
}
