package chaos

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"chronos/sim/check"
)

// suspicion is what a node says when it takes claims off messages.
type suspicion struct {
	at        time.Duration
	node      string // the life that says it
	owner, id string // id is "" where it says no more than how many there were
	left      int    // for so many claims it has not been found to be the reason yet
}

// blame finds out who has taken each claim off: the replication slot does not tell. A node that suspects another says
// so in its log, for each message, or of many how many there were; whoever is left is the owner itself, which gave it
// back. So the judge can tell a suspicion that was too early from a release (S4).
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
	// The last reset first: a suspicion is about the last one before it. The owner may have given back the same message
	// itself a moment ago, and claimed it again.
	for i := range slices.Backward(h.events) {
		e := &h.events[i]
		if e.Kind != check.Reset {
			continue
		}
		e.Node = names[e.Owner]
		if s := match(suspicions, e, r.config.HoldTime); s != nil {
			s.left--
			e.Node = s.node
		}
	}
	return nil
}

// match returns the suspicion that has led to a reset: one about that message and owner, or else, if the claim is as
// old as the hold time, about some messages of that owner (younger ones it may have given back itself), said no
// earlier than the commit, and within the time that a log line and a frozen process may take. nil if nobody has said
// so.
func match(suspicions []*suspicion, e *check.Event, hold time.Duration) *suspicion {
	const longest = 30 * time.Second
	ids := []string{e.ID}
	if e.Age >= hold {
		ids = append(ids, "")
	}
	for _, id := range ids {
		for _, s := range suspicions {
			about := s.left > 0 && s.id == id && s.owner == e.Owner.String()
			if about && s.at > e.At-5*time.Millisecond && s.at < e.At+longest {
				return s
			}
		}
	}
	return nil
}

// many reads the line that stands for many: "b6f0...: 17, 02ac...: 4" in its field of_which.
func many(text string, one suspicion) (all []*suspicion) {
	for part := range strings.SplitSeq(text, ", ") {
		s := one
		owner, count, _ := strings.Cut(part, ": ")
		s.owner = owner
		if n, err := strconv.Atoi(count); err == nil {
			s.left = n
			all = append(all, &s)
		}
	}
	return all
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
				Time    time.Time
				Msg     string
				OfWhich string `json:"of_which"`
			}
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				continue
			}
			one := suspicion{at: line.Time.Sub(r.history.since), node: life, left: 1}
			if line.Msg == "suspected failures for more messages" {
				all = append(all, many(line.OfWhich, one)...)
				continue
			}
			owner, is := strings.CutPrefix(line.Msg, "suspected failure of ")
			var found bool
			if one.owner, one.id, found = strings.Cut(owner, " for message "); is && found {
				all = append(all, &one)
				continue
			}
			// One line for all that were suspected at once: it stands for so many, and names only the first.
			var count int
			if one.owner, owner, found = strings.Cut(owner, " for "); is && found {
				if _, err := fmt.Sscanf(owner, "%d messages", &count); err == nil {
					all = append(all, many(fmt.Sprintf("%s: %d", one.owner, count), suspicion{
						at: one.at, node: one.node,
					})...)
				}
			}
		}
		_ = file.Close() // it was only read
	}
	return all, nil
}
