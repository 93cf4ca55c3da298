package servers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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
func openLocal(ctx context.Context, config *Config) (backend, error) {
	root, err := Repository()
	if err != nil {
		return nil, err
	}
	setup := exec.CommandContext(ctx, filepath.Join(root, "scripts/setup"), "kafka", "postgres")
	setup.Dir, setup.Stderr = root, config.Say
	if err := setup.Run(); err != nil {
		return nil, fmt.Errorf("set up Kafka and Postgres: %w", err)
	}
	ask := exec.CommandContext(ctx, "bash", "-c", inquiry)
	ask.Dir, ask.Stderr = root, config.Say
	if config.Shipped {
		ask.Env = append(ask.Environ(), "CHRONOS_TEST_KAFKA_JVM=shipped")
	}
	out, err := ask.Output()
	if err != nil {
		return nil, fmt.Errorf("find Kafka and Postgres: %w", err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) < 4 {
		return nil, fmt.Errorf("find Kafka and Postgres: the scripts say only %q", lines)
	}
	return &localBackend{
		dir: config.Dir, java: lines[0], home: lines[1], archive: lines[2], postgres: lines[3], jvm: lines[4:],
	}, nil
}

// Repository returns the root of the repository, from any folder in it.
func Repository() (string, error) {
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

// localServer is a server that is a process.
type localServer struct {
	*Process

	stopSignal syscall.Signal
}

func (s *localServer) Start(context.Context) error { return s.Process.Start() }
func (s *localServer) Kill(context.Context) error  { return s.Process.Kill() }
func (s *localServer) Stop(context.Context) error {
	return s.Process.Stop(s.stopSignal, 20*time.Second)
}

func (s *localServer) Freeze(context.Context) error {
	s.SignalTree(syscall.SIGSTOP)
	return nil
}

func (s *localServer) Thaw(context.Context) error {
	s.SignalTree(syscall.SIGCONT)
	return nil
}

func (b *localBackend) broker(ctx context.Context, spec brokerSpec) (Server, error) {
	dir := filepath.Join(b.dir, spec.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of %s: %w", spec.name, err)
	}
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(spec.properties)) {
		fmt.Fprintf(&text, "%s=%s\n", key, spec.properties[key])
	}
	fmt.Fprintf(&text, "log.dirs=%s\n", filepath.Join(dir, "data"))
	properties := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(properties, []byte(text.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the properties of %s: %w", spec.name, err)
	}
	jvm := append(slices.Clone(b.jvm), "-Djava.io.tmpdir="+dir)
	if _, err := os.Stat(b.archive); err == nil {
		jvm = append(jvm, "-XX:SharedArchiveFile="+b.archive, "-Xshare:auto")
	}
	jvm = append(jvm, "-cp", filepath.Join(b.home, "libs/*"))
	format := exec.CommandContext(ctx, b.java, append(slices.Clone(jvm),
		"kafka.tools.StorageTool", "format", "-t", spec.cluster, "-c", properties)...)
	if out, err := format.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("format the data of %s: %w: %s", spec.name, err, out)
	}
	if spec.collector != "" {
		jvm = append(jvm, "-Xlog:gc:file="+spec.collector+":utctime:filecount=0")
	}
	s := &localServer{
		Process: &Process{
			Command: append(append([]string{b.java}, jvm...), "kafka.Kafka", properties), Dir: dir, Log: spec.log,
		},
		stopSignal: syscall.SIGTERM,
	}
	b.servers = append(b.servers, s)
	return s, nil
}

func (b *localBackend) database(ctx context.Context, spec databaseSpec) (Server, error) {
	dir := filepath.Join(b.dir, spec.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of Postgres: %w", err)
	}
	who, err := PostgresUser()
	if err != nil {
		return nil, err
	}
	binaries, err := b.binaries(who)
	if err != nil {
		return nil, err
	}
	if who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			return nil, fmt.Errorf("give Postgres its folder: %w", err)
		}
	}
	data := filepath.Join(dir, "data")
	if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
		if err := initialize(ctx, binaries, dir, who, spec.password); err != nil {
			return nil, err
		}
	}
	command := []string{filepath.Join(binaries, "postgres"), "-D", data}
	for _, key := range slices.Sorted(maps.Keys(spec.settings)) {
		command = append(command, "-c", key+"="+spec.settings[key])
	}
	command = append(command, "-c", "port="+strconv.Itoa(spec.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=")
	s := &localServer{
		Process: &Process{Command: command, Dir: dir, Log: spec.log, User: who},
		// To stop at once: sessions are ended, and the next start recovers from the log.
		stopSignal: syscall.SIGQUIT,
	}
	b.servers = append(b.servers, s)
	return s, nil
}

// binaries returns the folder with the programs of Postgres. Another user may not be let into the repository: then they
// are copied.
func (b *localBackend) binaries(who *syscall.Credential) (string, error) {
	if who == nil || !strings.HasPrefix(b.postgres, filepath.Dir(b.home)) {
		return b.postgres, nil
	}
	there := filepath.Join(b.dir, "postgres-binaries")
	if _, err := os.Stat(there); err == nil {
		return filepath.Join(there, "bin"), nil
	}
	if err := os.CopyFS(there, os.DirFS(filepath.Dir(b.postgres))); err != nil {
		return "", fmt.Errorf("copy Postgres: %w", err)
	}
	return filepath.Join(there, "bin"), nil
}

// initialize makes an empty database.
func initialize(ctx context.Context, binaries, dir string, who *syscall.Credential, secret string) error {
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(secret), 0o600); err != nil {
		return fmt.Errorf("write the password of Postgres: %w", err)
	}
	if who != nil {
		if err := os.Chown(password, int(who.Uid), int(who.Gid)); err != nil {
			return fmt.Errorf("give Postgres its password: %w", err)
		}
	}
	initdb := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "--pgdata="+filepath.Join(dir, "data"),
		"--username=chronos", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256",
		"--pwfile="+password, "--no-sync")
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("make a database: %w: %s", err, out)
	}
	return nil
}

// PostgresUser returns whom Postgres runs as where this program runs as root; nil where it does not.
func PostgresUser() (*syscall.Credential, error) {
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
		errs = append(errs, s.Process.Kill())
	}
	return errors.Join(errs...)
}
