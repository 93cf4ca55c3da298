package admin

import (
	"fmt"
	"time"
)

// Problem is a promise that is not kept: something that is due and does not come out, or that was submitted and is not
// taken in, or a call without which one of these will be so.
type Problem struct {
	What   string    `json:"what" doc:"What is not well: store, Kafka, topic, intake or lane."`
	Lane   string    `json:"lane,omitempty" doc:"The lane, where it is one, or a topic."`
	Call   string    `json:"call,omitempty" doc:"The operation of the store, where others of it go well."`
	Fault  string    `json:"fault" doc:"The system to look at: Kafka, the store, receiver, this node, or unknown."`
	Says   string    `json:"says" doc:"What is so, such as: The store has not answered."`
	Since  time.Time `json:"since"`
	Cause  string    `json:"cause" doc:"Why, as far as the node can tell."`
	Effect string    `json:"effect" doc:"What that means meanwhile, what still works, and what to do."`

	// Unready says that this node cannot do its work. Where a lane has a destination that fails, it can do all the
	// rest.
	Unready bool `json:"unready,omitempty" doc:"This node cannot do its work: its /readyz answers 503."`
}

// The systems that can be at fault.
const (
	FaultKafka    = "Kafka"
	FaultStore    = "the store"
	FaultReceiver = "receiver"
	FaultNode     = "this node"
	FaultUnknown  = "unknown"
)

// Sentence says all of it: "The store has not answered since 09:33:47 UTC (12s): it refuses connections. Until ...".
func (p *Problem) Sentence(now time.Time) string {
	since := p.Since.UTC().Format("15:04:05 UTC")
	if now.Sub(p.Since) >= 12*time.Hour {
		since = p.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return fmt.Sprintf("%s since %s (%v): %s. %s", p.Says, since, now.Sub(p.Since).Round(time.Second), p.Cause,
		p.Effect)
}
