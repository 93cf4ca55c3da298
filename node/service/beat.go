package service

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/store/inspect"
	"chronos/node/store/journal"
)

// beat says in the store that the node lives, and looks at what is paused, until ctx is done. Nothing depends on it but
// what people see, so it fails silently: that the store is away is said elsewhere.
func (s *Service) beat(ctx context.Context, id uuid.UUID) {
	store, is := s.store.Store.(inspect.Store)
	if !is {
		return
	}
	host, _ := os.Hostname()
	settings, err := json.Marshal(s.settings)
	if err != nil {
		return
	}
	paused := map[string]node.Pause{}
	ticker := time.NewTicker(inspect.BeatInterval)
	defer ticker.Stop()
	for turn := 0; ; turn++ {
		own := admin.NodeStatus{
			Ready: s.isReady(), PID: os.Getpid(), Problems: s.reporter.Problems(), Troubles: s.troubles.Lanes(),
		}
		if journals, is := s.store.Store.(*journal.Store); is && s.owning != nil {
			s.owning.look(journals.Unreadable())
			own.Journal = s.owning.troubles()
		}
		status, err := json.Marshal(own)
		if err != nil {
			return
		}
		_ = store.Beat(ctx, inspect.Node{
			ID: id, Host: host, Version: s.options.Version, Settings: settings, Status: status,
		})
		if turn%countNodesEvery == 0 {
			s.countNodes(ctx, store)
		}
		if pauses, err := store.Pauses(ctx); err == nil {
			s.sayPauses(paused, pauses)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
			defer cancel()
			_ = store.Gone(leaving, id)
			return
		}
	}
}

// countNodesEvery is in how many turns of beat the nodes are counted once: every 16 seconds.
const countNodesEvery = 8

// countNodes has the metrics show how many nodes are well and how many have died.
func (s *Service) countNodes(ctx context.Context, store inspect.Store) {
	nodes, now, err := store.Nodes(ctx)
	if err != nil {
		return
	}
	ready, notReady, silent := 0, 0, 0
	names := map[string]string{}
	for i := range nodes {
		var status admin.NodeStatus
		// What another version has written need not be what this one reads.
		_ = json.Unmarshal(nodes[i].Status, &status)
		names[nodes[i].ID.String()] = fmt.Sprintf("%s, pid %d", nodes[i].Host, status.PID)
		switch {
		case now.Sub(nodes[i].Seen) > inspect.Silent:
			silent++
		case status.Ready:
			ready++
		default:
			notReady++
		}
	}
	s.metrics.Nodes(ready, notReady, silent)
	s.reporter.Names(names)
}

// sayPauses says what is paused and resumed since it was called last.
func (s *Service) sayPauses(before map[string]node.Pause, now []node.Pause) {
	s.metrics.Paused(now)
	s.reporter.Paused(now)
	kept := map[string]bool{}
	for _, p := range now {
		kept[p.Lane] = true
		if was, known := before[p.Lane]; known && was.Since.Equal(p.Since) {
			continue
		}
		before[p.Lane] = p
		facts := []slog.Attr{
			slog.Time("since", p.Since), slog.String("by", p.By), slog.String("reason", p.Why),
		}
		if p.Lane == node.Intake {
			s.reporter.say(slog.LevelWarn,
				"paused: nothing is taken in from any topic until somebody resumes the intake", facts...)
			continue
		}
		s.reporter.say(slog.LevelWarn, "paused: nothing comes out of this lane until somebody resumes it",
			append([]slog.Attr{slog.String("lane", p.Lane)}, facts...)...)
	}
	for lane := range before {
		if kept[lane] {
			continue
		}
		delete(before, lane)
		if lane == node.Intake {
			s.reporter.say(slog.LevelInfo, "resumed: the intake goes on")
			continue
		}
		s.reporter.say(slog.LevelInfo, "resumed: this lane goes on", slog.String("lane", lane))
	}
}
