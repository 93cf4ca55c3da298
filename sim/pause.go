package sim

import (
	"context"

	"chronos/node"
)

// side returns the side of the rows that people pause things by.
func (t *truth) side() node.Switches { return t.rows.(node.Switches) }

// pauses returns what is paused.
func (t *truth) pauses() []node.Pause {
	return must(t.side().Pauses(context.Background()))
}

// switches pauses or resumes a lane, or the intake.
func (t *truth) switches(lane string, paused bool) {
	ctx := context.Background()
	if !paused {
		if must(t.side().Resume(ctx, lane)) {
			t.tell(func() { t.server.world.recorder.resumed(lane) })
		}
		return
	}
	for _, p := range t.pauses() {
		if p.Lane == lane {
			return
		}
	}
	p := must(t.side().Pause(ctx, node.Pause{Lane: lane}))
	t.tell(func() { t.server.world.recorder.paused(p) })
}

// blind makes a call as if what ignored names were not paused.
func (t *truth) blind(ignored func(lane string) bool, call func()) {
	ctx := context.Background()
	for _, p := range t.pauses() {
		if ignored(p.Lane) {
			_ = must(t.side().Resume(ctx, p.Lane))
			defer func() { _ = must(t.side().Pause(ctx, p)) }()
		}
	}
	call()
}
