package journal_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

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

// A takeover that takes longer than a copy may be old trusts neither the copy that it has caught up nor one that it has
// made anew: tombstones that were still to be read may be gone. It is done again.
func TestTakeoverTooSlow(t *testing.T) {
	t.Parallel()
	for _, follows := range []bool{true, false} {
		s := newStanding(t, 0)
		s.take(s.stores[0], 0, s.many(30))
		if follows {
			s.follow()
		}
		s.fire(s.stores[0], 5)
		s.log.read = 0
		s.log.each = func(_ context.Context, read int) {
			if read == 1 {
				s.clock.Advance(2 * time.Hour)
			}
		}
		err := s.standby.Own(t.Context(), 0, uuid.New())
		if err == nil || !strings.Contains(err.Error(), "tombstones") {
			t.Errorf("it follows %t: the takeover ends with %v", follows, err)
		}
		own(t, s.standby, 0)
		if got, want := s.ids(s.standby), s.fresh(); !slices.Equal(got, want) || len(got) != 25 {
			t.Errorf("it follows %t: the standby has %d messages, and a node without a copy %d",
				follows, len(got), len(want))
		}
	}
}
