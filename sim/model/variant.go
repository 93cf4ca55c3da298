package model

import "slices"

// Variant is a named deviation from our algorithm, what is expected of it, and why.
type Variant struct {
	// Name is for the command line; Hazard is the number of what goes wrong in the list of hazards.
	Name, Hazard string

	// Title says in one line what is different.
	Title string

	// Rules is what is different.
	Rules Rules

	// Scope is the smallest world in which that shows.
	Scope Scope

	// Expected are the properties that it breaks there. The last one is the worst, and the one that is told.
	Expected []Property

	// Story says what goes wrong, and Ours what our algorithm does instead.
	Story, Ours string
}

// Variants returns all variants that are expected to break something, in the order of their hazards.
func Variants() []Variant {
	return append(append(deleting(), others()...), unpromised()...)
}

// VariantByName finds a variant.
func VariantByName(name string) (Variant, bool) {
	for _, v := range Variants() {
		if v.Name == name {
			return v, true
		}
	}
	return Variant{}, false
}

// Scopes returns the large scopes in which our algorithm is explored to the end.
func Scopes() []Scope {
	return []Scope{
		{
			Name:    "a crash, a lost reply, a rebalance",
			Crashes: 1, Unknowns: 1, Rebalances: 1, Suspicions: Unbounded, Batches: 1, Early: true,
		},
		{
			Name:     "two lost replies, a rebalance",
			Unknowns: 2, Rebalances: 1, Suspicions: Unbounded, Batches: 1, Early: true,
		},
		{
			Name:    "two crashes, a lost reply",
			Crashes: 2, Unknowns: 1, Suspicions: Unbounded, Batches: 1, Early: true,
		},
		{
			Name:    "two batches a node",
			Crashes: 1, Unknowns: 1, Suspicions: Unbounded, Batches: 2, Early: true,
		},
		{
			Name:    "two batches a node, a rebalance",
			Crashes: 1, Unknowns: 1, Rebalances: 1, Suspicions: 1, Batches: 2, Early: true,
		},
		{
			Name:    "lapsed on arrival",
			Crashes: 1, Unknowns: 1, Rebalances: 1, Suspicions: Unbounded, Batches: 1, Lapsed: true, Early: true,
		},
		{
			Name:    "a lossy failover, a crash",
			Crashes: 1, Unknowns: 1, Suspicions: Unbounded, Batches: 1, Failover: true,
		},
		{
			Name:     "a lossy failover, lapsed on arrival",
			Unknowns: 1, Rebalances: 1, Suspicions: Unbounded, Batches: 1, Failover: true, Lapsed: true, Early: true,
		},
	}
}

// SmallScopes returns the scopes of the variants, each once.
func SmallScopes() []Scope {
	var scopes []Scope
	for _, v := range Variants() {
		if !slices.Contains(scopes, v.Scope) {
			scopes = append(scopes, v.Scope)
		}
	}
	return scopes
}

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
				"claimed and published again, and as long as publishing stays that slow it is so for ever. " +
				"Nothing is lost, and nothing ends.",
			Ours: "An acknowledged publish of an incarnation justifies its delete, whoever holds the claim by " +
				"then.",
		},
		{
			Name: "sequence", Hazard: "H5",
			Title: "Incarnations are numbered by a sequence of the database.",
			Rules: Rules{Sequence: true},
			Scope: Scope{
				Name: "one lossy failover, lapsed messages", Failover: true, Batches: 1, Lapsed: true, Fired: true,
			},
			Expected: []Property{S2, S1, Loss},
			Story: "The failover loses the insert of s0 and with it the step of the sequence. s0 is delivered " +
				"again, has lapsed, and is published at once; s1 is stored under the number that s0 had. The " +
				"node that has published s0 before the failover deletes that number: the row of s1.",
			Ours: "Incarnations are random UUIDs, which no failover brings back.",
		},
	}
}

// others returns deviations in all other places.
func others() []Variant {
	return append(append(consuming(), failing()...), claiming()...)
}

// consuming returns deviations of the enqueue operation.
func consuming() []Variant {
	return []Variant{
		{
			Name: "commit-first", Hazard: "H8",
			Title:    "Offsets are committed before the records are stored.",
			Rules:    Rules{CommitFirst: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Batches: 1, Fired: true},
			Expected: []Property{S10, Loss},
			Story:    "The consumer commits what it polls by itself, and the node dies before it has stored it.",
			Ours:     "Offsets are committed last, when each record of the batch is stored, published or ignored.",
		},
		{
			Name: "skip-unpublished", Hazard: "H12",
			Title: "A lapsed message that could not be published is only logged.",
			Rules: Rules{SkipUnpublished: true},
			Scope: Scope{
				Name: "one lost reply, lapsed messages", Unknowns: 1, Batches: 1, Lapsed: true, Fired: true,
			},
			Expected: []Property{S10, Loss},
			Story:    "The publish of a lapsed message fails, and its offset is committed all the same.",
			Ours: "What could not be published at once is stored like the others, and the fire operation goes on " +
				"with it.",
		},
		{
			Name: "no-look", Hazard: "H12",
			Title:    "Lapsed messages are published without a look into the store.",
			Rules:    Rules{NoLook: true},
			Scope:    Scope{Name: "no faults, lapsed, reuse at any time", Batches: 1, Lapsed: true},
			Expected: []Property{S9},
			Story:    "s1 is published while s0 waits under the same id, of which it is a duplicate.",
			Ours:     "What has lapsed is published only if the store has no row of its id.",
		},
		{
			Name: "upsert", Hazard: "H33",
			Title:    "An insert replaces the row of its id.",
			Rules:    Rules{Upsert: true},
			Scope:    Scope{Name: "no faults, reuse at any time", Batches: 1},
			Expected: []Property{S1, Loss},
			Story:    "s1 arrives while s0 waits, and takes its place. s0 was accepted first, and is never published.",
			Ours:     "An insert leaves the row that is there; s1 is ignored and counted as a duplicate.",
		},
		{
			Name: "take-up-any", Hazard: "S3",
			Title: "A repeated insert takes up whatever claim of its node it is told of.",
			Rules: Rules{TakeUpAny: true},
			Scope: Scope{
				Name: "two batches a node, one lost reply", Unknowns: 1, Batches: 2, Early: true, Fired: true,
			},
			Expected: []Property{S3},
			Story: "The reply to an insert is lost. The row is there, and the fire operation of the same node " +
				"claims it. The insert is repeated, and told that its node holds a claim: two operations hold " +
				"one claim, and both publish.",
			Ours: "Enqueue takes up a claim only if it has asked for it, and not long ago.",
		},
	}
}

// failing returns deviations in what is done after a failover of the database.
func failing() []Variant {
	return []Variant{
		{
			Name: "no-rewind", Hazard: "H25",
			Title:    "The database fails over and loses commits, and offsets stay.",
			Rules:    Rules{NoRewind: true},
			Scope:    Scope{Name: "one lossy failover", Failover: true, Batches: 1, Fired: true},
			Expected: []Property{S1, Loss},
			Story:    "The standby never got the insert of s0, whose offset is committed.",
			Ours: "That the store keeps what it has committed is an assumption: a synchronous standby. Where it " +
				"does not hold, offsets are rewound by the operator, which is safe in any case.",
		},
		{
			Name: "unfenced-rewind", Hazard: "H25",
			Title:    "Offsets are rewound while consumers of the group go on.",
			Rules:    Rules{UnfencedRewind: true},
			Scope:    Scope{Name: "one lossy failover, reuse at any time", Failover: true, Batches: 1},
			Expected: []Property{S10, S1, Loss},
			Story: "A consumer has s1 in hand when the database fails over and the offsets are rewound. It stores " +
				"s1 and commits the offset after it: s0, which the failover lost, is skipped.",
			Ours: "Kafka rewinds the offsets of a group only while it has no members, so that commits of before " +
				"have no effect.",
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
			Story:    "A node dies after its claim, and the row stays ready for ever.",
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
		{
			Name: "reuse-shadowed", Hazard: "H7",
			Title:    "Ours: an id is used again, and the first submission is delivered again.",
			Scope:    Scope{Name: "one crash", Crashes: 1, Batches: 1, Fired: true},
			Expected: []Property{U2},
			Story: "A node dies between the insert of s0 and its commit. s0 fires, s1 is submitted, and s0 is " +
				"delivered again and stored again. s1 is ignored for it: s0 fires twice, and s1 never.",
			Ours: ours,
		},
	}
}
