package node

// Name returns the name.
func (Started) Name() string { return "Started" }

// Fields returns what is to be known.
func (e Started) Fields() []Field { return []Field{{"node_id", e.NodeID.String()}} }

// Name returns the name.
func (Failed) Name() string { return "Failed" }

// Fields returns what is to be known.
func (e Failed) Fields() []Field {
	return []Field{
		{"operation", string(e.Operation)},
		{"port", string(e.Port)},
		{"lane", e.Lane},
		{"call", e.Call},
		{"error", e.Err},
		{"attempt", e.Attempt},
	}
}

// Name returns the name.
func (Resumed) Name() string { return "Resumed" }

// Fields returns what is to be known.
func (e Resumed) Fields() []Field {
	return []Field{
		{"operation", string(e.Operation)},
		{"port", string(e.Port)},
		{"lane", e.Lane},
		{"attempts", e.Attempts},
		{"outage", e.Outage},
	}
}

// Name returns the name.
func (Polled) Name() string { return "Polled" }

// Fields returns what is to be known.
func (e Polled) Fields() []Field { return []Field{{"records", e.Records}} }

// Name returns the name.
func (Assigned) Name() string { return "Assigned" }

// Fields returns what is to be known.
func (e Assigned) Fields() []Field {
	return []Field{{"partitions", len(e.Starts)}, {"records", int(e.Waiting())}}
}

// Name returns the name.
func (StartedOver) Name() string { return "StartedOver" }

// Fields returns what is to be known.
func (e StartedOver) Fields() []Field { return []Field{{"partitions", len(e.Places)}} }

// Name returns the name.
func (RecordsLost) Name() string { return "RecordsLost" }

// Fields returns what is to be known.
func (e RecordsLost) Fields() []Field {
	return []Field{{"partitions", len(e.Losses)}, {"records_at_most", int(e.AtMost())}}
}

// Name returns the name.
func (LineageChanged) Name() string { return "LineageChanged" }

// Fields returns what is to be known.
func (e LineageChanged) Fields() []Field {
	return []Field{{"from", int(e.From)}, {"to", int(e.To)}, {"forgotten", len(e.Forgotten)}}
}

// Name returns the name.
func (CatchingUp) Name() string { return "CatchingUp" }

// Fields returns what is to be known.
func (e CatchingUp) Fields() []Field {
	return []Field{{"from", int(e.From)}, {"to", int(e.To)}, {"partitions", len(e.Marks)}}
}

// Name returns the name.
func (CaughtUp) Name() string { return "CaughtUp" }

// Fields returns what is to be known.
func (e CaughtUp) Fields() []Field { return []Field{{"lineage", int(e.Lineage)}} }

// Name returns the name.
func (Committed) Name() string { return "Committed" }

// Fields returns what is to be known.
func (e Committed) Fields() []Field { return []Field{{"partitions", len(e.Places)}} }

// Name returns the name.
func (SkippedTaken) Name() string { return "SkippedTaken" }

// Fields returns what is to be known.
func (e SkippedTaken) Fields() []Field { return []Field{{"records", e.Records}} }

// Name returns the name.
func (SettingsDiffer) Name() string { return "SettingsDiffer" }

// Fields returns what is to be known.
func (e SettingsDiffer) Fields() []Field {
	return []Field{
		{"setting", e.Setting},
		{"ours", e.Ours},
		{"theirs", e.Theirs},
		{"node", e.Node.String()},
	}
}

// Name returns the name.
func (IntakePaused) Name() string { return "IntakePaused" }

// Fields returns what is to be known.
func (IntakePaused) Fields() []Field { return nil }

// Name returns the name.
func (IntakeResumed) Name() string { return "IntakeResumed" }

// Fields returns what is to be known.
func (IntakeResumed) Fields() []Field { return nil }

// Name returns the name.
func (LeftGroup) Name() string { return "LeftGroup" }

// Fields returns what is to be known.
func (e LeftGroup) Fields() []Field { return []Field{{"outage", e.Outage}} }

// Name returns the name.
func (Rejected) Name() string { return "Rejected" }

// Fields returns what is to be known.
func (e Rejected) Fields() []Field {
	return []Field{
		{"topic", e.Record.Topic},
		{"partition", int(e.Record.Partition)},
		{"offset", int(e.Record.Offset)},
		{"reason", string(e.Reason)},
		{"detail", e.Detail},
		{"copied_to", e.DeadLetter},
	}
}

// Name returns the name.
func (Enqueued) Name() string { return "Enqueued" }

// Fields returns what is to be known.
func (e Enqueued) Fields() []Field { return []Field{{"messages", len(e.Messages)}} }

// Name returns the name.
func (Ignored) Name() string { return "Ignored" }

// Fields returns what is to be known.
func (e Ignored) Fields() []Field { return []Field{{"messages", len(e.Messages)}} }

// Name returns the name.
func (Decided) Name() string { return "Decided" }

// Fields returns what is to be known.
func (e Decided) Fields() []Field { return []Field{{"instructions", len(e.Decisions)}} }

// Name returns the name.
func (Lapsed) Name() string { return "Lapsed" }

// Fields returns what is to be known.
func (e Lapsed) Fields() []Field { return []Field{{"messages", len(e.Messages)}} }

// Name returns the name.
func (Recurred) Name() string { return "Recurred" }

// Fields returns what is to be known.
func (e Recurred) Fields() []Field { return []Field{{"messages", len(e.Next)}} }

// Name returns the name.
func (PassedOver) Name() string { return "PassedOver" }

// Fields returns what is to be known.
func (e PassedOver) Fields() []Field { return []Field{{"messages", len(e.Next)}} }

// Name returns the name.
func (Claimed) Name() string { return "Claimed" }

// Fields returns what is to be known.
func (e Claimed) Fields() []Field { return []Field{{"messages", len(e.Messages)}} }

// Name returns the name.
func (Fired) Name() string { return "Fired" }

// Fields returns what is to be known.
func (e Fired) Fields() []Field { return []Field{{"messages", len(e.Messages)}, {"at", e.At}} }

// Name returns the name.
func (Unpublished) Name() string { return "Unpublished" }

// Fields returns what is to be known.
func (e Unpublished) Fields() []Field {
	return []Field{
		{"messages", len(e.Messages)},
		{"error", e.Err},
		{"retry", e.Retry},
		{"permanent", e.Permanent},
	}
}

// Name returns the name.
func (DeadLettered) Name() string { return "DeadLettered" }

// Fields returns what is to be known.
func (e DeadLettered) Fields() []Field { return []Field{{"messages", len(e.Messages)}} }

// Name returns the name.
func (GaveUp) Name() string { return "GaveUp" }

// Fields returns what is to be known.
func (e GaveUp) Fields() []Field {
	return []Field{
		{"lane", e.Message.Lane},
		{"error", e.Err},
		{"copied_to", e.DeadLetter},
		{"took", e.Took},
	}
}

// Name returns the name.
func (Deleted) Name() string { return "Deleted" }

// Fields returns what is to be known.
func (e Deleted) Fields() []Field { return []Field{{"messages", len(e.Refs)}} }

// Name returns the name.
func (Missing) Name() string { return "Missing" }

// Fields returns what is to be known.
func (e Missing) Fields() []Field {
	return []Field{{"messages", len(e.Refs)}, {"repeated", e.Repeated}}
}

// Name returns the name.
func (Abandoned) Name() string { return "Abandoned" }

// Fields returns what is to be known.
func (e Abandoned) Fields() []Field { return []Field{{"messages", len(e.Claims)}} }

// Name returns the name.
func (Released) Name() string { return "Released" }

// Fields returns what is to be known.
func (e Released) Fields() []Field { return []Field{{"messages", len(e.Claims)}} }

// Name returns the name.
func (Suspected) Name() string { return "Suspected" }

// Fields returns what is to be known.
func (e Suspected) Fields() []Field { return []Field{{"messages", len(e.Claims)}} }

// Name returns the name.
func (RowsLocked) Name() string { return "RowsLocked" }

// Fields returns what is to be known.
func (e RowsLocked) Fields() []Field {
	return []Field{{"messages", len(e.Messages)}, {"partitions", len(e.Blocked)}}
}

// Name returns the name.
func (LeftBehind) Name() string { return "LeftBehind" }

// Fields returns what is to be known.
func (e LeftBehind) Fields() []Field { return []Field{{"claims", e.Claims}, {"fired", e.Fired}} }
