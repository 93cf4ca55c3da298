package sim

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"

	"chronos/node"
)

// truth stands in front of the rows and tells the judge every change that really happens to them, whoever asked for it
// and however broken the way there was.
type truth struct {
	server *storeServer
	rows   node.Store
	caller *life // whose request is being applied
	muted  bool

	// stored are the messages in the store with the claims on them, those without one having a zero time and
	// owner. They tell a first insert from a repeated one, and mutants what they would know in SQL.
	stored map[node.MessageID]node.Claim

	changes int // how many there have been: a call that changes nothing commits nothing

	holding bool
	held    []func()
}

var _ node.Store = (*truth)(nil)

// hold keeps the changes back until they are released: nobody sees them yet.
func (t *truth) hold() { t.holding, t.held = true, nil }

func (t *truth) release() []func() {
	held := t.held
	t.holding, t.held = false, nil
	return held
}

// tell hands a change to the judge, now or once it is committed.
func (t *truth) tell(change func()) {
	switch {
	case t.muted:
	case t.holding:
		t.held = append(t.held, change)
	default:
		change()
	}
}

// Insert implements node.Store.
func (t *truth) Insert(ctx context.Context, in node.InsertRequest) ([]node.InsertResult, error) {
	results, err := t.rows.Insert(ctx, in)
	t.must(err)
	judge, caller := t.server.world.judge, t.caller
	for i := range results {
		m := &in.Messages[i].Message
		id := node.MessageID{ID: m.ID, Topic: m.Topic}
		switch {
		case results[i].Outcome == node.Duplicate:
			t.tell(func() { judge.duplicate(caller, m) })
		case results[i].Outcome == node.Inserted && t.stored[id].Incarnation != m.Incarnation:
			t.changes++
			t.stored[id] = node.Claim{Ref: m.Ref()}
			if results[i].Claim.ReadiedBy != uuid.Nil {
				t.stored[id] = results[i].Claim
			}
			stamp := t.server.instant()
			t.tell(func() { judge.inserted(caller, m, results[i].Claim, stamp) })
		}
	}
	return results, nil
}

// Present implements node.Store.
func (t *truth) Present(ctx context.Context, ids []node.MessageID) ([]bool, error) {
	present, err := t.rows.Present(ctx, ids)
	t.must(err)
	judge, caller := t.server.world.judge, t.caller
	for i, id := range ids {
		t.tell(func() { judge.present(caller, id, present[i]) })
	}
	return present, nil
}

// Ready implements node.Store.
func (t *truth) Ready(ctx context.Context, in node.ReadyRequest) ([]node.Readied, error) {
	claimed := t.claim(ctx, in)
	t.changes += len(claimed)
	for i := range claimed {
		t.stored[node.MessageID{ID: claimed[i].ID, Topic: claimed[i].Topic}] = claimed[i].Claim
	}
	if len(claimed) > 0 {
		judge, caller := t.server.world.judge, t.caller
		stamp := t.server.instant()
		t.tell(func() { judge.claimed(caller, claimed, stamp) })
	}
	return claimed, nil
}

// claim claims what a database would claim: it goes past the rows that an open transaction has locked, to delete them,
// say, and the delete may yet be undone. Such claims are taken back.
func (t *truth) claim(ctx context.Context, in node.ReadyRequest) (claimed []node.Readied) {
	var skipped []node.Release
	for in.Limit > 0 && in.Bytes > 0 {
		more, err := t.rows.Ready(ctx, in)
		t.must(err)
		before := len(skipped)
		for i := range more {
			if t.server.locked(&more[i].Message) {
				skipped = append(skipped, node.Release{Claim: more[i].Claim})
				continue
			}
			claimed = append(claimed, more[i])
			in.Limit--
			in.Bytes -= more[i].Size()
		}
		if len(skipped) == before {
			break
		}
	}
	if len(skipped) > 0 {
		_, err := t.rows.Reset(ctx, skipped)
		t.must(err)
	}
	return claimed
}

// Delete implements node.Store.
func (t *truth) Delete(ctx context.Context, refs []node.Ref) ([]bool, error) {
	deleted, err := t.rows.Delete(ctx, refs)
	t.must(err)
	judge, caller := t.server.world.judge, t.caller
	for i, ref := range refs {
		if deleted[i] {
			t.changes++
			delete(t.stored, node.MessageID{ID: ref.ID, Topic: ref.Topic})
			t.tell(func() { judge.deleted(caller, ref) })
		}
	}
	return deleted, nil
}

// Stuck implements node.Store.
func (t *truth) Stuck(ctx context.Context, in node.StuckRequest) ([]node.Claim, error) {
	stuck, err := t.rows.Stuck(ctx, in)
	t.must(err)
	return stuck, nil
}

// Reset implements node.Store.
func (t *truth) Reset(ctx context.Context, releases []node.Release) ([]bool, error) {
	reset, err := t.rows.Reset(ctx, releases)
	t.must(err)
	judge, caller := t.server.world.judge, t.caller
	for i, release := range releases {
		if reset[i] {
			t.changes++
			t.stored[node.MessageID{ID: release.ID, Topic: release.Topic}] = node.Claim{Ref: release.Ref}
			t.tell(func() { judge.reset(caller, release) })
		}
	}
	return reset, nil
}

// must panics on an error of a store in this process: it has no reason to fail.
func (t *truth) must(err error) {
	if err != nil {
		panic("sim: the store of the simulation fails: " + err.Error())
	}
}

// claims returns what is in the store, in the order of ids and topics.
func (t *truth) claims() []node.Claim {
	return slices.SortedFunc(maps.Values(t.stored), func(a, b node.Claim) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Topic, b.Topic))
	})
}
