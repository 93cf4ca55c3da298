package sqlite

// Query is a statement and a word that the plan for it must have.
type Query struct{ Text, Plan string }

// Queries returns all statements that look for rows, by the call that uses them.
func Queries() map[string]Query {
	const byKey = "USING INDEX sqlite_autoindex_hanger_1 (id=? AND topic=?)"
	return map[string]Query{
		"insert":  {findText, byKey},
		"present": {presentText, "USING COVERING INDEX sqlite_autoindex_hanger_1 (id=? AND topic=?)"},
		"ready":   {dueText, "USING INDEX hanger_waiting (due_at<?)"},
		"claim":   {claimText, "USING INTEGER PRIMARY KEY (rowid=?)"},
		"delete":  {removeText, byKey},
		"stuck":   {stuckText, "USING INDEX hanger_ready (readied_at>? AND readied_at<?)"},
		"reset":   {resetText, byKey},
	}
}
