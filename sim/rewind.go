package sim

import (
	"context"

	"chronos/node"
)

// rewind is a Store.CatchUp by a person, who has records taken in again. No fault strikes it, as none does a pause.
type rewind struct {
	simple

	request node.CatchUpRequest
}

func (e *rewind) apply(rows node.Store) {
	_ = must(rows.CatchUp(context.Background(), e.request))
}

// takeAgain lowers the position of a partition of an input topic by so many records, or to the first that there is, as
// service.Operator does: in a new lineage, with the ends of all logs as marks, and with the leader epoch of the record
// before, which is not above that of the position.
func (s *storeServer) takeAgain(number int, records int64) {
	w := s.world
	p := which(w.broker.input, number)
	position, known := s.truth.places[p.id()]
	to := min(max(position.Offset-records, p.base), p.endOf(position.Epoch))
	if !known || to >= position.Offset {
		return
	}
	config := w.options.config([32]byte{}, w.edition)
	lineage := s.truth.lineage()
	e := &rewind{request: node.CatchUpRequest{
		Lineage: lineage, Begin: true, Floor: lineage + 1, Hold: config.HoldTime, Calls: config.CallsAfter(),
		Rewind: []node.Place{{Partition: p.id(), Position: p.before(to)}},
	}}
	for _, input := range w.broker.group.partitions {
		e.request.Marks = append(e.request.Marks, input.extent())
	}
	w.count("taken-again")
	s.truth.caller = nil
	e.apply(s.rows)
	if s.keeps {
		s.journal = append(s.journal, journaled{w.now, s.instant(), e, nil})
	}
}
