package metrics

import (
	"strconv"
	"time"

	"chronos/node"
)

// Observe takes an event of the engine. It is called in the middle of an operation, and only counts.
func (m *Metrics) Observe(event node.Event) {
	switch e := event.(type) {
	case node.Polled:
		m.count("chronos_polled_total", e.Records)
	case node.Enqueued:
		m.enqueued(e)
	case node.Ignored:
		for i := range e.Messages {
			m.lane(e.Messages[i].Lane).duplicate.Inc()
		}
	case node.Decided:
		for _, d := range e.Decisions {
			m.count("chronos_instructions_total", 1, m.label(d.Lane), d.Action.String(), d.Outcome.String())
		}
	case node.Fired:
		m.fired(e)
	case node.Deleted:
		for _, ref := range e.Refs {
			m.lane(ref.Lane).settled.Inc()
		}
	case node.SkippedTaken:
		m.count("chronos_skipped_total", e.Records)
	case node.RecordsLost:
		for _, loss := range e.Losses {
			m.count("chronos_records_lost_total", int(loss.To-loss.From), loss.Topic)
		}
	case node.Rejected:
		m.count("chronos_rejected_total", 1, e.Record.Topic, string(e.Reason))
	case node.Lapsed:
		for i := range e.Messages {
			m.count("chronos_expired_total", 1, m.label(e.Messages[i].Lane))
		}
	case node.PassedOver:
		for i := range e.Next {
			m.count("chronos_passed_over_total", int(e.Next[i].Passed), m.label(e.Next[i].Of.Lane))
		}
	case node.DeadLettered:
		now := time.Now()
		for i := range e.Messages {
			lane := m.label(e.Messages[i].Lane)
			m.count("chronos_dead_lettered_total", 1, lane)
			if e.Messages[i].Expired(now) {
				m.count("chronos_expired_total", 1, lane)
			}
		}
	case node.GaveUp:
		m.count("chronos_callbacks_given_up_total", 1, m.label(e.Message.Lane))
	case node.Unpublished:
		m.unpublished(e)
	default:
		m.trouble(event)
	}
}

// trouble takes the events that are about nodes and about the store as a whole.
func (m *Metrics) trouble(event node.Event) {
	switch e := event.(type) {
	case node.Suspected:
		owners := map[[16]byte]bool{}
		for _, claim := range e.Claims {
			owners[claim.ReadiedBy] = true
		}
		m.count("chronos_suspicions_total", len(owners))
		m.countClaims("chronos_recovered_total", e.Claims)
		m.count("chronos_duplicate_risk_total", len(e.Claims), "recovered")
	case node.Abandoned:
		m.countClaims("chronos_abandoned_total", e.Claims)
	case node.Released:
		m.countClaims("chronos_released_total", e.Claims)
	case node.Missing:
		if !e.Repeated {
			m.count("chronos_duplicate_risk_total", len(e.Refs), "gone_already")
		}
	case node.RowsLocked:
		m.count("chronos_locked_total", len(e.Messages), "message")
		m.count("chronos_locked_total", len(e.Blocked), "record")
	case node.LeftBehind:
		m.count("chronos_duplicate_risk_total", e.Fired, "left_behind")
	case node.SettingsDiffer:
		m.count("chronos_settings_differ_total", 1, e.Setting)
	case node.LeftGroup:
		m.count("chronos_group_left_total", 1)
	case node.CatchingUp:
		m.set("chronos_catching_up", 1)
	case node.CaughtUp:
		m.set("chronos_catching_up", 0)
	}
}

func (m *Metrics) countClaims(name string, claims []node.Claim) {
	for _, c := range claims {
		m.count(name, 1, m.label(c.Lane))
	}
}

// enqueued remembers the messages that have come after their deadlines: how late they come out is counted from now.
func (m *Metrics) enqueued(e node.Enqueued) {
	now := time.Now()
	for i := range e.Messages {
		message := &e.Messages[i]
		m.lane(message.Lane).scheduled.Inc()
		if m.arrivals.Stored(message, now) {
			m.count("chronos_late_arrivals_total", 1, m.label(message.Lane))
		}
	}
}

// fired measures how late messages came out.
func (m *Metrics) fired(e node.Fired) {
	for i := range e.Messages {
		message := &e.Messages[i]
		lane := m.lane(message.Lane)
		lane.fired.Inc()
		lane.lateness.Observe(m.arrivals.Lateness(message, e.At).Seconds())
	}
}

// unpublished counts the messages that could not be published, and those that may have been all the same.
func (m *Metrics) unpublished(e node.Unpublished) {
	for i := range e.Messages {
		m.count("chronos_unpublished_total", 1, m.label(e.Messages[i].Lane), strconv.FormatBool(e.Permanent))
	}
	if !e.Permanent && !node.KindOf(e.Err).Untried() {
		m.count("chronos_duplicate_risk_total", len(e.Messages), "unknown_outcome")
	}
}
