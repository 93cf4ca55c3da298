package chaos

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Config is what a run of the suite depends on, besides the scenario.
type Config struct {
	// Seed is what everything is drawn from: the workload, the faults, and when they strike.
	Seed uint64

	// Backend is Processes, Containers, or "" for what there is, which Prepare finds out.
	Backend string

	// Kafka and Postgres are servers that somebody else runs: addresses of brokers with commas between them, and the
	// postgres:// URL of a superuser. The suite makes topics and a database of its own there, and removes them. Then
	// servers and the links to the brokers can't go wrong. Both, or neither.
	Kafka, Postgres string

	// Dir is where logs and histories go. It must exist.
	Dir string

	// Binary is the node to run. Prepare builds it where it is "".
	Binary string

	// Start is the command of another implementation to run in place of a node; "" for none.
	Start string

	// Mutant is the broken variant to run, which only cmd/lab/brokennode has; "" for none.
	Mutant string

	// HoldTime is that of the nodes.
	HoldTime time.Duration

	// Say is told what happens, for people.
	Say io.Writer
}

// Prepare completes a configuration, once for many runs: it decides for a backend, which is said, and builds the node,
// unless there is one. undo removes what it has built.
func Prepare(ctx context.Context, config *Config) (undo func() error, err error) {
	undo = func() error { return nil }
	if config.Kafka == "" {
		if config.Backend, err = chooseBackend(ctx, config.Backend, config.Say); err != nil {
			return undo, err
		}
	}
	if config.Binary != "" || config.Start != "" {
		return undo, nil
	}
	dir, err := os.MkdirTemp("", "chronos-chaos-")
	if err != nil {
		return undo, fmt.Errorf("make a folder for the node: %w", err)
	}
	config.Binary = filepath.Join(dir, "chronos")
	return func() error { return os.RemoveAll(dir) }, build(ctx, config.Binary, config.Mutant != "")
}

// build builds the node, or the one that is broken on purpose, which is a program of its own.
func build(ctx context.Context, binary string, mutants bool) error {
	root, err := repository()
	if err != nil {
		return err
	}
	program := "./cmd/chronos"
	if mutants {
		program = "./cmd/lab/brokennode"
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, program)
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the node: %w: %s", err, out)
	}
	return nil
}

// cluster is everything that a scenario runs on.
type cluster struct {
	config   Config
	dir      string // the data of the servers
	logs     func(string) string
	backend  backend
	ports    *ports
	kafka    *kafka
	postgres *postgres
	links    *links
	topics   topics
	nodes    []*chronosNode
	tell     func(event, node, id string)
	deleted  func(deletion)
	cleanUp  []func() error // what has to be undone in the end, besides
}

// newCluster starts servers for so many brokers and nodes. The nodes are not started yet. Whoever has it closes it.
func newCluster(ctx context.Context, config Config, brokers, nodes int) (*cluster, error) {
	c := &cluster{
		config: config, logs: logIn(config.Dir), links: newLinks(), topics: newTopics("chaos"),
	}
	c.tell = func(string, string, string) {}
	c.deleted = func(deletion) {}
	// Not in a file system in memory, where fsync is worth nothing; and where another user may enter.
	var err error
	if c.dir, err = os.MkdirTemp("/var/tmp", "chronos-chaos-"); err != nil {
		return nil, fmt.Errorf("make a folder for the servers: %w", err)
	}
	if err := c.open(ctx, brokers, nodes); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cluster) open(ctx context.Context, brokers, nodes int) error {
	if err := os.Chmod(c.dir, 0o711); err != nil {
		return fmt.Errorf("let the servers into their folder: %w", err)
	}
	var err error
	if c.ports, err = leasePorts(); err != nil {
		return err
	}
	if c.config.Kafka != "" {
		err = c.use(ctx)
	} else {
		err = c.start(ctx, brokers, nodes)
	}
	if err != nil {
		return err
	}
	if err := c.postgres.ready(ctx, time.Minute); err != nil {
		return err
	}
	if err := c.kafka.create(ctx, partitions, c.topics.in, c.topics.out, c.topics.dead); err != nil {
		return err
	}
	if err := c.prepareDatabase(ctx); err != nil {
		return err
	}
	for n := range nodes {
		if err := c.addNode(ctx, n+1); err != nil {
			return err
		}
	}
	return nil
}

// start starts servers.
func (c *cluster) start(ctx context.Context, brokers, nodes int) error {
	var err error
	if c.backend, err = openBackend(ctx, c.config.Backend, c.dir, c.config.Say); err != nil {
		return err
	}
	if c.kafka, err = newKafka(ctx, c.backend, c.ports, brokers, nodes, c.logs); err != nil {
		return err
	}
	if c.postgres, err = newPostgres(ctx, c.backend, c.ports, c.logs); err != nil {
		return err
	}
	if err := c.postgres.start(ctx); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	return c.kafka.start(ctx)
}

// use takes the servers that were given.
func (c *cluster) use(ctx context.Context) error {
	var undo func() error
	var err error
	if c.postgres, undo, err = givenPostgres(ctx, c.config.Postgres); err != nil {
		return err
	}
	c.cleanUp = append(c.cleanUp, undo)
	c.topics = newTopics("chaos-" + strings.ToLower(rand.Text()[:10]))
	c.kafka = &kafka{direct: strings.Split(c.config.Kafka, ",")}
	c.cleanUp = append(c.cleanUp, func() error {
		return c.kafka.remove(c.topics.group, c.topics.in, c.topics.out, c.topics.dead)
	})
	return nil
}

// serves is what the backend is called in front of people.
func (c *cluster) serves() string {
	if c.backend == nil {
		return "given"
	}
	return c.backend.name()
}

// prepareDatabase makes the schema, and has every change of the table written into a replication slot, with the whole
// row as it was. Another implementation makes its own table, of which nothing is known.
func (c *cluster) prepareDatabase(ctx context.Context) error {
	statements := []string{
		fmt.Sprintf("CREATE ROLE %s LOGIN PASSWORD '%s'", c.postgres.role, c.postgres.password),
		"GRANT ALL ON SCHEMA public TO " + c.postgres.role,
	}
	if c.config.Start == "" {
		migrate := exec.CommandContext(ctx, c.config.Binary, "migrate", "up", "--store", c.postgres.admin.String())
		if out, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("migrate: %w: %s", err, out)
		}
		statements = append(statements,
			"GRANT ALL ON ALL TABLES IN SCHEMA public TO "+c.postgres.role,
			"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "+c.postgres.role,
			"ALTER TABLE hanger REPLICA IDENTITY FULL",
			"CREATE PUBLICATION "+c.postgres.slot+" FOR TABLE hanger",
			"SELECT pg_create_logical_replication_slot('"+c.postgres.slot+"', 'pgoutput')",
		)
	}
	if err := c.postgres.exec(ctx, statements...); err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	return nil
}

// addNode opens the links of a node.
func (c *cluster) addNode(ctx context.Context, number int) error {
	n := &chronosNode{number: number, log: c.logs}
	n.tell = func(event string, l *life) { c.tell(event, l.name, l.id) }
	var a addresses
	for _, br := range c.kafka.brokers {
		ports := br.nodes[number-1]
		l, err := c.links.open(fmt.Sprintf("%d-kafka-%d", number, br.number), ports.proxy, local(ports.listener))
		if err != nil {
			return err
		}
		n.brokers = append(n.brokers, l)
		a.brokers = append(a.brokers, local(ports.proxy))
	}
	if len(n.brokers) == 0 {
		a.brokers = c.kafka.direct // those of somebody else advertise what they like
	}
	var err error
	if n.cutter, err = newCutter(ctx, c.postgres.address, func(d deletion) { c.deleted(d) }); err != nil {
		return err
	}
	port, err := c.ports.take()
	if err != nil {
		return err
	}
	if n.postgres, err = c.links.open(strconv.Itoa(number)+"-postgres", port, local(n.cutter.port())); err != nil {
		return err
	}
	a.postgres = c.postgres.url(local(port))
	n.command, n.env = c.command(a)
	c.nodes = append(c.nodes, n)
	return nil
}

// close ends everything that was started, and removes the data of the servers.
func (c *cluster) close() error {
	var errs []error
	for _, n := range c.nodes {
		n.thaw()
		errs = append(errs, n.kill())
		if n.cutter != nil {
			n.cutter.close()
		}
	}
	c.links.close()
	if c.backend != nil {
		errs = append(errs, c.backend.close())
	}
	if c.ports != nil {
		c.ports.close()
	}
	for _, undo := range c.cleanUp {
		errs = append(errs, undo())
	}
	return errors.Join(append(errs, os.RemoveAll(c.dir))...)
}
