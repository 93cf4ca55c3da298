package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// taking is a take on its way. Its partitions are dealt with at the same time, each by itself.
type taking struct {
	request *node.TakeRequest
	numbers []int32 // of the partitions of the journal that those of From belong to
	shards  []*shard
	largest int

	before  []node.Position // by the place that the take is from
	result  node.TakeResult
	brought []bool // by the item, whether it has brought a message
}

// errMoved says that two takes of one partition were under way at one time.
var errMoved = errors.New("another take has moved the position of the partition meanwhile")

// Take implements node.Store. Each partition is a transaction of its own; if one of several fails, a repeat of the take
// finds the others taken in.
//
// An instruction that comes past Kafka (node.NoPlace) acts on a message that this node owns; what it does not find is
// not_found, and may be with another node. It brings no message of its own: which partition that belongs to is known on
// the input topic alone, which is where an Asker sends it. What is stored beside a message (node.Item.Beside) is stored
// in the partition of that one.
func (s *Store) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	if err := ctx.Err(); err != nil {
		return node.TakeResult{}, err
	}
	t := &taking{request: &request, shards: s.working(), largest: s.config.MaxEntry}
	for _, from := range request.From {
		t.numbers = append(t.numbers, s.number(from.Partition))
	}
	t.compare()
	if t.result.State = s.state(); t.result.State.IntakePaused {
		return t.refuse(), nil
	}
	work, err := t.share()
	if err != nil {
		return node.TakeResult{}, err
	}
	if err := atOnce(len(t.shards), func(i int) error {
		if len(work[i]) == 0 {
			return nil
		}
		return t.shards[i].do(ctx, func(c *change) error { return t.decide(c, work[i]) })
	}); err != nil {
		return node.TakeResult{}, err
	}
	if err := t.complete(); err != nil {
		return node.TakeResult{}, err
	}
	for i := range request.From {
		position := t.before[i]
		if at := t.at(i); at >= 0 {
			position, _ = t.shards[at].position(request.From[i].Partition)
		}
		t.result.Positions = append(t.result.Positions, position)
	}
	t.result.Taken = len(t.result.Results)
	return t.result, nil
}

// refuse returns the result of a take while the intake is paused: nothing is done, neither for a partition nor past
// Kafka.
func (t *taking) refuse() node.TakeResult {
	t.result.Positions, t.result.Taken = t.before, len(t.request.Items)
	for i := range t.result.Refused {
		t.result.Refused[i] = true
	}
	for range t.request.Items {
		t.result.Results = append(t.result.Results, node.ItemResult{Outcome: node.Untaken})
	}
	return t.result
}

// at returns the index of the partition that one of From belongs to, -1 if this node does not have it.
func (t *taking) at(from int) int {
	return slices.IndexFunc(t.shards, func(owned *shard) bool { return owned.number == t.numbers[from] })
}

// position returns that of an input partition, and whether there is one.
func (s *shard) position(p node.Partition) (node.Position, bool) {
	s.quick.Lock()
	defer s.quick.Unlock()
	position, found := s.positions[nameless(p)]
	return position, found
}

// compare finds the positions of the partitions, and whether the take is refused for each.
func (t *taking) compare() {
	for i, from := range t.request.From {
		var position node.Position
		found := false
		if at := t.at(i); at >= 0 {
			position, found = t.shards[at].position(from.Partition)
		}
		t.before = append(t.before, position)
		t.result.Refused = append(t.result.Refused, !found || from.Above(position))
	}
}

// share returns the indexes of the items that each partition decides, in order, up to the first one whose message can
// never be kept. What is not taken in has its result.
func (t *taking) share() (work [][]int, err error) {
	work = make([][]int, len(t.shards))
	for i := range t.request.Items {
		item := &t.request.Items[i]
		one, at := node.ItemResult{Outcome: node.Skipped}, -1
		switch {
		case item.From == node.NoPlace:
			if at, err = t.past(item); err != nil {
				return nil, err
			}
			switch {
			case at < 0 && item.Beside != node.Ref{}:
				one.Outcome = node.Untaken
			case at < 0:
				one.Outcome = item.Decide(nil).Outcome
			}
		case t.result.Refused[item.From]:
			one.Outcome = node.Untaken
		case t.before[item.From].Takes(item.Epoch, item.Offset):
			at = t.at(item.From)
			t.result.Refusal = t.refusal(item)
		}
		if t.result.Refusal != "" {
			break
		}
		t.result.Results, t.brought = append(t.result.Results, one), append(t.brought, false)
		if at >= 0 {
			work[at] = append(work[at], i)
		}
	}
	return work, nil
}

// onInput says why an instruction past Kafka is refused.
const onInput = "a store in Kafka takes messages in through the input topic only: send it there"

// past returns the index of the partition that has the message of an instruction past Kafka, or the one that it is
// stored beside; -1 if none has, and if the instruction is refused.
func (t *taking) past(item *node.Item) (at int, err error) {
	if t.result.Refusal = t.refusal(item); t.result.Refusal != "" {
		return -1, nil
	}
	if item.Request != nil {
		t.result.Refusal = onInput
		return -1, nil
	}
	name, only := nameOf(&item.Message), item.Only
	beside := item.Beside != node.Ref{}
	if beside {
		name, only = node.MessageID{ID: item.Beside.ID, Lane: item.Beside.Lane}, item.Beside.Incarnation
	}
	for i, owned := range t.shards {
		r, err := owned.headOf(name)
		if err != nil {
			return -1, err
		}
		if r != nil && (only == uuid.Nil || only == r.Incarnation) {
			return i, nil
		}
	}
	if !beside && item.Decide(nil).After != nil {
		t.result.Refusal = onInput
	}
	return -1, nil
}

// refusal says why the message of an item can never be kept; empty if it can.
func (t *taking) refusal(item *node.Item) string { return tooLarge(item, t.largest) }

// tooLarge says why the message of an item can never be kept where that is the largest entry; empty if it can.
func tooLarge(item *node.Item, largest int) string {
	if why := item.Refusal(); why != "" || !item.Action.Stores() {
		return why
	}
	r := row{Message: item.Message, due: item.Deadline}
	key := len(journalKey(r.Ref()))
	if key+r.room() <= largest {
		return "" // most are far from that, and need not be encoded to know it
	}
	if size := key + len(r.encode()); size > largest {
		return fmt.Sprintf("the message has %d bytes as an entry of the journal, which takes %d", size, largest)
	}
	return ""
}

// decide has a change do what items ask for.
func (t *taking) decide(c *change, items []int) error {
	for i, from := range t.request.From {
		if t.numbers[i] != c.number {
			continue
		}
		p := nameless(from.Partition)
		position, moved := c.positions[p] // by another take of this transaction
		if !moved {
			position = c.shard.positions[p]
		}
		if position != t.before[i] {
			return errMoved
		}
	}
	for _, i := range items {
		item := &t.request.Items[i]
		v, told, err := c.answered(item)
		if err != nil {
			return err
		}
		t.result.Results[i].Outcome, t.result.Results[i].Told, t.brought[i] = v.Outcome, told, v.Brings
		if item.From != node.NoPlace {
			c.positions[nameless(t.request.From[item.From].Partition)] = node.Position{
				Epoch: item.Epoch, Offset: item.Offset + 1,
			}
		}
	}
	return nil
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
		after, err := c.after(r, item, &v)
		if err != nil {
			return node.Verdict{}, err
		}
		c.rows[name] = after
	}
	m, told := item.Reply(v, c.lineage())
	if !told {
		return v, nil
	}
	before, err := c.get(nameOf(&m))
	if err == nil && before == nil {
		c.rows[nameOf(&m)] = &row{Message: m, due: m.Deadline}
	}
	return v, err
}

// after returns what is stored of a message behind a verdict on what get has returned; nil for nothing.
func (c *change) after(r *row, item *node.Item, v *node.Verdict) (next *row, err error) {
	switch {
	case v.After == nil:
		return nil, nil //nolint:nilnil // there is none, and nothing went wrong
	case v.Brings:
		next = &row{Message: item.Message}
	default:
		if next, err = c.whole(r); err != nil {
			return nil, err
		}
	}
	if next.Incarnation != v.After.Incarnation || !next.Deadline.Equal(v.After.Deadline) {
		next.part = ""
	}
	next.Incarnation, next.Deadline, next.due = v.After.Incarnation, v.After.Deadline, v.After.Due
	next.attempts, next.bound, next.former = v.After.Attempts, v.After.Bound, v.After.Former
	next.stopped = v.After.Stopped
	return next, nil
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
		at := t.at(item.From)
		wanted := t.brought[i] && item.Claim && item.Line == uuid.Nil
		if err := t.shards[at].taken(item, result, t.request, wanted); err != nil {
			return err
		}
	}
	return nil
}

// taken completes the result of an item that brings a message, if that is there. The claim is made if it is wanted, and
// if no claimer was faster since the commit.
func (s *shard) taken(item *node.Item, result *node.ItemResult, request *node.TakeRequest, wanted bool) error {
	name := nameOf(&item.Message)
	s.quick.Lock()
	defer s.quick.Unlock()
	wanted = wanted && !s.isPaused(item.Lane)
	claim, claimed := s.claims[name]
	if wanted && !claimed || result.Outcome == node.Skipped {
		r, err := s.headOf(name)
		if err != nil || r == nil || r.Incarnation != item.Incarnation {
			return err
		}
		if result.Outcome == node.Skipped {
			result.Outcome = node.Scheduled
		}
		if wanted && !claimed {
			claim = s.claim(r, request.Node, request.Hold)
		}
	}
	if claim.Ref == item.Ref() && claim.ReadiedBy == request.Node {
		result.Claim = claim.Claim
	}
	return nil
}
