package model

// deleting returns the wrong ways to delete a row.
func deleting() []Variant {
	return []Variant{
		{
			Name: "delete-by-id", Hazard: "H1",
			Title:    "A delete names the id only; its reply is lost.",
			Rules:    Rules{DeleteByID: true},
			Scope:    Scope{Name: "one lost reply", Unknowns: 1, Batches: 1, Fired: true},
			Expected: []Property{S2, S1, Loss},
			Story: "The delete of s0 takes effect, but its reply is lost, so it is repeated. Meanwhile the " +
				"application, which has seen s0, uses the id again; the repeated delete removes the row of s1.",
			Ours: "A delete names the incarnation that was acknowledged. The row of s1 has another one.",
		},
		{
			Name: "delete-by-id-suspected", Hazard: "H2",
			Title:    "A delete names the id only; a live node is suspected.",
			Rules:    Rules{DeleteByID: true},
			Scope:    Scope{Name: "one false suspicion", Suspicions: 1, Batches: 1, Fired: true},
			Expected: []Property{S2, S1, Loss},
			Story: "No call fails. A node is slow, and is suspected; its peer takes over and publishes s0 as well. " +
				"Both have an acknowledgement and both delete, one of them so late that it removes the row of " +
				"s1.",
			Ours: "Both deletes name the incarnation of s0, and the second one finds nothing.",
		},
		{
			Name: "delete-by-owner", Hazard: "H3",
			Title:    "A delete names the id and the owner of the claim.",
			Rules:    Rules{DeleteByOwner: true},
			Scope:    Scope{Name: "two batches a node, one false suspicion", Suspicions: 1, Batches: 2, Fired: true},
			Expected: []Property{S2, S1, Loss},
			Story: "One node has two batches in flight that both hold s0, because its first claim was reset. The " +
				"first deletes it; s1 is stored, and claimed by the same node; the second batch finds a row of " +
				"that id that this node owns, and removes it. The publish of s1 then fails, and there is nothing " +
				"to give back.",
			Ours: "It does not matter who owns the row, only which incarnation it is.",
		},
		{
			Name: "delete-by-claim", Hazard: "H4",
			Title:    "A delete names the claim, as a reset does.",
			Rules:    Rules{DeleteByClaim: true},
			Scope:    Scope{Name: "one false suspicion", Suspicions: 1, Batches: 1, Fired: true},
			Expected: []Property{S14},
			Story: "Publishing takes longer than the hold time, so the claim is reset before the acknowledgement is " +
				"there. The delete finds a row that is not its own any more, and leaves it; the message is " +
				"claimed and published again, and as long as publishing stays that slow it is so forever. " +
				"Nothing is lost, and nothing ends.",
			Ours: "An acknowledged publish of an incarnation justifies its delete, whoever holds the claim by " +
				"then.",
		},
		{
			Name: "sequence", Hazard: "H5",
			Title: "Incarnations are numbered by a sequence of the database.",
			Rules: Rules{Sequence: true},
			Scope: Scope{
				Name: "one lossy failover, three records", Script: "sss", Failover: true, Batches: 1,
			},
			Expected: []Property{S2, S1, Loss},
			Story: "The failover loses the insert of s0 and with it the step of the sequence. s0 is delivered " +
				"again, has lapsed, and is published at once; s1 is stored under the number that s0 had. The " +
				"node that has published s0 before the failover deletes that number: the row of s1.",
			Ours: "Incarnations are random UUIDs, which no failover brings back.",
		},
	}
}

// claiming returns deviations of the fire and recover operations.
func claiming() []Variant {
	return []Variant{
		{
			Name: "unknown-is-success", Hazard: "H15",
			Title:    "A publish of unknown outcome counts as acknowledged.",
			Rules:    Rules{UnknownIsSuccess: true},
			Scope:    Scope{Name: "one lost reply", Unknowns: 1, Batches: 1, Fired: true},
			Expected: []Property{S2, Loss},
			Story:    "The publish of s0 times out, the row is deleted, and the record never arrives.",
			Ours:     "Only an acknowledgement justifies a delete. What is unknown is given back and published again.",
		},
		{
			Name: "delete-first", Hazard: "H16",
			Title:    "A row is deleted before it is published.",
			Rules:    Rules{DeleteFirst: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Batches: 1, Fired: true},
			Expected: []Property{S2, Loss},
			Story:    "The node dies between the delete and the publish.",
			Ours:     "The delete follows the acknowledgement. In between, a crash costs a duplicate.",
		},
		{
			Name: "reset-by-id", Hazard: "H18",
			Title:    "A detector resets whatever claim there is on the id.",
			Rules:    Rules{ResetByID: true},
			Scope:    Scope{Name: "one false suspicion", Suspicions: 1, Batches: 1, Fired: true},
			Expected: []Property{S4},
			Story: "The detector finds the claim on s0, which is then published and deleted. s1 is stored and " +
				"claimed, and it is the claim on s1 that is reset: it was never too old.",
			Ours: "A reset names the claim that was found, and has no effect on another one.",
		},
		{
			Name: "release-by-id", Hazard: "H17",
			Title:    "An owner gives back whatever claim there is on the id.",
			Rules:    Rules{ReleaseByID: true},
			Scope:    Scope{Name: "one false suspicion", Suspicions: 1, Batches: 1, Fired: true},
			Expected: []Property{S4},
			Story: "A claim was reset, and a peer has claimed the row. The first owner gives the message back, and " +
				"with it the claim of its peer.",
			Ours: "What is given back is a claim, not a message.",
		},
		{
			Name: "blind-claim", Hazard: "H21",
			Title:    "A claim looks for a waiting row, and updates it without looking again.",
			Rules:    Rules{BlindClaim: true},
			Scope:    Scope{Name: "no faults", Batches: 1, Fired: true},
			Expected: []Property{S3, S5},
			Story:    "Two nodes find s0 waiting, and both claim it. Both publish it, and nothing has failed.",
			Ours: "The claim locks the rows that it finds and skips those that are locked: one statement finds and " +
				"updates.",
		},
		{
			Name: "publish-old", Hazard: "D3",
			Title:    "A node publishes what it has claimed, however long ago.",
			Rules:    Rules{PublishOld: true},
			Scope:    Scope{Name: "one false suspicion", Suspicions: 1, Batches: 1, Fired: true},
			Expected: []Property{S13},
			Story: "A node stops after its claim. The claim is found too old, and the node publishes the message as " +
				"if nothing had happened.",
			Ours: "The node looks at the age of the claim, by its own monotonic clock, before it publishes.",
		},
		{
			Name: "no-recovery", Hazard: "L2",
			Title:    "Nobody resets claims.",
			Rules:    Rules{NoRecovery: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Batches: 1, Fired: true},
			Expected: []Property{L2},
			Story:    "A node dies after its claim, and the row stays ready forever.",
			Ours:     "A claim that is older than the hold time is reset by any node.",
		},
	}
}

// unpromised returns our own algorithm, and what nobody can promise.
func unpromised() []Variant {
	const ours = "Nothing can be done: an id cannot be ignored while its row is there and be free once it was " +
		"published, since Kafka and the store do not change at one instant. We promise S1 only, which allows this, " +
		"count what is ignored, and recommend fresh ids."
	return []Variant{
		{
			Name: "reuse-while-ready", Hazard: "H6",
			Title:    "Ours: an id is used again while the row that fired is not deleted yet.",
			Scope:    Scope{Name: "no faults", Batches: 1, Fired: true},
			Expected: []Property{U1},
			Story: "The application sees s0 and uses the id again before the row of s0 is deleted. s1 is ignored as " +
				"its duplicate.",
			Ours: ours,
		},
	}
}
