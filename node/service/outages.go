package service

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"chronos/node"
	"chronos/node/admin"
)

// Outages returns what does not answer this node, the store first. What answers again is none, even while the log waits
// to see whether it stays.
func (r *Reporter) Outages() []admin.Outage {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := func(what string) bool { o := r.outages[what]; return o != nil && o.resumed.IsZero() }
	store, kafka := title(node.PortStore, ""), title(node.PortSource, "")
	var all []admin.Outage
	for _, what := range slices.SortedFunc(maps.Keys(r.outages), storeFirst(store, kafka)) {
		if !out(what) || laneOf(what) != "" && out(kafka) {
			continue // where all of Kafka is away, its topics are no news
		}
		outage := admin.Outage{
			What: what, Lane: laneOf(what), Since: r.outages[what].since.UTC(), Cause: r.outages[what].cause,
		}
		switch what {
		case store:
			outage.Effect = "Until it answers, nothing is taken in, nothing comes out, and no message can be looked " +
				"up or changed. What waits stays in the store, and what is sent meanwhile waits in Kafka. Then the " +
				"node goes on by itself."
		case kafka:
			outage.Effect = "Until it answers, nothing is taken in and nothing comes out. What waits stays in the store"
			if !out(store) {
				outage.Effect += ", and can be looked up and changed"
			}
			outage.Effect += ". Then the node goes on by itself."
		default:
			outage.Effect = "What is due on it waits in the store, and is tried again. Other lanes are not held up."
		}
		all = append(all, outage)
	}
	return all
}

// storeFirst orders what may be out: the store, Kafka, and then the topics.
func storeFirst(store, kafka string) func(a, b string) int {
	rank := func(what string) string {
		switch what {
		case store:
			return "0"
		case kafka:
			return "1"
		}
		return "2" + what
	}
	return func(a, b string) int { return strings.Compare(rank(a), rank(b)) }
}

// explain says why a question to the store was not answered, for a person who has asked the API of this node.
func (s *Service) explain(err error) string {
	s.log.Debug("a question to the store was not answered", slog.String("error", oneLine(err)))
	for _, o := range s.reporter.Outages() {
		if o.Lane == "" && o.What == title(node.PortStore, "") {
			return o.Sentence(time.Now())
		}
	}
	return fmt.Sprintf("The store has not answered this question: %s. It answers the node: ask again.", cause(err))
}
