package sim_test

import (
	"fmt"
	"testing"
	"time"

	"chronos/sim"
)

func TestTry(t *testing.T) {
	o := sim.DefaultOptions()
	o.FaultRate = 0
	start := time.Now()
	for seed := range 20 {
		o.Seed = uint64(seed + 1)
		r := sim.Run(sim.Setup{Options: o})
		if seed == 0 || r.Violation != nil {
			fmt.Println(seed, r.Hash, r.Violation, r.Stats, r.Coverage)
		}
		if r2 := sim.Run(sim.Setup{Options: o}); r2.Hash != r.Hash {
			t.Error("hash", seed)
		}
	}
	fmt.Println(time.Since(start))
	o.FaultRate = 100
	start = time.Now()
	total := sim.Coverage{}
	for seed := range 100 {
		o.Seed = uint64(seed + 1)
		r := sim.Run(sim.Setup{Options: o})
		total.Add(r.Coverage)
		if r.Violation != nil || r.Stats.Drained < 0 {
			fmt.Println(o.Seed, r.Hash, r.Violation, r.Stats)
		}
	}
	fmt.Println(time.Since(start), total, total.Missing())
}
