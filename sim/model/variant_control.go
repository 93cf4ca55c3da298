package model

// controlling returns deviations in what instructions do to a row.
func controlling() []Variant {
	return []Variant{
		{
			Name: "cancel-any", Hazard: "S19",
			Title:    "A cancel takes effect on a row that is claimed.",
			Rules:    Rules{CancelAny: true},
			Scope:    Scope{Name: "no faults, a cancel", Script: "sc", Batches: 1},
			Expected: []Property{S19},
			Story:    "s0 is claimed, then cancelled, then published.",
			Ours:     "Where the row is claimed, the answer is that it is too late.",
		},
		{
			Name: "cancel-waiting", Hazard: "S19",
			Title:    "A cancel takes effect on whatever waits.",
			Rules:    Rules{CancelWaiting: true},
			Scope:    Scope{Name: "one lost reply, a cancel", Script: "sc", Unknowns: 1, Batches: 1},
			Expected: []Property{S19},
			Story: "The publish of s0 has no reply, so that its claim is given back. Then it waits, and is " +
				"cancelled, although it came out.",
			Ours: "A row remembers that a claim on it has ended after which it may have come out.",
		},
		{
			Name: "untry-all", Hazard: "S19",
			Title:    "A claim that is given back unsent makes the row as if it had never been claimed.",
			Rules:    Rules{UntryAll: true},
			Scope:    Scope{Name: "one lost reply, a cancel", Script: "sc", Unknowns: 1, Batches: 1},
			Expected: []Property{S19},
			Story: "The publish of s0 has no reply, and its claim is given back. It is claimed again, and " +
				"given back unsent. That wipes out the memory of the first claim.",
			Ours: "Attempts are counted, and a claim that is given back unsent takes back its own.",
		},
		{
			Name: "untry-sent", Hazard: "S19",
			Title:    "A claim that is given back does not count, also if its message was sent.",
			Rules:    Rules{UntrySent: true},
			Scope:    Scope{Name: "one lost reply, a cancel", Script: "sc", Unknowns: 1, Batches: 1},
			Expected: []Property{S19},
			Story: "The publish of s0 has no reply. Its claim is given back and does not count, and s0 is " +
				"cancelled although it came out.",
			Ours: "Only what was not sent takes its attempt back.",
		},
		{
			Name: "untry-reset", Hazard: "S19",
			Title:    "A claim that is reset does not count.",
			Rules:    Rules{UntryReset: true},
			Scope:    Scope{Name: "one false suspicion, a cancel", Script: "sc", Suspicions: 1, Batches: 1},
			Expected: []Property{S19},
			Story: "A slow node has published s0, and its claim is found too old and reset. s0 is cancelled, " +
				"although it came out.",
			Ours: "Nobody knows how far the owner of such a claim has got, and so its attempt counts.",
		},
	}
}

// binding returns deviations in where outcomes are stored, and in what they bind.
func binding() []Variant {
	return []Variant{
		{
			Name: "outcomes-apart", Hazard: "S21",
			Title:    "Outcomes are sent when the take has replied.",
			Rules:    Rules{OutcomesApart: true},
			Scope:    Scope{Name: "one lost reply, a cancel", Script: "sc", Unknowns: 1, Batches: 1},
			Expected: []Property{S21},
			Story: "The reply to the take of a cancel is lost. The take is repeated, finds the cancel behind the " +
				"position, and skips it: nobody knows any more what became of it.",
			Ours: "The outcome is a message that the transaction of the instruction inserts, and comes out like " +
				"any other.",
		},
		{
			Name: "late-unbound", Hazard: "S20",
			Title:    "That it was too late binds nobody.",
			Rules:    Rules{LateUnbound: true},
			Scope:    Scope{Name: "no faults, two cancels", Script: "scc", Batches: 1},
			Expected: []Property{S20},
			Story: "s0 is claimed, so that the first cancel is too late. The claim is given back unsent, and " +
				"the second one takes effect: what was said to come out never does.",
			Ours: "An instruction that comes too late marks the row, and only a replacement touches it " +
				"then.",
		},
		{
			Name: "fire-unbound", Hazard: "S20",
			Title:    "That a message fires now binds nobody.",
			Rules:    Rules{FireUnbound: true},
			Scope:    Scope{Name: "no faults, fire and cancel", Script: "sfc", Batches: 1},
			Expected: []Property{S20},
			Story:    "s0 is told to fire now. Before anybody claims it, it is cancelled.",
			Ours:     "The outcome marks the row, as one that comes too late does.",
		},
		{
			Name: "forget-former", Hazard: "S19",
			Title:    "A row that has replaced another one does not remember it.",
			Rules:    Rules{ForgetFormer: true},
			Scope:    Scope{Name: "no faults, replace and cancel", Script: "src", Batches: 1},
			Expected: []Property{S19},
			Story: "s0 is claimed when r1 replaces it. A cancel of r1 says that the id is silent now, and " +
				"then s0 is published.",
			Ours: "The row remembers that former content may come out, and each later outcome on it says " +
				"so.",
		},
		{
			Name: "keep-incarnation", Hazard: "S2",
			Title:    "A replacement keeps the incarnation and the claim of the row.",
			Rules:    Rules{KeepIncarnation: true},
			Scope:    Scope{Name: "no faults, a replacement", Script: "sr", Batches: 1},
			Expected: []Property{S2, Loss},
			Story:    "s0 is published when r1 replaces it. The delete that follows is for s0, and removes r1.",
			Ours:     "A replacement draws an incarnation of its own, and waits.",
		},
	}
}
