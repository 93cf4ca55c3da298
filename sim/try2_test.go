package sim_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"chronos/sim"
)

func TestSwarmTry(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	total := sim.Coverage{}
	start := time.Now()
	bad := map[string]int{}
	undrained := 0
	var latest time.Duration
	for seed := range n {
		r := sim.Run(sim.Setup{Options: sim.Swarm(uint64(seed + 1))})
		total.Add(r.Coverage)
		latest = max(latest, r.Stats.Drained)
		if r.Violation == nil && r.Stats.Drained < 0 {
			undrained++
		}
		if r.Violation != nil {
			bad[r.Violation.Invariant]++
			if bad[r.Violation.Invariant] < 50 {
				fmt.Println(seed+1, r.Violation, sim.Swarm(uint64(seed+1)).Fates)
			}
		}
	}
	fmt.Println(time.Since(start), bad, undrained, latest, total, total.Missing())
}
