package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Statements are the texts of all statements.
func Statements() map[string]string {
	return map[string]string{
		"insert": insertStatement, "lookup": lookupStatement, "present": presentStatement,
		"ready": readyStatement, "delete": deleteStatement, "stuck": stuckStatement, "reset": resetStatement,
	}
}

// Looks are the texts of the statements that look from a mark on, and those that move positions.
func Looks() map[string]string {
	return map[string]string{
		"claim": claimStatement, "look": lookStatement, "expired": expiredStatement,
		"lock": lockPartitionsStatement, "positions": positionsStatement, "move": moveStatement, "forget": forgetStatement,
	}
}

// Run executes a statement as the calls of s do, and returns its rows, of one text each.
func Run(ctx context.Context, s *Store, statement string, arguments ...any) ([]string, error) {
	return collect(ctx, s, func(rows pgx.Rows, text *string) error { return rows.Scan(text) },
		statement, arguments...)
}
