package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that was started here, with all the processes that it has started itself. Its output is
// appended to a file.
type Process struct {
	Command []string
	Env     []string
	Dir     string
	Log     string              // the file
	User    *syscall.Credential // nil for the user of this program

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

// Start starts the program. It ends when this program ends, whatever it ends by.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the log of %s: %w", p.Command[0], err)
	}
	defer out.Close() //nolint:errcheck // the program has it
	cmd := exec.CommandContext(context.Background(), p.Command[0], p.Command[1:]...)
	cmd.Env = append(os.Environ(), p.Env...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: p.User}
	done, started := make(chan struct{}), make(chan error, 1)
	go func() {
		// Linux takes the end of the thread that has started a process for that of its parent, and Pdeathsig would
		// kill it: this thread stays until the program has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit code says it all
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start %s: %w", p.Command[0], err)
	}
	p.cmd, p.done = cmd, done
	return nil
}

// PID returns the id of the process that was started last; 0 if none was.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Running reports whether the program runs.
func (p *Process) Running() bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return false
	}
	select {
	case <-done:
		return false
	default:
		return true
	}
}

// ExitCode returns how the program has ended; -1 while it runs, and where a signal has ended it.
func (p *Process) ExitCode() int {
	if p.Running() {
		return -1
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return -1
	}
	return p.cmd.ProcessState.ExitCode()
}

// Ended waits until the program has ended, for some time at most, and tells whether it has.
func (p *Process) Ended(within time.Duration) bool {
	p.mu.Lock()
	done := p.done
	p.mu.Unlock()
	if done == nil {
		return true
	}
	select {
	case <-done:
		return true
	case <-time.After(within):
		return false
	}
}

// Signal sends a signal to the program alone.
func (p *Process) Signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return errors.New("it was never started")
	}
	return p.cmd.Process.Signal(s)
}

// SignalTree sends a signal to the program and to all that it has started. A server of Postgres has sessions of its
// own for its processes, so that a signal to the group would miss them.
func (p *Process) SignalTree(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	for _, pid := range tree(p.cmd.Process.Pid) {
		_ = syscall.Kill(pid, s) // it may have ended meanwhile
	}
}

// Kill ends the program and all that it has started, and waits until they are gone.
func (p *Process) Kill() error {
	p.mu.Lock()
	if p.cmd == nil {
		p.mu.Unlock()
		return nil
	}
	all := tree(p.cmd.Process.Pid)
	p.mu.Unlock()
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended meanwhile
	}
	limit := time.Now().Add(10 * time.Second)
	for !p.Ended(time.Millisecond) || slices.ContainsFunc(all, alive) {
		if time.Now().After(limit) {
			return fmt.Errorf("kill %s: it is still there after 10 s", p.Command[0])
		}
	}
	return nil
}

// Stop asks the program to end, and kills it when it does not within some time.
func (p *Process) Stop(s syscall.Signal, within time.Duration) error {
	if !p.Running() {
		return nil
	}
	if err := p.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.Command[0], err)
	}
	if p.Ended(within) {
		return nil
	}
	return p.Kill()
}

// alive reports whether a process is there and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}

// tree returns a process and its descendants, the parents first.
func tree(root int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, _, _ := strings.Cut(string(stat), " ")
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			continue
		}
		child, _ := strconv.Atoi(pid)
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], child)
	}
	all := []int{root}
	for i := 0; i < len(all); i++ {
		all = append(all, children[all[i]]...)
	}
	return all
}
