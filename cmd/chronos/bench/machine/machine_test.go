package machine_test

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"chronos/cmd/chronos/bench"
	"chronos/cmd/chronos/bench/machine"
)

// TestMeter measures a shell that starts one that never rests: the CPU time of the child is that of the group, the
// machine did at least as much, and this process is a group of its own.
func TestMeter(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what processes use is known on Linux only")
	}
	// The inner shell ends when the outer one, whose output it has, is gone and it is told so by a broken pipe.
	command := exec.CommandContext(t.Context(), "sh", "-c", `sh -c 'while echo busy; do :; done' & wait`)
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = out.Close()
		_ = command.Wait()
	}()
	meter, err := machine.Open([]machine.Group{{Name: "shells", PIDs: []int{command.Process.Pid}}})
	if err != nil {
		t.Fatal(err)
	}
	first, before := read(t, meter)
	buffer := make([]byte, 1<<16)
	for late := time.Now().Add(30 * time.Second); ; {
		if _, err := out.Read(buffer); err != nil {
			t.Fatal(err)
		}
		now, machine := read(t, meter)
		if used := now[0].CPU - first[0].CPU; used >= 50*time.Millisecond {
			if whole := machine.CPU - before.CPU; whole < used-50*time.Millisecond {
				t.Errorf("the machine did %v, and a part of it %v", whole, used)
			}
			break
		}
		if time.Now().After(late) {
			t.Fatal("a child that is busy for 30 s has used nothing")
		}
	}
	if len(first) != 2 || first[0].Name != "shells" || first[1].Name != machine.Self || first[1].Memory < 1<<20 ||
		first[0].Memory <= 0 || first[0].Memory > first[1].Memory || first[1].Peak < 1<<20 {
		t.Errorf("%+v, want the shells, and this process, which is larger", first)
	}
	_, err = machine.Open([]machine.Group{{Name: "nobody", PIDs: []int{1 << 30}}})
	if err == nil || !strings.Contains(err.Error(), "process 1073741824 (nobody) does not run") {
		t.Errorf("the error is %v, want that it does not run", err)
	}
}

func read(t *testing.T, meter *machine.Meter) ([]bench.Reading, bench.Reading) {
	t.Helper()
	groups, whole, err := meter.Read()
	if err != nil {
		t.Fatal(err)
	}
	return groups, whole
}
