package sim_test

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unreached are the functions of the engine with a path that no simulated run takes, and why. The engine's own tests
// take these paths, except where the reason says that nothing can.
func unreached() map[string]string {
	return map[string]string{
		"enqueuer.turn":          "nothing can: begin has started all partitions, or the node has left or stops",
		"enqueuer.start":         "no run stops a node while its source fails to start",
		"enqueuer.startOver":     "the same",
		"enqueuer.mindLineage":   "no run stops a node while its source cannot say how far topics reach",
		"schedule.room":          "nothing can: a node serves every lane that it takes messages in for",
		"schedule.find":          "a run has fewer lanes than a node serves",
		"schedule.clearLane":     "no run has a node stand back from a lane that it forgets meanwhile",
		"schedule.add":           "no run has a claim come from the claimer and from a repeated take at the same time",
		"recoverer.run":          "no run has as many stuck claims as one look returns",
		"recoverer.compareHolds": "the nodes of a run have the same hold time",
		"link.outage":            "nothing can: it is asked only after a failure",
		"jittered":               "nothing can: no interval is as short as that",
	}
}

// TestEnginePaths runs the swarm and the scenarios once more, in a process of their own, and looks at which
// statements of the engine's operations they have reached: a path that is never taken is not simulated.
func TestEnginePaths(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds and runs the tests once more: not in a short test")
	}
	profile := filepath.Join(t.TempDir(), "profile")
	run := exec.CommandContext(t.Context(), "go", "test", "-run", "^(TestSwarm|TestScenarios)$",
		"-coverpkg", "chronos/node", "-coverprofile", profile, "chronos/sim")
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	missed := map[string]string{}
	for _, block := range unreachedBlocks(t, profile) {
		missed[function(t, block)] = block
	}
	known := unreached()
	for name, block := range missed {
		if known[name] == "" {
			t.Errorf("no run comes by %s in %s", block, name)
		}
	}
	for name := range known {
		if missed[name] == "" {
			t.Errorf("all paths of %s are taken by now: take it off the list", name)
		}
	}
}

// unreachedBlocks returns the places in the engine's operations that the profile counts no visit of, as file:line.
func unreachedBlocks(t *testing.T, profile string) (blocks []string) {
	t.Helper()
	files := []string{"enqueue.go", "fire.go", "recover.go", "schedule.go", "advance.go", "link.go"}
	in, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() //nolint:errcheck // it is only read
	seen := 0
	for lines := bufio.NewScanner(in); lines.Scan(); {
		name, rest, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "chronos/node/"), ":")
		if !slices.Contains(files, name) {
			continue
		}
		seen++
		if line, _, _ := strings.Cut(rest, "."); strings.HasSuffix(rest, " 0") {
			blocks = append(blocks, name+":"+line)
		}
	}
	if seen < 100 {
		t.Fatalf("the profile has %d blocks of the engine only", seen)
	}
	return blocks
}

// function returns the name of the function that a place is in, a method behind its type.
func function(t *testing.T, place string) string {
	t.Helper()
	name, number, _ := strings.Cut(place, ":")
	var line int
	if _, err := fmt.Sscan(number, &line); err != nil {
		t.Fatal(err)
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, filepath.Join("../node", name), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if is && files.Position(f.Pos()).Line <= line && line <= files.Position(f.End()).Line {
			return receiver(f) + f.Name.Name
		}
	}
	t.Fatalf("%s is in no function", place)
	return ""
}

// receiver returns the type that a method belongs to, with a point behind it; nothing for a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	of := f.Recv.List[0].Type
	if star, pointer := of.(*ast.StarExpr); pointer {
		of = star.X
	}
	if name, named := of.(*ast.Ident); named {
		return name.Name + "."
	}
	return ""
}
