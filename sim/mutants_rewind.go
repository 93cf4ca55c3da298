package sim

import (
	"context"
	"slices"

	"chronos/node"
)

// keepsEpoch rewinds to an offset under the epoch of the position that there is.
type keepsEpoch struct {
	node.Store

	table Table
}

// CatchUp implements node.Store.
func (s keepsEpoch) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	request.Rewind = slices.Clone(request.Rewind)
	for i := range request.Rewind {
		place := &request.Rewind[i]
		place.Epoch = s.table.truth.places[place.Partition].Epoch
	}
	return s.Store.CatchUp(ctx, request)
}

// rewindsToOffset rewinds to an offset of which nobody knows the epoch.
type rewindsToOffset struct{ node.Store }

// CatchUp implements node.Store.
func (s rewindsToOffset) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	request.Rewind = mapped(request.Rewind, func(p node.Place) node.Place { p.Epoch = node.UnknownEpoch; return p })
	return s.Store.CatchUp(ctx, request)
}

// rewindsAtOnce rewinds without marks, and without waiting for the claims of before.
type rewindsAtOnce struct{ node.Store }

// CatchUp implements node.Store.
func (s rewindsAtOnce) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	if len(request.Rewind) > 0 {
		request.Marks, request.Hold = nil, 0
	}
	return s.Store.CatchUp(ctx, request)
}
