package sim

import (
	"context"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/memory"
	"chronos/sim/check"
)

// upgrade is the migration of a store whose deployment has kept no positions: the rows stay, and it waits for the
// adoption of what the group has committed.
type upgrade struct {
	simple

	truth *truth
}

// apply makes the effect, past whatever a mutant has put in front of the rows.
func (e *upgrade) apply(node.Store) {
	t := e.truth
	rows := t.rows.(*memory.Store)
	rows.ForgetPositions()
	rows.Upgrade()
	clear(t.places)
	t.known, t.catchingUp = nil, false
}

// upgrade ends the older deployment, if there is one. Until then the nodes stand in for those of a version that inserts
// messages, and then commits: the positions that they keep besides are forgotten here. All of them go, and when what
// they have sent has arrived, the store is migrated and others are started in turn.
func (w *world) upgrade(later time.Duration) {
	if !w.older {
		return
	}
	for _, h := range w.hosts[1:] {
		if h.life != nil {
			h.life.crash()
		}
		h.startIn(max(later, time.Second) + time.Duration(h.number)*time.Millisecond)
	}
	w.after(max(later, time.Second), func() {
		if w.faultsOver {
			return
		}
		w.older = false
		w.store.replaced()
		w.store.migrate()
		w.recorder.upgraded()
	})
}

// upgrades reports whether a run begins with a version that keeps no positions.
func (w *world) upgrades() bool {
	if w.plan != nil {
		return w.possible(Upgraded)
	}
	return w.options.FaultRate > 0 && slices.Contains(w.options.Mix, Upgraded)
}

// migrate upgrades the store.
func (s *storeServer) migrate() {
	e := &upgrade{truth: s.truth}
	e.apply(nil)
	if s.keeps {
		s.journal = append(s.journal, journaled{s.world.now, s.instant(), e, nil})
	}
}

// migrated reports whether the store is as the nodes of now need it: not if it was set back to before the upgrade.
func (s *storeServer) migrated() bool {
	for i := range s.journal {
		if _, is := s.journal[i].effect.(*upgrade); is {
			return true
		}
	}
	return s.world.older || !s.world.upgrades()
}

// bind is what a process does before it runs a node, as service.Service does: it looks whether the store belongs to its
// cluster and group, and has one that comes from an older deployment adopt what that has committed. It reports whether
// that is done.
func (l *life) bind(ctx context.Context, store node.Store) bool {
	request := node.BindRequest{Cluster: clusterID, Group: groupName}
	bound, err := store.Bind(ctx, request)
	if err != nil {
		return false
	}
	if bound.Cluster != clusterID || bound.Group != groupName {
		panic("the store belongs to others")
	}
	if !bound.Adopting {
		return true
	}
	committed, err := l.committed(ctx)
	if err != nil {
		return false
	}
	request.Adopt = l.host.world.mutant.adoptable(committed)
	_, err = store.Bind(ctx, request)
	return err == nil
}

// committed asks the brokers what the group has committed. To the faults it is a look at what the topics hold.
func (l *life) committed(ctx context.Context) ([]node.CommittedPlace, error) {
	w := l.host.world
	var committed []node.CommittedPlace
	c := l.begin(opExtents, &l.host.brokerLink, nil)
	err := c.perform(ctx, w.options.publishTimeout(), servedBy(func() bool {
		if w.now < w.broker.away {
			c.spoilt().unanswered = true
			return true
		}
		for _, p := range w.broker.group.partitions {
			if p.committed.Offset >= 0 {
				committed = append(committed, node.CommittedPlace{
					Place: node.Place{Partition: p.id(), Position: p.committed}, Kept: p.kept,
				})
			}
		}
		return true
	}))
	return committed, err
}

// upgraded tells that the store has no positions any more, since it is one of an older deployment.
func (j *recorder) upgraded() {
	j.add(check.Event{Kind: check.Upgrade})
}
