package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"chronos/sim/check"
)

// Scenario is one way for things to go wrong.
type Scenario struct {
	Name, About string

	Brokers, Nodes int

	// First is how many of the nodes run from the beginning; 0 for all.
	First int

	// Rate is how many messages are submitted in a second, and Lasts for how long faults may strike.
	Rate  int
	Lasts time.Duration

	// Resubmit is n when every n-th message is submitted again the moment it is seen to fire; 0 for none.
	Resubmit int

	// Instructions is n when every n-th record is an instruction about another one; 0 for none. The nodes have an
	// outcome topic then; where there are receivers of callbacks, instructions are given by the HTTP API, which
	// answers.
	Instructions int

	// Hosts is how many receivers of callbacks there are. Then all messages come out as requests to them; 0 for none,
	// and messages come out on topics. Every Asks-th message is given to the nodes by their HTTP API.
	Hosts, Asks int

	// Tasks is how many tasks a queue runs one at a time; 0 for no queue.
	Tasks int

	// RetryFor is how long after its deadline a callback is tried; 0 for as long as nodes do that nobody tells.
	RetryFor time.Duration

	// CallTimeout is the time limit of a callback; 0 for callTimeout.
	CallTimeout time.Duration

	// Routes is how many routes the nodes serve; 0 for one. Every SecondRoute-th message goes to the second one. Where
	// there are receivers of callbacks, the messages of the second route come out on a topic.
	Routes, SecondRoute int

	// Lanes is how many topics the messages of the first route name, each one of them, among its targets; 0 for none.
	Lanes int

	// Locks says that rows are locked by a session that is no node's. The history tells of each submission where Kafka
	// has put it then, so that the judge knows what stands behind a record about a locked row.
	Locks bool

	// Journal says that messages wait in a journal in Kafka, and that there is no Postgres. Then what is read of the
	// topics is what was committed.
	Journal bool

	// Standby says that each node keeps copies of what others own of the journal.
	Standby bool

	// Outside says that the changes of the rows are not followed: it is judged by what an outsider sees.
	Outside bool

	// Servers says that the servers have to be the suite's own: it kills them, or cuts the links to the brokers.
	Servers bool

	// Commands says that it operates the nodes by commands of chronos.
	Commands bool

	// Smoke says that it is a part of the normal tests.
	Smoke bool

	// place says on which brokers the partitions of a topic are; nil for all of them on all brokers.
	place   func(t topics, topic string) map[int][]int32
	prepare func(context.Context, *run) error
	draw    func(*nemesis)
	demands []demand
}

// demand is what a scenario demands beyond the invariants. It returns what is broken, or "".
type demand func(*run, *Result) string

// Scenarios returns all scenarios, in the order in which they run.
func Scenarios() []*Scenario {
	all := slices.Concat(quietScenarios(), linkScenarios(), nodeScenarios(), kafkaScenarios(), postgresScenarios(),
		copyScenarios(), truncationScenarios(), laneScenarios(), lockScenarios(), snapshotScenarios(),
		controlScenarios(), strangerScenarios(), pauseScenarios(), callbackScenarios(),
		taskScenarios(), journalScenarios(), journalBrokerScenarios())
	for _, s := range all {
		s.Rate = max(s.Rate, 60)
		s.Brokers = max(s.Brokers, 1)
		s.Nodes = max(s.Nodes, 3)
		if s.Lasts == 0 {
			s.Lasts = 15 * time.Second
		}
	}
	return all
}

func quietScenarios() []*Scenario {
	return []*Scenario{{
		Name: "no-fault", About: "Nothing goes wrong: every message fires once, and in time.",
		Rate: 100, Lasts: 20 * time.Second, draw: func(*nemesis) {},
		demands: []demand{noDuplicates},
	}}
}

func linkScenarios() []*Scenario {
	mix := func(kinds ...string) func(*nemesis) {
		return func(n *nemesis) {
			for at := time.Second; at < 12*time.Second; at += n.between(500*time.Millisecond, 1500*time.Millisecond) {
				n.disturb(at, kinds[n.random.IntN(len(kinds))])
			}
		}
	}
	return []*Scenario{
		{
			Name: "slow-links", About: "Links are slow, narrow, and deliver in slices.",
			Servers: true,
			draw:    mix("latency", "bandwidth", "slice"),
		},
		{
			Name: "broken-links", About: "Links are reset, cut, black holes, or lose one direction.",
			Servers: true,
			draw:    mix("reset", "cut", "black-hole", "replies-lost", "requests-lost"),
		},
		{
			Name: "late-bytes", About: "Links hold all bytes back and deliver them late.",
			Servers: true,
			draw:    mix("stall"),
		},
		{
			Name: "lost-replies", About: "Postgres commits, and the node never hears of it.", Smoke: true,
			Resubmit: 2,
			draw: func(n *nemesis) {
				statements := [][2]string{
					{"delete", deleteReply},
					{"delete", deleteReply},
					{"delete", deleteReply},
					{"insert", insertReply},
					{"claim", claimReply},
					{"move of a position", moveReply},
					{"lock of a partition", beginReply},
					{"reset", resetReply},
				}
				const ms = time.Millisecond
				for at := time.Second; at < 13*time.Second; at += n.between(100*ms, 500*ms) {
					s := statements[n.random.IntN(len(statements))]
					n.loseReply(at, s[0], s[1])
				}
			},
		},
	}
}

func nodeScenarios() []*Scenario {
	return []*Scenario{
		{
			Name: "killed-nodes", About: "Nodes are killed and started again.", Smoke: true,
			draw: func(n *nemesis) {
				at := 3 * time.Second
				for _, i := range n.random.Perm(3) {
					n.killNode(at, n.between(time.Second, 6*time.Second), n.cluster.nodes[i])
					at += n.between(3*time.Second, 4*time.Second)
				}
			},
			demands: []demand{recovered},
		},
		{
			Name: "killed-without-store", About: "Nodes are killed while Postgres is away.",
			Servers: true,
			draw: func(n *nemesis) {
				n.takeAway(3*time.Second, n.between(7*time.Second, 8*time.Second), thePostgres, byStop, n.database)
				for i, node := range n.cluster.nodes {
					n.killNode(time.Duration(5+i)*time.Second, n.between(2*time.Second, 4*time.Second), node)
				}
			},
		},
		{
			Name: "frozen-nodes", About: "Nodes are frozen for longer than the hold time, and go on.",
			draw: func(n *nemesis) {
				for i, at := range []time.Duration{2 * time.Second, 9 * time.Second} {
					hold := n.cluster.config.HoldTime
					n.freezeNode(at, n.between(hold+time.Second, hold+3*time.Second), n.cluster.nodes[i])
				}
			},
			Lasts: 19 * time.Second,
		},
		{
			Name: "rolling-restart", About: "Nodes are stopped cleanly and started again, one after the other.",
			draw: func(n *nemesis) {
				for i, node := range n.cluster.nodes {
					n.restartNode(time.Duration(2+5*i)*time.Second, time.Second, node)
				}
			},
			Lasts: 18 * time.Second, demands: []demand{noSuspicion},
		},
		{
			Name: "one-to-five", About: "One node, then five, then one again.",
			Nodes: 5, First: 1,
			draw: func(n *nemesis) {
				for i, node := range n.cluster.nodes[1:] {
					grow := time.Duration(2+i) * time.Second
					n.add(fault{
						at: grow, text: nodeName(node.number) + " joins",
						strike: func(ctx context.Context) error { return node.start(ctx, false) },
					})
					n.add(fault{
						at: grow + 8*time.Second, text: nodeName(node.number) + " goes",
						strike: func(context.Context) error { return node.stop() },
					})
				}
			},
		},
		{
			Name: "rebalance-storm", About: "Strangers join and leave the consumer group all the time.",
			draw: func(n *nemesis) { n.storm(2*time.Second, 12*time.Second) },
		},
	}
}

func kafkaScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "broker-outage", About: "The only broker is killed, and back after a while.",
			Servers: true,
			draw:    func(n *nemesis) { n.takeAway(4*s, n.between(8*s, 10*s), "the broker", byKill, n.broker(1)) },
		},
		{
			Name: "long-broker-outage", About: "Kafka is away for 30 s. Firing resumes within 3 s of its return.",
			Servers: true,
			draw:    func(n *nemesis) { n.takeAway(3*s, 30*s, "the broker", byStop, n.broker(1)) },
			demands: []demand{resumed},
			Lasts:   33 * s, Rate: 40,
		},
		{
			Name: "frozen-broker", About: "The only broker is frozen: its connections are open, and it says nothing.",
			Servers: true,
			draw:    func(n *nemesis) { n.takeAway(4*s, n.between(6*s, 9*s), "the broker", byFreeze, n.broker(1)) },
		},
		{
			Name: "frozen-follower",
			About: "A broker that leads no partition of the topics is frozen: leaders append, and acknowledge " +
				"nothing until it has been given up.",
			Servers: true,
			Brokers: lastBroker, Lasts: 20 * s, Rate: 100,
			place: led,
			draw: func(n *nemesis) {
				n.takeAway(4*s, n.between(10*s, 12*s), "the follower", byFreeze, n.broker(lastBroker))
			},
		},
		{
			Name: "killed-brokers", About: "Of three brokers one after the other is killed and started again.",
			Servers: true,
			Brokers: 3, Lasts: 30 * s, Rate: 40,
			draw: func(n *nemesis) {
				for i, b := range n.random.Perm(3) {
					name := fmt.Sprintf("broker %d", b+1)
					n.takeAway(time.Duration(3+9*i)*s, n.between(1*s, 3*s), name, byKill, n.broker(b+1))
				}
			},
		},
		{
			Name: "rolling-brokers", About: "Of three brokers one after the other is restarted cleanly.",
			Servers: true,
			Brokers: 3, Lasts: 28 * s, Rate: 40,
			draw: func(n *nemesis) {
				for i := range 3 {
					n.takeAway(time.Duration(3+8*i)*s, s, fmt.Sprintf("broker %d", i+1), byStop, n.broker(i+1))
				}
			},
		},
		{
			Name: "lost-coordinator", About: "The broker that keeps the group's offsets is killed, then frozen.",
			Servers: true,
			Brokers: 3, Lasts: 26 * s, Rate: 40,
			draw: func(n *nemesis) {
				n.takeAway(3*s, n.between(3*s, 5*s), "the coordinator", byKill, n.coordinator)
				n.takeAway(16*s, n.between(5*s, 8*s), "the coordinator", byFreeze, n.coordinator)
			},
		},
	}
}

// led has the last broker follow on all partitions of a topic, and lead none of them.
func led(topics, string) map[int][]int32 {
	places := map[int][]int32{}
	for p := range partitions {
		places[p] = []int32{int32(1 + p%(lastBroker-1)), int32(1 + (p+1)%(lastBroker-1)), lastBroker}
	}
	return places
}

func postgresScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "killed-postgres", About: "Postgres is killed, and recovers from its log; and is stopped at once.",
			Servers: true,
			Smoke:   true,
			draw: func(n *nemesis) {
				n.takeAway(3*s, n.between(1*s, 3*s), thePostgres, byKill, n.database)
				n.takeAway(9*s, n.between(1*s, 3*s), thePostgres, byStop, n.database)
			},
		},
		{
			Name: "long-postgres-outage", About: "Postgres is away for 30 s. Firing resumes within 3 s of its return.",
			Servers: true,
			draw:    func(n *nemesis) { n.takeAway(3*s, 30*s, thePostgres, byStop, n.database) },
			demands: []demand{resumed},
			Lasts:   33 * s, Rate: 40,
		},
		{
			Name: "frozen-postgres", About: "Postgres is frozen: its connections are open, and it says nothing.",
			Servers: true,
			draw:    func(n *nemesis) { n.takeAway(3*s, n.between(7*s, 9*s), thePostgres, byFreeze, n.database) },
		},
		{
			Name: "ended-sessions", About: "Everybody's session is ended, again and again.",
			draw: func(n *nemesis) {
				for at := 2 * s; at < 13*s; at += n.between(500*time.Millisecond, 2*s) {
					n.terminate(at)
				}
			},
		},
		{
			Name: "locked-table", About: "Somebody locks the whole table for seconds.",
			draw: func(n *nemesis) {
				n.hold(3*s, n.between(3*s, 8*s), "somebody locks the table",
					"LOCK TABLE "+table+" IN ACCESS EXCLUSIVE MODE")
			},
		},
		{
			Name: "idle-transaction", About: "Somebody forgets an open transaction, which keeps all dead rows.",
			Rate: 150, Lasts: 125 * s,
			draw: func(n *nemesis) {
				n.hold(3*s, 2*time.Minute, "somebody forgets an open transaction",
					"DECLARE forgotten CURSOR FOR SELECT * FROM "+table+"; FETCH 1 FROM forgotten")
			},
		},
		{
			Name: "no-connections", About: "All connections are taken by others.", Servers: true,
			draw: func(n *nemesis) { n.crowd(3*s, n.between(4*s, 8*s)) },
		},
		{
			Name: "full-disk", About: "The disk of the table is full for a while.",
			Servers: true,
			prepare: smallDisk,
			draw:    func(n *nemesis) { n.fillDisk(4*s, n.between(5*s, 8*s)) },
		},
	}
}

// sorted demands that what is no submission is rejected, and nothing else is; except for callbacks that are given up,
// of which the scenario has its own demands.
func sorted(run *run, _ *Result) string {
	flaws := map[int]string{}
	for i := range run.events {
		switch e := &run.events[i]; {
		case e.Kind == check.Submit:
			flaws[e.Message] = e.Flaw
		case e.Kind == check.Copy && flaws[e.Message] != check.Invalid && run.scenario.RetryFor == 0:
			return fmt.Sprintf("submission %d is valid, and is on the dead-letter topic", e.Message)
		case e.Kind == check.Fire && flaws[e.Message] == check.Invalid:
			return fmt.Sprintf("submission %d is none, and has fired", e.Message)
		}
	}
	return ""
}

// noDuplicates demands that every message fires once: nothing has gone wrong, unless the machine was too busy.
func noDuplicates(_ *run, r *Result) string {
	if d := r.Verdict.Summary.Duplicates; d > 0 && r.Busy == 0 {
		return fmt.Sprintf("%d duplicates without a fault", d)
	}
	return ""
}

// noSuspicion demands that nobody waits for the hold time: a node that is stopped gives its claims back.
func noSuspicion(run *run, _ *Result) string {
	for i := range run.events {
		if e := &run.events[i]; e.Kind == check.Reset && e.Age >= run.config.HoldTime {
			return fmt.Sprintf("the claim on %s waited for the hold time, and nobody was killed", e.ID)
		}
	}
	return ""
}

// resumed demands that something fires within 3 s of the return of a server that was away for 30 s, on a machine that
// is not busy.
func resumed(_ *run, r *Result) string {
	within := 3*time.Second + r.Busy
	if r.Resumed < 0 || r.Resumed > within {
		return fmt.Sprintf("firing resumed %v after the healing, and not within %v", r.Resumed, within)
	}
	return ""
}

// recovered demands that what a killed node had claimed fires within hold time + detection interval + 1 s, on a machine
// that is not busy, unless its row is locked.
func recovered(run *run, r *Result) string {
	within := run.config.HoldTime + 500*time.Millisecond + time.Second + r.Busy
	locked := lockedIn(run.events)
	names := map[check.UUID]string{}
	for i := range run.events {
		if e := &run.events[i]; e.Kind == check.Start {
			names[e.Owner] = e.Node
		}
	}
	claims := map[string]*check.Event{} // by incarnation
	messages := map[string]int{}
	orphans := map[int]time.Duration{} // since when a submission waits for somebody else
	for i := range run.events {
		e := &run.events[i]
		row := e.Incarnation.String()
		switch e.Kind {
		case check.Insert:
			messages[row] = e.Message
			if e.Owner != (check.UUID{}) {
				claims[row] = e
			}
		case check.Claim:
			claims[row] = e
		case check.Reset, check.Delete:
			delete(claims, row)
		case check.Crash:
			for row, claim := range claims {
				if names[claim.Owner] == e.Node && !locked[lockedRow{claim.ID, claim.Topic}] {
					orphans[messages[row]] = e.At
				}
			}
		case check.Fire:
			since, waits := orphans[e.Message]
			if late := e.At - since; waits && late > within {
				return fmt.Sprintf("submission %d of a killed node fired after %v, and not within %v",
					e.Message, late, within)
			}
			delete(orphans, e.Message)
		default:
		}
	}
	return ""
}
