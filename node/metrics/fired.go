package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Bound is how many messages were at most so many seconds late. It counts those of lower bounds, too.
type Bound struct {
	Seconds float64 // +Inf for the last one
	Count   uint64
}

// Fired returns how many messages the node has fired since its start, on all lanes, and how late they were, by rising
// bounds.
func (m *Metrics) Fired() (fired uint64, lateness []Bound) {
	each(m.counters["chronos_fired_total"], func(sample *dto.Metric) {
		fired += uint64(sample.GetCounter().GetValue())
	})
	for _, seconds := range append(latenessBuckets(), math.Inf(1)) {
		lateness = append(lateness, Bound{Seconds: seconds})
	}
	each(m.histograms["chronos_lateness_seconds"], func(sample *dto.Metric) {
		h := sample.GetHistogram()
		for i, b := range h.GetBucket() {
			lateness[i].Count += b.GetCumulativeCount()
		}
		lateness[len(lateness)-1].Count += h.GetSampleCount()
	})
	return fired, lateness
}

// each calls a function with the sample of each lane.
func each(of prometheus.Collector, do func(*dto.Metric)) {
	samples := make(chan prometheus.Metric)
	go func() {
		defer close(samples)
		of.Collect(samples)
	}()
	for metric := range samples {
		var sample dto.Metric
		if err := metric.Write(&sample); err == nil { // they are made by us, and always can be written
			do(&sample)
		}
	}
}
