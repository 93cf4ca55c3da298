package queue

import (
	"math"
	"strings"
	"time"
)

// Check refuses a queue that can never be one: an error says why. It changes nothing.
func (q *Queue) Check() error {
	c := q.Clone()
	if err := c.normalise(time.Time{}); err != nil {
		return err
	}
	if q.Pending < 0 || q.Running < 0 {
		return refuse(Invalid, "A queue has %d pending and %d running tasks.", q.Pending, q.Running)
	}
	return nil
}

// Check refuses an action that can never be one: an error says why. It changes nothing.
func (a *Action) Check() error {
	c := a.Clone()
	return c.check()
}

// Check refuses a task that can never be one, or never be in the state that it is in: an error says why. It changes
// nothing.
func (t *Task) Check() error {
	c := t.Clone()
	if err := c.normalise(); err != nil {
		return err
	}
	for _, at := range []time.Time{t.Arrived, t.Started, t.Ended} {
		if at.Year() < 1 || at.Year() > 9999 {
			return refuse(Invalid, "A task has an instant in the year %d, which is not 1 to 9999.", at.Year())
		}
	}
	fates := strings.Trim(t.Fates, string(FateOpen)+string(FateDone)+string(FateBroken))
	switch {
	case t.Status != Pending && t.Status != Running && t.Status != Complete && t.Status != Failure &&
		t.Status != PartiallyFailed && t.Status != Deleted:
		return refuse(Invalid, "A task has the status %.100q, which is none.", t.Status)
	case fates != "" || len(t.Fates) != len(t.Promise):
		return refuse(Invalid, "A task has %d actions to run when it is completed, and the fates %.100q.",
			len(t.Promise), t.Fates)
	case t.Arrival < 0 || t.Arrival == math.MaxInt64:
		return refuse(Invalid, "The place %d of a task in its queue is none.", t.Arrival)
	}
	return nil
}
