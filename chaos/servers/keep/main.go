// Keep keeps the servers of one test run: scripts/with-servers calls it.
//
//	keep BACKEND RUN SERVER...
//
// It starts each SERVER (kafka, postgres) as BACKEND says (processes or containers), with its data and its log in the
// folder RUN, writes the addresses to RUN/addresses, and stays until its standard input ends. Then it stops the servers
// and removes RUN. The other end of the input is held by with-servers alone, so it ends in whatever way with-servers
// ends, kill -9 included. A line on the input is the process group of the command that uses the servers: what is left
// of it then is ended first.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"chronos/chaos/servers"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stderr); err != nil {
		_, _ = fmt.Fprintf(os.Stderr, "keep: %v\n", err) // there is nobody else to tell
		os.Exit(1)
	}
}

// tries is how many times servers are started: one of their ports may be taken in the meantime.
const tries = 3

// run keeps servers until the input ends, or the context does.
func run(ctx context.Context, args []string, in io.Reader, say io.Writer) (err error) {
	if len(args) < 3 {
		return errors.New("name the backend, the folder of the run, and the servers")
	}
	backend, dir, wanted := args[0], args[1], args[2:]
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var users atomic.Int64
	go func() {
		defer cancel()
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if group, err := strconv.Atoi(lines.Text()); err == nil {
				users.Store(int64(group))
			}
		}
	}()
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var s *servers.Servers
	var addresses string
	for i := range tries {
		if s, addresses, err = start(ctx, backend, dir, wanted, say); err == nil || ctx.Err() != nil {
			break
		}
		_, _ = fmt.Fprintf(say, "keep: try %d of %d: %v\n", i+1, tries, err) // the last one is told by main, too
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := publish(dir, addresses); err != nil {
		return err
	}
	<-ctx.Done()
	end(int(users.Load()))
	return nil
}

// start starts servers, waits until all of them are ready, and returns where they are, as lines of a shell.
func start(
	ctx context.Context, backend, dir string, wanted []string, say io.Writer,
) (s *servers.Servers, addresses string, err error) {
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o711); err != nil {
		return nil, "", fmt.Errorf("make a folder for the servers: %w", err)
	}
	if s, err = servers.Open(ctx, servers.Config{Backend: backend, Dir: data, Logs: dir, Say: say}); err != nil {
		return nil, "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	var lines []string
	var waits []func() error
	for _, name := range slices.Sorted(slices.Values(wanted)) {
		line, wait, err := one(ctx, s, name)
		if err != nil {
			return s, "", err
		}
		lines, waits = append(lines, line+"\n"), append(waits, wait)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			return s, "", err
		}
	}
	return s, strings.Join(lines, ""), nil
}

// one begins to start a server, and returns where it will be and how to wait for it.
func one(ctx context.Context, s *servers.Servers, name string) (line string, wait func() error, err error) {
	switch name {
	case "kafka":
		k, err := s.Kafka(ctx, servers.KafkaConfig{})
		if err != nil {
			return "", nil, err
		}
		done := make(chan error, 1)
		go func() { done <- k.Start(ctx) }()
		return "export CHRONOS_TEST_KAFKA='" + k.Addresses[0] + "'", func() error { return <-done }, nil
	case "postgres":
		// Several packages of tests share it, and each node and each store has connections of its own.
		p, err := s.Postgres(ctx, servers.PostgresConfig{Settings: map[string]string{"max_connections": "400"}})
		if err == nil {
			err = p.Start(ctx)
		}
		if err != nil {
			return "", nil, err
		}
		return "export CHRONOS_TEST_POSTGRES='" + p.Admin.String() + "'",
			func() error { return p.Ready(ctx, 3*time.Minute) }, nil
	}
	return "", nil, fmt.Errorf("there is no server %q: it can be kafka or postgres", name)
}

// publish writes the file that with-servers waits for, all of it at once. It holds a password.
func publish(dir, addresses string) error {
	file := filepath.Join(dir, "addresses")
	err := os.WriteFile(file+".new", []byte(addresses), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("say where the servers are: %w", err)
	}
	return nil
}

// end ends a process group: first by asking, then by force. Zero is none.
func end(group int) {
	if group <= 1 {
		return
	}
	_ = servers.Await(context.Background(), 5*time.Second, func(context.Context) error {
		if err := syscall.Kill(-group, syscall.SIGTERM); !errors.Is(err, syscall.ESRCH) {
			return errors.New("somebody is left")
		}
		return nil
	})
	_ = syscall.Kill(-group, syscall.SIGKILL) // usually nobody is left
}
