package sim_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"chronos/sim"
)

// chaosOptions are the profile that the speed goals are stated for: 1 to 5 nodes, 30 s of faults, 40 s healed.
func chaosOptions(seed uint64) sim.Options {
	o := sim.Swarm(seed)
	o.Messages, o.Routes = 300, 1
	o.FaultRate = 100
	o.Faulty, o.Healed, o.Drain = 30*time.Second, 40*time.Second, false
	return o
}

// BenchmarkChaos reports how many seeds of the chaos profile run in a second.
func BenchmarkChaos(b *testing.B) {
	var virtual time.Duration
	var events uint64
	seed := uint64(0)
	for b.Loop() {
		seed++
		r := sim.Run(sim.Setup{Options: chaosOptions(seed)})
		virtual += r.Stats.Virtual
		events += r.Stats.Events
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(b.N)/seconds, "seeds/s")
	b.ReportMetric(virtual.Seconds()/seconds, "virtual-s/s")
	b.ReportMetric(float64(events)/seconds, "events/s")
}

// BenchmarkCluster reports how fast large clusters run under 1,000 messages a second.
func BenchmarkCluster(b *testing.B) {
	for _, nodes := range []int{3, 10, 100, 1000, 5000} {
		b.Run(fmt.Sprint(nodes), func(b *testing.B) {
			var virtual time.Duration
			var events uint64
			for b.Loop() {
				o := sim.DefaultOptions()
				o.Nodes, o.Partitions = nodes, max(nodes, 4)
				o.Faulty, o.Healed = 60*time.Second, 10*time.Second
				o.Messages, o.Horizon = 60_000, 2*time.Second
				r := sim.Run(sim.Setup{Options: o})
				if r.Violation != nil {
					b.Fatal(r.Violation)
				}
				virtual += r.Stats.Virtual
				events += r.Stats.Events
			}
			seconds := b.Elapsed().Seconds()
			b.ReportMetric(virtual.Seconds()/seconds, "virtual-s/s")
			b.ReportMetric(float64(events)/seconds, "events/s")
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys)/1e6, "MB")
		})
	}
}
