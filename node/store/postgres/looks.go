package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chronos/node/store/postgres/marks"
)

// looks says from where calls look for what is due on each lane, see package marks. It is safe for concurrent use.
type looks struct {
	mu   sync.Mutex
	sets map[string]*set

	// doubts are the lanes of which a call has taken too long. Whether that was for what it had to wade through there,
	// a later call finds out.
	doubts map[string]*doubt

	never bool // no marks are used, whatever looks take: for tests

	// rest is how long no lane is swept: they take turns, and all sweeps together take as much time as one may.
	rest time.Time
}

// set is of a lane on which marks are used. Somebody has asked for it at that time.
type set struct {
	marks.Set

	asked time.Time
}

// doubt is of a lane.
type doubt struct {
	// dear says that a call from the beginning has taken long, and stuck that one from a mark was given up by the
	// server.
	dear, stuck bool
	noted       time.Time // when a call has said so the last time

	looked time.Time // when somebody has found out the last time
}

// lookEvery is how often that is done, at most.
const lookEvery = time.Second

// sweep is the slice of a lane that is looked at.
type sweep struct {
	slice marks.Slice
	set   *set
}

// unasked is for how long nobody has asked for a lane that is forgotten here: names of lanes may be made up. One that
// is claimed on again begins like a new one, which costs a look from the beginning that is given up.
const unasked = 10 * time.Minute

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

// prepare looks from the beginning, or from the mark, at a lane of which a call that did has taken long, and begins to
// use marks if this takes long, too. It does so for one lane in each call, the one that was not looked at for the
// longest: where a call for several was given up, nobody knows for which of them, and one that is cheap must not make
// the others seem so.
//
// It begins so anew where a look from a mark takes too long. A mark moves up when a look from it comes to its end:
// while somebody holds a snapshot it would not, once claims of what fell due lately have fired too much above it for
// that. What waits in between the sweep finds.
func (l *looks) prepare(ctx context.Context, lanes []string, until time.Time, look lookFunc) error {
	lane, stuck, some := l.suspect(lanes)
	if !some {
		return nil
	}
	firsts, took, gaveUp, err := look(ctx, []string{lane}, []time.Time{l.from(lane).Due}, until)
	if err != nil {
		return err
	}
	if gaveUp || took > marks.DearLook {
		l.use([]string{lane}, firsts, until, time.Now(), stuck)
	}
	return nil
}

// suspect returns the lane that is to be looked at now, if there is one, and whether its mark is in doubt.
func (l *looks) suspect(lanes []string) (lane string, stuck, some bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	var next *doubt
	for _, name := range lanes {
		d := l.doubts[name]
		if l.never || d == nil || !d.dear && !d.stuck || now.Sub(d.looked) < lookEvery {
			continue
		}
		if next == nil || d.looked.Before(next.looked) {
			lane, next = name, d
		}
	}
	if next == nil {
		return "", false, false
	}
	stuck = next.stuck
	next.dear, next.stuck, next.looked = false, false, now
	return lane, stuck, true
}

// doubt returns that of a lane, of which there is something to note. The caller holds mu.
func (l *looks) doubt(lane string) *doubt {
	if l.doubts == nil {
		l.doubts = map[string]*doubt{}
	}
	if l.doubts[lane] == nil {
		l.doubts[lane] = &doubt{}
	}
	l.doubts[lane].noted = time.Now()
	return l.doubts[lane]
}

// use begins to use marks on lanes that have none, or on all lanes anew: then the sweep goes on where it is. If it
// began anew as often as that, it would never come to what waits the longest.
func (l *looks) use(lanes []string, firsts map[string]marks.Place, until, now time.Time, anew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets == nil {
		l.sets = map[string]*set{}
	}
	for _, lane := range lanes {
		switch s := l.sets[lane]; {
		case s == nil || !s.Used():
			l.sets[lane] = &set{asked: time.Now()}
			l.sets[lane].Use([]string{lane}, firsts, until, now)
		case anew:
			s.Raise(lane, until)
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
		set.asked = time.Now()
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

// next returns the slice that is to be looked at now, if there is one: on some lanes, or if one has been due there for
// a while, on others.
func (l *looks) next(lanes, others []string) (sweep, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if len(l.sets) == 0 || now.Before(l.rest) {
		return sweep{}, false
	}
	for {
		lane, some := l.turn(lanes, others, now)
		if !some {
			return sweep{}, false
		}
		set := l.sets[lane]
		slice, _ := set.Next([]string{lane}, now)
		if len(slice.Lanes) > 0 {
			return sweep{slice, set}, true
		}
		set.Swept(slice, 0, false, false, now) // all of it is above the mark; the next one is wider, and below it
	}
}

// turn returns the lane that is swept next: the one that has waited for the longest since its own last slice, whatever
// the sweep has done on others meanwhile. On a lane with a backlog only some claims begin with the oldest, and if
// others came first for theirs, which have a slice due as soon as the common rest is over, it would have no turn. The
// caller holds mu.
func (l *looks) turn(lanes, others []string, now time.Time) (next string, some bool) {
	const while = 200 * time.Millisecond
	var since time.Time
	for i, lane := range slices.Concat(lanes, others) {
		latest := now
		if i >= len(lanes) {
			latest = now.Add(-while)
		}
		set := l.sets[lane]
		if set == nil || !set.Used() || set.Rest().After(latest) {
			continue
		}
		if !some || set.Rest().Before(since) {
			next, since, some = lane, set.Rest(), true
		}
	}
	return next, some
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
// What is known of lanes that does not matter any more is forgotten.
func (l *looks) done(
	lanes []string, firsts map[string]marks.Place, until time.Time, took time.Duration, err error,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lane := range lanes {
		set := l.sets[lane]
		switch {
		case set == nil || !set.Used():
			if isCancelled(err) || err == nil && took > marks.DearLook {
				l.doubt(lane).dear = true
			}
		case err == nil:
			first, found := firsts[lane]
			set.Claimed(lane, first, found, until)
		case isCancelled(err):
			l.doubt(lane).stuck = true
		}
	}
	l.forget(time.Now())
}

// forget forgets what is over, and the lanes that nobody asks for any more. The caller holds mu.
func (l *looks) forget(now time.Time) {
	maps.DeleteFunc(l.doubts, func(_ string, d *doubt) bool {
		cleared := !d.dear && !d.stuck && now.Sub(d.looked) >= lookEvery
		return cleared || now.Sub(d.noted) >= unasked
	})
	maps.DeleteFunc(l.sets, func(_ string, s *set) bool { return !s.Used() || now.Sub(s.asked) >= unasked })
}

// costs notes how long a look from the beginning of lanes took that moves no mark, and its error.
func (l *looks) costs(lanes []string, took time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isCancelled(err) && (err != nil || took <= marks.DearLook) {
		return
	}
	for _, lane := range lanes {
		l.doubt(lane).dear = true
	}
}

// isCancelled reports whether err says that the server has given a statement up, because of its time limit.
func isCancelled(err error) bool {
	answer, is := errors.AsType[*pgconn.PgError](err)
	return is && answer.Code == "57014"
}
