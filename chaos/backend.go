package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"time"
)

// server is one Kafka broker or one Postgres. Its address never changes.
type server interface {
	// start starts it, or starts it again on the data that it has left. It does not wait until it is ready.
	start(ctx context.Context) error

	// kill ends it at once, as a loss of power would, but for what the machine has in its memory.
	kill(ctx context.Context) error

	// stop ends it in order, and waits until it has.
	stop(ctx context.Context) error

	// freeze stops all its processes where they are; thaw lets them go on.
	freeze(ctx context.Context) error
	thaw(ctx context.Context) error
}

// backend makes servers.
type backend interface {
	// name is what it is called in front of people.
	name() string

	// broker prepares a Kafka broker with its own data. properties are those of its server.properties.
	broker(ctx context.Context, b brokerSpec) (server, error)

	// database prepares a Postgres with an empty database.
	database(ctx context.Context, d databaseSpec) (server, error)

	// close ends what is left and removes the data.
	close() error
}

// brokerSpec is what a broker is made from.
type brokerSpec struct {
	number     int // from 1
	properties map[string]string
	log        string // the file for its log
}

// databaseSpec is what a database server is made from.
type databaseSpec struct {
	port     int
	password string
	settings map[string]string
	log      string
}

// The backends by their names.
const (
	Processes  = "processes"
	Containers = "containers"
)

// openBackend returns the backend of that name. Without a name it is containers if an engine answers and has the
// images, and processes otherwise; say is told which and why. A backend that was asked for and can't be had is an
// error.
func openBackend(ctx context.Context, name, dir string, say io.Writer) (backend, error) {
	switch name {
	case Processes:
		return openLocal(ctx, dir, say)
	case Containers:
		return openDocker(ctx, dir)
	case "":
		docker, err := openDocker(ctx, dir)
		if err == nil {
			return docker, nil
		}
		_, _ = fmt.Fprintf(say, "servers are processes of this machine, since there are no containers: %v\n", err)
		return openLocal(ctx, dir, say)
	}
	return nil, fmt.Errorf("there is no backend %q: it can be %s or %s", name, Processes, Containers)
}

// freePorts returns ports of 127.0.0.1 on which nobody listens, below those that the kernel gives out by itself. It
// draws them from the operating system's randomness, so that two suites hardly meet.
func freePorts(n int) ([]int, error) {
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	random := mathrand.New(mathrand.NewChaCha8(seed))
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries > 100*n {
			return nil, errors.New("find free ports: there seem to be none")
		}
		port := 10_000 + random.IntN(22_000)
		l, err := net.Listen("tcp", local(port)) //nolint:noctx // it is closed at once
		if err != nil {
			continue
		}
		_ = l.Close() // it was only a look
		ports = append(ports, port)
	}
	return ports, nil
}

// local is the address of a port of this machine.
func local(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// await calls try until it succeeds, for some time at most, and returns the last error.
func await(ctx context.Context, within time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %v: %w", within, err)
		case <-pause.C:
		}
	}
}

// tail returns the last lines of a log, for an error that has to be looked into.
func tail(file string) string {
	const last = 2000
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text[max(len(text)-last, 0):])
}
