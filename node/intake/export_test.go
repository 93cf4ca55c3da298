package intake

import "chronos/node"

// Entered is a request that is in the queue of an Intake, and gets no further by itself.
type Entered struct {
	intake *Intake
	asking *asking
}

// Enter begins what Ask does, as far as the queue: for a test in which its goroutine is slow from there on.
func (i *Intake) Enter(item node.Item) (Entered, error) {
	a, err := i.enter(item)
	return Entered{i, a}, err
}

// Done is closed when the request is answered.
func (e Entered) Done() <-chan struct{} { return e.asking.done }

// Pass is what Ask does when it is answered and has been asked to lead.
func (e Entered) Pass() { e.intake.pass() }
