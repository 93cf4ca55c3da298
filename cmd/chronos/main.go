// Chronos is a delay service between Kafka topics: what an application publishes on an input topic with an id
// and a deadline in its headers appears on the output topic at that deadline.
//
// This is its one binary. Everything that is wired together is wired here: the engine of package node knows
// neither Kafka nor a database, nor how to log.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"chronos/node/service"
)

// The exit codes. They are part of the interface.
const (
	exitOK      = 0
	exitFailure = 1 // something went wrong that is not the fault of the command line
	exitUsage   = 2 // the command line or the configuration is wrong

	// What has become of an instruction: it was too late. No other command ends with this.
	exitTooLate = 3

	// What the command is about is not there: a message, a lane, a topic, a queue, a task, a file.
	exitNotFound = 4

	// exitNotLooked is that of doctor where it could not look at something.
	exitNotLooked = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks to stop cleanly. From then on signals do what they do by default, so that a second
	// one ends the process at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// commands is the command line.
type commands struct {
	Dev  devCommand  `cmd:"" help:"Try Chronos without any services: everything in one process." group:"try"`
	Send sendCommand `cmd:"" help:"Send one message that is to appear later." group:"try"`
	Tail tailCommand `cmd:"" help:"Print the messages of a topic as they arrive." group:"try"`

	Cancel     cancelCommand     `cmd:"" help:"Have a message that waits not appear at all, or many." group:"change"`
	Reschedule rescheduleCommand `cmd:"" help:"Have it appear at another time." group:"change"`
	Replace    replaceCommand    `cmd:"" help:"Put another message in its place." group:"change"`
	Fire       fireCommand       `cmd:"" help:"Have it appear now." group:"change"`

	Run     runCommand     `cmd:"" help:"Run a node: the service, against your Kafka and your store." group:"service"`
	Health  healthCommand  `cmd:"" help:"Ask a node on this machine whether it is well." group:"service"`
	Migrate migrateCommand `cmd:"" help:"Create or update the schema of a store." group:"service"`
	Version versionCommand `cmd:"" help:"Print the version." group:"service"`
	Doctor  doctorCommand  `cmd:"" help:"Examine Kafka, the store and how they fit together." group:"service"`
	Bench   benchCommand   `cmd:"" help:"Load a delay service, and measure what it makes of it." group:"service"`

	Completion completionCommand `cmd:"" help:"Have a shell complete command lines." group:"service"`

	Top    topCommand    `cmd:"" help:"Watch lanes and nodes." group:"look"`
	Get    getCommand    `cmd:"" help:"Show a message that waits, by its id." group:"look"`
	List   listCommand   `cmd:"" help:"List messages that wait, are claimed, overdue or put off." group:"look"`
	Count  countCommand  `cmd:"" help:"Count them, by lane." group:"look"`
	Window windowCommand `cmd:"" help:"Show what a window of operation in words means." group:"look"`
	Pause  pauseCommand  `cmd:"" help:"Pause a lane, or the intake." group:"hand"`
	Resume resumeCommand `cmd:"" help:"Resume it." group:"hand"`
	Dead   deadCommand   `cmd:"" help:"Look at dead letters, and put them back." group:"hand"`

	Queue  queueCommand  `cmd:"" help:"Make, show, list and delete queues." group:"queue"`
	Task   taskCommand   `cmd:"" help:"Bring tasks to queues, look at them, complete them." group:"queue"`
	Action actionCommand `cmd:"" help:"Say what tasks do." group:"queue"`

	Bind   bindCommand   `cmd:"" help:"Show whom a store belongs to, or change that." group:"hand"`
	Rewind rewindCommand `cmd:"" help:"Take records of an input topic in again." group:"hand"`
	Export exportCommand `cmd:"" help:"Seal a store, and write all that waits to a file." group:"hand"`
	Import importCommand `cmd:"" help:"Fill a new store from such a file." group:"hand"`

	Journal journalCommand `cmd:"" help:"Get past entries of a journal in Kafka that cannot be read." group:"hand"`
}

// description is the first thing that a newcomer reads.
const description = `Chronos delays Kafka messages: publish a record on the topic chronos.in with the headers
chronosMessageId and chronosDeadline, and it appears on the topic chronos.out at that time.

First steps, in two terminals:

  chronos dev
  chronos send --in 5s 'hello from the past'

On your own Kafka and Postgres:

  chronos migrate up --store postgres://user@db/chronos
  chronos run --store postgres://user@db/chronos --brokers kafka:9092 --create-topics
  chronos tail --brokers kafka:9092`

// world is what a command sees of the process that it runs in.
type world struct {
	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	env    []string // NAME=value

	// beside is the URL at which a node is looked for that nobody has named; "" for that of "chronos dev".
	beside string
}

// note says something to the person at the terminal that is not the output of the command.
func (w *world) note(format string, args ...any) {
	// There is nobody to tell if this fails.
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i := range lines {
		lines[i] = harmless(lines[i]) // part of an error may be what a server has sent
	}
	_, _ = fmt.Fprintln(w.stderr, "chronos: "+strings.Join(lines, "\n"))
}

// run runs the command that args name until it is done or ctx is, and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	w := &world{stdin: stdin, stdout: stdout, stderr: stderr, env: os.Environ()}
	return w.exitCode(execute(ctx, args, w))
}

// exitCode says what went wrong, if anything did, and returns the exit code for it.
func (w *world) exitCode(err error) int {
	var parse *kong.ParseError
	var usage *service.UsageError
	var told *outcomeError
	var missing *notFoundError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errLogged), errors.Is(err, errFindings):
		return exitFailure
	case errors.As(err, &told):
		return told.code
	case errors.Is(err, errNotLooked):
		return exitNotLooked
	case errors.As(err, &missing):
		w.note("%v", err)
		return exitNotFound
	case errors.As(err, &usage):
		w.note("%v", usage)
		return exitUsage
	case errors.As(err, &parse):
		w.note("%v; %q explains", parse, helpCommand(parse))
		return exitUsage
	default:
		w.note("%v", err)
		return exitFailure
	}
}

// execute parses args and runs the command.
func execute(ctx context.Context, args []string, w *world) error {
	helped := false
	parser, err := newParser(newCommands(),
		kong.Writers(w.stdout, w.stderr), kong.Exit(func(int) { helped = true }))
	if err != nil {
		return fmt.Errorf("build the command line: %w", err)
	}
	if len(args) > 1 && args[0] == "completion" && args[1] == "words" {
		return printWords(w, completions(parser.Model.Node, args[2:]))
	}
	parsed, err := parser.Parse(usual(args))
	switch {
	case helped: // Help is printed while parsing; what else is wrong with the line does not matter then.
		return nil
	case err != nil:
		return err
	}
	if err := resolve(parsed, w.env); err != nil {
		return err
	}
	parsed.BindTo(ctx, (*context.Context)(nil))
	return parsed.Run(w)
}

// usual returns the arguments for what people type because other programs have it: --version, -v, and help.
func usual(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "--version" || args[0] == "-v":
		return append([]string{"version"}, args[1:]...)
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	}
	return args
}

// printWords prints words, each on a line.
func printWords(w *world, words []string) error {
	page := &page{out: w.stdout}
	for _, word := range words {
		page.line("%s", word)
	}
	return page.err
}

// newParser returns the parser of the command line.
func newParser(line *commands, options ...kong.Option) (*kong.Kong, error) {
	return kong.New(line, append(options,
		kong.Name("chronos"),
		kong.Description(description),
		kong.ConfigureHelp(kong.HelpOptions{NoAppDescFormat: true, Compact: true, FlagsLast: true}),
		kong.ExplicitGroups(groups()))...)
}

// groups returns the headings of the help.
func groups() []kong.Group {
	groups := []kong.Group{
		{Key: "try", Title: "Try it:"},
		{Key: "change", Title: "Change your mind:"},
		{Key: "queue", Title: "Queues:"},
		{Key: "service", Title: "Run it:"},
		{Key: "look", Title: "Look into it:"},
		{Key: "hand", Title: "Set right by hand:"},
		{Key: "target", Title: "Where to go back to:"},
		{Key: "message", Title: "Message:"},
		{Key: "series", Title: "Series:"},
		{Key: "bulk", Title: "Many at once:"},
		{Key: "outcome", Title: "Outcome:"},
		{Key: "load", Title: "Load:"},
		{Key: "search", Title: "Search:"},
		{Key: "measure", Title: "Measurement:"},
		{Key: "bound", Title: "Bounds:"},
		{Key: "output", Title: "Output:"},
	}
	for _, g := range service.Groups() {
		groups = append(groups, kong.Group{Key: g.Key, Title: g.Title + ":"})
	}
	return groups
}

// helpCommand returns the command that explains the part of the command line where it went wrong.
func helpCommand(err *kong.ParseError) string {
	if err.Context != nil && err.Context.Selected() != nil {
		return err.Context.Selected().FullPath() + " --help"
	}
	return "chronos --help"
}

// usagef returns the error for a mistake in the command line, as one sentence for the person who made it.
func usagef(format string, args ...any) error { return service.Usagef(format, args...) }

// shown quotes a value unless it is plain.
func shown(value string) string { return service.Shown(value) }

// isTerminal reports whether stream is a terminal.
func isTerminal(stream any) bool { return service.IsTerminal(stream) }
