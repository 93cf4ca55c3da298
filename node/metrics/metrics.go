// Package metrics counts and measures what a node does, for Prometheus.
//
// It has three sources, and none of them changes what the engine does: the events of the engine (events.go); what
// passes between the engine and its ports (ports.go, loops.go); and a sample of the store that is taken now and then
// in the background (sample.go). A scrape reads what is there, and asks nobody.
//
// All metrics are rows of one table (table.go). Labels have few values: lanes, topics and partitions come from the
// configuration and from Kafka, the others from lists in this program. No id is a label.
package metrics

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"chronos/node"
	"chronos/node/hours"
)

// Metrics are the metrics of one node. It is safe for concurrent use.
type Metrics struct {
	registry   *prometheus.Registry
	config     node.Config
	counters   map[string]*prometheus.CounterVec
	gauges     map[string]*prometheus.GaugeVec
	histograms map[string]*prometheus.HistogramVec

	served map[string]bool // the lanes that may be labels
	lanes  map[string]*laneMetrics
	loops  *Loops

	operations operations

	// held tells what the schedule holds; nil before the engine is there.
	held atomic.Pointer[func() ([]node.Held, time.Duration)]

	arrivals Arrivals
	hours    func(lane string, at time.Time) (hours.State, bool) // nil if nobody has said
	pace     pace

	mu      sync.Mutex
	intakes map[node.Partition]*intake
	sampled time.Time // when the last sample was taken; zero for never
	tags    map[string]uint64
	parked  map[node.Part]bool // that have a series
}

// laneMetrics are what is counted for each message.
type laneMetrics struct {
	fired, settled, scheduled, duplicate prometheus.Counter
	lateness                             prometheus.Observer
}

const (
	// other is the label of a lane that this node does not serve. Claims of such lanes are seen when nodes differ.
	other = "other"

	// nativeFactor is how much wider each bucket of a native histogram is than the one before: 10%.
	nativeFactor = 1.1
)

// New returns the metrics of a node of that configuration and version.
func New(config node.Config, version string) *Metrics {
	m := &Metrics{
		registry:   prometheus.NewRegistry(),
		config:     config,
		counters:   map[string]*prometheus.CounterVec{},
		gauges:     map[string]*prometheus.GaugeVec{},
		histograms: map[string]*prometheus.HistogramVec{},
		served:     map[string]bool{},
		lanes:      map[string]*laneMetrics{},
		loops:      newLoops(config),
		intakes:    map[node.Partition]*intake{},
		parked:     map[node.Part]bool{},
	}
	for _, row := range Table() {
		m.add(row)
	}
	for _, lane := range config.Lanes() {
		m.served[lane] = true
		m.addLane(lane)
	}
	m.addLane(other)
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		onScrape{m},
	)
	m.gauges["chronos_build_info"].WithLabelValues(version, runtime.Version()).Set(1)
	m.gauges["chronos_catching_up"].WithLabelValues().Set(0)
	m.Paused(nil)
	m.begin()
	return m
}

// add makes the metric that a row describes. Those that are made at a scrape are registered with onScrape.
func (m *Metrics) add(row Metric) {
	switch row.Kind {
	case Counter:
		if slices.Contains(scrapeCounters(), row.Name) {
			return
		}
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: row.Name, Help: row.Help}, row.Labels)
		m.registry.MustRegister(vec)
		m.counters[row.Name] = vec
	case Gauge:
		vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: row.Name, Help: row.Help}, row.Labels)
		m.gauges[row.Name] = vec
		if !slices.Contains(scrapeGauges(), row.Name) {
			m.registry.MustRegister(vec)
		}
	case Histogram:
		vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: row.Name, Help: row.Help, Buckets: row.Buckets,
			NativeHistogramBucketFactor:     nativeFactor,
			NativeHistogramMaxBucketNumber:  160,
			NativeHistogramMinResetDuration: time.Hour,
		}, row.Labels)
		m.registry.MustRegister(vec)
		m.histograms[row.Name] = vec
	}
}

func (m *Metrics) addLane(lane string) {
	m.lanes[lane] = &laneMetrics{
		fired:     m.counters["chronos_fired_total"].WithLabelValues(lane),
		settled:   m.counters["chronos_settled_total"].WithLabelValues(lane),
		scheduled: m.counters["chronos_intake_total"].WithLabelValues(lane, "scheduled"),
		duplicate: m.counters["chronos_intake_total"].WithLabelValues(lane, "duplicate"),
		lateness:  m.histograms["chronos_lateness_seconds"].WithLabelValues(lane),
	}
}

// begin has series start at zero, so that a first increase is seen as one.
func (m *Metrics) begin() {
	for _, row := range Table() {
		if vec := m.counters[row.Name]; vec != nil && len(row.Labels) == 0 {
			vec.WithLabelValues()
		}
	}
	for _, lane := range m.config.Lanes() {
		for _, name := range []string{
			"chronos_late_arrivals_total", "chronos_dead_lettered_total", "chronos_recovered_total",
			"chronos_abandoned_total", "chronos_released_total", "chronos_expired_total",
			"chronos_passed_over_total",
		} {
			m.counters[name].WithLabelValues(lane)
		}
		for _, permanent := range []string{"true", "false"} {
			m.counters["chronos_unpublished_total"].WithLabelValues(lane, permanent)
		}
	}
	m.beginCallbacks()
	m.beginJournal()
	for _, cause := range []string{"recovered", "gone_already", "unknown_outcome", "left_behind"} {
		m.counters["chronos_duplicate_risk_total"].WithLabelValues(cause)
	}
	for _, client := range []string{"source", "sink", "admin"} {
		m.counters["chronos_throttled_seconds_total"].WithLabelValues(client)
	}
	for _, cause := range []string{"message", "record"} {
		m.counters["chronos_locked_total"].WithLabelValues(cause)
	}
	for _, route := range m.config.Routes {
		m.counters["chronos_records_lost_total"].WithLabelValues(route.Input)
	}
}

// Registry returns where the metrics are, for a handler and for collectors of others.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

// Loops returns what the loops of the engine are doing.
func (m *Metrics) Loops() *Loops { return m.loops }

// lane returns what is counted for the messages of a lane.
func (m *Metrics) lane(name string) *laneMetrics {
	if l := m.lanes[name]; l != nil {
		return l
	}
	return m.lanes[other]
}

// label returns the label of a lane.
func (m *Metrics) label(lane string) string {
	if m.served[lane] {
		return lane
	}
	return other
}

func (m *Metrics) count(name string, n int, labels ...string) {
	m.counters[name].WithLabelValues(labels...).Add(float64(n))
}

func (m *Metrics) set(name string, value float64, labels ...string) {
	m.gauges[name].WithLabelValues(labels...).Set(value)
}

// Schedule has the metrics show what the schedule of the engine holds, and the timing advance.
func (m *Metrics) Schedule(held func() ([]node.Held, time.Duration)) { m.held.Store(&held) }

// Hours has the metrics show which lanes are open, and count lateness from when they have opened. It is called before
// any event.
func (m *Metrics) Hours(at func(lane string, at time.Time) (hours.State, bool)) {
	m.hours = at
	m.arrivals.Opened = func(lane string, when time.Time) time.Time {
		state, _ := at(lane, when)
		return state.Opened
	}
}

// Paused shows what is paused.
func (m *Metrics) Paused(pauses []node.Pause) {
	intake, lanes := 0.0, map[string]float64{}
	for _, lane := range m.config.Lanes() {
		lanes[m.label(lane)] = 0
	}
	for _, p := range pauses {
		if p.Lane == node.Intake {
			intake = 1
		} else {
			lanes[m.label(p.Lane)] = 1
		}
	}
	m.set("chronos_intake_paused", intake)
	for lane, paused := range lanes {
		m.set("chronos_paused", paused, lane)
	}
}

// Nodes shows how the nodes are that the store knows.
func (m *Metrics) Nodes(ready, notReady, silent int) {
	m.set("chronos_nodes", float64(ready), "ready")
	m.set("chronos_nodes", float64(notReady), "not_ready")
	m.set("chronos_nodes", float64(silent), "silent")
}

// Instructed counts an instruction that an operator has given past Kafka.
func (m *Metrics) Instructed(lane, action, outcome string) {
	m.count("chronos_operator_instructions_total", 1, m.label(lane), action, outcome)
}

// Asked counts an instruction that has come by the HTTP API.
func (m *Metrics) Asked(lane, action, outcome string) {
	m.count("chronos_http_instructions_total", 1, m.label(lane), action, outcome)
}

// Requested counts a request of the HTTP API, and how long its answer took. What no operation has served counts as
// none.
func (m *Metrics) Requested(operation string, status int, took time.Duration) {
	if operation == "" {
		operation = "none"
	}
	vec := m.histograms["chronos_http_request_seconds"]
	vec.WithLabelValues(operation, strconv.Itoa(status)).Observe(took.Seconds())
}

// Pool has the metrics show the connections of a pool.
func (m *Metrics) Pool(pool *pgxpool.Pool) { m.registry.MustRegister(newPoolCollector(pool)) }

// Ready has the metrics show whether the node is ready, asked at each scrape.
func (m *Metrics) Ready(ready func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "chronos_ready", Help: help("chronos_ready")}, func() float64 {
			if ready() {
				return 1
			}
			return 0
		}))
}

// Hears has the metrics show whether the node hears of what other processes store, asked at each scrape.
func (m *Metrics) Hears(hears func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "chronos_hears", Help: help("chronos_hears")}, func() float64 {
			if hears() {
				return 1
			}
			return 0
		}))
}

// help returns the help of a row of the table.
func help(name string) string {
	for _, row := range Table() {
		if row.Name == name {
			return row.Help
		}
	}
	return ""
}
