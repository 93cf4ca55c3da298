package chaos

import (
	"bufio"
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
)

// chronosNode is one node: its links, and one process after another.
type chronosNode struct {
	number  int
	command []string
	env     []string
	log     func(string) string
	tell    func(event string, life *life) // start, stop and crash, for the history

	brokers  []*link
	postgres *link
	cutter   *cutter

	lives int
	life  *life
}

// life is one process of a node.
type life struct {
	*process

	name string // the numbers of the node and of the life, 2.1
	id   string // the node id that it has drawn; "" where its log does not say
}

// ready is how long a node may take to say that it runs.
const ready = time.Minute

// start starts a process and waits until it says that it runs, unless it can't: the servers may be away.
func (n *chronosNode) start(ctx context.Context, wait bool) error {
	n.lives++
	l := &life{name: fmt.Sprintf("%d.%d", n.number, n.lives)}
	l.process = &process{command: n.command, env: n.env, log: n.log("node-" + l.name + ".log")}
	if err := l.start(); err != nil {
		return err
	}
	n.life = l
	n.tell("start", l)
	if !wait {
		return nil
	}
	err := await(ctx, ready, func(context.Context) error {
		if err := l.learn(); err != nil && l.running() {
			return err
		}
		return nil
	})
	if err == nil {
		err = l.learn()
	}
	if err != nil {
		return fmt.Errorf("start node %s: %w\n%s", l.name, err, tail(l.log))
	}
	return nil
}

// learn looks for the node id in the log, which is there as soon as the node runs.
func (l *life) learn() error {
	if l.id != "" {
		return nil
	}
	file, err := os.Open(l.log)
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
	if !l.running() {
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
	if err := n.life.kill(); err != nil {
		return err
	}
	n.tell("crash", n.life)
	n.life = nil
	return nil
}

// stop ends the process in order, as a deployment does.
func (n *chronosNode) stop() error {
	if n.life == nil {
		return nil
	}
	_ = n.life.learn() // while it is there
	n.tell("term", n.life)
	event := "stop"
	if err := n.life.signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("stop node %s: %w", n.life.name, err)
	}
	if !n.life.ended(20 * time.Second) {
		event = "crash"
		if err := n.life.kill(); err != nil {
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
		n.life.signalTree(syscall.SIGSTOP)
	}
}

func (n *chronosNode) thaw() {
	if n.life != nil {
		n.life.signalTree(syscall.SIGCONT)
	}
}

// links returns all ways of the node.
func (n *chronosNode) links() []*link {
	if n.postgres == nil {
		return n.brokers
	}
	return append([]*link{n.postgres}, n.brokers...)
}

// addresses are what a node is told of its servers.
type addresses struct {
	brokers  []string
	postgres string
}

// command returns the command line and the environment of a node: those of chronos run, or a command of somebody else,
// which finds everything in the environment.
func (c *cluster) command(a addresses) (command, env []string) {
	settings := [][2]string{
		{"CHRONOS_BROKERS", strings.Join(a.brokers, ",")},
		{"CHRONOS_STORE", a.postgres},
		{"CHRONOS_GROUP", c.topics.group},
		{"CHRONOS_INPUT_TOPIC", c.topics.in},
		{"CHRONOS_OUTPUT_TOPIC", c.topics.out},
		{"CHRONOS_DEAD_LETTER_TOPIC", c.topics.dead},
		{"CHRONOS_LOG_FORMAT", "json"},
		{"CHRONOS_HOLD_TIME", c.config.HoldTime.String()},
	}
	if c.config.Mutant != "" {
		settings = append(settings, [2]string{"CHAOS_MUTANT", c.config.Mutant})
	}
	for _, s := range settings {
		env = append(env, s[0]+"="+s[1])
	}
	if c.config.Start != "" {
		return []string{"sh", "-c", "exec " + c.config.Start}, env
	}
	return []string{c.config.Binary, "run"}, env
}

// partitions is how many each topic has.
const partitions = 6

// topics are the topics and the consumer group of a run.
type topics struct{ in, out, dead, group string }

func newTopics(prefix string) topics {
	return topics{prefix + ".in", prefix + ".out", prefix + ".dead", prefix}
}

// logIn returns where logs of a run go.
func logIn(dir string) func(string) string {
	return func(name string) string { return filepath.Join(dir, name) }
}

func nodeName(n int) string { return "node " + strconv.Itoa(n) }
