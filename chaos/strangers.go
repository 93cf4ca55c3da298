package chaos

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"chronos/chaos/servers"
)

// strangerScenarios are about nodes that have no business with this store.
func strangerScenarios() []*Scenario {
	const s = time.Second
	return []*Scenario{{
		Name: "strangers",
		About: "A node of another Kafka cluster, and one of another group, are pointed at this database by mistake. " +
			"They refuse, and nothing happens.",
		Servers: true,
		prepare: withOtherCluster,
		draw: func(n *nemesis) {
			c := n.cluster
			n.stranger(3*s, "cluster", func() addresses {
				return addresses{brokers: c.other.Addresses, store: c.postgres.url(c.postgres.now().Address)}
			}, c.topics.group)
			n.stranger(14*s, "group", func() addresses {
				return addresses{brokers: c.kafka.Addresses, store: c.postgres.url(c.postgres.now().Address)}
			}, "others")
		},
		demands: []demand{noDuplicates, refused},
	}}
}

// withOtherCluster starts a second Kafka that has topics of the same names.
func withOtherCluster(ctx context.Context, r *run) error {
	var err error
	if r.other, err = r.servers.Kafka(ctx, servers.KafkaConfig{Name: "other"}); err != nil {
		return err
	}
	if err := r.other.Start(ctx); err != nil {
		return err
	}
	return r.other.Create(ctx, r.wanted()...)
}

// stranger starts a node that differs from the others by its cluster or by its group, and takes note of how it ends. It
// is not a fault: a node that refuses disturbs nobody.
func (n *nemesis) stranger(at time.Duration, what string, to func() addresses, group string) {
	const patience = 10 * time.Second
	n.add(fault{
		at: at, lasts: patience, text: "a node of another " + what + " is pointed at the database", told: true,
		strike: func(ctx context.Context) error {
			c := n.cluster
			command, env, err := c.command(to())
			if err != nil {
				return err
			}
			p := &servers.Process{
				Command: command, Env: append(env, "CHRONOS_GROUP="+group), Log: c.logs("stranger-" + what + ".log"),
			}
			if err := p.Start(); err != nil {
				return err
			}
			ended := p.Ended(patience)
			n.count("the exit code of the node of another "+what+" (-1: it runs)", p.ExitCode())
			if ended {
				return nil
			}
			return p.Kill()
		},
	})
}

// refused demands that strangers have ended by themselves, with an error that says what is wrong.
func refused(r *run, _ *Result) string {
	for _, what := range []string{"cluster", "group"} {
		text, err := os.ReadFile(r.logs("stranger-" + what + ".log"))
		switch code := r.nemesis.counts["the exit code of the node of another "+what+" (-1: it runs)"]; {
		case err != nil:
			return err.Error()
		case code == -1:
			return fmt.Sprintf("a node of another %s runs, and takes part", what)
		case code == 0:
			return fmt.Sprintf("a node of another %s has ended without an error", what)
		case !strings.Contains(said(string(text)), what):
			return fmt.Sprintf("a node of another %s has ended, and does not say why: %s", what, said(string(text)))
		}
	}
	return ""
}

// said returns what a node has said of its end: the errors in its log, and whatever else its last line is. The settings
// that it names at its start don't count.
func said(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var errs []string
	for i, line := range lines {
		if i == len(lines)-1 || strings.Contains(line, `"level":"ERROR"`) {
			errs = append(errs, line)
		}
	}
	return strings.Join(errs, "\n")
}
