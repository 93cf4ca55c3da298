package chaos

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"chronos/chaos/servers"
)

// chronosNode is one node: its links, and one process after another.
type chronosNode struct {
	number  int
	command []string
	env     []string
	log     func(string) string
	tell    func(event string, life *life) // start, stop and crash, for the history

	brokers  []*link
	postgres *link         // nil where messages wait in a journal
	cutter   *cutter       // nil as well
	answers  *answerCutter // of brokers; nil where messages wait in Postgres
	api      *link         // to its HTTP API; nil if it serves none
	apiURL   string        // where that is, by the link

	lives int
	life  *life
}

// life is one process of a node.
type life struct {
	*servers.Process

	name string // the numbers of the node and of the life, 2.1
	id   string // the node id that it has drawn; "" where its log does not say
}

// ready is how long a node may take to say that it runs.
const ready = time.Minute

// start starts a process and waits until it says that it runs, unless it can't: the servers may be away.
func (n *chronosNode) start(ctx context.Context, wait bool) error {
	n.lives++
	l := &life{name: fmt.Sprintf("%d.%d", n.number, n.lives)}
	l.Process = &servers.Process{Command: n.command, Env: n.env, Log: n.log("node-" + l.name + ".log")}
	if err := l.Start(); err != nil {
		return err
	}
	n.life = l
	n.tell("start", l)
	if !wait {
		return nil
	}
	err := servers.Await(ctx, ready, func(context.Context) error {
		if err := l.learn(); err != nil && l.Running() {
			return err
		}
		return nil
	})
	if err == nil {
		err = l.learn()
	}
	if err != nil {
		return fmt.Errorf("start node %s: %w\n%s", l.name, err, servers.Tail(l.Log))
	}
	return nil
}

// learn looks for the node id in the log, which is there as soon as the node runs.
func (l *life) learn() error {
	if l.id != "" {
		return nil
	}
	file, err := os.Open(l.Log)
	if err != nil {
		return fmt.Errorf("read the log of node %s: %w", l.name, err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var line struct {
			Msg    string `json:"msg"`
			NodeID string `json:"node_id"`
		}
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "started" && line.NodeID != "" {
			l.id = line.NodeID
			return nil
		}
	}
	if !l.Running() {
		return errors.New("it has ended")
	}
	return errors.New("it does not say that it has started")
}

// kill ends the process at once.
func (n *chronosNode) kill() error {
	if n.life == nil {
		return nil
	}
	_ = n.life.learn() // while it is there; nobody minds if it has not come so far
	if err := n.life.Kill(); err != nil {
		return err
	}
	n.tell("crash", n.life)
	n.life = nil
	return nil
}

// stop ends the process cleanly, as a deployment does.
func (n *chronosNode) stop() error {
	if n.life == nil {
		return nil
	}
	_ = n.life.learn() // while it is there
	n.tell("term", n.life)
	event := "stop"
	if err := n.life.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop node %s: %w", n.life.name, err)
	}
	if !n.life.Ended(20 * time.Second) {
		event = "crash"
		if err := n.life.Kill(); err != nil {
			return err
		}
	}
	n.tell(event, n.life)
	n.life = nil
	return nil
}

// freeze stops the process where it is, and thaw lets it go on.
func (n *chronosNode) freeze() {
	if n.life != nil {
		n.life.SignalTree(syscall.SIGSTOP)
	}
}

func (n *chronosNode) thaw() {
	if n.life != nil {
		n.life.SignalTree(syscall.SIGCONT)
	}
}

// links returns all ways of the node to its servers.
func (n *chronosNode) links() []*link {
	if n.postgres == nil {
		return n.brokers
	}
	return append([]*link{n.postgres}, n.brokers...)
}

// addresses are what a node is told of its servers.
type addresses struct {
	brokers []string
	store   string // the URL of Postgres, or journal: and the topic
	dataDir string // the folder for the local copy of a journal; "" where the store is none
	api     string // where it is to serve its HTTP API; "" for nowhere
}

// command returns the command line and the environment of a node: those of chronos run, or a command of somebody else,
// which finds everything in the environment. More than one route needs a file.
func (c *cluster) command(a addresses) (command, env []string, err error) {
	settings := [][2]string{
		{"CHRONOS_BROKERS", strings.Join(a.brokers, ",")},
		{"CHRONOS_STORE", a.store},
		{"CHRONOS_GROUP", c.topics.group},
		{"CHRONOS_LOG_FORMAT", "json"},
		{"CHRONOS_HOLD_TIME", c.config.HoldTime.String()},
	}
	if a.dataDir != "" {
		settings = append(settings, [2]string{"CHRONOS_DATA_DIR", a.dataDir})
	}
	if c.scenario.Standby {
		settings = append(settings, [2]string{"CHRONOS_STANDBY", "true"})
	}
	if a.api != "" {
		settings = append(settings, [2]string{"CHRONOS_API_LISTEN", a.api})
	}
	if len(c.topics.routes) == 1 && c.receivers == nil && len(c.topics.targets) == 0 {
		settings = append(settings,
			[2]string{"CHRONOS_INPUT_TOPIC", c.topics.routes[0].in},
			[2]string{"CHRONOS_OUTPUT_TOPIC", c.topics.routes[0].out},
			[2]string{"CHRONOS_DEAD_LETTER_TOPIC", c.topics.dead},
		)
	} else {
		file, err := c.routesFile()
		if err != nil {
			return nil, nil, err
		}
		settings = append(settings, [2]string{"CHRONOS_CONFIG", file})
	}
	if c.topics.said != "" {
		if c.config.Start != "" {
			return nil, nil, fmt.Errorf("send a node instructions: %w: another implementation knows none",
				ErrImpossible)
		}
		settings = append(settings, [2]string{"CHRONOS_OUTCOME_TOPIC", c.topics.said})
	}
	if c.config.Mutant != "" {
		settings = append(settings, [2]string{"CHAOS_MUTANT", c.config.Mutant})
	}
	for _, s := range settings {
		env = append(env, s[0]+"="+s[1])
	}
	if c.config.Start != "" {
		return []string{"sh", "-c", "exec " + c.config.Start}, env, nil
	}
	return []string{c.config.Binary, "run"}, env, nil
}

// routesFile writes the configuration file that says the routes, and how callbacks are made.
func (c *cluster) routesFile() (string, error) {
	if c.config.Start != "" {
		return "", fmt.Errorf("give a node %d routes: %w: another implementation is told of one",
			len(c.topics.routes), ErrImpossible)
	}
	var text strings.Builder
	text.WriteString("routes:\n")
	for i, r := range c.topics.routes {
		targets := ""
		if i == 0 && len(c.topics.targets) > 0 {
			targets = fmt.Sprintf(", targets: [%q]", r.out+".*")
		}
		fmt.Fprintf(&text, "  - {input: %s, output: %s, dead-letter: %s%s}\n", r.in, r.out, c.topics.dead, targets)
	}
	if c.receivers != nil {
		fmt.Fprintf(&text, "lanes:\n  - name: http:*\n    allowed: [127.0.0.1]\n    timeout: %v\n    secret-file: %s\n",
			cmp.Or(c.scenario.CallTimeout, callTimeout), c.receivers.file)
		if c.scenario.RetryFor > 0 {
			fmt.Fprintf(&text, "    retry-for: %v\n", c.scenario.RetryFor)
		}
	}
	file := c.logs("routes.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return "", fmt.Errorf("write the routes: %w", err)
	}
	return file, nil
}

// partitions is how many each topic has.
const partitions = 6

// route is an input topic, and the lane on which its messages fire: a topic, or one of callbacks.
type route struct{ in, out string }

// topics are the topics and the consumer group of a run.
type topics struct {
	routes      []route
	targets     []string // further topics of the first route
	dead, group string
	said        string // the outcome topic; "" for none
	journal     string // the topic in which messages wait; "" where they wait in Postgres
}

// newTopics names those of a scenario. There is one route, or more.
func newTopics(prefix string, s *Scenario) topics {
	t := topics{dead: prefix + ".dead", group: prefix}
	if s.Instructions > 0 && s.Hosts == 0 {
		t.said = prefix + ".outcomes"
	}
	if s.Journal {
		t.journal = prefix + ".journal"
	}
	for i := range max(s.Routes, 1) {
		name := prefix
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		out := name + ".out"
		if s.Hosts > 0 && i == 0 {
			out = callbackPrefix + name
		}
		t.routes = append(t.routes, route{name + ".in", out})
	}
	for i := range s.Lanes {
		t.targets = append(t.targets, fmt.Sprintf("%s.%03d", t.routes[0].out, i))
	}
	return t
}

// callbackPrefix begins the names of callback lanes.
const callbackPrefix = "http:"

// outputs returns the topics that nodes write to.
func (t topics) outputs() []string {
	all := []string{t.dead}
	for _, r := range t.routes {
		if !strings.HasPrefix(r.out, callbackPrefix) {
			all = append(all, r.out)
		}
	}
	if t.said != "" {
		all = append(all, t.said)
	}
	return append(all, t.targets...)
}

// lane returns the lane on which a submission fires.
func (t topics) lane(s *submission) string { return cmp.Or(s.target, t.routes[s.route].out) }

// all returns all of them.
func (t topics) all() []string {
	all := t.outputs()
	for _, r := range t.routes {
		all = append(all, r.in)
	}
	return all
}

// logIn returns where logs of a run go.
func logIn(dir string) func(string) string {
	return func(name string) string { return filepath.Join(dir, name) }
}

func nodeName(n int) string { return "node " + strconv.Itoa(n) }
