// Lab is the laboratory of Chronos: it shows that the engine keeps its promises, and what becomes of them when it is
// broken. It holds the simulator, the judge of histories, the model of the algorithm and the chaos suite.
//
// It is a program of its own so that the one that runs in production, cmd/chronos, links nothing that is broken on
// purpose.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"
)

// The exit codes. They are part of the interface, and the same for all commands.
const (
	exitOK               = 0
	exitBroken           = 1 // an invariant is broken, or something never occurred that must
	exitCouldNotRun      = 2 // what was asked for is wrong, or can't be done here
	exitNondeterministic = 3 // two runs with one seed differ
)

// self is how a person in a clone of the repository runs this program. Every command that is printed begins with it.
const self = "go run ./cmd/lab"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop cleanly. From then on signals do what they do by default, so that a second one
	// ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// commands is the command line.
type commands struct {
	Sim   simCommand   `cmd:"" help:"Run the engine in a simulated world, and judge it."`
	Check checkCommand `cmd:"" help:"Judge a history of what a delay service did."`
	Model modelCommand `cmd:"" help:"Go through every state of the algorithm in a small world."`
	Proof proofCommand `cmd:"" help:"Have two solvers check the proof of the algorithm."`
	Chaos chaosCommand `cmd:"" help:"Run nodes on real servers while faults strike, and judge what comes of it."`
}

// description is the first thing that a newcomer reads.
const description = `The laboratory of Chronos: the engine of the service, under faults that are drawn from a seed.

  lab sim --seed 7                      one simulated world
  lab sim --break all                   how soon each broken engine is caught
  lab model                             every state of a small world
  lab proof                             any number of nodes, by two solvers
  lab chaos --scenario killed-nodes     real servers, real processes`

// world is what a command sees of the process that it runs in.
type world struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
}

// run runs the command that args name until it is done or ctx is, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	w := &world{stdin: stdin, stdout: stdout, stderr: stderr}
	return w.exitCode(execute(ctx, new(commands), args, w))
}

// execute parses args and runs the command.
func execute(ctx context.Context, line *commands, args []string, w *world) error {
	helped := false
	parser, err := kong.New(line,
		kong.Name("lab"),
		kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{NoAppDescFormat: true, Compact: true, FlagsLast: true}),
		kong.Writers(w.stdout, w.stderr),
		kong.Exit(func(int) { helped = true }),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "One run:"},
			{Key: "what", Title: "In place of what a seed draws:"},
			{Key: "batch", Title: "Many runs:"},
			{Key: "where", Title: "Where it runs:"},
			{Key: "output", Title: "Output:"},
		}))
	if err != nil {
		return fmt.Errorf("build the command line: %w", err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped: // Help is printed while parsing; what else is wrong with the line does not matter then.
		return nil
	case err != nil:
		return err
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(w)
}

// exitCode says what went wrong, if anything did, and returns the exit code for it.
func (w *world) exitCode(err error) int {
	var parse *kong.ParseError
	var exit *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		w.note("%v", exit)
		return exit.code
	case errors.As(err, &parse):
		w.note("%v; %q explains", parse, helpCommand(parse))
		return exitCouldNotRun
	default:
		w.note("%v", err)
		return exitCouldNotRun
	}
}

// note says something to the person at the terminal that is not the output of the command.
func (w *world) note(format string, args ...any) {
	// There is nobody to tell if this fails.
	_, _ = fmt.Fprintf(w.stderr, "lab: "+format+"\n", args...)
}

// helpCommand returns the command that explains the part of the command line where it went wrong.
func helpCommand(err *kong.ParseError) string {
	if err.Context != nil && err.Context.Selected() != nil {
		return err.Context.Selected().FullPath() + " --help"
	}
	return "lab --help"
}

// exitError ends a command with an exit code of its own. Every other error means that the command could not run.
type exitError struct {
	code int
	error
}

// Unwrap returns the error without the code.
func (e *exitError) Unwrap() error { return e.error }

// brokenf returns the error for a run that has not passed.
func brokenf(format string, args ...any) error {
	return &exitError{exitBroken, fmt.Errorf(format, args...)}
}

// isTerminal reports whether stream is a terminal.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && (isatty.IsTerminal(file.Fd()) || isatty.IsCygwinTerminal(file.Fd()))
}
