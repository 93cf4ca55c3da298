package postgres_test

import (
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/postgres"
)

// Goal: a part that takes long to claim on, as one does from which millions have fired while a snapshot is held, stops
// no lane. Method: a trigger has the server give up each claim on one part. The first call fails, and each one after it
// claims what waits on the lanes, and fails for the part alone; or, of other parts, does not fail. None says that it is
// idle: to find that out would mean to look at the parts.
func TestPartThatTakesLong(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{Timeout: 2 * time.Second})
	list := messages(4)
	insert(t, s, list, false)
	claim := func(shares ...node.Share) (ids []string, err error) {
		t.Helper()
		for i := range shares {
			shares[i].Lane, shares[i].Limit, shares[i].Bytes = list[0].Lane, 1, 1<<20
		}
		result, err := s.Claim(t.Context(), node.ClaimRequest{
			Node: owner(), Hold: time.Minute, Until: time.Now().Add(time.Hour), Lanes: shares, Ahead: time.Second,
		})
		for i := range result.Messages {
			ids = append(ids, result.Messages[i].ID)
		}
		if result.Idle != 0 {
			t.Errorf("it is idle for %v", result.Idle)
		}
		return ids, err
	}
	lane, long, other := node.Share{}, node.Share{Part: "long"}, node.Share{Part: "other"}
	for _, statement := range []string{
		"UPDATE messages SET part = 'long' WHERE id = '" + list[0].ID + "'",
		"UPDATE messages SET part = 'other' WHERE id = '" + list[1].ID + "'",
		`CREATE FUNCTION wade() RETURNS trigger LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$`,
		`CREATE TRIGGER wade BEFORE UPDATE ON messages FOR EACH ROW WHEN (OLD.part = 'long')
		EXECUTE FUNCTION wade()`,
	} {
		if _, err := s.Pool().Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if ids, err := claim(lane, long, other); err == nil || len(ids) > 0 {
		t.Fatalf("at first: claimed %q, %v", ids, err)
	}
	if ids, err := claim(long, lane); err == nil || len(ids) != 1 || ids[0] != list[2].ID {
		t.Fatalf("beside the part: claimed %q, %v", ids, err)
	}
	if ids, err := claim(other, lane); err != nil || len(ids) != 2 || ids[0] != list[1].ID || ids[1] != list[3].ID {
		t.Fatalf("beside another part: claimed %q, %v", ids, err)
	}
	if _, err := s.Pool().Exec(t.Context(), "TRUNCATE messages"); err != nil {
		t.Fatal(err)
	}
	if ids, err := claim(lane); err != nil || len(ids) > 0 { // and is not idle
		t.Fatalf("when nothing is left: claimed %q, %v", ids, err)
	}
}
