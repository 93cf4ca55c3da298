package model

// consuming returns deviations of the enqueue operation, among them the rules of before positions.
func consuming() []Variant {
	return []Variant{
		{
			Name: "redelivered", Hazard: "H11",
			Title:    "Without positions, a record is taken in as often as it comes.",
			Rules:    Rules{NoPositions: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Fired: true, Batches: 1},
			Expected: []Property{S17, S5},
			Story: "A node dies between the take of s0 and its commit. s0 comes out, is delivered again, is " +
				"stored again, and comes out again: nothing is left in the store that could tell.",
			Ours: "The position moves in the transaction that stores the records. What is delivered again " +
				"lies behind it, and is skipped.",
		},
		{
			Name: "reuse-shadowed", Hazard: "H7",
			Title:    "Without positions: an id is used again, and the first submission is delivered again.",
			Rules:    Rules{NoPositions: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Fired: true, Batches: 1},
			Expected: []Property{S17, U2},
			Story: "A node dies between the take of s0 and its commit. s0 fires, s1 is submitted, and s0 is " +
				"delivered again and stored again. s1 is ignored for it: s0 fires twice, and s1 never.",
			Ours: "A delivery that is repeated changes nothing, so that no row is there again for which s1 " +
				"could be ignored.",
		},
		{
			Name: "publish-past", Hazard: "D5",
			Title:    "What has lapsed and is not in the store is published at once, and not stored.",
			Rules:    Rules{PublishPast: true},
			Scope:    Scope{Name: "a rebalance, a cancel", Script: "sc", Rebalances: 1, Batches: 1},
			Expected: []Property{S9, S19},
			Story: "A node finds that s0 has lapsed, and publishes it. Its partition is given to a peer " +
				"before the store knows of that. The peer takes in s0 and its cancel, and answers that s0 " +
				"does not come out.",
			Ours: "Nothing is published past the store. What has lapsed is stored as claimed by the node " +
				"that takes it in, published from the schedule, and deleted like the rest.",
		},
		{
			Name: "upsert", Hazard: "H33",
			Title:    "An insert replaces the row of its id.",
			Rules:    Rules{Upsert: true},
			Scope:    Scope{Name: "no faults, reuse at any time", Batches: 1},
			Expected: []Property{S1, Loss},
			Story: "s1 arrives while s0 waits, and takes its place. s0 was accepted first, and is never " +
				"published.",
			Ours: "An insert leaves the row that is there; s1 is ignored and counted as a duplicate. Only " +
				"an instruction that says so replaces a row.",
		},
		{
			Name: "take-up-any", Hazard: "S3",
			Title: "A repeated take takes up whatever claim of its node it is told of.",
			Rules: Rules{TakeUpAny: true},
			Scope: Scope{
				Name: "two batches a node, one lost reply", Unknowns: 1, Batches: 2, Early: true, Fired: true,
			},
			Expected: []Property{S3},
			Story: "The reply to a take is lost. The row is there, and the fire operation of the same node " +
				"claims it. The take is repeated, and told that its node holds a claim: two operations " +
				"hold one claim, and both publish.",
			Ours: "A take returns only claims that it has asked for, by incarnation, and not long after.",
		},
	}
}

// positioning returns deviations in how a take uses the position.
func positioning() []Variant {
	return []Variant{
		{
			Name: "skip-by-offset", Hazard: "S18",
			Title:    "A record is skipped if its offset lies below the position, whatever its epoch.",
			Rules:    Rules{SkipByOffset: true},
			Scope:    Scope{Name: "a truncation", Script: "sss", Truncate: true, Batches: 1},
			Expected: []Property{S18, Loss},
			Story: "Kafka loses its tail, which was taken in. What is written there afterwards has the same " +
				"offsets, and is skipped.",
			Ours: "A position is a pair: the epoch of the record before it, and an offset. A record of a " +
				"higher epoch is new, whatever its offset.",
		},
		{
			Name: "skip-low-offsets", Hazard: "S17",
			Title: "A record of a lower epoch is skipped only if its offset is lower, too.",
			Rules: Rules{SkipLowOffsets: true},
			Scope: Scope{
				Name: "cancels, a truncation, a rebalance", Script: "ccsc",
				Truncate: true, Rebalances: 1, Batches: 1,
			},
			Expected: []Property{S17},
			Story: "A node that was given up for dead still has a batch of the tail that Kafka has lost, and " +
				"that was taken in before. The position is lower since, in a higher epoch, and so the old " +
				"record is taken in a second time.",
			Ours: "What is of a lower epoch than the position is skipped, whatever its offset.",
		},
		{
			Name: "move-up-only", Hazard: "S17",
			Title: "The position never goes down.",
			Rules: Rules{MoveUpOnly: true},
			Scope: Scope{
				Name: "a truncation, one lost reply", Script: "sss", Truncate: true, Unknowns: 1, Batches: 1,
			},
			Expected: []Property{S17},
			Story: "After a truncation a record is taken in at a lower offset, and the position stays where " +
				"it was. The reply is lost, and the take is repeated: to the position the record is as " +
				"new as before.",
			Ours: "What was taken last sets the position, also downwards. Its epoch has risen, so that as a " +
				"pair it never goes down.",
		},
		{
			Name: "move-always", Hazard: "S17",
			Title:    "A take moves the position also if it has skipped everything.",
			Rules:    Rules{MoveAlways: true},
			Scope:    Scope{Name: "a rebalance", Rebalances: 1, Batches: 1},
			Expected: []Property{S17},
			Story: "A node that was given up for dead takes a batch that its peer has taken in already. " +
				"Everything is skipped, but the position goes back, and what lies above is taken in " +
				"again.",
			Ours: "A take that takes nothing leaves the position alone.",
		},
	}
}

// transacting returns deviations in what one transaction is.
func transacting() []Variant {
	return []Variant{
		{
			Name: "move-first", Hazard: "S18",
			Title:    "The position moves in a transaction of its own, before the records are stored.",
			Rules:    Rules{MoveFirst: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Fired: true, Batches: 1},
			Expected: []Property{S18, Loss},
			Story:    "The node dies between the two: what lies behind the position is not in the store.",
			Ours:     "One transaction moves the position and stores the records.",
		},
		{
			Name: "move-last", Hazard: "S17",
			Title:    "The position moves in a transaction of its own, after the records are stored.",
			Rules:    Rules{MoveLast: true},
			Scope:    Scope{Name: "one crash", Crashes: 1, Fired: true, Batches: 1},
			Expected: []Property{S17, S5},
			Story:    "The node dies between the two: the records are taken in again.",
			Ours:     "One transaction moves the position and stores the records.",
		},
		{
			Name: "unlocked-look", Hazard: "S17",
			Title:    "The position is read before the transaction, and not locked.",
			Rules:    Rules{UnlockedLook: true},
			Scope:    Scope{Name: "a rebalance", Rebalances: 1, Batches: 1},
			Expected: []Property{S17},
			Story: "Two nodes have the same batch, one of them because it does not know yet that its " +
				"partition was taken away. Both see the position below it, and both take it in.",
			Ours: "The take locks the position first, and decides by what it finds then.",
		},
	}
}

// refusing returns deviations in what a take refuses, and in where it begins.
func refusing() []Variant {
	return []Variant{
		{
			Name: "no-gap-check", Hazard: "S18",
			Title:    "A take that begins above the position is not refused.",
			Rules:    Rules{NoGapCheck: true},
			Scope:    Scope{Name: "one lossy failover, reuse at any time", Failover: true, Batches: 1},
			Expected: []Property{S18, Loss},
			Story: "The failover loses the take of s0, and with it the position. The node goes on where it " +
				"was, and moves the position over s0.",
			Ours: "A batch that begins above the position is refused, and the node begins again at the " +
				"position.",
		},
		{
			Name: "take-creates", Hazard: "S18",
			Title:    "A take makes the position of its partition, where there is none.",
			Rules:    Rules{TakeCreates: true},
			Scope:    Scope{Name: "one lossy failover, reuse at any time", Failover: true, Batches: 1},
			Expected: []Property{S18, Loss},
			Story: "The failover goes back to before the partition was known. A node has polled what " +
				"follows, and its take makes a position there: what lies below is never taken in again.",
			Ours: "Only an assignment makes a position, at the earliest record. Without one a take is " +
				"refused.",
		},
		{
			Name: "topic-by-name", Hazard: "S18",
			Title:    "A position is that of a topic's name.",
			Rules:    Rules{TopicByName: true},
			Scope:    Scope{Name: "a topic created again", Script: "sss", Recreate: true, Batches: 1},
			Expected: []Property{S18, Loss},
			Story: "The topic is deleted and created again, and its offsets begin anew. What stands there " +
				"below the old position is skipped.",
			Ours: "A position is that of a topic id. Another id is another topic, with a position of its " +
				"own.",
		},
		{
			Name: "no-epoch-seek", Hazard: "S18",
			Title:    "Consumers begin at the offset of the position, and do not say of which epoch.",
			Rules:    Rules{NoEpochSeek: true},
			Scope:    Scope{Name: "a truncation, one crash", Script: "sss", Truncate: true, Crashes: 1, Batches: 1},
			Expected: []Property{S18, Loss},
			Story: "A node begins at offset 1, Kafka has lost what was below that, and something else was " +
				"written there. Without the epoch the client cannot notice, and goes on at 1.",
			Ours: "Consumers begin with the epoch of the position; Kafka tells the client where that epoch " +
				"has ended.",
		},
	}
}
