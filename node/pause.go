package node

import (
	"context"
	"time"
)

// Pause is something that somebody has stopped, and wants to stay stopped until it is resumed: a lane, on which nothing
// is claimed and so nothing comes out, or the intake, by which nothing is taken in from any topic. It is kept in the
// store, which minds it in every call (see Store.Claim and Store.Take), so that no node can be behind.
type Pause struct {
	// Lane is the lane, or Intake.
	Lane string

	// Since is when it was paused, by the store's clock; Switches.Pause does not look at it.
	Since time.Time

	// By and Why are for people: who has paused it, and what for.
	By, Why string
}

// Intake is the Lane of a Pause that is not of a lane but of the intake. No lane has an empty name.
const Intake = ""

// Switches is the side of a store that people pause and resume things by. The engine does not use it.
//
// When a call has returned, every claim and every take that begins after that minds it. One that is under way may have
// been decided before: its claims, and those that nodes hold already, may still come out, within PublishableAge and one
// publish at most.
type Switches interface {
	// Pause pauses what pause names, and returns the pause that is in force after the call. What is paused already
	// keeps its pause, and the first one who paused it.
	Pause(ctx context.Context, pause Pause) (Pause, error)

	// Resume ends the pause of a lane, or of the intake, and reports whether there was one.
	Resume(ctx context.Context, lane string) (bool, error)

	// Pauses returns what is paused, in the order of the lanes; the intake comes first.
	Pauses(ctx context.Context) ([]Pause, error)
}
