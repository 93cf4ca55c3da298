package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// The SQLSTATEs with which a server refuses whatever is asked, until somebody changes a setting or the server.
const (
	invalidPassword       = "28P01"
	invalidAuthorization  = "28000" // no such role, or no line for it in pg_hba.conf
	invalidCatalogName    = "3D000" // no such database
	insufficientPrivilege = "42501"
)

// Remedy returns what somebody has to do about an error, in one sentence with what the server says. It returns "" for
// an error that may be gone at the next try.
func Remedy(err error) string {
	var refusal *pgconn.PgError
	if !errors.As(err, &refusal) {
		return ""
	}
	var remedy string
	switch refusal.Code {
	case invalidPassword:
		remedy = "set the right password, with --store-password-file or in --store"
	case invalidAuthorization:
		remedy = "set the right user in --store, or let it in by pg_hba.conf"
	case invalidCatalogName:
		remedy = "create the database, or set the right one in --store"
	case insufficientPrivilege:
		remedy = "grant that to the user of --store, or migrate as the owner of the table"
	default:
		return ""
	}
	return fmt.Sprintf("Postgres says %q: %s", refusal.Message, remedy)
}
