package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"chronos/node/store/postgres/marks"
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

// UseMarks has the next claims on a lane start at the mark, below which nothing waited at that time.
func UseMarks(s *Store, lane string, mark, now time.Time) {
	s.waiting.use([]string{lane}, map[string]marks.Place{lane: {Due: mark}}, now, now.Add(-time.Hour))
}
