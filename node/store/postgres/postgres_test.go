package postgres_test

import (
	"testing"

	"chronos/node/store/memory"
	"chronos/node/store/postgres"
	"chronos/node/store/storetest"
)

// asNew makes the tables of a schema those of a new one, in a fraction of the time that another schema would take: all
// are empty except store and queues, whose rows are those in fresh and fresh_queues. No case writes to what is left
// out. The rows are deleted one by one, for a case leaves few: TRUNCATE makes new files for each table and each index,
// which takes longer than most cases.
const asNew = `
SET synchronous_commit = off;
SET lock_timeout = '30s';
DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT tablename FROM pg_tables
    WHERE schemaname = current_schema() AND tablename NOT IN ('fresh', 'fresh_queues', 'chronos_migrations')
  LOOP
    EXECUTE 'DELETE FROM ' || quote_ident(name);
  END LOOP;
  INSERT INTO store TABLE fresh;
  INSERT INTO queues TABLE fresh_queues;
END $$`

// TestStore runs the conformance suite on a real server, once as a node connects to it and once as through a pooler.
func TestStore(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := newSchema(t, newDatabase(t))
			exec(t, address, "CREATE TABLE fresh AS TABLE store")
			exec(t, address, "CREATE TABLE fresh_queues AS TABLE queues")
			storetest.Run(t, func(t *testing.T) storetest.Instance {
				exec(t, address, asNew)
				options := postgres.Options{PgBouncer: pooled, Timeout: patience}
				watch := connect(t, address)
				store := func(hasty bool) *postgres.Store {
					opened := open
					if hasty {
						opened = openHasty
					}
					s := postgres.Unhurried(postgres.NeverMarks(opened(t, address, options)), patience)
					if !pooled {
						postgres.TakeApart(s, 2) // where that is possible, so that both kinds of takes are tested
					}
					return s
				}
				return storetest.Instance{
					Store: store(false),
					Peer:  store(false),
					Hasty: store(true),
					Lock:  func(t testing.TB, locks memory.Locks) func() { return lock(t, address, locks) },
					Dump:  func(t testing.TB) []memory.Row { return dump(t, watch) },
					Begin: func(t testing.TB) storetest.Session { return begin(t, address) },
					Trip:  func(t testing.TB, id string) func() { return trip(t, address, id) },
					Answers: func(t testing.TB) (n int) {
						row := watch.QueryRow(t.Context(), "SELECT count(*) FROM answers")
						if err := row.Scan(&n); err != nil {
							t.Fatal(err)
						}
						return n
					},
					Promote: func(t testing.TB) {
						exec(t, address, "UPDATE store SET timeline = 'of another server'")
					},
					Upgrade: func(t testing.TB) { exec(t, address, "UPDATE store SET adopting = true") },
				}
			})
		})
	}
}

// trip makes the server fail at a row of that id, as a disk does that is full.
func trip(t testing.TB, address, id string) (mend func()) {
	t.Helper()
	exec(t, address, `
CREATE FUNCTION trip() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.id = '`+id+`' THEN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER trip BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION trip()`)
	return func() { exec(t, address, "DROP FUNCTION trip() CASCADE") }
}
