package sim_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"chronos/sim"
)

// TestAnyPlanHolds lets rapid draw the cluster, the submissions and the faults, rather than the seed. What it
// finds, our own shrinker makes smaller.
func TestAnyPlanHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := sim.DefaultOptions()
		o.Seed = rapid.Uint64().Draw(t, "seed")
		o.Nodes = rapid.IntRange(1, 4).Draw(t, "nodes")
		o.Partitions = rapid.IntRange(1, 4).Draw(t, "partitions")
		o.HoldTime = rapid.SampledFrom([]time.Duration{2500 * time.Millisecond, 5 * time.Second}).Draw(t, "hold")
		o.DeadLetter = rapid.Bool().Draw(t, "dead letter")
		setup := sim.Setup{Options: o, Plan: &sim.Plan{
			Messages: drawMessages(t), Faults: drawFaults(t, o.Nodes),
		}}
		if sim.Run(setup).Violation == nil {
			return
		}
		small, _ := sim.Shrink(setup, 1000)
		script := sim.Script{Options: small.Setup.Options, Plan: *small.Setup.Plan}
		var text strings.Builder
		_, _ = script.WriteTo(&text)
		t.Fatalf("%+v\n%s", small.Result.Violation, text.String())
	})
}

func drawMessages(t *rapid.T) []sim.Submission {
	n := rapid.IntRange(1, 20).Draw(t, "messages")
	messages := make([]sim.Submission, n)
	for i := range messages {
		m := &messages[i]
		m.Number = i + 1
		m.ID = rapid.SampledFrom([]string{"u", "v", "w", "x", "y", "z"}).Draw(t, "id")
		m.In = time.Duration(rapid.IntRange(-1000, 8000).Draw(t, "in")) * time.Millisecond
		if i > 0 && rapid.IntRange(0, 3).Draw(t, "follows") == 0 {
			m.After = rapid.IntRange(1, i).Draw(t, "after")
			m.At = time.Duration(rapid.IntRange(0, 50).Draw(t, "delay")) * time.Millisecond
		} else {
			m.At = time.Duration(rapid.IntRange(0, 20_000).Draw(t, "at")) * time.Millisecond
		}
		m.Flaw = rapid.SampledFrom([]string{"", "", "", "", sim.Poison, "no-id", "bad-deadline"}).Draw(t, "flaw")
	}
	return messages
}

func drawFaults(t *rapid.T, nodes int) []sim.Fault {
	faults := make([]sim.Fault, rapid.IntRange(0, 10).Draw(t, "faults"))
	kinds := sim.FaultKinds()
	for i := range faults {
		kind := rapid.SampledFrom(kinds).Draw(t, "kind")
		ops := sim.OpsOf(kind)
		f := &faults[i]
		f.Kind = kind
		f.Op = rapid.SampledFrom(ops).Draw(t, "op")
		f.Nth = rapid.IntRange(1, 30).Draw(t, "nth")
		f.For = time.Duration(rapid.IntRange(1, 12_000).Draw(t, "for")) * time.Millisecond
		f.Count = rapid.IntRange(0, 20).Draw(t, "count")
		if f.Op != sim.OpSubmit {
			f.Node = rapid.IntRange(1, nodes).Draw(t, "node")
		}
	}
	return faults
}
