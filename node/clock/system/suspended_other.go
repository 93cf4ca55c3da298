//go:build !linux

package system

import "time"

// suspended returns zero: nobody has taught it to ask this system. Whether Mono goes on in a suspension is then as Go's
// monotonic clock has it. Where that stands still, a node that wakes up takes what it had claimed for as young as when
// the machine fell asleep, and publishes it although others may have done so meanwhile: duplicates, and no loss.
func suspended() time.Duration { return 0 }
