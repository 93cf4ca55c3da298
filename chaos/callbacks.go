package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"chronos/sim/check"
)

// The rate that one scenario is about: so many callbacks, one after the other.
const (
	callsAtRate = 60_000
	callsEvery  = time.Millisecond
)

// callbackScenarios are about messages that come out as HTTP requests, and requests that messages come in by. In all of
// them every callback is made at least once, none early, and as its message asks.
func callbackScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{
		{
			Name: "callbacks-broken-ways",
			About: "The ways to the receivers of callbacks are slow, reset, cut, black holes; so are those to the " +
				"HTTP API.",
			Hosts: 4, Asks: 3, Rate: 100,
			draw:    breakWays,
			demands: []demand{asGiven, onceAsked},
		},
		{
			Name: "callbacks-unwell",
			About: "One receiver of callbacks hangs; others answer 503, or die or fail when they have done what is " +
				"asked, and are killed. Messages for one that is well stay in time.",
			Hosts: 4, Asks: 3, Rate: 100,
			draw:    makeUnwell,
			demands: []demand{asGiven, wellInTime},
		},
		giveUpScenario(),
		{
			Name: "callbacks-killed",
			About: "Nodes and Postgres are killed, receivers of callbacks die when they have done what is asked, " +
				"answers of the HTTP API are lost. What it has answered is true, and holds once.",
			Hosts: 4, Asks: 3, Rate: 100, Instructions: 5, Outside: true, Servers: true, Lasts: 16 * s,
			draw:    killAround,
			demands: []demand{asGiven, onceAsked},
		},
		{
			Name: "callbacks-at-rate",
			About: fmt.Sprintf("%d callbacks, 1,000 a second, while nodes are killed and Postgres is restarted. Says "+
				"how late they are.", callsAtRate),
			Hosts: 8, Asks: 3, Outside: true, Servers: true, Lasts: 76 * s,
			draw: func(n *nemesis) {
				n.callAtRate(s/2, 12*s)
				order := n.random.Perm(3)
				n.killNode(25*s, 3*s, n.cluster.nodes[order[0]])
				n.takeAway(40*s, 2*s, thePostgres, byStop, n.database)
				n.killNode(55*s, 3*s, n.cluster.nodes[order[1]])
			},
			demands: []demand{asGiven, tellLateness},
		},
	}
}

// breakWays has the ways to receivers and to the API go wrong, one after the other, some of them at the same time.
func breakWays(n *nemesis) {
	const ms = time.Millisecond
	kinds := []string{
		"latency", "bandwidth", "slice", "reset", "cut", "black-hole", repliesLost, "requests-lost", "stall",
	}
	for at := time.Second; at < 12*time.Second; at += n.between(300*ms, 900*ms) {
		n.disturbCalls(at, kinds[n.random.IntN(len(kinds))])
	}
}

// makeUnwell has one receiver hang, two others in one bad mood after the other, and one of these killed. The first one
// is well all the time.
func makeUnwell(n *nemesis) {
	const s, ms = time.Second, time.Millisecond
	n.feel(2*s, 11*s, 3, moodHangs)
	moods := []string{moodBusy, moodFailed, moodGone, moodSlow}
	for i, mood := range n.random.Perm(len(moods)) {
		at := time.Duration(2+3*i) * s
		n.feel(at, n.between(1*s, 3*s), 1, moods[mood])
		n.feel(at, n.between(1*s, 3*s), 2, moods[n.random.IntN(len(moods))], moods[mood])
	}
	n.killHost(13*s, n.between(500*ms, 1500*ms), 1)
}

// killAround kills nodes, Postgres and a receiver, has two others do what is asked and not say so, and loses answers of
// the API.
func killAround(n *nemesis) {
	const s, ms = time.Second, time.Millisecond
	at := 2 * s
	for _, i := range n.random.Perm(3) {
		n.killNode(at, n.between(1*s, 3*s), n.cluster.nodes[i])
		at += n.between(3*s, 4*s)
	}
	n.takeAway(8*s, n.between(1*s, 3*s), thePostgres, byKill, n.database)
	n.takeAway(13*s, n.between(1*s, 2*s), thePostgres, byStop, n.database)
	for at := s; at < 12*s; at += n.between(500*ms, 1500*ms) {
		n.loseAnswers(at, n.between(500*ms, 2*s))
	}
	n.feel(3*s, n.between(2*s, 5*s), 1, moodGone, moodFailed)
	n.feel(6*s, n.between(2*s, 5*s), 2, moodSlow, moodBusy)
	n.killHost(n.between(4*s, 9*s), n.between(1*s, 3*s), 3)
}

// disturbCalls draws a way to a receiver or to the API of a node, which goes wrong.
func (n *nemesis) disturbCalls(at time.Duration, kind string) {
	lasts := n.between(500*time.Millisecond, 4*time.Second)
	if n.random.IntN(3) == 0 {
		node := n.node()
		n.trouble(at, lasts, kind, "the client", "the API of "+nodeName(node.number), []*link{node.api})
		return
	}
	host := n.random.IntN(n.cluster.scenario.Hosts)
	n.trouble(at, lasts, kind, "everybody", hostName(host), []*link{n.host(host).link})
}

// loseAnswers loses what the API of a node answers.
func (n *nemesis) loseAnswers(at, lasts time.Duration) {
	node := n.node()
	n.trouble(at, lasts, repliesLost, "the client", "the API of "+nodeName(node.number), []*link{node.api})
}

// feel puts a receiver into moods for a while.
func (n *nemesis) feel(at, lasts time.Duration, host int, moods ...string) {
	text := hostName(host) + " " + strings.Join(slices.Compact(slices.Clone(moods)), ", or ")
	n.add(fault{
		at: at, lasts: lasts, text: text,
		strike: func(context.Context) error {
			n.mark(text)
			n.host(host).feel(moods...)
			return nil
		},
		mend: func(context.Context) error {
			n.mark(text + ", mended")
			n.host(host).feel()
			return nil
		},
	})
}

// killHost ends a receiver with all its connections, and starts it again.
func (n *nemesis) killHost(at, lasts time.Duration, host int) {
	n.add(fault{
		at: at, lasts: lasts, text: hostName(host) + " is killed",
		strike: func(context.Context) error {
			n.host(host).kill()
			return nil
		},
		mend: func(context.Context) error { return n.host(host).start() },
	})
}

// theRate is the mark of when the callbacks at rate begin to fall due.
const theRate = "callbacks fall due"

// callAtRate submits the callbacks at rate, which fall due from after a while on.
func (n *nemesis) callAtRate(at, waits time.Duration) {
	n.add(fault{
		at: at, text: fmt.Sprintf("%d callbacks are submitted", callsAtRate), told: true,
		strike: func(ctx context.Context) error {
			due := time.Now().Add(waits)
			n.mu.Lock()
			n.marks[theRate] = due.Sub(n.history.since)
			n.mu.Unlock()
			n.callOften(ctx, callsAtRate, due, callsEvery)
			return nil
		},
	})
}

func (n *nemesis) host(number int) *receiver { return n.cluster.receivers.hosts[number] }

func hostName(number int) string { return fmt.Sprintf("receiver %d", number) }

// wellInTime demands that messages for the receiver that is well all the time are in time while another one hangs and
// the rest is unwell: that nothing waits for a host that hangs, which would take a second each time.
func wellInTime(r *run, result *Result) string {
	config := r.judged()
	hangs := hostName(3) + " " + moodHangs
	since, until := r.nemesis.marks[hangs], r.nemesis.marks[hangs+", mended"]
	late := r.lateness(since, until, func(e *check.Event) bool { return e.Message%r.scenario.Hosts == 0 })
	r.tellDistribution("to the receiver that is well", late)
	// No fault concerns a server, so that one that is slow is a sign of a busy machine.
	if wrong := inTime(late, config.Punctual()+r.history.slowestOfAll(), callTimeout/2+result.Busy); wrong != "" {
		return wrong
	}
	if r.receivers.moods[moodHangs] < 20 {
		return fmt.Sprintf("only %d requests met a host that hangs: that shows nothing", r.receivers.moods[moodHangs])
	}
	for _, mood := range []string{moodBusy, moodFailed, moodGone, moodSlow} {
		if r.receivers.moods[mood] == 0 {
			return "no receiver " + mood + ": that shows nothing"
		}
	}
	return ""
}

// tellLateness says how late the callbacks at rate were, and demands nothing of that: it is for people, and depends on
// the machine.
func tellLateness(r *run, _ *Result) string {
	since := r.nemesis.marks[theRate]
	until := since + callsAtRate*callsEvery
	many := func(e *check.Event) bool { return e.Message > 0 }
	r.tellDistribution("of all", r.lateness(since, until, many))
	// The first fault strikes after 25 s; what is due before that meets none.
	calm := since + 10*time.Second
	r.tellDistribution("before the first fault", r.lateness(since, calm, many))
	return ""
}

// tellDistribution says how late messages were.
func (r *run) tellDistribution(which string, late []time.Duration) {
	if len(late) == 0 {
		return
	}
	at := func(part float64) time.Duration {
		return late[int(part*float64(len(late)-1))].Round(100 * time.Microsecond)
	}
	r.say("lateness of %d messages %s: p50 %v, p99 %v, p99.9 %v, max %v", len(late), which, at(.5), at(.99), at(.999),
		at(1))
}
