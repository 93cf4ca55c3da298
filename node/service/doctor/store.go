package doctor

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"chronos/migrations"
	"chronos/node/service"
	"chronos/node/store/postgres"
)

// storeRemedied adds what to do to an error, where it is known.
func storeRemedied(err error) error {
	if sentence := postgres.Remedy(err); sentence != "" {
		return errors.New(sentence)
	}
	return err
}

// store sees whether the store answers, and what it is.
func (e *examination) store(ctx context.Context) (string, error) {
	if e.noStore != nil {
		return "", e.noStore
	}
	if e.dialect == migrations.SQLite {
		var version string
		err := e.db.QueryRowContext(ctx, "SELECT sqlite_version() FROM (SELECT count(*) FROM "+
			"sqlite_schema)").Scan(&version)
		if err != nil {
			return "", fmt.Errorf("%w: if a node has the file, stop that first", err)
		}
		return "SQLite " + version, nil
	}
	var version, encoding string
	var encrypted, replica bool
	err := e.db.QueryRowContext(ctx, `
SELECT current_setting('server_version'), current_setting('server_encoding'),
  coalesce((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false), pg_is_in_recovery()`).
		Scan(&version, &encoding, &encrypted, &replica)
	if err != nil {
		return "", storeRemedied(err)
	}
	about := "Postgres"
	number := 0
	if _, err := fmt.Sscanf(version, "%d", &number); err == nil && number < 14 {
		e.find(Error, about, "its version is "+version, "Chronos needs 14 or newer.", "Upgrade it.")
	}
	if encoding != "UTF8" {
		e.find(Error, about, "the database's encoding is "+encoding, "Nodes refuse it: not every id can be stored.",
			"Create a database with ENCODING 'UTF8'.")
	}
	if replica {
		e.find(Error, about, "this server is a standby", "Nodes do not use it: it lags, and takes no writes.",
			"Set --store to the primary, or name all servers in it with target_session_attrs=read-write.")
	}
	if address := e.config.Store.URL(); address != nil {
		e.encryption(about, []string{address.Hostname()}, encrypted, "sslmode=verify-full and sslrootcert in the URL "+
			"of --store")
		if mode := address.Query().Get("sslmode"); encrypted && mode != "verify-full" && !isLocal(address.Hostname()) {
			e.find(Warning, about, "the server's certificate is not checked: sslmode is "+orDefault(mode,
				"prefer, the default"),
				"Whoever is on the network between can pass for the server.",
				"Set sslmode=verify-full and sslrootcert in the URL of --store.")
		}
	}
	return "PostgreSQL " + version, nil
}

func orDefault(text, fallback string) string {
	if text == "" {
		return fallback
	}
	return text
}

// schema sees whether the schema is that of this program.
func (e *examination) schema(ctx context.Context) (string, error) {
	err := migrations.Check(ctx, e.db, e.dialect)
	var old *migrations.OutOfDateError
	var young *migrations.TooNewError
	switch {
	case errors.As(err, &old):
		e.noTables = errors.New("the schema is not that of this program")
		e.find(Error, "the schema", "is out of date: "+oneLine(err), "Nodes of this version do not start.",
			"Run chronos migrate up, as the owner of the tables.")
		return "out of date", nil
	case errors.As(err, &young):
		e.noTables = errors.New("the schema is not that of this program")
		e.find(Error, "the schema", "is newer than this program: "+oneLine(err), "Nodes of this version do not start.",
			"Use the program that the store was migrated by.")
		return "too new", nil
	case err != nil:
		e.noTables = errors.New("the schema could not be looked at")
		return "", storeRemedied(err)
	}
	status, err := migrations.Status(ctx, e.db, e.dialect)
	if err != nil {
		return "", storeRemedied(err)
	}
	if last := status[len(status)-1]; last.Name == "" {
		e.find(Note, "the schema", fmt.Sprintf("is at version %d, the one after that of this program", last.Version),
			"Nodes of both releases work with it: an upgrade is under way, or was taken back.",
			"Finish the upgrade when you can: what the newer release brings needs all nodes.")
		return "one version ahead", nil
	}
	return "up to date", nil
}

// grants sees whether the role may do what a node does.
func (e *examination) grants(ctx context.Context) (string, error) {
	var role string
	if err := e.db.QueryRowContext(ctx, "SELECT current_user").Scan(&role); err != nil {
		return "", err
	}
	for _, g := range postgres.Grants() {
		for _, privilege := range g.Privileges {
			var may bool
			// By its name where the search path finds it, whoever owns it.
			err := e.db.QueryRowContext(ctx, "SELECT has_table_privilege(to_regclass($1::text), $2::text)", g.Table,
				privilege).
				Scan(&may)
			if err != nil {
				return "", err
			}
			if !may {
				e.find(Error, "table "+g.Table, "the role "+role+" has no right to "+privilege,
					"Nodes with this role fail.", fmt.Sprintf("GRANT %s ON %s TO %s, as the owner of the table.",
						strings.Join(g.Privileges, ", "), g.Table, role))
				break
			}
		}
	}
	return "as role " + role, nil
}

// indexes sees whether the indexes of the migrations are there and whole.
func (e *examination) indexes(ctx context.Context) (string, error) {
	var text bytes.Buffer
	if err := migrations.Print(&text, e.dialect); err != nil {
		return "", err
	}
	wanted := map[string]string{} // by their names, the tables
	for _, m := range regexp.MustCompile(`(?im)^(CREATE(?: UNIQUE)?|DROP) INDEX (\w+)(?: ON (\w+))?`).
		FindAllStringSubmatch(text.String(), -1) {
		if strings.EqualFold(m[1], "DROP") {
			delete(wanted, m[2])
		} else {
			wanted[m[2]] = m[3]
		}
	}
	rows, err := e.db.QueryContext(ctx, `
SELECT index.relname, relation.relname, i.indisvalid, i.indisprimary
FROM pg_index i JOIN pg_class index ON index.oid = i.indexrelid JOIN pg_class relation ON relation.oid = i.indrelid
WHERE i.indrelid IN (to_regclass('messages'), to_regclass('partitions'), to_regclass('positions'), to_regclass('store'),
  to_regclass('pauses'), to_regclass('nodes'), to_regclass('answers'), to_regclass('queues'),
  to_regclass('queue_paths'), to_regclass('tasks'), to_regclass('actions'))`)
	if err != nil {
		return "", err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	there, keyed := 0, map[string]bool{}
	for rows.Next() {
		var index, table string
		var valid, primary bool
		if err := rows.Scan(&index, &table, &valid, &primary); err != nil {
			return "", err
		}
		there++
		delete(wanted, index)
		keyed[table] = keyed[table] || primary
		if !valid {
			e.find(Error, "index "+index, "is not valid", "It is not used: every look for due messages reads the "+
				"whole table.",
				"REINDEX INDEX CONCURRENTLY "+index+".")
		}
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	for _, table := range []string{
		"messages", "partitions", "positions", "store", "pauses", "nodes", "answers", "queues", "queue_paths", "tasks",
		"actions",
	} {
		if !keyed[table] {
			e.find(Error, "table "+table, "has no primary key", "Chronos may store a message twice, or fail.",
				"Put it back as chronos migrate print has it.")
		}
	}
	for _, index := range sorted(wanted) {
		e.find(Error, "index "+index, "does not exist",
			"Every look for what it is for reads the whole table: messages come late as soon as many wait.",
			"Create it as chronos migrate print has it, CONCURRENTLY if nodes run.")
	}
	return fmt.Sprintf("%d indexes", there), nil
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// durability sees whether the server keeps what it has committed.
func (e *examination) durability(ctx context.Context) (string, error) {
	for setting, means := range map[string]string{
		"fsync": "After a loss of power the database may be corrupt, and messages that Kafka has deleted " +
			"are lost for good.",
		"full_page_writes": "After a loss of power pages may be half written, and the database corrupt.",
	} {
		var value string
		if err := e.db.QueryRowContext(ctx, "SELECT current_setting($1::text)", setting).Scan(&value); err != nil {
			return "", err
		}
		if value != "on" {
			e.find(Error, "Postgres", setting+" is "+value, means, "Set "+setting+" = on in postgresql.conf, and "+
				"reload.")
		}
	}
	var names string
	var standbys, synchronous int
	err := e.db.QueryRowContext(ctx, `
SELECT current_setting('synchronous_standby_names'), count(*), count(*) FILTER (WHERE sync_state IN ('sync', 'quorum'))
FROM pg_stat_replication`).Scan(&names, &standbys, &synchronous)
	if err != nil {
		return "", err
	}
	switch {
	case names != "" && standbys == 0:
		e.find(Error, "Postgres", "synchronous_standby_names is set, and no standby is connected",
			"No commit ends: nothing is taken in or fired.", "Bring the standby back, or take it out of "+
				"synchronous_standby_names.")
	case names == "" && standbys > 0:
		e.find(Note, "Postgres", "has "+count(standbys, "standby")+", none of them synchronous",
			"After a failover the last moments are missing there. Chronos notices, takes in again what Kafka still "+
				"has, and "+
				"fires some messages twice.", "Set synchronous_standby_names, if duplicates after a failover matter.")
	}
	said := "fsync, full_page_writes"
	if names != "" {
		said += ", synchronous standbys"
	}
	return said, nil
}

// autovacuum sees whether dead rows are removed.
func (e *examination) autovacuum(ctx context.Context) (string, error) {
	for _, setting := range []string{"autovacuum", "track_counts"} {
		var value string
		if err := e.db.QueryRowContext(ctx, "SELECT current_setting($1::text)", setting).Scan(&value); err != nil {
			return "", err
		}
		if value != "on" {
			e.find(Error, "Postgres", setting+" is "+value,
				"Nothing removes the rows of messages that have fired: the tables grow, and firing slows down.",
				"Set "+setting+" = on in postgresql.conf, and reload.")
		}
	}
	rows, err := e.db.QueryContext(ctx, `
SELECT c.relname, coalesce(array_to_string(c.reloptions, ','), ''), s.n_live_tup, s.n_dead_tup
FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid
WHERE c.oid IN (to_regclass('messages'), to_regclass('positions')) ORDER BY 1`)
	if err != nil {
		return "", err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	dead := int64(0)
	for rows.Next() {
		var table, options string
		var alive, gone int64
		if err := rows.Scan(&table, &options, &alive, &gone); err != nil {
			return "", err
		}
		dead += gone
		if strings.Contains(options, "autovacuum_enabled=false") || strings.Contains(options,
			"autovacuum_enabled=off") {
			e.find(Error, "table "+table, "autovacuum is off for it",
				"Nothing removes its dead rows: it grows, and firing slows down.",
				"ALTER TABLE "+table+" RESET (autovacuum_enabled).")
		}
		if gone > 1_000_000 && gone > 2*alive {
			e.find(Warning, "table "+table, fmt.Sprintf("has %d dead rows and %d live ones", gone, alive),
				"Autovacuum does not keep up, or a long transaction keeps it from removing them: firing slows down.",
				"End long transactions; give autovacuum more (autovacuum_vacuum_cost_limit); VACUUM "+table+".")
		}
	}
	return fmt.Sprintf("%d dead rows", dead), rows.Err()
}

// longTransactions looks for what keeps dead rows alive.
func (e *examination) longTransactions(ctx context.Context) (string, error) {
	const means = "No row that has died since can be removed: messages that have fired stay in the way, and firing " +
		"slows down."
	rows, err := e.db.QueryContext(ctx, `
SELECT pid, coalesce(usename, ''), coalesce(application_name, ''), coalesce(state, ''),
  extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity
WHERE clock_timestamp() - xact_start > make_interval(secs => $1::float8) AND pid <> pg_backend_pid()
  AND backend_type IN ('client backend', 'walsender') AND (datname = current_database() OR datname IS NULL)
ORDER BY xact_start LIMIT 5`, e.options.LongTransaction.Seconds())
	if err != nil {
		return "", err
	}
	defer rows.Close() //nolint:errcheck // it was only read
	long := 0
	for rows.Next() {
		var pid int
		var role, application, state string
		var age float64
		if err := rows.Scan(&pid, &role, &application, &state, &age); err != nil {
			return "", err
		}
		long++
		e.find(Warning, fmt.Sprintf("session %d of %s, %s", pid, role, orDefault(application, "without a name")),
			fmt.Sprintf("is in a transaction for %s, %s", duration(time.Duration(age*float64(time.Second))), state),
			means,
			fmt.Sprintf("Find out what it does; SELECT pg_terminate_backend(%d) ends it.", pid))
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	if err := e.prepared(ctx, means); err != nil {
		return "", err
	}
	var sees bool
	err = e.db.QueryRowContext(ctx, "SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE')").Scan(&sees)
	if err != nil {
		return "", err
	}
	if !sees {
		e.find(Note, "Postgres", "the sessions of other roles cannot be seen", "Their transactions were not looked at.",
			"GRANT pg_monitor to the role of this command; nodes do not need it.")
	}
	return count(long, "long one"), nil
}

// prepared looks for transactions and slots that belong to no session.
func (e *examination) prepared(ctx context.Context, means string) error {
	var prepared, slots sql.NullString
	err := e.db.QueryRowContext(ctx, `
SELECT (SELECT string_agg(gid, ', ') FROM pg_prepared_xacts
    WHERE clock_timestamp() - prepared > make_interval(secs => $1::float8) AND database = current_database()),
  (SELECT string_agg(slot_name, ', ') FROM pg_replication_slots WHERE NOT active)`,
		e.options.LongTransaction.Seconds()).Scan(&prepared, &slots)
	if err != nil {
		return err
	}
	if prepared.Valid {
		e.find(Warning, "prepared transactions "+prepared.String, "wait for their end", means,
			"COMMIT PREPARED or ROLLBACK PREPARED each of them.")
	}
	if slots.Valid {
		e.find(Warning, "replication slots "+slots.String, "are not in use",
			"The server keeps its log for them, until the disk is full, and some keep dead rows as well.",
			"SELECT pg_drop_replication_slot(...), if nobody comes back for them.")
	}
	return nil
}

// connections sees whether nodes may fail to connect.
func (e *examination) connections(ctx context.Context) (string, error) {
	var used, most int
	err := e.db.QueryRowContext(ctx, `
SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
  current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int`).Scan(&used, &most)
	if err != nil {
		return "", err
	}
	if used*10 > most*9 {
		e.find(Warning, "Postgres", fmt.Sprintf("%d of %d connections are in use", used, most),
			"A node that reconnects may be refused. Each node uses up to 11: a pool of 8, and 3.",
			"Raise max_connections, use a pooler (--pgbouncer), or set pool_max_conns in the URL of --store.")
	}
	return fmt.Sprintf("%d of %d", used, most), nil
}

// notifications sees whether nodes hear what others store, and so may rest while they have nothing to do.
func (e *examination) notifications(ctx context.Context) (string, error) {
	opened, err := e.config.Store.Open(ctx, service.AnswerTimeout)
	if err != nil {
		return "", err
	}
	defer func() { _ = opened.Close() }() // it has served
	store, is := opened.Store.(*postgres.Store)
	if !is {
		return "none", nil
	}
	if err := store.TryHearing(ctx); err != nil {
		e.find(Note, "Postgres", "no notification of LISTEN comes back: "+oneLine(err),
			"Nodes that have nothing to do cannot rest: each looks for what falls due in each poll interval, which "+
				"costs more. Nothing comes late for it.",
			"Give nodes a URL that leads to the server itself, or to a pooler that pools sessions.")
		return "none come back", nil
	}
	return "heard", nil
}

// integrity asks SQLite to look at its file.
func (e *examination) integrity(ctx context.Context) (string, error) {
	var said string
	if err := e.db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return "", err
	}
	if said != "ok" {
		e.find(Error, "the file", "is corrupt: "+said, "Messages may be lost.",
			"Stop the node, and restore the last copy; what came since is taken in again from Kafka.")
	}
	e.private("the file "+e.config.Store.File(), e.config.Store.File())
	return "quick_check", nil
}
