package metrics

// Kind is what a metric is.
type Kind string

// The kinds of metrics.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
)

// Metric is one row of the table of metrics: all that there is to know about one of them. The metrics of a node, their
// help and docs/METRICS.md are made from it.
type Metric struct {
	Name   string
	Kind   Kind
	Labels []string

	// Help is what it counts or measures, in full sentences.
	Help string

	// Look is what its value tells, and what to do about it; "" where the help is enough.
	Look string

	// Buckets are the upper bounds of a histogram.
	Buckets []float64

	group string
}

// Group is a heading under which metrics stand.
type Group struct{ Key, Title string }

// Groups returns the headings, in their order.
func Groups() []Group {
	return []Group{
		{"out", "What comes out"},
		{"callbacks", "Callbacks"},
		{"in", "What comes in"},
		{"store", "What waits"},
		{"peers", "Failures and duplicates"},
		{"node", "The node at work"},
		{"ports", "Kafka and the store"},
	}
}

// Table returns the metrics of a node, in the order in which docs/METRICS.md has them. Besides these a node has those
// of the libraries: go_*, process_* and chronos_kafka_*.
func Table() []Metric {
	var all []Metric
	for _, group := range []struct {
		key  string
		rows []Metric
	}{
		{"out", outRows()},
		{"callbacks", callbackRows()},
		{"in", append(inRows(), metaswitchRows()...)},
		{"store", append(storeRows(), stateRows()...)},
		{"peers", peerRows()},
		{"node", nodeRows()},
		{"ports", append(portRows(), quotaRow())},
	} {
		for _, row := range group.rows {
			row.group = group.key
			all = append(all, row)
		}
	}
	return all
}

// latenessBuckets are dense where it is decided whether a message was on time: from a tenth of a second too early to
// an hour too late.
func latenessBuckets() []float64 {
	return []float64{
		-0.1, -0.05, -0.02, -0.01, -0.005, 0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 300, 3600,
	}
}

// callBuckets are those of calls to ports, whose time limits are a few seconds.
func callBuckets() []float64 {
	return []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5}
}

func outRows() []Metric {
	return []Metric{
		{
			Name: "chronos_fired_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Messages that were published on their lane and acknowledged: by all in-sync replicas, or as a " +
				"callback by an answer of 2xx.",
			Look: "The rate is the throughput. Zero while `chronos_overdue` is not: look at the readiness and the log.",
		},
		{
			Name: "chronos_lateness_seconds", Kind: Histogram, Labels: []string{"lane"}, Buckets: latenessBuckets(),
			Help: "How long after its deadline a message was acknowledged; negative if before. A message that came " +
				"in after its deadline counts from when this node had stored it, and one whose lane was closed then " +
				"from when it opened.",
			Look: "The measure of the service: 99 of 100 within 0.1 s is usual. Where it grows, compare " +
				"`chronos_port_call_duration_seconds` of the store and the sink.",
		},
		{
			Name: "chronos_late_arrivals_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Messages that came in after their deadline, and were fired at once.",
			Look: "Whoever sends them is late, or this service was behind with its input: see `chronos_lag_records`.",
		},
		{
			Name: "chronos_unpublished_total", Kind: Counter, Labels: []string{"lane", "permanent"},
			Help: "Times that a message could not be published and went back to the store; permanent if somebody " +
				"has to act first.",
			Look: "The log names the topic and the error. With permanent=\"true\": create the topic, or grant Write.",
		},
		{
			Name: "chronos_dead_lettered_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Copies that arrived on a dead-letter topic: of records that were rejected, by that topic, and of " +
				"messages that Kafka rejects for good, by their lane.",
			Look: "Each is a message that did not come out where it should. Read the topic; its headers say why.",
		},
		{
			Name: "chronos_expired_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Messages that were not published, because the instant of their header chronosNotAfter had passed. " +
				"They are copied to the dead-letter topic, if there is one.",
			Look: "Something held them up: see `chronos_lateness_seconds`, pauses and outages.",
		},
		{
			Name: "chronos_passed_over_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Occurrences of series that were missed and do not come out: by the header chronosMissed of the " +
				"series, or because more were missed than max-missed.",
			Look: "They have numbers: a consumer sees the gap in chronosSequence. See what kept the lane from coming " +
				"out, and whether max-missed is too low for your series.",
		},
		{
			Name: "chronos_settled_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Fired messages that were removed from the store.",
		},
		{
			Name: "chronos_publishes_in_flight", Kind: Gauge,
			Help: "Records that were given to Kafka and have no answer yet.",
			Look: "Steady at its height while nothing fires: the brokers do not answer.",
		},
	}
}

func inRows() []Metric {
	return []Metric{
		{
			Name: "chronos_polled_total", Kind: Counter,
			Help: "Records that were read from the input topics.",
		},
		{
			Name: "chronos_intake_total", Kind: Counter, Labels: []string{"lane", "result"},
			Help: "Submissions by what became of them: scheduled, or duplicate of one that waits.",
		},
		{
			Name: "chronos_instructions_total", Kind: Counter, Labels: []string{"lane", "action", "outcome"},
			Help: "Records that ask to replace, reschedule, cancel or fire a message, and those that ask to be told " +
				"of their outcome, by what became of them. The rejected ones count as rejected.",
			Look: "Many `too_late`: whoever sends them decides at the last moment. Many `not_found`: they name ids " +
				"that have fired or never came, or their key is not that of the submission.",
		},
		{
			Name: "chronos_operator_instructions_total", Kind: Counter, Labels: []string{"lane", "action", "outcome"},
			Help: "Instructions that operators have given to this node by its API or its page, by what became of " +
				"them. `not_taken`: nothing was taken in at that moment; `unknown`: the store did not answer.",
			Look: "The log has a line for each, with who, what and why.",
		},
		{
			Name: "chronos_http_instructions_total", Kind: Counter, Labels: []string{"lane", "action", "outcome"},
			Help: "Requests to the HTTP API that bring a message or change one, by what became of them. One that is " +
				"repeated " +
				"under its Idempotency-Key counts once.",
			Look: "They are no records: `chronos_intake_total` and `chronos_instructions_total` do not count them.",
		},
		{
			Name: "chronos_http_request_seconds", Kind: Histogram, Labels: []string{"operation", "status"},
			Help: "Requests to the HTTP API, and how long their answers took. Operations of Metaswitch's interface " +
				"begin with metaswitch_.",
			Look: "Many 429: some token is at its limit. 503: the store is away, or the intake is paused. 401: " +
				"somebody has a " +
				"wrong token.",
			Buckets: callBuckets(),
		},
		{
			Name: "chronos_rejected_total", Kind: Counter, Labels: []string{"topic", "reason"},
			Help: "Records that are not valid submissions, by the reason.",
			Look: "Tell whoever sends them; the log has the first five of each second, with topic, partition and " +
				"offset.",
		},
		{
			Name: "chronos_skipped_total", Kind: Counter,
			Help: "Records that Kafka delivered again after they had been taken in. Nothing was done for them.",
		},
		{
			Name: "chronos_records_lost_total", Kind: Counter, Labels: []string{"topic"},
			Help: "Records that Kafka deleted before they were taken in, at most.",
			Look: "Any is a loss: raise `retention.ms` of the topic, and submit them again.",
		},
		{
			Name: "chronos_position", Kind: Gauge, Labels: []string{"topic", "partition"},
			Help: "The offset up to which an input partition of this node has been taken in.",
		},
		{
			Name: "chronos_lag_records", Kind: Gauge, Labels: []string{"topic", "partition"},
			Help: "Records of an input partition of this node that have not been taken in.",
			Look: "Above zero for long: the store is slow or away, or there are too few partitions for the load.",
		},
		intakeRow(),
		{
			Name: "chronos_partitions", Kind: Gauge,
			Help: "Input partitions that this node reads. None is normal where there are more nodes than partitions.",
		},
	}
}

func storeRows() []Metric {
	const sampled = " Sampled from the store every 15 s by each node: take max over nodes, not sum."
	const capped = " Counted up to 10000, and estimated from the statistics of the database beyond."
	return []Metric{
		{
			Name: "chronos_waiting", Kind: Gauge, Labels: []string{"lane"},
			Help: "Messages that wait in the store, the overdue ones included." + sampled + capped,
		},
		{
			Name: "chronos_claimed", Kind: Gauge, Labels: []string{"lane"},
			Help: "Messages that are ready: claimed by a node that is about to publish them." + sampled,
		},
		{
			Name: "chronos_overdue", Kind: Gauge, Labels: []string{"lane"},
			Help: "Messages whose deadline was more than a second ago and that have not fired, wherever they wait: " +
				"also those that were put off to a later try, or are parked." + sampled + capped,
			Look: "The log says once a minute how many, since when, and why as far as this node can tell.",
		},
		{
			Name: parkedMetric, Kind: Gauge, Labels: []string{"lane", "part"},
			Help: "Messages that wait for an output partition that does not answer: `part` is its number. The part " +
				"other is that of lanes that no route names, and of what is beyond 100 partitions of a lane." +
				sampled + capped,
			Look: "Which partition holds messages up. They come out within seconds of its return, and hold up no " +
				"others meanwhile.",
		},
		{
			Name: "chronos_oldest_overdue_seconds", Kind: Gauge, Labels: []string{"lane"},
			Help: "How long ago the deadline of the longest overdue message of the lane was; 0 if none is overdue." +
				sampled,
			Look: "More than the hold time (5 s): no node that serves the lane can publish on it.",
		},
		{
			Name: "chronos_next_due_timestamp_seconds", Kind: Gauge, Labels: []string{"lane"},
			Help: "When the next waiting message of the lane falls due; absent if none waits." + sampled,
		},
		{
			Name: "chronos_upcoming", Kind: Gauge, Labels: []string{"lane", "within"},
			Help: "Messages that fall due within a time from now: 1m, 10m, 1h, 24h, each containing the one before." +
				sampled + capped,
			Look: "What comes towards the consumers of the lane.",
		},
		{
			Name: "chronos_counts_estimated", Kind: Gauge, Labels: []string{"lane"},
			Help: "1 if some count of the lane is an estimate, because there is more than is counted.",
		},
		{
			Name: "chronos_sample_age_seconds", Kind: Gauge,
			Help: "How long ago the counts of what waits were taken.",
			Look: "More than a minute: the store is away, or wades through dead rows; see Postgres settings and " +
				"long transactions.",
		},
		{
			Name: "chronos_sample_errors_total", Kind: Counter,
			Help: "Samples of the store that failed, or ran into their time limit: 0.3 s for each count, 1.2 s for " +
				"all of a sample.",
		},
		{
			Name: "chronos_sample_duration_seconds", Kind: Gauge,
			Help: "How long the last sample of the store took.",
		},
	}
}

func stateRows() []Metric {
	const sampled = " Read from the store every 15 s by each node: take max over nodes, not sum."
	return []Metric{
		{
			Name: "chronos_nodes", Kind: Gauge, Labels: []string{"state"},
			Help: "Nodes that the store has seen in the last quarter of an hour: ready, not_ready, or silent for " +
				"more than 10 s, which have died or do not reach the store. One that is stopped is forgotten at once." +
				sampled,
			Look: "`chronos top` names them.",
		},
		{
			Name: "chronos_paused", Kind: Gauge, Labels: []string{"lane"},
			Help: "1 for a lane that somebody has paused: nothing comes out of it until somebody resumes it.",
			Look: "The log of each node says by whom and why, and so does `/v1/pauses`.",
		},
		{
			Name: "chronos_lane_open", Kind: Gauge, Labels: []string{"lane"},
			Help: "1 for a lane that routes name and that is open by the clock of this node, 0 for one that its " +
				"window has closed.",
			Look: "What waits for a closed lane is not overdue. If nodes differ for longer than a moment, so do " +
				"their windows, their zones' rules or their clocks: `chronos doctor` says which.",
		},
		{
			Name: "chronos_lane_changes_timestamp_seconds", Kind: Gauge, Labels: []string{"lane"},
			Help: "When a lane with a window opens or closes next, in seconds since 1970. Missing if it never does.",
		},
		{
			Name: "chronos_intake_paused", Kind: Gauge,
			Help: "1 while somebody has paused the intake: nothing is taken in from any topic.",
			Look: "As for a lane. The input topics keep what comes for their retention.",
		},
		{
			Name: "chronos_lineage", Kind: Gauge,
			Help: "The number of the store's history, as far as this node knows. It goes up when the store was set " +
				"back.",
		},
		{
			Name: "chronos_catching_up", Kind: Gauge,
			Help: "1 while nothing fires, because the store was set back and takes in again what it has lost.",
			Look: "After a restore, a failover or a rewind: wait. Otherwise find out who has done that.",
		},
	}
}

func peerRows() []Metric {
	return []Metric{
		{
			Name: "chronos_suspicions_total", Kind: Counter,
			Help: "Times that this node has found claims of a node that seems to have failed.",
			Look: "Fine after a crash. Otherwise the nodes are slow, or stopped for longer than the hold time.",
		},
		{
			Name: "chronos_recovered_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Messages that this node has taken back from nodes that seem to have failed.",
		},
		{
			Name: "chronos_locked_total", Kind: Counter, Labels: []string{"cause"},
			Help: "Times that another session had locked what was to be settled (message), or what the next record " +
				"of an input partition is about (record). Both are tried again; everything else goes on.",
			Look: "SELECT * FROM pg_locks JOIN pg_stat_activity USING (pid): end the session that has forgotten its " +
				"transaction.",
		},
		{
			Name: "chronos_duplicate_risk_total", Kind: Counter, Labels: []string{"cause"},
			Help: "Messages that may come out twice, by why: recovered (their owner may have published them), " +
				"gone_already (a peer has fired them as well), unknown_outcome (a publish without an answer is " +
				"repeated), left_behind (fired, and the store could not be told before this node stopped).",
			Look: "Consumers that must not see duplicates ignore ids that they have seen.",
		},
		{
			Name: "chronos_abandoned_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Claims that this node gave up because they had become too old to be published safely.",
			Look: "The store or this machine is slow: see `chronos_port_call_duration_seconds` and CPU.",
		},
		{
			Name: "chronos_released_total", Kind: Counter, Labels: []string{"lane"},
			Help: "Claims that this node gave back to the store.",
		},
		{
			Name: "chronos_settings_differ_total", Kind: Counter, Labels: []string{"setting"},
			Help: "Values of a setting of other nodes that differ from this node's.",
			Look: "Give all nodes the same settings.",
		},
		{
			Name: "chronos_group_left_total", Kind: Counter,
			Help: "Times that this node gave its partitions up because it could not reach the store.",
		},
	}
}

func nodeRows() []Metric {
	return []Metric{
		{
			Name: "chronos_build_info", Kind: Gauge, Labels: []string{"version", "goversion"},
			Help: "1, with the version of the program.",
		},
		{
			Name: "chronos_ready", Kind: Gauge,
			Help: "1 if /readyz answers that this node can do its work.",
		},
		{
			Name: "chronos_hears", Kind: Gauge,
			Help: "1 if this node hears by LISTEN what other processes store in Postgres, as it proves every 5 s, " +
				"and so may rest while nothing is due (idle-interval); 0 if it looks once in each poll interval for " +
				"that. Missing where nobody else can store anything, and where idle-interval is 0.",
			Look: "Always 0: --pgbouncer is set, or a pooler that shares connections stands before Postgres.",
		},
		{
			Name: "chronos_schedule_messages", Kind: Gauge, Labels: []string{"lane"},
			Help: "Claims that wait in this node for their instant.",
		},
		{
			Name: "chronos_schedule_fill_ratio", Kind: Gauge, Labels: []string{"lane"},
			Help: "How much of this node's room for claims of the lane is taken, by messages or bytes.",
			Look: "At 1 the lane is claimed no further: publishing is what is slow.",
		},
		{
			Name: "chronos_timing_advance_seconds", Kind: Gauge,
			Help: "How long before its deadline a message is published.",
		},
		{
			Name: "chronos_loop_turns_total", Kind: Counter, Labels: []string{"loop"},
			Help: "Calls and rests that the loops of an operation have finished.",
			Look: "An operation whose rate is zero for minutes is stuck; /livez says so.",
		},
		{
			Name: "chronos_loop_overruns_total", Kind: Counter, Labels: []string{"loop"},
			Help: "Calls that took longer than they may, and rests that took half a second longer than was asked for.",
			Look: "Rests that overrun: this process does not get its CPU, or is stopped now and then.",
		},
	}
}

// quotaRow is about what Kafka lets a node have.
func quotaRow() Metric {
	return Metric{
		Name: "chronos_throttled_seconds_total", Kind: Counter, Labels: []string{"client"},
		Help: "How long brokers have told this node to wait because a quota of its user or its client id is used up, " +
			"added up over their answers, by the purpose of the client: source, sink, admin.",
		Look: "More than zero: what the node publishes or reads is late by that. Raise the quota " +
			"(`kafka-configs.sh --describe --entity-type users`), or give the node a user of its own.",
	}
}

// intakeRow is about how long records wait to be taken in.
func intakeRow() Metric {
	return Metric{
		Name: "chronos_intake_waiting_seconds", Kind: Gauge, Labels: []string{"topic", "partition"},
		Help: "For how long, at least, a record of an input partition of this node has waited to be taken in; 0 " +
			"if none waits. A partition that the node has given up, because it could not take it in, is among them " +
			"until another node has.",
		Look: "Above a minute: intake stands, or is behind. `/readyz?verbose` says which, and why.",
	}
}

// operationRow is about each call of a port by itself.
func operationRow() Metric {
	return Metric{
		Name: "chronos_operation_failing_seconds", Kind: Gauge, Labels: []string{"port", "call"},
		Help: "For how long a call has not gone well although it was tried; 0 if all is well. Each call is " +
			"judged by itself: take may fail, for want of space, while claim goes well.",
		Look: "The log has a line when it begins, with the error, one every 30 s, and one when it is over. " +
			"take: nothing is taken in. claim: nothing fires. settle: what fires may fire again.",
	}
}

func portRows() []Metric {
	return []Metric{
		{
			Name: "chronos_port_call_duration_seconds", Kind: Histogram, Labels: []string{"port", "call"},
			Buckets: callBuckets(),
			Help: "How long calls of the store, the source and the sink took, with the failed ones. A poll waits " +
				"for records.",
		},
		{
			Name: "chronos_port_errors_total", Kind: Counter, Labels: []string{"port", "call"},
			Help: "Calls that failed; of a publish, those of which all records failed.",
		},
		operationRow(),
		{
			Name: "chronos_clock_offset_seconds", Kind: Gauge, Labels: []string{"to"},
			Help: "How far the clock of the store is ahead of this node's, to half the time of a round trip.",
			Look: "Messages fire by the clocks of the nodes: keep these right. More than 0.3 s: look at NTP.",
		},
		{
			Name: "chronos_store_pool_connections", Kind: Gauge, Labels: []string{"state"},
			Help: "Connections to Postgres: acquired, idle, constructing, and max, how many there may be.",
		},
		{
			Name: "chronos_store_pool_acquires_total", Kind: Counter,
			Help: "Connections that calls have taken from the pool.",
		},
		{
			Name: "chronos_store_pool_waits_total", Kind: Counter,
			Help: "Calls that had to wait for a connection.",
			Look: "Its rate near that of acquires: raise `pool_max_conns` in the URL of the store.",
		},
		{
			Name: "chronos_store_pool_wait_seconds_total", Kind: Counter,
			Help: "Time that calls have waited for a connection.",
		},
		{
			Name: "chronos_journal_takeovers_total", Kind: Counter, Labels: []string{"result"},
			Help: "Attempts to take over a partition of the journal, where that is the store: owned or failed.",
			Look: "Its rate says how often partitions move, or are taken back after a transaction whose outcome was " +
				"unknown. Failed: the log says why.",
		},
		{
			Name: "chronos_journal_replay_left", Kind: Gauge,
			Help: "Entries of the journal, at most, that this node has to read before it takes in and fires what is " +
				"in the partitions that it is taking over.",
			Look: "It falls. While it is not zero, the messages of those partitions wait.",
		},
		{
			Name: "chronos_journal_standby_copies", Kind: Gauge, Labels: []string{"state"},
			Help: "Copies of partitions of the journal that other nodes own, with --standby. Warm: it has come to " +
				"the end of the journal. Cold: it is still being made.",
			Look: "All are warm a few minutes after the start. A takeover of a cold one reads the rest first.",
		},
		{
			Name: "chronos_journal_unreadable", Kind: Gauge,
			Help: "Entries of the journal that this release cannot read, in the partitions that this node was given.",
			Look: "It is 0. While it is not, a partition is not served, or its next owner will not be able to serve " +
				"it. The log has the offset and the key; `chronos journal skip` gets past it.",
		},
		{
			Name: "chronos_journal_standby_behind", Kind: Gauge,
			Help: "Entries of the journal, at most, that those copies together lacked when the node looked last, " +
				"which it does every two seconds.",
			Look: "It stays at what is written in a few seconds. If it grows, this node is too slow to follow, and " +
				"takeovers take longer.",
		},
	}
}
