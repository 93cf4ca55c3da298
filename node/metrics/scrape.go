package metrics

import (
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// scrapeGauges are the metrics that are made when they are asked for, from what is there at that moment.
func scrapeGauges() []string {
	return []string{
		"chronos_position", "chronos_lag_records", "chronos_partitions", "chronos_schedule_messages",
		"chronos_schedule_fill_ratio", "chronos_timing_advance_seconds", "chronos_operation_failing_seconds",
		"chronos_intake_waiting_seconds",
		"chronos_sample_age_seconds", "chronos_ready", "chronos_hears", "chronos_store_pool_connections",
		"chronos_lane_open", "chronos_lane_changes_timestamp_seconds",
	}
}

// scrapeCounters are the counters of the pool, which counts by itself.
func scrapeCounters() []string {
	return []string{
		"chronos_store_pool_acquires_total", "chronos_store_pool_waits_total", "chronos_store_pool_wait_seconds_total",
	}
}

// onScrape makes metrics from what is there.
type onScrape struct{ *Metrics }

// Describe implements prometheus.Collector. What is described nowhere may be anything.
func (m onScrape) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m onScrape) Collect(out chan<- prometheus.Metric) {
	gauge := func(name string, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(descOf(name), prometheus.GaugeValue, value, labels...)
	}
	reads, now := 0, time.Now()
	for _, i := range m.Intakes() {
		if !i.Left {
			reads++
		}
		partition, waits := strconv.Itoa(int(i.Number)), 0.0
		if !i.Since.IsZero() {
			waits = now.Sub(i.Since).Seconds()
		}
		gauge("chronos_position", float64(i.Position), i.Topic, partition)
		gauge("chronos_lag_records", float64(max(0, i.End-i.Position)), i.Topic, partition)
		gauge("chronos_intake_waiting_seconds", waits, i.Topic, partition)
	}
	gauge("chronos_partitions", float64(reads))
	m.mu.Lock()
	if !m.sampled.IsZero() {
		gauge("chronos_sample_age_seconds", time.Since(m.sampled).Seconds())
	}
	m.mu.Unlock()
	if held := m.held.Load(); held != nil {
		lanes, advance := (*held)()
		messages, fill := map[string]float64{}, map[string]float64{} // by the label, which lanes may share
		for _, lane := range lanes {
			label := m.label(lane.Lane)
			messages[label] += float64(lane.Messages)
			fill[label] = max(fill[label],
				float64(lane.Messages)/float64(lane.MaxMessages), float64(lane.Bytes)/float64(lane.MaxBytes))
		}
		for label := range messages {
			gauge("chronos_schedule_messages", messages[label], label)
			gauge("chronos_schedule_fill_ratio", fill[label], label)
		}
		gauge("chronos_timing_advance_seconds", advance.Seconds())
	}
	if m.hours != nil {
		for _, lane := range m.config.Lanes() {
			state, has := m.hours(lane, time.Now())
			open := 1.0
			if has && !state.Open {
				open = 0
			}
			gauge("chronos_lane_open", open, lane)
			if !state.Changes.IsZero() {
				gauge("chronos_lane_changes_timestamp_seconds", float64(state.Changes.Unix()), lane)
			}
		}
	}
	for _, o := range m.Operations() {
		failing := 0.0
		if o.Failing {
			failing = now.Sub(o.Since).Seconds()
		}
		gauge("chronos_operation_failing_seconds", failing, string(o.Port), o.Call)
	}
}

// descOf describes a row of the table.
func descOf(name string) *prometheus.Desc {
	for _, row := range Table() {
		if row.Name == name {
			return prometheus.NewDesc(row.Name, row.Help, row.Labels, nil)
		}
	}
	return prometheus.NewInvalidDesc(noRowError(name))
}

type noRowError string

func (e noRowError) Error() string { return "the table has no metric " + string(e) }

// poolCollector shows the connections to Postgres.
type poolCollector struct{ pool *pgxpool.Pool }

func newPoolCollector(pool *pgxpool.Pool) poolCollector { return poolCollector{pool} }

// Describe implements prometheus.Collector.
func (c poolCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c poolCollector) Collect(out chan<- prometheus.Metric) {
	stat := c.pool.Stat()
	for state, n := range map[string]int32{
		"acquired": stat.AcquiredConns(), "idle": stat.IdleConns(), "constructing": stat.ConstructingConns(),
		"max": stat.MaxConns(),
	} {
		out <- prometheus.MustNewConstMetric(
			descOf("chronos_store_pool_connections"), prometheus.GaugeValue, float64(n), state)
	}
	for name, value := range map[string]float64{
		"chronos_store_pool_acquires_total":     float64(stat.AcquireCount()),
		"chronos_store_pool_waits_total":        float64(stat.EmptyAcquireCount()),
		"chronos_store_pool_wait_seconds_total": stat.AcquireDuration().Seconds(),
	} {
		out <- prometheus.MustNewConstMetric(descOf(name), prometheus.CounterValue, value)
	}
}
