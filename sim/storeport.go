package sim

import (
	"context"
	"slices"
	"time"

	"chronos/node"
)

// storePort is the Store port of one life: it turns each call into a transaction. The arguments are copied, because a
// request can arrive long after the call has returned.
type storePort struct{ life *life }

var _ node.Store = (*storePort)(nil)

// transaction begins a call.
func (p *storePort) transaction(op numberedOp, e effect, size int, concerns func() []int) *transaction {
	t := &transaction{call: p.life.begin(op, &p.life.host.storeLink, concerns), effect: e}
	t.size = size
	return t
}

// Bind implements node.Store.
func (p *storePort) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	request.Adopt = slices.Clone(request.Adopt)
	e := &bind{request: request}
	if err := p.transaction(opBind, e, 0, nil).perform(ctx); err != nil {
		return node.Bound{}, err
	}
	return e.bound, nil
}

// Positions implements node.Store.
func (p *storePort) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	e := &positions{places: slices.Clone(places)}
	if err := p.transaction(opPositions, e, 0, nil).perform(ctx); err != nil {
		return nil, node.State{}, err
	}
	return e.result, e.state, nil
}

// Take implements node.Store.
func (p *storePort) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	request.From, request.Items = slices.Clone(request.From), slices.Clone(request.Items)
	size := 0
	for i := range request.Items {
		size += request.Items[i].Size()
		p.life.host.world.digest.text(request.Items[i].ID)
	}
	e := &take{request: request}
	err := p.transaction(opTake, e, size, func() []int {
		return mapped(request.Items, func(i node.Item) int {
			if i.From == node.NoPlace {
				return p.life.host.world.recorder.past[i.Incarnation]
			}
			return numberIn(i.Headers)
		})
	}).perform(ctx)
	if slices.ContainsFunc(request.Items, func(i node.Item) bool { return i.From == node.NoPlace }) {
		p.life.tells() // whatever has become of it: it may have taken effect
	}
	if err != nil {
		return node.TakeResult{}, err
	}
	p.life.host.world.recorder.answeredTake(p.life, &request, &e.result)
	if f := p.life.host.world.follow; f != nil {
		for i := range e.result.Results {
			if c := e.result.Results[i].Claim; claimed(c) {
				f.told(c)
			}
		}
	}
	return e.result, nil
}

// CatchUp implements node.Store.
func (p *storePort) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	request.Marks, request.Rewind = slices.Clone(request.Marks), slices.Clone(request.Rewind)
	e := &catchUp{request: request}
	if err := p.transaction(opCatchUp, e, 0, nil).perform(ctx); err != nil {
		return node.State{}, err
	}
	return e.state, nil
}

// Claim implements node.Store.
func (p *storePort) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	request.Lanes = slices.Clone(request.Lanes)
	e := &claim{request: request}
	if err := p.transaction(opClaim, e, 0, nil).perform(ctx); err != nil {
		return node.ClaimResult{}, err
	}
	p.life.misread(e.result.Messages)
	if f := p.life.host.world.follow; f != nil {
		for i := range e.result.Messages {
			f.told(e.result.Messages[i].Claim)
		}
	}
	return e.result, nil
}

// misread makes series unreadable for a process whose machine lacks their time zones.
func (l *life) misread(claimed []node.Ready) {
	if l.host.world.now >= l.host.unread {
		return
	}
	for i := range claimed {
		if m := &claimed[i]; m.Recurs() {
			m.Series = "in a zone that is missing here: " + m.Series
			l.host.world.recorder.unread(l, m)
		}
	}
}

// Settle implements node.Store. To the faults it is a delete.
func (p *storePort) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	e := &settle{found: found{items: len(next)}, next: slices.Clone(next)}
	if f := p.life.host.world.follow; f != nil {
		for i := range next {
			if next[i].PassesOver() {
				f.passes(p.life, &next[i])
			} else {
				f.settles(p.life, next[i].Of)
			}
		}
	}
	err := p.transaction(opDelete, e, 0, func() []int {
		return mapped(next, func(n node.Next) int { return p.life.host.world.recorder.numberOf(n.Of) })
	}).perform(ctx)
	if err != nil {
		return nil, err
	}
	return e.done, nil
}

// Parts implements node.Store.
func (p *storePort) Parts(ctx context.Context) ([]node.Part, error) {
	e := &parts{}
	if err := p.transaction(opParts, e, 0, nil).perform(ctx); err != nil {
		return nil, err
	}
	return e.result, nil
}

// Expired implements node.Store.
func (p *storePort) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	e := &expired{most: limit, server: p.life.host.world.store}
	if err := p.transaction(opExpired, e, 0, nil).perform(ctx); err != nil {
		return nil, err
	}
	p.life.host.world.digest.number(uint64(len(e.claims)))
	return e.claims, nil
}

// Reset implements node.Store.
func (p *storePort) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	e := &giveBack{found: found{items: len(releases)}, releases: slices.Clone(releases)}
	if f := p.life.host.world.follow; f != nil {
		for i := range releases {
			f.resets(p.life, &releases[i])
		}
	}
	for i := range releases {
		p.life.passes(releases[i].Lane, "window-shut", false)
		p.life.host.world.digest.text(releases[i].ID)
	}
	err := p.transaction(opReset, e, 0, func() []int {
		return mapped(releases, func(r node.Release) int { return p.life.host.world.recorder.numberOf(r.Ref) })
	}).perform(ctx)
	p.life.tells() // whoever gives back may stand back from the lane
	if err != nil {
		return nil, err
	}
	return e.done, nil
}

// storeTimeout is the time limit that node.Config sets to a call of the store.
func (o *Options) storeTimeout() time.Duration {
	return (&node.Config{HoldTime: o.HoldTime}).StoreTimeout()
}

// publishTimeout is the time limit that node.Config sets to a publish.
func (o *Options) publishTimeout() time.Duration {
	return (&node.Config{HoldTime: o.HoldTime}).PublishTimeout()
}
