package service

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"chronos/node"
)

// intake takes the events about partitions, positions and lineages.
func (r *Reporter) intake(event node.Event) {
	switch e := event.(type) {
	case node.Assigned:
		r.assigned(e)
	case node.StartedOver:
		r.say(slog.LevelWarn, "reading starts over at the store's positions: they are not where this node had come to",
			slog.String("places", places(e.Places)))
	case node.RecordsLost:
		for _, loss := range e.Losses {
			r.counts.lost += loss.To - loss.From
			r.say(slog.LevelError, "Kafka has deleted records before they were taken in: its retention is shorter "+
				"than this service was behind",
				slog.String("topic", loss.Topic), slog.Int("partition", int(loss.Number)),
				slog.Int64("from", loss.From), slog.Int64("to", loss.To),
				slog.Int64("records_at_most", loss.To-loss.From))
		}
	case node.SkippedTaken:
		r.counts.skipped += int64(e.Records)
		r.tally("skipped", e.Records, func(count int) {
			r.say(slog.LevelInfo, "skipped records that had been taken in before", slog.Int("records", count))
		})
	default:
		r.lineage(event)
	}
}

// lineage takes the events about the history of the store, and the settings of others.
func (r *Reporter) lineage(event node.Event) {
	switch e := event.(type) {
	case node.LineageChanged:
		r.lateness.catchingUp = true
		sentence := "the store was set back or rewound: this node has forgotten its claims, and claims again when " +
			"the store has caught up"
		if e.To < e.From {
			sentence = "the store was set back and does not know it yet: this node has forgotten its claims, and " +
				"tells it"
		}
		r.say(slog.LevelWarn, sentence,
			slog.Int64("lineage", e.To), slog.Int64("former", e.From), slog.Int("claims", len(e.Forgotten)))
	case node.CatchingUp:
		r.lateness.catchingUp = true
		r.say(slog.LevelWarn, "the store was set back: nothing fires until the input topics are taken in again as far "+
			"as they reach now", slog.Int64("lineage", e.To), slog.Int("partitions", len(e.Marks)))
	case node.CaughtUp:
		r.lateness.catchingUp = false
		r.say(slog.LevelInfo, "the store has caught up: messages fire again", slog.Int64("lineage", e.Lineage))
	case node.SettingsDiffer:
		// The claims of a release before this one have as many hold times as there are claims.
		r.tally("setting "+e.Setting, 1, func(int) {
			r.say(slog.LevelWarn, "another node works with another setting: give all nodes the same",
				slog.String("setting", settingOf(e.Setting)), slog.String("ours", e.Ours.String()),
				slog.String("theirs", e.Theirs.String()), slog.String("node", r.nameOf(e.Node.String())))
		})
	}
}

// assigned says where partitions are read from, and how much there is to read. What somebody may not expect is that
// all there is comes in, for the first time or again: so that is told apart.
func (r *Reporter) assigned(e node.Assigned) {
	var fresh, rest []node.Place
	var waiting int64
	for i, place := range e.Starts {
		a := e.Assignments[i]
		if place.Epoch == node.UnknownEpoch && place.Offset == a.First && a.End > a.First {
			fresh = append(fresh, place)
			waiting += a.End - a.First
		} else {
			rest = append(rest, place)
		}
	}
	if len(fresh) > 0 {
		r.say(slog.LevelWarn, "reading partitions from their first record, with all that waits there: the store had "+
			"no position for them, or was rewound",
			slog.String("places", places(fresh)), slog.Int64("records_at_most", waiting))
	}
	if len(rest) > 0 {
		r.say(slog.LevelInfo, "reading partitions from the store's positions",
			slog.String("places", places(rest)), slog.Int64("records_at_most", e.Waiting()-waiting))
	}
}

// settingOf returns what a person calls the setting that is a field of node.Config.
func settingOf(field string) string {
	for _, row := range Table(Run) {
		if row.field == field {
			return row.Name
		}
	}
	return field
}

// places names places for a person: the first few of them.
func places(list []node.Place) string {
	const most = 8
	var names []string
	for _, p := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%s/%d at %d", p.Topic, p.Number, p.Offset))
	}
	slices.Sort(names)
	if more := len(list) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}
