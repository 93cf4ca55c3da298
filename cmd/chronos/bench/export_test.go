package bench

import "time"

// StateBytes returns how many bytes of state a run has for the messages of a load.
func StateBytes(load *Load) int { return len(newLedger(NewPlan(load, time.Unix(0, 0))).state) }

// FillLedger has each message of a plan sent and acknowledged, and one of them come.
func FillLedger(plan *Plan, arrival *Arrival) {
	l := newLedger(plan)
	for i := range plan.Messages() {
		l.submit(i, l.start, false)
		l.answer(i, l.start, l.start, nil)
	}
	l.arrive([]Arrival{*arrival})
}

// Arriving returns what notes arrivals in a ledger of its own.
func Arriving(plan *Plan) func([]Arrival) { return newLedger(plan).arrive }
