package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/node"
)

// mutated puts something broken between the engine and its ports: what CHAOS_MUTANT names. chaos/mutants.go tells what
// each is, and which scenario catches it.
func mutated(config node.Config, ports node.Ports) (node.Ports, error) {
	m := &mutant{Store: ports.Store, claims: map[string]node.Claim{}}
	switch name := os.Getenv("CHAOS_MUTANT"); name {
	case "":
	case "last-passed-over":
		ports.Store = lastPassedOver{ports.Store}
	case "delete-before-ack":
		ports.Store, ports.Sink = m, deleteBeforeAck{ports.Sink, m}
	case "delete-by-id":
		ports.Store = deleteByID{ports.Store}
	case "delete-if-claimed":
		ports.Store, ports.Sink = deleteIfClaimed{m}, slowPublish{ports.Sink, config.HoldTime}
	case "slow-publish": // what delete-if-claimed stands on, to be seen to pass
		ports.Sink = slowPublish{ports.Sink, config.HoldTime}
	case "expired-inverted":
		ports.Store = expiredInverted{ports.Store}
	case "timeout-is-success":
		ports.Sink = timeoutIsSuccess{ports.Sink}
	case "positions-from-memory":
		ports.Store = &positionsFromMemory{Store: ports.Store, known: map[node.Partition]node.Position{}}
	case "epochs-unseen":
		ports.Source = epochsUnseen{ports.Source}
	case "failure-of-all":
		ports.Sink = &failureOfAll{Sink: ports.Sink}
	case "waits-for-locks":
		ports.Store = waitsForLocks{ports.Store, config.StoreTimeout()}
	case "lanes-take-turns":
		ports.Store = &lanesTakeTurns{Store: ports.Store}
	case "longest-hold":
		ports.Store = longestHold{ports.Store}
	case "call-settled-first":
		ports.Store, ports.Callback = m, deleteBeforeAck{ports.Callback, m}
	case "call-refused-is-success":
		ports.Callback = refusedIsSuccess{ports.Callback}
	case "call-given-up-early":
		ports.Callback = givenUpEarly{ports.Callback}
	case "call-given-up-for-nothing":
		ports.Callback = givenUpForNothing{ports.Callback}
	case "calls-one-at-a-time":
		ports.Callback = &oneAtATime{Sink: ports.Callback}
	case "settled-apart":
		ports.Settling = nil // the engine publishes by the sink, and then has the store settle
	case "sent-apart":
		ports.Settling = sentApart{ports.Settling, ports.Sink}
	case unfenced: // main has broken the store
	case "requests-forgotten":
		go forgetRequests(context.Background()) // as long as the process lives
	default:
		return ports, fmt.Errorf("there is no mutant %q", name)
	}
	return ports, nil
}

// epochsUnseen takes all records for ones of the first leader, so that the store goes by offsets alone: what has taken
// the place of records that Kafka has lost is thought to have been taken in.
type epochsUnseen struct{ node.Source }

func (s epochsUnseen) Poll(ctx context.Context) (node.Batch, error) {
	b, err := s.Source.Poll(ctx)
	for i := range b.Records {
		b.Records[i].LeaderEpoch = 0
	}
	for i := range b.Moved {
		b.Moved[i].Epoch = 0
	}
	return b, err
}

// mutant remembers the claims that the node was given, by what only the message has: its headers.
type mutant struct {
	node.Store

	mu     sync.Mutex
	claims map[string]node.Claim
}

// name names a message by the header in which the suite numbers its submissions.
func name(headers []node.Header) string {
	for _, h := range headers {
		if h.Name == "n" {
			return string(h.Value)
		}
	}
	return ""
}

func (m *mutant) remember(headers []node.Header, claim node.Claim) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if claim.Incarnation != [16]byte{} {
		m.claims[name(headers)] = claim
	}
}

// Take remembers what is claimed from the start.
func (m *mutant) Take(ctx context.Context, in node.TakeRequest) (node.TakeResult, error) {
	result, err := m.Store.Take(ctx, in)
	for i, one := range result.Results {
		m.remember(in.Items[i].Headers, one.Claim)
	}
	return result, err
}

// Claim remembers the claims.
func (m *mutant) Claim(ctx context.Context, in node.ClaimRequest) (node.ClaimResult, error) {
	result, err := m.Store.Claim(ctx, in)
	for i := range result.Messages {
		m.remember(result.Messages[i].Headers, result.Messages[i].Claim)
	}
	return result, err
}

// lastPassedOver moves the position behind the last record of each take, and stores the others.
type lastPassedOver struct{ node.Store }

func (s lastPassedOver) Take(ctx context.Context, in node.TakeRequest) (node.TakeResult, error) {
	in.Items = slices.Clone(in.Items)
	if last := len(in.Items) - 1; last >= 0 {
		in.Items[last].Action = node.Pass
	}
	return s.Store.Take(ctx, in)
}

// deleteBeforeAck deletes what it is about to publish.
type deleteBeforeAck struct {
	node.Sink

	*mutant
}

func (b deleteBeforeAck) Publish(ctx context.Context, records []node.Record) []error {
	var refs []node.Ref
	b.mu.Lock()
	for i := range records {
		if claim, known := b.claims[name(records[i].Headers)]; known {
			refs = append(refs, claim.Ref)
		}
	}
	b.mu.Unlock()
	if len(refs) > 0 {
		_, _ = b.Settle(ctx, node.Removals(refs...)) // broken on purpose
	}
	return b.Sink.Publish(ctx, records)
}

// deleteByID deletes whatever has the id now.
type deleteByID struct{ node.Store }

func (s deleteByID) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	if !removesAll(next) {
		return s.Store.Settle(ctx, next)
	}
	ids := make([]string, len(next))
	for i := range next {
		ids[i] = next[i].Of.ID
	}
	conn, err := pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to be said
	if _, err := conn.Exec(ctx, "DELETE FROM messages WHERE id = ANY ($1)", ids); err != nil {
		return nil, err
	}
	settled := make([]node.Settled, len(next))
	for i := range settled {
		settled[i] = node.Removed
	}
	return settled, nil
}

// removesAll reports whether nothing recurs.
func removesAll(next []node.Next) bool {
	return !slices.ContainsFunc(next, func(n node.Next) bool { return !n.Removes() })
}

// deleteIfClaimed deletes only under the claim that the node was given.
type deleteIfClaimed struct{ *mutant }

func (s deleteIfClaimed) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	if !removesAll(next) {
		return s.mutant.Settle(ctx, next)
	}
	conn, err := pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to be said
	s.mu.Lock()
	defer s.mu.Unlock()
	settled := make([]node.Settled, len(next))
	for i := range next {
		ref := next[i].Of
		for _, claim := range s.claims {
			if claim.Ref != ref {
				continue
			}
			// The first three arguments are those of a delete as it should be.
			tag, err := conn.Exec(ctx, `
DELETE FROM messages WHERE (id, lane, incarnation, readied_by, readied_at) IN (
  SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::timestamptz[])
)`, []string{ref.ID}, []string{ref.Lane}, [][16]byte{ref.Incarnation}, [][16]byte{claim.ReadiedBy},
				[]time.Time{claim.ReadiedAt})
			if err != nil {
				return nil, err
			}
			if tag.RowsAffected() > 0 {
				settled[i] = node.Removed
			}
		}
	}
	return settled, nil
}

// slowPublish hears of every acknowledgement after the hold time.
type slowPublish struct {
	node.Sink

	hold time.Duration
}

func (b slowPublish) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Sink.Publish(ctx, records)
	time.Sleep(b.hold + time.Second)
	return errs
}

// expiredInverted suspects claims that are younger than the hold time, as the published original does.
type expiredInverted struct{ node.Store }

func (expiredInverted) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	conn, err := pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to be said
	rows, err := conn.Query(ctx, `
SELECT id, lane, incarnation, readied_at, readied_by, expires_at FROM messages
WHERE readied_at IS NOT NULL AND expires_at > clock_timestamp() LIMIT $1`, limit)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (c node.Claim, err error) {
		err = row.Scan(&c.ID, &c.Lane, &c.Incarnation, &c.ReadiedAt, &c.ReadiedBy, &c.Expires)
		return c, err
	})
}

// timeoutIsSuccess takes a publish of unknown outcome for done.
type timeoutIsSuccess struct{ node.Sink }

func (b timeoutIsSuccess) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Sink.Publish(ctx, records)
	for i, err := range errs {
		known := node.KindOf(err).Permanent() || node.KindOf(err).Untried()
		if !known {
			errs[i] = nil
		}
	}
	return errs
}

// positionsFromMemory believes itself how far partitions have been taken in, also where the store was set back. It
// begins no lineage, and takes in on top of whatever the store has.
type positionsFromMemory struct {
	node.Store

	mu    sync.Mutex
	known map[node.Partition]node.Position
}

func (s *positionsFromMemory) Positions(ctx context.Context, places []node.Place) (
	[]node.Position, node.State, error,
) {
	positions, state, err := s.Store.Positions(ctx, places)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range positions {
		if known, is := s.known[places[i].Partition]; is && known.Above(positions[i]) {
			positions[i] = known
		}
	}
	return positions, node.State{Lineage: state.Lineage}, err
}

func (s *positionsFromMemory) Take(ctx context.Context, in node.TakeRequest) (node.TakeResult, error) {
	result, err := s.Store.Take(ctx, in)
	if err == nil && slices.Contains(result.Refused, true) {
		in.From = slices.Clone(in.From)
		for i, refused := range result.Refused {
			if refused {
				in.From[i].Position = result.Positions[i]
			}
		}
		result, err = s.Store.Take(ctx, in)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, position := range result.Positions {
		s.known[in.From[i].Partition] = position
	}
	return result, err
}

func (s *positionsFromMemory) CatchUp(context.Context, node.CatchUpRequest) (node.State, error) {
	return node.State{Lineage: 1}, nil
}

// failureOfAll sends nothing for a while, on whichever lane, after something could not be published on one of them.
type failureOfAll struct {
	node.Sink

	mu    sync.Mutex
	until time.Time
}

func (b *failureOfAll) Publish(ctx context.Context, records []node.Record) []error {
	const while = 2 * time.Second
	b.mu.Lock()
	off := time.Now().Before(b.until)
	b.mu.Unlock()
	if off {
		return slices.Repeat([]error{node.NotSent}, len(records))
	}
	errs := b.Sink.Publish(ctx, records)
	for _, err := range errs {
		if err != nil && node.KindOf(err) != node.RecordRejected {
			b.mu.Lock()
			b.until = time.Now().Add(while)
			b.mu.Unlock()
		}
	}
	return errs
}

// waitsForLocks waits for whatever somebody else has locked, and fails a call as a whole where that takes too long.
type waitsForLocks struct {
	node.Store

	limit time.Duration
}

// wait waits until nobody else has any of the rows locked.
func (s waitsForLocks) wait(ctx context.Context, ids, lanes []string) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // nothing is left to be said
	_, err = conn.Exec(ctx, `SELECT FROM messages WHERE (id, lane) IN (SELECT * FROM unnest($1::text[], $2::text[]))
ORDER BY id, lane FOR UPDATE`, ids, lanes)
	return err
}

func (s waitsForLocks) Take(ctx context.Context, in node.TakeRequest) (node.TakeResult, error) {
	var ids, lanes []string
	for i := range in.Items {
		ids, lanes = append(ids, in.Items[i].ID), append(lanes, in.Items[i].Lane)
	}
	if err := s.wait(ctx, ids, lanes); err != nil {
		return node.TakeResult{}, err
	}
	return s.Store.Take(ctx, in)
}

func (s waitsForLocks) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	var ids, lanes []string
	for i := range next {
		ids, lanes = append(ids, next[i].Of.ID), append(lanes, next[i].Of.Lane)
	}
	if err := s.wait(ctx, ids, lanes); err != nil {
		return nil, err
	}
	return s.Store.Settle(ctx, next)
}

func (s waitsForLocks) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	var ids, lanes []string
	for i := range releases {
		ids, lanes = append(ids, releases[i].ID), append(lanes, releases[i].Lane)
	}
	if err := s.wait(ctx, ids, lanes); err != nil {
		return nil, err
	}
	return s.Store.Reset(ctx, releases)
}

// lanesTakeTurns claims on one lane at a time for a while after a claim has failed.
type lanesTakeTurns struct {
	node.Store

	mu    sync.Mutex
	until time.Time
	turn  int
}

func (s *lanesTakeTurns) Claim(ctx context.Context, in node.ClaimRequest) (node.ClaimResult, error) {
	const while = 50 * time.Second
	s.mu.Lock()
	if time.Now().Before(s.until) && len(in.Lanes) > 0 {
		s.turn++
		at := s.turn % len(in.Lanes)
		in.Lanes = in.Lanes[at : at+1]
	}
	s.mu.Unlock()
	result, err := s.Store.Claim(ctx, in)
	if err != nil {
		s.mu.Lock()
		s.until = time.Now().Add(while)
		s.mu.Unlock()
	}
	return result, err
}

// longestHold has all lanes wait in a new lineage for what may be under way on callback lanes.
type longestHold struct{ node.Store }

func (s longestHold) CatchUp(ctx context.Context, in node.CatchUpRequest) (node.State, error) {
	in.Hold, in.Calls = in.Hold+in.Calls, 0
	return s.Store.CatchUp(ctx, in)
}

// refusedIsSuccess takes any answer to a callback for a good one.
type refusedIsSuccess struct{ node.Sink }

func (b refusedIsSuccess) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Sink.Publish(ctx, records)
	for i, err := range errs {
		if !node.KindOf(err).Untried() {
			errs[i] = nil
		}
	}
	return errs
}

// givenUpEarly takes any failure of a callback for the last.
type givenUpEarly struct{ node.Sink }

func (b givenUpEarly) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Sink.Publish(ctx, records)
	for i, err := range errs {
		if err != nil && !node.KindOf(err).Untried() {
			errs[i] = &node.PublishError{Kind: node.RecordRejected, Err: err}
		}
	}
	return errs
}

// givenUpForNothing settles callbacks that are given up as if they had been made, so that there is no dead letter.
type givenUpForNothing struct{ node.Sink }

func (b givenUpForNothing) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Sink.Publish(ctx, records)
	for i, err := range errs {
		if node.KindOf(err) == node.RecordRejected {
			errs[i] = nil
		}
	}
	return errs
}

// oneAtATime makes one callback after the other, so that all wait for a host that hangs.
type oneAtATime struct {
	node.Sink

	mu sync.Mutex
}

func (b *oneAtATime) Publish(ctx context.Context, records []node.Record) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Sink.Publish(ctx, records)
}

// unfenced has each process write the journal under transactional ids of its own, so that nobody is fenced by the next
// owner of a partition.
const unfenced = "unfenced"

// sentApart publishes by the sink what a transaction could not send, and leaves it where it is.
type sentApart struct {
	node.Settling

	sink node.Sink
}

func (b sentApart) Fire(ctx context.Context, records []node.Record, next []node.Next) ([]node.Settled, []error) {
	settled, errs := b.Settling.Fire(ctx, records, next)
	var failed []node.Record
	for i, err := range errs {
		known := node.KindOf(err).Permanent() || node.KindOf(err) == node.MessageGone
		if err != nil && !known {
			failed = append(failed, records[i])
		}
	}
	if len(failed) > 0 {
		_ = b.sink.Publish(ctx, failed) // broken on purpose
	}
	return settled, errs
}

// forgetRequests deletes all the time what requests of the HTTP API were answered, so that one that comes again is
// decided on anew. The API does not use the engine's ports.
func forgetRequests(ctx context.Context) {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	var conn *pgx.Conn
	for range again.C {
		var err error
		if conn == nil || conn.IsClosed() {
			conn, err = pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
		}
		if err == nil {
			_, _ = conn.Exec(ctx, "DELETE FROM answers") // the server may be away: it is tried again
		}
	}
}
