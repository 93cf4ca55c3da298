package system

import "time"

// What the tests use from outside of the package.

const MinSuspension = minSuspension

// NewSuspended returns a Clock of a machine that was suspended for as long as suspended says.
func NewSuspended(suspended func() time.Duration) *Clock { return newClock(suspended) }

// Suspended returns for how long this machine was suspended.
func Suspended() time.Duration { return suspended() }
