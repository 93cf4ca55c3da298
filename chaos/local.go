package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// localBackend runs servers as processes of this machine, from what scripts/setup installs.
type localBackend struct {
	dir string

	java, home, archive string
	jvm                 []string
	postgres            string // the folder of the binaries

	servers []*localServer
}

// inquiry asks the scripts where things are: they know, and install them too.
const inquiry = `source scripts/lib.sh
java=$(find_java)
printf '%s\n' "$java" "$kafka_home" "$(class_archive "$java")" "$(find_postgres)" "${kafka_jvm[@]}"`

// openLocal finds the programs, and has them installed if need be.
func openLocal(ctx context.Context, dir string, say io.Writer) (backend, error) {
	root, err := repository()
	if err != nil {
		return nil, err
	}
	setup := exec.CommandContext(ctx, filepath.Join(root, "scripts/setup"), "kafka", "postgres")
	setup.Dir, setup.Stderr = root, say
	if err := setup.Run(); err != nil {
		return nil, fmt.Errorf("set up Kafka and Postgres: %w", err)
	}
	ask := exec.CommandContext(ctx, "bash", "-c", inquiry)
	ask.Dir, ask.Stderr = root, say
	out, err := ask.Output()
	if err != nil {
		return nil, fmt.Errorf("find Kafka and Postgres: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 4 {
		return nil, fmt.Errorf("find Kafka and Postgres: the scripts say only %q", lines)
	}
	return &localBackend{
		dir: dir, java: lines[0], home: lines[1], archive: lines[2], postgres: lines[3], jvm: lines[4:],
	}, nil
}

// repository returns the root of the repository, from any folder in it.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts/lib.sh")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("find the repository: run this in a clone of Chronos")
		}
		dir = filepath.Dir(dir)
	}
}

func (b *localBackend) name() string { return Processes }

// localServer is a server that is a process.
type localServer struct {
	*process

	stopSignal syscall.Signal
}

func (s *localServer) start(context.Context) error { return s.process.start() }
func (s *localServer) kill(context.Context) error  { return s.process.kill() }
func (s *localServer) stop(context.Context) error {
	return s.process.stop(s.stopSignal, 20*time.Second)
}
func (s *localServer) freeze(context.Context) error { s.signalTree(syscall.SIGSTOP); return nil }
func (s *localServer) thaw(context.Context) error   { s.signalTree(syscall.SIGCONT); return nil }

func (b *localBackend) broker(ctx context.Context, spec brokerSpec) (server, error) {
	dir := filepath.Join(b.dir, "kafka-"+strconv.Itoa(spec.number))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of broker %d: %w", spec.number, err)
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(spec.properties)) {
		fmt.Fprintf(&text, "%s=%s\n", key, spec.properties[key])
	}
	fmt.Fprintf(&text, "log.dirs=%s\n", filepath.Join(dir, "data"))
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte(text.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the properties of broker %d: %w", spec.number, err)
	}
	jvm := append(slices.Clone(b.jvm), "-Djava.io.tmpdir="+dir)
	if _, err := os.Stat(b.archive); err == nil {
		jvm = append(jvm, "-XX:SharedArchiveFile="+b.archive, "-Xshare:auto")
	}
	jvm = append(jvm, "-cp", filepath.Join(b.home, "libs/*"))
	format := exec.CommandContext(ctx, b.java, append(slices.Clone(jvm),
		"kafka.tools.StorageTool", "format", "-t", clusterID, "-c", properties)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format the data of broker %d: %w: %s", spec.number, err, out)
	}
	s := &localServer{
		process: &process{
			command: append(append([]string{b.java}, jvm...), "kafka.Kafka", properties), dir: dir, log: spec.log,
		},
		stopSignal: syscall.SIGTERM,
	}
	b.servers = append(b.servers, s)
	return s, nil
}

func (b *localBackend) database(ctx context.Context, spec databaseSpec) (server, error) {
	dir := filepath.Join(b.dir, "postgres")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of Postgres: %w", err)
	}
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(spec.password), 0o600); err != nil {
		return nil, fmt.Errorf("write the password of Postgres: %w", err)
	}
	who, err := postgresUser()
	if err != nil {
		return nil, err
	}
	binaries := b.postgres
	if who != nil {
		// Postgres refuses to be root, and another user may not be let into the repository.
		if strings.HasPrefix(binaries, filepath.Dir(b.home)) {
			if err := os.CopyFS(filepath.Join(dir, "binaries"), os.DirFS(filepath.Dir(binaries))); err != nil {
				return nil, fmt.Errorf("copy Postgres: %w", err)
			}
			binaries = filepath.Join(dir, "binaries/bin")
		}
		for _, name := range []string{dir, password} {
			if err := os.Chown(name, int(who.Uid), int(who.Gid)); err != nil {
				return nil, fmt.Errorf("give Postgres its folder: %w", err)
			}
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "--pgdata="+data, "--username=chronos",
		"--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", "--pwfile="+password, "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a database: %w: %s", err, out)
	}
	command := []string{filepath.Join(binaries, "postgres"), "-D", data}
	for _, key := range slices.Sorted(maps.Keys(spec.settings)) {
		command = append(command, "-c", key+"="+spec.settings[key])
	}
	command = append(command, "-c", "port="+strconv.Itoa(spec.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=")
	s := &localServer{
		process: &process{command: command, dir: dir, log: spec.log, user: who},
		// To stop at once: sessions are ended, and the next start recovers from the log.
		stopSignal: syscall.SIGQUIT,
	}
	b.servers = append(b.servers, s)
	return s, nil
}

// postgresUser returns whom Postgres runs as where the suite runs as root; nil where it does not.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // nobody else
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, _ := strconv.ParseUint(u.Uid, 10, 32)
		gid, _ := strconv.ParseUint(u.Gid, 10, 32)
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("run Postgres: there is no user postgres or nobody, and it refuses to be root")
}

func (b *localBackend) close() error {
	var errs []error
	for _, s := range b.servers {
		errs = append(errs, s.process.kill())
	}
	return errors.Join(errs...)
}
