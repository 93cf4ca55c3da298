package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"chronos/sim/check"
)

// suspicion is what a node says when it takes a claim off a message.
type suspicion struct {
	at        time.Duration
	node      string // the life that says it
	owner, id string
	used      bool
}

// blame finds out who has taken each claim off: the replication slot does not tell. A node that suspects another says
// so in its log, for each message; whoever is left is the owner itself, which gave it back. So the judge can tell a
// suspicion that was too early from a release (S4).
func (r *run) blame() error {
	if r.config.Start != "" {
		return nil
	}
	suspicions, err := r.suspicions()
	if err != nil {
		return err
	}
	h := r.history
	h.mu.Lock()
	defer h.mu.Unlock()
	names := map[check.UUID]string{}
	for i := range h.events {
		if e := &h.events[i]; e.Kind == check.Start {
			names[e.Owner] = e.Node
		}
	}
	for i := range h.events {
		e := &h.events[i]
		if e.Kind != check.Reset {
			continue
		}
		e.Node = names[e.Owner]
		if s := match(suspicions, e); s != nil {
			s.used = true
			e.Node = s.node
		}
	}
	return nil
}

// match returns the suspicion that has led to a reset: one about that message and owner, said no earlier than the
// commit, and within the time that a log line and a frozen process may take. nil if nobody has said so.
func match(suspicions []*suspicion, e *check.Event) *suspicion {
	const longest = 30 * time.Second
	for _, s := range suspicions {
		about := !s.used && s.id == e.ID && s.owner == e.Owner.String()
		if about && s.at > e.At-5*time.Millisecond && s.at < e.At+longest {
			return s
		}
	}
	return nil
}

// suspicions reads the logs of all nodes.
func (r *run) suspicions() ([]*suspicion, error) {
	files, err := filepath.Glob(r.logs("node-*.log"))
	if err != nil {
		return nil, fmt.Errorf("look for the logs of the nodes: %w", err)
	}
	var all []*suspicion
	for _, name := range files {
		life := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "node-"), ".log")
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read the log of a node: %w", err)
		}
		lines := bufio.NewScanner(file)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var line struct {
				Time time.Time
				Msg  string
			}
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				continue
			}
			owner, is := strings.CutPrefix(line.Msg, "suspected failure of ")
			owner, id, found := strings.Cut(owner, " for message ")
			if is && found {
				all = append(all, &suspicion{at: line.Time.Sub(r.history.since), node: life, owner: owner, id: id})
			}
		}
		_ = file.Close() // it was only read
	}
	return all, nil
}
