package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/sim"
)

// bench measures speed and size, and writes each figure with the goal beside it.
func (c *simCommand) bench(ctx context.Context, w *world) error {
	p := &paper{out: w.stdout}
	p.line("%s, %s, %s/%s, %s", plural(runtime.NumCPU(), "core"), runtime.Version(), runtime.GOOS,
		runtime.GOARCH, commit())
	if model := processor(); model != "" {
		p.line("%s", model)
	}
	p.line("")
	p.line("%-42s %22s   %s", "", "measured", "goal")
	// Large clusters come first, while nothing else has taken memory.
	for _, part := range []func(context.Context, *paper) error{
		c.benchThousand, c.benchFiveThousand, c.benchChaos, c.benchHunt, c.benchShrink,
	} {
		if err := part(ctx, p); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.New("interrupted")
		}
	}
	return p.err
}

// measured writes a figure with its goal.
func (p *paper) measured(what, figure, goal string) {
	p.line("%-42s %22s   %s", what, figure, goal)
}

// cluster returns a cluster without faults under 1,000 messages a second, for a minute.
func cluster(nodes int) sim.Options {
	o := sim.DefaultOptions()
	o.Nodes, o.Partitions = nodes, nodes
	o.Faulty, o.Healed = 60*time.Second, 10*time.Second
	o.Messages, o.Horizon = 60_000, 2*time.Second
	return o
}

// benchCluster runs a large cluster with a garbage collector that saves memory.
func (c *simCommand) benchCluster(nodes int) (sim.Result, time.Duration, float64, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	debug.FreeOSMemory()
	resetPeak()
	began := time.Now()
	r := c.run(sim.Setup{Options: cluster(nodes)})
	wall := time.Since(began)
	if v := r.Violation; v != nil {
		return r, wall, 0, brokenf("%d nodes break %s: %s", nodes, v.Invariant, v.Detail)
	}
	return r, wall, peakMemory(), nil
}

func (c *simCommand) benchThousand(_ context.Context, p *paper) error {
	r, wall, peak, err := c.benchCluster(1000)
	if err != nil {
		return err
	}
	p.measured("1,000 nodes, 1,000 messages/s",
		fmt.Sprintf("%.1f virtual s/s", r.Stats.Virtual.Seconds()/wall.Seconds()), "at least 10")
	p.measured("  peak memory of the process", fmt.Sprintf("%.0f MB", peak), "less than 100 MB")
	return nil
}

func (c *simCommand) benchFiveThousand(_ context.Context, p *paper) error {
	r, wall, peak, err := c.benchCluster(5000)
	if err != nil {
		return err
	}
	perMinute := time.Duration(float64(wall) * float64(time.Minute) / float64(r.Stats.Virtual))
	p.measured("5,000 nodes, 60 virtual seconds", span(perMinute), "at most 60 s")
	p.measured("  peak memory of the process", fmt.Sprintf("%.0f MB", peak), "")
	return nil
}

// benchChaos runs seeds of the chaos profile on one core.
func (c *simCommand) benchChaos(ctx context.Context, p *paper) error {
	const seeds = 1500
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var virtual time.Duration
	var events uint64
	began := time.Now()
	for seed := uint64(1); ctx.Err() == nil && seed <= seeds; seed++ {
		o := sim.Swarm(seed)
		o.Messages, o.Routes, o.FaultRate = 300, 1, 100
		o.Faulty, o.Healed, o.Drain = 30*time.Second, 40*time.Second, false
		r := c.run(sim.Setup{Options: o})
		if v := r.Violation; v != nil {
			return brokenf("seed %d of the chaos profile breaks %s: %s", o.Seed, v.Invariant, v.Detail)
		}
		virtual += r.Stats.Virtual
		events += r.Stats.Events
	}
	seconds := time.Since(began).Seconds()
	p.measured("chaos profile, on one core", fmt.Sprintf("%.0f seeds/s", seeds/seconds), "at least 60")
	p.measured("", thousands(int64(virtual.Seconds()/seconds))+" virtual s/s", "")
	p.measured("", thousands(int64(float64(events)/seconds))+" events/s", "")
	return nil
}

// benchHunt hunts each mutant with one series of seeds.
func (c *simCommand) benchHunt(ctx context.Context, p *paper) error {
	mutants := sim.Mutants()
	began := time.Now()
	var seeds []int
	survivors := 0
	for _, kills := range c.huntAll(ctx, nil, mutants, 1) {
		seeds = append(seeds, kills[0].seeds)
		if kills[0].invariant == "" {
			survivors++
		}
	}
	slices.Sort(seeds)
	p.measured("mutants that are caught", fmt.Sprintf("%d of %d", len(mutants)-survivors, len(mutants)), "all")
	p.measured("  seeds, median", thousands(seeds[len(seeds)/2]), "at most 50")
	p.measured("  seeds, most", thousands(seeds[len(seeds)-1]), "at most 2,000")
	p.measured("  all of them", span(time.Since(began)), "")
	return nil
}

// benchShrink makes failures small.
func (c *simCommand) benchShrink(ctx context.Context, p *paper) error {
	faults, messages, longest, runs := 0, 0, time.Duration(0), 0
	for _, name := range []string{
		"delete-by-id", "upsert", "publish-timeout-is-success", "expired-not-own", "commit-first",
	} {
		m, err := sim.MutantByName(name)
		if err != nil {
			return err
		}
		setup, _, seeds := sim.Hunt(m, 1, huntSeeds)
		if seeds == 0 || ctx.Err() != nil {
			continue
		}
		began := time.Now()
		small, found := sim.Shrink(setup, 2000)
		if !found {
			return fmt.Errorf("the plan of a run with %s does not replay it", name)
		}
		longest = max(longest, time.Since(began))
		runs = max(runs, small.Runs)
		faults = max(faults, len(small.Setup.Plan.Faults))
		messages = max(messages, len(small.Setup.Plan.Messages))
	}
	p.measured("shrinking 5 failures, the largest", plural(faults, "fault"), "at most 3")
	p.measured("", plural(messages, "message"), "at most 3")
	p.measured("  the slowest", fmt.Sprintf("%s, %s", span(longest), plural(runs, "run")), "at most 5 s")
	return nil
}

// commit returns the commit that this program was built from, where the build knows it.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "of an unknown commit"
}

// processor returns the name of the processor, where Linux tells it.
func processor() string { return procLine("/proc/cpuinfo", "model name") }

// procLine returns the value of the first line of a file that begins with a name and a colon.
func procLine(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = file.Close() }() // It was only read.
	for lines := bufio.NewScanner(file); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// resetPeak lets the kernel forget how much memory the process has had at most, where Linux can.
func resetPeak() {
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // Else the peak is that since the start.
}

// peakMemory returns how many MB the process has had at most: as Linux counts them, or as the Go runtime does.
func peakMemory() float64 {
	words := strings.Fields(procLine("/proc/self/status", "VmHWM"))
	if len(words) == 2 {
		if kb, err := strconv.Atoi(words[0]); err == nil {
			return float64(kb) * 1024 / 1e6
		}
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return float64(memory.Sys) / 1e6
}
