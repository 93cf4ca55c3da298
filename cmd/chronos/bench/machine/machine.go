// Package machine reads what processes of this machine use up, for package bench. It knows Linux only.
package machine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"chronos/cmd/chronos/bench"
)

// Group is one or several programs that run: each a process and all that it has started.
type Group struct {
	Name string
	PIDs []int
}

// Meter reads what groups use up. It implements bench.Meter.
type Meter struct {
	files  procfs.FS
	groups []Group
}

var _ bench.Meter = (*Meter)(nil)

// ErrUnknown is what Open returns on systems other than Linux.
var ErrUnknown = errors.New("what processes use up is known on Linux only")

// Self is the name of the group that is this process alone.
const Self = "the load itself"

// Open returns a meter of groups, all of which must run, and of this process.
func Open(groups []Group) (*Meter, error) {
	files, err := procfs.NewDefaultFS()
	if err != nil || runtime.GOOS != "linux" {
		return nil, ErrUnknown
	}
	m := &Meter{files, append(slices.Clone(groups), Group{Self, []int{os.Getpid()}})}
	_, _, err = m.Read()
	return m, err
}

// ticks are what the kernel counts CPU time in, for programs: always a hundred a second.
const ticks = 10 * time.Millisecond

// Read reads all groups.
func (m *Meter) Read() ([]bench.Reading, bench.Reading, error) {
	stat, err := m.files.Stat()
	if err != nil {
		return nil, bench.Reading{}, fmt.Errorf("read what the machine does: %w", err)
	}
	total := stat.CPUTotal
	busy := total.User + total.Nice + total.System + total.IRQ + total.SoftIRQ + total.Steal
	machine := bench.Reading{CPU: time.Duration(busy * float64(time.Second))}
	all, err := m.processes()
	if err != nil {
		return nil, machine, err
	}
	children := map[int][]int{}
	for pid, s := range all {
		children[s.PPID] = append(children[s.PPID], pid)
	}
	var readings []bench.Reading
	for _, g := range m.groups {
		for _, pid := range g.PIDs {
			if _, runs := all[pid]; !runs {
				return nil, machine, fmt.Errorf("process %d (%s) does not run", pid, g.Name)
			}
		}
		members := slices.Clone(g.PIDs)
		for i := 0; g.Name != Self && i < len(members); i++ {
			members = append(members, children[members[i]]...)
		}
		readings = append(readings, m.read(g.Name, members, all))
	}
	return readings, machine, nil
}

// processes returns what the kernel says of each process.
func (m *Meter) processes() (map[int]procfs.ProcStat, error) {
	processes, err := m.files.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", err)
	}
	all := map[int]procfs.ProcStat{}
	for _, p := range processes {
		if s, err := p.Stat(); err == nil { // It may have ended.
			all[p.PID] = s
		}
	}
	return all, nil
}

// read adds up what the members of a group use. What several of them share, such as the buffers of Postgres, is what
// the largest of them has of it.
func (m *Meter) read(name string, members []int, all map[int]procfs.ProcStat) bench.Reading {
	r := bench.Reading{Name: name}
	var file, shared uint64
	for _, pid := range members {
		s := all[pid]
		own := int64(s.UTime) + int64(s.STime) //nolint:gosec // hundredths of a second
		// The children that have ended are counted with the parent that has waited for them.
		if name != Self {
			own += int64(s.CUTime) + int64(s.CSTime)
		}
		r.CPU += time.Duration(own) * ticks
		process, err := m.files.Proc(pid)
		if err != nil {
			continue // It has ended.
		}
		status, err := process.NewStatus()
		if err != nil {
			continue
		}
		r.Memory += int64(status.RssAnon) //nolint:gosec // bytes of memory
		file, shared = max(file, status.RssFile), max(shared, status.RssShmem)
		r.Peak = max(r.Peak, int64(status.VmHWM)) //nolint:gosec // bytes of memory
	}
	r.Files = int64(file)            //nolint:gosec // bytes of memory
	r.Memory += int64(file + shared) //nolint:gosec // bytes of memory
	return r
}

// Describe says what this machine is.
func Describe() string {
	model := ""
	if files, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := files.CPUInfo(); err == nil && len(cpus) > 0 {
			model = ", " + strings.Join(strings.Fields(cpus[0].ModelName), " ")
		}
	}
	return fmt.Sprintf("%s/%s, %d cores%s, %s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model, runtime.Version())
}
