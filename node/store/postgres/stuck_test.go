package postgres_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"chronos/node/store/postgres"
)

// A mark lies an hour back, where a backlog begins, and claims of what fell due lately have fired so much above it that
// the server gives each look from there up. Then the mark moves up to now, and the sweep is left to find what waits in
// between. It stays where looks fail for other reasons, or are dear on other lanes.
func TestMarksThatNoLookGetsAwayFrom(t *testing.T) {
	const dear = 100 * time.Millisecond
	for _, c := range []struct {
		what   string
		lane   string
		took   time.Duration
		err    error
		again  time.Duration // what the next look takes
		gaveUp bool
		looks  bool
		moves  bool
	}{
		{"given up, as the next one", "marked", 0, &pgconn.PgError{Code: "57014"}, 0, true, true, true},
		{"given up, and the next one is dear", "marked", 0, &pgconn.PgError{Code: "57014"}, dear, false, true, true},
		{"given up for something that is over", "marked", 0, &pgconn.PgError{Code: "57014"}, 0, false, true, false},
		{"another error", "marked", 0, errors.New("connection reset"), 0, true, false, false},
		{"dear, and came to its end", "marked", dear, nil, 0, true, false, true},
		{"dear on another lane", "other", dear, nil, 0, true, true, false},
		{"given up on another lane", "other", 0, &pgconn.PgError{Code: "57014"}, 0, true, true, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			var l postgres.Looks
			mark := time.Now().Add(-time.Hour)
			l.UseMark("marked", mark)
			l.Done([]string{c.lane}, c.took, c.err)
			froms, err := l.Prepare([]string{"marked", "other"}, c.again, c.gaveUp)
			if err != nil || (len(froms) > 0) != c.looks {
				t.Fatalf("it looks from %v: %v", froms, err)
			}
			if c.looks && c.lane == "marked" && !froms[0].Equal(mark) {
				t.Errorf("it looks from %v, and the mark is at %v", froms[0], mark)
			}
			if moved := time.Since(l.From("marked")) < time.Minute; moved != c.moves {
				t.Errorf("the mark was at %v and is at %v", mark, l.From("marked"))
			}
			if froms, err := l.Prepare([]string{"marked", "other"}, 0, true); err != nil || len(froms) > 0 {
				t.Errorf("it looks once more, from %v: %v", froms, err)
			}
		})
	}
}

// A call for two lanes is given up, and the next ones are for one lane each: that looks at one lane are cheap says
// nothing of the other one.
func TestMarksOfEachLane(t *testing.T) {
	var l postgres.Looks
	l.Done([]string{"dear", "cheap"}, 0, &pgconn.PgError{Code: "57014"})
	if froms, err := l.Prepare([]string{"cheap"}, 0, false); err != nil || len(froms) != 1 {
		t.Fatalf("it looks from %v: %v", froms, err)
	}
	if froms, err := l.Prepare([]string{"cheap", "dear"}, 0, true); err != nil || len(froms) != 1 {
		t.Fatalf("it looks from %v: %v", froms, err)
	}
	for lane, marked := range map[string]bool{"dear": true, "cheap": false} {
		if from := l.From(lane); (time.Since(from) < time.Minute) != marked {
			t.Errorf("looks at the %s lane begin at %v", lane, from)
		}
	}
}

// While all claims on a lane are of what fell due lately, the sweep has turns there all the same.
func TestSweepBesideTheLatest(t *testing.T) {
	var l postgres.Looks
	l.UseMark("lane", time.Now().Add(-time.Minute))
	if !l.Sweeps(nil, []string{"lane"}) {
		t.Error("there is no sweep")
	}
	if l.Sweeps(nil, nil) {
		t.Error("there is a sweep of no lane")
	}
}

// Each claim on a lane is of what fell due lately. It has its share of the sweep all the same, which is half of it
// beside another lane with a mark, whose claims begin with the oldest. Together they take no more than a tenth of the
// time.
func TestSweepBesideAnotherLane(t *testing.T) {
	const took, between = 20 * time.Millisecond, 100 * time.Millisecond
	both, late, other := []string{"late", "other"}, []string{"late"}, []string{"other"}
	for _, c := range []struct {
		what   string
		claims [][2][]string // one after the other, each on lanes from the oldest on, and on these
		marked bool          // the other lane
	}{
		{"one claim for both, the other has no mark", [][2][]string{{other, both}}, false},
		{"one claim for both", [][2][]string{{other, both}}, true},
		{"in turns, the other has no mark", [][2][]string{{nil, late}, {other, both}, {other, both}}, false},
		{"in turns", [][2][]string{{nil, late}, {other, both}, {other, both}}, true},
		{"in turns, the other shares its claims", [][2][]string{{nil, late}, {other, both}, {nil, both}}, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var l postgres.Looks
				l.UseMark("late", time.Now().Add(-time.Minute))
				if c.marked {
					l.UseMark("other", time.Now())
				}
				turns := map[string]int{}
				began := time.Now()
				for i := 0; time.Since(began) < 10*time.Minute; i++ {
					claim := c.claims[i%len(c.claims)]
					turns[l.Turn(claim[0], claim[1], took)]++
					<-time.After(between)
				}
				if n := turns["late"]; n < 600 || n < turns["other"]*9/10 {
					t.Errorf("the lane of late claims has %d turns, the other one %d", n, turns["other"])
				}
				if c.marked && turns["other"] < 600 {
					t.Errorf("the other lane has %d turns", turns["other"])
				}
				if all := time.Duration(turns["late"]+turns["other"]) * took; all > time.Since(began)/10 {
					t.Errorf("the sweeps take %v of %v", all, time.Since(began))
				}
			})
		})
	}
}

// A claim that does not begin with the oldest has something else to do. It is swept with only where no other claim has
// been for a while.
func TestSweepGoesWithTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const took = 20 * time.Millisecond
		lane := []string{"lane"}
		var l postgres.Looks
		l.UseMark("lane", time.Now().Add(-time.Minute))
		for range 1000 {
			if l.Turn(lane, lane, took) == "" {
				t.Fatal("there is no sweep with a claim from the oldest on")
			}
			for range 2 {
				<-time.After(9 * took)
				if l.Turn(nil, lane, took) != "" {
					t.Fatal("there is one with another claim")
				}
			}
		}
	})
}

// The look that tells whether claims are dear goes through as many rows as a claim, on each lane.
func TestLookGoesAsFarAsAClaim(t *testing.T) {
	l := newLane(t)
	l.take(20, time.Minute)
	conn := connect(t, l.address)
	for most, want := range map[int64]string{1: "rows=1 ", 7: "rows=7 ", 100: "rows=20 "} {
		rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, TIMING off, COSTS off) "+postgres.Statements()["look"],
			[]string{"out"}, []time.Time{l.now.Add(-time.Hour)}, l.now, []int64{most})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(plan, func(line string) bool {
			return strings.Contains(line, "messages_waiting") && strings.Contains(line, want)
		}) {
			t.Errorf("of a look that stands for a claim of %d the plan is %s", most, strings.Join(plan, "\n"))
		}
	}
}

// A mark is raised while the sweep is far below it. The sweep goes on there, and does not begin anew.
func TestSweepGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lane, took = "lane", 5 * time.Millisecond
		var l postgres.Looks
		l.UseMark(lane, time.Now().Add(-time.Minute))
		lowest := func(n int) time.Time {
			low := time.Now()
			for range n {
				<-time.After(time.Second)
				from := l.Sweep(lane, took)
				if from.IsZero() {
					t.Fatal("the sweep has no turn")
				}
				if from.Before(low) {
					low = from
				}
			}
			return low
		}
		before := lowest(20)
		l.Done([]string{lane}, 0, &pgconn.PgError{Code: "57014"})
		if _, err := l.Prepare([]string{lane}, 0, true); err != nil || time.Since(l.From(lane)) > time.Minute {
			t.Fatalf("the mark is at %v: %v", l.From(lane), err)
		}
		if after := lowest(3); !after.Before(before) {
			t.Errorf("the sweep had come down to %v, and is at %v", before, after)
		}
	})
}
