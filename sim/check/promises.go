package check

// queued are the invariants about queues and tasks.
func queued() []Invariant {
	return []Invariant{
		{
			"S31", "Behind closed windows",
			`No task starts while its queue is closed, or one that contains it is, by the clock of the store at the
			instant of the transaction that starts it.`,
			[]Kind{Begin},
			[]Kind{PutQueue, DropQueue, QueueGone, Arrive},
			s31,
		},
		{
			"S32", "One at a time",
			`At most one task of a sync queue is between its start and its completion, whatever nodes do; and a task
			starts once, unless the store was set back.`,
			[]Kind{Begin},
			[]Kind{PutQueue, Arrive, Done, Withdraw},
			s32,
		},
		{
			"S33", "Order of tasks",
			`When a task of a sync queue starts, none waits there that has a higher priority, or the same and arrived
			earlier; and no task of an async queue starts before its time, by the clock of the store.`,
			[]Kind{Begin},
			[]Kind{PutQueue, Arrive, Done, Withdraw},
			s33,
		},
		{
			"S34", "Promises of tasks",
			`A run of a task is completed once, and each action of its promise is stored once for that, in the same
			transaction, and asked for at least once when the world has healed, and never before. The same goes for
			its execution and its start. Whoever completes a run is told what became of it. A store that is set back
			may forget a completion, and then asks for all of that again.`,
			[]Kind{Done, Promise, Call, Told, End},
			[]Kind{Arrive, Begin, Done},
			s34,
		},
	}
}

// queuedInTime are those about how soon something happens to them.
func queuedInTime() []Invariant {
	return []Invariant{
		{
			"L18", "Started",
			`As long as nothing has gone wrong, and after the healing, a task that waits is started within a look, which
			is 1.1 s and the calls that it takes, once its queue is open and all that contain it: in a sync queue the
			first one, when none runs, and in an async queue each one at its time. A task that somebody was told is
			accepted waits, or is started, until it is done or somebody deletes it, or its queue without running what
			waits; unless the store was set back.`,
			[]Kind{Begin, Accept, Withdraw, QueueGone, End},
			[]Kind{PutQueue, DropQueue, Arrive, Done, Fault, Heal},
			l18,
		},
		{
			"L19", "Time limits of tasks",
			`As long as nothing has gone wrong, and after the healing, no task runs for longer than the time limit of
			its queue, by the clock of the store, and a look.`,
			[]Kind{Done, End},
			[]Kind{PutQueue, Arrive, Begin, Fault, Heal},
			l19,
		},
	}
}

// shared are those about what lanes and their parts do to each other.
func shared() []Invariant {
	return []Invariant{
		{
			"L20", "Shared",
			`As long as some node is well, with a wall clock that nobody has set, and nothing has gone wrong for a
			while, a message that is stored within a second after it fell due, or before, on a lane without a pace, a
			window or lines, is claimed within two poll intervals and the calls on the way, whatever backlog its lane
			has, and a poll interval and the calls on the way later for each quarter of a share of a claim of others
			that fell due less than two seconds before it. And of what is claimed on the lane while a message
			waits, no more fell due later than it than fell due earlier, except for one claim of each node.`,
			[]Kind{Claim, End},
			[]Kind{Insert, Reset, Delete, Fault, Start, Crash, Stop, Cut},
			l20,
		},
		{
			"L21", "Beside a silent partition",
			`As long as nothing else has gone wrong than that single partitions of output topics hang, a message for
			another partition of such a topic comes out in time all the same, whatever waits for those that hang, if
			it is stored within a second after it fell due, or before, on a lane without a pace or a window: within
			the bound of L20, and a turn of a publish; and a retry later, if it has no key and was tried on one that
			hangs.`,
			[]Kind{Fire},
			[]Kind{Submit, Fault, Hang},
			l21,
		},
		{
			"L22", "By way of a peer",
			`As long as nothing else has gone wrong than that nodes do not reach single partitions of output topics, or
			that partitions hang, a message for one that some node reaches all the time comes out, whatever the clocks
			of the nodes say, if it is stored as for L21: within the bound of that, and a look for claims that have
			expired.`,
			[]Kind{Fire},
			[]Kind{Submit, Fault, Hang, Unreached},
			l22,
		},
		{
			"L23", "Parked once",
			`While a partition does not answer a node, that node claims each message for it once, and ten at each probe:
			after 1 s, doubling to 5 s, give or take a fifth.`,
			[]Kind{Reset},
			[]Kind{Insert, Fire},
			l23,
		},
		{
			"L24", "Back",
			`As long as nothing else has gone wrong than that single partitions hang, or that nodes do not reach them, a
			parked message comes out soon after its partition answers all nodes: within a probe, which is 6 s, twice a
			publish, and the bound of L20, where all that was parked on its lane counts as due with it.`,
			[]Kind{Fire},
			[]Kind{Submit, Insert, Reset, Fault, Hang, Unreached},
			l24,
		},
	}
}
