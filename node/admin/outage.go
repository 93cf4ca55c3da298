package admin

import (
	"fmt"
	"time"
)

// Outage is something that a node depends on and that does not answer it.
type Outage struct {
	What   string    `json:"what" doc:"What is out: store, Kafka, or the topic of a lane."`
	Lane   string    `json:"lane,omitempty" doc:"The lane, where it is a topic."`
	Since  time.Time `json:"since"`
	Cause  string    `json:"cause" doc:"Why, as far as the node can tell."`
	Effect string    `json:"effect" doc:"What that means meanwhile, and what still works."`
}

// Sentence says all of it: "The store has not answered since 09:33:47 UTC (12s): it refuses connections. Until ...".
func (o *Outage) Sentence(now time.Time) string {
	what, lacks := o.What, "answered"
	switch {
	case o.Lane != "":
		what, lacks = "Topic "+o.Lane, "taken a message"
	case what == "store":
		what = "The store"
	}
	since := o.Since.UTC().Format("15:04:05 UTC")
	if now.Sub(o.Since) >= 12*time.Hour {
		since = o.Since.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return fmt.Sprintf("%s has not %s since %s (%v): %s. %s", what, lacks, since,
		now.Sub(o.Since).Round(time.Second), o.Cause, o.Effect)
}
