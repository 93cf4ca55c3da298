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
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/chaos/servers"
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

	// Migrator is the program that makes the schema: Binary, or chronos where that is broken on purpose. Prepare sees
	// to it where Binary is "".
	Migrator string

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
		if config.Backend, err = servers.Choose(ctx, config.Backend, config.Say); err != nil {
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
	undo = func() error { return os.RemoveAll(dir) }
	config.Binary = filepath.Join(dir, "chronos")
	config.Migrator = config.Binary
	if err := build(ctx, config.Binary, "./cmd/chronos"); err != nil || config.Mutant == "" {
		return undo, err
	}
	config.Binary = filepath.Join(dir, "brokennode") // a program of its own, which makes no schema
	return undo, build(ctx, config.Binary, "./cmd/lab/brokennode")
}

// build builds a program of this repository.
func build(ctx context.Context, binary, program string) error {
	root, err := servers.Repository()
	if err != nil {
		return err
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
	scenario *Scenario
	logs     func(string) string
	servers  *servers.Servers
	kafka    *servers.Kafka
	postgres *database         // nil where messages wait in a journal
	standby  *servers.Postgres // of a scenario that has one
	backup   *servers.Backup
	other    *servers.Kafka // another cluster, that is none of the nodes' business
	links    *links
	topics   topics

	receivers *receivers // of callbacks; nil if there are none
	nodes     []*chronosNode
	tell      func(event, node, id string)
	deleted   func(deletion)
	cleanUp   []func() error // what has to be undone in the end, besides
}

// newCluster starts the servers for a scenario. The nodes are not started yet. Whoever has it closes it.
func newCluster(ctx context.Context, config Config, s *Scenario) (*cluster, error) {
	c := &cluster{
		config: config, scenario: s, logs: logIn(config.Dir), links: newLinks(), topics: newTopics("chaos", s),
	}
	c.tell = func(string, string, string) {}
	c.deleted = func(deletion) {}
	if err := c.open(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

func (c *cluster) open(ctx context.Context) error {
	backend := c.config.Backend
	if c.config.Kafka != "" {
		backend = servers.Given
	}
	var err error
	c.servers, err = servers.Open(ctx, servers.Config{Backend: backend, Logs: c.config.Dir, Say: c.config.Say})
	if err != nil {
		return err
	}
	if c.config.Kafka != "" {
		err = c.use(ctx)
	} else {
		err = c.start(ctx)
	}
	if err != nil {
		return err
	}
	if err := c.storeReady(ctx); err != nil {
		return err
	}
	if err := c.kafka.Create(ctx, c.wanted()...); err != nil {
		return err
	}
	if err := c.prepareStore(ctx); err != nil {
		return err
	}
	if c.scenario.Hosts > 0 {
		if c.receivers, err = newReceivers(c, c.topics.routes[0].out); err != nil {
			return err
		}
	}
	for n := range c.scenario.Nodes {
		if err := c.addNode(ctx, n+1); err != nil {
			return err
		}
	}
	return nil
}

// storeReady waits until Postgres answers, where there is one.
func (c *cluster) storeReady(ctx context.Context) error {
	if c.scenario.Journal {
		return nil
	}
	return c.postgres.ready(ctx, time.Minute)
}

// prepareStore makes what messages wait in.
func (c *cluster) prepareStore(ctx context.Context) error {
	if c.scenario.Journal {
		return c.prepareJournal(ctx)
	}
	return c.prepareDatabase(ctx)
}

// start starts servers.
func (c *cluster) start(ctx context.Context) error {
	var err error
	config := servers.KafkaConfig{Brokers: c.scenario.Brokers, Nodes: c.scenario.Nodes}
	if c.scenario.Journal {
		config.Properties = compactOften()
	}
	if c.kafka, err = c.servers.Kafka(ctx, config); err != nil {
		return err
	}
	if c.scenario.Journal {
		return c.kafka.Start(ctx)
	}
	if c.postgres, err = newDatabase(ctx, c.servers); err != nil {
		return err
	}
	if err := c.postgres.now().Start(ctx); err != nil {
		return fmt.Errorf("start Postgres: %w", err)
	}
	return c.kafka.Start(ctx)
}

// use takes the servers that were given.
func (c *cluster) use(ctx context.Context) error {
	var undo func() error
	var err error
	if c.postgres, undo, err = givenDatabase(ctx, c.config.Postgres); err != nil {
		return err
	}
	c.cleanUp = append(c.cleanUp, undo)
	c.topics = newTopics("chaos-"+strings.ToLower(rand.Text()[:10]), c.scenario)
	c.kafka = servers.GivenKafka(strings.Split(c.config.Kafka, ",")...)
	c.cleanUp = append(c.cleanUp, func() error { return c.kafka.Remove(c.topics.group, c.topics.all()...) })
	return nil
}

// wanted returns the topics to create.
func (c *cluster) wanted() []servers.Topic {
	var wanted []servers.Topic
	for _, name := range c.topics.all() {
		t := servers.Topic{
			Name: name, Partitions: partitions,
			// What fires is dated by the broker: that is the time in the history.
			Settings: map[string]string{"max.message.bytes": "100000", "message.timestamp.type": "LogAppendTime"},
		}
		if slices.Contains(c.topics.targets, name) {
			t.Partitions = 1 // there are many of them
		}
		if c.scenario.place != nil {
			t.On = c.scenario.place(c.topics, name)
		}
		wanted = append(wanted, t)
	}
	return wanted
}

// addNode opens the links of a node.
func (c *cluster) addNode(ctx context.Context, number int) error {
	n := &chronosNode{number: number, log: c.logs}
	n.tell = func(event string, l *life) { c.tell(event, l.name, l.id) }
	if c.scenario.Journal {
		n.answers = newAnswerCutter()
		c.cleanUp = append(c.cleanUp, func() error {
			n.answers.close()
			return nil
		})
	}
	var a addresses
	for _, br := range c.kafka.Brokers {
		ports := br.Nodes[number-1]
		name := fmt.Sprintf("%d-kafka-%d", number, br.Number)
		at := ports.Listener
		if n.answers != nil {
			var err error
			if at, err = n.answers.open(ctx, servers.Local(at)); err != nil {
				return err
			}
		}
		l, err := c.links.open(name, ports.Proxy, servers.Local(at))
		if err != nil {
			return err
		}
		n.brokers = append(n.brokers, l)
		a.brokers = append(a.brokers, servers.Local(ports.Proxy))
	}
	if len(n.brokers) == 0 {
		a.brokers = c.kafka.Addresses // those of somebody else advertise what they like
	}
	var err error
	if c.scenario.Journal {
		a.store, a.dataDir = c.topics.store(), n.dataDir()
	} else if a.store, err = c.openPostgres(ctx, n); err != nil {
		return err
	}
	if c.receivers != nil {
		if a.api, err = c.openAPI(n); err != nil {
			return err
		}
	}
	if n.command, n.env, err = c.command(a); err != nil {
		return err
	}
	c.nodes = append(c.nodes, n)
	return nil
}

// openPostgres opens the way of a node to Postgres, and returns the URL of the store for it.
func (c *cluster) openPostgres(ctx context.Context, n *chronosNode) (url string, err error) {
	upstream := func() string { return c.postgres.now().Address }
	if n.cutter, err = newCutter(ctx, upstream, func(d deletion) { c.deleted(d) }); err != nil {
		return "", err
	}
	port, err := c.servers.Port()
	if err != nil {
		return "", err
	}
	n.postgres, err = c.links.open(strconv.Itoa(n.number)+"-postgres", port, servers.Local(n.cutter.port()))
	return c.postgres.url(servers.Local(port)), err
}

// openAPI opens the way to the HTTP API of a node, and returns where it has to serve that.
func (c *cluster) openAPI(n *chronosNode) (at string, err error) {
	var own, way int
	for _, port := range []*int{&own, &way} {
		if *port, err = c.servers.Port(); err != nil {
			return "", err
		}
	}
	n.apiURL = "http://" + servers.Local(way)
	n.api, err = c.links.open(strconv.Itoa(n.number)+"-api", way, servers.Local(own))
	return servers.Local(own), err
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
	c.receivers.close()
	// What the scenario has made first: a file system on a folder of the servers, say.
	for _, undo := range slices.Backward(c.cleanUp) {
		errs = append(errs, undo())
	}
	if c.servers != nil {
		errs = append(errs, c.servers.Close())
	}
	return errors.Join(errs...)
}
