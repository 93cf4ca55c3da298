package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"chronos/node"
	"chronos/node/store/headers"
	"chronos/node/store/postgres/marks"
)

// Claim implements node.Store.
func (s *Store) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	c := claim{store: s, request: request}
	err := c.run(ctx)
	if err != nil {
		err = fmt.Errorf("claim messages: %w", err)
	}
	if err != nil && len(c.rows) == 0 {
		return node.ClaimResult{}, err
	}
	slices.SortFunc(c.rows, func(a, b claimedRow) int {
		return cmp.Or(a.Due.Compare(b.Due), strings.Compare(a.ID, b.ID), strings.Compare(a.Lane, b.Lane))
	})
	result := node.ClaimResult{State: c.state, Idle: c.idle}
	result.Messages = make([]node.Ready, 0, len(c.rows))
	for i := range c.rows {
		if r := &c.rows[i]; r.unreadable == nil {
			result.Messages = append(result.Messages, r.Ready)
		} else {
			if !slices.Contains(result.Unreadable, r.Lane) {
				result.Unreadable = append(result.Unreadable, r.Lane)
			}
			s.report(fmt.Errorf("read message %q for lane %s: %w", r.ID, r.Lane, r.unreadable))
		}
	}
	return result, err
}

// claim is one call of Claim.
type claim struct {
	store   *Store
	request node.ClaimRequest

	rows  []claimedRow
	state node.State
	idle  time.Duration

	// open says that claims were possible before the last look from the marks, where marks are used, and callsOpen that
	// they were on callback lanes: if not, it would have found nothing whatever waits there.
	open, callsOpen bool

	// held are the lanes that are paused, where marks are used: on them, too, nothing is found. Each statement sees
	// what was committed when it began, so they are asked for before the claims and after them:
	//
	//	ask what is paused: x
	//	claim, but not on x
	//	                              somebody resumes x
	//	ask what is paused: nothing
	//
	// With the second answer alone, the mark of x would move up over all that has fallen due during the pause, and the
	// sweep would have to find it.
	held lanes
}

// claimedRow is a row of claimStatement.
type claimedRow struct {
	node.Ready

	unreadable error
}

// run claims what the sweep has found, if it was due and has found anything, and then from the marks on. On a lane of
// which only what falls due from an instant on is asked for, it claims from there on, if that is above the mark. Such a
// look says nothing of what comes before; so it moves no mark, nor does it begin or end the use of any. Marks are of
// what waits on the lanes themselves: on a part, claims begin at its beginning.
//
// Each of its statements is committed by itself. What one has claimed stays in rows when a later one fails: it is ours
// for the hold time, and comes out late if nobody is told of it.
//
// For a minute after the server has given a claim up, what is parked is claimed after the rest, by a transaction of its
// own, and whether anything is parked is not asked for (ClaimResult.Idle). Of a part from which millions have fired
// while a snapshot is held, the dead entries are waded through each time, and no lane is to be stopped by that.
func (c *claim) run(ctx context.Context) error {
	var lanes, oldest []string
	var parts []node.Part
	until := instant(c.request.Until)
	for _, share := range c.request.Lanes {
		if !isText(share.Lane) || !isText(share.Part) {
			continue // nothing can wait there, and the server cannot read the name
		}
		parts = append(parts, share.Where())
		if share.Part == "" {
			lanes = append(lanes, share.Lane)
			if share.From.IsZero() {
				oldest = append(oldest, share.Lane)
			}
		}
	}
	looks := &c.store.waiting
	if done, err := c.peek(ctx, parts); done || err != nil {
		return err
	}
	if len(oldest) > 0 {
		if err := looks.prepare(ctx, oldest, until, c.look); err != nil {
			return err
		}
	}
	if swept, due := looks.next(c.store.held.Load().without(oldest), c.store.held.Load().without(lanes)); due {
		if err := c.sweep(ctx, swept); err != nil {
			return err
		}
	}
	// A lane whose share the sweep has used up is not looked at: that would find nothing, and move its mark up.
	var rest, parked stretches
	swept, apart := len(c.rows), c.store.wades()
	for _, part := range parts {
		switch limit, bytes := c.left(part); {
		case limit <= 0 || bytes <= 0 || c.bytesLeft() <= 0:
		case apart && part.Name != "":
			parked.add(part, c.from(part))
		default:
			rest.add(part, c.from(part))
		}
	}
	if len(rest.parts) == 0 && len(parked.parts) == 0 && len(c.rows) > 0 {
		return c.turns(ctx)
	}
	start := time.Now()
	firsts, err := c.claim(ctx, rest, until)
	if err != nil || c.open {
		other := func(lane string) bool {
			return !slices.Contains(oldest, lane) || !c.callsOpen && node.IsCallback(lane)
		}
		looked := slices.DeleteFunc(c.held.without(c.reached(rest.parts, swept)), other)
		looks.done(looked, firsts, until, time.Since(start), err)
	}
	if err == nil {
		held := c.held // or the whole claim would be kept, with its rows
		c.store.held.Store(&held)
	}
	if err == nil && len(parked.parts) > 0 {
		_, err = c.claim(ctx, parked, until)
	}
	if failed := c.turns(ctx); err == nil {
		err = failed
	}
	return err
}

// sweep looks at a slice of a lane below its mark, and claims what waits there.
func (c *claim) sweep(ctx context.Context, swept sweep) error {
	until := swept.slice.Until[0]
	firsts, took, gaveUp, err := c.look(ctx, swept.slice.Lanes, swept.slice.From, until)
	if err != nil {
		return err
	}
	first, found := firsts[swept.slice.Lanes[0]]
	if found {
		var stretch stretches
		stretch.add(node.Part{Lane: swept.slice.Lanes[0]}, first)
		kept := len(c.rows)
		if _, err := c.claim(ctx, stretch, until); err != nil {
			return err
		}
		// Or else somebody has locked it, who must not hold the sweep up. On a lane that was paused a moment ago it is
		// still there when that is resumed.
		found = len(c.rows) > kept || c.held[swept.slice.Lanes[0]] || !c.callsOpen
	}
	c.store.waiting.swept(swept, took, gaveUp, found)
	return nil
}

// look is a lookFunc. What waits on a lane is looked for from its instant on, as far as a claim would go from there.
func (c *claim) look(
	ctx context.Context, lanes []string, froms []time.Time, until time.Time,
) (firsts map[string]marks.Place, took time.Duration, gaveUp bool, err error) {
	most := make([]int64, len(lanes))
	for i, lane := range lanes {
		most[i], _ = c.left(node.Part{Lane: lane})
		most[i] = max(1, most[i])
	}
	limit := fmt.Sprint(marks.SliceLimit.Milliseconds())
	var watch stopwatch
	err = c.store.once(ctx, func() { firsts = map[string]marks.Place{} },
		step{statement: limitStatement, arguments: []any{limit}},
		watch.begin(),
		step{statement: lookStatement, arguments: []any{lanes, froms, until, most}, read: func(rows pgx.Rows) error {
			var place int
			var first marks.Place
			err := rows.Scan(&place, &first.Due, &first.ID)
			if err == nil {
				firsts[lanes[place-1]] = first
			}
			return err
		}},
		watch.end())
	if isCancelled(err) {
		return nil, watch.took(true), true, nil
	}
	return firsts, watch.took(false), false, err
}

// stretches are where to claim on parts of lanes.
type stretches struct {
	parts []node.Part
	froms []marks.Place
}

func (s *stretches) add(part node.Part, from marks.Place) {
	s.parts, s.froms = append(s.parts, part), append(s.froms, from)
}

// claim claims as much on each part as its share allows beside what is claimed already, up to a due time, and returns
// the first message of each lane that was not parked. If it fails, rows and state are as before: whatever it has read
// may have been taken back.
func (c *claim) claim(
	ctx context.Context, on stretches, until time.Time,
) (firsts map[string]marks.Place, err error) {
	n := len(on.parts)
	limits, bytes := make([]int64, n), make([]int64, n)
	of, names := make([]string, n), make([]string, n)
	dues, ids := make([]time.Time, n), make([]string, n)
	for i, part := range on.parts {
		limits[i], bytes[i] = c.left(part)
		of[i], names[i] = part.Lane, part.Name
		dues[i], ids[i] = on.froms[i].Due, on.froms[i].ID
	}
	kept, known := len(c.rows), c.state
	var before node.State
	steps := []step{{statement: claimsLock}}
	marked := c.store.waiting.used()
	if marked {
		c.held = lanes{}
		steps = append(steps, stateStep(&before, new(time.Time)), c.held.step())
	}
	steps = append(steps,
		step{
			statement: claimStatement,
			arguments: []any{
				uuidOf(c.request.Node), c.request.Hold.Microseconds(), of, names, limits, bytes, dues, ids, until,
				c.bytesLeft(),
			},
			read: c.read,
		},
		stateStep(&c.state, new(time.Time)))
	if marked {
		steps = append(steps, c.held.step())
	}
	steps = append(steps, c.asksIdle(on.parts)...)
	err = c.store.once(ctx, func() { c.rows, c.state = c.rows[:kept], node.State{} }, steps...)
	if err = c.known(err); err != nil {
		c.rows, c.state = c.rows[:kept], known
	}
	c.open, c.callsOpen = !marked || before.Claims(), !marked || !before.HoldingCalls
	firsts = map[string]marks.Place{}
	for i := range c.rows[kept:] {
		r := &c.rows[kept+i]
		if r.Part != "" {
			continue
		}
		place := marks.Place{Due: r.Due, ID: r.ID}
		if first, found := firsts[r.Lane]; !found || place.Before(first) {
			firsts[r.Lane] = place
		}
	}
	return firsts, err
}

// wadeFor is how long what is parked is claimed apart.
const wadeFor = time.Minute

// wades reports whether what is parked is claimed apart.
func (s *Store) wades() bool { return time.Now().UnixNano() < s.wading.Load() }

// known sees what is known of the state and of ClaimResult.Idle when they were asked for.
func (c *claim) known(err error) error {
	if err == nil && c.state.Lineage == 0 {
		err = errNoStore
	}
	if isCancelled(err) {
		c.store.wading.Store(time.Now().Add(wadeFor).UnixNano())
	}
	if err != nil || !c.state.Claims() {
		c.idle = 0
	}
	c.store.idle.Store(c.idle > 0)
	return err
}

// peek asks whether there is anything to claim before it claims, where the claim before has said that there would be
// nothing for a while: then this is one statement, and not four, and mostly all there is to it. What is not due by what
// it sees need not be claimed, and a claim that claims nothing need not be in the order of lineages. It reports whether
// the claim is done.
func (c *claim) peek(ctx context.Context, parts []node.Part) (done bool, err error) {
	if !c.store.idle.Load() || !c.mayIdle(parts) {
		return false, nil
	}
	lanes := lanesOf(parts)
	start := time.Now()
	err = c.store.once(ctx, func() { c.state, c.idle = node.State{}, 0 }, step{
		statement: peekStatement, arguments: []any{lanes, instant(c.request.Until.Add(c.request.Ahead))},
		read: func(rows pgx.Rows) error {
			var busy bool
			var due pgtype.Timestamptz
			err := scanState(rows, &c.state, new(time.Time), &busy, &due)
			c.idles(busy, due)
			return err
		},
	})
	c.store.waiting.costs(lanes, time.Since(start), err)
	err = c.known(err)
	return c.idle > 0, err
}

// mayIdle reports whether ClaimResult.Idle is asked for, and can be told. Who tells begins at the beginning of two
// indexes, so where a look from there is known to be dear (see marks), or the server has given a claim up, nothing is
// said.
func (c *claim) mayIdle(parts []node.Part) bool {
	looks, expired := &c.store.waiting, &c.store.expired
	return c.request.Ahead > 0 && !looks.used() && !expired.used() && !c.store.wades() &&
		len(parts) == len(c.request.Lanes)
}

// lanesOf returns the lanes of parts, each once.
func lanesOf(parts []node.Part) []string {
	return node.LanesOf(slices.SortedFunc(slices.Values(parts), node.Part.Compare))
}

// asksIdle returns the statement that finds out ClaimResult.Idle, if it may be told.
func (c *claim) asksIdle(parts []node.Part) []step {
	if !c.mayIdle(parts) {
		return nil
	}
	return []step{{
		statement: idleStatement, arguments: []any{lanesOf(parts), instant(c.request.Until.Add(c.request.Ahead))},
		read: func(rows pgx.Rows) error {
			var busy bool
			var due pgtype.Timestamptz
			err := rows.Scan(&busy, &due)
			c.idles(busy, due)
			return err
		},
	}}
}

// idles notes for how long there is nothing to do: until something falls due, if anything does so soon; and not at all
// while somebody holds a claim, or anything is parked.
func (c *claim) idles(busy bool, due pgtype.Timestamptz) {
	c.idle = c.request.Ahead
	if due.Valid {
		c.idle = min(c.idle, max(0, due.Time.Sub(c.request.Until)))
	}
	if busy {
		c.idle = 0
	}
}

// left returns what the share of a part still allows.
func (c *claim) left(part node.Part) (limit, bytes int64) {
	share := c.share(part)
	limit, bytes = int64(share.Limit), int64(share.Bytes)
	for i := range c.rows {
		if r := &c.rows[i]; r.Lane == part.Lane && r.Part == part.Name {
			limit, bytes = limit-1, bytes-int64(r.Size())
		}
	}
	return max(limit, 0), bytes
}

// bytesLeft returns how many bytes all lanes together still have; at most what a bigint holds where there is no bound.
func (c *claim) bytesLeft() int64 {
	if c.request.Bytes <= 0 {
		return math.MaxInt64
	}
	left := int64(c.request.Bytes)
	for i := range c.rows {
		left -= int64(c.rows[i].Size())
	}
	return left
}

// reached returns the lanes of those of parts that the last statement has come to, which has claimed the rows from a
// place on, and that are no more than their lanes: of all of them, unless the bound on all bytes was the end of it.
func (c *claim) reached(parts []node.Part, from int) (lanes []string) {
	if c.bytesLeft() <= 0 {
		last := -1
		for i := range c.rows[from:] {
			last = max(last, slices.Index(parts, c.rows[from+i].Where()))
		}
		parts = parts[:last+1]
	}
	for _, part := range parts {
		if part.Name == "" {
			lanes = append(lanes, part.Lane)
		}
	}
	return lanes
}

// from returns where to begin on a part.
func (c *claim) from(part node.Part) marks.Place {
	mark, from := marks.Place{Due: earliest()}, c.share(part).From
	if part.Name == "" {
		mark = c.store.waiting.from(part.Lane)
	}
	if !from.IsZero() && mark.Due.Before(from) {
		return marks.Place{Due: from}
	}
	return mark
}

// share returns what is asked for on a part.
func (c *claim) share(part node.Part) node.Share {
	for _, share := range c.request.Lanes {
		if share.Where() == part {
			return share
		}
	}
	return node.Share{}
}

// read reads a row to where it stays: on its own, each would be a piece of memory more.
func (c *claim) read(rows pgx.Rows) error {
	c.rows = append(c.rows, claimedRow{})
	r := &c.rows[len(c.rows)-1]
	var text []byte
	var topic pgtype.Text
	var partition pgtype.Int4
	var offset pgtype.Int8
	var notAfter, at pgtype.Timestamptz
	var series pgtype.Text
	var sequence pgtype.Int8
	var line pgtype.UUID
	err := rows.Scan(&r.ID, &r.Lane, &r.Incarnation, &r.Deadline, &r.Due, &r.Claim.ReadiedAt, &r.Claim.Expires,
		&r.Attempts, &topic, &partition, &offset, &text, &r.Key, &r.Value, &notAfter,
		&series, &sequence, &at, &r.Bound, &line, &r.Part)
	if err != nil {
		c.rows = c.rows[:len(c.rows)-1]
		return err
	}
	r.Headers, r.unreadable = headers.Decode(text)
	for _, t := range []pgtype.Timestamptz{notAfter, at} {
		if t.InfinityModifier != pgtype.Finite && r.unreadable == nil {
			r.unreadable = errInfinite
		}
	}
	r.Attempts = max(r.Attempts, 1) // this claim counts, whatever somebody has written there
	r.Deadline, r.Due, r.NotAfter = r.Deadline.UTC(), r.Due.UTC(), timeOf(notAfter)
	r.Recurrence, r.Line = recurrence(series, sequence, at), line.Bytes
	r.Origin = node.Origin{Topic: topic.String, Partition: partition.Int32, Offset: offset.Int64}
	r.Claim = node.Claim{
		Ref: r.Ref(), ReadiedAt: r.Claim.ReadiedAt.UTC(), ReadiedBy: c.request.Node, Expires: r.Claim.Expires.UTC(),
	}
	return nil
}

// errInfinite is what is wrong with a row that somebody has edited.
var errInfinite = errors.New("not_after or occurs_at of it is infinite, so it does not come out: " +
	"set that to an instant, or delete the row")

func (s *Store) report(err error) {
	if s.options.Report != nil {
		s.options.Report(err)
	}
}
