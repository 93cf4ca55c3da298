package chaos

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// transactionLimit is how long a transaction of a silent node is open at most: the brokers abort it after ten seconds,
// and look for such ones every ten seconds.
const transactionLimit = 20 * time.Second

// journalBrokerScenarios are about the brokers beneath a journal: one of three that is silent for longer than sessions
// and transactions last, all of them away at once, those that coordinate, and one after the other. Where copies are
// kept on standby, a node is killed meanwhile, and those who take over have to do so from a copy that is warm.
func journalBrokerScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "journal-frozen-broker",
			About: "Messages wait in a journal. A broker that leads partitions of it and of the input is frozen for " +
				"longer than sessions and transactions last, and goes on. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true,
			Brokers: 3, Lasts: 30 * s, Instructions: 10,
			draw: func(n *nemesis) {
				n.freezeLeader(3*s, n.between(transactionLimit+2*s, transactionLimit+5*s), 1+n.random.IntN(3))
			},
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, counted(ledInput, ledJournal), inTimeWithout},
		},
		{
			Name: "journal-broker-outage",
			About: "Messages wait in a journal. All three brokers are killed at once, or stopped, and are back when " +
				"sessions and transactions are over. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true,
			Brokers: 3, Lasts: 18 * s, Instructions: 10,
			draw: func(n *nemesis) {
				n.takeAllAway(3*s, n.between(12*s, 15*s), []string{byKill, byStop}[n.random.IntN(2)])
			},
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, takenOver(partitions), resumed},
		},
		{
			Name: "journal-lost-coordinator",
			About: "Messages wait in a journal, with warm copies. The broker that keeps the group's offsets and " +
				"coordinates transactions is killed; then the one that coordinates most of them is frozen, and a " +
				"node killed. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true, Standby: true,
			Brokers: 3, Lasts: 40 * s, Instructions: 10,
			draw: func(n *nemesis) {
				const frozen = 15 * s
				n.takeAway(3*s, n.between(3*s, 5*s), "the coordinator", byKill, n.bothCoordinator)
				n.takeAway(frozen, n.between(11*s, 14*s), "the coordinator of transactions", byFreeze,
					n.transactionCoordinator)
				// It may be that of the group, too: the next one waits for the dead node from its election on.
				at, over := n.between(16*s, 18*s), frozen+longestElections+journalSession+untilAllGiveUp
				n.killOwner(at, over-at+n.between(0, 2*s), n.node())
			},
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, counted(byFirst, bySecond), warmTakeovers},
		},
		{
			Name: "journal-rolling-brokers",
			About: "Messages wait in a journal, with warm copies. Of three brokers one after the other is restarted " +
				"cleanly, and a node is killed meanwhile. Each message comes out exactly once.",
			Servers: true, Outside: true, Journal: true, Standby: true,
			Brokers: 3, Lasts: 34 * s, Instructions: 10,
			draw: func(n *nemesis) {
				for i, b := range n.random.Perm(3) {
					n.takeAway(time.Duration(3+10*i)*s, s, fmt.Sprintf("broker %d", b+1), byStop, n.wholeBroker(b+1))
				}
				n.killOwner(n.between(12*s, 15*s), n.between(journalSession+4*s, journalSession+6*s), n.node())
			},
			demands: []demand{exactlyOnce, trueOutcomes, emptyJournal, warmTakeovers},
		},
	}
}

// What these scenarios count and mark, for their demands.
const (
	ledInput    = "partitions of the input that the frozen broker led"
	ledJournal  = "partitions of the journal that the frozen broker led"
	byFirst     = "transactional ids that the killed coordinator had"
	bySecond    = "transactional ids that the frozen coordinator had"
	theKill     = "an owner is killed"
	theRevival  = "it is started again"
	ownerNumber = "the node that was killed"

	theElections = "others lead what the frozen broker led"
	electing     = "milliseconds until others led what the frozen broker led"
)

// freezeLeader freezes a broker, and takes note of what it leads at that moment.
func (n *nemesis) freezeLeader(at, lasts time.Duration, number int) {
	b := n.cluster.kafka.Brokers[number-1]
	var watching sync.WaitGroup
	n.add(fault{
		at: at, lasts: lasts, text: fmt.Sprintf("broker %d is frozen", number),
		strike: func(ctx context.Context) error {
			for what, topic := range map[string]string{
				ledInput: n.cluster.topics.routes[0].in, ledJournal: n.cluster.topics.journal,
			} {
				leads, err := n.cluster.kafka.Leads(ctx, topic)
				if err != nil {
					return err
				}
				n.count(what, leads[number])
			}
			n.mark(theLoss)
			if err := b.Freeze(ctx); err != nil {
				return err
			}
			watching.Go(func() { n.awaitElections(ctx, number) })
			return nil
		},
		mend: func(ctx context.Context) error {
			watching.Wait()
			n.mark(theReturn)
			if err := b.Thaw(ctx); err != nil {
				return err
			}
			_ = n.cluster.kafka.Whole(ctx, 20*time.Second) // heal waits for longer
			return nil
		},
	})
}

// counted demands that a fault has met what it was to meet: that some was counted of each.
func counted(each ...string) demand {
	return func(r *run, _ *Result) string {
		for _, what := range each {
			if r.nemesis.counts[what] == 0 {
				return "none is there of the " + what + ": that shows nothing"
			}
		}
		return ""
	}
}

// longestElections is for how long a broker that is frozen leads something at most, if it is the one that watches over
// the others: two brokers vote for another one within 5 s, and that gives the frozen one up after 3 s.
const longestElections = 8 * time.Second

// What nodes need at most from the moment on at which the cluster has given up a broker that is frozen, besides moving
// what has piled up: the last transaction that waits for it is at its time limit, the poll ends that has not heard of
// that, and the members of the group hear by a heartbeat that another one has joined anew.
const (
	commitTimeout  = 5 * time.Second
	pollTime       = time.Second
	heartbeat      = journalSession / 4
	untilAllGiveUp = commitTimeout + pollTime + heartbeat
)

// awaitElections waits until a broker that is frozen leads nothing any more, and takes note of how long that takes:
// some 3 s, and as long again and longer if it is the one that watches over the others.
func (n *nemesis) awaitElections(ctx context.Context, number int) {
	const longest = 20 * time.Second
	since := n.history.now()
	err := servers.Await(ctx, longest, func(ctx context.Context) error {
		led, err := n.cluster.kafka.Led(ctx, number)
		if err == nil && led > 0 {
			err = fmt.Errorf("it leads %d partitions", led)
		}
		return err
	})
	if err != nil {
		return // the demand finds no mark
	}
	n.mark(theElections)
	n.count(electing, int((n.history.now() - since).Milliseconds()))
}

// inTimeWithout demands that messages are in time without the broker that is frozen, as soon as others lead what it
// led, nodes have found that out, and what has piled up is moved: that nobody waits for it until it goes on.
func inTimeWithout(r *run, result *Result) string {
	elected, some := r.nemesis.marks[theElections]
	if !some {
		return "the cluster has not given up the broker that was frozen: that shows nothing"
	}
	config := r.judged()
	since, until := elected+untilAllGiveUp, r.nemesis.marks[theReturn]-time.Second
	config.Messages = 0
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Submit && r.nemesis.marks[theLoss] <= e.At && e.At < since {
			config.Messages++
		}
	}
	return inTime(r.lateness(since+config.Backlog(), until, func(*check.Event) bool { return true }),
		2*config.Punctual()+result.Busy, config.Punctual())
}

// takeAllAway takes all brokers away for a while, at once.
func (n *nemesis) takeAllAway(at, lasts time.Duration, how string) {
	all := n.cluster.kafka.Brokers
	n.add(fault{
		at: at, lasts: lasts, text: "all brokers are " + how,
		strike: func(ctx context.Context) error {
			n.reach(check.Cut, "broker")
			var waits sync.WaitGroup
			errs := make([]error, len(all))
			for i, b := range all {
				waits.Go(func() {
					if how == byKill {
						errs[i] = b.Kill(ctx)
					} else {
						errs[i] = b.Stop(ctx)
					}
				})
			}
			waits.Wait()
			return errors.Join(errs...)
		},
		mend: func(ctx context.Context) error {
			defer n.reach(check.Mend, "broker")
			for _, b := range all {
				if err := b.Start(ctx); err != nil {
					return err
				}
			}
			return n.cluster.kafka.Whole(ctx, time.Minute)
		},
	})
}

// wholeBroker returns the broker of that number once all is whole, as whoever restarts one after the other waits for
// that.
func (n *nemesis) wholeBroker(number int) func(context.Context) (servers.Server, error) {
	return func(ctx context.Context) (servers.Server, error) {
		return n.cluster.kafka.Brokers[number-1], n.cluster.kafka.Whole(ctx, 30*time.Second)
	}
}

// bothCoordinator returns whoever keeps the offsets of the group when the fault strikes, and takes note of how many of
// the nodes' transactions are its own.
func (n *nemesis) bothCoordinator(ctx context.Context) (servers.Server, error) {
	b, err := n.cluster.kafka.Coordinator(ctx, n.cluster.topics.group)
	if err != nil {
		return nil, err
	}
	counts, err := n.cluster.kafka.Transactions(ctx, n.cluster.topics.writers()...)
	n.count(byFirst, counts[b.Number])
	return b, err
}

// transactionCoordinator returns whoever coordinates most of the nodes' transactions when the fault strikes.
func (n *nemesis) transactionCoordinator(ctx context.Context) (servers.Server, error) {
	counts, err := n.cluster.kafka.Transactions(ctx, n.cluster.topics.writers()...)
	if err != nil {
		return nil, err
	}
	most := n.cluster.kafka.Brokers[0]
	for _, b := range n.cluster.kafka.Brokers {
		if counts[b.Number] > counts[most.Number] {
			most = b
		}
	}
	n.count(bySecond, counts[most.Number])
	return most, nil
}

// writers are the transactional ids of a journal, one for each partition.
func (t topics) writers() (ids []string) {
	for p := range partitions {
		ids = append(ids, fmt.Sprintf("%s/%d", t.journal, p))
	}
	return ids
}

// killOwner kills a node for longer than its session, and until others own what it had, and starts it again. A group
// whose coordinator moves meanwhile, as it does when a broker stops, gives the dead node a session from then on, and on
// a busy machine that has taken 12 s.
func (n *nemesis) killOwner(at, lasts time.Duration, node *chronosNode) {
	n.add(fault{
		at: at, lasts: lasts, text: nodeName(node.number) + " is killed",
		strike: func(context.Context) error {
			n.mark(theKill)
			n.count(ownerNumber, node.number)
			return node.kill()
		},
		lasting: func() bool {
			all, err := n.cluster.ownings(n.history.since)
			_, left := inherited(all, node.number, n.marked(theKill), n.history.now())
			return err == nil && left > 0
		},
		mend: func(ctx context.Context) error {
			n.mark(theRevival)
			return node.start(ctx, false)
		},
	})
}

// warmTakeovers demands that others have taken over what the node that was killed had owned, before it was there again,
// and that each had a copy of it that was warm.
func warmTakeovers(r *run, _ *Result) string {
	all, err := r.ownings(r.history.since)
	if err != nil {
		return err.Error()
	}
	from, to := r.nemesis.marks[theKill], r.nemesis.marks[theRevival]
	taken, left := inherited(all, r.nemesis.counts[ownerNumber], from, to)
	var read int64
	last := from
	for _, o := range taken {
		if o.isNew {
			return fmt.Sprintf("node %d has taken partition %d of the journal over %v after the death of its owner "+
				"with a copy that it had to make anew", o.node, o.partition, (o.at - from).Round(time.Millisecond))
		}
		read, last = read+o.read, o.at
	}
	r.say("%d partitions of the killed node were taken over from warm copies, %v after its death, with %d entries read",
		len(taken), (last - from).Round(time.Millisecond), read)
	if len(taken) == 0 || left > 0 {
		return fmt.Sprintf("others have taken over %d partitions of the killed node before it was back, and %d not: "+
			"that shows nothing", len(taken), left)
	}
	return ""
}

// inherited returns by which ownings others have taken over until an instant what a node had owned that was killed at
// another one, the first one first, and how many of its partitions are left.
func inherited(all []owning, killed int, from, to time.Duration) (taken []owning, left int) {
	owner := map[int32]int{}
	for _, o := range all {
		switch {
		case o.at < from:
			owner[o.partition] = o.node
		case o.at <= to && owner[o.partition] == killed && o.node != killed:
			taken = append(taken, o)
			owner[o.partition] = o.node
		}
	}
	for _, node := range owner {
		if node == killed {
			left++
		}
	}
	return taken, left
}
