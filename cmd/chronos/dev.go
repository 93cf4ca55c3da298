package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/broker/embedded"
	"chronos/node/broker/kafka"
	"chronos/node/service"
)

// devCommand runs everything in one process.
type devCommand struct {
	Listen  string `default:"127.0.0.1:9092" help:"Address of the broker; port 0 takes a free one."`
	DataDir *text  `placeholder:"FOLDER" help:"Keep all messages there, over restarts. Default nowhere."`
	Store   string `placeholder:"journal:TOPIC" help:"Keep what waits in a topic of the broker. Default a SQLite file."`

	sandboxSettings
}

// Help says what is not as in production.
func (c *devCommand) Help() string {
	return `The broker speaks the Kafka protocol, and has the topics chronos.in, chronos.out, chronos.dead, where
rejected records go, and chronos.outcomes, which tells what became of instructions. All callback
lanes are served, also to servers on this machine (chronos send --url http://127.0.0.1:8080). The headers
chronosMessageId and chronosDeadline stay on the message, so that "chronos tail" can tell how late it is.
It is for trying and testing, not for messages that you need.`
}

// The dead-letter topic and the consumer group of the embedded node.
const (
	devDead  = "chronos.dead"
	devGroup = "chronos"
)

// Run runs a broker, a store and a node until ctx is done.
func (c *devCommand) Run(ctx context.Context, w *world) (err error) {
	level := c.values.LogLevel(slog.LevelWarn)
	log := slog.New(slog.NewTextHandler(w.stderr, &slog.HandlerOptions{Level: level}))
	folder, err := c.folder()
	if err != nil {
		return err
	}
	listener, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // The broker may have closed it already.
	if folder == "" {
		if folder, err = os.MkdirTemp("", "chronos-dev-"); err != nil {
			return fmt.Errorf("make a folder for the store: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	} else if err := os.MkdirAll(folder, 0o700); err != nil {
		return fmt.Errorf("make the folder %s: %w", folder, err)
	}
	config, err := c.config()
	if err != nil {
		return err
	}
	// The store comes first: it holds its files exclusively, which keeps a second process out of the folder.
	store, err := c.open(ctx, folder, listener.Addr().String(), &config)
	if err != nil {
		return err
	}
	broker := embedded.Config{
		Listener: listener, Topics: config.Routes[0].Topics(), Log: log,
	}
	if c.DataDir != nil {
		broker.Folder = filepath.Join(folder, "kafka")
	}
	cluster, err := embedded.Start(broker)
	if err != nil {
		return errors.Join(err, store.Close())
	}
	defer cluster.Close()
	address := cluster.Address()
	screen := &screen{out: w.stdout}
	secret := make([]byte, 32) // of this process: there is no other node
	if _, err := rand.Read(secret); err != nil {
		return errors.Join(fmt.Errorf("draw a secret: %w", err), store.Close())
	}
	s, err := c.service(service.Config{
		RequestSecrets: [][]byte{secret},
		Node:           config, Kafka: kafka.Connection{Brokers: []string{address}}, Group: devGroup,
		CreateTopics: true,
		Migrate:      true, Callback: service.LocalCallbacks(),
	}, store, service.Options{Log: log, Observe: screen.observe, Version: currentVersion()})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	screen.print(c.banner(address, s))
	return s.Run(ctx)
}

// open opens the store: a file, which is given its schema, or a journal on the broker, which is not there yet.
func (c *devCommand) open(
	ctx context.Context, folder, broker string, config *node.Config,
) (*service.Store, error) {
	ctx = context.WithoutCancel(ctx)
	target := service.InFile(filepath.Join(folder, "chronos.db"))
	if c.Store != "" {
		topic, is := strings.CutPrefix(c.Store, "journal:")
		if !is || !node.IsTopic(topic) || slices.Contains(config.Routes[0].Topics(), topic) {
			return nil, usagef("--store is %s: it must be journal:TOPIC, such as journal:chronos.journal, with a "+
				"topic of its own; leave it out for a SQLite file", shown(c.Store))
		}
		target = service.InJournal(service.Journal{
			Topic: topic, Kafka: kafka.Connection{Brokers: []string{broker}}, Input: service.DefaultInput,
			Group: devGroup, Dir: filepath.Join(folder, "journal"),
		})
	}
	store, err := target.Open(ctx, config.StoreTimeout())
	if err != nil || target.IsJournal() {
		return store, err
	}
	if _, err := store.Migrate(ctx); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// service returns the embedded node. Its listeners take free ports where the usual ones are taken, unless somebody has
// chosen others.
func (c *devCommand) service(
	config service.Config, store *service.Store, options service.Options,
) (s *service.Service, err error) {
	if config.Admin, err = c.values.Admin(service.DefaultAdmin); err != nil {
		return nil, err
	}
	if config.API, err = c.values.API(service.DefaultAPI); err != nil {
		return nil, err
	}
	if config.Metaswitch, err = c.values.Metaswitch(); err != nil {
		return nil, err
	}
	if config.Horae, config.HoraeURL, err = c.values.Horae(service.DefaultHorae); err != nil {
		return nil, err
	}
	if config.Retention, err = c.values.Retention(); err != nil {
		return nil, err
	}
	if c.Store != "" {
		if config.Metaswitch != "" || c.values.HoraeIsSet() {
			return nil, usagef("--store is %s, a journal, which keeps no queues and no timers of Metaswitch: leave "+
				"--metaswitch-listen and --horae-listen out", shown(c.Store))
		}
		config.Horae = ""
		config.Node.Callbacks.Lanes = nil // it keeps no queues
	}
	const free = "127.0.0.1:0"
	for {
		s, err = service.With(config, store, options)
		taken, is := errors.AsType[*admin.InUseError](err)
		switch {
		case is && taken.Name == "admin" && !c.values.AdminIsSet() && config.Admin.Listen != free:
			config.Admin.Listen = free
		case is && taken.Name == "api" && !c.values.APIIsSet() && config.API.Listen != free:
			config.API.Listen = free
		case is && taken.Name == "horae" && !c.values.HoraeIsSet() && config.Horae != free:
			config.Horae = free
		default:
			return s, err
		}
	}
}

// config returns the configuration of the embedded node.
func (c *devCommand) config() (node.Config, error) {
	config := node.Default()
	if _, err := rand.Read(config.Seed[:]); err != nil {
		return config, fmt.Errorf("draw a seed: %w", err)
	}
	config.Routes = []node.Route{{
		Input: service.DefaultInput, Output: service.DefaultOutput, Targets: c.values.Targets(), DeadLetter: devDead,
		Outcomes: service.DefaultOutcomes,
	}}
	if !config.Routes[0].Finds(anyCallback) {
		config.Routes[0].Targets = append(config.Routes[0].Targets, node.CallbackPrefix+"*")
	}
	config.Callbacks.Lanes = []node.CallbackLane{{Name: node.TasksLane}}
	config.RelayHeaders = []string{node.HeaderID, node.HeaderDeadline}
	config.EpochDeadlines = c.values.EpochDeadlines()
	if wrong, is := errors.AsType[*node.ConfigError](config.Validate()); is {
		return config, usagef("--targets has %s: %s", wrong.Value, wrong.Allowed)
	}
	return config, nil
}

// anyCallback is the callback lane of messages that name none.
const anyCallback = node.CallbackPrefix + "default"

// listen takes the address of the broker.
func (c *devCommand) listen(ctx context.Context) (net.Listener, error) {
	host, port, err := net.SplitHostPort(c.Listen)
	ip := net.ParseIP(host)
	if err != nil || host == "" || port == "" || ip != nil && ip.IsUnspecified() {
		return nil, usagef(
			"--listen is %s: it must be HOST:PORT, the address that clients reach the broker at", shown(c.Listen))
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", c.Listen)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("%s is in use, by another Kafka perhaps: choose another address with --listen, "+
			"such as --listen 127.0.0.1:9093", c.Listen)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", c.Listen, err)
	}
	return listener, nil
}

// folder returns where to keep all messages; "" for nowhere.
func (c *devCommand) folder() (string, error) {
	switch {
	case c.DataDir == nil:
		return "", nil
	case *c.DataDir == "":
		return "", usagef(`--data-dir is "": it must name a folder; without --data-dir, messages are kept nowhere`)
	default:
		return string(*c.DataDir), nil
	}
}

// banner tells how to send a first message and see it arrive, in lines that work when they are copied.
func (c *devCommand) banner(address string, s *service.Service) string {
	self := ownName()
	brokers := ""
	if address != "127.0.0.1:9092" {
		brokers = " --brokers " + address
	}
	id, deadline := "$(cat /proc/sys/kernel/random/uuid)", "$(date -u -d '+5 sec' +%FT%T.%3NZ)"
	if runtime.GOOS != "linux" {
		id, deadline = "$(uuidgen)", "$(date -u -v+5S +%FT%TZ)"
	}
	kept := "in memory, gone when it stops: keep it with --data-dir"
	if c.DataDir != nil {
		kept = "kept in " + string(*c.DataDir)
	}
	lines := []string{
		"Chronos runs, with a Kafka broker on " + address + " (" + kept + ").",
		"",
		"In another terminal, send a message that is due in five seconds, and see what arrives:",
		"",
		"  " + self + " send" + brokers + ` --in 5s --key order-1 '{"order":1}'`,
		"  " + self + " tail" + brokers,
		"",
		"The same with kcat:",
		"",
		`  echo '{"order":1}' | kcat -P -b ` + address + ` -t chronos.in -k order-1 -H chronosMessageId=` + id +
			` -H chronosDeadline=` + deadline,
		`  kcat -C -u -b ` + address + ` -t chronos.out -o beginning -f '%T key=%k headers=[%h] %s\n'`,
		"",
	}
	if api := s.APIURL(); api != "" {
		lines = append(lines, "The same by HTTP:", "",
			"  curl -X PUT "+api+`/v1/lanes/chronos.out/messages/order-1 --json '{"delay":"5s","value":"hello"}'`, "")
	}
	if horae := s.HoraeURL(); horae != "" {
		lines = append(lines, "Queues as horae has them: "+horae+", see docs/QUEUES.md", "")
	}
	if timers := s.MetaswitchURL(); timers != "" {
		lines = append(lines, "Timers as Metaswitch's Chronos has them: "+timers, "")
	}
	lines = append(lines, look(self, address, s.URL())...)
	lines = append(lines, "Every message that fires is a line here, and so is what became of each instruction. "+
		"Ctrl-C stops.", "")
	return strings.Join(lines, "\n")
}

// look tells how to look at what waits. Commands find a node at the default address by themselves.
func look(self, broker, admin string) []string {
	if admin == "" {
		return nil
	}
	lines := []string{
		"What waits, and what there is to set right: " + self + " list, get, count, top, pause, cancel",
		"A page, metrics and health: " + admin, "",
	}
	if admin == "http://"+service.DefaultAdmin {
		return lines
	}
	return append(lines, "The usual ports are taken or not wanted. For all commands in another terminal:", "",
		"  export CHRONOS_ADMIN="+admin+" CHRONOS_BROKERS="+broker, "")
}

// ownName returns what a person types to run this program.
func ownName() string {
	path, err := os.Executable()
	if err != nil {
		return "chronos"
	}
	found, err := exec.LookPath("chronos")
	if err == nil {
		if found, err = filepath.EvalSymlinks(found); err == nil && found == path {
			return "chronos"
		}
	}
	return typed(path)
}

// typed returns what a person types to run the program at path. What "go run" has built lies in a folder of the build
// cache, under a name that nobody can type and that does not last.
func typed(path string) string {
	slashed := filepath.ToSlash(path)
	if strings.Contains(slashed, "/go-build") && strings.TrimSuffix(filepath.Base(slashed), ".exe") == "chronos" {
		return "go run ./cmd/chronos"
	}
	if strings.ContainsAny(path, " '\"$\\") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// screen is where a person who tries Chronos looks.
type screen struct {
	mu  sync.Mutex
	out io.Writer
}

// print prints text and ends the line.
func (s *screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintln(s.out, text) // Messages are delivered whether somebody looks or not.
}

// observe prints a line for each message that fired, and for each outcome.
func (s *screen) observe(event node.Event) {
	e, ok := event.(node.Fired)
	if !ok {
		return
	}
	for i := range e.Messages {
		m := &e.Messages[i]
		at := e.At.UTC().Format("15:04:05.000Z")
		switch m.Lane {
		case service.DefaultOutcomes:
			s.print(fmt.Sprintf("%s  outcome  %s", at, told(m)))
		case service.DefaultOutput:
			s.print(fmt.Sprintf("%s  fired  %s  %s", at, readable([]byte(m.ID)), lateness(e.At.Sub(m.Deadline))))
		default:
			s.print(fmt.Sprintf("%s  fired  %s  %s  on %s",
				at, readable([]byte(m.ID)), lateness(e.At.Sub(m.Deadline)), m.Lane))
		}
	}
}
