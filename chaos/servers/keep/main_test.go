package main

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/chaos/servers"
)

// TestKeep keeps a Postgres for a command that never ends. When the input ends, the command is ended, the server is
// gone, and so is everything on the disk.
func TestKeep(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts Postgres: not in a short test")
	}
	dir := filepath.Join(t.TempDir(), "run")
	for _, d := range []string{filepath.Dir(filepath.Dir(dir)), filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o711); err != nil { // Postgres may be another user
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	in, lifeline := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- run(t.Context(), []string{servers.Processes, dir, "postgres"}, in, os.Stderr) }()
	var text []byte
	err := servers.Await(t.Context(), 3*time.Minute, func(context.Context) error {
		select {
		case err := <-done:
			t.Fatal(err)
		default:
		}
		var err error
		text, err = os.ReadFile(filepath.Join(dir, "addresses"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimSuffix(strings.TrimPrefix(string(text), "export CHRONOS_TEST_POSTGRES='"), "'\n")
	conn, err := pgx.Connect(t.Context(), address)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	_ = conn.Close(t.Context())
	user := exec.CommandContext(t.Context(), "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
	user.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := user.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(lifeline, "nonsense\n"+strconv.Itoa(user.Process.Pid)+"\n"); err != nil {
		t.Fatal(err)
	}
	_ = lifeline.Close()
	if err := user.Wait(); err == nil {
		t.Error("the command has ended by itself")
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}
	if _, err := pgx.Connect(t.Context(), address); err == nil {
		t.Error("the server is there")
	}
}

// TestUsage asks for what there is not.
func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                 "name the backend",
		"given x mysql":    `there is no server "mysql"`,
		"clouds x kafka":   `there is no backend "clouds"`,
		"given x postgres": "not possible here",
	} {
		args := strings.Fields(line)
		if len(args) > 1 {
			args[1] = t.TempDir()
		}
		in, lifeline := io.Pipe()
		err := run(t.Context(), args, in, io.Discard)
		_ = lifeline.Close()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
