package sim

import (
	"time"

	"chronos/node"
	"chronos/node/store/memory"
)

// controlMutants decide on instructions by other rules: the literal readings of "cancel", most of which systems in use
// have.
func controlMutants() []*Mutant { //nolint:funlen // a table
	// sees decides as if a message were kept otherwise.
	sees := func(change func(item *node.Item, k *node.Kept)) memory.Broken {
		return memory.Broken{Decide: func(item *node.Item, before *node.Kept) node.Verdict {
			if before == nil {
				return item.Decide(nil)
			}
			as := *before
			change(item, &as)
			v := item.Decide(&as)
			if v.After == v.Before {
				v.After = before // nothing changes
			}
			v.Before = before
			return v
		}}
	}
	// does decides rightly, and does something else.
	does := func(change func(item *node.Item, v *node.Verdict)) memory.Broken {
		return memory.Broken{Decide: func(item *node.Item, before *node.Kept) node.Verdict {
			v := item.Decide(before)
			if v.After != nil && v.After != v.Before {
				after := *v.After
				v.After = &after
			}
			change(item, &v)
			return v
		}}
	}
	return []*Mutant{
		{
			Name: "cancels-claimed", About: "what is claimed is cancelled, as by a delete of its id",
			Kills: []string{"S19"}, Options: instructed,
			Broken: sees(func(item *node.Item, k *node.Kept) {
				if item.Action == node.Cancel && k.Claimed {
					k.Claimed, k.Attempts, k.Bound = false, 0, false
				}
			}),
		},
		{
			Name: "cancels-uncertain", About: "what waits is cancelled, even if a publish of it had an unknown outcome",
			Kills: []string{"S19"}, Options: instructed,
			Broken: sees(func(item *node.Item, k *node.Kept) {
				if item.Action == node.Cancel && !k.Claimed {
					k.Attempts = 0
				}
			}),
		},
		{
			Name: "too-late-forgotten", About: "too_late is an answer, and nothing is written down",
			Kills: []string{"S20"}, Options: instructed,
			Broken: does(func(_ *node.Item, v *node.Verdict) {
				if v.Outcome == node.TooLate {
					v.After = v.Before
				}
			}),
		},
		{
			Name: "fired-forgotten", About: "what was fired can be cancelled until somebody claims it",
			Kills: []string{"S20"}, Options: instructed,
			Broken: does(func(_ *node.Item, v *node.Verdict) {
				if v.Outcome == node.FiredNow {
					v.After.Bound = false
				}
			}),
		},
		{
			Name: "fires-by-due-time", About: "fire moves the due time, and leaves the deadline",
			Kills: []string{"L2", "L5", "S8", "L4"}, Options: instructed,
			Broken: does(func(_ *node.Item, v *node.Verdict) {
				if v.Outcome == node.FiredNow {
					v.After.Deadline = v.Before.Deadline
				}
			}),
		},
		{
			Name: "reschedules-deadline-only", About: "reschedule moves the deadline, and leaves the due time",
			Kills: []string{"S15", "L2", "L5"}, Options: instructed,
			Broken: does(func(_ *node.Item, v *node.Verdict) {
				if v.Outcome == node.Rescheduled {
					v.After.Due = v.Before.Due
				}
			}),
		},
		{
			Name: "replaces-silently", About: "a replace does not say that the former content may appear",
			Kills: []string{"S21"}, Options: instructed,
			Broken: does(func(_ *node.Item, v *node.Verdict) {
				if v.Outcome == node.Replaced {
					v.After.Former = false
				}
			}),
		},
		{
			Name: "former-forgotten", About: "only the replace says that former content may appear, none after it",
			Kills: []string{"S21"}, Options: instructed,
			Broken: does(func(_ *node.Item, v *node.Verdict) {
				if v.Outcome != node.Replaced && v.Before != nil {
					before := *v.Before
					before.Former = false
					if v.After == v.Before {
						v.After = &before
					} else if v.After != nil {
						v.After.Former = false
					}
					v.Before = &before
				}
			}),
		},
		{
			Name: "cancelled-always", About: "cancel answers cancelled, whether there was a message or not",
			Kills: []string{"S21"}, Options: instructed,
			Broken: does(func(item *node.Item, v *node.Verdict) {
				if item.Action == node.Cancel && v.Outcome == node.NotFound {
					v.Outcome = node.Cancelled
				}
			}),
		},
		{
			Name: "unanswered", About: "the outcome is not stored with its effect, and a crash loses it",
			Kills: []string{"S21"}, Options: instructed,
			Rows: func(rows node.Store, _ Table) node.Store {
				return itemChanger{rows, func(i *node.Item) { i.Answer = nil }}
			},
		},
	}
}

// limitMutants read delays and ends by other rules.
func limitMutants() []*Mutant {
	return []*Mutant{
		{
			Name: "delays-from-delivery", About: "a delay counts from the moment at which its record is delivered",
			Kills: []string{"S6"}, Options: limited,
			Ports: func(p node.Ports) node.Ports {
				return stamped(func(time.Time) time.Time { return p.Clock.Now() })(p)
			},
		},
		{
			Name: "delays-in-seconds", About: "a delay counts from the second of the timestamp of its record",
			Kills: []string{"S6"}, Options: limited,
			Ports: stamped(func(at time.Time) time.Time { return at.Truncate(time.Second) }),
		},
		{
			Name: "not-after-forgotten", About: "the store does not keep until when a message may be published",
			Kills: []string{"S26"}, Options: limited,
			Rows: func(rows node.Store, _ Table) node.Store {
				return itemChanger{rows, func(i *node.Item) { i.NotAfter = time.Time{} }}
			},
		},
		{
			Name: "not-after-deadline", About: "what may be published for a while may be published at its deadline only",
			Kills: []string{"S26", "S2"}, Options: limited,
			Rows: func(rows node.Store, _ Table) node.Store {
				return itemChanger{rows, func(i *node.Item) {
					if !i.NotAfter.IsZero() {
						i.NotAfter = i.Deadline
					}
				}}
			},
		},
	}
}

// stamped changes the timestamps of the records that a poll returns.
func stamped(change func(time.Time) time.Time) func(node.Ports) node.Ports {
	return changedPoll(func(records []node.Record) []node.Record {
		return mapped(records, func(r node.Record) node.Record {
			r.Timestamp = change(r.Timestamp)
			return r
		})
	})
}

// limited submits a lot that asks for a delay, or ends, and is late.
func limited(o *Options) {
	instructed(o)
	o.Delayed, o.Ending = 50, 50
}

// instructed submits a lot of instructions.
func instructed(o *Options) {
	o.Instructed, o.Reuse, o.Lapsed = 40, 10, 10
	o.Messages = max(o.Messages, 100)
}
