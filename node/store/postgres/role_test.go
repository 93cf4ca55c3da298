package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/migrations"
	"chronos/node"
	"chronos/node/store/inspect"
	"chronos/node/store/postgres"
)

// Every call works for a role with just what Grants returns: no statement needs more, not even those about the server's
// timeline and log. Without any one of these privileges, some call or the look at the schema fails.
func TestGrants(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	role := "chronos_" + strings.ToLower(uuid.NewString()[:8])
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	schema := at.Query().Get("search_path")
	exec(t, address, "CREATE ROLE "+role+" LOGIN NOSUPERUSER PASSWORD 'secret'; GRANT USAGE ON SCHEMA "+schema+" TO "+
		""+role)
	t.Cleanup(func() { exec(t, address, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	grant := func(verb, preposition, table string, privileges ...string) {
		t.Helper()
		exec(t, address, verb+" "+strings.Join(privileges, ", ")+" ON "+table+" "+preposition+" "+role)
	}
	for _, g := range postgres.Grants() {
		grant("GRANT", "TO", g.Table, g.Privileges...)
	}
	at.User = url.UserPassword(role, "secret")
	if err := work(t, at.String()); err != nil {
		t.Fatal(err)
	}
	for _, g := range postgres.Grants() {
		for _, privilege := range g.Privileges {
			grant("REVOKE", "FROM", g.Table, privilege)
			if err := work(t, at.String()); err == nil {
				t.Errorf("all goes well without %s on %s", privilege, g.Table)
			} else if postgres.Remedy(err) == "" {
				t.Errorf("without %s on %s: %v, want that it is forbidden", privilege, g.Table, err)
			}
			grant("GRANT", "TO", g.Table, privilege)
		}
	}
}

// work makes every call of a node once, and returns the first error.
func work(t *testing.T, address string) error {
	t.Helper()
	db, err := postgres.OpenDB(address, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(migrations.Check(t.Context(), db, migrations.Postgres), db.Close()); err != nil {
		return err
	}
	store, ctx := postgres.Unhurried(open(t, address, postgres.Options{Timeout: patience}), patience), t.Context()
	now := time.Now().UTC().Truncate(time.Microsecond)
	place := node.Place{Partition: node.Partition{Topic: "in", TopicID: uuid.New()}}
	missing := node.Ref{ID: "missing", Lane: "out", Incarnation: uuid.New()}
	var state node.State
	take := func(claim bool) error {
		result, err := store.Take(ctx, node.TakeRequest{
			Node: uuid.New(), Hold: time.Hour, From: []node.Place{place},
			Items: []node.Item{{
				Offset: place.Offset, Action: node.Schedule, Claim: claim,
				Message: node.Message{
					ID: uuid.NewString(), Lane: "out", Incarnation: uuid.New(),
					Deadline: now.Add(-time.Minute),
				},
			}},
		})
		if err == nil && result.Taken == 1 {
			place.Offset++
		}
		return err
	}
	change := func(actions ...node.Action) error {
		for _, action := range actions {
			item := node.Item{Offset: place.Offset, Action: action, Message: node.Message{
				ID: "changed", Lane: "other", Incarnation: uuid.New(), Deadline: now,
			}}
			item.Answer = &node.Answer{Message: item.Message}
			item.Answer.ID = item.Incarnation.String()
			_, err := store.Take(ctx, node.TakeRequest{From: []node.Place{place}, Items: []node.Item{item}})
			if err != nil {
				return err
			}
			place.Offset++
			item.From, item.Offset, item.Epoch = node.NoPlace, 0, 0
			item.Request = &node.Request{ID: uuid.New(), Print: uuid.New()} // which expires at once
			if _, err := store.Take(ctx, node.TakeRequest{Items: []node.Item{item}}); err != nil {
				return err
			}
		}
		return nil
	}
	beat := inspect.Node{ID: uuid.New(), Settings: []byte("{}"), Status: []byte("{}")}
	for _, call := range []func() error{
		func() error { return queueWork(ctx, store) },
		func() error { _, err := store.Pause(ctx, node.Pause{Lane: "other"}); return err },
		func() error { _, err := store.Resume(ctx, "other"); return err },
		func() error { return store.Beat(ctx, beat) },
		func() error { return store.Gone(ctx, beat.ID) },
		func() error {
			_, err := store.Bind(ctx, node.BindRequest{
				Cluster: "cluster", Group: "group", Adopt: []node.Place{},
				Force: true,
			})
			return err
		},
		func() (err error) { _, state, err = store.Positions(ctx, []node.Place{place}); return err },
		func() error { return take(false) },
		func() error { return take(true) },
		func() error { return change(node.Schedule, node.Reschedule, node.Replace, node.Cancel) },
		func() error {
			result, err := store.Claim(ctx, node.ClaimRequest{
				Node: uuid.New(), Hold: time.Hour, Until: now, Lanes: []node.Share{{
					Lane: "out", Limit: 10,
					Bytes: 1 << 20,
				}},
			})
			if err != nil || len(result.Messages) == 0 {
				return errors.Join(err, errors.New("claim: nothing"))
			}
			_, err = store.Settle(ctx, node.Removals(result.Messages[0].Ref(), missing))
			return err
		},
		func() error { _, err := store.Expired(ctx, 10); return err },
		func() error {
			_, err := store.Reset(ctx, []node.Release{{Claim: node.Claim{
				Ref: missing, ReadiedAt: now,
				ReadiedBy: uuid.New(),
			}}})
			return err
		},
		func() error {
			_, err := store.CatchUp(ctx, node.CatchUpRequest{
				Lineage: state.Lineage, Begin: true, Marks: []node.Extent{{
					Partition: place.Partition,
					End:       place.Offset + 1,
				}},
			})
			return err
		},
		func() error { return take(false) }, // passes the mark
		func() error { _, err := store.Pause(ctx, node.Pause{Lane: "out", By: "test"}); return err },
		func() error { _, err := store.Pauses(ctx); return err },
		func() error { _, err := store.Resume(ctx, "out"); return err },
		func() error {
			return store.Beat(ctx, inspect.Node{ID: missing.Incarnation, Settings: []byte("{}"), Status: []byte("{}")})
		},
		func() error { _, _, err := store.Nodes(ctx); return err },
		func() error { return store.Gone(ctx, missing.Incarnation) },
	} {
		if err := call(); err != nil {
			return err
		}
	}
	return nil
}
