package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// snapshotting is a load, and what of the past a transaction keeps beside it.
type snapshotting struct {
	what  string
	rate  string
	held  bool
	dead  int // messages that came and went under the snapshot before
	lasts time.Duration
}

// anHour is how many messages come and go in an hour at 1,000 a second.
const anHour = 3_600_000

// measureSnapshot measures lateness while a transaction holds its snapshot open, so that nothing which is deleted can
// be cleared away: from its beginning, an hour later, and for ten minutes at ten times the rate.
func measureSnapshot(ctx context.Context, g *ground, t *table) error {
	t.head = append(lateHead("old snapshot, ms after the deadline"), "dead rows in the end")
	err := each(ctx, g, []snapshotting{
		{what: "none, 1,000 messages/s", rate: "1000", lasts: 2 * time.Minute},
		{what: "held for all of it, 1,000 messages/s", rate: "1000", held: true, lasts: 2 * time.Minute},
		{what: "held for an hour of 1,000 messages/s", rate: "1000", held: true, dead: anHour, lasts: time.Minute},
		{what: "none, 10,000 messages/s", rate: "10000", lasts: time.Minute},
		{what: "held for ten minutes of 10,000 messages/s", rate: "10000", held: true, lasts: 10 * time.Minute},
	}, one, func(s *site, c snapshotting) error {
		if err := s.start(ctx, 1); err != nil {
			return err
		}
		if !c.held {
			return s.beside(ctx, t, c)
		}
		return s.do(ctx, func(conn *pgx.Conn) error {
			tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
			if err != nil {
				return fmt.Errorf("begin the transaction that holds a snapshot: %w", err)
			}
			defer tx.Rollback(context.WithoutCancel(ctx)) //nolint:errcheck // it has changed nothing
			if _, err := tx.Exec(ctx, "SELECT count(*) FROM messages"); err != nil {
				return fmt.Errorf("take a snapshot: %w", err)
			}
			if err := s.comeAndGo(ctx, c.dead); err != nil {
				return err
			}
			return s.beside(ctx, t, c)
		})
	})
	t.plotLateness("old snapshot")
	return err
}

// beside measures the load of a row.
func (s *site) beside(ctx context.Context, t *table, c snapshotting) error {
	t.on("snapshot: %s", c.what)
	r, err := s.steady(ctx, t, c.lasts, "--rate", c.rate)
	if err != nil {
		return err
	}
	dead := 0
	if err := s.do(ctx, func(conn *pgx.Conn) error {
		const query = "SELECT coalesce(sum(n_dead_tup), 0)::bigint FROM pg_stat_user_tables"
		return conn.QueryRow(ctx, query).Scan(&dead)
	}); err != nil {
		return fmt.Errorf("count dead rows: %w", err)
	}
	t.add(append(lateRow(c.what, r), count(float64(dead)))...)
	return nil
}

// comeAndGo has messages come and go that nobody else sees, and that were due in the hour before: what they leave
// behind lies in the way of whoever looks for what is due.
func (s *site) comeAndGo(ctx context.Context, messages int) error {
	if messages == 0 {
		return nil
	}
	messages = s.messages(messages)
	s.say("%s messages come and go", count(float64(messages)))
	const step = 100_000
	for first := 1; first <= messages; first += step {
		if err := s.do(ctx, func(conn *pgx.Conn) error {
			return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
				last := min(first+step-1, messages)
				if _, err := tx.Exec(ctx, s.waiting(first, last, "- interval '1 hour'")); err != nil {
					return err
				}
				_, err := tx.Exec(ctx, "DELETE FROM messages AS m USING generate_series($1::int, $2) AS i "+
					"WHERE m.id = 'w-' || i AND m.lane = $3", first, last, s.routes[0][1])
				return err
			})
		}); err != nil {
			return fmt.Errorf("have messages come and go: %w", err)
		}
	}
	return nil
}
