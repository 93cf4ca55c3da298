package proof_test

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"chronos/sim/proof"
	"chronos/sim/proof/solver"
)

// why is the file that says of each conjunct and each guard which obligation fails without it.
const why = "testdata/why.txt"

// TestNothingIsSpare takes each conjunct of the invariant away, and each guard of each transition: the proof fails
// without it. Of what is said of the store and of its images, both are taken away together as well: each by itself is
// needed at least to keep the other. Otherwise it would say nothing, and nobody would need to understand
// it. The file says where it fails, so that one question is enough; CHRONOS_UPDATE=1 looks for these places anew, which
// takes minutes.
func TestNothingIsSpare(t *testing.T) {
	z3 := solver.Z3(limit)
	if err := solver.Missing(z3); err != nil {
		t.Fatal(err)
	}
	ours := proof.Ours()
	if os.Getenv("CHRONOS_UPDATE") != "" {
		lookForReasons(t, ours, z3)
	}
	reasons := readReasons(t)
	jobs := make(chan proof.Removal)
	var group sync.WaitGroup
	for range runtime.NumCPU() {
		group.Go(func() {
			for removal := range jobs {
				reason, found := reasons[removal]
				if !found {
					t.Errorf("%s says nothing of %v", why, removal)
					continue
				}
				less := ours.Without(removal)
				var asked []proof.Obligation
				for _, o := range less.Obligations() {
					if o.Step == reason[0] && o.Claim == reason[1] {
						asked = append(asked, o)
					}
				}
				if len(asked) != 1 {
					t.Errorf("%s: there is no %v", why, reason)
					continue
				}
				err := solver.Prove(t.Context(), less, asked, []solver.Solver{z3}, 1, func(r solver.Result) bool {
					if r.Answer != solver.Satisfiable {
						t.Errorf("without %v, %v does not fail: %s", removal, reason, r.Answer)
					}
					return true
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	for _, removal := range ours.Removals() {
		jobs <- removal
	}
	close(jobs)
	group.Wait()
	if extra := len(reasons) - len(ours.Removals()); extra > 0 {
		t.Errorf("%s has %d lines too many", why, extra)
	}
}

// readReasons reads the file: transition, name, step and claim in each line.
func readReasons(t *testing.T) map[proof.Removal][2]string {
	t.Helper()
	file, err := os.Open(why)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // It was only read.
	reasons := map[proof.Removal][2]string{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		field := strings.Split(lines.Text(), " | ")
		if len(field) != 4 {
			t.Fatalf("%s: %q has not four fields", why, lines.Text())
		}
		name, both := strings.CutSuffix(field[1], " and its images")
		removal := proof.Removal{Transition: strings.TrimSuffix(field[0], "-"), Name: name, Images: both}
		reasons[removal] = [2]string{field[2], field[3]}
	}
	return reasons
}

// lookForReasons writes the file.
func lookForReasons(t *testing.T, ours *proof.System, z3 solver.Solver) {
	t.Helper()
	var text strings.Builder
	for _, removal := range ours.Removals() {
		less := ours.Without(removal)
		var first *solver.Result
		err := solver.Prove(t.Context(), less, removal.Concerned(less.Obligations()), []solver.Solver{z3},
			runtime.NumCPU(), func(r solver.Result) bool {
				if r.Answer == solver.Satisfiable {
					first = &r
				}
				return first == nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			t.Errorf("nothing needs %v", removal)
			continue
		}
		transition := removal.Transition
		if transition == "" {
			transition = "-"
		}
		name := removal.Name
		if removal.Images {
			name += " and its images"
		}
		fmt.Fprintf(&text, "%s | %s | %s | %s\n", transition, name, first.Step, first.Claim)
	}
	if err := os.WriteFile(why, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
