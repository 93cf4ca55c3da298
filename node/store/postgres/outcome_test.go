package postgres_test

import (
	"strings"
	"testing"

	"chronos/node"
	"chronos/node/store/postgres"
)

// Only what the server says of the INSERT is about messages. A server that cannot be connected to, or fails elsewhere,
// by an error of the same class refuses nothing: a message that is refused is given up for good.
func TestRefusesOnlyMessages(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			address := newSchema(t, newDatabase(t))
			s := open(t, address, postgres.Options{PgBouncer: pooled})
			insert(t, s, messages(1), false)
			place := input()
			place.Offset = 1
			request := takeOf(place, messages(2)[1:], false)

			refuses := func(what string, s *postgres.Store, code string) {
				t.Helper()
				result, err := s.Take(t.Context(), request)
				if err == nil || !strings.Contains(err.Error(), code) {
					t.Errorf("%s: refusal %q, error %v, want an error with %s", what, result.Refusal, err, code)
				}
			}
			// The server refuses a setting that somebody has put into the URL, or that it does not know any more.
			wrong := open(t, with(t, address, "work_mem", "plenty"), postgres.Options{PgBouncer: pooled})
			refuses("a setting of the connection", wrong, "22023")

			exec(t, address, `
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM 1 / 0; RETURN NEW; END $$;
CREATE TRIGGER fail BEFORE INSERT ON positions FOR EACH ROW EXECUTE FUNCTION fail()`)
			refuses("another statement of the take", s, "22012")
			exec(t, address, "DROP TRIGGER fail ON positions; CREATE CONSTRAINT TRIGGER fail AFTER INSERT ON messages "+
				"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail()")
			refuses("the commit", s, "22012")

			exec(t, address, "DROP TRIGGER fail ON messages; CREATE TRIGGER fail BEFORE INSERT ON messages "+
				"FOR EACH ROW EXECUTE FUNCTION fail()")
			result, err := s.Take(t.Context(), request)
			if err != nil || result.Taken != 0 || !strings.Contains(result.Refusal, "22012") {
				t.Errorf("the message itself: %+v, error %v", result, err)
			}
		})
	}
}

// A commit that is cancelled while it waits for its synchronous standby reports success, with a warning: the outcome is
// unknown. A warning at any other time is none of a commit.
func TestCommitWithWarning(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			address := newSchema(t, newDatabase(t))
			s := open(t, address, postgres.Options{PgBouncer: pooled})
			claim := insert(t, s, messages(1), true)[0].Claim
			exec(t, address, `
CREATE FUNCTION warn() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE WARNING 'canceling wait for synchronous replication'; RETURN NULL; END $$;
CREATE TRIGGER warn AFTER INSERT OR UPDATE OR DELETE ON messages FOR EACH STATEMENT EXECUTE FUNCTION warn()`)
			more := messages(3)
			insert(t, s, more[1:2], false)

			exec(t, address, `DROP TRIGGER warn ON messages;
CREATE CONSTRAINT TRIGGER warn AFTER INSERT OR UPDATE OR DELETE ON messages
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION warn()`)
			place := input()
			place.Offset = 2
			_, taken := s.Take(t.Context(), takeOf(place, more[2:], false))
			_, reset := s.Reset(t.Context(), []node.Release{{Claim: claim}})
			_, claimed := s.Claim(t.Context(), due(1))
			_, deleted := s.Settle(t.Context(), node.Removals(claim.Ref))
			for call, err := range map[string]error{
				"Take": taken, "Reset": reset, "Claim": claimed, "Delete": deleted,
			} {
				if err == nil || !strings.Contains(err.Error(), "standby") {
					t.Errorf("%s: error %v, want one about the standby", call, err)
				}
			}
			exec(t, address, "DROP TRIGGER warn ON messages")
			works(t, s)
			if rows := dump(t, connect(t, address)); len(rows) != 2 {
				t.Errorf("%d rows, want the 2 that were not deleted", len(rows))
			}
		})
	}
}
