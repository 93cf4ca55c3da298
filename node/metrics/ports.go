package metrics

import (
	"context"
	"time"

	"chronos/node"
)

// Ports returns ports that do what others do, and are counted and measured. They add nothing to a call but that: they
// keep no argument and no result, and change none. The context of a call goes through as it is.
func (m *Metrics) Ports(ports node.Ports) node.Ports {
	p := &observed{metrics: m, clock: ports.Clock}
	counted := node.Ports{
		Clock:  &clock{ports.Clock, p},
		Store:  &store{ports.Store, p},
		Source: &source{ports.Source, p},
		Sink:   &sink{ports.Sink, p},

		Callable: ports.Callable, Hears: ports.Hears,
	}
	if ports.Settling != nil {
		counted.Settling = &settling{ports.Settling, p}
	}
	if ports.Callback != nil {
		counted.Callback = &calls{ports.Callback, p}
	}
	return counted
}

// observed is what the ports of a node have in common.
type observed struct {
	metrics *Metrics
	clock   node.Clock
}

// call is one call of a port.
type call struct {
	observed *observed
	port     node.Port
	name     string
	may      time.Duration
	loop     *loop
	began    time.Duration
	idle     bool // there was no work in it, so that its success shows nothing
}

func (o *observed) begin(ctx context.Context, port node.Port, name string, may time.Duration) call {
	loop := o.metrics.loops.enter(ctx, "calls "+string(port)+": "+name, may)
	return call{observed: o, port: port, name: name, may: may, loop: loop, began: o.clock.Mono()}
}

// end takes note of how the call went.
func (c *call) end(ctx context.Context, err error) {
	m := c.observed.metrics
	took := c.observed.clock.Mono() - c.began
	m.histograms["chronos_port_call_duration_seconds"].WithLabelValues(string(c.port), c.name).Observe(took.Seconds())
	m.pace.note(c.port, c.name, took)
	if err != nil && ctx.Err() == nil {
		m.count("chronos_port_errors_total", 1, string(c.port), c.name)
	}
	if err == nil && !c.idle || err != nil && ctx.Err() == nil {
		m.operations.note(c.port, c.name, err)
	}
	m.loops.leave(c.loop)
	m.turn(c.loop, took > c.may)
}

// turn counts a call or a rest that a loop has finished.
func (m *Metrics) turn(loop *loop, overrun bool) {
	if loop == nil {
		return
	}
	m.count("chronos_loop_turns_total", 1, string(loop.kind))
	over := 0
	if overrun {
		over = 1
	}
	m.count("chronos_loop_overruns_total", over, string(loop.kind))
}

// clock is a node.Clock whose rests are known.
type clock struct {
	node.Clock

	observed *observed
}

// Sleep implements node.Clock.
func (c *clock) Sleep(ctx context.Context, d time.Duration) {
	done := c.observed.rest(ctx, d)
	c.Clock.Sleep(ctx, d)
	done()
}

// Bell implements node.Clock.
func (c *clock) Bell() node.Bell { return &bell{c.Clock.Bell(), c.observed} }

type bell struct {
	node.Bell

	observed *observed
}

// Sleep implements node.Bell.
func (b *bell) Sleep(ctx context.Context, d time.Duration) {
	done := b.observed.rest(ctx, d)
	b.Bell.Sleep(ctx, d)
	done()
}

// rest takes note of a rest, until the result is called.
func (o *observed) rest(ctx context.Context, d time.Duration) func() {
	loop, began := o.metrics.loops.rest(ctx, d), o.clock.Mono()
	return func() {
		o.metrics.loops.leave(loop)
		o.metrics.turn(loop, o.clock.Mono()-began > max(0, d)+slack)
	}
}

// store is a node.Store whose calls are counted.
type store struct {
	node.Store

	observed *observed
}

var _ node.Store = (*store)(nil)

func (s *store) begin(ctx context.Context, name string) call {
	return s.observed.begin(ctx, node.PortStore, name, s.observed.metrics.config.StoreTimeout())
}

// Bind implements node.Store.
func (s *store) Bind(ctx context.Context, request node.BindRequest) (node.Bound, error) {
	c := s.begin(ctx, "bind")
	bound, err := s.Store.Bind(ctx, request)
	c.end(ctx, err)
	return bound, err
}

// Positions implements node.Store.
func (s *store) Positions(ctx context.Context, places []node.Place) ([]node.Position, node.State, error) {
	c := s.begin(ctx, "positions")
	positions, state, err := s.Store.Positions(ctx, places)
	c.idle = len(places) == 0
	c.end(ctx, err)
	if err == nil {
		s.observed.metrics.state(state)
		if len(positions) == len(places) {
			s.observed.metrics.moved(places, positions, nil)
		}
	}
	return positions, state, err
}

// Take implements node.Store.
func (s *store) Take(ctx context.Context, request node.TakeRequest) (node.TakeResult, error) {
	c := s.begin(ctx, "take")
	result, err := s.Store.Take(ctx, request)
	c.end(ctx, err)
	if err == nil {
		s.observed.metrics.state(result.State)
		if len(result.Positions) == len(request.From) {
			s.observed.metrics.moved(request.From, result.Positions, result.Refused)
		}
	}
	return result, err
}

// CatchUp implements node.Store.
func (s *store) CatchUp(ctx context.Context, request node.CatchUpRequest) (node.State, error) {
	c := s.begin(ctx, "catch_up")
	state, err := s.Store.CatchUp(ctx, request)
	c.end(ctx, err)
	if err == nil {
		s.observed.metrics.state(state)
	}
	return state, err
}

// Claim implements node.Store.
func (s *store) Claim(ctx context.Context, request node.ClaimRequest) (node.ClaimResult, error) {
	c := s.begin(ctx, "claim")
	result, err := s.Store.Claim(ctx, request)
	c.end(ctx, err)
	if err == nil {
		s.observed.metrics.state(result.State)
	}
	return result, err
}

// Settle implements node.Store.
func (s *store) Settle(ctx context.Context, next []node.Next) ([]node.Settled, error) {
	c := s.begin(ctx, "settle")
	settled, err := s.Store.Settle(ctx, next)
	c.end(ctx, err)
	return settled, err
}

// Expired implements node.Store.
func (s *store) Expired(ctx context.Context, limit int) ([]node.Claim, error) {
	c := s.begin(ctx, "expired")
	claims, err := s.Store.Expired(ctx, limit)
	c.end(ctx, err)
	return claims, err
}

// Parts implements node.Store.
func (s *store) Parts(ctx context.Context) ([]node.Part, error) {
	c := s.begin(ctx, "parts")
	parts, err := s.Store.Parts(ctx)
	c.end(ctx, err)
	return parts, err
}

// Reset implements node.Store.
func (s *store) Reset(ctx context.Context, releases []node.Release) ([]node.Settled, error) {
	c := s.begin(ctx, "reset")
	reset, err := s.Store.Reset(ctx, releases)
	c.end(ctx, err)
	return reset, err
}

// state shows what the store has said of itself.
func (m *Metrics) state(state node.State) {
	m.set("chronos_lineage", float64(state.Lineage))
	catching := 0.0
	if !state.Claims() {
		catching = 1
	}
	m.set("chronos_catching_up", catching)
}

// source is a node.Source whose calls are counted, and whose partitions are known.
type source struct {
	node.Source

	observed *observed
}

var _ node.Source = (*source)(nil)

// sourceLimit is how long a call of the source may take: all of them are bounded by some seconds.
const sourceLimit = 10 * time.Second

func (s *source) begin(ctx context.Context, name string) call {
	return s.observed.begin(ctx, node.PortSource, name, sourceLimit)
}

// Poll implements node.Source.
func (s *source) Poll(ctx context.Context) (node.Batch, error) {
	c := s.begin(ctx, "poll")
	batch, err := s.Source.Poll(ctx)
	c.end(ctx, err)
	s.observed.metrics.polled(batch)
	return batch, err
}

// Start implements node.Source.
func (s *source) Start(ctx context.Context, places []node.Place) error {
	c := s.begin(ctx, "start")
	err := s.Source.Start(ctx, places)
	c.end(ctx, err)
	return err
}

// Commit implements node.Source.
func (s *source) Commit(ctx context.Context, places []node.Place) error {
	c := s.begin(ctx, "commit")
	err := s.Source.Commit(ctx, places)
	c.end(ctx, err)
	return err
}

// Extents implements node.Source.
func (s *source) Extents(ctx context.Context) ([]node.Extent, error) {
	c := s.begin(ctx, "extents")
	extents, err := s.Source.Extents(ctx)
	c.end(ctx, err)
	return extents, err
}

// Leave implements node.Source.
func (s *source) Leave(ctx context.Context) error {
	c := s.begin(ctx, "leave")
	err := s.Source.Leave(ctx)
	c.end(ctx, err)
	s.observed.metrics.left()
	return err
}

// sink is a node.Sink whose calls are counted.
type sink struct {
	node.Sink

	observed *observed
}

var _ node.Sink = (*sink)(nil)

// Publish implements node.Sink.
func (s *sink) Publish(ctx context.Context, records []node.Record) []error {
	m := s.observed.metrics
	c := s.observed.begin(ctx, node.PortSink, "publish", m.config.PublishTimeout())
	inFlight := m.gauges["chronos_publishes_in_flight"].WithLabelValues()
	inFlight.Add(float64(len(records)))
	errs := s.Sink.Publish(ctx, records)
	inFlight.Sub(float64(len(records)))
	c.end(ctx, allFailed(errs))
	return errs
}

// settling is a node.Settling whose calls are counted, as those of a sink are.
type settling struct {
	node.Settling

	observed *observed
}

var _ node.Settling = (*settling)(nil)

// Fire implements node.Settling.
func (s *settling) Fire(ctx context.Context, records []node.Record, next []node.Next) ([]node.Settled, []error) {
	m := s.observed.metrics
	c := s.observed.begin(ctx, node.PortSink, "publish", m.config.PublishTimeout())
	inFlight := m.gauges["chronos_publishes_in_flight"].WithLabelValues()
	inFlight.Add(float64(len(records)))
	settled, errs := s.Settling.Fire(ctx, records, next)
	inFlight.Sub(float64(len(records)))
	c.end(ctx, allFailed(errs))
	return settled, errs
}

// allFailed returns an error if nothing came through: what one record meets is about its topic, its partition or
// itself.
func allFailed(errs []error) error {
	for _, err := range errs {
		if err == nil {
			return nil
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}
