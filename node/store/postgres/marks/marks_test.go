package marks_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"chronos/node/store/postgres/marks"
)

// world is a lane that fires at a constant rate under a held snapshot, and the stragglers on it.
type world struct {
	set  marks.Set
	now  time.Time
	held time.Time // since when nothing dead is removed
	rate float64   // messages a second

	stragglers []straggler

	swept   time.Duration // what the sweep has cost
	dearest time.Duration // the dearest look that was no slice
	longest time.Duration // how long a straggler has waited
}

type straggler struct {
	due, since time.Time
}

// wade returns what it costs to read from one due time to another, and the first straggler in between.
func (w *world) wade(from, until time.Time) (cost time.Duration, found int) {
	found = -1
	for i, s := range w.stragglers {
		if !s.due.Before(from) && !s.due.After(until) {
			found, until = i, s.due
		}
	}
	from, until = later(from, w.held), earlier(until, w.now)
	dead := max(0, until.Sub(from).Seconds()) * w.rate
	return 500*time.Microsecond + time.Duration(dead*450), found
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// call is a call of Claim.
func (w *world) call() {
	const lane, lookahead, timeout = "output", 250 * time.Millisecond, 1200 * time.Millisecond
	until := w.now.Add(lookahead)
	if s, due := w.set.Next([]string{lane}, w.now); due && len(s.Lanes) > 0 {
		cost, found := w.wade(s.From[0], s.Until[0])
		gaveUp := cost > marks.SliceLimit
		if gaveUp {
			cost, found = marks.SliceLimit, -1
		}
		w.now, w.swept = w.now.Add(cost), w.swept+cost
		if found >= 0 {
			w.claim(found)
		}
		w.set.Swept(s, cost, gaveUp, found >= 0, w.now)
	} else if due {
		w.set.Swept(s, 0, false, false, w.now)
	}
	from := w.set.From(lane)
	cost, found := w.wade(from.Due, until)
	if cost > timeout {
		cost, found = timeout, -1
	}
	w.now = w.now.Add(cost)
	first := marks.Place{Due: until}
	if found >= 0 {
		first.Due = w.stragglers[found].due
		w.claim(found)
	}
	if from.Due.Year() == 1 {
		if cost > marks.DearLook {
			w.set.Use([]string{lane}, nil, until, w.now)
		}
		return
	}
	w.dearest = max(w.dearest, cost)
	w.set.Claimed(lane, first, true, until)
}

func (w *world) claim(i int) {
	w.longest = max(w.longest, w.now.Sub(w.stragglers[i].since))
	w.stragglers = slices.Delete(w.stragglers, i, i+1)
}

// Under a held snapshot looks stay cheap, the sweep takes a tenth of the time, and no straggler waits for longer than
// sixteen times what it costs to wade through everything, wherever it began to wait. When the snapshot is gone, looks
// start at the beginning again.
func TestHeldSnapshot(t *testing.T) {
	for _, c := range []struct {
		rate float64
		age  time.Duration
	}{
		{1000, time.Hour}, {10_000, 10 * time.Minute}, {10_000, time.Hour}, {100, 24 * time.Hour},
	} {
		t.Run(fmt.Sprint(c.rate, "/s for ", c.age), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			start := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
			w := &world{now: start, held: start.Add(-c.age), rate: c.rate}
			whole, _ := w.wade(w.held, w.now)
			end := start.Add(50 * whole)
			for next := start; w.now.Before(end); w.now = w.now.Add(25 * time.Millisecond) {
				if w.now.After(next) {
					due := w.now.Add(-time.Duration(random.Float64() * 1.2 * float64(c.age)))
					w.stragglers = append(w.stragglers, straggler{due, w.now})
					next = w.now.Add(300 * time.Millisecond)
				}
				w.call()
			}
			left := w.stragglers
			w.stragglers = nil
			whole, _ = w.wade(w.held, w.now) // which has grown meanwhile
			bound := 16*whole + 3*time.Second
			share := w.swept.Seconds() / w.now.Sub(start).Seconds()
			t.Logf("wading through all takes %v; a straggler waited for %v at most, the dearest look took %v, "+
				"the sweep took %.0f%%", whole, w.longest, w.dearest, 100*share)
			if w.dearest > marks.DearLook {
				t.Errorf("a look took %v, more than %v", w.dearest, marks.DearLook)
			}
			for _, s := range left {
				w.longest = max(w.longest, w.now.Sub(s.since))
			}
			if w.longest > bound {
				t.Errorf("a straggler waited for %v, more than %v", w.longest, bound)
			}
			if share > 0.12 {
				t.Errorf("the sweep took %.0f%% of the time", 100*share)
			}

			w.held = w.now.Add(time.Hour) // nothing is dead any more
			for range 1000 {
				w.call()
				w.now = w.now.Add(25 * time.Millisecond)
			}
			if from := w.set.From("output"); from.Due.Year() != 1 {
				t.Errorf("looks start at %v still, want the beginning", from.Due)
			}
		})
	}
}

// What a transaction of many messages commits late is found within a second or two, and then each call claims of it
// until it is gone, although the marks move on meanwhile.
func TestLateCommit(t *testing.T) {
	const many = 300
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	w := &world{now: now, held: now, rate: 1000}
	w.set.Use([]string{"output"}, nil, now, now)
	for range many {
		w.stragglers = append(w.stragglers, straggler{now.Add(-4 * time.Second), now})
	}
	calls := 0
	for ; len(w.stragglers) > 0 && calls < 2*many; calls++ {
		w.call()
		w.now = w.now.Add(100 * time.Millisecond)
	}
	if calls > many+20 {
		t.Errorf("%d stragglers of one instant took %d calls, %d are left", many, calls, len(w.stragglers))
	}
}

// Whoever has put something below the mark finds it with the next slice, however far below; and whoever does so all the
// time does not keep the sweep from coming to the beginning.
func TestNote(t *testing.T) {
	const lane = "output"
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	var set marks.Set
	set.Note(lane, now) // for nothing: there are no marks
	set.Use([]string{lane}, nil, now, now)
	set.Note(lane, now) // nor is this below the mark
	if s, _ := set.Next([]string{lane}, now); s.Until[0].Before(now.Add(-time.Minute)) {
		t.Errorf("the first slice is %v, want one at the mark", s)
	}
	early, late := now.Add(-2*time.Hour), now.Add(-time.Hour)
	for _, due := range []time.Time{late, early, late.Add(-time.Minute)} {
		set.Note(lane, due)
	}
	s, _ := set.Next([]string{lane}, now)
	if !s.From[0].Equal(early) || !s.Until[0].Equal(late) {
		t.Fatalf("the next slice is %v, want one from %v to %v", s, early, late)
	}
	set.Swept(s, 0, false, true, now)
	if again, _ := set.Next([]string{lane}, now); !slices.Equal(again.From, s.From) {
		t.Errorf("something was there, and the slice after it is %v, want %v again", again, s)
	}
	set.Swept(s, 0, false, false, now)

	for slices := 0; set.Used(); slices++ {
		set.Note(lane, early)
		s, due := set.Next([]string{lane}, now)
		if !due || slices > 1000 {
			t.Fatalf("after %d slices the sweep has not come to the beginning", slices)
		}
		set.Swept(s, 0, false, false, now)
	}
}

// Where there is one look in a second, the highest slice, which has a turn each second, leaves every other look to the
// sweep: what waits far below the mark is found.
func TestOneLookInASecond(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	w := &world{now: now, held: now, rate: 1000}
	w.set.Use([]string{"output"}, nil, now, now)
	w.stragglers = []straggler{{now.Add(-10 * time.Minute), now}}
	for range 15 {
		w.call()
		w.now = w.now.Add(time.Second)
	}
	if len(w.stragglers) > 0 {
		t.Errorf("after 15 looks these are left: %v", w.stragglers)
	}
}

// A mark is raised over what waits. The sweep goes on downwards from where it is, and what lies in between it finds the
// next time: where marks are raised as often as once a second, it would come to nothing far below otherwise.
func TestRaise(t *testing.T) {
	const lane = "output"
	var set marks.Set
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	waits := marks.Place{Due: now.Add(-time.Hour), ID: "x"}
	set.Use([]string{lane}, map[string]marks.Place{lane: waits}, now, now)
	lowest := waits.Due
	for range 100 {
		now = now.Add(time.Second)
		slice, due := set.Next([]string{lane}, now)
		if !due {
			t.Fatal("the sweep has no turn")
		}
		set.Swept(slice, 5*time.Millisecond, false, false, now)
		set.Raise(lane, now)
		if from := slice.From[0]; from.Before(lowest) {
			lowest = from
		}
	}
	if mark := set.From(lane); !mark.Due.After(now.Add(-2 * time.Second)) {
		t.Errorf("the mark is at %v", mark)
	}
	if lowest.After(waits.Due.Add(-time.Hour)) {
		t.Errorf("the sweep has come down to %v only", lowest)
	}
}
