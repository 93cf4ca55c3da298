package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/chaos/servers"
	"chronos/cmd/chronos/bench"
)

// ground is what all sites stand on: the servers, and the binary.
type ground struct {
	options  *options
	stderr   io.Writer
	dir      string
	binary   string
	commit   string // that it was built from
	servers  *servers.Servers
	kafka    *servers.Kafka
	postgres *servers.Postgres
	tables   int  // of files that were written
	warmed   bool // by a node with a journal, too
}

// patience is how long anything may take that is not measured.
const patience = 10 * time.Minute

// open builds the binary and starts the servers, unless the environment says where some are, as scripts/with-servers
// does.
func open(ctx context.Context, o *options, stderr io.Writer) (g *ground, err error) {
	g = &ground{options: o, stderr: stderr}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.close())
		}
	}()
	if g.dir, err = filepath.Abs(o.dir); err != nil {
		return g, fmt.Errorf("find the folder for logs: %w", err)
	}
	if err := os.MkdirAll(g.dir, 0o755); err != nil {
		return g, fmt.Errorf("make the folder for logs: %w", err)
	}
	root, err := servers.Repository()
	if err != nil {
		return g, err
	}
	g.binary, g.commit = filepath.Join(g.dir, "chronos"), commit(ctx)
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", g.binary, "./cmd/chronos")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return g, fmt.Errorf("build chronos: %w: %s", err, out)
	}
	kafka, postgres := os.Getenv("CHRONOS_TEST_KAFKA"), os.Getenv("CHRONOS_TEST_POSTGRES")
	if kafka != "" && postgres != "" {
		g.kafka = servers.GivenKafka(kafka)
		g.postgres, err = servers.GivenPostgres(postgres)
		return g, err
	}
	if err := g.start(ctx); err != nil {
		return g, err
	}
	return g, g.warm(ctx)
}

// lenient is what the broker is told beside its own settings: it accepts sessions that are shorter than its default
// allows, which are those of some rows of a curve.
var lenient = map[string]string{"group.min.session.timeout.ms": "1000"}

// start starts a broker and a database, each with the settings that it comes with, the broker's Java too.
func (g *ground) start(ctx context.Context) (err error) {
	g.say("starting Kafka and Postgres")
	config := servers.Config{Backend: servers.Processes, Logs: g.dir, Say: g.stderr, Shipped: true}
	if g.servers, err = servers.Open(ctx, config); err != nil {
		return err
	}
	if g.kafka, err = g.servers.Kafka(ctx, servers.KafkaConfig{Properties: lenient}); err != nil {
		return err
	}
	if g.postgres, err = g.servers.Postgres(ctx, servers.PostgresConfig{Settings: talkative}); err != nil {
		return err
	}
	if err := errors.Join(g.kafka.Start(ctx), g.postgres.Start(ctx)); err != nil {
		return err
	}
	return g.postgres.Ready(ctx, time.Minute)
}

// warm has a node take in and fire what nobody measures: Kafka's Java has compiled what it runs most after that, as
// that of a broker has that has been up for a minute.
func (g *ground) warm(ctx context.Context) error {
	return g.on(ctx, 1, func(s *site) error { return s.warm(ctx) })
}

// warmJournal does the same with a node that has a journal, once: what a broker runs for transactions no other node has
// it run. Servers that somebody else runs are as warm as they are.
func (g *ground) warmJournal(ctx context.Context) error {
	if g.servers == nil || g.warmed {
		return nil
	}
	g.warmed = true
	return g.on(ctx, 1, func(s *site) error {
		s.keep()
		return s.warm(ctx)
	})
}

func (s *site) warm(ctx context.Context) error {
	_, err := s.burst(ctx, new(table), 1, 100_000)
	if err == nil {
		_, err = s.steady(ctx, new(table), usual, "--rate", "2000")
	}
	return err
}

// close ends what was started.
func (g *ground) close() error {
	if g.servers == nil {
		return nil
	}
	return g.servers.Close()
}

// say tells the person who waits.
func (g *ground) say(format string, args ...any) {
	_, _ = fmt.Fprintf(g.stderr, "bench: "+format+"\n", args...)
}

// messages scales a number of messages.
func (g *ground) messages(n int) int { return max(int(float64(n)*g.options.scale), 10) }

// duration scales a time in which messages are sent, not below two seconds.
func (g *ground) duration(d time.Duration) time.Duration {
	return max(time.Duration(float64(d)*g.options.scale), 2*time.Second).Round(time.Second)
}

// delays are those of all loads: long enough for messages to be stored before they are due, whatever happens.
func (g *ground) delays() string {
	if g.options.scale < 0.1 {
		return "500ms..1s"
	}
	return "3s..6s"
}

// site is topics, a database and nodes, for one figure.
type site struct {
	*ground

	name    string
	program string      // what its nodes run
	routes  [][2]string // input and output
	store   url.URL
	advance string // the timing advance of its nodes; none if it is empty
	session string // their session-timeout; the default if it is empty
	journal bool   // what waits is kept in Kafka, and not in the store
	standby bool   // its nodes keep copies of what others own of the journal
	file    string // the settings of its nodes
	nodes   []*servers.Process
	made    int
}

// partitions is how many each topic has.
const partitions = 4

// site makes one. The brokers make the timestamps on its topics, so that they tell when a record was appended.
func (g *ground) site(ctx context.Context, routes int) (*site, error) {
	s := &site{ground: g, name: "bench-" + strings.ToLower(rand.Text()[:8]), program: g.binary, store: g.postgres.Admin}
	var topics []servers.Topic
	stamps := map[string]string{"message.timestamp.type": "LogAppendTime"}
	var settings strings.Builder
	settings.WriteString("routes:\n")
	for i := range routes {
		r := [2]string{fmt.Sprintf("%s.%d.in", s.name, i), fmt.Sprintf("%s.%d.out", s.name, i)}
		s.routes = append(s.routes, r)
		_, _ = fmt.Fprintf(&settings, "  - {input: %s, output: %s}\n", r[0], r[1])
		for _, name := range r {
			topics = append(topics, servers.Topic{
				Name: name, Partitions: partitions, Settings: stamps,
			})
		}
	}
	if err := g.kafka.Create(ctx, topics...); err != nil {
		return nil, err
	}
	s.store.Path = "/" + s.name
	if err := g.postgres.Exec(ctx, `CREATE DATABASE "`+s.name+`"`); err != nil {
		return nil, err
	}
	s.file = filepath.Join(g.dir, s.name+".yaml")
	if err := os.WriteFile(s.file, []byte(settings.String()), 0o600); err != nil {
		return nil, fmt.Errorf("write the settings of the nodes: %w", err)
	}
	return s, nil
}

// close ends the nodes, and takes the database and the local copies away, so that they cost the next site nothing.
func (s *site) close(ctx context.Context) error {
	err := s.stop()
	if s.journal {
		for node := range s.made {
			err = errors.Join(err, os.RemoveAll(s.copyOf(node+1)))
		}
	}
	return errors.Join(err, s.postgres.Exec(ctx, `DROP DATABASE IF EXISTS "`+s.name+`" WITH (FORCE)`))
}

// start starts nodes, and waits until they run. The first one makes the tables.
func (s *site) start(ctx context.Context, count int) error {
	for range count {
		s.made++
		p := &servers.Process{
			Command: []string{s.program, "run", "--migrate", "--log-format", "json", "--config", s.file},
			Env: append(s.storeOf(s.made),
				"CHRONOS_BROKERS="+strings.Join(s.kafka.Addresses, ","), "CHRONOS_GROUP="+s.name,
				"CHRONOS_TIMING_ADVANCE="+cmp.Or(s.advance, "0s")),
			Log: filepath.Join(s.dir, fmt.Sprintf("%s-node-%d.log", s.name, s.made)),
		}
		if s.session != "" { // other commits may not know it
			p.Env = append(p.Env, "CHRONOS_SESSION_TIMEOUT="+s.session)
		}
		if err := p.Start(); err != nil {
			return err
		}
		s.nodes = append(s.nodes, p)
		if err := servers.Await(ctx, time.Minute, func(context.Context) error {
			log, err := os.ReadFile(p.Log)
			switch {
			case err != nil:
				return err
			case !bytes.Contains(log, []byte(`"msg":"started"`)):
				return errors.New("it does not say that it has started")
			}
			return nil
		}); err != nil {
			return fmt.Errorf("start a node: %w\n%s", err, servers.Tail(p.Log))
		}
	}
	return nil
}

// migrate makes the tables, so that they are there before nodes find work.
func (s *site) migrate(ctx context.Context) error {
	if err := s.start(ctx, 1); err != nil {
		return err
	}
	return s.stop()
}

// stop ends the nodes.
func (s *site) stop() (err error) {
	for _, p := range s.nodes {
		err = errors.Join(err, p.Stop(syscall.SIGTERM, 20*time.Second))
	}
	s.nodes = nil
	return err
}

// do uses a connection to the database of the site.
func (s *site) do(ctx context.Context, use func(conn *pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, s.store.String())
	if err != nil {
		return fmt.Errorf("connect to Postgres: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx)) //nolint:errcheck // the statements have said what there is to say
	return use(conn)
}

// execute executes statements.
func (s *site) execute(ctx context.Context, statements ...string) error {
	return s.do(ctx, func(conn *pgx.Conn) error {
		for _, statement := range statements {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
}

// pid returns the process of a server; 0 where it is not one of ours.
func pid(server any) int {
	if s, is := server.(interface{ PID() int }); is {
		return s.PID()
	}
	return 0
}

// benching is a run of `chronos bench` in the background.
type benching struct {
	line   string
	file   string
	stderr bytes.Buffer
	done   chan error
}

// begin starts `chronos bench` on the site. Its output goes to a file.
func (s *site) begin(ctx context.Context, args ...string) (*benching, error) {
	s.tables++
	b := &benching{file: filepath.Join(s.dir, fmt.Sprintf("%s-%d.json", s.name, s.tables)), done: make(chan error, 1)}
	// What a person would type; where the servers are and which processes run differs each time.
	b.line = "chronos bench " + strings.Join(args, " ")
	all := append([]string{
		"bench", "-o", "json", "--brokers", strings.Join(s.kafka.Addresses, ","), "--group", s.name,
	}, args...)
	for _, r := range s.routes {
		all = append(all, "--route", r[0]+"="+r[1])
	}
	for _, p := range s.nodes {
		all = append(all, "--pid", fmt.Sprintf("nodes=%d", p.PID()))
	}
	if len(s.kafka.Brokers) > 0 {
		all = append(all, "--pid", fmt.Sprintf("Kafka=%d", pid(s.kafka.Brokers[0].Server)))
		all = append(all, "--pid", fmt.Sprintf("Postgres=%d", pid(s.postgres.Server)))
	}
	all = append(all, "--html", strings.TrimSuffix(b.file, "json")+"html")
	out, err := os.Create(b.file)
	if err != nil {
		return nil, fmt.Errorf("make the file for the result: %w", err)
	}
	s.say("%s", b.line)
	command := exec.CommandContext(ctx, s.binary, all...)
	command.Stdout, command.Stderr = out, &b.stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	if err := command.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start chronos bench: %w", err), out.Close())
	}
	go func() { b.done <- errors.Join(command.Wait(), out.Close()) }()
	return b, nil
}

// end waits for the result, which is a Result, or a Found of a search. That something is wrong with the service is not
// an error here: the table says it.
func (b *benching) end(report any) error {
	failed := <-b.done
	text, err := os.ReadFile(b.file)
	if err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	if err := json.Unmarshal(text, report); err != nil {
		return fmt.Errorf("%s: %w: %s", b.line, errors.Join(failed, err), b.stderr.String())
	}
	return nil
}

// bench runs `chronos bench` to its end.
func (s *site) bench(ctx context.Context, t *table, args ...string) (*bench.Result, error) {
	b, err := s.begin(ctx, args...)
	if err != nil {
		return nil, err
	}
	r := new(bench.Result)
	if err := b.end(r); err != nil {
		return nil, err
	}
	t.measured(b.line, r)
	return r, nil
}
