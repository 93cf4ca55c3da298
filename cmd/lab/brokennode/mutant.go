package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/node"
)

// mutated puts something broken between the engine and its ports: what CHAOS_MUTANT names. chaos/mutants.go tells what
// each is, and which scenario catches it.
func mutated(config node.Config, store node.Store, broker node.Broker) (node.Store, node.Broker, error) {
	m := &mutant{Store: store, Broker: broker, config: config, claims: map[string]node.Claim{}}
	switch name := os.Getenv("CHAOS_MUTANT"); name {
	case "":
		return store, broker, nil
	case "commit-first":
		return store, commitFirst{broker}, nil
	case "delete-before-ack":
		return m, deleteBeforeAck{m}, nil
	case "delete-by-id":
		return deleteByID{store}, broker, nil
	case "delete-if-claimed":
		return deleteIfClaimed{m}, slowPublish{broker, config.HoldTime}, nil
	case "slow-publish": // what delete-if-claimed stands on, to be seen to pass
		return store, slowPublish{broker, config.HoldTime}, nil
	case "stuck-inverted":
		return stuckInverted{store}, broker, nil
	case "timeout-is-success":
		return store, timeoutIsSuccess{broker}, nil
	default:
		return nil, nil, fmt.Errorf("there is no mutant %q", name)
	}
}

// mutant remembers the claims that the node was given, by what only the message has: its headers.
type mutant struct {
	node.Store
	node.Broker

	config node.Config
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

// Insert remembers what is claimed from the start.
func (m *mutant) Insert(ctx context.Context, in node.InsertRequest) ([]node.InsertResult, error) {
	results, err := m.Store.Insert(ctx, in)
	for i := range results {
		m.remember(in.Messages[i].Headers, results[i].Claim)
	}
	return results, err
}

// Ready remembers the claims.
func (m *mutant) Ready(ctx context.Context, in node.ReadyRequest) ([]node.Readied, error) {
	claimed, err := m.Store.Ready(ctx, in)
	for i := range claimed {
		m.remember(claimed[i].Headers, claimed[i].Claim)
	}
	return claimed, err
}

// commitFirst commits what it has polled before anything is done about it.
type commitFirst struct{ node.Broker }

func (b commitFirst) Poll(ctx context.Context) ([]node.Record, error) {
	records, err := b.Broker.Poll(ctx)
	if err == nil && len(records) > 0 {
		_ = b.Commit(ctx, records) // broken on purpose
	}
	return records, err
}

// deleteBeforeAck deletes what it is about to publish.
type deleteBeforeAck struct{ *mutant }

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
		_, _ = b.Delete(ctx, refs) // broken on purpose
	}
	return b.Broker.Publish(ctx, records)
}

// deleteByID deletes whatever has the id now.
type deleteByID struct{ node.Store }

func (s deleteByID) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = ref.ID
	}
	conn, err := pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to be said
	if _, err := conn.Exec(ctx, "DELETE FROM hanger WHERE id = ANY ($1)", ids); err != nil {
		return nil, err
	}
	deleted := make([]bool, len(refs))
	for i := range deleted {
		deleted[i] = true
	}
	return deleted, nil
}

// deleteIfClaimed deletes only under the claim that the node was given.
type deleteIfClaimed struct{ *mutant }

func (s deleteIfClaimed) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	conn, err := pgx.Connect(ctx, os.Getenv("CHRONOS_STORE"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // nothing is left to be said
	s.mu.Lock()
	defer s.mu.Unlock()
	deleted := make([]bool, len(refs))
	for i, ref := range refs {
		for _, claim := range s.claims {
			if claim.Ref != ref {
				continue
			}
			// The first three arguments are those of a delete as it should be.
			tag, err := conn.Exec(ctx, `
DELETE FROM hanger WHERE (id, topic, incarnation, readied_by, readied_at) IN (
  SELECT * FROM unnest($1::text[], $2::text[], $3::uuid[], $4::uuid[], $5::timestamptz[])
)`, []string{ref.ID}, []string{ref.Topic}, [][16]byte{ref.Incarnation}, [][16]byte{claim.ReadiedBy},
				[]time.Time{claim.ReadiedAt})
			if err != nil {
				return nil, err
			}
			deleted[i] = tag.RowsAffected() > 0
		}
	}
	return deleted, nil
}

// slowPublish hears of every acknowledgement after the hold time.
type slowPublish struct {
	node.Broker

	hold time.Duration
}

func (b slowPublish) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Broker.Publish(ctx, records)
	time.Sleep(b.hold + time.Second)
	return errs
}

// stuckInverted suspects claims that are younger than the hold time, as the published original does.
type stuckInverted struct{ node.Store }

func (s stuckInverted) Stuck(ctx context.Context, in node.StuckRequest) ([]node.Claim, error) {
	in.Hold = 0
	return s.Store.Stuck(ctx, in)
}

// timeoutIsSuccess takes a publish of unknown outcome for done.
type timeoutIsSuccess struct{ node.Broker }

func (b timeoutIsSuccess) Publish(ctx context.Context, records []node.Record) []error {
	errs := b.Broker.Publish(ctx, records)
	for i, err := range errs {
		if err != nil && !errors.Is(err, node.ErrRejected) && !errors.Is(err, node.ErrNoTopic) {
			errs[i] = nil
		}
	}
	return errs
}
