package metrics

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"chronos/node"
	"chronos/node/store/outlook"
)

// SampleInterval is the time between two samples.
const SampleInterval = 15 * time.Second

// Sampler takes a look at the store and at the ends of the input topics now and then, for what no event tells. It runs
// beside the engine, and waits for it nowhere.
type Sampler struct {
	Metrics *Metrics
	Store   outlook.Source

	// Lanes are the lanes that routes name, and Found tells of others on which messages wait; nil if there are none. In
	// the metrics the latter are one, "other".
	Lanes []string
	Found func(ctx context.Context) ([]string, error)

	// Ends returns what the input partitions hold; nil if nobody can tell.
	Ends func(ctx context.Context) ([]node.Extent, error)

	// Places returns how far the store has taken in all partitions; nil if it does not tell. It is asked where this
	// node has given partitions up.
	Places func(ctx context.Context) ([]node.Place, error)

	// Seen is told of each outlook, and of each failure to take one; nil if nobody wants them.
	Seen func(seen outlook.Outlook, err error)
}

// Run takes samples until ctx is done.
func (s *Sampler) Run(ctx context.Context) {
	ticker := time.NewTicker(SampleInterval)
	defer ticker.Stop()
	for {
		s.Sample(ctx)
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sample takes one.
func (s *Sampler) Sample(ctx context.Context) {
	began := time.Now()
	seen, err := s.look(ctx, began)
	if ctx.Err() != nil {
		return
	}
	m := s.Metrics
	m.set("chronos_sample_duration_seconds", time.Since(began).Seconds())
	if err != nil || seen.Incomplete {
		m.count("chronos_sample_errors_total", 1)
	}
	if err == nil && seen.Partitions != nil && len(seen.Partitions) == 0 && m.Unsure(node.PortSource) {
		err = errNotOwned // it has lost what it had: what is overdue there still is
	}
	if err == nil {
		shown := seen
		if s.Found != nil {
			shown.Lanes = m.byLabel(seen.Lanes)
		}
		m.show(&shown, began)
	}
	if s.Seen != nil {
		s.Seen(seen, err)
	}
	if s.Ends == nil {
		return
	}
	if extents, err := s.Ends(ctx); err == nil {
		m.reach(extents)
	}
	if s.Places == nil || !m.Gave() {
		return
	}
	if places, err := s.Places(ctx); err == nil {
		m.Elsewhere(places)
	}
}

// errNotOwned says that an outlook of nothing is no outlook.
var errNotOwned = errors.New("this node has no partition of the journal at present")

// look returns what waits on all lanes.
func (s *Sampler) look(ctx context.Context, now time.Time) (outlook.Outlook, error) {
	lanes := s.Lanes
	if s.Found != nil {
		found, err := s.Found(ctx)
		if err != nil {
			return outlook.Outlook{}, err
		}
		lanes = slices.Concat(lanes, found)
	}
	return s.Store.Outlook(ctx, outlook.Request{Now: now, Lanes: lanes}) //nolint:wrapcheck // it is only counted
}

// byLabel adds up what waits on lanes that have one label. The last is for all that no route names, also if there are
// none.
func (m *Metrics) byLabel(lanes []outlook.Lane) []outlook.Lane {
	all := outlook.Lane{Name: other, Within: make([]outlook.Count, len(outlook.Horizons()))}
	earlier := func(a, b time.Time) time.Time {
		if a.IsZero() || !b.IsZero() && b.Before(a) {
			return b
		}
		return a
	}
	var named []outlook.Lane
	for i := range lanes {
		l := &lanes[i]
		if m.served[l.Name] {
			named = append(named, *l)
			continue
		}
		all.Waiting.Add(l.Waiting)
		all.Claimed.Add(l.Claimed)
		all.Overdue.Add(l.Overdue)
		all.Parked = append(all.Parked, l.Parked...)
		all.Oldest, all.Next = earlier(all.Oldest, l.Oldest), earlier(all.Next, l.Next)
		for h := range all.Within {
			all.Within[h].Add(l.Within[h])
		}
	}
	return append(named, all)
}

// show shows an outlook.
func (m *Metrics) show(seen *outlook.Outlook, now time.Time) {
	m.mu.Lock()
	m.sampled = now
	m.mu.Unlock()
	if !seen.Clock.IsZero() {
		m.set("chronos_clock_offset_seconds", seen.Clock.Sub(seen.At).Seconds(), "store")
	}
	m.showParked(seen.Lanes)
	for i := range seen.Lanes {
		lane := &seen.Lanes[i]
		label := m.label(lane.Name)
		m.set("chronos_waiting", number(lane.Waiting), label)
		m.set("chronos_claimed", number(lane.Claimed), label)
		m.set("chronos_overdue", number(lane.Overdue), label)
		switch {
		case lane.Overdue.Unknown:
			m.set("chronos_oldest_overdue_seconds", math.NaN(), label)
		case lane.Oldest.IsZero():
			m.set("chronos_oldest_overdue_seconds", 0, label)
		default:
			m.set("chronos_oldest_overdue_seconds", now.Sub(lane.Oldest).Seconds(), label)
		}
		if lane.Next.IsZero() {
			m.gauges["chronos_next_due_timestamp_seconds"].DeleteLabelValues(label)
		} else {
			m.set("chronos_next_due_timestamp_seconds", float64(lane.Next.UnixMicro())/1e6, label)
		}
		for h, name := range horizonNames() {
			m.set("chronos_upcoming", number(lane.Within[h]), label, name)
		}
		estimated := 0.0
		if lane.Estimated() {
			estimated = 1
		}
		m.set("chronos_counts_estimated", estimated, label)
	}
}

// showParked shows what is parked on parts of lanes: on outlook.MaxParked of a lane by their names, on the rest of
// them, and on those of lanes that no route names, together.
func (m *Metrics) showParked(lanes []outlook.Lane) {
	waiting := map[node.Part]float64{}
	for i := range lanes {
		label := m.label(lanes[i].Name)
		rest := node.Part{Lane: label, Name: other}
		waiting[rest] += 0
		for n, p := range lanes[i].Parked {
			at := node.Part{Lane: label, Name: p.Part}
			if label == other || n >= outlook.MaxParked {
				at = rest
			}
			waiting[at] += number(p.Waiting)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for at := range m.parked {
		if _, still := waiting[at]; !still {
			m.gauges[parkedMetric].DeleteLabelValues(at.Lane, at.Name)
			delete(m.parked, at)
		}
	}
	for at, n := range waiting {
		m.parked[at] = true
		m.set(parkedMetric, n, at.Lane, at.Name)
	}
}

// parkedMetric counts what is parked.
const parkedMetric = "chronos_parked_messages"

// horizonNames are the labels of outlook.Horizons.
func horizonNames() []string { return []string{"1m", "10m", "1h", "24h"} }

// number is a count as a metric has it: what is unknown is not a number.
func number(c outlook.Count) float64 {
	if c.Unknown {
		return math.NaN()
	}
	return float64(c.N)
}
