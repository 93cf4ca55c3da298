package postgres_test

import (
	"testing"

	"chronos/node/store/memory"
	"chronos/node/store/postgres"
	"chronos/node/store/storetest"
)

// TestStore runs the conformance suite on a real server, once as a node connects to it and once as through a pooler.
func TestStore(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			database := newDatabase(t)
			storetest.Run(t, func(t *testing.T) storetest.Instance {
				address := newSchema(t, database)
				options := postgres.Options{PgBouncer: pooled}
				watch := connect(t, address)
				return storetest.Instance{
					Store: open(t, address, options),
					Peer:  open(t, address, options),
					Dump:  func(t testing.TB) []memory.Row { return dump(t, watch) },
					Begin: func(t testing.TB) storetest.Session { return begin(t, address) },
					Trip:  func(t testing.TB, id string) func() { return trip(t, address, id) },
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
