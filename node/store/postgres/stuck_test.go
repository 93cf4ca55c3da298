package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"chronos/node/store/postgres"
)

// A mark lies an hour back, as one does that was lowered to what waits for a silent partition, and so much has fired
// above it that the server gives each look from there up. Then the mark moves up to now, and the sweep is left to find
// what waits in between. It stays where looks fail for other reasons, or are dear on other lanes.
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
