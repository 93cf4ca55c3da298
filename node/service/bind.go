package service

import (
	"context"
	"fmt"
	"log/slog"

	"chronos/node"
)

// bind waits until the store has said that it belongs to this cluster and consumer group, which it does from the first
// time on. A store that comes from a deployment that kept no positions adopts what the group has committed, once.
func (s *Service) bind(ctx context.Context) error {
	port := &preparation{service: s, port: node.PortSource}
	var cluster string
	if err := s.retry(ctx, func() (bool, error) {
		limited, cancel := context.WithTimeout(ctx, laterLook)
		defer cancel()
		var err error
		if cluster, err = s.admin.ClusterID(limited); err != nil {
			return false, port.failed(ctx, "look up the cluster", err)
		}
		port.answered()
		return true, nil
	}); err != nil || ctx.Err() != nil {
		return err
	}
	b := &binding{
		Service: s,
		store:   &preparation{service: s, port: node.PortStore},
		group:   &preparation{service: s, port: node.PortSource},
	}
	return s.retry(ctx, func() (bool, error) { return b.bindTo(ctx, cluster) })
}

// binding is the binding of a store, over all tries: what refuses a few of them in a row is no outage.
type binding struct {
	*Service

	store, group *preparation
}

// bindTo binds the store to a cluster, and reports whether that is done.
func (b *binding) bindTo(ctx context.Context, cluster string) (bool, error) {
	s, store, group := b.Service, b.store, b.group
	request := node.BindRequest{Cluster: cluster, Group: s.config.Group}
	bound, err := s.store.Bind(ctx, request)
	if err != nil {
		return false, store.failed(ctx, "bind the store", err)
	}
	store.answered()
	if bound.Cluster != cluster || bound.Group != s.config.Group {
		return false, &OtherOwnerError{Bound: bound, Cluster: cluster, Group: s.config.Group}
	}
	if !bound.Adopting && bound.Partitions > 0 {
		return true, nil
	}
	limited, cancel := context.WithTimeout(ctx, laterLook)
	defer cancel()
	committed, err := s.admin.Committed(limited, s.config.Group, s.config.inputs()...)
	if err != nil {
		return false, group.failed(ctx, "look up committed offsets", err)
	}
	group.answered()
	switch {
	case bound.Adopting:
		request.Adopt = node.Adoptable(committed)
		if _, err = s.store.Bind(ctx, request); err != nil {
			return false, store.failed(ctx, "adopt the committed offsets", err)
		}
		s.log.Info("the store has adopted what the consumer group has committed: from now on it keeps the positions "+
			"itself", slog.Int("partitions", len(request.Adopt)))
		if kept := len(committed) - len(request.Adopt); kept > 0 {
			s.log.Warn("the store was set back to before it adopted committed offsets, and those of now are of a "+
				"later state of it: these partitions are taken in again from the first record that Kafka has",
				slog.Int("partitions", kept))
		}
	case len(committed) > 0:
		return b.again(ctx, request, len(committed))
	}
	return true, nil
}

// again looks once more at a store that had no positions, while its group has committed offsets. A peer that starts
// for the first time beside this node may have made both in between:
//
//	this node   is told that there are no positions
//	                                         the peer takes in the first records, and commits
//	this node   is told of committed offsets
//
// Positions come before commits. So if there are none even now, the offsets are not from this store.
func (b *binding) again(ctx context.Context, request node.BindRequest, committed int) (bool, error) {
	bound, err := b.Service.store.Bind(ctx, request)
	if err != nil {
		return false, b.store.failed(ctx, "bind the store", err)
	}
	b.store.answered()
	if bound.Partitions == 0 {
		return false, &NoPositionsError{Group: b.config.Group, Partitions: committed}
	}
	return true, nil
}

// OtherOwnerError says that a store belongs to another deployment.
type OtherOwnerError struct {
	Bound          node.Bound
	Cluster, Group string
}

// Error returns the sentence for a person.
func (e *OtherOwnerError) Error() string {
	return fmt.Sprintf("the store belongs to consumer group %s of Kafka cluster %s, and this is group %s of cluster "+
		"%s: give this deployment a store of its own or, if the other one is gone for good, run \"chronos bind "+
		"--yes\" with the settings of this one",
		e.Bound.Group, e.Bound.Cluster, e.Group, e.Cluster)
}

// NoPositionsError says that a consumer group has come far with a store that knows nothing of it.
type NoPositionsError struct {
	Group      string
	Partitions int
}

// Error returns the sentence for a person.
func (e *NoPositionsError) Error() string {
	partitions := fmt.Sprintf("%d partitions", e.Partitions)
	if e.Partitions == 1 {
		partitions = "1 partition"
	}
	return fmt.Sprintf("consumer group %s has committed offsets on %s, and the store has never taken in anything: if "+
		"it is the wrong store, name the right one; if it is a new one on purpose, \"chronos bind --adopt --yes\" "+
		"goes on from the committed offsets, and \"chronos bind --from-earliest --yes\" begins with everything that "+
		"Kafka has", e.Group, partitions)
}
