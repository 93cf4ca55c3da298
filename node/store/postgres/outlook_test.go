package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"chronos/node/store/outlook"
	"chronos/node/store/outlook/outlooktest"
	"chronos/node/store/postgres"
)

// fillWaiting has n messages wait on a lane, one every step from first on.
func fillWaiting(tb testing.TB, address, lane string, n int, first, step time.Duration) {
	tb.Helper()
	exec(tb, address, fmt.Sprintf(`
INSERT INTO messages (id, lane, incarnation, deadline, due_at, source_topic, source_partition, source_offset,
  message_size, message_headers)
SELECT '%[1]s ' || %[3]d || ' ' || i, '%[1]s', gen_random_uuid(), due, due, 'input', i %% 2, i, 10, '[]'
FROM (SELECT i, now() + interval '%[3]d microseconds' + i * interval '%[4]d microseconds' AS due
  FROM generate_series(0, %[2]d - 1) AS i) AS s`, lane, n, first.Microseconds(), step.Microseconds()))
}

// Goal: an outlook on a large table is cheap, and its estimates are of the right size. Method: 60,000 messages of one
// lane over two days and a backlog of 15,000, with statistics.
func TestOutlookOfMany(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	fillWaiting(t, address, "busy", 60_000, 0, 2880*time.Millisecond)
	fillWaiting(t, address, "busy", 15_000, -time.Hour, 200*time.Millisecond)
	fillWaiting(t, address, "quiet", 10, 30*time.Minute, time.Second)
	exec(t, address, "VACUUM ANALYZE messages")
	s := open(t, address, postgres.Options{})
	seen, err := s.Outlook(t.Context(), outlook.Request{Now: time.Now(), Lanes: []string{"busy", "quiet", "none"}})
	if err != nil || seen.Incomplete || len(seen.Lanes) != 3 {
		t.Fatalf("outlook %+v, error %v", seen, err)
	}
	busy, quiet, none := seen.Lanes[0], seen.Lanes[1], seen.Lanes[2]
	near := func(what string, c outlook.Count, want int, estimated bool) {
		t.Helper()
		if c.Estimated != estimated || c.N < want*7/10 || c.N > want*13/10 || c.Unknown {
			t.Errorf("%s is %+v, want about %d", what, c, want)
		}
	}
	near("waiting on the busy lane", busy.Waiting, 75_000, true)
	near("overdue there", busy.Overdue, 15_000, true)
	near("within a minute", busy.Within[0], 20, false)
	near("within ten minutes", busy.Within[1], 208, false)
	near("within an hour", busy.Within[2], 1250, false)
	near("within a day", busy.Within[3], 30_000, true)
	if since := time.Since(busy.Oldest); since < time.Hour || since > time.Hour+time.Minute {
		t.Errorf("the oldest is overdue for %v", since)
	}
	if len(busy.Origins) != 2 || busy.Origins[0].Topic != "input" || busy.Origins[0].Messages != outlook.MaxOrigins/2 {
		t.Errorf("they came from %+v", busy.Origins)
	}
	if quiet.Waiting != (outlook.Count{N: 10}) || quiet.Overdue.N != 0 || quiet.Within[1].N != 0 ||
		quiet.Within[2].N != 10 || !quiet.Oldest.IsZero() || quiet.Next.IsZero() || quiet.Estimated() {
		t.Errorf("the quiet lane is %+v", quiet)
	}
	if none.Waiting.N != 0 || !none.Next.IsZero() {
		t.Errorf("the empty lane is %+v", none)
	}
}

// Goal: dead entries of an hour do not make an outlook wrong or dear: what cannot be told is unknown, the rest is told,
// and all of it within the time limits. Method: a snapshot is held open while 50,000 messages fire.
func TestOutlookPastDeadRows(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	holder := connect(t, address)
	fillWaiting(t, address, "lane", 50_000, -time.Hour, 10*time.Millisecond)
	const snapshot = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM messages"
	if _, err := holder.Exec(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	exec(t, address, "DELETE FROM messages")
	fillWaiting(t, address, "lane", 100, time.Minute/2, time.Millisecond)
	s := open(t, address, postgres.Options{})
	began := time.Now()
	seen, err := s.Outlook(t.Context(), outlook.Request{Now: time.Now(), Lanes: []string{"lane"}})
	if err != nil {
		t.Fatal(err)
	}
	lane := seen.Lanes[0]
	if lane.Within[0] != (outlook.Count{N: 100}) {
		t.Errorf("within a minute: %+v", lane.Within[0])
	}
	if !lane.Overdue.Unknown && lane.Overdue.N != 0 {
		t.Errorf("overdue: %+v", lane.Overdue)
	}
	t.Logf("it took %v; overdue is %+v", time.Since(began), lane.Overdue)
}

// BenchmarkOutlook takes outlooks of a table with -backlog messages on one lane, a twentieth of them overdue.
func BenchmarkOutlook(b *testing.B) {
	address := newSchema(b, newDatabase(b))
	n := max(*backlog, 1000)
	fillWaiting(b, address, "busy", n*19/20, 0, 48*time.Hour/time.Duration(n))
	fillWaiting(b, address, "busy", n/20, -time.Hour, time.Millisecond)
	exec(b, address, "VACUUM ANALYZE messages")
	s := open(b, address, postgres.Options{})
	for b.Loop() {
		seen, err := s.Outlook(b.Context(), outlook.Request{Now: time.Now(), Lanes: []string{"busy"}})
		if err != nil || seen.Incomplete {
			b.Fatalf("outlook %+v, error %v", seen, err)
		}
	}
}

// The outlook is that of every store.
func TestOutlook(t *testing.T) {
	outlooktest.Run(t, open(t, newSchema(t, newDatabase(t)), postgres.Options{}))
}

// Goal: an outlook on a lane with many parts, and much parked on some, is cheap and of the right size. Method: 30,000
// messages on one part, and ten on each of so many others that the last ones are not told of.
func TestOutlookOfManyParts(t *testing.T) {
	const others = outlook.MaxParked + 20
	address := newSchema(t, newDatabase(t))
	fillWaiting(t, address, "lane", 30_000, -time.Hour, 50*time.Millisecond)
	exec(t, address, "UPDATE messages SET part = '0'")
	fillWaiting(t, address, "lane", 10*others, 30*time.Minute, time.Millisecond)
	exec(t, address, fmt.Sprintf(`UPDATE messages SET part = 'p-' || to_char(source_offset %% %d, 'FM000')
WHERE part = ''`, others))
	exec(t, address, "VACUUM ANALYZE messages")
	s := open(t, address, postgres.Options{})
	seen, err := s.Outlook(t.Context(), outlook.Request{Now: time.Now(), Lanes: []string{"lane"}})
	if err != nil || seen.Incomplete || len(seen.Lanes) != 1 {
		t.Fatalf("outlook %+v, error %v", seen, err)
	}
	lane := seen.Lanes[0]
	for what, c := range map[string]outlook.Count{"waiting": lane.Waiting, "overdue": lane.Overdue} {
		if c.Unknown || !c.Estimated || c.N < 20_000 || c.N > 45_000 {
			t.Errorf("%s is %+v, want about 30,000", what, c)
		}
	}
	if len(lane.Parked) != outlook.MaxParked || lane.Within[1].N != 0 ||
		lane.Within[2].N != 10*(outlook.MaxParked-1) || !lane.Within[2].Estimated {
		t.Errorf("%d parts; within an hour: %+v", len(lane.Parked), lane.Within)
	}
	for i, p := range lane.Parked {
		switch {
		case i == 0 && (p.Part != "0" || !p.Waiting.Estimated || p.Waiting.N < 20_000 ||
			time.Since(p.Oldest) < time.Hour || time.Since(p.Oldest) > time.Hour+time.Minute):
			t.Errorf("the first part is %+v", p)
		case i > 0 && (p.Part != fmt.Sprintf("p-%03d", i-1) || p.Waiting != (outlook.Count{N: 10})):
			t.Errorf("part %d is %+v", i, p)
		}
	}
	if lane.Oldest.IsZero() || lane.Next.IsZero() || len(lane.Origins) == 0 {
		t.Errorf("the lane is %+v", lane)
	}
}
