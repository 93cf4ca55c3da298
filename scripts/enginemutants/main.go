// Command enginemutants shows that the tests of the engine and the simulator notice when the engine is broken. Each
// mutant of mutants.txt is one small edit of its source; the edited file is laid over the real one (go build -overlay),
// so that the tree stays as it is. All mutants of a package are woven into one build where that is possible, and the
// environment chooses one of them; see weaver. What fails with a mutant has to pass in the same build without one.
//
// A mutant of the engine is caught by the first of these that fails: the tests that the table names for it, the named
// scenarios and the kept plans, the engine's own tests, and a series of drawn worlds. One of another package, such as a
// store, is caught by the tests of that package. The command fails if one is caught by nothing, and is not marked as
// equivalent.
//
// The tests of package postgres need a server, and get one by scripts/with-servers. Without it the command says so of
// each mutant there.
//
// The mutants of `make mutants` sit at the ports of a node, and need no compiler; these are inside of it.
package main

import (
	"cmp"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

//go:embed mutants.txt
var table string

// mutant is one edit.
type mutant struct {
	name, file, about string
	equivalent        string   // why nothing can catch it; empty where something must
	tests             []string // that the comment on it names, and that are tried first
	old, new          []string // lines, without what they are indented by
	proof             uint64   // a seed in which following the proof catches it, and the judge does not; 0 for none
}

func main() {
	var o options
	flag.StringVar(&o.names, "only", "", "the mutants to run, separated by commas; all by default")
	flag.StringVar(&o.table, "table", "", "a file of mutants to try, in place of mutants.txt")
	flag.StringVar(&o.log, "log", "", "a file that results are added to; mutants that it has already are not run again")
	flag.StringVar(&o.share, "share", "", "run a part of the mutants, such as 2/8")
	flag.IntVar(&o.seeds, "seeds", 1500, "how many drawn worlds each runs through")
	flag.BoolVar(&o.every, "every", false, "go on after the first that catches it")
	flag.IntVar(&o.parallel, "parallel", runtime.NumCPU(), "how many are hunted at once")
	scenarios := flag.Bool("scenarios", false, "run the scenarios with the engine that this binary has")
	worlds := flag.Bool("worlds", false, "run drawn worlds with the engine that this binary has")
	first := flag.Uint64("first", 1, "the first of these worlds")
	follow := flag.Bool("follow", false, "check each step of these worlds to be one of the proof")
	flag.Parse()
	var survivors int
	var err error
	switch {
	case *scenarios:
		err = runScenarios()
	case *worlds:
		err = runWorlds(*first, uint64(o.seeds), *follow)
	default:
		survivors, err = run(o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "enginemutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

func run(o options) (survivors int, err error) {
	text := table
	if o.table != "" {
		content, err := os.ReadFile(o.table)
		if err != nil {
			return 0, err
		}
		text = string(content)
	}
	mutants, err := parse(text)
	if err != nil {
		return 0, err
	}
	chosen, err := o.choose(mutants)
	if err != nil {
		return 0, err
	}
	r := report{options: o}
	if err := r.run(chosen); err != nil {
		return 0, err
	}
	fmt.Printf("%d survive\n", r.survivors)
	return r.survivors, nil
}

var testName = regexp.MustCompile(`\bTest\w+`)

// parse reads the table of mutants.
func parse(text string) ([]*mutant, error) {
	var mutants []*mutant
	within := false // what follows an empty line is no comment on the mutant before it
	for i, line := range strings.Split(text, "\n") {
		head, isHead := strings.CutPrefix(line, "mutant ")
		reason, isReason := strings.CutPrefix(line, "equivalent: ")
		seed, isSeed := strings.CutPrefix(line, "proof: ")
		removed, isOld := strings.CutPrefix(line, "- ")
		added, isNew := strings.CutPrefix(line, "+ ")
		switch within = (within || isHead) && line != ""; {
		case line == "":
		case strings.HasPrefix(line, "#"):
			if within {
				last := mutants[len(mutants)-1]
				last.tests = append(last.tests, testName.FindAllString(line, -1)...)
			}
		case isHead:
			what, about, explained := strings.Cut(head, ": ")
			name, file, placed := strings.Cut(what, " ")
			if !explained || !placed {
				return nil, fmt.Errorf("mutants.txt, line %d: want `mutant NAME FILE: what is wrong`", i+1)
			}
			mutants = append(mutants, &mutant{name: name, file: file, about: about})
		case len(mutants) > 0 && isReason:
			mutants[len(mutants)-1].equivalent = reason
		case len(mutants) > 0 && isSeed:
			number, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("mutants.txt, line %d: want a seed: %w", i+1, err)
			}
			mutants[len(mutants)-1].proof = number
		case len(mutants) == 0 || !isOld && !isNew:
			return nil, fmt.Errorf("mutants.txt, line %d: want a mutant, or a line that begins with - or +", i+1)
		case isOld:
			mutants[len(mutants)-1].old = append(mutants[len(mutants)-1].old, removed)
		default:
			mutants[len(mutants)-1].new = append(mutants[len(mutants)-1].new, added)
		}
	}
	return mutants, nil
}

// apply returns the source with the edit. A part of a line can be edited, if the edit is one line.
func (m *mutant) apply(source string) (string, error) {
	if len(m.old) == 1 {
		if n := strings.Count(source, m.old[0]); n != 1 {
			return "", fmt.Errorf("%s has the line %d times, want once: %s", m.file, n, m.old[0])
		}
		return strings.Replace(source, m.old[0], strings.Join(m.new, "\n"), 1), nil
	}
	lines := strings.Split(source, "\n")
	at := -1
	for i := range len(lines) - len(m.old) + 1 {
		same := true
		for j, old := range m.old {
			same = same && strings.TrimLeft(lines[i+j], "\t") == old
		}
		if same && at >= 0 {
			return "", fmt.Errorf("%s has the lines twice: %s", m.file, m.old[0])
		}
		if same {
			at = i
		}
	}
	if at < 0 {
		return "", fmt.Errorf("%s does not have the lines: %s", m.file, m.old[0])
	}
	return strings.Join(slices.Concat(lines[:at], m.new, lines[at+len(m.old):]), "\n"), nil
}

// hunter is a test binary, or the worlds of this command, and arguments with which it fails if it notices the mutant.
type hunter struct {
	name string
	of   string // the package that is built
	args []string
}

// worldsPackage is this command: built with a mutant, it runs scenarios and drawn worlds.
const worldsPackage = "scripts/enginemutants"

// hunters returns what is to notice a mutant, by the package that it is in.
func (m *mutant) hunters(seeds int) ([]hunter, error) {
	where := filepath.Dir(m.file)
	test := []string{"-test.short", "-test.failfast", "-test.timeout", "5m"}
	switch where {
	case "node":
		return []hunter{
			{"scenario", worldsPackage, []string{"-scenarios"}},
			{"test", where, test},
			{"seed", worldsPackage, []string{"-worlds", "-seeds", fmt.Sprint(seeds)}},
		}, nil
	case "node/store/postgres":
		if os.Getenv("CHRONOS_TEST_POSTGRES") == "" {
			return nil, errors.New("its tests need a server: run this by scripts/with-servers")
		}
		// What a pooler changes is none of the statements.
		test = append(test, "-test.run",
			"TestStore/direct|Take|Write|Instructions|Cancel|Rearm|Series|Marks|Tells|Listen")
	case "node/ledger":
		where = "node/ledger/simulated" // the cluster in memory has its tests
	case "cmd/chronos":
		test = append(test, "-test.run", "Instruct|Outcome|SendForms|SendInDays|ClientSentences")
	}
	if where == "node/store/journal" && m.moves() { // contents are moved in tests of both packages
		return []hunter{
			{"transfer", "node/store/transfer", append(slices.Clone(test), "-test.run", "Journal")},
			{"test", where, append(slices.Clone(test), "-test.run", "Export|Sealed|Mover|Moved|Undone|FirstWish")},
		}, nil
	}
	all := []hunter{{"test", where, test}}
	if where == "node/service" { // what a node does that can never start is tested with the command
		refused := append(slices.Clone(test), "-test.run", "RunRefusedByKafka")
		all = append(all, hunter{"command", "cmd/chronos", refused})
	}
	if where == "node/queue/desk" { // its answers are asked for through a listener
		all = append(all, hunter{"api", "node/api", test})
	}
	if where == "node/store/journal" || where == "node/ledger/simulated" { // CHRONOS_WORLDS says how many
		worlds := []string{"-test.timeout", "10m", "-test.run", "TestEngines$"}
		all = append(all, hunter{"world", "node/store/journal", worlds})
	}
	return all, nil
}

// named returns hunters that run the tests that are named for a mutant, in each package whose tests are to notice it.
// They take a second where all the rest takes a minute, and are only a guess: who is not found there is hunted as ever.
func (m *mutant) named(hunters []hunter) []hunter {
	if len(m.tests) == 0 {
		return nil
	}
	args := []string{
		"-test.short", "-test.failfast", "-test.timeout", "5m",
		"-test.run", "^(" + strings.Join(m.tests, "|") + ")$",
	}
	var all []hunter
	for _, h := range hunters {
		known := slices.ContainsFunc(all, func(other hunter) bool { return other.of == h.of })
		if h.of != worldsPackage && !known {
			all = append(all, hunter{"named test", h.of, args})
		}
	}
	return all
}

// moves reports whether the mutant is in a file of the journal that only moves its contents.
func (m *mutant) moves() bool {
	return slices.Contains([]string{"move.go", "fill.go", "fit.go", "seal.go", "told.go"}, filepath.Base(m.file))
}

// why returns what the output of a failed command says first: of a test that fails, its innermost subtest.
func why(output string) string {
	said := ""
	for line := range strings.Lines(output) {
		for _, sign := range []string{"--- FAIL: ", "panic: ", "enginemutants: "} {
			_, after, found := strings.Cut(line, sign)
			if after = strings.TrimSpace(after); !found {
				continue
			}
			name, _, _ := strings.Cut(after, " ")
			if outer, _, _ := strings.Cut(said, " "); said != "" && !strings.HasPrefix(name, outer+"/") {
				return said
			}
			said = after
		}
	}
	return cmp.Or(said, strings.TrimSpace(output))
}
