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

// chooseBackend returns the name of the backend to use. Without a name it is containers if an engine answers, has the
// images and can be reached, and processes otherwise; say is told which, and why. Containers that were asked for and
// can't be had are an error.
func chooseBackend(ctx context.Context, name string, say io.Writer) (string, error) {
	if name != Containers && name != "" {
		return name, nil
	}
	err := tryDocker(ctx)
	switch {
	case name == Containers:
		return name, err
	case err != nil:
		_, _ = fmt.Fprintf(say, "Kafka and Postgres are processes, because there are no containers: %v\n", err)
		return Processes, nil
	}
	_, _ = fmt.Fprintln(say, "Kafka and Postgres are containers")
	return Containers, nil
}

// openBackend returns the backend of that name.
func openBackend(ctx context.Context, name, dir string, say io.Writer) (backend, error) {
	switch name {
	case Processes:
		return openLocal(ctx, dir, say)
	case Containers:
		docker, err := openDocker(ctx)
		if err != nil {
			return nil, err
		}
		return docker, nil
	}
	return nil, fmt.Errorf("there is no backend %q: it can be %s or %s", name, Processes, Containers)
}

// ports are the ports of 127.0.0.1 that one cluster uses: a block of a hundred, below those that the kernel gives out
// by itself. The first one is listened on as long as the block is in use, so that another suite on this machine takes
// another block: all ports of a cluster are chosen long before anybody listens on them.
type ports struct {
	lease net.Listener
	next  int
	end   int
}

// leasePorts finds a block. It begins to look at a place of the operating system's randomness.
func leasePorts() (*ports, error) {
	const first, size, blocks = 10_000, 100, 220
	var seed [32]byte
	_, _ = rand.Read(seed[:]) // never fails
	start := mathrand.New(mathrand.NewChaCha8(seed)).IntN(blocks)
	for i := range blocks {
		base := first + size*((start+i)%blocks)
		l, err := net.Listen("tcp", local(base)) //nolint:noctx // it is there at once, or not at all
		if err == nil {
			return &ports{l, base + 1, base + size}, nil
		}
	}
	return nil, errors.New("find free ports: there are none from 10,000 to 32,000")
}

// take returns a port on which nobody listens.
func (p *ports) take() (int, error) {
	for ; p.next < p.end; p.next++ {
		l, err := net.Listen("tcp", local(p.next)) //nolint:noctx // it is closed at once
		if err != nil {
			continue
		}
		_ = l.Close() // it was only a look
		p.next++
		return p.next - 1, nil
	}
	return 0, errors.New("find free ports: a hundred are not enough")
}

// close gives the block back.
func (p *ports) close() { _ = p.lease.Close() } // nobody has ever connected

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
