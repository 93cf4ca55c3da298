package postgres

// Grant is what a role has to be allowed to do with a table.
type Grant struct {
	Table      string
	Privileges []string
}

// Grants returns exactly what the role of a node needs, besides USAGE on the schema. Whoever migrates owns the tables.
// TestGrants shows that this is enough, and that nothing of it can be left out.
func Grants() []Grant {
	return []Grant{
		{"actions", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{"answers", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}}, // UPDATE to lock what expired: no row is changed
		{"chronos_migrations", []string{"SELECT"}},
		{"messages", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{"nodes", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{"partitions", []string{"SELECT", "INSERT", "UPDATE"}},
		{"pauses", []string{"SELECT", "INSERT", "DELETE"}},
		{"positions", []string{"SELECT", "INSERT", "DELETE"}},
		{"queue_paths", []string{"SELECT", "INSERT", "DELETE"}},
		{"queues", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
		{"store", []string{"SELECT", "UPDATE"}},
		{"tasks", []string{"SELECT", "INSERT", "UPDATE", "DELETE"}},
	}
}
