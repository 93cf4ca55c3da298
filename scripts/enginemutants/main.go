// Command enginemutants shows that the tests of the engine and the simulator notice when the engine is broken. Each
// mutant of mutants.txt is one small edit of its source; the edited file is laid over the real one (go build -overlay),
// so that the tree stays as it is. A mutant of the engine is caught by the first of these that fails: the named
// scenarios and the kept plans, the engine's own tests, and a series of drawn worlds. One of another package, such as
// a store, is caught by the tests of that package. The command fails if one is caught by nothing, and is not marked as
// equivalent.
//
// The tests of package postgres need a server, and get one by scripts/with-servers. Without it the command says so of
// each mutant there.
//
// The mutants of `make mutants` sit at the ports of a node, and need no compiler; these are inside of it.
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed mutants.txt
var table string

// mutant is one edit.
type mutant struct {
	name, file, about string
	equivalent        string   // why nothing can catch it; empty where something must
	old, new          []string // lines, without what they are indented by
	proof             uint64   // a seed in which following the proof catches it, and the judge does not; 0 for none
}

func main() {
	names := flag.String("only", "", "the mutants to run, separated by commas; all by default")
	file := flag.String("table", "", "a file of mutants to try, in place of mutants.txt")
	seeds := flag.Int("seeds", 1500, "how many drawn worlds each runs through")
	every := flag.Bool("every", false, "go on after the first that catches it")
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
		err = runWorlds(*first, uint64(*seeds), *follow)
	default:
		survivors, err = run(*file, *names, *seeds, *every)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "enginemutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

func run(file, names string, seeds int, every bool) (survivors int, err error) {
	text := table
	if file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		text = string(content)
	}
	mutants, err := parse(text)
	if err != nil {
		return 0, err
	}
	for _, m := range mutants {
		if names != "" && !slices.Contains(strings.Split(names, ","), m.name) {
			continue
		}
		started := time.Now()
		by, err := m.hunt(seeds, every)
		if err != nil {
			by = err.Error()
			survivors++
		} else if by == "" && m.equivalent == "" {
			survivors++
		}
		if by == "" && m.equivalent != "" {
			by = "survives: " + m.equivalent
		}
		fmt.Printf("%-26s %-60s %4.0f s  %s\n", m.name, cmp.Or(by, "SURVIVES"), time.Since(started).Seconds(), m.about)
	}
	fmt.Printf("%d survive\n", survivors)
	return survivors, nil
}

// parse reads the table of mutants.
func parse(text string) ([]*mutant, error) {
	var mutants []*mutant
	for i, line := range strings.Split(text, "\n") {
		head, isHead := strings.CutPrefix(line, "mutant ")
		reason, isReason := strings.CutPrefix(line, "equivalent: ")
		seed, isSeed := strings.CutPrefix(line, "proof: ")
		removed, isOld := strings.CutPrefix(line, "- ")
		added, isNew := strings.CutPrefix(line, "+ ")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
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

// hunt returns what catches the mutant; nothing if it survives.
func (m *mutant) hunt(seeds int, every bool) (string, error) {
	dir, err := os.MkdirTemp("", "enginemutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // of a directory for temporary files
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	hunters, err := m.hunters(dir, overlay, seeds)
	if err != nil {
		return "", err
	}
	var by []string
	for _, try := range hunters {
		output, failed, err := command(try.args[0], try.args[1:]...)
		switch {
		case err != nil:
			return "", err
		case !failed:
			continue
		case strings.Contains(output, "[build failed]"):
			return "", errors.New("it does not compile:\n" + output)
		}
		by = append(by, try.name+" "+why(output))
		if !every {
			break
		}
	}
	return strings.Join(by, "; "), nil
}

// hunter is a command that fails if it notices the mutant.
type hunter struct {
	name string
	args []string
}

// hunters returns what is to notice a mutant, by the package that it is in.
func (m *mutant) hunters(dir, overlay string, seeds int) ([]hunter, error) {
	where := filepath.Dir(m.file)
	test := []string{
		"go", "test", "-overlay", overlay, "-short", "-count=1", "-failfast", "-timeout", "5m", "./" + where,
	}
	switch where {
	case "node":
		worlds := filepath.Join(dir, "worlds")
		build := []string{"build", "-ldflags", "-s -w", "-overlay", overlay, "-o", worlds, "./scripts/enginemutants"}
		if output, failed, err := command("go", build...); err != nil || failed {
			return nil, cmp.Or(err, errors.New("it does not compile:\n"+output))
		}
		return []hunter{
			{"scenario", []string{worlds, "-scenarios"}},
			{"test", test},
			{"seed", []string{worlds, "-worlds", "-seeds", fmt.Sprint(seeds)}},
		}, nil
	case "node/store/postgres":
		if os.Getenv("CHRONOS_TEST_POSTGRES") == "" {
			return nil, errors.New("its tests need a server: run this by scripts/with-servers")
		}
		// What a pooler changes is none of the statements.
		test = append(test, "-run", "TestStore/direct|Take|Write|Instructions|Cancel|Rearm|Series|Marks")
	case "cmd/chronos":
		test = append(test, "-run", "Instruct|Outcome|SendForms|SendInDays|ClientSentences")
	}
	if base := filepath.Base(m.file); where == "node/store/journal" && slices.Contains(moving(), base) {
		test = slices.Clone(test) // contents are moved in tests of both packages
		test[len(test)-1] = "./node/store/transfer"
		return []hunter{{"transfer", append(test, "-run", "Journal")}, {"test", []string{
			"go", "test", "-overlay", overlay, "-short", "-count=1", "-failfast", "-timeout", "5m", "./" + where,
			"-run", "Export|Sealed|Mover|Moved",
		}}}, nil
	}
	all := []hunter{{"test", test}}
	if where == "node/store/journal" || where == "node/ledger/simulated" {
		all = append(all, hunter{"world", []string{ // CHRONOS_WORLDS says how many
			"go", "test", "-overlay", overlay, "-count=1", "-timeout", "10m", "./node/store/journal",
			"-run", "TestEngines$",
		}})
	}
	return all, nil
}

// moving returns the files of the journal that only move its contents.
func moving() []string { return []string{"move.go", "fill.go", "fit.go", "seal.go"} }

// overlay writes the edited file and the description of where it is laid, and returns the name of the latter.
func (m *mutant) overlay(dir string) (string, error) {
	source, err := os.ReadFile(m.file)
	if err != nil {
		return "", err
	}
	edited, err := m.apply(string(source))
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.file)
	if err != nil {
		return "", err
	}
	replacement := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(replacement, []byte(edited), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]map[string]string{"Replace": {original: replacement}})
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// command runs a command and reports whether it has failed.
func command(name string, args ...string) (output string, failed bool, err error) {
	c := exec.CommandContext(context.Background(), name, args...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Dir = "."
	err = c.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		return out.String(), true, nil
	}
	return out.String(), false, err
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
