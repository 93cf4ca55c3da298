package main

import (
	"context"
	"io"

	"github.com/alecthomas/kong"

	"chronos/sim"
)

// RunSim runs "chronos sim" with something else in place of sim.Run.
func RunSim(
	ctx context.Context, simulate func(sim.Setup) sim.Result, args []string, stdout, stderr io.Writer,
) int {
	line := new(commands)
	line.Sim.run = simulate
	w := &world{stdout: stdout, stderr: stderr}
	parser, err := newParser(line, kong.Writers(stdout, stderr))
	if err != nil {
		return w.exitCode(err)
	}
	parsed, err := parser.Parse(append([]string{"sim"}, args...))
	if err != nil {
		return w.exitCode(err)
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return w.exitCode(parsed.Run(w))
}
