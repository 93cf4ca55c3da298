package sim_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestHashOnOtherMachines builds the simulator for machines of another kind that this one can be, and compares the
// fold of a hundred seeds with the one in testdata: one seed gives one trace also where an int has 32 bits, and where
// there is one thread and no operating system.
func TestHashOnOtherMachines(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the simulator again: not in a short test")
	}
	want, err := os.ReadFile("testdata/fold.txt")
	if err != nil {
		t.Fatal(err)
	}
	root := command(t, nil, "go", "env", "GOROOT")
	for _, machine := range []struct {
		name, system, architecture string
		run                        []string
	}{
		{"32 bits", "linux", "386", nil},
		{"wasm", "js", "wasm", []string{"node", filepath.Join(root, "lib/wasm/wasm_exec_node.js")}},
	} {
		t.Run(machine.name, func(t *testing.T) {
			if machine.run == nil && runtime.GOOS+"/"+runtime.GOARCH != "linux/amd64" {
				t.Skip("this machine does not run programs for a 386")
			}
			if machine.run != nil {
				if _, err := exec.LookPath(machine.run[0]); err != nil {
					t.Skipf("there is no %s here to run it", machine.run[0])
				}
			}
			program := filepath.Join(t.TempDir(), "fold")
			command(t, []string{"GOOS=" + machine.system, "GOARCH=" + machine.architecture, "CGO_ENABLED=0"},
				"go", "build", "-o", program, "./testdata/fold")
			run := append(machine.run, program)
			if got := command(t, nil, run[0], run[1:]...); got != strings.TrimSpace(string(want)) {
				t.Errorf("the fold is %s, want %s", got, want)
			}
		})
	}
}

// command returns what a command writes.
func command(t *testing.T, environment []string, name string, arguments ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), name, arguments...)
	run.Env = append(os.Environ(), environment...)
	var complaint strings.Builder
	run.Stderr = &complaint
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%s %v: %v: %s", name, arguments, err, complaint.String())
	}
	return strings.TrimSpace(string(out))
}
