package postgres_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/postgres"
)

// Every call works for a role that may only read and write the tables: no statement needs more, not even those about
// the server's timeline and log.
func TestRoleWithoutRights(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	role := "chronos_" + strings.ToLower(uuid.NewString()[:8])
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	schema := at.Query().Get("search_path")
	exec(t, address, "CREATE ROLE "+role+" LOGIN NOSUPERUSER PASSWORD 'secret'"+
		"; GRANT USAGE ON SCHEMA "+schema+" TO "+role+
		"; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA "+schema+" TO "+role)
	t.Cleanup(func() { exec(t, address, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	at.User = url.UserPassword(role, "secret")
	l := &lane{
		t: t, store: open(t, at.String(), postgres.Options{Timeout: patience}),
		place: node.Place{Partition: node.Partition{Topic: "in", TopicID: uuid.New()}},
		now:   time.Now().UTC().Truncate(time.Microsecond),
	}
	ctx := t.Context()
	check := func(call string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	_, err = l.store.Bind(ctx, node.BindRequest{Cluster: "cluster", Group: "group", Adopt: []node.Place{}})
	check("bind", err)
	_, _, err = l.store.Positions(ctx, []node.Place{l.place})
	check("positions", err)
	l.take(2, time.Minute)
	if got := l.claim(1); got != 1 {
		t.Errorf("claimed %d", got)
	}
	_, err = l.store.Expired(ctx, 10)
	check("expired", err)
	missing := node.Ref{ID: "missing", Lane: "out", Incarnation: uuid.New()}
	_, err = l.store.Delete(ctx, []node.Ref{missing})
	check("delete", err)
	claim := node.Claim{Ref: missing, ReadiedAt: l.now, ReadiedBy: uuid.New()}
	_, err = l.store.Reset(ctx, []node.Release{{Claim: claim}})
	check("reset", err)
	state, err := l.store.CatchUp(ctx, node.CatchUpRequest{
		Lineage: 1, Begin: true, Marks: []node.Extent{{Partition: l.place.Partition, End: l.place.Offset + 1}},
	})
	check("catch up", err)
	if state.Lineage != 2 || state.Suspect {
		t.Errorf("the state is %+v", state)
	}
	l.take(1, time.Minute) // passes the mark
}
