package main

import (
	"context"
	"io"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/service"
	"chronos/node/service/doctor"
)

// What the tests use from outside of the package.

func Main()                               { main() }
func SetVersion(v string) (before string) { before, version = version, v; return before }

const (
	AnswerTimeout = answerTimeout
	LongestField  = longestField
)

var (
	Run          = run
	Readable     = readable
	ReadableWord = readableWord
	Harmless     = harmless
	Lateness     = lateness
	PrintRecord  = printRecord
	BuildVersion = buildVersion
	Typed        = typed
)

// RunBeside runs a command with these environment variables, where a node that nobody has named is looked for at that
// URL.
func RunBeside(ctx context.Context, env []string, beside string, stdout, stderr io.Writer, args ...string) int {
	w := &world{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, env: env, beside: beside}
	return w.exitCode(execute(ctx, args, w))
}

// PrintMessage prints a message as get does.
func PrintMessage(out io.Writer, m *admin.Message, now time.Time) error {
	page := &page{out: out}
	printMessage(page, m, true, now)
	return page.err
}

// PrintReport prints a report as doctor does.
func PrintReport(out io.Writer, report *doctor.Report) error {
	return printReport(&page{out: out}, report)
}

// PrintLanes prints lanes as count and top do.
func PrintLanes(out io.Writer, all *admin.Lanes) error {
	page := &page{out: out}
	printLanes(page, all)
	return page.err
}

// SettingNames returns the names of all settings that are flags of some command.
func SettingNames() map[string]bool {
	parser, err := newParser(newCommands())
	if err != nil {
		panic(err)
	}
	names := map[string]bool{}
	for _, command := range parser.Model.Leaves(false) {
		for _, group := range command.AllFlags(false) {
			for _, flag := range group {
				if !flag.Target.CanAddr() {
					continue
				}
				if _, ok := reflect.TypeAssert[interface{ get() service.Value }](flag.Target.Addr()); ok {
					names[flag.Name] = true
				}
			}
		}
	}
	return names
}

// Parses returns what is wrong with a command line, without running it.
func Parses(args []string) error {
	parser, err := newParser(newCommands(), kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) {}))
	if err != nil {
		return err
	}
	_, err = parser.Parse(args)
	return err
}

// RosterOf writes what an export says of the nodes that run on a store.
func RosterOf(ctx context.Context, store node.Store, out io.Writer) error {
	m := move{store: &service.Store{Store: store}, page: &page{out: out}}
	return m.roster(ctx)
}
