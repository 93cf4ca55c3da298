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
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/sim/check"
)

// journalScenarios are about messages that wait in a journal: three nodes, each with a folder of its own, on three
// brokers, and no Postgres. A consumer that reads what was committed sees each message exactly once, whatever goes
// wrong, and what was cancelled never.
func journalScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "journal-killed-nodes",
			About: "Messages wait in a journal. A node is killed, one is frozen beyond its session, one loses its " +
				"local copy. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true,
			Brokers: 3, Lasts: 33 * s, Instructions: 10,
			draw: func(n *nemesis) {
				order := n.random.Perm(3)
				n.killNode(n.between(3*s, 4*s), n.between(s, 5*s), n.cluster.nodes[order[0]])
				n.freezeNode(n.between(11*s, 12*s), n.between(journalSession+2*s, journalSession+4*s),
					n.cluster.nodes[order[1]])
				n.loseCopy(n.between(24*s, 25*s), n.between(s, 7*s), n.cluster.nodes[order[2]])
			},
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, takenOver(partitions)},
		},
		{
			Name: "journal-killed-brokers",
			About: "Messages wait in a journal. A broker is killed, one is stopped, one is cut off from all nodes, " +
				"and a node from all brokers. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true,
			Brokers: 3, Lasts: 42 * s, Instructions: 10,
			draw: func(n *nemesis) {
				b, name := n.random.Perm(3), func(i int) string { return fmt.Sprintf("broker %d", i+1) }
				n.takeAway(3*s, n.between(s, 3*s), name(b[0]), byKill, n.broker(b[0]+1))
				n.takeAway(12*s, s, name(b[1]), byStop, n.broker(b[1]+1))
				n.cutOff(21*s, n.between(4*s, 6*s), b[2])
				node := n.node()
				n.trouble(30*s, n.between(journalSession+2*s, journalSession+4*s), "cut", nodeName(node.number),
					"the brokers", node.brokers)
			},
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, takenOver(3)},
		},
		{
			Name: "journal-lost-answers",
			About: "Messages wait in a journal. Requests to commit are lost, and answers to them and to others; or " +
				"all ways to the brokers with them. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true,
			Brokers: 3, Lasts: 22 * s, Instructions: 10,
			draw:    func(n *nemesis) { n.lose(18 * s) },
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, eachLost, takenOver(3)},
		},
	}
}

// loss is something to be lost between a node and a broker, and for how long it may be waited for.
type loss struct {
	answerIncision

	lasts time.Duration
}

// losses returns what can be lost. A node whose ways are shut for longer than a call may take does not hear what has
// become of its commit, and has to own its partitions anew. That is when it fences, so that the answer to that is
// waited for.
func losses() []loss {
	const s = time.Second
	of := func(request int16, never, shuts bool, lasts time.Duration, text string) loss {
		return loss{answerIncision{request: request, never: never, shuts: shuts, text: text}, lasts}
	}
	return []loss{
		of(endTxnRequest, false, false, 5*s, "the answer to its next commit"),
		of(endTxnRequest, true, false, 5*s, "its next commit"),
		of(endTxnRequest, false, true, 4*s, "the answer to its next commit, and all ways to the brokers"),
		of(endTxnRequest, true, true, 4*s, "its next commit, and all ways to the brokers"),
		of(produceRequest, false, false, 5*s, "the answer to what it appends next"),
		of(initProducerIDRequest, false, false, 8*s, "the answer to its next fence"),
	}
}

// lose has nodes lose all that they can, in turn and in any order.
func (n *nemesis) lose(until time.Duration) {
	const s = time.Second
	at := s
	for at < until {
		all := losses()
		for _, i := range n.random.Perm(len(all)) {
			n.loseAnswer(at, all[i], n.node())
			at += n.between(s/5, s)
		}
	}
}

// loseAnswer has a node lose something on its way to a broker, or back, and with it that connection.
func (n *nemesis) loseAnswer(at time.Duration, l loss, node *chronosNode) {
	forget := func() {}
	n.add(fault{
		at: at, lasts: l.lasts, text: nodeName(node.number) + " loses " + l.text,
		strike: func(context.Context) error {
			forget = node.answers.cut(&l.answerIncision)
			return nil
		},
		mend: func(context.Context) error {
			forget()
			return nil
		},
	})
}

// eachLost demands that commits were lost, and answers to them, with what came after and without. Whether a node
// fenced when the answer to that was to be lost is a matter of chance.
func eachLost(r *run, _ *Result) string {
	broken := ""
	for _, l := range losses() {
		count := 0
		for _, n := range r.nodes {
			count += n.answers.count(l.text)
		}
		r.say("lost %d times: %s", count, l.text)
		if l.request == endTxnRequest && count == 0 {
			broken = "nobody has lost " + l.text + ": that shows nothing"
		}
	}
	return broken
}

// cutOff cuts a broker, the first of which is 0, off from all nodes. The other brokers reach it, so that it stays the
// leader of what it leads.
func (n *nemesis) cutOff(at, lasts time.Duration, broker int) {
	n.add(fault{
		at: at, lasts: lasts, text: fmt.Sprintf("broker %d is cut off from all nodes", broker+1),
		strike: func(context.Context) error {
			for _, node := range n.cluster.nodes {
				node.brokers[broker].cut()
			}
			return nil
		},
		mend: func(ctx context.Context) error {
			for _, node := range n.cluster.nodes {
				if err := node.brokers[broker].mend(ctx); err != nil {
					return err
				}
			}
			return nil
		},
	})
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

// takenOver demands that partitions of the journal have changed hands since the first fault, or were owned anew, so
// many times at least.
func takenOver(least int) demand {
	return func(r *run, _ *Result) string {
		takeovers, err := r.takeovers()
		if err != nil {
			return err.Error()
		}
		r.say("%d takeovers of partitions", takeovers)
		if takeovers < least {
			return fmt.Sprintf("%d takeovers of partitions, and not %d: that shows nothing", takeovers, least)
		}
		return ""
	}
}

// takeovers counts how often a node has said since the first fault that it owns a partition of the journal.
func (r *run) takeovers() (takeovers int, err error) {
	all, err := r.ownings(r.history.since)
	since := r.firstFault()
	for _, o := range all {
		if o.at > since {
			takeovers++
		}
	}
	return takeovers, err
}

// owning is a node that has said that it owns a partition of the journal.
type owning struct {
	at        time.Duration
	node      int
	partition int32
	read      int64 // how many entries it has read before
	isNew     bool  // its copy was made anew
}

// ownings returns all of them, the first one first, in the time that begins at an instant.
func (c *cluster) ownings(since time.Time) (all []owning, err error) {
	files, err := filepath.Glob(c.logs("node-*.log"))
	if err != nil {
		return nil, fmt.Errorf("look for the logs of the nodes: %w", err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the log of a node: %w", err)
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), "node-"), ".")
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct {
				Time      time.Time
				Msg       string
				Partition int32
				Read      int64 `json:"entries_read"`
				New       bool  `json:"copy_is_new"`
			}
			if json.Unmarshal(lines.Bytes(), &line) != nil || line.Msg != "owns a partition of the journal" {
				continue
			}
			o := owning{at: line.Time.Sub(since), partition: line.Partition, read: line.Read, isNew: line.New}
			o.node, _ = strconv.Atoi(number)
			all = append(all, o)
		}
		_ = file.Close() // it was only read
	}
	slices.SortStableFunc(all, func(a, b owning) int { return cmp.Compare(a.at, b.at) })
	return all, nil
}

// firstFault returns when the first fault of the schedule struck. That the machine is busy is none of it.
func (r *run) firstFault() time.Duration {
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fault && !strings.HasPrefix(e.Text, theMachine) {
			return e.At
		}
	}
	return 0
}
