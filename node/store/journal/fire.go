package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/ledger"
)

// claim makes owner the owner of a message, of which it is given the head, under quick. Nothing is written for it:
// nobody else can claim in this partition, and what this process has claimed and not fired when it ends has not come
// out.
func (s *shard) claim(r *row, owner uuid.UUID, hold time.Duration) held {
	now := s.now().UTC().Truncate(time.Microsecond)
	claim := held{
		Claim: node.Claim{
			Ref: r.Ref(), ReadiedAt: now, ReadiedBy: owner, Expires: now.Add(hold).Truncate(time.Microsecond),
		},
		attempts: r.attempts + 1,
		row:      r,
	}
	s.claims[nameOf(&r.Message)] = claim
	return claim
}

// Claim implements node.Store.
func (s *Store) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	if err := ctx.Err(); err != nil {
		return node.ClaimResult{}, err
	}
	working := s.owned()
	for _, owned := range working {
		owned.quick.Lock()
		defer owned.quick.Unlock()
	}
	working = slices.DeleteFunc(working, func(owned *shard) bool { return owned.lost })
	result := node.ClaimResult{State: state()}
	for _, owned := range working {
		result.State.IntakePaused = result.State.IntakePaused || owned.isPaused(node.Intake)
	}
	now := s.config.Now()
	var of []*shard
	left := request.Bytes
	for _, share := range request.Lanes {
		if request.Bytes > 0 && left <= 0 {
			break
		}
		if request.Bytes > 0 {
			share.Bytes = min(share.Bytes, left)
		}
		count, size := 0, 0
		from, last := uint64(0), order(request.Until)
		if !share.From.IsZero() {
			from = order(share.From)
		}
		open := slices.DeleteFunc(slices.Clone(working), func(owned *shard) bool {
			return owned.isPaused(share.Lane) || s.board != nil && node.IsCallback(share.Lane) && !owned.calls(now)
		})
		if err := s.first(open, share.Where(), from, last, func(owned *shard, r *row) bool {
			count, size, left = count+1, size+r.Size(), left-r.Size()
			ready := node.Ready{Message: r.Message, Due: r.due, Part: r.part, Bound: r.bound}
			r.behead()
			claim := owned.claim(r, request.Node, request.Hold)
			ready.Claim, ready.Attempts = claim.Claim, claim.attempts
			result.Messages, of = append(result.Messages, ready), append(of, owned)
			return count < share.Limit && size < share.Bytes
		}); err != nil {
			return node.ClaimResult{}, err
		}
	}
	if err := turns(result.Messages, of); err != nil {
		return node.ClaimResult{}, err
	}
	slices.SortStableFunc(result.Messages, func(a, b node.Ready) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return result, nil
}

// Parts implements node.Store.
func (s *Store) Parts(ctx context.Context) ([]node.Part, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var parts []node.Part
	err := s.look(func(owned *shard) error {
		some, err := owned.parts(false)
		parts = append(parts, some...)
		return err
	})
	slices.SortFunc(parts, node.Part.Compare)
	parts = slices.Compact(parts)
	return parts[:min(len(parts), node.MaxParts)], err
}

// parts returns the parts of lanes on which there is a message, in order; if claimed is false, one that nobody has
// claimed. Those that somebody has claimed on have a mark, and are looked at from there; others lie between them. The
// caller has quick.
func (s *shard) parts(claimed bool) (parts []node.Part, err error) {
	held := map[node.Part]bool{}
	if claimed {
		for _, claim := range s.claims {
			held[claim.row.where()] = true
		}
	}
	counts := func(name node.MessageID) bool {
		_, some := s.claims[name]
		return claimed || !some
	}
	known := slices.SortedFunc(maps.Keys(s.free), node.Part.Compare)
	for _, kind := range []byte{dueKind, parkedKind} {
		from := s.key(kind)
		for _, part := range known {
			if (part.Name != "") != (kind == parkedKind) {
				continue
			}
			between, err := s.partsBetween(from, s.partPrefix(part), counts)
			if err != nil {
				return nil, err
			}
			parts = append(parts, between...)
			some, err := s.unclaimedOn(part)
			if err != nil {
				return nil, err
			}
			if some || held[part] {
				parts = append(parts, part)
			}
			from = s.behind(part)
		}
		rest, err := s.partsBetween(from, s.key(kind+1), counts)
		if err != nil {
			return nil, err
		}
		parts = append(parts, rest...)
	}
	slices.SortFunc(parts, node.Part.Compare)
	return parts, nil
}

// behind returns the first key that may be of another part.
func (s *shard) behind(part node.Part) []byte {
	key := s.partPrefix(part)
	key[len(key)-1] = 1
	return key
}

// partsBetween returns the parts between two keys on which there is a message that counts.
func (s *shard) partsBetween(
	from, to []byte, counts func(node.MessageID) bool,
) (parts []node.Part, err error) {
	for more := true; more && err == nil; {
		more = false
		err = s.between(from, to, func(key, _ []byte) (bool, error) {
			part, at := partOf(key)
			if more = counts(node.MessageID{Lane: part.Lane, ID: string(at[8:])}); more {
				parts = append(parts, part)
				from = s.behind(part)
			}
			return !more, nil
		})
	}
	return parts, err
}

// Expired implements node.Store. A claim of this process expires only if its node has lost it.
func (s *Store) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var expired []node.Claim
	now := s.config.Now().UTC().Truncate(time.Microsecond)
	err := s.look(func(owned *shard) error {
		for _, claim := range owned.claims {
			if !now.Before(claim.Expires) {
				expired = append(expired, claim.Claim)
			}
		}
		return nil
	})
	slices.SortFunc(expired, func(a, b node.Claim) int {
		return cmp.Or(a.Expires.Compare(b.Expires), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Lane, b.Lane))
	})
	return expired[:min(len(expired), limit)], err
}

// Reset implements node.Store. When a message falls due next, and where it is parked, is kept in the local copy alone:
// a new owner may try sooner.
func (s *Store) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	reset := make([]node.Settled, len(releases))
	shards := s.working()
	return reset, atOnce(len(shards), func(at int) error { // a claim is in one partition
		owned := shards[at]
		which := owned.held(releases)
		if len(which) == 0 {
			return nil // and nobody waits for a broker that is away
		}
		owned.mu.Lock()
		defer owned.mu.Unlock()
		owned.quick.Lock()
		defer owned.quick.Unlock()
		if owned.lost {
			return nil
		}
		batch := owned.db.NewIndexedBatch()
		var err error
		for _, i := range which {
			if reset[i], err = owned.reset(batch, &releases[i]); err != nil {
				break
			}
		}
		if err == nil {
			err = owned.apply(batch)
		}
		owned.lost = err != nil // claims may be given up that the local copy has not heard of
		return err
	})
}

// held returns the indexes of those claims that this process holds in the partition.
func (s *shard) held(releases []node.Release) (which []int) {
	s.quick.Lock()
	defer s.quick.Unlock()
	for i := range releases {
		if s.holdsClaim(&releases[i]) {
			which = append(which, i)
		}
	}
	return which
}

// holdsClaim reports whether a claim that is given up is held. The caller has quick.
func (s *shard) holdsClaim(release *node.Release) bool {
	claim, some := s.claims[node.MessageID{ID: release.ID, Lane: release.Lane}]
	return some && claim.Ref == release.Ref && claim.ReadiedBy == release.ReadiedBy &&
		claim.ReadiedAt.Equal(release.ReadiedAt)
}

// reset gives up a claim, if it is held.
func (s *shard) reset(batch *pebble.Batch, release *node.Release) (node.Settled, error) {
	if !s.holdsClaim(release) {
		return node.Gone, nil // any more
	}
	name := node.MessageID{ID: release.ID, Lane: release.Lane}
	claim := s.claims[name]
	before, err := s.storedIn(batch, name)
	if err != nil || before == nil {
		return node.Gone, err
	}
	after := *before
	after.attempts, after.part, after.behind = claim.attempts, release.Part, release.Behind
	if release.Unsent {
		after.attempts--
	}
	late := !release.Due.IsZero()
	if release.Behind {
		first, err := s.isFirst(&after)
		if err != nil {
			return node.Gone, err
		}
		late = late && !first
	}
	if late {
		after.due = release.Due.UTC().Truncate(time.Microsecond)
	}
	if after.part != "" {
		s.form = parkedVersion
	}
	delete(s.claims, name)
	s.sink(before) // where it stays, should the batch not get there
	s.sink(&after)
	if err := s.put(batch, before, &after, name, after.encode()); err != nil || !release.Behind {
		return node.Freed, err
	}
	return node.Freed, s.forward(batch, lineOf(&after.Message))
}

// Settle implements node.Store.
func (s *Store) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	settled := make([]node.Settled, len(next))
	shards := s.working()
	work := places(shards, next)
	err := atOnce(len(shards), func(at int) error {
		which := work[at]
		if len(which) == 0 {
			return nil
		}
		var here []node.Settled
		err := shards[at].do(ctx, func(c *change) (err error) {
			here = make([]node.Settled, len(next))
			for _, i := range which {
				if here[i], err = c.settle(&next[i]); err != nil {
					return err
				}
			}
			return nil
		})
		for i, one := range here {
			if one != node.Gone { // it is in no other partition
				settled[i] = one
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return settled, nil
}

// places returns, for each partition, the indexes of those that it may have a message of. What is to be settled was
// claimed, and so is known to be in one partition and in no other; or it is in the local copy, unless it is gone. So
// nobody waits for the transaction of a partition that has nothing of what he wants: a broker that is away would hold
// up what all the others lead.
func places(shards []*shard, next []node.Next) [][]int {
	work := make([][]int, len(shards))
	claimed := make([]bool, len(next))
	for at, owned := range shards {
		owned.quick.Lock()
		for i := range next {
			if claimed[i] {
				continue
			}
			claim, some := owned.claims[node.MessageID{ID: next[i].Of.ID, Lane: next[i].Of.Lane}]
			if claimed[i] = some && claim.Ref == next[i].Of; claimed[i] {
				work[at] = append(work[at], i)
			}
		}
		owned.quick.Unlock()
	}
	for at, owned := range shards {
		for i := range next {
			if claimed[i] {
				continue
			}
			name := node.MessageID{ID: next[i].Of.ID, Lane: next[i].Of.Lane}
			if _, some, err := get(owned.db, owned.db, owned.rowKey(name), exists); some || err != nil {
				work[at] = append(work[at], i) // an error comes again, to somebody who returns it
			}
		}
	}
	return work
}

// exists decodes nothing.
func exists([]byte) (struct{}, error) { return struct{}{}, nil }

// settle has a change settle an occurrence, or a message that comes out once.
func (c *change) settle(next *node.Next) (node.Settled, error) {
	name := node.MessageID{ID: next.Of.ID, Lane: next.Of.Lane}
	r, err := c.get(name)
	if err != nil {
		return node.Gone, err
	}
	settled := next.Settle(c.kept(r))
	if r != nil && r.Line != uuid.Nil && (settled == node.Removed || settled == node.Rearmed) {
		c.lines = append(c.lines, lineOf(&r.Message))
	}
	switch settled {
	case node.Removed:
		c.rows[name] = nil
	case node.Rearmed:
		after, err := c.whole(r)
		if err != nil {
			return node.Gone, err
		}
		after.Incarnation, after.Sequence = next.Incarnation, next.Sequence
		after.At = next.At.UTC().Truncate(time.Microsecond)
		after.Deadline, after.due, after.attempts, after.bound, after.behind = after.At, after.At, 0, false, false
		after.part = ""
		c.rows[name] = after
	case node.Gone, node.Promised, node.Freed, node.Busy:
	}
	return settled, nil
}

// errGone is the error of a message that is not there any more: it was cancelled, or replaced, or has come out.
var errGone = fmt.Errorf("%w: it is not in the journal any more", node.MessageGone)

// Fire publishes records and settles the messages that they are of, each together with its record or not at all. It
// returns what became of each, as node.Sink does, and how those without an error are settled. NotSent says that
// nothing has come out; an unknown outcome that the partition is lost: its journal has the answer for the next owner.
func (s *Store) Fire(ctx context.Context, records []node.Record, next []node.Next) ([]node.Settled, []error) {
	f := &firing{records, next, make([]node.Settled, len(next)), make([]error, len(next))}
	for i := range f.errs {
		f.errs[i] = errGone
	}
	shards := s.working()
	work := places(shards, next)
	_ = atOnce(len(shards), func(at int) error { // a message is in one partition, so each has results of its own
		f.in(ctx, shards[at], work[at])
		return nil
	})
	return f.settled, f.errs
}

// firing is a call of Fire.
type firing struct {
	records []node.Record
	next    []node.Next
	settled []node.Settled
	errs    []error
}

// in fires those of the messages that are in a partition, in as few transactions as their topics allow.
func (f *firing) in(ctx context.Context, owned *shard, which []int) {
	if len(which) == 0 {
		return
	}
	here := which // what is not looked at, because the partition is lost, is not gone
	var settled []node.Settled
	err := owned.do(ctx, func(c *change) error {
		here, settled = which, nil // what can't be read is not gone
		var there []int
		for _, i := range which {
			if owned.outlived(&f.next[i]) {
				continue
			}
			one, err := c.settle(&f.next[i])
			if err != nil {
				return err
			}
			if one != node.Gone {
				there, settled = append(there, i), append(settled, one)
				c.outputs = append(c.outputs, f.records[i])
			}
		}
		here = there
		return nil
	})
	var refusal *ledger.RefusedError
	if errors.As(err, &refusal) && len(refusal.Errs) == len(here) {
		f.refused(ctx, owned, here, refusal)
		return
	}
	for n, i := range here {
		switch {
		case err == nil:
			f.settled[i], f.errs[i] = settled[n], nil
		case errors.Is(err, ledger.ErrAborted):
			f.errs[i] = fmt.Errorf("%w: %w", node.NotSent, err)
		default:
			f.errs[i] = err
		}
	}
}

// refused fires what is not to blame for a refusal, since its topic or its partition takes it, and halves what may be,
// until the culprits are alone.
func (f *firing) refused(ctx context.Context, owned *shard, which []int, refusal *ledger.RefusedError) {
	var innocent, suspect []int
	for n, i := range which {
		switch err := refusal.Errs[n]; {
		case err == nil:
			innocent = append(innocent, i)
		case node.KindOf(err) == node.RecordRejected && len(which) > 1:
			suspect = append(suspect, i)
		default:
			f.errs[i] = err
		}
	}
	f.in(ctx, owned, innocent)
	half := len(suspect) / 2
	if len(suspect) > 0 {
		f.in(ctx, owned, suspect[:max(half, 1)])
		f.in(ctx, owned, suspect[max(half, 1):])
	}
}
