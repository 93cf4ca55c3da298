package metrics

import (
	"context"

	"chronos/node"
	"chronos/node/callback"
)

// requestBuckets are those of requests to others, which may take as long as their lane allows.
func requestBuckets() []float64 {
	return []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60}
}

func callbackRows() []Metric {
	return []Metric{
		{
			Name: "chronos_callbacks_total", Kind: Counter, Labels: []string{"lane", "class"},
			Help: "Requests of callback lanes by what came of them: 2xx, 3xx, 4xx and 5xx of answers, timeout, and " +
				"error for a connection that failed. The lanes that no setting names are one: other.",
			Look: "All but 2xx are tried again. The log has the hosts and the reasons.",
		},
		{
			Name: "chronos_callback_retries_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Those of these requests that were not the first of their message.",
		},
		{
			Name: "chronos_callback_duration_seconds", Kind: Histogram, Labels: []string{"lane"},
			Buckets: requestBuckets(),
			Help:    "How long requests of callback lanes took, with the failed ones.",
			Look: "What a receiver needs. `chronos_lateness_seconds` of the lane is this and the retries on top of " +
				"how late the requests were.",
		},
		{
			Name: "chronos_callbacks_in_flight", Kind: Gauge,
			Help: "Requests of callback lanes that are under way or wait for their host's turn.",
			Look: "Steady at 128, or at the concurrency of a lane: receivers are too slow for what is due.",
		},
		{
			Name: "chronos_callbacks_given_up_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Messages of callback lanes that ended without a good answer: refused for good, or failed for as " +
				"long as their lane tries again.",
			Look: "The log names each, with the reason; the dead letters of the lane have them, if it has any.",
		},
	}
}

// Call counts a request of a callback lane.
func (m *Metrics) Call(call callback.Call) {
	lane := m.label(call.Lane)
	m.count("chronos_callbacks_total", 1, lane, call.Class)
	m.histograms["chronos_callback_duration_seconds"].WithLabelValues(lane).Observe(call.Took.Seconds())
	if call.Attempt > 1 {
		m.count("chronos_callback_retries_total", 1, lane)
	}
}

// beginCallbacks has the series of callback lanes start at zero.
func (m *Metrics) beginCallbacks() {
	if !m.config.Calls() {
		return
	}
	for lane := range m.lanes {
		if !node.IsCallback(lane) && lane != other {
			continue
		}
		for _, class := range []string{"2xx", "3xx", "4xx", "5xx", "timeout", "error"} {
			m.counters["chronos_callbacks_total"].WithLabelValues(lane, class)
		}
		m.counters["chronos_callback_retries_total"].WithLabelValues(lane)
		m.counters["chronos_callbacks_given_up_total"].WithLabelValues(lane)
	}
}

// calls is the sink of callbacks, whose calls are counted.
type calls struct {
	node.Sink

	observed *observed
}

var _ node.Sink = (*calls)(nil)

// Publish implements node.Sink.
func (s *calls) Publish(ctx context.Context, records []node.Record) []error {
	m := s.observed.metrics
	c := s.observed.begin(ctx, node.PortCallback, "publish", m.config.CallbackHoldTime()*4/10)
	inFlight := m.gauges["chronos_callbacks_in_flight"].WithLabelValues()
	inFlight.Add(float64(len(records)))
	errs := s.Sink.Publish(ctx, records)
	inFlight.Sub(float64(len(records)))
	c.end(ctx, allFailed(errs))
	return errs
}
