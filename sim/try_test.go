package sim_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"chronos/sim"
)

func TestTrace(t *testing.T) {
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	o := sim.DefaultOptions()
	o.FaultRate = 100
	o.Seed = uint64(seed)
	if os.Getenv("SWARM") != "" {
		o = sim.Swarm(uint64(seed))
	}
	setup := sim.Setup{Options: o}
	s, ok := sim.Shrink(setup, 3000)
	fmt.Println(ok, s.Runs, s.Result.Violation)
	if !ok {
		return
	}
	script := sim.Script{Options: s.Setup.Options, Plan: *s.Setup.Plan}
	script.WriteTo(os.Stdout)
	s.Setup.Observe = func(st *sim.Step) {
		if st.Kind == "applied" && slices.Contains([]sim.Op{"ready", "stuck"}, st.Op) {
			return
		}
		line := st.String()
		fmt.Println(line[:min(len(line), 400)])
	}
	sim.Run(s.Setup)
}
