package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// taking is a take on its way.
type taking struct {
	request *node.TakeRequest
	changes map[int32]*change
	before  []node.Position
	result  node.TakeResult
	brought []bool // by the item, whether it has brought a message
	largest int
}

// Take implements node.Store. Each partition is a transaction of its own; if one of several fails, a repeat of the take
// finds the others taken in.
//
// An instruction that comes past Kafka (node.NoPlace) acts on a message that this node owns; what it does not find is
// not_found, and may be with another node. It brings no message of its own: which partition that belongs to is known on
// the input topic alone.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if err := ctx.Err(); err != nil {
		return node.TakeResult{}, err
	}
	asked := map[int32]bool{}
	for _, from := range request.From {
		asked[from.Number] = true
	}
	past := slices.ContainsFunc(request.Items, func(item node.Item) bool { return item.From == node.NoPlace })
	locked, unlock := s.lock(func(number int32) bool { return past || asked[number] })
	defer unlock()
	t := &taking{request: &request, changes: map[int32]*change{}, largest: s.config.MaxEntry}
	for _, owned := range locked {
		if lost, _ := owned.isLost(); !lost {
			t.changes[owned.number] = owned.change()
		}
	}
	t.compare(locked)
	for i := range request.Items {
		if err := t.item(&request.Items[i]); err != nil {
			return node.TakeResult{}, err
		}
		if t.result.Refusal != "" {
			break
		}
	}
	t.result.Taken = len(t.result.Results)
	if err := t.commit(ctx); err != nil {
		return node.TakeResult{}, err
	}
	if err := t.complete(); err != nil {
		return node.TakeResult{}, err
	}
	for i, from := range request.From {
		position := t.before[i]
		if c := t.changes[from.Number]; c != nil {
			position = c.shard.positions[nameless(from.Partition)]
		}
		t.result.Positions = append(t.result.Positions, position)
	}
	t.result.State = state()
	return t.result, nil
}

// commit commits what the take does to each partition. They do not wait for each other.
func (t *taking) commit(ctx context.Context) error {
	numbers := slices.Sorted(maps.Keys(t.changes))
	return atOnce(len(numbers), func(i int) error { return t.changes[numbers[i]].commit(ctx) })
}

// compare finds the positions of the partitions, and whether the take is refused for each.
func (t *taking) compare(locked []*shard) {
	for _, from := range t.request.From {
		var position node.Position
		found, works := false, t.changes[from.Number] != nil
		for _, owned := range locked {
			if owned.number == from.Number {
				position, found = owned.positions[nameless(from.Partition)]
			}
		}
		t.before = append(t.before, position)
		t.result.Refused = append(t.result.Refused, !works || !found || from.Above(position))
	}
}

// item deals with one item.
func (t *taking) item(item *node.Item) error {
	one, brings := node.ItemResult{Outcome: node.Skipped}, false
	switch {
	case item.From == node.NoPlace:
		if t.result.Refusal = t.refusal(item); t.result.Refusal != "" {
			return nil
		}
		v, err := t.past(item)
		if err != nil || t.result.Refusal != "" {
			return err
		}
		one.Outcome = v.Outcome
	case t.result.Refused[item.From]:
		one.Outcome = node.Untaken
	case t.before[item.From].Takes(item.Epoch, item.Offset):
		if t.result.Refusal = t.refusal(item); t.result.Refusal != "" {
			return nil
		}
		from := t.request.From[item.From]
		c := t.changes[from.Number]
		v, err := c.decide(item)
		if err != nil {
			return err
		}
		one.Outcome, brings = v.Outcome, v.Brings
		c.positions[nameless(from.Partition)] = node.Position{Epoch: item.Epoch, Offset: item.Offset + 1}
	}
	t.result.Results = append(t.result.Results, one)
	t.brought = append(t.brought, brings)
	return nil
}

// past deals with an instruction that has come past Kafka.
func (t *taking) past(item *node.Item) (node.Verdict, error) {
	if item.Request != nil {
		t.result.Refusal = onInput
		return node.Verdict{}, nil
	}
	for _, number := range slices.Sorted(maps.Keys(t.changes)) {
		c := t.changes[number]
		r, err := c.get(nameOf(&item.Message))
		if err != nil {
			return node.Verdict{}, err
		}
		if r != nil && (item.Only == uuid.Nil || item.Only == r.Incarnation) {
			return c.decide(item)
		}
	}
	v := item.Decide(nil)
	if v.After != nil {
		t.result.Refusal = onInput
	}
	return v, nil
}

// onInput says why an instruction past Kafka is refused.
const onInput = "a store in Kafka takes messages in through the input topic only: send it there"

// refusal says why the message of an item can never be kept; empty if it can.
func (t *taking) refusal(item *node.Item) string {
	if why := item.Refusal(); why != "" || !item.Action.Stores() {
		return why
	}
	r := row{Message: item.Message, due: item.Deadline}
	if size := len(journalKey(r.Ref())) + len(r.encode()); size > t.largest {
		return fmt.Sprintf("the message has %d bytes as an entry of the journal, which takes %d", size, t.largest)
	}
	return ""
}

// decide does what an item asks for, and stores what is to be told of it. It claims nothing.
func (c *change) decide(item *node.Item) (node.Verdict, error) {
	name := nameOf(&item.Message)
	var r *row
	if item.Action != node.Pass {
		var err error
		if r, err = c.get(name); err != nil {
			return node.Verdict{}, err
		}
	}
	v := item.Decide(c.kept(r))
	if v.After != v.Before {
		c.rows[name] = r.after(item, &v)
	}
	m, told := item.Reply(v, state().Lineage)
	if !told {
		return v, nil
	}
	before, err := c.get(nameOf(&m))
	if err == nil && before == nil {
		c.rows[nameOf(&m)] = &row{Message: m, due: m.Deadline}
	}
	return v, err
}

// after returns what is stored of a message behind a verdict; nil for nothing.
func (r *row) after(item *node.Item, v *node.Verdict) *row {
	if v.After == nil {
		return nil
	}
	next := &row{}
	if v.Brings {
		next.Message = item.Message
	} else {
		*next = *r
	}
	next.Incarnation, next.Deadline, next.due = v.After.Incarnation, v.After.Deadline, v.After.Due
	next.attempts, next.bound, next.former = v.After.Attempts, v.After.Bound, v.After.Former
	next.stopped = v.After.Stopped
	return next
}

// taken returns the claim that the node of a take has on a message that it has brought. It is made if it is wanted, and
// if no claimer was faster since the commit.
func (s *shard) taken(r *row, request *node.TakeRequest, wanted bool) node.Claim {
	s.quick.Lock()
	defer s.quick.Unlock()
	if _, claimed := s.claims[nameOf(&r.Message)]; wanted && !claimed {
		s.claim(r, request.Node, request.Hold)
	}
	if claim := s.claims[nameOf(&r.Message)]; claim.ReadiedBy == request.Node {
		return claim.Claim
	}
	return node.Claim{}
}

// complete makes the claims that were asked for, on what was stored and not touched again, and adds to the results what
// is true after the take: so what this call has stored and what an earlier one did look alike.
func (t *taking) complete() error {
	for i := range t.result.Results {
		item, result := &t.request.Items[i], &t.result.Results[i]
		if item.From == node.NoPlace || !item.Action.Stores() || result.Outcome == node.Untaken ||
			result.Outcome == node.Duplicate {
			continue
		}
		c := t.changes[t.request.From[item.From].Number]
		r, err := c.stored(nameOf(&item.Message))
		if err != nil {
			return err
		}
		if r == nil || r.Incarnation != item.Incarnation {
			continue
		}
		if result.Outcome == node.Skipped {
			result.Outcome = node.Scheduled
		}
		result.Claim = c.taken(r, t.request, t.brought[i] && item.Claim && item.Line == uuid.Nil)
	}
	return nil
}
