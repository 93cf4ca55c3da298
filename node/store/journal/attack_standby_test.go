package journal_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"chronos/node/ledger"
	"chronos/node/store/journal"
)

// ahead is a ledger all of whose entries were appended by an owner whose clock is ahead.
type ahead struct {
	ledger.Ledger

	now func() time.Time
}

func (a ahead) Read(ctx context.Context, from ledger.Place, until int64, each func(ledger.Committed) error) error {
	return a.Ledger.Read(ctx, from, until, func(e ledger.Committed) error {
		e.At = a.now()
		return each(e)
	})
}

// A copy that a standby makes anew in several turns comes to the end, also where an owner's clock is hours ahead: what
// stood in the journal when the copy was begun does not tell that the copy is old. What comes then makes it anew again,
// which ends as well.
func TestStandbyClockAhead(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 10)
	s.standby = open(t, journal.Config{
		Ledger: ahead{s.log, func() time.Time { return s.clock.Now().Add(2 * time.Hour) }}, Dir: t.TempDir(),
		Now: s.clock.Now,
	})
	s.follower = journal.NewFollower(s.standby, 10)
	items := s.many(60)
	s.take(s.stores[0], 0, items[:50])
	if said := s.follow(); !said.Warm {
		t.Errorf("the standby says %+v", said)
	}
	s.take(s.stores[0], 50, items[50:])
	if said := s.follow(); !said.Warm {
		t.Errorf("when more has come the standby says %+v", said)
	}
	if ids, err := s.standby.Copied(0); err != nil || len(ids) != len(items) {
		t.Errorf("the standby has %d messages, want %d: %v", len(ids), len(items), err)
	}
}

// A copy that a standby makes anew, and that grows old between two turns, is not gone on with, even if the clock is set
// back by nearly as long: what was appended since tells.
func TestStandbyTurnsApart(t *testing.T) {
	t.Parallel()
	s := newStanding(t, 10)
	wrong := time.Duration(0)
	var ends []datedEnd
	log := dated{s.cluster.Ledger(topicName, "chronos"), s.clock, &ends}
	owner := open(t, journal.Config{Ledger: log, Dir: t.TempDir(), Now: s.clock.Now})
	s.standby = open(t, journal.Config{
		Ledger: log, Dir: t.TempDir(), Now: func() time.Time { return s.clock.Now().Add(-wrong) },
	})
	s.follower = journal.NewFollower(s.standby, 10)
	own(t, owner, 0)
	s.take(owner, 0, s.many(30))
	if _, more := s.follower.Round(t.Context()); !more {
		t.Fatal("a turn is enough for all")
	}
	s.fire(owner, 5)
	s.cluster.Compact(topicName, 0, true)
	s.clock.Advance(5 * time.Hour)
	wrong = 4*time.Hour + 30*time.Minute
	s.fire(owner, 1) // the last that was appended, which compaction leaves
	s.follow()
	fresh := open(t, journal.Config{Ledger: log, Dir: t.TempDir(), Now: s.clock.Now})
	own(t, fresh, 0)
	want, err := fresh.Copied(0)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.standby.Copied(0); err != nil || !slices.Equal(got, want) {
		t.Errorf("the standby has %q, want %q: %v", got, want, err)
	}
}
