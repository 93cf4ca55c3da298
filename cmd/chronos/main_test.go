package main_test

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	chronos "chronos/cmd/chronos"
	nodeservice "chronos/node/service"
)

// asChronos says in the environment of a process of the test binary that it is chronos.
const asChronos = "CHRONOS_TEST_MAIN"

// atOnce is how many tests run at once, of those that may: most of the time they wait for deadlines, and for members to
// come and go, so that is more than the machine has cores. All others run alone, before them: they set variables, are
// over soon, or ask how long something takes.
const atOnce = "4"

func TestMain(m *testing.M) {
	if os.Getenv(asChronos) != "" {
		chronos.Main()
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	var err error
	if built, err = os.MkdirTemp("", "chronos-built-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(built) // Whatever is left lies where such things are cleared away.
	os.Exit(code)
}

// patience is how long a test waits for what must happen.
const patience = 30 * time.Second

// stream is an output that a test can wait for.
type stream struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{} // closed and replaced at each write
}

func newStream() *stream { return &stream{written: make(chan struct{})} }

// Write appends to the output.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.written)
	s.written = make(chan struct{})
	return s.text.Write(p)
}

// String returns the output so far.
func (s *stream) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// await waits until the output matches pattern count times, and returns the submatches of the last one.
func (s *stream) await(t testing.TB, pattern string, count int) []string {
	t.Helper()
	expression := regexp.MustCompile(pattern)
	tooLate := time.After(patience)
	for {
		s.mu.Lock()
		written := s.written
		matches := expression.FindAllStringSubmatch(s.text.String(), -1)
		s.mu.Unlock()
		if len(matches) >= count {
			return matches[count-1]
		}
		select {
		case <-written:
		case <-tooLate:
			t.Fatalf("%q came %d times in %v, want %d; the output is\n%s", pattern, len(matches), patience, count, s)
		}
	}
}

// result is what a command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// run runs a command to its end.
func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return runUntil(ctx, stdin, args...)
}

// runUntil runs a command until its end or that of ctx.
func runUntil(ctx context.Context, stdin string, args ...string) result {
	var stdout, stderr bytes.Buffer
	code := chronos.Run(ctx, args, strings.NewReader(stdin), &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// program is a command that runs in the background.
type program struct {
	stdout, stderr *stream

	stop func() // asks it to stop
	code func(t *testing.T) int
}

// start runs a command in this process.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	p := &program{stdout: newStream(), stderr: newStream(), stop: cancel}
	done := make(chan int, 1)
	go func() { done <- chronos.Run(ctx, args, strings.NewReader(""), p.stdout, p.stderr) }()
	p.code = func(t *testing.T) int {
		t.Helper()
		select {
		case code := <-done:
			done <- code
			return code
		case <-time.After(patience):
			t.Fatalf("%q has not ended after %v", args, patience)
			return -1
		}
	}
	t.Cleanup(func() {
		cancel()
		p.code(t)
	})
	return p
}

// process is a command that runs as a process of its own.
type process struct {
	*program

	command *exec.Cmd
}

// startProcess runs a command as a process, without the environment's settings.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{
		program: &program{stdout: newStream(), stderr: newStream()},
		command: commandContext(t, self, args...),
	}
	p.command.Env = append(os.Environ(), asChronos+"=1")
	p.command.Stdout, p.command.Stderr = p.stdout, p.stderr
	// Nobody writes, and nobody says that it is over.
	if _, err := p.command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		_ = p.command.Wait() // The exit code says it all.
		close(done)
	}()
	p.code = func(t *testing.T) int {
		t.Helper()
		select {
		case <-done:
			return p.command.ProcessState.ExitCode()
		case <-time.After(patience):
			t.Fatalf("%q has not ended after %v", args, patience)
			return -1
		}
	}
	p.stop = func() { p.signal(t, syscall.SIGTERM) }
	t.Cleanup(func() {
		_ = p.command.Process.Kill() // unless it has ended
		p.code(t)
	})
	return p
}

// commandContext returns a command that the end of the test does not kill: it has to be stopped.
func commandContext(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(context.WithoutCancel(t.Context()), name, args...)
}

// signal sends a signal.
func (p *process) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// writeFile writes a file for the test and returns its path.
func writeFile(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestHelp(t *testing.T) {
	for _, args := range [][]string{
		nil,
		{"--help"},
		{"-h"},
		{"run", "--help"},
		{"dev", "-h"},
		{"send", "--help"},
		{"tail", "--help"},
		{"migrate", "--help"},
		{"migrate", "up", "--help"},
		{"version", "--help"},
		{"bind", "--help"},
		{"rewind", "--help"},
		{"window", "--help"},
	} {
		got := run(t, "", args...)
		if got.code != 0 || got.stderr != "" || !strings.HasPrefix(got.stdout, "Usage: chronos") {
			t.Errorf("chronos %q exits with %d and says\n%s%s", args, got.code, got.stdout, got.stderr)
		}
	}
}

// TestHelpOfEverySetting asks that the help of run shows every setting that it takes, with its default.
func TestHelpOfEverySetting(t *testing.T) {
	text := regexp.MustCompile(`\s+`).ReplaceAllString(run(t, "", "run", "--help").stdout, " ")
	names := chronos.SettingNames()
	for _, row := range nodeservice.Table(nodeservice.Run) {
		if row.Help == "" || !names[row.Name] {
			t.Errorf("--%s has the help %q, and is a flag: %v", row.Name, row.Help, names[row.Name])
		}
		if !strings.Contains(text, " --"+row.Name) || !strings.Contains(text, row.Describe(nodeservice.Run)) {
			t.Errorf("\"chronos run --help\" does not show --%s: %s", row.Name, row.Describe(nodeservice.Run))
		}
	}
}

func TestVersion(t *testing.T) {
	got := run(t, "", "version")
	if !regexp.MustCompile(`^chronos \S+ \(go1\.\S+, \w+/\w+\)\n$`).MatchString(got.stdout) || got.code != 0 {
		t.Errorf("chronos version exits with %d and prints %q", got.code, got.stdout)
	}
	before := chronos.SetVersion("v1.2.3")
	defer chronos.SetVersion(before)
	if got := run(t, "", "version"); !strings.HasPrefix(got.stdout, "chronos v1.2.3 (go") {
		t.Errorf("with a version of the linker, chronos version prints %q", got.stdout)
	}
}

// TestBuildVersion asks what a plain build calls itself.
func TestBuildVersion(t *testing.T) {
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123abcd"}
	clean := debug.BuildSetting{Key: "vcs.modified", Value: "false"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		info debug.BuildInfo
		want string
	}{
		{debug.BuildInfo{}, "0.1.0-dev"},
		{debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "0.1.0-dev"},
		{debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}, Settings: []debug.BuildSetting{commit}}, "v1.2.3"},
		{debug.BuildInfo{Settings: []debug.BuildSetting{commit, clean}}, "0.1.0-dev+0123abcd"},
		{debug.BuildInfo{Settings: []debug.BuildSetting{commit, dirty}}, "0.1.0-dev+0123abcd.dirty"},
	} {
		if got := chronos.BuildVersion(&c.info); got != c.want {
			t.Errorf("%v: %s, want %s", c.info, got, c.want)
		}
	}
}

// failingWriter is a standard output that is gone.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOutputThatCannotBeWrittenIsFailure(t *testing.T) {
	var stderr bytes.Buffer
	code := chronos.Run(t.Context(), []string{"version"}, nil, failingWriter{}, &stderr)
	if want := "chronos: io: read/write on closed pipe\n"; code != 1 || stderr.String() != want {
		t.Errorf("exit code %d, stderr %q, want 1 and %q", code, stderr.String(), want)
	}
}
