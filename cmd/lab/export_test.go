package main

import (
	"context"
	"io"

	"chronos/sim"
	"chronos/sim/model"
)

// What the tests use from outside of the package.

// Run runs the command that args name.
var Run = run

// RunSim runs "lab sim" with something else in place of sim.Run.
func RunSim(
	ctx context.Context, simulate func(sim.Setup) sim.Result, args []string, stdout, stderr io.Writer,
) int {
	line := new(commands)
	line.Sim.run = simulate
	w := &world{stdout: stdout, stderr: stderr}
	return w.exitCode(execute(ctx, line, append([]string{"sim"}, args...), w))
}

// ModelTable prints the table of "lab model" for other variants, and returns the exit code.
func ModelTable(variants []model.Variant, stdout, stderr io.Writer) int {
	w := &world{stdout: stdout, stderr: stderr}
	t := modelTable{world: w}
	for _, v := range variants {
		t.variant(&v)
	}
	return w.exitCode(t.verdict())
}
