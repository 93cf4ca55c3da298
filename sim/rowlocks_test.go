package sim_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/sim"
)

// round is what up to three sessions do at once. They begin one after another, each when the ones before wait, hold
// their locks, or have returned. Then the transactions that are held end one after another. It is written
//
//	+delete x, insert x, -reset x/y
//
// where + holds a transaction open and commits it, - holds it open and rolls it back, and what has no sign commits at
// once. After a ~, which of the sessions that wait goes first is nobody's promise, and results are compared as a set.
type round struct {
	calls []lockedOp // by session
	race  bool
}

// lockedOp is a call:
//
//	insert   takes ids in, under a new incarnation each time
//	readied  the same, claimed for the session
//	again    takes in what was taken in last under the first of the ids, as a node repeats what had no answer
//	ready    claims whatever is due; ready1 one at most
//	delete   deletes the incarnations that were taken in last
//	reset    takes back the claims that were made last
//	stuck    looks for claims that have expired, as all have
//
// Each session takes in records of a partition of its own: takes of one partition wait for each other whatever their
// rows are.
type lockedOp struct {
	op           string
	ids          []string
	held, undone bool
}

// parseRound reads a round.
func parseRound(text string) round {
	text, race := strings.CutPrefix(text, "~")
	r := round{race: race}
	for call := range strings.SplitSeq(text, ", ") {
		c := lockedOp{held: strings.ContainsAny(call[:1], "+-"), undone: call[0] == '-'}
		op, ids, _ := strings.Cut(strings.TrimLeft(call, "+-"), " ")
		c.op = op
		if ids != "" {
			c.ids = strings.Split(ids, "/")
		}
		r.calls = append(r.calls, c)
	}
	return r
}

// String returns the round as it is written.
func (r round) String() string {
	var calls []string
	for _, c := range r.calls {
		sign := ""
		switch {
		case c.undone:
			sign = "-"
		case c.held:
			sign = "+"
		}
		calls = append(calls, strings.TrimSpace(sign+c.op+" "+strings.Join(c.ids, "/")))
	}
	return strings.Join(calls, ", ")
}

// kind is the operation of the port.
func (c *lockedOp) kind() sim.Op {
	switch c.op {
	case "insert", "readied", "again":
		return sim.OpTake
	case "ready", "ready1":
		return sim.OpClaim
	case "stuck":
		return sim.OpExpired
	}
	return sim.Op(c.op)
}

// leftAlone reports whether a result tells of something that others have locked.
func (c *lockedOp) leftAlone(result string) bool {
	if c.kind() == sim.OpTake {
		return strings.Contains(result, "blocked ")
	}
	settles := c.kind() == sim.OpDelete || c.kind() == sim.OpReset
	return settles && strings.Contains(result, strconv.Itoa(int(node.Busy)))
}

// lockedSide is one of the two stores, with what its sessions know.
type lockedSide struct {
	mu     sync.Mutex
	last   map[string]uuid.UUID        // the incarnation that was taken in last
	claims map[string]node.Claim       // the claim that was made last
	takes  map[string]node.TakeRequest // how it was taken in
	next   [3]int64                    // the offset of the next record of each session
}

func newLockedSide() *lockedSide {
	return &lockedSide{
		last: map[string]uuid.UUID{}, claims: map[string]node.Claim{}, takes: map[string]node.TakeRequest{},
	}
}

// do makes a call and returns its result as text.
func (s *lockedSide) do(store node.Store, number, session int, c lockedOp) string {
	ctx, name := context.Background(), callID(number, session)
	var err error
	var text string
	switch c.kind() {
	case sim.OpTake:
		text, err = s.take(ctx, store, name, session, c)
	case sim.OpClaim:
		until := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		in := node.ClaimRequest{
			Node: name, Hold: time.Microsecond, Until: until,
			Lanes: []node.Share{{Lane: "out", Limit: 10, Bytes: 1 << 20}},
		}
		if c.op == "ready1" {
			in.Lanes[0].Limit = 1
		}
		var claimed node.ClaimResult
		claimed, err = store.Claim(ctx, in)
		for i := range claimed.Messages {
			s.note(claimed.Messages[i].Claim)
			text += claimed.Messages[i].ID + " "
		}
	case sim.OpDelete:
		var refs []node.Ref
		for _, id := range c.ids {
			refs = append(refs, node.Ref{ID: id, Lane: "out", Incarnation: s.incarnation(id)})
		}
		var settled []node.Settled
		settled, err = store.Settle(ctx, node.Removals(refs...))
		text = fmt.Sprint(settled)
	case sim.OpReset:
		var releases []node.Release
		for _, id := range c.ids {
			releases = append(releases, node.Release{Claim: s.claim(id)})
		}
		var settled []node.Settled
		settled, err = store.Reset(ctx, releases)
		text = fmt.Sprint(settled)
	default:
		var claims []node.Claim
		claims, err = store.Expired(ctx, 10)
		text = stuckText(claims)
	}
	if err != nil {
		return "error"
	}
	return text
}

// take makes a take.
func (s *lockedSide) take(
	ctx context.Context, store node.Store, name uuid.UUID, session int, c lockedOp,
) (string, error) {
	in := s.request(name, session, c)
	result, err := store.Take(ctx, in)
	text := ""
	for i, one := range result.Results {
		switch one.Outcome {
		case node.Blocked:
			text += "blocked "
		case node.Untaken:
			text += "untaken "
		default:
			text += fmt.Sprint(one.Outcome, " ")
		}
		if one.Outcome != node.Scheduled {
			continue
		}
		s.mu.Lock()
		s.last[in.Items[i].ID], s.takes[in.Items[i].ID] = in.Items[i].Incarnation, in
		s.mu.Unlock()
		if one.Claim.ReadiedBy != uuid.Nil {
			text += "claimed "
			s.note(one.Claim)
		}
	}
	return text, err
}

// request returns a take, or the last one of an id.
func (s *lockedSide) request(name uuid.UUID, session int, c lockedOp) node.TakeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in, taken := s.takes[c.ids[0]]; taken && c.op == "again" {
		return in
	}
	place := sim.SessionPlaces()[session-1]
	next := &s.next[session-1]
	in := node.TakeRequest{Node: name, Hold: time.Microsecond, From: []node.Place{place}}
	for i, id := range c.ids {
		incarnation := name
		incarnation[14] = byte(i) // two of one incarnation are given back by two transactions
		in.Items = append(in.Items, node.Item{
			Epoch: node.UnknownEpoch, Offset: *next, Action: node.Schedule, Claim: c.op == "readied",
			Message: node.Message{
				ID: id, Lane: "out", Incarnation: incarnation, Deadline: time.Date(2025, 1, 2, 0, 0, 0, 0, time.UTC),
			},
		})
		*next++
	}
	return in
}

func (s *lockedSide) note(c node.Claim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claims[c.ID] = c
}

// incarnation returns the one that was inserted last under id, or one that nobody has inserted.
func (s *lockedSide) incarnation(id string) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, inserted := s.last[id]; inserted {
		return last
	}
	return uuid.UUID{15: 0xff}
}

// claim returns the claim that was made last on id, or one that nobody has made.
func (s *lockedSide) claim(id string) node.Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	claim := s.claims[id]
	claim.ID, claim.Lane = id, "out"
	return claim
}

// callID names a call: it is the owner of its claims and the incarnation of what it inserts.
func callID(number, session int) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:], uint64(number+1))
	id[15] = byte(session)
	return id
}

// stuckText returns claims in their order. That of the claims of one call is left open.
func stuckText(claims []node.Claim) string {
	text := ""
	for len(claims) > 0 {
		n := 1
		for n < len(claims) && claims[n].ReadiedBy == claims[0].ReadiedBy {
			n++
		}
		slices.SortFunc(claims[:n], func(a, b node.Claim) int { return cmp.Compare(a.ID, b.ID) })
		for _, c := range claims[:n] {
			text += c.ID + " "
		}
		claims = claims[n:]
	}
	return text
}

// lockedEvent is what a test does next in a round: it lets a session begin, or end what it holds.
type lockedEvent struct {
	at      time.Duration
	session int // from 0
	ends    bool
}

// lockedRun is what has happened in a script: per round the events, after each of them what every session does, and the
// results; and in the end the rows.
type lockedRun struct {
	events  [][]lockedEvent
	states  [][]string
	results [][]string
	rows    []string
}

// The times of a simulated round. The last transaction of three that wait for each other ends before 2 s.
const (
	roundTime = 3 * time.Second
	startTime = 100 * time.Millisecond
	heldTime  = 500 * time.Millisecond
	spread    = 20 * time.Millisecond // between ends that would be at one instant
)

// patience is how long a session waits for what others have locked, where it waits until they have ended.
const patience = time.Hour

// simulated runs the rounds on the store of the simulator, whose calls wait for so long for what others have locked.
// Its times tell in which order the events of each round are.
func simulated(rounds []round, lockWait time.Duration) lockedRun {
	var run lockedRun
	side := newLockedSide()
	var calls []sim.LockedCall
	for n, r := range rounds {
		results := make([]string, len(r.calls))
		run.results = append(run.results, results)
		for i, c := range r.calls {
			call := sim.LockedCall{
				Session: i + 1, At: time.Duration(n)*roundTime + time.Duration(i)*startTime, Op: c.kind(),
				Do: func(store node.Store) { results[i] = side.do(store, n, i+1, c) },
			}
			if c.held {
				call.Held, call.Undone = heldTime+time.Duration(i)*spread, c.undone
			}
			calls = append(calls, call)
		}
	}
	spans, stored := sim.RunSessions(calls, lockWait)
	follows := spread / 2
	if lockWait < patience {
		follows += lockWait
	}
	for _, r := range rounds {
		events, states := roundOf(calls[:len(r.calls)], spans[:len(r.calls)], follows)
		calls, spans = calls[len(r.calls):], spans[len(r.calls):]
		run.events, run.states = append(run.events, events), append(run.states, states)
	}
	for _, c := range stored {
		run.rows = append(run.rows, fmt.Sprint(c.ID, " ", c.Incarnation, " ", c.ReadiedBy))
	}
	return run
}

// roundOf returns the events of a simulated round, and what the sessions do after each, when everything has happened
// that follows from it.
func roundOf(
	calls []sim.LockedCall, spans []sim.LockedSpan, follows time.Duration,
) (events []lockedEvent, states []string) {
	for i, c := range calls {
		events = append(events, lockedEvent{at: c.At, session: i})
		if c.Held > 0 {
			events = append(events, lockedEvent{at: spans[i].Locked + c.Held, session: i, ends: true})
		}
	}
	slices.SortFunc(events, func(a, b lockedEvent) int { return cmp.Compare(a.at, b.at) })
	for _, e := range events {
		now := e.at + follows
		var state []string
		for i, c := range calls {
			switch span := spans[i]; {
			case now < c.At:
			case now >= span.Returned:
				state = append(state, "returns")
			case c.Held > 0 && now >= span.Locked && now < span.Locked+c.Held:
				state = append(state, "holds")
			default:
				state = append(state, "waits")
			}
		}
		states = append(states, strings.Join(state, " "))
	}
	return events, states
}

// lockScripts are the cases that have a name.
func lockScripts() map[string][]string {
	return map[string][]string{
		"insert waits for delete":           {"insert x", "+delete x, insert x", "delete x"},
		"insert waits for delete, undone":   {"insert x", "-delete x, insert x", "delete x"},
		"insert waits for insert":           {"+insert x, insert x", "ready"},
		"insert waits for insert, undone":   {"-insert x, insert x", "ready"},
		"insert waits for claim":            {"insert x", "+ready, insert x"},
		"insert waits for reset":            {"insert x", "ready", "-reset x, insert x"},
		"ready skips ready":                 {"insert x/y", "+ready, ready", "reset x/y"},
		"ready skips ready, undone":         {"insert x/y", "-ready, ready", "ready"},
		"ready skips delete":                {"insert x/y", "+delete x, ready", "ready"},
		"ready skips delete, undone":        {"insert x/y", "-delete x, ready", "ready"},
		"ready skips reset":                 {"insert x", "ready", "+reset x, ready", "ready"},
		"ready goes past what it skips":     {"insert x/y/z", "+ready1, +ready1, ready1", "stuck"},
		"ready goes past a delete":          {"insert x/y", "+delete x, ready1", "ready"},
		"ready does not see insert":         {"+insert x, ready", "ready"},
		"reset waits for delete":            {"readied x", "+delete x, reset x"},
		"reset waits for delete, undone":    {"readied x", "-delete x, reset x", "ready"},
		"reset waits for reset":             {"readied x", "+reset x, reset x", "ready"},
		"reset of a claim that is old":      {"readied x", "reset x", "+ready, stuck", "reset x"},
		"delete waits for reset":            {"readied x", "+reset x, delete x"},
		"delete waits for reset, undone":    {"readied x", "-reset x, delete x"},
		"delete waits for claim":            {"insert x", "+ready, delete x"},
		"delete waits for claim, undone":    {"insert x", "-ready, delete x"},
		"delete waits for delete":           {"insert x", "+delete x, delete x"},
		"delete waits for delete, undone":   {"insert x", "-delete x, delete x"},
		"delete does not see insert":        {"insert x", "delete x", "+insert x, delete x"},
		"delete does not see what comes":    {"insert x", "delete x", "+delete x, again x"},
		"reset does not see what comes":     {"readied x", "reset x", "insert y", "+reset x/y, ready, stuck", "stuck"},
		"delete of another incarnation":     {"insert x", "delete x", "insert x", "+delete y, insert x, delete x"},
		"stuck does not see claim":          {"insert x", "+ready, stuck", "stuck"},
		"stuck does not see claim, undone":  {"insert x", "-ready, stuck", "stuck"},
		"stuck does not see insert":         {"+readied x, stuck", "stuck"},
		"stuck sees what is being deleted":  {"readied x", "+delete x, stuck", "stuck"},
		"stuck sees what is being reset":    {"readied x", "+reset x, stuck", "stuck"},
		"claims are stamped when made":      {"+readied x, readied y", "stuck"},
		"claims are stamped, committed":     {"insert x", "+ready, readied y", "stuck"},
		"duplicate takes a lock":            {"insert x", "+insert x, delete x, insert x"},
		"duplicate is looked up afterwards": {"insert x", "+insert x, delete x", "delete x"},
		"duplicate, and the row goes later": {"insert x", "+insert x, +delete x"},
		"duplicate, and another inserts":    {"insert x", "+insert x, delete x, +insert x", "delete x"},
		"duplicate, and another is undone":  {"insert x", "+insert x, delete x, -insert x", "delete x"},
		"part of a batch is a duplicate":    {"insert x", "+insert x/y, delete x, insert y", "delete x/y"},
		"part of a batch, undone":           {"insert x", "-insert x/y, delete x, insert y", "delete x/y"},
		"batch waits for a part":            {"insert x/y", "+delete y, delete x/y"},
		"batch waits for a part, undone":    {"insert x/y", "-delete y, insert x/y/z"},
		"one of a batch waits":              {"readied x/y/z", "+delete x/y, reset y/z", "ready"},
		"two wait for one":                  {"insert x/y", "ready", "+delete x/y, insert x, reset y", "ready"},
		"queue of inserts":                  {"+insert x, +insert y, insert x/y", "delete x/y"},
		"queue: delete, undone":             {"insert x", "-delete x, delete x, delete x"},
		"queue: delete, undone twice":       {"insert x", "-delete x, -delete x, delete x"},
		"queue: delete, undone, committed":  {"insert x", "-delete x, +delete x, delete x"},
		"queue: delete, reset, undone":      {"readied x", "-delete x, +reset x, delete x"},
		"queue: reset, delete, undone":      {"readied x", "-reset x, -delete x, reset x", "ready"},
		"queue: delete, delete, reset":      {"readied x", "+delete x, delete x, reset x"},
		"race: insert after delete":         {"insert x", "~+delete x, insert x, insert x", "delete x"},
		"race: insert after insert":         {"~+insert x, insert x, insert x", "delete x"},
		"race: insert after undone":         {"~-insert x, insert x, insert x", "delete x"},
		"race: insert after undone delete":  {"insert x", "~-delete x, insert x, insert x", "delete x"},
		"race: delete after reset":          {"readied x", "~+reset x, delete x, delete x"},
		"race: delete after claim":          {"insert x", "~+ready, delete x, delete x"},
		"race: reset after reset":           {"readied x", "~-reset x, reset x, reset x", "ready"},
	}
}

// TestRowLocks compares the row locks of the simulated store with those of Postgres, in rounds of up to three sessions:
// first the cases that have a name, then drawn ones. After every step it must be the same sessions that wait, that hold
// locks, and that have returned; and the results of all calls must be equal, and the rows in the end. All wait for
// what is locked until it is free: so each lock that there is shows, and each order in which they are granted.
// CHRONOS_DIFFERENTIAL_SEEDS is how many scripts of twenty rounds to draw, 6 unless it is set.
func TestRowLocks(t *testing.T) {
	seen := compareLocks(t, patience)
	for _, state := range []string{"waits", "holds", "returns"} {
		if seen[state] < 20 {
			t.Errorf("a session %s %d times only", state, seen[state])
		}
	}
}

// TestBusyRows is TestRowLocks with the time that calls of nodes wait for locks: whatever others hold for longer is
// left alone, and the call says so.
func TestBusyRows(t *testing.T) {
	seen := compareLocks(t, sim.LockWait)
	for _, state := range []string{"holds", "returns", "busy"} {
		if seen[state] < 20 {
			t.Errorf("a session %s %d times only", state, seen[state])
		}
	}
	if seen["waits"] > 0 {
		t.Errorf("a session waits %d times", seen["waits"])
	}
}

// compareLocks runs all scripts on both stores, whose calls wait for so long for what others have locked. It counts the
// states of sessions, and calls that have left something alone.
func compareLocks(t *testing.T, lockWait time.Duration) map[string]int {
	t.Helper()
	options := lockWait
	if lockWait == sim.LockWait {
		options = 0 // as long as the store waits unless it is told otherwise
	}
	sessions := openSessions(t, postgresOf(t), options)
	seen := map[string]int{}
	compare := func(t *testing.T, rounds []round) {
		t.Helper()
		sessions.t = t
		want := simulated(rounds, lockWait)
		got := sessions.run(rounds, want.events)
		for n, r := range rounds {
			if r.race {
				slices.Sort(want.results[n])
				slices.Sort(got.results[n])
			}
			for _, state := range got.states[n] {
				for word := range strings.FieldsSeq(state) {
					seen[word]++
				}
			}
			for i, result := range got.results[n] {
				if r.calls[i].leftAlone(result) {
					seen["busy"]++
				}
			}
			if !slices.Equal(got.states[n], want.states[n]) || !slices.Equal(got.results[n], want.results[n]) {
				t.Fatalf("round %d of %v: %v\nPostgres:  %q, results %q\nsimulated: %q, results %q",
					n, rounds, r, got.states[n], got.results[n], want.states[n], want.results[n])
			}
		}
		if !slices.Equal(got.rows, want.rows) {
			t.Errorf("%v\nPostgres:  %q\nsimulated: %q", rounds, got.rows, want.rows)
		}
	}
	for name, script := range lockScripts() {
		t.Run(name, func(t *testing.T) {
			var rounds []round
			for _, text := range script {
				rounds = append(rounds, parseRound(text))
			}
			compare(t, rounds)
		})
	}
	for seed := range uint64(seedsOf(t, 6)) {
		t.Run(fmt.Sprint("drawn ", seed), func(t *testing.T) { compare(t, drawScript(seed)) })
	}
	return seen
}

// drawScript draws twenty rounds.
func drawScript(seed uint64) (rounds []round) {
	random := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		r := drawRound(random)
		// Which of two goes first that wait for the same id is nobody's promise, so there is one only. A take that is
		// repeated may be about other ids than it is drawn for, and in a partition that one who waits has locked.
		if len(r.calls) == 3 {
			one, other := r.calls[1], r.calls[2]
			wait := mostWait(append(rounds, r))
			same := one.ids[0] == other.ids[0] || one.op == "again"
			if same && wait > 1 || other.op == "again" && wait > 0 {
				r.calls = r.calls[:2]
			}
		}
		rounds = append(rounds, r)
	}
	return rounds
}

// mostWait returns how many sessions wait at once in the last round, at most.
func mostWait(rounds []round) (most int) {
	run := simulated(rounds, patience)
	for _, state := range run.states[len(rounds)-1] {
		most = max(most, strings.Count(state, "waits"))
	}
	return most
}

// drawRound draws what two or three sessions do. Batches are for those who do not wait with a part of their locks while
// others want it: such a wait is not simulated, in which a batch takes all its locks at once.
func drawRound(random *rand.Rand) (r round) {
	ops := strings.Fields("insert insert insert readied again ready ready1 delete delete reset stuck")
	sessions := 2 + random.IntN(2)
	for i := range sessions {
		c := lockedOp{op: ops[random.IntN(len(ops))]}
		all := []string{"x", "y", "z"}
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		c.ids = all[:1]
		if i == 0 || sessions == 2 {
			c.ids = all[:1+random.IntN(2)]
		}
		switch {
		case c.op == "stuck" || c.op == "again": // they may write nothing that could be held
		case i == 0 || random.IntN(3) == 0:
			c.held = true
			c.undone = random.IntN(3) == 0
		}
		r.calls = append(r.calls, c)
	}
	return r
}
