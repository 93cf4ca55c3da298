package chaos

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
)

// journalScenarios are about nodes whose store is a journal in Kafka, and which so depend on nothing else: the suite's
// own Postgres tells how busy the machine is, and no node knows of it. The suite reads what was committed, as a
// consumer does that wants each message once, and every scenario demands that.
func journalScenarios() []*Scenario {
	const s = time.Second
	session := 6 * s // for which a group waits for a node that says nothing
	return []*Scenario{
		{
			Name: "journal-nodes",
			About: "The store is a journal. Nodes are killed, frozen for longer than a session, and lose their local " +
				"copies. Each message comes out once.",
			Servers: true, Journal: true, Outside: true,
			Brokers: 3, Instructions: 6, Lasts: 45 * s,
			draw: func(n *nemesis) {
				at := 3 * s
				for i, node := range n.random.Perm(3) {
					node := n.cluster.nodes[node]
					switch i {
					case 0:
						n.killNode(at, n.between(1*s, 3*s), node)
					case 1:
						n.freezeNode(at, n.between(session+3*s, session+5*s), node)
					default:
						n.loseCopy(at, n.between(session, session+3*s), node)
					}
					at += n.between(13*s, 14*s)
				}
			},
			demands: []demand{once, trueOutcomes},
		},
		{
			Name: "journal-brokers",
			About: "The store is a journal. Of three brokers one after the other is killed, and one is frozen. Each " +
				"message comes out once.",
			Servers: true, Journal: true, Outside: true,
			Brokers: 3, Lasts: 45 * s, Rate: 40,
			draw: func(n *nemesis) {
				for i, b := range n.random.Perm(3) {
					name := fmt.Sprintf("broker %d", b+1)
					n.takeAway(time.Duration(3+9*i)*s, n.between(1*s, 3*s), name, byKill, n.broker(b+1))
				}
				frozen := 1 + n.random.IntN(3)
				n.takeAway(32*s, n.between(5*s, 8*s), fmt.Sprintf("broker %d", frozen), byFreeze, n.broker(frozen))
			},
			demands: []demand{once},
		},
		{
			Name: "journal-links",
			About: "The store is a journal. Nodes are cut off from brokers, and never hear what has become of what " +
				"they have sent. Each message comes out once.",
			Servers: true, Journal: true, Outside: true,
			Brokers: 3, Lasts: 30 * s,
			draw: func(n *nemesis) {
				kinds := []string{"reset", "cut", "black-hole", repliesLost, "requests-lost", "stall", "latency"}
				for at := s; at < 25*s; at += n.between(1500*time.Millisecond, 2500*time.Millisecond) {
					n.disturb(at, kinds[n.random.IntN(len(kinds))])
				}
			},
			demands: []demand{once},
		},
	}
}

// once demands that whoever reads what was committed sees each message, each dead letter and each outcome once,
// whatever has happened: S24, which other scenarios do not ask for.
func once(r *run, _ *Result) string {
	for number, fires := range r.fires() {
		if number != 0 && len(fires) > 1 {
			return fmt.Sprintf("S24: message %d has come out %d times, at %v", number, len(fires), fires)
		}
	}
	for number, copies := range r.history.copied {
		if number != 0 && copies > 1 {
			return fmt.Sprintf("S24: the dead letter of submission %d is there %d times", number, copies)
		}
	}
	for place, told := range r.history.told {
		if len(told) > 1 {
			return fmt.Sprintf("S24: the outcome of record %s is told %d times", place, len(told))
		}
	}
	return ""
}

// loseCopy kills a node, and takes its local copy of the journal away while it is down.
func (n *nemesis) loseCopy(at, lasts time.Duration, node *chronosNode) {
	n.add(fault{
		at: at, lasts: lasts, text: nodeName(node.number) + " is killed, and its copy of the journal is lost",
		strike: func(context.Context) error {
			if err := node.kill(); err != nil {
				return err
			}
			if entries, err := os.ReadDir(node.copy); err != nil || len(entries) == 0 {
				return fmt.Errorf("there is no copy of the journal to lose: %w", cmp.Or(err, os.ErrNotExist))
			}
			return os.RemoveAll(node.copy)
		},
		mend: func(ctx context.Context) error { return node.start(ctx, false) },
	})
}

// prepareJournal creates the topic that the nodes keep their messages in.
func (c *cluster) prepareJournal(ctx context.Context) error {
	if c.config.Start != "" {
		return fmt.Errorf("keep messages in a journal: %w: another implementation has none", ErrImpossible)
	}
	chronos := cmp.Or(c.config.Migrator, c.config.Binary)
	// The brokers learn of the input topic one after the other.
	return servers.Await(ctx, time.Minute, func(ctx context.Context) error {
		migrate := exec.CommandContext(ctx, chronos, "migrate", "up", "--store", c.journal(),
			"--brokers", strings.Join(c.kafka.Addresses, ","), "--input-topic", c.topics.routes[0].in)
		if out, err := migrate.CombinedOutput(); err != nil {
			return fmt.Errorf("migrate: %w: %s", err, out)
		}
		return nil
	})
}

// journal returns the store of the nodes.
func (c *cluster) journal() string { return "journal:" + c.topics.group + ".journal" }

// reads returns how the suite reads what comes out: where nodes promise each message once, as somebody who reads what
// was committed.
func (c *cluster) reads() kgo.IsolationLevel {
	if c.scenario.Journal {
		return kgo.ReadCommitted()
	}
	return kgo.ReadUncommitted()
}
