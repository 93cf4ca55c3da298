package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// Server is one Kafka broker or one Postgres. Its address never changes.
type Server interface {
	// Start starts it, or starts it again on the data that it has left. It does not wait until it is ready.
	Start(ctx context.Context) error

	// Kill ends it at once, as a loss of power would, except that the machine keeps what it has in memory.
	Kill(ctx context.Context) error

	// Stop asks it to end, and waits until it has. A broker hands its partitions over first; Postgres ends all
	// sessions at once, and its next start recovers from its log.
	Stop(ctx context.Context) error

	// Freeze stops all its processes where they are; Thaw lets them go on.
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
}

// ErrImpossible is what is returned where this machine or the backend can't do what was asked for, such as to kill
// a server that somebody else runs.
var ErrImpossible = errors.New("not possible here")

// The backends by their names: where servers come from.
const (
	Processes  = "processes"  // of this machine
	Containers = "containers" // of an engine on this machine
	Given      = "given"      // from somebody else, who runs them
)

// Config says where servers come from.
type Config struct {
	// Backend is one of the names above, as Choose has returned it.
	Backend string

	// Dir is where the servers keep their data; "" for a new folder in /var/tmp. Close removes it in either case.
	Dir string

	// Logs is the folder for the logs of the servers. It must exist.
	Logs string

	// Say is told what has to be installed, for people.
	Say io.Writer

	// Shipped gives brokers the Java that Kafka's own scripts give them: 1 GB, G1, both compilers, and a log of the
	// collector. Otherwise theirs is small and starts fast. Containers have a Java of their own.
	Shipped bool
}

// Servers is a set of servers that belong together: they share a block of ports and a folder, and end together.
type Servers struct {
	config  Config
	backend backend // nil for servers that were given
	ports   *ports
}

// Choose returns the name of the backend to use. Without a name it is containers if an engine answers, has the
// images and can be reached, and processes otherwise; say is told which, and why. Containers that were asked for and
// can't be had are an error.
func Choose(ctx context.Context, name string, say io.Writer) (string, error) {
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

// Open prepares a place for servers. Nothing runs yet. Whoever has it closes it.
func Open(ctx context.Context, config Config) (*Servers, error) {
	s := &Servers{config: config}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Servers) open(ctx context.Context) error {
	var err error
	if s.config.Dir == "" {
		// Not in a file system in memory, where fsync is worth nothing.
		if s.config.Dir, err = os.MkdirTemp("/var/tmp", "chronos-servers-"); err != nil {
			return fmt.Errorf("make a folder for the servers: %w", err)
		}
	}
	// Postgres may have to be another user.
	if err = os.Chmod(s.config.Dir, 0o711); err != nil {
		return fmt.Errorf("let the servers into their folder: %w", err)
	}
	if s.ports, err = leasePorts(); err != nil {
		return err
	}
	switch s.config.Backend {
	case Processes:
		s.backend, err = openLocal(ctx, &s.config)
	case Containers:
		s.backend, err = openDocker(ctx)
	case Given:
	default:
		err = fmt.Errorf("there is no backend %q: it can be %s or %s", s.config.Backend, Processes, Containers)
	}
	return err
}

// Backend is the name of the backend, for people.
func (s *Servers) Backend() string { return s.config.Backend }

// Port returns a port of 127.0.0.1 on which nobody listens, from the block of this set.
func (s *Servers) Port() (int, error) { return s.ports.take() }

// Close ends what is left of the servers, and removes their data.
func (s *Servers) Close() error {
	var errs []error
	if s.backend != nil {
		errs = append(errs, s.backend.close())
	}
	if s.ports != nil {
		s.ports.close()
	}
	if s.config.Dir == "" {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, removeAll(s.config.Dir))...)
}

// removeAll removes a folder. A process that is about to end may still write a file into it.
func removeAll(dir string) error {
	return Await(context.Background(), 3*time.Second, func(context.Context) error { return os.RemoveAll(dir) })
}

// log is the file for the log of a server.
func (s *Servers) log(name string) string { return filepath.Join(s.config.Logs, name+".log") }

// backend makes servers.
type backend interface {
	// broker prepares a Kafka broker with its own data.
	broker(ctx context.Context, b brokerSpec) (Server, error)

	// database prepares a Postgres with an empty database, or with the data that is there already.
	database(ctx context.Context, d databaseSpec) (Server, error)

	// close ends what is left.
	close() error
}

// brokerSpec is what a broker is made from.
type brokerSpec struct {
	name       string // that of its folder
	cluster    string // the id of the cluster
	properties map[string]string
	log        string // the file for its log
	collector  string // the file for the log of its garbage collector; "" for none
}

// databaseSpec is what a database server is made from.
type databaseSpec struct {
	name     string // that of its folder
	port     int
	password string
	settings map[string]string
	log      string
}

// Await calls try until it succeeds, for some time at most, and returns the last error.
func Await(ctx context.Context, within time.Duration, try func(context.Context) error) error {
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

// Tail returns the last lines of a log, for an error that has to be looked into.
func Tail(file string) string {
	const last = 2000
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text[max(len(text)-last, 0):])
}
