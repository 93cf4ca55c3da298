package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/queue"
	"chronos/node/store/transfer"
)

var _ transfer.Store = (*Store)(nil)

// Sealed implements transfer.Store.
func (s *Store) Sealed(ctx context.Context) (transfer.Seal, error) {
	if err := ctx.Err(); err != nil {
		return transfer.Seal{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.intake.seal, nil
}

// Contents implements transfer.Store.
func (s *Store) Contents(ctx context.Context) (transfer.Contents, error) {
	pauses, err := s.Pauses(ctx)
	if err != nil {
		return transfer.Contents{}, err
	}
	places, _, err := s.Places(ctx)
	if err != nil {
		return transfer.Contents{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	contents := s.contents()
	contents.Places, contents.Pauses = places, pauses
	return contents, nil
}

// contents returns what decides on a call, without places and pauses.
func (s *Store) contents() transfer.Contents {
	in := &s.intake
	return transfer.Contents{
		Bound: node.Bound{
			Cluster: in.cluster, Group: in.group, Adopting: in.adopting, Partitions: len(in.positions),
		},
		State: s.state(instant(s.now())), Seal: in.seal,
		Messages: int64(len(s.rows)), Answers: int64(len(in.answers)),
		Queues: len(s.queues.queues) > 1 || len(s.queues.tasks) > 0 || len(s.queues.actions) > 0,
	}
}

// Seal implements transfer.Store.
func (s *Store) Seal(ctx context.Context, id uuid.UUID, by string) (transfer.Seal, error) {
	if err := ctx.Err(); err != nil {
		return transfer.Seal{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &s.intake
	if in.seal.Kind == transfer.Exported {
		return in.seal, nil
	}
	contents := s.contents()
	if err := contents.Refusal(); err != nil {
		return in.seal, err
	}
	in.lineage++
	in.seal = transfer.Seal{
		Kind: transfer.Exported, ID: id, By: by, Since: instant(s.now()), Lineage: in.lineage,
	}
	return in.seal, nil
}

// Unseal implements transfer.Store.
func (s *Store) Unseal(ctx context.Context) (node.State, error) {
	if err := ctx.Err(); err != nil {
		return node.State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &s.intake
	now := instant(s.now())
	if in.seal.Kind != transfer.Exported {
		return s.state(now), transfer.NotExported(&in.seal)
	}
	in.seal, in.gate = transfer.Seal{}, now
	for r := range s.ready.all {
		if r.Expires.After(in.gate) {
			in.gate = r.Expires
		}
	}
	in.lineage++
	in.timeline = s.timeline
	return s.state(now), nil
}

// Held implements transfer.Store.
func (s *Store) Held(ctx context.Context) (held transfer.Held, err error) {
	if err := ctx.Err(); err != nil {
		return held, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := instant(s.now())
	for r := range s.ready.all {
		if now.Before(r.Expires) {
			held.Claims++
			held.For = max(held.For, r.Expires.Sub(now))
		}
	}
	return held, nil
}

// Messages implements transfer.Store. It sorts all of them each time: this store is small.
func (s *Store) Messages(
	ctx context.Context, after node.MessageID, limit, size int,
) (messages []transfer.Message, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, r := range s.Dump() {
		if len(messages) >= limit || size <= 0 {
			break
		}
		if cmp.Or(cmp.Compare(r.ID, after.ID), cmp.Compare(r.Lane, after.Lane)) <= 0 {
			continue
		}
		size -= r.Size()
		messages = append(messages, transfer.Message{
			Message: r.Message, Due: r.Due, Attempts: r.Attempts,
			Bound: r.Bound, Former: r.Former, Stopped: r.Stopped, Behind: r.Behind,
		})
	}
	return messages, nil
}

// Told implements transfer.Store.
func (s *Store) Told(ctx context.Context, after uuid.UUID, limit int) (answers []transfer.Answer, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, a := range s.intake.answers {
		if bytes.Compare(id[:], after[:]) > 0 {
			answers = append(answers, transfer.Answer{Request: id, Told: a.told, Expires: a.expires})
		}
	}
	slices.SortFunc(answers, func(a, b transfer.Answer) int { return bytes.Compare(a.Request[:], b.Request[:]) })
	return answers[:min(len(answers), limit)], nil
}

// QueuesBehind implements transfer.Store.
func (s *Store) QueuesBehind(ctx context.Context, name string, limit int) ([]queue.Queue, error) {
	return s.Queues(ctx, queue.Filter{AfterName: name, Limit: limit})
}

// TasksBehind implements transfer.Store.
func (s *Store) TasksBehind(ctx context.Context, id uuid.UUID, limit, size int) ([]queue.Task, error) {
	tasks, err := s.Tasks(ctx, queue.Filter{AfterID: id, Limit: limit})
	for i := range tasks {
		if size <= 0 {
			return tasks[:i], err
		}
		if inline := tasks[i].Inline; inline != nil {
			size -= content(inline)
		}
	}
	return tasks, err
}

// ActionsBehind implements transfer.Store.
func (s *Store) ActionsBehind(ctx context.Context, id uuid.UUID, limit, size int) ([]queue.Action, error) {
	actions, err := s.Actions(ctx, queue.Filter{AfterID: id, Limit: limit})
	for i := range actions {
		if size <= 0 {
			return actions[:i], err
		}
		size -= content(&actions[i])
	}
	return actions, err
}

// content returns how many bytes the content of an action has.
func content(a *queue.Action) int {
	encoded, err := a.Content()
	if err != nil {
		panic(err) // there is no action that has none
	}
	return len(encoded)
}

// Receive implements transfer.Store.
func (s *Store) Receive(ctx context.Context, batch transfer.Batch) (transfer.Seal, error) {
	if err := ctx.Err(); err != nil {
		return transfer.Seal{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &s.intake
	if err := batch.Refuse(&in.seal); err != nil {
		return in.seal, err
	}
	if in.seal.Kind == transfer.Open {
		contents := s.contents()
		if err := batch.Unfit(&contents); err != nil {
			return in.seal, err
		}
		in.seal = batch.Begin()
		in.seal.Since = instant(s.now())
		if batch.Cluster != "" {
			in.cluster, in.group = batch.Cluster, batch.Group
		}
	}
	if !batch.Goes(&in.seal) && !s.broken.Refills {
		return in.seal, nil
	}
	if name := s.taken(&batch); name != "" {
		return in.seal, batch.Taken(name)
	}
	s.receive(&batch)
	in.seal.Lines = batch.To
	if batch.Last {
		in.lineage = max(in.lineage, batch.Lineage) + 1
		in.timeline, in.gate = s.timeline, instant(s.now())
		in.seal.Kind, in.seal.Lineage = transfer.Imported, in.lineage
	}
	return in.seal, nil
}

// taken returns the id of a message of a batch that is there already; "" if there is none.
func (s *Store) taken(batch *transfer.Batch) string {
	seen := map[node.MessageID]bool{}
	for i := range batch.Messages {
		name := nameOf(&batch.Messages[i].Message)
		if s.rows[name] != nil || seen[name] {
			return name.ID
		}
		seen[name] = true
	}
	return ""
}

// receive stores the contents of a batch.
func (s *Store) receive(batch *transfer.Batch) {
	in := &s.intake
	for _, p := range batch.Places {
		in.positions[p.Partition] = p.Position
		if p.Mark >= 0 {
			if in.marks == nil {
				in.marks = map[node.Partition]int64{}
			}
			in.marks[p.Partition] = p.Mark
		}
	}
	for _, p := range batch.Pauses {
		in.pauses[p.Lane] = p
	}
	for _, a := range batch.Answers {
		in.answers[a.Request] = answer{a.Told, a.Expires}
	}
	for i := range batch.Queues {
		q := batch.Queues[i].Clone()
		s.queues.queues[q.ID] = &q
	}
	for i := range batch.Actions {
		a := batch.Actions[i].Clone()
		s.queues.actions[a.ID] = &a
	}
	for i := range batch.Tasks {
		t := batch.Tasks[i].Clone()
		s.queues.setTask(t.ID, &t)
	}
	for i := range batch.Messages {
		m := &batch.Messages[i]
		s.insert(&row{Row: Row{
			Message: clone(m.Message), Due: instant(m.Due), Attempts: m.Attempts,
			Bound: m.Bound, Former: m.Former, Stopped: m.Stopped, Behind: m.Behind,
		}})
	}
}
