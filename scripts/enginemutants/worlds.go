package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"chronos/sim"
)

// runScenarios runs all named scenarios and the plans that found a mistake once.
func runScenarios() error {
	scripts, err := sim.Scenarios()
	if err != nil {
		return err
	}
	kept, err := sim.Scripts(os.DirFS("sim/testdata/kept"))
	if err != nil {
		return err
	}
	for _, s := range slices.Concat(scripts, kept) {
		setup, err := s.Setup()
		if err != nil {
			return err
		}
		result := sim.Run(setup)
		broken := ""
		if v := result.Violation; v != nil {
			broken = v.Invariant
		}
		if broken != s.Expect {
			return fmt.Errorf("%s: %s", s.Name, broken)
		}
		for _, name := range s.Never {
			if result.Coverage[name] > 0 {
				return fmt.Errorf("%s: %s", s.Name, name)
			}
		}
		for _, name := range s.Sometimes {
			if result.Coverage[name] == 0 {
				return fmt.Errorf("%s: no %s", s.Name, name)
			}
		}
	}
	return nil
}

// runWorlds runs worlds that are drawn from so many seeds, on all cores.
func runWorlds(from, seeds uint64, follow bool) error {
	var next atomic.Uint64
	next.Store(from - 1)
	last := from + seeds - 1
	var mu sync.Mutex
	var first error
	var workers sync.WaitGroup
	for range runtime.NumCPU() {
		workers.Go(func() {
			for seed := next.Add(1); seed <= last; seed = next.Add(1) {
				if v := sim.Run(sim.Setup{Options: sim.Swarm(seed), Proof: follow}).Violation; v != nil {
					mu.Lock()
					defer mu.Unlock()
					if first == nil {
						first = fmt.Errorf("%d: %s", seed, v.Invariant)
					}
					next.Store(last)
					return
				}
			}
		})
	}
	workers.Wait()
	return first
}
