package main_test

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReload changes the file of a node that runs, and sends SIGHUP: what can be is in force, the log names what takes
// a restart, and a file that is wrong changes nothing.
func TestReload(t *testing.T) {
	_, address := cluster(t, "")
	file := writeFile(t, "chronos.yaml", "")
	write := func(more string) {
		t.Helper()
		text := "store: sqlite:" + filepath.Join(filepath.Dir(file), "chronos.db") + "\nbrokers: " + address +
			"\nmigrate: true\ncreate-topics: true\n" + more
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("routes:\n- {input: a.in, output: a.out}\n")
	p := startProcess(t, "run", "--config", file)
	p.stderr.await(t, logged("INFO", "started"), 1)
	const reloaded = "SIGHUP: the level of the log is reloaded; passwords, tokens and certificates are read at each use"
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, logged("INFO", reloaded)+`,"log_level":"info"}`, 1)

	write("log-level: warn\nhold-time: 7s\nroutes:\n- {input: a.in, output: a.out, targets: [more]}\n")
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, logged("WARN", reloaded)+`,"log_level":"warn","needs_restart":"hold-time, route a.in"}`, 1)

	write("hold-times: 7s\n")
	p.signal(t, syscall.SIGHUP)
	p.stderr.await(t, `"level":"ERROR","msg":"SIGHUP: nothing is reloaded[^"]*","error":".*hold-times`, 1)

	p.signal(t, syscall.SIGTERM)
	if code := p.code(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if strings.Contains(p.stderr.String(), `"msg":"stopped"`) {
		t.Errorf("what is below warn is logged, although the level is warn:\n%s", p.stderr)
	}
}

// TestBrokenPipe takes the reader of a node's log away: the node goes on, and stops cleanly when it is told to, with
// lines that nobody reads.
func TestBrokenPipe(t *testing.T) {
	_, address := cluster(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	command := commandContext(t, self, "run", "--brokers", address, "--create-topics", "--migrate", "--store",
		"sqlite:"+filepath.Join(t.TempDir(), "chronos.db"))
	command.Env, command.Stderr = append(os.Environ(), asChronos+"=1"), writer
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() }) // unless it has ended
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(reader)
	for lines.Scan() && !strings.Contains(lines.Text(), `"msg":"started"`) {
		continue
	}
	if lines.Err() != nil || !strings.Contains(lines.Text(), `"msg":"started"`) {
		t.Fatalf("the node has not started: %v", lines.Err())
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("a node whose log nobody reads ends with %v", err)
	}
}
