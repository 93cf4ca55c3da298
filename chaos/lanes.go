package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"chronos/sim/check"
)

// lastBroker is the one that alone has the partitions that are to lose their leader.
const lastBroker = 3

// backlog is how many messages are due at once on the second route.
const backlog = 100_000

// laneScenarios are about outputs that must not hold each other up.
func laneScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "lost-leader",
			About: "One output topic, and one partition of another, have no leader for 20 s. What goes elsewhere is " +
				"late by one turn at most.",
			Servers: true, Outside: true,
			Brokers: lastBroker, Routes: 2, SecondRoute: 10, Lasts: 26 * s,
			place: func(t topics, topic string) map[int][]int32 {
				places := map[int][]int32{}
				for p := range partitions {
					if topic == t.routes[1].out || topic == t.routes[0].out && p == partitions-1 {
						places[p] = []int32{lastBroker}
					}
				}
				return places
			},
			draw:    func(n *nemesis) { n.loseLeader(3*s, 20*s) },
			demands: []demand{othersInTime},
		},
		{
			Name: "backlog",
			About: fmt.Sprintf("%d messages of a second route are due at once. Those of the first stay in time.",
				backlog),
			Outside: true,
			Routes:  2, Rate: 60,
			draw:    func(n *nemesis) { n.pileUp(s, 35*s, 5*s) },
			demands: []demand{punctualBeside},
		},
		{
			Name: "stalled-store",
			About: fmt.Sprintf("Everything between the nodes and Postgres is held back once, for 1.6 to 2 s. 2 s "+
				"later all of %d lanes are in time.", manyLanes),
			Lanes: manyLanes, Rate: 150, Lasts: 38 * s,
			draw:    func(n *nemesis) { n.stallStore(14*s, n.between(1600*time.Millisecond, 2*s)) },
			demands: []demand{onTimeAgain},
		},
	}
}

// The marks of these scenarios.
const (
	theLoss    = "the leader is lost"
	theReturn  = "the leader is back"
	theBacklog = "the backlog is due"
)

// loseLeader stops the broker that some partitions are on alone, cleanly: its other partitions get other leaders first.
// After a crash, Kafka would not believe that what it has left is all, and give them no leader any more.
func (n *nemesis) loseLeader(at, lasts time.Duration) {
	b := n.cluster.kafka.Brokers[lastBroker-1]
	n.add(fault{
		at: at, lasts: lasts,
		text: fmt.Sprintf("broker %d is stopped, and with it the only replica of partitions", lastBroker),
		strike: func(ctx context.Context) error {
			n.mark(theLoss)
			return b.Stop(ctx)
		},
		mend: func(ctx context.Context) error {
			n.mark(theReturn)
			if err := b.Start(ctx); err != nil {
				return err
			}
			_ = n.cluster.kafka.Whole(ctx, 20*time.Second) // heal waits for longer
			return nil
		},
	})
}

// othersInTime demands that messages whose partition has a leader are late by one turn of the others at most, as soon
// as the cluster has got over the loss of the broker itself. A turn is a publish that waits for a leader until its time
// is up: where half of the others are late by half of that, they wait with it.
func othersInTime(r *run, result *Result) string {
	config := r.judged()
	// Its partitions elsewhere get other leaders, and clients find them.
	const elections = 8 * time.Second
	since, until := r.nemesis.marks[theLoss]+elections, r.nemesis.marks[theReturn]-time.Second
	within := config.PublishTimeout + config.Punctual() + result.Busy
	lost := map[string]bool{}
	for _, topic := range r.topics.outputs() {
		for p := range r.scenario.place(r.topics, topic) {
			lost[fmt.Sprintf("%s/%d", topic, p)] = true
		}
	}
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fire && lost[e.Partition] && e.At > since && e.At < until {
			return "a partition without a leader has taken a record: that shows nothing"
		}
	}
	return inTime(r.lateness(since, until, func(e *check.Event) bool { return !lost[e.Partition] }),
		within, config.PublishTimeout/2)
}

// pileUp submits the backlog, all of it due after a while, and lasts for some time then.
func (n *nemesis) pileUp(at, waits, lasts time.Duration) {
	n.add(fault{
		at: at, lasts: lasts, text: fmt.Sprintf("%d messages of the second route pile up", backlog),
		strike: func(ctx context.Context) error {
			due := time.Now().Add(waits)
			n.mu.Lock()
			n.marks[theBacklog] = due.Sub(n.history.since)
			n.mu.Unlock()
			n.flood(ctx, backlog, due)
			sleepUntil(ctx, due.Add(-500*time.Millisecond))
			left, err := n.unread(ctx)
			n.count("records of the backlog that are not taken in when they are due", left)
			return err
		},
		mend: func(context.Context) error { return nil },
	})
}

// unread counts the records of the input topics that the group has not committed.
func (n *nemesis) unread(ctx context.Context) (int, error) {
	client, err := n.cluster.kafka.Connect()
	if err != nil {
		return 0, err
	}
	defer client.Close()
	lags, err := kadm.NewClient(client).Lag(ctx, n.cluster.topics.group)
	if err == nil {
		err = lags.Error()
	}
	if err != nil {
		return 0, fmt.Errorf("ask for the lag: %w", err)
	}
	return int(lags[n.cluster.topics.group].Lag.Total()), nil
}

// punctualBeside demands that messages of the first route are in time while those of the second are fired as fast as
// it goes, once they are all taken in: intake is shared, firing is not.
func punctualBeside(r *run, result *Result) string {
	config := r.judged()
	since, until := r.nemesis.marks[theBacklog], time.Duration(0)
	for i := range r.events {
		if e := &r.events[i]; e.Kind == check.Fire && e.Topic == r.topics.routes[1].out {
			until = max(until, e.At)
		}
	}
	r.say("the backlog has come out %v after it was due", (until - since).Round(time.Millisecond))
	if left := r.nemesis.counts["records of the backlog that are not taken in when they are due"]; left > backlog/100 {
		return fmt.Sprintf("%d records of the backlog were not taken in when they were due: that shows nothing", left)
	}
	if until < since+2*time.Second {
		return "the backlog was gone within 2 s: that shows nothing"
	}
	first := r.topics.routes[0].out
	return inTime(r.lateness(since, until, func(e *check.Event) bool { return e.Topic == first }),
		2*config.Punctual()+result.Busy, config.Punctual())
}

// lateness returns how late messages have fired that came due in some time, in ascending order: those whose record
// is wanted, and on which no instruction decides.
func (r *run) lateness(since, until time.Duration, wanted func(fired *check.Event) bool) []time.Duration {
	due := map[int]time.Duration{}
	var late []time.Duration
	for i := range r.events {
		switch e := &r.events[i]; e.Kind {
		case check.Submit:
			if e.Flaw == "" {
				due[e.Message] = max(e.Deadline, e.At)
			}
		case check.Fire:
			at, first := due[e.Message]
			delete(due, e.Message)
			if first && at >= since && at < until && wanted(e) {
				late = append(late, e.At-at)
			}
		default:
		}
	}
	slices.Sort(late)
	return late
}

// claimsUnheard returns the submissions on which a claim has expired after an instant that was made before another one,
// and when the last of them has come out.
func (r *run) claimsUnheard(since, until time.Duration) (unheard map[int]bool, last time.Duration) {
	unheard = map[int]bool{}
	messages, fired := map[check.UUID]int{}, map[int]bool{}
	for i := range r.events {
		switch e := &r.events[i]; {
		case e.Kind == check.Insert:
			messages[e.Incarnation] = e.Message
		case e.Kind == check.Reset && e.At > since && e.Stamp < until && e.Age >= r.config.HoldTime:
			unheard[messages[e.Incarnation]] = true
		case e.Kind == check.Fire && !fired[e.Message]:
			fired[e.Message] = true
			if unheard[e.Message] {
				last = e.At
			}
		}
	}
	return unheard, last
}

// butOneInAThousand leaves out the latest of a sample in ascending order, one in a thousand.
func butOneInAThousand(late []time.Duration) []time.Duration { return late[:len(late)*999/1000] }

// inTime says what is broken where a message is later than the worst that is allowed, or half of them are later than is
// usual. One long answer of a busy machine makes some messages late, but not half of them.
func inTime(late []time.Duration, worst, usual time.Duration) string {
	const few = 50
	if len(late) < few {
		return fmt.Sprintf("only %d messages came due elsewhere: that shows nothing", len(late))
	}
	median, last := late[len(late)/2], late[len(late)-1]
	if last > worst || median > usual {
		return fmt.Sprintf("%d messages elsewhere were late by %v (half of them) and %v (the last): at most %v and %v",
			len(late), median.Round(time.Millisecond), last.Round(time.Millisecond),
			usual.Round(time.Millisecond), worst.Round(time.Millisecond))
	}
	return ""
}

// manyLanes is how many lanes there are where one stall of the store must not make them take turns.
const manyLanes = 120

// stallStore holds back everything between the nodes and Postgres, and delivers it when that is over.
func (n *nemesis) stallStore(at, lasts time.Duration) {
	var ways []*link
	for _, node := range n.cluster.nodes {
		ways = append(ways, node.postgres)
	}
	n.toxic(at, lasts, theStall, ways, "stall", nil, requests, replies)
}

// theStall is what the history says of a stall of the store.
const theStall = "everybody to Postgres is held back"

// onTimeAgain demands that 2 s after the stall all lanes are in time, as if there had been none: what has fallen due
// since it began has come out, and what falls due later is in time, half of it by a tenth of a second. One message in a
// thousand may be later. A lane that has to wait for its turn has more than that. What a node has claimed and was not
// told of, since the answer was held back, comes out as that of a dead node: once the claim has expired.
func onTimeAgain(r *run, result *Result) string {
	const within = 2 * time.Second
	config := r.judged()
	began, ended := time.Duration(-1), time.Duration(-1)
	for i := range r.events {
		switch e := &r.events[i]; {
		case e.Kind != check.Fault:
		case e.Text == theStall:
			began = e.At
		case e.Text == theStall+", mended":
			ended = e.At
		}
	}
	if began < 0 || ended < began+config.StoreTimeout {
		return fmt.Sprintf("the stall lasted for %v, and a call may take %v: that shows nothing", ended-began,
			config.StoreTimeout)
	}
	until := r.history.machine.mended.Sub(r.history.since)
	all := func(*check.Event) bool { return true }
	r.tellDistribution("before the stall", r.lateness(config.Settle, began-time.Second, all))
	unheard, last := r.claimsUnheard(began, ended+config.StoreTimeout)
	r.say("%d messages were claimed by a node that was not told; the last came out %v after the stall",
		len(unheard), max(0, last-ended).Round(time.Millisecond))
	caught := r.lateness(began, ended+within, func(e *check.Event) bool { return !unheard[e.Message] })
	r.tellDistribution("due in the stall and the 2 s after it", caught)
	late := r.lateness(ended+within, until, all)
	r.tellDistribution("due later", late)
	slow := r.history.slowestOfAll()
	worst := config.Punctual() + max(slow, result.Busy)
	recovers := config.HoldTime + config.DetectionInterval + time.Second + max(slow, result.Busy)
	if last > ended+recovers {
		return fmt.Sprintf("what a node had claimed and was not told of came out %v after the stall, and not within %v",
			last-ended, recovers)
	}
	if broken := inTime(butOneInAThousand(caught), ended-began+within+worst, ended-began+worst); broken != "" {
		return broken
	}
	return inTime(butOneInAThousand(late), worst, 100*time.Millisecond+slow)
}
