package postgres

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chronos/node/store/postgres/marks"
)

// looks says from where calls look for what is due on each lane, see package marks. It is safe for concurrent use.
type looks struct {
	mu   sync.Mutex
	sets map[string]*marks.Set

	// dear says that a call from the beginning has taken long, and stuck that one from a mark was given up by the
	// server. Whether that was for what it had to wade through, the next call finds out, but not more often than once a
	// second.
	dear, stuck bool
	looked      time.Time

	// The lanes take turns with their sweeps, which together take as much time as one sweep may.
	turn int
	rest time.Time
}

// sweep is the slice of a lane that is looked at.
type sweep struct {
	slice marks.Slice
	set   *marks.Set
}

// lookFunc returns the first message of each lane from an instant of its own up to a common one, how long that took
// the server, and whether it took too long.
type lookFunc func(ctx context.Context, lanes []string, froms []time.Time, until time.Time) (
	firsts map[string]marks.Place, took time.Duration, gaveUp bool, err error)

// stopwatch measures what a look costs, by the clock of the server: between two statements that come in one batch with
// it. The way there and back is none of that. On a link of 50 ms each look would seem dear, and each slice, however
// narrow: a sweep by slices of a millisecond comes to no end, and what it is for is never found.
type stopwatch struct{ began, ended time.Time }

func (w *stopwatch) begin() step { return clockStep(&w.began) }
func (w *stopwatch) end() step   { return clockStep(&w.ended) }

// took returns the time between begin and end; of a look that was given up, the time that it was given.
func (w *stopwatch) took(gaveUp bool) time.Duration {
	if gaveUp {
		return marks.SliceLimit
	}
	return w.ended.Sub(w.began)
}

// clockStep returns the statement that reads the server's clock.
func clockStep(now *time.Time) step {
	return step{statement: clockStatement, read: func(rows pgx.Rows) error { return rows.Scan(now) }}
}

// prepare looks from the beginning, or from the marks, if a call that did has taken long, and begins to use marks if
// this takes long, too.
//
// It begins so anew where a look from a mark takes too long. A mark is lowered to what waits for a silent partition,
// and moves up when a look from it comes to its end: while somebody holds a snapshot it would not, once too much has
// fired above it for that. What waits in between the sweep finds.
func (l *looks) prepare(ctx context.Context, lanes []string, until time.Time, look lookFunc) error {
	l.mu.Lock()
	stuck := l.stuck
	dear := (l.dear || stuck) && time.Since(l.looked) >= time.Second
	if dear {
		l.dear, l.stuck, l.looked = false, false, time.Now()
	}
	l.mu.Unlock()
	if !dear {
		return nil
	}
	froms := make([]time.Time, len(lanes))
	for i, lane := range lanes {
		froms[i] = l.from(lane).Due
	}
	firsts, took, gaveUp, err := look(ctx, lanes, froms, until)
	if err != nil {
		return err
	}
	if gaveUp || took > marks.DearLook {
		l.use(lanes, firsts, until, time.Now(), stuck)
	}
	return nil
}

// use begins to use marks on lanes that have none, or on all lanes anew.
func (l *looks) use(lanes []string, firsts map[string]marks.Place, until, now time.Time, anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets == nil {
		l.sets = map[string]*marks.Set{}
	}
	for _, lane := range lanes {
		if set := l.sets[lane]; set == nil || !set.Used() || anew {
			l.sets[lane] = &marks.Set{}
			l.sets[lane].Use([]string{lane}, firsts, until, now)
		}
	}
}

// used reports whether marks are used on any lane.
func (l *looks) used() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, set := range l.sets {
		if set.Used() {
			return true
		}
	}
	return false
}

// from returns where to start the look at a lane.
func (l *looks) from(lane string) marks.Place {
	l.mu.Lock()
	defer l.mu.Unlock()
	if set := l.sets[lane]; set != nil {
		return set.From(lane)
	}
	return marks.Place{Due: earliest()}
}

// note says that a message has begun to wait. Where that is below the mark of its lane, it is looked at next.
func (l *looks) note(lane string, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if set := l.sets[lane]; set != nil {
		set.Note(lane, due)
	}
}

// lower says that a message was put where it will be claimed time and again. If that is below the mark of its lane, the
// mark is lowered.
func (l *looks) lower(lane string, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if set := l.sets[lane]; set != nil {
		set.Lower(lane, due)
	}
}

// next returns the slice that is to be looked at now, if there is one.
func (l *looks) next(lanes []string) (sweep, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.sets) == 0 || now.Before(l.rest) {
		return sweep{}, false
	}
	for range lanes {
		l.turn++
		lane := lanes[l.turn%len(lanes)]
		set := l.sets[lane]
		if set == nil {
			continue
		}
		slice, due := set.Next([]string{lane}, now)
		if due && len(slice.Lanes) == 1 {
			return sweep{slice, set}, true
		}
		if due {
			set.Swept(slice, 0, false, false, now)
		}
	}
	return sweep{}, false
}

// swept notes what became of the look at a slice.
func (l *looks) swept(s sweep, took time.Duration, gaveUp, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	s.set.Swept(s.slice, took, gaveUp, found, now)
	l.rest = now
	if !found {
		l.rest = now.Add(marks.SweepShare * took)
	}
}

// done notes what became of a look from the marks: what it found first on each lane, how long it took, and its error.
func (l *looks) done(
	lanes []string, firsts map[string]marks.Place, until time.Time, took time.Duration, err error,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		set := l.sets[lane]
		switch {
		case set == nil || !set.Used():
			l.dear = l.dear || isCancelled(err) || err == nil && took > marks.DearLook
		case err == nil:
			first, found := firsts[lane]
			set.Claimed(lane, first, found, until)
		default:
			l.stuck = l.stuck || isCancelled(err)
		}
	}
}

// costs notes how long a look from the beginning took that moves no mark, and its error.
func (l *looks) costs(took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dear = l.dear || isCancelled(err) || err == nil && took > marks.DearLook
}

// isCancelled reports whether err says that the server has given a statement up, because of its time limit.
func isCancelled(err error) bool {
	answer, is := errors.AsType[*pgconn.PgError](err)
	return is && answer.Code == "57014"
}
