package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"chronos/node"
)

var _ node.Switches = (*Store)(nil)

const (
	// pauseStatement returns no row where there is a pause already.
	pauseStatement = `
INSERT INTO pauses (lane, since, paused_by, reason) VALUES ($1::text, clock_timestamp(), $2::text, $3::text)
ON CONFLICT DO NOTHING`

	resumeStatement = "DELETE FROM pauses WHERE lane = $1::text RETURNING lane"

	pausesStatement = "SELECT lane, since, paused_by, reason FROM pauses WHERE lane >= '' ORDER BY lane"
)

// lanes are those that are paused, the intake under its empty name. nil is none.
type lanes map[string]bool

// step returns the statement that reads them.
func (l *lanes) step() step {
	return step{statement: pausedStatement, read: func(rows pgx.Rows) error {
		var lane string
		err := rows.Scan(&lane)
		(*l)[lane] = true
		return err
	}}
}

// without returns the list less those that are paused.
func (l *lanes) without(list []string) []string {
	if l == nil || len(*l) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(lane string) bool { return (*l)[lane] })
}

// Pause implements node.Switches. The commit waits for a synchronous standby even where nothing changes: somebody
// relies on the answer.
func (s *Store) Pause(ctx context.Context, pause node.Pause) (node.Pause, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	var found []node.Pause
	err := errors.New("no database has a lane of that name: it must be valid UTF-8 without a zero byte")
	if isText(pause.Lane) && isText(pause.By) && isText(pause.Why) {
		err = s.once(ctx, func() { found = nil },
			step{statement: pauseStatement, arguments: []any{pause.Lane, pause.By, pause.Why}},
			step{statement: confirmStatement},
			pausesStep(&found))
	}
	at := slices.IndexFunc(found, func(p node.Pause) bool { return p.Lane == pause.Lane })
	if err == nil && at < 0 {
		err = errors.New("somebody has resumed it at the same moment")
	}
	if err != nil {
		return node.Pause{}, fmt.Errorf("pause: %w", err)
	}
	return found[at], nil
}

// Resume implements node.Switches.
func (s *Store) Resume(ctx context.Context, lane string) (was bool, err error) {
	if !isText(lane) {
		return false, nil
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	err = s.once(ctx, func() { was = false },
		step{statement: resumeStatement, arguments: []any{lane}, read: func(pgx.Rows) error {
			was = true
			return nil
		}},
		step{statement: confirmStatement})
	if err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}
	return was, nil
}

// Pauses implements node.Switches. It is part of nearly all that people ask, by pages that are open all day, and so
// takes no connection that a claim may be waiting for.
func (s *Store) Pauses(ctx context.Context) (pauses []node.Pause, err error) {
	if err := s.ask(ctx, func() { pauses = nil }, pausesStep(&pauses)); err != nil {
		return nil, fmt.Errorf("look for what is paused: %w", err)
	}
	return pauses, nil
}

func pausesStep(pauses *[]node.Pause) step {
	return step{statement: pausesStatement, read: func(rows pgx.Rows) error {
		var p node.Pause
		err := rows.Scan(&p.Lane, &p.Since, &p.By, &p.Why)
		p.Since = p.Since.UTC()
		*pauses = append(*pauses, p)
		return err
	}}
}
