package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

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
	workers, ctx := errgroup.WithContext(context.Background())
	workers.SetLimit(runtime.NumCPU())
	for seed := from; seed < from+seeds && ctx.Err() == nil; seed++ {
		workers.Go(func() error {
			if v := sim.Run(sim.Setup{Options: sim.Swarm(seed), Proof: follow}).Violation; v != nil {
				return fmt.Errorf("%d: %s", seed, v.Invariant)
			}
			return nil
		})
	}
	return workers.Wait()
}
