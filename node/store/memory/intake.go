package memory

import (
	"context"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/transfer"
)

// intake is what the store knows of the input topics, and of its own history. All of it is set back with the store.
type intake struct {
	positions map[node.Partition]node.Position

	// lineage is the number of the history, begun on the server's timeline of that number.
	lineage  int64
	timeline int

	// marks are the offsets that partitions have not been taken in up to since the lineage began, and gate is when
	// the claims of before have expired. The store catches up while there is a mark or the gate is yet to come.
	marks map[node.Partition]int64
	gate  time.Time

	// callsGate is when the callbacks have ended that were under way before.
	callsGate time.Time

	// cluster and group are what the store belongs to, empty before the first Bind.
	cluster, group string
	adopting       bool

	// seal says what the store is sealed for, or was. While it is sealed, the gate is out of reach.
	seal transfer.Seal

	// pauses are what is paused, by lane.
	pauses map[string]node.Pause

	// answers are what was told to requests, by their ids.
	answers map[uuid.UUID]answer
}

// state returns what the store says of itself at an instant.
func (s *Store) state(now time.Time) node.State {
	return node.State{
		Lineage:      s.intake.lineage,
		CatchingUp:   len(s.intake.marks) > 0 || s.intake.holds(now),
		Holding:      s.intake.holds(now),
		HoldingCalls: !s.intake.holds(now) && now.Before(s.intake.callsGate) && !s.broken.CallsEarly,
		IntakePaused: s.intake.paused(node.Intake),
		Suspect:      s.intake.timeline != s.timeline,
	}
}

// holds reports whether the gate is yet to come.
func (in *intake) holds(now time.Time) bool { return in.seal.Sealed() || now.Before(in.gate) }

// Bind implements node.Store.
func (s *Store) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	if err := ctx.Err(); err != nil {
		return node.Bound{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	in := &s.intake
	if request.Force || in.cluster == "" && in.group == "" {
		in.cluster, in.group = request.Cluster, request.Group
	}
	if s.broken.AdoptsAgain {
		for _, place := range request.Adopt {
			delete(in.positions, place.Partition)
		}
		in.adopting = in.adopting || request.Adopt != nil
	}
	if in.adopting && request.Adopt != nil && in.cluster == request.Cluster && in.group == request.Group {
		for _, place := range request.Adopt {
			in.create(place)
		}
		in.adopting = false
	}
	return node.Bound{
		Cluster: in.cluster, Group: in.group, Adopting: in.adopting, Partitions: len(in.positions),
	}, nil
}

// Positions implements node.Store.
func (s *Store) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	if err := ctx.Err(); err != nil {
		return nil, node.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	positions := make([]node.Position, len(places))
	for i, place := range places {
		positions[i] = s.intake.create(place)
	}
	return positions, s.state(instant(s.now())), nil
}

// create returns the position of a partition, which is that of place if there was none.
func (in *intake) create(place node.Place) node.Position {
	position, found := in.positions[place.Partition]
	if !found {
		position = place.Position
		in.positions[place.Partition] = position
	}
	return position
}

// CatchUp implements node.Store.
func (s *Store) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	if err := ctx.Err(); err != nil {
		return node.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	now := instant(s.now())
	in := &s.intake
	if request.Lineage != in.lineage || in.seal.Sealed() && !s.broken.Opens {
		return s.state(now), nil
	}
	if request.Begin {
		if in.seal.Sealed() {
			in.seal = transfer.Seal{} // the store is broken
		}
		in.lineage = max(in.lineage, request.Floor) + 1
		in.timeline = s.timeline
		in.gate = instant(now.Add(request.Hold))
		in.callsGate = instant(now.Add(request.Hold + request.Calls))
		for _, place := range request.Rewind {
			if place.Before(in.create(place)) {
				in.positions[place.Partition] = place.Position
			}
		}
	}
	marks := map[node.Partition]int64{}
	for _, extent := range request.Marks {
		position := in.create(node.Place{
			Partition: extent.Partition,
			Position:  node.Position{Epoch: node.UnknownEpoch, Offset: extent.First},
		})
		mark, found := in.marks[extent.Partition]
		if request.Begin {
			mark = extent.End
		} else if !found {
			continue // it has been passed, and is not raised again
		}
		if mark = min(mark, extent.End); max(position.Offset, extent.First) < mark {
			marks[extent.Partition] = mark
		}
	}
	in.marks = marks
	return s.state(now), nil
}

// Take implements node.Store.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if err := ctx.Err(); err != nil {
		return node.TakeResult{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()

	// What was true before the call decides on all items: the positions on which are taken in, the state on whether
	// they may be stored as claimed.
	now := instant(s.now())
	state := s.state(now)
	takes := state
	takes.Holding = state.Holding && !s.broken.TakesWhileHolding
	takes.Suspect = state.Suspect && !s.broken.TakesWhileSuspect
	before, refused := s.intake.compare(request.From, takes.Takes())

	result := node.TakeResult{Refused: refused}
	var brought []bool                        // by the item, whether it has brought a message
	halted := make([]bool, len(request.From)) // the partitions that have met an item that is busy
	for i := range request.Items {
		item := &request.Items[i]
		one, brings := node.ItemResult{Outcome: node.Skipped}, false
		placed := item.From != node.NoPlace
		switch {
		case !placed && !takes.Takes() && !s.broken.TakesPast, placed && refused[item.From]:
			one.Outcome = node.Untaken
		case placed && s.locks.partition(request.From[item.From].Partition):
			one.Outcome = node.Blocked
		case placed && !before[item.From].Takes(item.Epoch, item.Offset):
		case placed && halted[item.From]:
			one.Outcome = node.Untaken
		default:
			if result.Refusal = item.Refusal(); result.Refusal != "" {
				break
			}
			one, brings = s.answered(item, &state, now)
			if placed && one.Outcome == node.Blocked {
				halted[item.From] = true
			} else if placed {
				s.intake.move(request.From[item.From].Partition, item)
			}
		}
		if result.Refusal != "" {
			break
		}
		result.Results = append(result.Results, one)
		brought = append(brought, brings)
	}
	result.Taken = len(result.Results)
	s.complete(request, result.Results, brought, now, &state)
	for _, from := range request.From {
		result.Positions = append(result.Positions, s.intake.positions[from.Partition])
	}
	result.State = s.state(now)
	return result, nil
}

// compare returns the positions of the partitions of a take, and whether it is refused for each.
func (in *intake) compare(from []node.Place, takes bool) (before []node.Position, refused []bool) {
	before, refused = make([]node.Position, len(from)), make([]bool, len(from))
	for i, start := range from {
		position, found := in.positions[start.Partition]
		before[i], refused[i] = position, !found || start.Above(position) || !takes
	}
	return before, refused
}

// move sets the position behind an item that has been taken in, be it up or down.
func (in *intake) move(partition node.Partition, item *node.Item) {
	in.positions[partition] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
	if mark, found := in.marks[partition]; found && item.Offset+1 >= mark {
		delete(in.marks, partition)
	}
}

// take does what an item asks for, and stores what is to be told of it. It claims nothing.
func (s *Store) take(item *node.Item) node.Verdict {
	r := s.rows[nameOf(&item.Message)]
	var before *node.Kept
	if r != nil && item.Action != node.Pass {
		before = r.kept()
	}
	decide, reply := (*node.Item).Decide, (*node.Item).Reply
	if s.broken.Decide != nil {
		decide = s.broken.Decide
	}
	if s.broken.Reply != nil {
		reply = s.broken.Reply
	}
	v := decide(item, before)
	if v.After != v.Before {
		s.keep(r, item, v)
	}
	if m, told := reply(item, v, s.intake.lineage); told && s.rows[nameOf(&m)] == nil {
		m = clone(m)
		s.insert(&row{Row: Row{Message: m, Due: m.Deadline}})
	}
	return v
}

// keep has the store keep of a message what a verdict says. r is its row, if there is one.
func (s *Store) keep(r *row, item *node.Item, v node.Verdict) {
	if r != nil {
		s.drop(r)
	}
	if v.After == nil {
		return
	}
	next := &row{}
	if v.Brings {
		next.Message = clone(item.Message)
	} else {
		*next = *r
	}
	if r == nil || r.Incarnation != v.After.Incarnation {
		next.release()
	}
	next.Incarnation, next.Deadline, next.Due = v.After.Incarnation, v.After.Deadline, v.After.Due
	next.Attempts, next.Bound, next.Former = v.After.Attempts, v.After.Bound, v.After.Former
	next.Stopped = v.After.Stopped
	if r != nil && (s.broken.StaysParked || r.Incarnation == next.Incarnation && r.Deadline.Equal(next.Deadline)) {
		next.Part = r.Part
	} else {
		next.Part = ""
	}
	s.insert(next)
}

// insert stores a row that is not there.
func (s *Store) insert(r *row) {
	s.rows[nameOf(&r.Message)] = r
	s.add(r)
	s.queue(r)
}

// drop removes a row that is there.
func (s *Store) drop(r *row) {
	s.remove(r)
	s.unqueue(r)
	delete(s.rows, nameOf(&r.Message))
}

// nameOf returns the name of a message.
func nameOf(m *node.Message) node.MessageID { return node.MessageID{ID: m.ID, Lane: m.Lane} }

// kept returns what instructions are decided on.
func (r *row) kept() *node.Kept {
	return &node.Kept{
		Incarnation: r.Incarnation, Deadline: r.Deadline, Due: r.Due, Claimed: r.ready, Attempts: r.Attempts,
		Bound: r.Bound, Former: r.Former, Sequence: r.Sequence, Stopped: r.Stopped,
	}
}

// complete makes the claims that a take asks for, on what it has stored and not touched again. And it adds to the
// results what is true after the take: which skipped messages are stored nevertheless, and which claims the node
// holds. So what this call has stored and what an earlier one did look alike, as they must.
func (s *Store) complete(
	request node.TakeRequest, results []node.ItemResult, brought []bool, now time.Time, state *node.State,
) {
	for i := range results {
		item, result := &request.Items[i], &results[i]
		if !item.Action.Stores() || result.Outcome == node.Untaken || result.Outcome == node.Blocked ||
			result.Outcome == node.Duplicate {
			continue
		}
		r := s.rows[nameOf(&item.Message)]
		if r == nil || r.Incarnation != item.Incarnation {
			continue
		}
		if result.Outcome == node.Skipped {
			result.Outcome = node.Scheduled
		}
		if brought[i] && item.Claim && item.Line == uuid.Nil && state.ClaimsOn(item.Lane) &&
			!s.intake.paused(item.Lane) {
			s.remove(r)
			r.claim(request.Node, now, request.Hold)
			s.add(r)
		}
		if r.ready && r.ReadiedBy == request.Node {
			result.Claim = r.held()
		}
	}
}
