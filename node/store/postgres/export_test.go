package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Statements are the texts of all statements.
func Statements() map[string]string {
	return map[string]string{
		"lock_partitions": lockPartitionsStatement, "positions": positionsStatement,
		"lock_messages": lockMessagesStatement, "state": stateStatement, "insert": insertStatement,
		"move": moveStatement, "forget": forgetStatement, "mark": markStatement,
		"lock_store": lockStoreStatement, "bind": bindStatement, "begin_lineage": beginStatement,
		"add_partitions": addPartitionsStatement, "add_positions": addPositionsStatement,
		"lock_all": lockAllStatement, "count": countStatement,
		"claim": claimStatement, "look": lookStatement, "delete": deleteStatement, "expired": expiredStatement,
		"reset": resetStatement,
	}
}

// Run executes a statement as the calls of s do, and returns its rows, of one text each.
func Run(ctx context.Context, s *Store, statement string, arguments ...any) (list []string, err error) {
	err = s.once(ctx, func() { list = nil }, step{
		statement: statement, arguments: arguments, read: func(rows pgx.Rows) error {
			var text string
			err := rows.Scan(&text)
			list = append(list, text)
			return err
		},
	})
	return list, err
}
