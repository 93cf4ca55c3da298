package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"chronos/node/service"
)

// signals are those of a node beside those that end it.
type signals struct{ arrived chan os.Signal }

// catchSignals takes SIGHUP and SIGPIPE from now on. Without that SIGHUP would kill a node in the middle of its work,
// and so would a write to a log whose reader is gone, such as that of a journald which is restarted.
func catchSignals() *signals {
	s := &signals{make(chan os.Signal, 1)}
	signal.Notify(s.arrived, syscall.SIGHUP, syscall.SIGPIPE)
	return s
}

// stop leaves the signals to what they do by default.
func (s *signals) stop() { signal.Stop(s.arrived) }

// watch reloads at each SIGHUP until ctx is done. A node on a terminal ends, since SIGHUP says that the terminal is
// gone.
func (s *signals) watch(ctx context.Context, onTerminal bool, end, reload func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case got := <-s.arrived:
			switch {
			case got != syscall.SIGHUP:
			case onTerminal:
				end()
			default:
				reload()
			}
		}
	}
}

// reload reads the settings anew, puts the level of the log in force, and says what takes a restart. Files of
// passwords, tokens and certificates are read at each use; one that cannot be read is an error here.
func (c *runCommand) reload(ctx context.Context, running *service.Config, log *slog.Logger) {
	var now service.Config
	again, err := c.again()
	if err == nil {
		now, err = again.Config()
	}
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "SIGHUP: nothing is reloaded, since the settings are wrong by now; the "+
			"node goes on with those that it has", slog.String("error", oneLine(err)))
		return
	}
	level, weight := c.values.SetLogLevel(again), slog.LevelInfo
	attributes := []slog.Attr{slog.String("log_level", strings.ToLower(level.String()))}
	if differ := running.Differs(&now); len(differ) > 0 {
		weight = slog.LevelWarn
		attributes = append(attributes, slog.String("needs_restart", strings.Join(differ, ", ")))
	}
	log.LogAttrs(ctx, weight, "SIGHUP: the level of the log is reloaded; passwords, tokens and certificates are "+
		"read at each use", attributes...)
}
