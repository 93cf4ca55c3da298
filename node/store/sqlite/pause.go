package sqlite

import (
	"context"
	"errors"
	"fmt"

	"chronos/node"
)

var _ node.Switches = (*Store)(nil)

// paused reports whether a lane, or the intake, is paused.
func (t *transaction) paused(ctx context.Context, lane string) (paused bool, err error) {
	err = t.row(ctx, t.statements.isPaused, lane).Scan(&paused)
	return paused, err
}

// Pause implements node.Switches.
func (s *Store) Pause(ctx context.Context, pause node.Pause) (inForce node.Pause, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		err := t.execute(t.statements.pause, pause.Lane, t.now.UnixMicro(), pause.By, pause.Why)
		if err != nil {
			return err
		}
		all, err := t.pauses(ctx)
		for _, one := range all {
			if one.Lane == pause.Lane {
				inForce = one
			}
		}
		return err
	})
	if err != nil {
		return node.Pause{}, fmt.Errorf("pause: %w", err)
	}
	return inForce, nil
}

// Resume implements node.Switches.
func (s *Store) Resume(ctx context.Context, lane string) (was bool, err error) {
	err = s.transact(ctx, func(ctx context.Context, t *transaction) error {
		was, err = changes(t.use(ctx, t.statements.resume), lane)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("resume: %w", err)
	}
	return was, nil
}

// Pauses implements node.Switches.
func (s *Store) Pauses(ctx context.Context) (pauses []node.Pause, err error) {
	err = s.lookAt(ctx, func(ctx context.Context, t *transaction) error {
		pauses, err = t.pauses(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for what is paused: %w", err)
	}
	return pauses, nil
}

func (t *transaction) pauses(ctx context.Context) (pauses []node.Pause, err error) {
	statement := t.use(ctx, t.statements.pauses) //nolint:sqlclosecheck // the transaction does it
	rows, err := statement.QueryContext(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p node.Pause
		var since int64
		if err := rows.Scan(&p.Lane, &since, &p.By, &p.Why); err != nil {
			return nil, err
		}
		p.Since = fromColumn(since)
		pauses = append(pauses, p)
	}
	return pauses, rows.Err()
}
