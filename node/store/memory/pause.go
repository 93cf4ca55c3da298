package memory

import (
	"context"
	"maps"
	"slices"

	"chronos/node"
)

var _ node.Switches = (*Store)(nil)

// paused reports whether a lane, or the intake, is paused.
func (in *intake) paused(lane string) bool {
	_, paused := in.pauses[lane]
	return paused
}

// Pause implements node.Switches.
func (s *Store) Pause(ctx context.Context, pause node.Pause) (node.Pause, error) {
	if err := ctx.Err(); err != nil {
		return node.Pause{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	if !s.intake.paused(pause.Lane) {
		pause.Since = instant(s.now())
		s.intake.pauses[pause.Lane] = pause
	}
	return s.intake.pauses[pause.Lane], nil
}

// Resume implements node.Switches.
func (s *Store) Resume(ctx context.Context, lane string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	was := s.intake.paused(lane)
	delete(s.intake.pauses, lane)
	return was, nil
}

// Pauses implements node.Switches.
func (s *Store) Pauses(ctx context.Context) ([]node.Pause, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	var pauses []node.Pause
	for _, lane := range slices.Sorted(maps.Keys(s.intake.pauses)) {
		pauses = append(pauses, s.intake.pauses[lane])
	}
	return pauses, nil
}
