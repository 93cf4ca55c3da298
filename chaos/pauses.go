package chaos

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"time"

	"chronos/sim/check"
)

// pauseScenarios are about what somebody has paused.
func pauseScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{{
		Name: "pauses",
		About: "A lane is paused, then the intake, and nodes are killed and started again meanwhile. Nothing comes " +
			"out of the one or in by the other, and everything does when they are resumed.",
		Commands: true,
		Routes:   2, SecondRoute: 3, Lasts: 26 * s,
		draw: func(n *nemesis) {
			order := n.random.Perm(3)
			n.pauseLane(2*s, 11*s)
			n.killNode(n.between(3*s, 5*s), 2*s, n.cluster.nodes[order[0]])
			n.killNode(n.between(8*s, 10*s), 2*s, n.cluster.nodes[order[1]])
			n.pauseIntake(15*s, 8*s)
			n.killNode(n.between(16*s, 18*s), 2*s, n.cluster.nodes[order[2]])
		},
		demands: []demand{stillWhilePaused},
	}}
}

// pauseLane pauses the lane of the first route, as an operator does.
func (n *nemesis) pauseLane(at, lasts time.Duration) {
	n.pause(at, lasts, "the first lane is paused", func() string { return n.cluster.topics.routes[0].out })
}

// pauseIntake pauses the intake.
func (n *nemesis) pauseIntake(at, lasts time.Duration) {
	n.pause(at, lasts, "the intake is paused", func() string { return "--intake" })
}

func (n *nemesis) pause(at, lasts time.Duration, text string, what func() string) {
	n.add(fault{
		at: at, lasts: lasts, text: text, told: true,
		strike: func(ctx context.Context) error { return n.operate(ctx, "pause", what(), "--reason", "chaos") },
		mend:   func(ctx context.Context) error { return n.operate(ctx, "resume", what()) },
	})
}

// operate runs a command of chronos with the settings of the nodes, past the proxies.
func (n *nemesis) operate(ctx context.Context, args ...string) error {
	c := n.cluster
	_, env, err := c.command(addresses{
		brokers: c.kafka.Addresses, store: c.postgres.url(c.postgres.now().Address),
	})
	if err != nil {
		return err
	}
	command := exec.CommandContext(ctx, cmp.Or(c.config.Migrator, c.config.Binary), args...)
	command.Env = append(command.Environ(), env...)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, out)
	}
	return nil
}

// stillWhilePaused demands that nothing comes out of a paused lane but what was claimed before and published as late as
// that is allowed, although nodes are killed; that nothing is taken in while the intake is paused; and that messages
// waited for both.
func stillWhilePaused(r *run, _ *Result) string {
	config := r.judged()
	since, bound := map[string]time.Duration{}, map[string]time.Duration{}
	due := map[int]time.Duration{} // what fell due on the paused lane, and was submitted while the intake was paused
	submitted := map[int]bool{}
	pauses, waited, shut := 0, 0, 0
	for i := range r.events {
		e := &r.events[i]
		_, still := since[e.Topic]
		switch e.Kind {
		case check.Pause:
			pauses++
			since[e.Topic], bound[e.Topic] = e.At, e.Stamp
			if e.Topic != "" {
				bound[e.Topic] += config.PublishableAge + config.PublishTimeout
			}
		case check.Resume:
			delete(since, e.Topic)
		case check.Submit:
			due[e.Message] = e.Deadline
			_, submitted[e.Message] = since[""]
		case check.Fire:
			if still && e.At > bound[e.Topic] {
				return fmt.Sprintf("message %d comes out %v after its lane was paused", e.Message, e.At-since[e.Topic])
			}
			if e.Topic == r.topics.routes[0].out && e.At-due[e.Message] > time.Second {
				waited++
			}
		case check.Insert:
			if at, paused := since[""]; paused && e.At > bound[""] {
				return fmt.Sprintf("message %d is taken in %v after the intake was paused", e.Message, e.At-at)
			}
			if submitted[e.Message] {
				shut++
			}
		default:
		}
	}
	r.say("%d messages waited for the lane, and %d for the intake", waited, shut)
	if pauses != 2 || waited < 100 || shut < 100 {
		return fmt.Sprintf("%d pauses, for which %d and %d messages waited: that shows nothing", pauses, waited, shut)
	}
	return ""
}
