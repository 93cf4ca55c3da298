package sqlite

// Query is a statement, and how it has to look for messages.
type Query struct {
	Text string
	Plan []string
}

// Queries returns all statements that look for messages, by the call that uses them.
func Queries() map[string]Query {
	const (
		byKey   = "SEARCH messages USING INDEX sqlite_autoindex_messages_1 (id=? AND lane=?)"
		byRow   = "SEARCH messages USING INTEGER PRIMARY KEY (rowid=?)"
		byClaim = "SEARCH messages USING INDEX messages_claimed "
		waiting = "SEARCH messages USING INDEX messages_waiting "
	)
	return map[string]Query{
		"take":    {findText, []string{byKey}},
		"replace": {replaceText, []string{byKey}},
		"alter":   {alterText, []string{byRow}},
		"due":     {dueText, []string{waiting + "(lane=? AND part=? AND due_at>? AND due_at<?)"}},
		"claim":   {claimText, []string{byRow}},
		"delete":  {removeText, []string{byKey}},
		"rearm":   {rearmText, []string{byKey}},
		"expired": {expiredText, []string{byClaim + "(expires_at<?)"}},
		"reset": {resetText, []string{
			byKey, "SEARCH m USING COVERING INDEX messages_line (line=? AND lane=? AND deadline<?)",
		}},
		"held":  {heldText, []string{byClaim + "(expires_at>?)"}},
		"moved": {movedText, []string{"SEARCH messages USING INDEX sqlite_autoindex_messages_1 ((id,lane)>(?,?))"}},
		"idle": {idleText, []string{
			"SCAN messages USING INDEX messages_claimed", // for the first
			waiting + "(lane=? AND part>?)", waiting + "(lane=? AND part=? AND due_at<?)",
		}},
		"parts": {partsText, []string{
			"SCAN messages USING INDEX messages_waiting", // for the first
			waiting + "(lane=? AND part>?)", waiting + "(lane>?)",
		}},
		"slice":   {waitingSliceText, []string{waiting + "(lane=? AND part=? AND due_at>? AND due_at<?)"}},
		"overdue": {overdueText, []string{waiting + "(lane=? AND part=? AND due_at<?)"}},
		"deferred": {deferredText, []string{
			"SEARCH messages USING COVERING INDEX messages_deferred (lane=? AND deadline<?)",
		}},
		"coming": {comingText, []string{waiting + "(lane=? AND part=? AND due_at>?)", "USE TEMP B-TREE FOR GROUP BY"}},
		"parked": {parkedText, []string{waiting + "(lane=? AND part>?)", waiting + "(lane=? AND part>?)"}},
	}
}
