package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kgo"

	"chronos/chaos/servers"
	"chronos/sim/check"
)

// fault is one entry of a schedule: when it strikes, for how long, and how.
type fault struct {
	at, lasts time.Duration
	text      string // for people, and for the history
	told      bool   // the history hears of it by other events
	strike    func(ctx context.Context) error
	mend      func(ctx context.Context) error // nil where nothing is left to mend
	lasting   func() bool                     // not nil: it lasts on while this holds, for lastingOn at most
}

// lastingOn is how long a fault lasts on where it waits for something.
const lastingOn = 20 * time.Second

// nemesis draws faults from the seed and lets them strike. Every choice comes from its random source, in an order that
// depends on the scenario alone: one seed gives one schedule.
type nemesis struct {
	random    *rand.Rand
	cluster   *cluster
	history   *history
	flood     func(ctx context.Context, many int, due time.Time)                        // into the second route
	callOften func(ctx context.Context, many int, first time.Time, every time.Duration) // see submitter
	each      func(do func(*submission))                                                // what was acknowledged
	repeat    func(ctx context.Context, ids []string)                                   // see submitter
	faults    []fault
	struck    int
	cuts      []cut // of the logs of the input, once they have lost their ends

	mu     sync.Mutex
	failed error
	marks  map[string]time.Duration // when something happened that a demand asks for, in the time of the history
	counts map[string]int           // what was counted
	locked []lockedRow              // by a session that is no node's
}

func newNemesis(c *cluster, h *history, seed uint64) *nemesis {
	return &nemesis{
		random: rand.New(rand.NewPCG(seed, 2)), cluster: c, history: h,
		marks: map[string]time.Duration{}, counts: map[string]int{},
	}
}

// schedule returns the faults as lines, for people.
func (n *nemesis) schedule() string {
	var text strings.Builder
	for _, f := range n.faults {
		fmt.Fprintf(&text, "%8s  %s", f.at.Round(time.Millisecond), f.text)
		if f.lasts > 0 {
			fmt.Fprintf(&text, ", for %s", f.lasts.Round(time.Millisecond))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// add puts a fault on the schedule.
func (n *nemesis) add(f fault) {
	n.faults = append(n.faults, f)
	slices.SortStableFunc(n.faults, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
}

// between draws a duration in whole milliseconds.
func (n *nemesis) between(low, high time.Duration) time.Duration {
	return low + time.Duration(n.random.Int64N(int64(high-low)/1e6+1))*time.Millisecond
}

// node draws one of the nodes.
func (n *nemesis) node() *chronosNode { return n.cluster.nodes[n.random.IntN(len(n.cluster.nodes))] }

// run lets all faults strike, and returns when the last one is mended. begin is when the schedule begins.
func (n *nemesis) run(ctx context.Context, begin time.Time) error {
	var waits sync.WaitGroup
	for _, f := range n.faults {
		if !sleepUntil(ctx, begin.Add(f.at)) {
			break
		}
		waits.Go(func() { n.let(ctx, f) })
	}
	waits.Wait()
	return n.failed
}

// let lets one fault strike, and mends it.
func (n *nemesis) let(ctx context.Context, f fault) {
	tell := func(text string) {
		if !f.told {
			n.history.add(check.Event{Kind: check.Fault, Text: text})
		}
	}
	n.history.troubled(1)
	defer n.history.troubled(-1)
	tell(f.text)
	n.mu.Lock()
	n.struck++
	n.mu.Unlock()
	err := f.strike(ctx)
	if f.mend != nil {
		n.last(ctx, f, tell)
		tell(f.text + ", until now") // a broker takes seconds to be back
		if mendErr := f.mend(context.WithoutCancel(ctx)); err == nil {
			err = mendErr
		}
		// What it has left behind may show until now.
		tell(f.text + ", mended")
	}
	if err != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.failed = cmp.Or(n.failed, fmt.Errorf("%s: %w", f.text, err))
	}
}

// last waits for as long as a fault lasts. Where the rows are not followed, nobody sees what becomes of claims
// meanwhile, and the history is told again that it is there: the judge excuses what happens shortly after it was told.
func (n *nemesis) last(ctx context.Context, f fault, tell func(text string)) {
	const again, soon = 5 * time.Second, 250 * time.Millisecond
	until := time.Now().Add(f.lasts)
	latest, told := until, time.Now()
	if f.lasting != nil {
		latest = until.Add(lastingOn)
	}
	for now := time.Now(); now.Before(until) || now.Before(latest) && f.lasting(); now = time.Now() {
		if !n.cluster.follows() && now.Sub(told) >= again {
			tell(f.text + ", still")
			told = now
		}
		next := min(told.Add(again).Sub(now), max(until.Sub(now), soon))
		if !sleepUntil(ctx, now.Add(next)) {
			return
		}
	}
}

// mark notes that something happens now that the scenario has to know of in the end.
func (n *nemesis) mark(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.marks[what] = n.history.now()
}

// marked returns when something happened that was noted.
func (n *nemesis) marked(what string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.marks[what]
}

// count notes a number, for the scenario in the end, and says it.
func (n *nemesis) count(what string, many int) {
	_, _ = fmt.Fprintf(n.cluster.config.Say, "%s: %d\n", what, many) // nobody minds a line less
	n.mu.Lock()
	defer n.mu.Unlock()
	n.counts[what] = many
}

// sleepUntil waits for an instant, and tells whether it has come.
func sleepUntil(ctx context.Context, t time.Time) bool {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// toxic lets one toxic act on links of a node, in one direction or both.
func (n *nemesis) toxic(
	at, lasts time.Duration, text string, on []*link, kind string, attributes map[string]any, ways ...direction,
) {
	var cures []func(context.Context) error
	n.add(fault{
		at: at, lasts: lasts, text: text,
		strike: func(ctx context.Context) error {
			for _, l := range on {
				for _, d := range ways {
					name, err := l.poison(ctx, kind, d, attributes)
					if err != nil {
						return err
					}
					cures = append(cures, func(ctx context.Context) error { return l.cure(ctx, name) })
				}
			}
			return nil
		},
		mend: func(ctx context.Context) error {
			var errs []error
			for _, cure := range cures {
				errs = append(errs, cure(ctx))
			}
			return errors.Join(errs...)
		},
	})
}

func mendAll(ctx context.Context, links []*link) error {
	for _, l := range links {
		if err := l.mend(ctx); err != nil {
			return err
		}
	}
	return nil
}

// waysOf names a group of links of a node: those to the brokers, that to Postgres, or all.
func (n *nemesis) waysOf(node *chronosNode) (text string, on []*link) {
	switch n.random.IntN(3) {
	case 0:
		return "Postgres", []*link{node.postgres}
	case 1:
		return "the brokers", node.brokers
	}
	return "everything", node.links()
}

// disturb draws one of the faults of links for a node.
func (n *nemesis) disturb(at time.Duration, kind string) {
	node := n.node()
	to, on := n.waysOf(node)
	n.trouble(at, n.between(time.Second, 8*time.Second), kind, nodeName(node.number), to, on)
}

// trouble has links go wrong in one of the ways that links can.
func (n *nemesis) trouble(at, lasts time.Duration, kind, from, to string, on []*link) {
	switch kind {
	case "latency":
		ms := 20 + n.random.IntN(800)
		n.toxic(at, lasts, fmt.Sprintf("%s to %s takes %d ms longer", from, to, ms), on, "latency",
			map[string]any{"latency": ms}, replies)
	case "bandwidth":
		rate := 2 + n.random.IntN(30)
		n.toxic(at, lasts, fmt.Sprintf("%s to %s has %d kB/s", from, to, rate), on, "bandwidth",
			map[string]any{"rate": rate}, requests, replies)
	case "slice":
		n.toxic(at, lasts, fmt.Sprintf("%s to %s in slices of 40 bytes", from, to), on, "slicer",
			map[string]any{"average_size": 40, "size_variation": 30, "delay": 100}, requests, replies)
	case "black-hole":
		n.toxic(at, lasts, fmt.Sprintf("%s to %s is a black hole", from, to), on, "timeout",
			map[string]any{"timeout": 0}, requests, replies)
	case repliesLost:
		n.toxic(at, lasts, fmt.Sprintf("%s gets no reply from %s", from, to), on, "timeout",
			map[string]any{"timeout": 0}, replies)
	case "requests-lost":
		n.toxic(at, lasts, fmt.Sprintf("%s does not reach %s", from, to), on, "timeout",
			map[string]any{"timeout": 0}, requests)
	case "stall":
		n.toxic(at, lasts, fmt.Sprintf("%s to %s is held back", from, to), on, "stall", nil, requests, replies)
	case "reset":
		n.add(fault{at: at, text: from + " to " + to + " is reset", strike: func(context.Context) error {
			for _, l := range on {
				if err := l.reset(); err != nil {
					return err
				}
			}
			return nil
		}})
	case "cut":
		n.add(fault{
			at: at, lasts: lasts, text: from + " to " + to + " is cut",
			strike: func(context.Context) error {
				for _, l := range on {
					l.cut()
				}
				return nil
			},
			mend: func(ctx context.Context) error { return mendAll(ctx, on) },
		})
	}
}

// repliesLost is the trouble in which requests arrive, and what is answered does not.
const repliesLost = "replies-lost"

// loseReply loses the reply to the next statement of a kind, of a node.
func (n *nemesis) loseReply(at time.Duration, what, statement string) {
	node := n.node()
	lasts := 5 * time.Second
	n.add(fault{
		at: at, lasts: lasts, text: fmt.Sprintf("%s loses the reply to its next %s", nodeName(node.number), what),
		strike: func(context.Context) error {
			node.cutter.cut(statement)
			return nil
		},
		mend: func(context.Context) error {
			node.cutter.spare()
			return nil
		},
	})
}

// killNode kills a node and starts it again.
func (n *nemesis) killNode(at, lasts time.Duration, node *chronosNode) {
	n.add(fault{
		at: at, lasts: lasts, text: nodeName(node.number) + " is killed",
		strike: func(context.Context) error { return node.kill() },
		mend:   func(ctx context.Context) error { return node.start(ctx, false) },
	})
}

// restartNode stops a node cleanly and starts it again.
func (n *nemesis) restartNode(at, lasts time.Duration, node *chronosNode) {
	n.add(fault{
		at: at, lasts: lasts, text: nodeName(node.number) + " is stopped", told: true,
		strike: func(context.Context) error { return node.stop() },
		mend:   func(ctx context.Context) error { return node.start(ctx, false) },
	})
}

// freezeNode stops a process where it is, for longer than the hold time or not.
func (n *nemesis) freezeNode(at, lasts time.Duration, node *chronosNode) {
	n.add(fault{
		at: at, lasts: lasts, text: nodeName(node.number) + " is frozen",
		strike: func(context.Context) error {
			node.freeze()
			return nil
		},
		mend: func(context.Context) error {
			node.thaw()
			return nil
		},
	})
}

// thePostgres is the name of the database in schedules.
const thePostgres = "Postgres"

// The ways to take a server away.
const (
	byKill   = "killed"
	byFreeze = "frozen"
	byStop   = "stopped"
)

// takeAway takes a server away for a while.
func (n *nemesis) takeAway(
	at, lasts time.Duration, name, how string, which func(context.Context) (servers.Server, error),
) {
	var taken servers.Server
	all := n.port(name, lasts)
	n.add(fault{
		at: at, lasts: lasts, text: name + " is " + how,
		strike: func(ctx context.Context) error {
			n.reach(check.Cut, all)
			var err error
			if taken, err = which(ctx); err != nil {
				return err
			}
			switch how {
			case byKill:
				return taken.Kill(ctx)
			case byFreeze:
				return taken.Freeze(ctx)
			}
			return taken.Stop(ctx)
		},
		mend: func(ctx context.Context) error {
			if taken == nil {
				return nil
			}
			defer n.reach(check.Mend, all)
			back := taken.Start
			if how == byFreeze {
				back = taken.Thaw
			}
			if err := back(ctx); err != nil {
				return err
			}
			// It is mended when the servers are whole again, or some other fault has its turn.
			if name == thePostgres {
				return n.cluster.postgres.ready(ctx, time.Minute)
			}
			_ = n.cluster.kafka.Whole(ctx, 20*time.Second) // heal waits for longer
			return nil
		},
	})
}

// port returns which port of the nodes is of no use without a server that is away for long; "" if there are others. The
// judge takes it that what goes wrong goes on for a while, but not for longer, unless it is told.
func (n *nemesis) port(name string, lasts time.Duration) string {
	const long = 10 * time.Second
	switch {
	case lasts < long:
	case name == thePostgres:
		return "store"
	case n.cluster.scenario.Brokers == 1:
		return "broker"
	}
	return ""
}

// reach tells that no node reaches a port any more, or all do again. Of "" there is nothing to tell.
func (n *nemesis) reach(kind check.Kind, port string) {
	for _, node := range n.cluster.nodes {
		if life := node.life; life != nil && port != "" {
			n.history.add(check.Event{Kind: kind, Node: life.name, Port: port})
		}
	}
}

// broker returns the broker of that number, from 1.
func (n *nemesis) broker(number int) func(context.Context) (servers.Server, error) {
	return func(context.Context) (servers.Server, error) { return n.cluster.kafka.Brokers[number-1], nil }
}

// coordinator returns whoever keeps the offsets of the group when the fault strikes.
func (n *nemesis) coordinator(ctx context.Context) (servers.Server, error) {
	return n.cluster.kafka.Coordinator(ctx, n.cluster.topics.group)
}

func (n *nemesis) database(context.Context) (servers.Server, error) {
	return n.cluster.postgres.now(), nil
}

// terminate ends all sessions of the nodes.
func (n *nemesis) terminate(at time.Duration) {
	n.add(fault{at: at, text: "Postgres ends everybody's session", strike: func(ctx context.Context) error {
		return n.cluster.postgres.endSessions(ctx)
	}})
}

// hold keeps a transaction open that has done something, as a person at a terminal does.
func (n *nemesis) hold(at, lasts time.Duration, text, statement string) {
	var conn *pgx.Conn
	n.add(fault{
		at: at, lasts: lasts, text: text,
		strike: func(ctx context.Context) error {
			var err error
			if conn, err = n.cluster.postgres.now().Connect(ctx); err != nil {
				return err
			}
			if _, err = conn.Exec(ctx, "BEGIN"); err == nil {
				_, err = conn.Exec(ctx, statement)
			}
			return err
		},
		mend: func(ctx context.Context) error {
			if conn == nil {
				return nil
			}
			return conn.Close(ctx) // which rolls it back
		},
	})
}

// crowd takes all connections that the server has for nodes.
func (n *nemesis) crowd(at, lasts time.Duration) {
	var conns []*pgx.Conn
	n.add(fault{
		at: at, lasts: lasts, text: "all connections of Postgres are taken",
		strike: func(ctx context.Context) error {
			c := n.cluster.postgres
			err := c.endSessions(ctx)
			for err == nil {
				var conn *pgx.Conn
				if conn, err = pgx.Connect(ctx, c.url(c.now().Address)); err == nil {
					conns = append(conns, conn)
				}
			}
			if len(conns) == 0 {
				return err
			}
			return nil // there are no more
		},
		mend: func(ctx context.Context) error {
			for _, conn := range conns {
				_ = conn.Close(ctx) // it may have been ended by another fault
			}
			return nil
		},
	})
}

// storm lets strangers join and leave the consumer group, each of which makes everybody share the partitions anew.
func (n *nemesis) storm(at, lasts time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var waits sync.WaitGroup
	n.add(fault{
		at: at, lasts: lasts, text: "strangers join and leave the consumer group",
		strike: func(context.Context) error {
			waits.Go(func() { n.comeAndGo(ctx) })
			return nil
		},
		mend: func(context.Context) error {
			cancel()
			waits.Wait()
			return nil
		},
	})
}

func (n *nemesis) comeAndGo(ctx context.Context) {
	for ctx.Err() == nil {
		t := n.cluster.topics
		stranger, err := n.cluster.kafka.Connect(kgo.ConsumerGroup(t.group), kgo.ConsumeTopics(t.routes[0].in),
			kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit())
		if err != nil {
			return
		}
		short, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		stranger.PollFetches(short) // it commits nothing, so that what it has polled is delivered again
		cancel()
		stranger.Close()
	}
}
