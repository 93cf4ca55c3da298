package main

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"

	"chronos/node/service"
)

// runCommand runs a node.
type runCommand struct{ nodeSettings }

// Help tells what a newcomer cannot guess.
func (c *runCommand) Help() string {
	return `All nodes are equal: start as many as you like with the same settings, and stop any of them at any
time. A node starts also while Kafka or the store are away, and waits for them. SIGTERM and Ctrl-C stop it
cleanly within seconds; a second one stops it at once, and nothing is lost either way. SIGHUP has it read its
settings again: the level of the log is in force at once, and a line names what takes a restart.

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
	signals := catchSignals()
	defer signals.stop()
	config, err := c.values.Config()
	if err != nil {
		return err
	}
	log, inJSON := c.values.Logger(w.stderr)
	ctx, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer end()
	watching.Go(func() {
		signals.watch(ctx, isTerminal(w.stderr), end, func() { c.reload(ctx, &config, log) })
	})
	err = runOnce(ctx, config, log)
	if service.IsDamaged(err) && ctx.Err() == nil {
		log.LogAttrs(ctx, slog.LevelWarn, "the local copy of the journal is damaged: the node starts again, and makes "+
			"it anew from the journal", slog.String("error", oneLine(err)))
		err = runOnce(ctx, config, log)
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

// runOnce runs a node until ctx is done, or it cannot go on.
func runOnce(ctx context.Context, config service.Config, log *slog.Logger) error {
	s, err := service.Open(ctx, config, service.Options{Log: log, Version: currentVersion()})
	if err != nil {
		return err
	}
	return runWithRoom(ctx, s)
}

// roomBytes is how much more than it holds a node may allocate before its memory is collected, besides as much again as
// it holds. It holds little on its heap, however many messages wait, and would be at it several times a second.
const roomBytes = 6 << 20

// runWithRoom runs s with a heap that seems larger than it is: Go collects when a heap has doubled, and counts what was
// allocated and never touched, for which the system has no pages to give. docs/PERFORMANCE.md has what it saves.
func runWithRoom(ctx context.Context, s *service.Service) error {
	room := make([]byte, roomBytes)
	defer runtime.KeepAlive(room)
	return s.Run(ctx)
}

// errLogged ends a command that has said already what is wrong.
var errLogged = errors.New("see the log")
