package journal_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/ledger"
	"chronos/node/ledger/simulated"
	"chronos/node/store/journal"
	"chronos/node/store/outlook"
)

// counting is a ledger that counts the entries that were read, and tells of each before it is handed over.
type counting struct {
	ledger.Ledger

	read int
	each func(ctx context.Context, read int)
}

func (c *counting) Read(
	ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error,
) error {
	return c.Ledger.Read(ctx, from, until, func(e ledger.Committed) error {
		c.read++
		if c.each != nil {
			c.each(ctx, c.read)
		}
		return each(e)
	})
}

// standing is a world in which the first node owns the partition, and the second one is its standby.
type standing struct {
	*world

	log      *counting
	standby  *journal.Store
	follower journal.Follower
}

func newStanding(t *testing.T, most int) *standing {
	t.Helper()
	w := newWorld(t)
	s := &standing{world: w, log: &counting{Ledger: w.cluster.Ledger(topicName, "chronos")}}
	s.standby = open(t, journal.Config{Ledger: s.log, Dir: t.TempDir(), Now: w.clock.Now})
	s.follower = journal.NewFollower(s.standby, most)
	own(t, w.stores[0], 0)
	return s
}

// follow has the standby follow until there is no more, and returns what it says then.
func (s *standing) follow() journal.Standby {
	s.Helper()
	for range 1000 {
		standbys, more := s.follower.Round(s.Context())
		if len(standbys) != 1 || standbys[0].Err != nil {
			s.Fatalf("the standby says %+v", standbys)
		}
		if !more {
			return standbys[0]
		}
	}
	s.Fatal("the standby never comes to the end")
	return journal.Standby{}
}

// fresh returns what a node without a copy finds, which owns the partition for that.
func (s *standing) fresh() []string {
	s.Helper()
	fresh := open(s.T, journal.Config{
		Ledger: s.cluster.Ledger(topicName, "chronos"), Dir: s.TempDir(), Now: s.clock.Now,
	})
	own(s.T, fresh, 0)
	return s.ids(fresh)
}

// many returns items that are due now.
func (w *world) many(n int) (items []node.Item) {
	for i := range int64(n) {
		m := w.message(fmt.Sprintf("m%04d", i))
		m.Incarnation[3], m.Incarnation[4] = byte(i>>8), byte(i)
		items = append(items, node.Item{Epoch: 1, Offset: i, Action: node.Schedule, Message: m})
	}
	return items
}

// A takeover with a standby reads the last moments only, whatever waits; without one it reads everything.
func TestStandbyTakeover(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 100) // many turns
	const waiting, tail = 1000, 3
	items := s.many(waiting + tail)
	s.take(s.stores[0], 0, items[:waiting])
	if said := s.follow(); !said.Warm || s.log.read < waiting {
		t.Fatalf("after %d entries the standby says %+v", s.log.read, said)
	}
	s.take(s.stores[0], waiting, items[waiting:])
	s.fire(s.stores[0], tail)
	s.log.read = 0
	own(t, s.standby, 0)
	if most := 3*tail + 10; s.log.read > most { // messages, tombstones, positions, the group, the fence
		t.Errorf("the takeover reads %d entries, want %d at most", s.log.read, most)
	}
	s.take(s.standby, waiting+tail, nil) // it has come to the position
	if got, want := s.ids(s.standby), s.fresh(); !slices.Equal(got, want) || len(got) != waiting {
		t.Errorf("the standby has %d messages, and a node without a copy %d", len(got), len(want))
	}
}

// What an owner has not committed is not in a standby's copy, nor is what was aborted. Method: the owner is stopped
// with a transaction of which all is on the brokers; the standby follows before and after another node aborts it.
func TestStandbySeesNothingOpen(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	items := s.many(10)
	s.take(s.stores[0], 0, items)
	before := s.follow()
	struck := false
	s.cluster.Strike(func(step simulated.Step) simulated.Fault {
		if step.At != simulated.Ending {
			return simulated.None
		}
		struck = true
		return simulated.Lost
	})
	if err := publish(t.Context(), s.stores[0], items[0].Message); err == nil || !struck {
		t.Fatalf("the transaction was committed: %v", err)
	}
	s.cluster.Strike(nil)
	for range 2 {
		if said := s.follow(); said.Behind > before.Behind+1 {
			t.Errorf("the standby is behind by what nobody has committed: %+v", said)
		}
		if ids, err := s.standby.Copied(0); err != nil || len(ids) != len(items) {
			t.Fatalf("the standby has %q, %v: it has applied what nobody has committed", ids, err)
		}
		own(t, s.stores[1], 0) // aborts it
	}
	own(t, s.standby, 0)
	if got, want := s.ids(s.standby), s.fresh(); !slices.Equal(got, want) || len(got) != len(items) {
		t.Errorf("the standby has %q, and a node without a copy %q", got, want)
	}
}

// A standby's copy that can't be trusted is made anew, by the standby itself or by the takeover; what can, is not. In
// each world the takeover ends with what a node has that has no copy.
func TestStandbyCopy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(s *standing)
		keeps bool
	}{
		"nothing has happened":      {func(*standing) {}, true},
		"the journal was compacted": {func(s *standing) { s.cluster.Compact(topicName, 0, false) }, true},
		"tombstones are gone, and the copy is old": {func(s *standing) {
			s.cluster.Compact(topicName, 0, true)
			s.clock.Advance(2 * time.Hour)
		}, false},
		"the journal has lost its end": {func(s *standing) {
			s.cluster.ChangeLeader(topicName, 0, 12)
			own(s.T, s.stores[1], 0)
		}, false},
		"the journal has lost its end, and has another one that is longer": {func(s *standing) {
			s.cluster.ChangeLeader(topicName, 0, 30)
			for range 30 {
				own(s.T, s.stores[1], 0)
			}
		}, false},
		"the topic was created again": {func(s *standing) {
			s.cluster.CreateTopic(topicName, 1, 0)
			own(s.T, s.stores[1], 0)
			s.take(s.stores[1], 0, s.many(3))
		}, false},
	} {
		for _, follows := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, it follows %t", name, follows), func(t *testing.T) {
				t.Parallel()
				s := newStanding(t, 0)
				s.take(s.stores[0], 0, s.many(50))
				s.follow()
				s.fire(s.stores[0], 8)
				if name == "the journal has lost its end" || follows {
					s.follow()
					s.follow() // finds that nothing has happened
				}
				s.log.read = 0
				c.spoil(s)
				if follows {
					s.follow()
				}
				own(t, s.standby, 0)
				if kept := s.log.read < 40; c.keeps && !kept {
					t.Errorf("%d entries were read again", s.log.read)
				}
				if got, want := s.ids(s.standby), s.fresh(); !slices.Equal(got, want) {
					t.Errorf("the standby has %q, and a node without a copy %q", got, want)
				}
			})
		}
	}
}

// A standby is as young as its last look, however little happens: where nothing is written for hours, a takeover reads
// next to nothing.
func TestStandbyStaysYoung(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(100))
	s.follow()
	s.log.read = 0
	for range 10 {
		s.clock.Advance(30 * time.Minute)
		if said := s.follow(); !said.Warm || said.Behind != 0 {
			t.Fatalf("the standby says %+v", said)
		}
	}
	own(t, s.standby, 0)
	if s.log.read > 2 {
		t.Errorf("%d entries were read where nothing has happened", s.log.read)
	}
}

// A standby that could not look for hours, and finds the journal as it was then, goes on: it lacks nothing, and what it
// would read again is what all nodes would, at once, when Kafka is back.
func TestStandbyAfterOutage(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(100))
	s.follow()
	s.clock.Advance(3 * time.Hour)
	s.log.read = 0
	if said := s.follow(); !said.Warm || said.Behind != 0 || s.log.read > 0 {
		t.Errorf("%d entries were read where nothing has happened: %+v", s.log.read, said)
	}
	own(t, s.standby, 0)
	if s.log.read > 2 {
		t.Errorf("the takeover reads %d entries where nothing has happened", s.log.read)
	}
}

// What a standby has reached is not what its copy says once a takeover has begun to make that anew, and was given up: a
// broker that is slow to end the transaction of the fence has the journal look as it was.
func TestStandbyAfterAttempt(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(1500))
	s.follow()
	before, err := s.log.Extents(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.clock.Advance(2 * time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	s.log.read = 0
	s.log.each = func(_ context.Context, read int) {
		if read == 1200 {
			stop()
		}
	}
	if err := s.standby.Own(ctx, 0, input().TopicID); err == nil {
		t.Fatal("the takeover was not given up")
	}
	s.log.each = nil
	s.log.Ledger = &asking{s.log.Ledger, func([]node.Extent) ([]node.Extent, error) { return before, nil }}
	s.follow()
	if ids, err := s.standby.Copied(0); err != nil || len(ids) != 1500 {
		t.Errorf("the standby is at the end, and has %d messages, %v", len(ids), err)
	}
}

// A copy is no younger than the look at the ends, however long it has taken to read up to them. Method: while a standby
// reads, which takes it most of an hour, the owner fires what waits. When the tombstones are an hour old, they go.
func TestStandbyIsAsOldAsItsLook(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(20))
	s.log.each = func(_ context.Context, read int) {
		if read == 15 {
			s.log.each = nil
			s.fire(s.stores[0], 20)
			s.clock.Advance(50 * time.Minute)
		}
	}
	s.follow()
	s.clock.Advance(12 * time.Minute)
	s.cluster.Compact(topicName, 0, true)
	own(t, s.standby, 0)
	if got := s.ids(s.standby); len(got) > 0 {
		t.Errorf("the standby has %q, which has come out", got)
	}
}

// What a node keeps a copy of is not its own: it neither fires nor shows it. And what it owns it does not follow.
func TestStandbyOwnsNothing(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(10))
	s.follow()
	ctx := t.Context()
	claimed, err := s.standby.Claim(ctx, node.ClaimRequest{
		Until: s.clock.Now(), Lanes: []node.Share{{Lane: output, Limit: 10, Bytes: 1 << 20}},
	})
	rows, err2 := s.standby.Dump()
	lanes, err3 := s.standby.Parts(ctx)
	places, _, err4 := s.standby.Places(ctx)
	look, err5 := s.standby.Outlook(ctx, outlook.Request{Now: s.clock.Now(), Lanes: []string{output}})
	if err := errors.Join(err, err2, err3, err4, err5); err != nil {
		t.Fatal(err)
	}
	if len(claimed.Messages)+len(rows)+len(lanes)+len(places)+look.Lanes[0].Waiting.N > 0 {
		t.Errorf("a standby shows %v, %v, %v, %v, %v", claimed, rows, lanes, places, look)
	}
	if err := publish(ctx, s.standby, s.many(1)[0].Message); err == nil || len(s.came()) > 0 {
		t.Errorf("a standby fires: %v, %q", err, s.came())
	}
	own(t, s.standby, 0)
	s.log.read = 0
	if standbys, _ := s.follower.Round(ctx); len(standbys) > 0 || s.log.read > 0 {
		t.Errorf("an owner follows itself: %+v, %d entries", standbys, s.log.read)
	}
	s.standby.Release(0)
	own(t, s.stores[1], 0)
	s.fire(s.stores[1], 4)
	if said := s.follow(); !said.Warm {
		t.Errorf("who has lost a partition is no standby: %+v", said)
	}
	if ids, err := s.standby.Copied(0); err != nil || len(ids) != 6 {
		t.Errorf("who has lost a partition has %q, %v", ids, err)
	}
}

// A takeover ends the turn of the follower, and waits for that: otherwise the follower would write what it has read
// over what the owner has written. Method: in the middle of a turn the node begins to own the partition. The follower
// reads on when it is told to end, or when the node has come to own the partition, whichever is first.
func TestStandbyGivesWay(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(20))
	owned := make(chan error, 1)
	var owning sync.WaitGroup
	s.log.each = func(ctx context.Context, read int) {
		if read != 10 {
			return
		}
		s.log.each = nil
		s.fire(s.stores[0], 20)
		owning.Go(func() { owned <- s.standby.Own(t.Context(), 0, input().TopicID) })
		select {
		case <-ctx.Done():
		case err := <-owned:
			owned <- err
		}
	}
	standbys, _ := s.follower.Round(t.Context())
	owning.Wait()
	if len(standbys) != 1 || standbys[0].Err != nil {
		t.Errorf("a turn that ends for a takeover says %+v, want that nothing is wrong", standbys)
	}
	if err := <-owned; err != nil {
		t.Fatal(err)
	}
	if got := s.ids(s.standby); len(got) > 0 {
		t.Errorf("the new owner has %q, which has come out", got)
	}
}

// A copy that is made anew is not warm before it has come to the end again.
func TestStandbyIsColdAgain(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 10)
	s.take(s.stores[0], 0, s.many(50))
	s.follow()
	s.fire(s.stores[0], 1)
	s.clock.Advance(2 * time.Hour)
	if standbys, more := s.follower.Round(t.Context()); !more || standbys[0].Warm || standbys[0].Behind < 40 {
		t.Errorf("a copy that is being made anew: %+v, more: %t", standbys, more)
	}
	if said := s.follow(); !said.Warm {
		t.Errorf("a copy that was made anew: %+v", said)
	}
}

// A follower leaves the disk to owners while there is much to write, and goes on when there is not. That a store has
// begun to write, into the small tables with which Pebble begins, is not much.
func TestStandbyYields(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	items := s.many(1000)
	for i := range items {
		items[i].Value = make([]byte, 1000)
		items[i].Lane = "elsewhere"
	}
	s.take(s.stores[0], 0, items)
	asked, readThen := 0, 0
	s.follower.Pressed(func() bool {
		asked, readThen = asked+1, s.log.read
		return asked < 4
	})
	if said := s.follow(); !said.Warm || asked != 4 || readThen > 1000 {
		t.Errorf("the follower has asked %d times, and has read %d entries then: %+v", asked, readThen, said)
	}
	if s.standby.IsPressed() {
		t.Error("a follower would wait for a store that has nothing to do")
	}
}

// Follow goes on by itself, and ends with its context.
func TestFollow(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 7)
	s.take(s.stores[0], 0, s.many(50))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	looks := 0
	s.standby.Follow(ctx, func(standbys []journal.Standby) {
		if looks++; len(standbys) == 1 && standbys[0].Warm {
			stop()
		}
	})
	if ids, err := s.standby.Copied(0); err != nil || len(ids) != 50 || looks == 0 {
		t.Errorf("after %d looks the standby has %d messages, %v", looks, len(ids), err)
	}
}

// A look that fails leaves what is known, with the error, and is repeated.
func TestStandbyLookFails(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.follow()
	s.cluster.DeleteTopic(topicName)
	if standbys, _ := s.follower.Round(t.Context()); len(standbys) != 1 || standbys[0].Err == nil || !standbys[0].Warm {
		t.Errorf("without its topic the standby says %+v", standbys)
	}
	s.cluster.CreateTopic(topicName, 1, 0)
	if said := s.follow(); !said.Warm {
		t.Errorf("with its topic the standby says %+v", said)
	}
}

// asking is a ledger whose answer about the ends a test may change.
type asking struct {
	ledger.Ledger

	extents func([]node.Extent) ([]node.Extent, error)
}

func (a *asking) Extents(ctx context.Context) ([]node.Extent, error) {
	extents, err := a.Ledger.Extents(ctx)
	if err != nil || a.extents == nil {
		return extents, err
	}
	return a.extents(extents)
}

// A look that fails says nothing of a partition that this node has come to own since the look before: its copy is no
// standby's any more. Method: between two looks of the standby, of which the second one gets no answer, it owns.
func TestStandbyLookFailsAtOwner(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.follow()
	own(t, s.standby, 0)
	s.log.Ledger = &asking{s.log.Ledger, func([]node.Extent) ([]node.Extent, error) {
		return nil, errors.New("no answer")
	}}
	if standbys, _ := s.follower.Round(t.Context()); len(standbys) > 0 {
		t.Errorf("the owner says of its partition: %+v", standbys)
	}
}

// A partition whose end is not known just now, since it has no leader, is still told of: as it was, and why no more is
// known. When the end is known again, it is as before.
func TestStandbyEndUnknown(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(10))
	s.follow()
	away := &asking{s.log.Ledger, func(extents []node.Extent) ([]node.Extent, error) {
		for i := range extents {
			extents[i].End = node.UnknownEnd
		}
		return extents, nil
	}}
	s.log.Ledger = away
	for range 2 {
		standbys, more := s.follower.Round(t.Context())
		if len(standbys) != 1 || standbys[0].Err == nil || !standbys[0].Warm || more {
			t.Errorf("without an end the standby says %+v, more: %t", standbys, more)
		}
	}
	away.extents = nil
	if said := s.follow(); !said.Warm || said.Err != nil {
		t.Errorf("with an end the standby says %+v", said)
	}
}

// A leader that has just been elected knows for a moment less than there is. A copy that has come further stays warm.
func TestStandbyEndLower(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(20))
	s.follow()
	s.log.Ledger = &asking{s.log.Ledger, func(extents []node.Extent) ([]node.Extent, error) {
		for i := range extents {
			extents[i].End -= 5
		}
		return extents, nil
	}}
	if standbys, more := s.follower.Round(t.Context()); len(standbys) != 1 || !standbys[0].Warm || more {
		t.Errorf("behind a lower end the standby says %+v, more: %t", standbys, more)
	}
}

// What was read of a topic says nothing of one that has taken its name, and is shorter: that is read.
func TestStandbyOfAnotherTopic(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 0)
	s.take(s.stores[0], 0, s.many(50))
	s.follow()
	s.cluster.CreateTopic(topicName, 1, 0)
	own(t, s.stores[1], 0)
	s.take(s.stores[1], 0, s.many(3))
	s.log.read = 0
	if standbys, _ := s.follower.Round(t.Context()); len(standbys) != 1 || standbys[0].Err != nil || s.log.read == 0 {
		t.Errorf("%d entries of the new topic are read, and the standby says %+v", s.log.read, standbys)
	}
}
