package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"chronos/node"
	"chronos/node/store/outlook"
)

var _ outlook.Source = (*Store)(nil)

const (
	// outlookLimit is the time limit of each look, and outlookTimeout that of all of them.
	outlookLimit   = 300 * time.Millisecond
	outlookTimeout = 1200 * time.Millisecond
)

// watcher is the connection that outlooks are taken on. It is one of its own, so that they never keep a call of the
// node waiting for a connection, nor one another.
type watcher struct {
	turn  chan struct{} // has an element while somebody looks
	store *Store        // over that connection; nil before the first outlook
	ended bool
	limit string // the time limit of its statements; empty for that of calls
}

func newWatcher(limit string) watcher { return watcher{turn: make(chan struct{}, 1), limit: limit} }

// begin waits for a turn to look, which ends with end. Whoever has waited for as long as a look may take goes without:
// a hundred people who ask at the same time must not keep a node waiting that looks for lanes.
func (w *watcher) begin(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *watcher) end() { <-w.turn }

// get returns the store over the watcher's connection. The caller has the turn.
func (w *watcher) get(ctx context.Context, s *Store) (*Store, error) {
	if w.ended {
		return nil, fmt.Errorf("the store is closed")
	}
	if w.store == nil {
		config := s.pool.Config().Copy()
		config.MaxConns, config.MinConns, config.MinIdleConns = 1, 0, 0
		if w.limit != "" && !s.options.PgBouncer {
			config.ConnConfig.RuntimeParams["statement_timeout"] = w.limit
		}
		pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), config)
		if err != nil {
			return nil, err
		}
		w.store = &Store{pool: pool, options: s.options, preamble: s.preamble, values: s.values}
	}
	return w.store, nil
}

func (w *watcher) close() {
	w.turn <- struct{}{}
	defer w.end()
	w.ended = true
	if w.store != nil {
		w.store.pool.Close()
	}
}

// Outlook implements outlook.Source. It reads outlook.Limit entries of each lane's index from now on, as many of what
// is overdue, as many of what is parked, and as many claims. What lies beyond is estimated by the planner, from the
// statistics that ANALYZE has left.
//
// A look that starts where the index is full of dead entries takes long. That of what is overdue does, while a
// transaction keeps an old snapshot open: it starts at the mark of the claims, if these have one (package marks), and
// is given up after outlookLimit.
func (s *Store) Outlook(ctx context.Context, request outlook.Request) (outlook.Outlook, error) {
	ctx, cancel := context.WithTimeout(ctx, outlookTimeout)
	defer cancel()
	if err := s.watcher.begin(ctx); err != nil {
		return outlook.Outlook{}, fmt.Errorf("wait for others who look at what waits: %w", err)
	}
	defer s.watcher.end()
	through, err := s.watcher.get(ctx, s)
	if err != nil {
		return outlook.Outlook{}, fmt.Errorf("look at what waits: %w", err)
	}
	v := view{store: s, through: through, request: request, now: instant(request.Now)}
	if err := v.take(ctx); err != nil {
		return outlook.Outlook{}, fmt.Errorf("look at what waits: %w", err)
	}
	return v.outlook, nil
}

// view is one call of Outlook.
type view struct {
	store, through *Store
	request        outlook.Request
	now            time.Time
	outlook        outlook.Outlook
}

// take fills the outlook in. Only the first look has to succeed.
func (v *view) take(ctx context.Context) error {
	asked := time.Now()
	if err := v.through.once(ctx, func() {}, clockStep(&v.outlook.Clock)); err != nil {
		return err
	}
	v.outlook.At = asked.Add(time.Since(asked) / 2)
	for _, name := range v.request.Lanes {
		v.outlook.Lanes = append(v.outlook.Lanes, outlook.Lane{
			Name: name, Within: make([]outlook.Count, len(outlook.Horizons())),
		})
	}
	overdue, known := v.claimed(ctx)
	for i := range v.outlook.Lanes {
		lane := &v.outlook.Lanes[i]
		if !isText(lane.Name) {
			continue // nothing can wait there, and the server cannot read its name
		}
		comes, ok := v.coming(ctx, lane)
		v.overdue(ctx, lane, overdue[lane.Name], known)
		lane.Waiting = sum(comes, v.waitingOverdue(lane, overdue[lane.Name]))
		lane.Waiting.Unknown = !ok || lane.Overdue.Unknown
		v.parked(ctx, lane)
		v.deferred(ctx, lane)
		if late := lane.Overdue; !late.Unknown && late.N > overdue[lane.Name].n {
			v.origins(ctx, lane)
		}
		v.outlook.Incomplete = v.outlook.Incomplete || lane.Waiting.Unknown || lane.Claimed.Unknown
	}
	return ctx.Err()
}

// waitingOverdue returns how many of the overdue messages wait.
func (v *view) waitingOverdue(lane *outlook.Lane, claimed late) outlook.Count {
	count := lane.Overdue
	count.N = max(0, count.N-claimed.n)
	return count
}

// look executes a statement within its time limit, and reports whether it came to an end.
func (v *view) look(
	ctx context.Context, restart func(), read func(pgx.Rows) error, statement string, arguments ...any,
) bool {
	err := v.through.once(ctx, restart,
		step{statement: limitStatement, arguments: []any{fmt.Sprint(outlookLimit.Milliseconds())}},
		step{statement: statement, arguments: arguments, read: read})
	return err == nil
}

// late are claimed messages of a lane that are overdue.
type late struct {
	n      int
	oldest time.Time
}

// claimed counts what nodes hold, and returns what of that is overdue, if it is known.
func (v *view) claimed(ctx context.Context) (overdue map[string]late, known bool) {
	overdue = map[string]late{}
	counts := map[string]int{}
	total := 0
	known = v.look(ctx, func() { clear(overdue); clear(counts); total = 0 }, func(rows pgx.Rows) error {
		var lane string
		var n, of int
		var oldest pgtype.Timestamptz
		err := rows.Scan(&lane, &n, &of, &oldest)
		counts[lane] = n
		overdue[lane] = late{of, oldest.Time.UTC()}
		total += n
		return err
	}, claimedCountStatement, v.store.expired.from("").Due, v.now.Add(-outlook.Grace), outlook.Limit)
	for i := range v.outlook.Lanes {
		lane := &v.outlook.Lanes[i]
		lane.Claimed = outlook.Count{N: counts[lane.Name], Estimated: total >= outlook.Limit, Unknown: !known}
	}
	return overdue, known
}

// coming counts what falls due from the grace on, and returns all of that, and whether it is known.
func (v *view) coming(ctx context.Context, lane *outlook.Lane) (all outlook.Count, known bool) {
	from := v.now.Add(-outlook.Grace)
	edges := []time.Time{v.now}
	for _, horizon := range outlook.Horizons() {
		edges = append(edges, instant(v.now.Add(horizon)))
	}
	counts := make([]int, len(edges)+1)
	known = v.look(ctx, func() { clear(counts); lane.Next = time.Time{} }, func(rows pgx.Rows) error {
		var bucket, n int
		var first pgtype.Timestamptz
		err := rows.Scan(&bucket, &n, &first)
		if err == nil && bucket >= 0 && bucket < len(counts) {
			counts[bucket] = n
		}
		if due := first.Time.UTC(); lane.Next.IsZero() || due.Before(lane.Next) {
			lane.Next = due
		}
		return err
	}, comingCountStatement, lane.Name, from, edges, outlook.Limit)
	if !known {
		for i := range lane.Within {
			lane.Within[i].Unknown = true
		}
		return outlook.Count{Unknown: true}, false
	}
	for _, n := range counts {
		all.N += n
	}
	// What was counted is the first of all that comes: a horizon that ends within it is exact.
	full := all.N >= outlook.Limit
	so := 0
	for i, n := range counts[1:len(edges)] {
		so += n
		lane.Within[i] = outlook.Count{N: so}
		if rest := all.N - counts[0] - so; full && rest == 0 {
			lane.Within[i] = v.estimate(ctx, node.Part{Lane: lane.Name}, edges[0], edges[i+1], so)
		}
	}
	if full {
		all = v.estimate(ctx, node.Part{Lane: lane.Name}, from, distant(), all.N)
	}
	return all, true
}

// overdue counts what is overdue, by what waits and by what is claimed.
func (v *view) overdue(ctx context.Context, lane *outlook.Lane, claimed late, known bool) {
	from, until := v.store.waiting.from(lane.Name).Due, v.now.Add(-outlook.Grace)
	var n int
	var oldest pgtype.Timestamptz
	ok := v.look(ctx, func() {}, func(rows pgx.Rows) error {
		return rows.Scan(&n, &oldest)
	}, overdueCountStatement, lane.Name, from, until, outlook.Limit)
	if !ok || !known {
		lane.Overdue.Unknown = true
		return
	}
	waits := outlook.Count{N: n}
	if n >= outlook.Limit {
		waits = v.estimate(ctx, node.Part{Lane: lane.Name}, from, until, n)
	}
	lane.Overdue = sum(waits, outlook.Count{N: claimed.n})
	if oldest.Valid {
		lane.Oldest = oldest.Time.UTC()
	}
	if claimed.n > 0 && (lane.Oldest.IsZero() || claimed.oldest.Before(lane.Oldest)) {
		lane.Oldest = claimed.oldest
	}
}

// parked counts what is parked on a lane, and adds that to the other counts. Where there is much on a part, that part
// is estimated, and so are the counts to which it belongs.
func (v *view) parked(ctx context.Context, lane *outlook.Lane) {
	late := v.now.Add(-outlook.Grace)
	edges := []time.Time{late, v.now}
	for _, horizon := range outlook.Horizons() {
		edges = append(edges, instant(v.now.Add(horizon)))
	}
	var found []parkedCount
	most, more := outlook.Limit, false
	ok := v.look(ctx, func() { found = nil }, func(rows pgx.Rows) error {
		var c parkedCount
		err := rows.Scan(&c.part, &c.oldest, &c.bucket, &c.n, &c.first, &most)
		found = append(found, c)
		return err
	}, parkedCountStatement, lane.Name, outlook.MaxParked+1, edges, outlook.Limit)
	if !ok {
		lane.Waiting.Unknown, lane.Overdue.Unknown = true, true
		for i := range lane.Within {
			lane.Within[i].Unknown = true
		}
		return
	}
	for _, c := range found {
		last := len(lane.Parked) - 1
		if last < 0 || lane.Parked[last].Part != c.part {
			if more = len(lane.Parked) == outlook.MaxParked; more {
				break
			}
			lane.Parked, last = append(lane.Parked, outlook.Parked{Part: c.part, Oldest: c.oldest.UTC()}), last+1
		}
		lane.Parked[last].Waiting.N += c.n
		switch first := c.first.UTC(); {
		case c.bucket == 0:
			lane.Overdue.N += c.n
			if lane.Oldest.IsZero() || first.Before(lane.Oldest) {
				lane.Oldest = first
			}
		case lane.Next.IsZero() || first.Before(lane.Next):
			lane.Next = first
		}
		for i := range lane.Within {
			if c.bucket > 1 && c.bucket <= i+2 {
				lane.Within[i].N += c.n
			}
		}
	}
	for i := range lane.Parked {
		p := &lane.Parked[i]
		if counted := p.Waiting.N; counted >= most {
			p.Waiting = v.estimate(ctx, node.Part{Lane: lane.Name, Name: p.Part}, earliest(), distant(), counted)
			lane.Overdue.N, more = lane.Overdue.N+p.Waiting.N-counted, true
			lane.Overdue.ByStatistics = lane.Overdue.ByStatistics || p.Waiting.ByStatistics
			lane.Waiting.ByStatistics = lane.Waiting.ByStatistics || p.Waiting.ByStatistics
		}
		lane.Waiting.N += p.Waiting.N
	}
	if more {
		lane.Waiting.Estimated, lane.Overdue.Estimated = true, true
		for i := range lane.Within {
			lane.Within[i].Estimated = true
		}
	}
}

// deferred counts what was put off, and adds that to what is overdue. What was put off once and has fallen due again is
// counted there already; but it is overdue since its deadline.
func (v *view) deferred(ctx context.Context, lane *outlook.Lane) {
	var n, all int
	var oldest pgtype.Timestamptz
	if !v.look(ctx, func() {}, func(rows pgx.Rows) error {
		return rows.Scan(&n, &all, &oldest)
	}, deferredCountStatement, lane.Name, v.now.Add(-outlook.Grace), outlook.Limit) {
		lane.Overdue.Unknown, lane.Deferred.Unknown = true, true
		return
	}
	lane.Deferred = outlook.Count{N: n, Estimated: all >= outlook.Limit}
	lane.Overdue = sum(lane.Overdue, lane.Deferred)
	if oldest.Valid && (lane.Oldest.IsZero() || oldest.Time.Before(lane.Oldest)) {
		lane.Oldest = oldest.Time.UTC()
	}
}

// parkedCount is a row of parkedCountStatement: of what is parked on a part so much falls due between two edges, and
// the first of it then. oldest is the first of all.
type parkedCount struct {
	part          string
	oldest, first time.Time
	bucket, n     int
}

// origins tells where what waits and is overdue came from, on the lane and on its parts.
func (v *view) origins(ctx context.Context, lane *outlook.Lane) {
	parts, froms := []string{""}, []time.Time{v.store.waiting.from(lane.Name).Due}
	for _, p := range lane.Parked {
		parts, froms = append(parts, p.Part), append(froms, earliest())
	}
	v.look(ctx, func() { lane.Origins = nil }, func(rows pgx.Rows) error {
		var topic pgtype.Text
		var partition pgtype.Int4
		var messages int
		err := rows.Scan(&topic, &partition, &messages)
		if topic.Valid {
			lane.Origins = append(lane.Origins, outlook.Origin{
				Topic: topic.String, Partition: partition.Int32, Messages: messages,
			})
		}
		return err
	}, originsStatement, lane.Name, parts, froms, v.now.Add(-outlook.Grace), max(1, outlook.MaxOrigins/len(parts)))
}

// estimate returns how many messages wait on a part that fall due between two instants, by the statistics of the
// server, and at least as many as were counted.
func (v *view) estimate(ctx context.Context, at node.Part, from, until time.Time, counted int) outlook.Count {
	var text []byte
	v.look(ctx, func() {}, func(rows pgx.Rows) error { return rows.Scan(&text) },
		estimateStatement, at.Lane, at.Name, from, until)
	var plans []struct {
		Plan struct {
			Rows float64 `json:"Plan Rows"`
		}
	}
	if err := json.Unmarshal(text, &plans); err != nil || len(plans) == 0 {
		return outlook.Count{N: counted, Estimated: true}
	}
	expected := int(plans[0].Plan.Rows)
	return outlook.Count{N: max(counted, expected), Estimated: true, ByStatistics: expected > counted}
}

// sum adds two counts.
func sum(a, b outlook.Count) outlook.Count {
	a.Add(b)
	return a
}

// distant is after everything that falls due.
func distant() time.Time { return time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) }

// The statements of an outlook. They lock nothing, and each reads a bounded part of one index.
const (
	// claimedCountStatement reads the claims that expire first, from a due time on, and sums them up by lane.
	claimedCountStatement = `
SELECT lane, count(*)::integer, count(*) FILTER (WHERE due_at < $2::timestamptz)::integer,
  min(due_at) FILTER (WHERE due_at < $2::timestamptz)
FROM (
  SELECT lane, due_at FROM messages
  WHERE readied_at IS NOT NULL AND expires_at >= $1::timestamptz ORDER BY expires_at LIMIT $3::bigint
) AS claimed
GROUP BY lane`

	// comingCountStatement reads the next messages of a lane that are not parked, and sums them up by the edges that
	// they lie between.
	comingCountStatement = `
SELECT width_bucket(due_at, $3::timestamptz[]), count(*)::integer, min(due_at)
FROM (
  SELECT due_at FROM messages
  WHERE lane = $1 AND part = '' AND readied_at IS NULL AND due_at >= $2::timestamptz
  ORDER BY lane, part, due_at, id LIMIT $4::bigint
) AS coming
GROUP BY 1`

	// overdueCountStatement reads the overdue messages of a lane that are not parked, the longest overdue first.
	overdueCountStatement = `
SELECT count(*)::integer, min(due_at)
FROM (
  SELECT due_at FROM messages
  WHERE lane = $1 AND part = '' AND readied_at IS NULL AND due_at >= $2::timestamptz AND due_at < $3::timestamptz
  ORDER BY lane, part, due_at, id LIMIT $4::bigint
) AS overdue`

	// deferredCountStatement reads the messages of a lane that were put off, in the order of their deadlines. It counts
	// those whose next try is still to come.
	deferredCountStatement = `
SELECT count(*) FILTER (WHERE due_at >= $2::timestamptz)::integer, count(*)::integer, min(deadline)
FROM (
  SELECT deadline, due_at FROM messages
  WHERE lane = $1 AND due_at - deadline > interval '0' AND deadline < $2::timestamptz
  ORDER BY lane, deadline, due_at LIMIT $3::bigint
) AS deferred`

	// parkedCountStatement jumps from one part of a lane to the next, reads the first messages of each, and sums them
	// up by the edges that they lie between. All parts together have $4 messages, and each the same share of that.
	parkedCountStatement = `
WITH RECURSIVE parts AS (
  (
    SELECT part, due_at FROM messages WHERE lane = $1 AND part > '' AND readied_at IS NULL
    ORDER BY lane, part, due_at, id LIMIT 1
  )
  UNION ALL
  SELECT next.part, next.due_at FROM parts CROSS JOIN LATERAL (
    SELECT part, due_at FROM messages WHERE lane = $1 AND part > parts.part AND readied_at IS NULL
    ORDER BY lane, part, due_at, id LIMIT 1
  ) AS next
), counted AS (SELECT part, due_at FROM parts LIMIT $2::bigint),
share AS (SELECT $4::bigint / greatest(count(*), 1) AS most FROM counted)
SELECT counted.part, counted.due_at, width_bucket(waits.due_at, $3::timestamptz[]), count(*)::integer,
  min(waits.due_at), (SELECT most FROM share)::integer
FROM counted CROSS JOIN LATERAL (
  SELECT due_at FROM messages WHERE lane = $1 AND part = counted.part AND readied_at IS NULL
  ORDER BY lane, part, due_at, id LIMIT (SELECT most FROM share)
) AS waits
GROUP BY 1, 2, 3 ORDER BY 1, 3`

	// originsStatement tells where the longest overdue messages on some parts of a lane came from, as many of each.
	originsStatement = `
SELECT overdue.source_topic, overdue.source_partition, count(*)::integer
FROM unnest($2::text[], $3::timestamptz[]) AS looked (part, from_due)
CROSS JOIN LATERAL (
  SELECT source_topic, source_partition FROM messages
  WHERE lane = $1 AND part = looked.part AND readied_at IS NULL
    AND due_at >= looked.from_due AND due_at < $4::timestamptz
  ORDER BY lane, part, due_at, id LIMIT $5::bigint
) AS overdue
GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2 LIMIT 8`

	// estimateStatement executes nothing but the planner.
	estimateStatement = `
EXPLAIN (FORMAT JSON)
SELECT FROM messages
WHERE lane = $1 AND part = $2 AND readied_at IS NULL AND due_at >= $3::timestamptz AND due_at < $4::timestamptz`
)
