package model

// comparing returns deviations in where consumers begin, and in how they find out that the position was set back.
func comparing() []Variant {
	return []Variant{
		{
			Name: "start-committed", Hazard: "L9",
			Title:    "Consumers begin at the committed offset.",
			Rules:    Rules{StartCommitted: true},
			Scope:    Scope{Name: "one lossy failover", Failover: true, Fired: true, Batches: 1},
			Expected: []Property{L9},
			Story: "The store was set back, and the committed offset was not. Each take from there begins " +
				"above the position and is refused, forever.",
			Ours: "Consumers begin at the position of the store. Kafka's offsets are for its tools, and " +
				"evidence.",
		},
		{
			Name: "create-committed", Hazard: "S18",
			Title:    "A missing position is made at the committed offset.",
			Rules:    Rules{CreateCommitted: true},
			Scope:    Scope{Name: "one lossy failover", Failover: true, Fired: true, Batches: 1},
			Expected: []Property{S18, Loss},
			Story: "The backup is from before the first position was stored. The committed offset says what " +
				"was taken in by a store that is not there any more.",
			Ours: "A missing position is made at the earliest record.",
		},
		{
			Name: "adopt-any", Hazard: "S18",
			Title: "Adoption of an older deployment believes any committed offset.",
			Rules: Rules{AdoptAny: true},
			Scope: Scope{
				Name: "an adoption, one lossy failover", Script: "ss", Failover: true, Adopt: true, Batches: 1,
			},
			Expected: []Property{S18, Loss},
			Story: "Offsets are adopted, and the store is set back to before that. It adopts once more, but " +
				"the offset is that of a node with positions now, far beyond what this store has.",
			Ours: "Commits of nodes that keep positions say so in their metadata, and are never adopted.",
		},
		{
			Name: "no-compare", Hazard: "L9",
			Title:    "Nobody compares positions as long as nothing new comes.",
			Rules:    Rules{NoCompare: true},
			Scope:    Scope{Name: "one rewind", Rewinds: 1, Batches: 1},
			Expected: []Property{L9},
			Story: "An operator rewinds an idle partition. Its consumer stands at the log end, and there is " +
				"nothing whose take could be refused.",
			Ours: "Every second a node compares the positions of its partitions with its own, and begins " +
				"again where the store's is lower.",
		},
		{
			Name: "offsets-alone", Hazard: "S18",
			Title: "A node's place and the store's position are compared by their offsets alone.",
			Rules: Rules{OffsetsAlone: true},
			Scope: Scope{
				Name: "cancels, a truncation, one lossy failover", Script: "csc",
				Truncate: true, Failover: true, Batches: 1,
			},
			Expected: []Property{S18, Loss},
			Story: "Kafka has lost its tail, and the store its last commit. The node and the store stand at " +
				"the same offset, but in different epochs, and what lies between them is skipped.",
			Ours: "Both parts of the pair are compared, where both epochs are known.",
		},
	}
}

// restoring returns deviations in how the store is rewound, and in how a set back is noticed.
func restoring() []Variant {
	return []Variant{
		{
			Name: "rewind-keeps-epoch", Hazard: "S18",
			Title: "A rewind sets the offset, and leaves the epoch.",
			Rules: Rules{RewindKeepsEpoch: true},
			Scope: Scope{
				Name: "a truncation, one rewind", Script: "sss", Truncate: true, Rewinds: 1, Batches: 1,
			},
			Expected: []Property{S18, L9},
			Story: "The position is rewound to records of an epoch before its own. They are of a lower " +
				"epoch, and so they are skipped.",
			Ours: "A rewind writes the epoch of the record before its target, or -1 where that is not " +
				"known.",
		},
		{
			Name: "offsets-only", Hazard: "E1",
			Title:    "That the store was set back is found out from the committed offset alone.",
			Rules:    Rules{OffsetsOnly: true},
			Scope:    Scope{Name: "one lossy failover, a cancel", Script: "sc", Failover: true, Batches: 1},
			Expected: []Property{S19, Undone},
			Story: "c1 was cancelled in a take that was never committed to Kafka, or nobody has looked yet. " +
				"s0 is claimed and comes out before its cancel is taken in again.",
			Ours: "A node looks at the timeline of the server on each new connection, before it does " +
				"anything else there. The committed offset is only a second sign.",
		},
	}
}

// marking returns deviations in what has to be done before anything is claimed on a store that was set back.
func marking() []Variant {
	return []Variant{
		{
			Name: "no-mark", Hazard: "E1",
			Title:    "Claims go on one hold time after the store was set back.",
			Rules:    Rules{NoMark: true},
			Scope:    Scope{Name: "one lossy failover, a cancel", Script: "sc", Failover: true, Batches: 1},
			Expected: []Property{Undone},
			Story: "s0 was cancelled, and the failover loses that. s0 waits again, and comes out before its " +
				"cancel is taken in again.",
			Ours: "Nothing is claimed before everything is taken in that Kafka had when the set back was " +
				"noticed.",
		},
		{
			Name: "mark-committed", Hazard: "E1",
			Title:    "The mark is the committed offset.",
			Rules:    Rules{MarkCommitted: true},
			Scope:    Scope{Name: "one lossy failover, a cancel", Script: "sc", Failover: true, Batches: 1},
			Expected: []Property{Undone},
			Story: "The take of c1 was applied and not committed to Kafka. It lies above the mark, and s0 " +
				"comes out before it is taken in again.",
			Ours: "The mark is the log end.",
		},
		{
			Name: "strict-mark", Hazard: "L9",
			Title: "The mark stays where it is when the log end comes down.",
			Rules: Rules{StrictMark: true},
			Scope: Scope{
				Name: "a truncation, one lossy failover", Script: "ss", Truncate: true, Failover: true, Batches: 1,
			},
			Expected: []Property{L9},
			Story: "The log end is marked, and then Kafka loses its tail. The position never gets to the " +
				"mark, and nothing is claimed any more.",
			Ours: "A node that stands at the log end, with the store's position not below its own, ends the " +
				"catching up, whatever the mark says.",
		},
		{
			Name: "no-hold-time", Hazard: "S19",
			Title:    "After a set back, nodes take in at once.",
			Rules:    Rules{NoHoldTime: true},
			Scope:    Scope{Name: "one lossy failover, a cancel", Script: "sc", Failover: true, Batches: 1},
			Expected: []Property{S19},
			Story: "A node has claimed s0, and does not know yet that the store was set back to before that. " +
				"Its peer does, takes in the cancel, and answers that s0 does not come out. Then the " +
				"first one publishes it.",
			Ours: "Nothing is taken in, and so nothing is answered, before a hold time has passed: then " +
				"whatever was claimed before is too old to be published.",
		},
	}
}
