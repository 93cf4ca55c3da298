package chaos

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"chronos/sim/check"
)

// journalScenarios are about messages that wait in a journal: three nodes, each with a folder of its own, on three
// brokers, and no Postgres. A consumer that reads what was committed sees each message exactly once, whatever goes
// wrong, and what was cancelled never.
func journalScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{{
		Name: "journal-killed-nodes",
		About: "Messages wait in a journal. A node is killed, one is frozen beyond its session, one loses its local " +
			"copy. Each message comes out exactly once.",
		Servers: true, Outside: true, Journal: true,
		Brokers: 3, Lasts: 33 * s, Instructions: 10,
		draw: func(n *nemesis) {
			order := n.random.Perm(3)
			n.killNode(n.between(3*s, 4*s), n.between(s, 5*s), n.cluster.nodes[order[0]])
			n.freezeNode(n.between(11*s, 12*s), n.between(journalSession+2*s, journalSession+4*s),
				n.cluster.nodes[order[1]])
			n.loseCopy(n.between(24*s, 25*s), n.between(s, 7*s), n.cluster.nodes[order[2]])
		},
		demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, takenOver},
	}}
}

// journalSession is how long the consumer group waits for a node with a journal that is silent.
const journalSession = 6 * time.Second

// loseCopy kills a node, and removes its local copy of the journal while it is away.
func (n *nemesis) loseCopy(at, lasts time.Duration, node *chronosNode) {
	n.add(fault{
		at: at, lasts: lasts, text: nodeName(node.number) + " is killed, and its folder removed",
		strike: func(context.Context) error { return errors.Join(node.kill(), os.RemoveAll(node.dataDir())) },
		mend:   func(ctx context.Context) error { return node.start(ctx, false) },
	})
}

// takenOver demands that partitions of the journal have changed hands while things went wrong: twice each, on average.
// A node says so when it owns one.
func takenOver(r *run, _ *Result) string {
	files, err := filepath.Glob(r.logs("node-*.log"))
	if err != nil {
		return err.Error()
	}
	since, takeovers := r.firstFault(), 0
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return err.Error()
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct {
				Time time.Time
				Msg  string
			}
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "owns a partition of the journal" &&
				line.Time.After(since) {
				takeovers++
			}
		}
		_ = file.Close() // it was only read
	}
	r.say("%d takeovers of partitions", takeovers)
	if takeovers < 2*partitions {
		return fmt.Sprintf("there were %d takeovers of partitions: that shows nothing", takeovers)
	}
	return ""
}

// firstFault returns when the first fault of the schedule struck.
func (r *run) firstFault() time.Time {
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fault {
			return r.history.since.Add(e.At)
		}
	}
	return r.history.since
}
