package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/sim/check"
)

// deadRows is how many rows a held snapshot keeps that nobody else sees, where the machine makes them within 40 s:
// as many as an hour at 250 a second leaves behind, or a quarter of an hour at 1,000. With fewer than fewRows a run
// shows nothing.
const (
	deadRows = 900_000
	fewRows  = deadRows / 4
)

// snapshotScenarios are about a transaction that keeps every row that was ever deleted.
func snapshotScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{{
		Name: "held-snapshot",
		About: fmt.Sprintf("A snapshot is held open while messages come and fire, and %d dead rows pile up. Firing "+
			"stays above half of what comes due.", deadRows),
		Servers: true, Outside: true,
		Rate:    300,
		draw:    func(n *nemesis) { n.holdSnapshot(3*s, 20*s) },
		demands: []demand{keptUp},
	}}
}

// The marks of the time in which all dead rows are there, and somebody still sees them.
const (
	theDead    = "the dead rows are there"
	theRelease = "the snapshot ends"
)

// holdSnapshot keeps a snapshot open and leaves dead rows behind as the engine does, only faster: rows like those that
// wait, which are due before them, are inserted and deleted. An index still leads to each of them, and whoever looks
// for what is due comes across them all. The fault lasts for so long with all of them there.
func (n *nemesis) holdSnapshot(at, lasts time.Duration) {
	const (
		batch   = 100_000
		longest = 40 * time.Second // then there are fewer dead rows, as the count says
	)
	var conn *pgx.Conn
	n.add(fault{
		at: at, lasts: lasts, text: fmt.Sprintf("a snapshot is held open, and %d rows come and go", deadRows),
		strike: func(ctx context.Context) error {
			var err error
			if conn, err = n.cluster.postgres.now().Connect(ctx); err != nil {
				return err
			}
			if _, err = conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ"); err != nil {
				return err
			}
			if _, err = conn.Exec(ctx, "SELECT count(*) FROM "+table); err != nil {
				return err
			}
			begin := time.Now()
			for i := 0; i < deadRows/batch && time.Since(begin) < longest; i++ {
				if err := n.cluster.postgres.now().Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
					return comeAndGone(ctx, conn, fmt.Sprintf("dead-%d-", i), batch)
				}); err != nil {
					return err
				}
			}
			n.mark(theDead)
			return nil
		},
		mend: func(ctx context.Context) error {
			n.mark(theRelease)
			dead, err := n.deadRows(ctx)
			n.count("dead rows that the snapshot keeps", dead)
			if conn == nil {
				return err
			}
			return errors.Join(err, conn.Close(ctx)) // which rolls it back
		},
	})
}

// comeAndGone inserts copies of a row that waits, and deletes them. Their ids begin with a prefix of their own, so that
// the delete does not wade through those that came before. Of the columns it knows only those that it has to change.
func comeAndGone(ctx context.Context, conn *pgx.Conn, prefix string, many int) error {
	rows, err := conn.Query(ctx, `SELECT quote_ident(attname) FROM pg_attribute
		WHERE attrelid = '`+table+`'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`)
	if err != nil {
		return fmt.Errorf("look for the columns: %w", err)
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("look for the columns: %w", err)
	}
	changed := map[string]string{
		"id":          "'" + prefix + "' || number",
		"incarnation": "gen_random_uuid()",
		"due_at":      "one.due_at - interval '1 hour' + number * interval '1 millisecond'",
	}
	for i, name := range columns {
		columns[i] = cmp.Or(changed[name], "one."+name)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it was committed, or the session is over
	if _, err := tx.Exec(ctx, fmt.Sprintf(`INSERT INTO %s SELECT %s FROM generate_series(1, %d) AS number,
		(SELECT * FROM %s WHERE readied_by IS NULL ORDER BY due_at DESC LIMIT 1) AS one`,
		table, strings.Join(columns, ", "), many, table)); err != nil {
		return fmt.Errorf("make rows: %w", err)
	}
	if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE id LIKE '"+prefix+"%'"); err != nil {
		return fmt.Errorf("delete rows: %w", err)
	}
	return tx.Commit(ctx)
}

// deadRows counts what a vacuum would find and may not remove.
func (n *nemesis) deadRows(ctx context.Context) (int, error) {
	dead := 0
	err := n.cluster.postgres.now().Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		const query = "SELECT coalesce(sum(n_dead_tup), 0) FROM pg_stat_user_tables"
		return conn.QueryRow(ctx, query).Scan(&dead)
	})
	return dead, err
}

// keptUp demands that at least half of what came due while the dead rows were there has fired in that time.
func keptUp(r *run, _ *Result) string {
	since, until := r.nemesis.marks[theDead], r.nemesis.marks[theRelease]
	due, fired := 0, 0
	for i := range r.events {
		switch e := &r.events[i]; {
		case e.Kind == check.Submit && e.Flaw == "":
			if at := max(e.Deadline, e.At); at >= since && at < until {
				due++
			}
		case e.Kind == check.Fire && e.At >= since && e.At < until:
			fired++
		}
	}
	r.say("beside %d dead rows, %d messages came due in %v, and %d fired",
		r.nemesis.counts["dead rows that the snapshot keeps"], due, (until - since).Round(time.Second), fired)
	switch {
	case r.nemesis.counts["dead rows that the snapshot keeps"] < fewRows:
		return "there are hardly any dead rows: that shows nothing"
	case until-since < 10*time.Second:
		return fmt.Sprintf("the dead rows were there for %v only: that shows nothing", until-since)
	case fired < due/2:
		return fmt.Sprintf("%d of %d messages fired in time beside the dead rows: less than half", fired, due)
	}
	return ""
}
