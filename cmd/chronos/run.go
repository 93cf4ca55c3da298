package main

import (
	"context"
	"errors"
	"log/slog"

	"chronos/node/service"
)

// runCommand runs a node.
type runCommand struct{ nodeSettings }

// Help tells what a newcomer cannot guess.
func (c *runCommand) Help() string {
	return `All nodes are equal: start as many as you like with the same settings, and stop any of them at any
time. A node starts also while Kafka or the store are away, and waits for them. SIGTERM and Ctrl-C stop it
cleanly within seconds; a second one stops it at once, and nothing is lost either way.

Every setting is a flag, an environment variable (--hold-time is $CHRONOS_HOLD_TIME) and a key of the file that
--config names (hold-time). A flag wins over the environment, and that over the file.

    store: postgres://chronos@db/chronos
    store-password-file: /run/secrets/chronos
    brokers: [kafka-1:9092, kafka-2:9092]
    routes:
      - {input: orders.in, output: orders.out, dead-letter: orders.dead}
      - {input: mails.in, output: mails.out}`
}

// Run runs the node until ctx is done.
func (c *runCommand) Run(ctx context.Context, w *world) error {
	config, err := c.values.Config()
	if err != nil {
		return err
	}
	log, inJSON := c.values.Logger(w.stderr)
	s, err := service.Open(ctx, config, service.Options{Log: log, Version: currentVersion()})
	if err == nil {
		err = s.Run(ctx)
	}
	var usage *service.UsageError
	if err == nil || !inJSON || errors.As(err, &usage) {
		return err
	}
	// Whoever collects the log would not find a line that is not JSON, and it is the one that matters most.
	log.LogAttrs(ctx, slog.LevelError, "the node can't go on",
		slog.String("error", oneLine(err)))
	return errLogged
}

// errLogged ends a command that has said already what is wrong.
var errLogged = errors.New("see the log")
