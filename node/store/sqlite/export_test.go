package sqlite

// Query is a statement and a word that the plan for it must have.
type Query struct{ Text, Plan string }

// Behind is how statements look in a line for who stands before a message.
const Behind = "SEARCH m USING COVERING INDEX messages_line (line=? AND lane=? AND deadline<?)"

// Queries returns all statements that look for messages, by the call that uses them.
func Queries() map[string]Query {
	const byKey = "USING INDEX sqlite_autoindex_messages_1 (id=? AND lane=?)"
	return map[string]Query{
		"take":    {findText, byKey},
		"replace": {replaceText, byKey},
		"alter":   {alterText, "USING INTEGER PRIMARY KEY (rowid=?)"},
		"due":     {dueText, "USING INDEX messages_waiting (lane=? AND due_at>? AND due_at<?)"},
		"claim":   {claimText, "USING INTEGER PRIMARY KEY (rowid=?)"},
		"delete":  {removeText, byKey},
		"rearm":   {rearmText, byKey},
		"expired": {expiredText, "USING INDEX messages_claimed (expires_at<?)"},
		"reset":   {resetText, byKey},
		"held":    {heldText, "USING INDEX messages_claimed (expires_at>?)"},
		"moved":   {movedText, "USING INDEX sqlite_autoindex_messages_1 ((id,lane)>(?,?))"},
	}
}
