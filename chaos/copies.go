package chaos

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// copyScenarios are about a store that is not what it was: a standby takes over, or an old state comes back.
func copyScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "frozen-standby",
			About: "The synchronous standby is frozen for longer than a call may take; then the primary is killed, " +
				"and the standby takes over.",
			Servers: true, Outside: true,
			prepare: withStandby,
			draw:    func(n *nemesis) { n.failOver(3*s, n.between(5*s, 7*s)) },
			demands: []demand{hasWaited},
		},
		{
			Name: "failover-callbacks",
			About: fmt.Sprintf("A standby takes over, where one route has callbacks whose time limit is %v. The topic "+
				"of the other one goes on after the hold time of topics, and callbacks that much later.", longCall),
			Servers: true, Outside: true,
			Hosts: 3, Routes: 2, SecondRoute: 2, CallTimeout: longCall, Lasts: 40 * s,
			prepare: withStandby,
			draw:    func(n *nemesis) { n.failOver(3*s, n.between(5*s, 7*s)) },
			demands: []demand{hasWaited, asGiven, heldApart},
		},
		{
			Name:    "restored-backup",
			About:   "Postgres is set back to a base backup while the nodes run. What Kafka still has comes out.",
			Servers: true, Outside: true,
			Lasts: 18 * s,
			draw: func(n *nemesis) {
				n.backUp(3 * s)
				n.restore(n.between(9*s, 11*s), 0)
			},
			demands: []demand{onlySince},
		},
		{
			Name: "restored-copy",
			About: "Postgres is stopped and copied; later, with all nodes stopped, it is set back to the copy. " +
				"What Kafka still has comes out.",
			Servers: true, Outside: true,
			Lasts: 24 * s,
			draw: func(n *nemesis) {
				n.stopAndCopy(3 * s)
				n.restore(n.between(14*s, 16*s), 2*s)
			},
			demands: []demand{onlySince},
		},
	}
}

// withStandby gives the primary a standby that every commit waits for.
func withStandby(ctx context.Context, r *run) error {
	var err error
	r.standby, err = r.servers.Standby(ctx, r.postgres.now(), "standby")
	return err
}

// failOver freezes the standby for a while, in which no commit of the primary can end well: a node that takes a
// cancelled wait for a success, or finds what it has inserted and asks no further, commits its offsets, and the rows
// are on the primary alone. Then the primary is lost, the standby's machine starts again, and it is promoted.
func (n *nemesis) failOver(at, lasts time.Duration) {
	c := n.cluster
	n.add(fault{
		at: at, lasts: lasts, text: "the standby is frozen, and the primary is killed",
		strike: func(ctx context.Context) error { return c.standby.Freeze(ctx) },
		mend: func(ctx context.Context) error {
			waited, err := waiting(ctx, c.postgres)
			n.count("sessions of nodes that wait for the standby", waited)
			// What is on its way to the standby in the memory of the two machines is lost as well.
			err = errors.Join(err, c.postgres.now().Kill(ctx), c.standby.Kill(ctx), c.standby.Start(ctx))
			if err == nil {
				err = c.standby.Ready(ctx, time.Minute)
			}
			if err == nil {
				err = c.standby.Promote(ctx)
			}
			if err == nil {
				n.mark(thePromotion)
				c.postgres.server.Store(c.standby)
			}
			return err
		},
	})
}

// waiting counts the sessions of nodes that wait for a standby. One that has just been ended counts for a little while
// longer: some nodes are between two tries at any moment, so it looks for some time.
func waiting(ctx context.Context, d *database) (int, error) {
	most := 0
	err := d.now().Do(ctx, func(ctx context.Context, conn *pgx.Conn) error {
		const query = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'SyncRep'"
		for range 20 {
			count := 0
			if err := conn.QueryRow(ctx, query, d.role).Scan(&count); err != nil {
				return err
			}
			most = max(most, count)
			sleepUntil(ctx, time.Now().Add(50*time.Millisecond))
		}
		return nil
	})
	return most, err
}

// hasWaited demands that the frozen standby was in the way of somebody.
func hasWaited(r *run, _ *Result) string {
	if r.nemesis.counts["sessions of nodes that wait for the standby"] == 0 {
		return "no node has waited for the frozen standby: that shows nothing"
	}
	return ""
}

// longCall is the time limit of a request where that is to be longer than anything else that a new lineage waits for.
const longCall = 20 * time.Second

// thePromotion is the mark of when the standby has taken over.
const thePromotion = "the standby takes over"

// heldApart demands that after a failover topics go on when the claims on them have expired and all has caught up, and
// that no request is made until those of before have ended, too, and then some are.
func heldApart(r *run, result *Result) string {
	config := r.judged()
	// Somebody notices, the claims expire, and what is missing is taken in again.
	const noticed = 2 * time.Second
	hold := config.HoldTime
	promoted := r.nemesis.marks[thePromotion]
	goesOn := hold + noticed + config.Retry + config.Backlog() + config.Punctual() + result.Busy
	topic := r.topics.routes[1].out
	first := map[bool]time.Duration{} // the first of a topic, and of requests
	for i := range r.events {
		e := &r.events[i]
		at := e.At - promoted
		if _, is := first[e.Topic == topic]; e.Kind == check.Fire && at > hold && !is {
			first[e.Topic == topic] = at
		}
	}
	r.say("after the failover the topic went on after %v, and requests after %v",
		first[true].Round(time.Millisecond), first[false].Round(time.Millisecond))
	switch {
	case first[true] == 0 || first[true] > goesOn:
		return fmt.Sprintf("the topic went on %v after the failover, and not within %v", first[true], goesOn)
	case first[false] == 0:
		return "no request was made after the failover"
	case first[false] < hold+longCall:
		return fmt.Sprintf("a request was made %v after the failover, when one of before may be under way for %v",
			first[false], hold+longCall)
	case first[false] > goesOn+longCall+time.Second:
		return fmt.Sprintf("requests were made %v after the failover, and not within %v", first[false],
			goesOn+longCall+time.Second)
	}
	return ""
}

// theBackup is the mark of the moment that a backup is of.
const theBackup = "the backup"

// backUp takes a base backup, which is no fault.
func (n *nemesis) backUp(at time.Duration) {
	n.add(fault{at: at, text: "a base backup is taken", told: true, strike: func(ctx context.Context) error {
		b, err := n.cluster.postgres.now().Backup(ctx)
		n.cluster.backup = b
		n.mark(theBackup)
		return err
	}})
}

// stopAndCopy stops everything, copies the data, and starts everything.
func (n *nemesis) stopAndCopy(at time.Duration) {
	c := n.cluster
	const text = "nodes and Postgres are stopped, and its data is copied"
	n.add(fault{at: at, text: text, strike: func(ctx context.Context) error {
		if err := n.allNodes((*chronosNode).stop); err != nil {
			return err
		}
		p := c.postgres.now()
		err := p.Stop(ctx)
		if err == nil {
			c.backup, err = p.Copy()
			n.mark(theBackup)
		}
		return errors.Join(err, n.back(ctx, p))
	}})
}

// restore sets Postgres back to what the backup has. With a pause, all nodes are stopped before and stay away for that
// long; without, they run, and have to notice by themselves.
func (n *nemesis) restore(at, pause time.Duration) {
	c := n.cluster
	text := "Postgres is set back to the backup"
	if pause > 0 {
		text = "nodes are stopped, and " + text
	}
	n.add(fault{at: at, lasts: pause, text: text, strike: func(ctx context.Context) error {
		if pause > 0 {
			if err := n.allNodes((*chronosNode).stop); err != nil {
				return err
			}
		}
		if c.backup == nil {
			return errors.New("there is no backup")
		}
		p := c.postgres.now()
		err := p.Kill(ctx)
		if err == nil {
			err = p.Restore(c.backup)
		}
		if err == nil {
			err = p.Start(ctx)
		}
		if err == nil {
			err = p.Ready(ctx, time.Minute)
		}
		return err
	}, mend: func(ctx context.Context) error { return n.startNodes(ctx) }})
}

// back starts Postgres, and then all nodes.
func (n *nemesis) back(ctx context.Context, p *servers.Postgres) error {
	err := p.Start(ctx)
	if err == nil {
		err = p.Ready(ctx, time.Minute)
	}
	return errors.Join(err, n.startNodes(ctx))
}

// allNodes does the same with all nodes.
func (n *nemesis) allNodes(what func(*chronosNode) error) error {
	for _, node := range n.cluster.nodes {
		if err := what(node); err != nil {
			return err
		}
	}
	return nil
}

// startNodes starts the nodes that do not run.
func (n *nemesis) startNodes(ctx context.Context) error {
	return n.allNodes(func(node *chronosNode) error {
		if node.life != nil {
			return nil
		}
		return node.start(ctx, false)
	})
}

// onlySince demands that what fires twice has fired for the first time after the backup, which knows nothing of it: all
// else was deleted by then, except what a node was about to delete. Where nothing fires twice, the store was not
// set back at all.
func onlySince(r *run, result *Result) string {
	taken := r.nemesis.marks[theBackup]
	// From the record to the commit of its delete.
	about := 2*storeLatency + brokerLatency + result.Busy
	first := map[int]time.Duration{}
	duplicates := 0
	for i := range r.events {
		e := &r.events[i]
		if e.Kind != check.Fire {
			continue
		}
		at, twice := first[e.Message]
		if !twice {
			first[e.Message] = e.At
			continue
		}
		duplicates++
		if at < taken-about {
			return fmt.Sprintf("submission %d fired again %v after it had fired, which was %v before the backup",
				e.Message, (e.At - at).Round(time.Millisecond), (taken - at).Round(time.Millisecond))
		}
	}
	if duplicates == 0 {
		return "nothing has fired twice: the store was not set back"
	}
	return ""
}
