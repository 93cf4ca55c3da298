package postgres_test

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"chronos/node"
	"chronos/node/store/postgres"
)

// What is wrong with the URL or the options is known at once, without a server, and no password is shown.
func TestOpenRefuses(t *testing.T) {
	const address = "postgres://chronos:secret@127.0.0.1:1/chronos"
	for name, c := range map[string]struct {
		address string
		options postgres.Options
	}{
		"port":      {"postgres://chronos:secret@127.0.0.1:port/chronos", postgres.Options{}},
		"parameter": {address + "?sslmode=perhaps", postgres.Options{}},
		"pool":      {address + "?pool_max_conns=many", postgres.Options{}},
		"escape":    {"postgres://chronos:secret%zz@127.0.0.1/chronos", postgres.Options{}},
		"limit":     {address, postgres.Options{Timeout: time.Millisecond}},
		"negative":  {address, postgres.Options{Timeout: -time.Second}},
	} {
		s, err := postgres.Open(t.Context(), c.address, c.options)
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
	if _, err := postgres.OpenDB("postgres://127.0.0.1:port/chronos", postgres.Options{}); err == nil {
		t.Error("OpenDB of a malformed URL: no error")
	}
}

// The number of connections is that of the options, or else of the URL, or else small.
func TestConnections(t *testing.T) {
	const address = "postgres://chronos@127.0.0.1:1/chronos"
	for _, c := range []struct {
		address string
		options int
		want    int32
	}{
		{address, 0, 8},
		{address, 3, 3},
		{address + "?pool_max_conns=5", 0, 5},
		{address + "?pool_max_conns=5", 3, 3},
	} {
		s := open(t, c.address, postgres.Options{MaxConns: c.options})
		if got := s.Pool().Config().MaxConns; got != c.want {
			t.Errorf("%s with %d: %d connections, want %d", c.address, c.options, got, c.want)
		}
	}
}

// A database may have defaults that would make the statements slow, wrong or less than durable. They do not
// reach the store, with a pooler or without.
func TestSettings(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			database := newDatabase(t)
			address := newSchema(t, database)
			at, err := url.Parse(database)
			if err != nil {
				t.Fatal(err)
			}
			for setting, value := range map[string]string{
				"default_transaction_isolation": "serializable",
				"default_transaction_read_only": "on",
				"synchronous_commit":            "off",
				"statement_timeout":             "0",
				"lock_timeout":                  "0",
				"plan_cache_mode":               "force_custom_plan",
				"random_page_cost":              "100",
				"TimeZone":                      "Pacific/Kiritimati",
				"IntervalStyle":                 "sql_standard",
				"DateStyle":                     "German",
				"bytea_output":                  "escape",
				"client_encoding":               "LATIN1",
				"standard_conforming_strings":   "off",
			} {
				exec(t, os.Getenv("CHRONOS_TEST_POSTGRES"),
					fmt.Sprintf("ALTER DATABASE %s SET %s = '%s'", at.Path[1:], setting, value))
			}
			s := open(t, address, postgres.Options{Timeout: 10 * time.Second, PgBouncer: pooled})
			for setting, want := range map[string]string{
				"transaction_isolation": "read committed",
				"transaction_read_only": "off",
				"synchronous_commit":    "on",
				"statement_timeout":     "8s",
				"lock_timeout":          "7s",

				"idle_in_transaction_session_timeout": "10s",

				"enable_seqscan":    "off",
				"enable_bitmapscan": "off",
				"enable_sort":       "off",
				"random_page_cost":  "1.1",
				"jit":               "off",
				"TimeZone":          "UTC",
				"application_name":  "chronos",
			} {
				got, err := postgres.Run(t.Context(), s, "SELECT current_setting($1)", setting)
				if err != nil || got[0] != want {
					t.Errorf("%s is %q, want %q (error %v)", setting, got, want, err)
				}
			}

			// What a message holds does not depend on them either.
			list := messages(1)
			list[0].ID = "𐍈\\'"
			list[0].Key, list[0].Value = []byte{0, '\\', 0xff, '\''}, []byte{}
			list[0].Deadline = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
			insert(t, s, list, false)
			result, err := s.Claim(t.Context(), due(1))
			if err != nil || len(result.Messages) != 1 {
				t.Fatalf("%d messages, error %v", len(result.Messages), err)
			}
			got := result.Messages[0]
			if got.ID != list[0].ID || got.Deadline != list[0].Deadline || string(got.Key) != string(list[0].Key) ||
				got.Value == nil || len(got.Value) != 0 || time.Since(got.Claim.ReadiedAt).Abs() > time.Hour {
				t.Errorf("got %+v, want %+v", got, list[0])
			}
		})
	}
}

// A database that cannot hold every id is refused by a clear sentence.
func TestEncoding(t *testing.T) {
	server := newDatabase(t)
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	latin := at.Path[1:] + "_latin"
	exec(t, server, "CREATE DATABASE "+latin+" TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
	t.Cleanup(func() { exec(t, server, "DROP DATABASE "+latin+" WITH (FORCE)") })
	at.Path = "/" + latin
	s := open(t, at.String(), postgres.Options{})
	for name, call := range calls(s) {
		if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), "encoding is LATIN1") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// What the server refuses for a reason that the store doesn't know is found and refused alone, wherever it is in
// the batch: each take ends before the first such message, and has taken in those before it.
func TestIsolation(t *testing.T) {
	for name, pooled := range map[string]bool{"direct": false, "as through PgBouncer": true} {
		t.Run(name, func(t *testing.T) {
			address := newSchema(t, newDatabase(t))
			exec(t, address, `
ALTER TABLE messages ADD CONSTRAINT no_poison CHECK (message_key <> 'poison');
ALTER TABLE messages ADD CONSTRAINT no_division CHECK (message_key <> 'zero' OR 1 / length(message_value) > 0)`)
			s := open(t, address, postgres.Options{PgBouncer: pooled})
			list := messages(500)
			insert(t, s, list[100:110], false)
			poison := []int{0, 1, 99, 250, 251, 499}
			for _, i := range poison {
				list[i].Key = []byte("poison")
			}
			list[251].Key, list[251].Value = []byte("zero"), []byte{}
			request, done := takeOf(input(), list, true), []int{}
			for i := range request.Items {
				request.Items[i].Offset += 10
			}
			for {
				result, err := s.Take(t.Context(), request)
				if err != nil {
					t.Fatal(err)
				}
				if result.Positions[0].Offset != 10+int64(result.Taken) {
					t.Fatalf("%d taken, position %+v", result.Taken, result.Positions[0])
				}
				for i, r := range result.Results {
					want := i < 100 || i >= 110
					if request.Items[i].Action == node.Pass {
						continue
					}
					if r.Outcome != node.Scheduled || (r.Claim != node.Claim{}) != want {
						t.Fatalf("message %d: %+v", i, r)
					}
				}
				if result.Refusal == "" {
					break
				}
				done = append(done, result.Taken)
				request.Items[result.Taken].Action, request.Items[result.Taken].Message = node.Pass, node.Message{}
			}
			if !slices.Equal(done, poison) {
				t.Errorf("refused were %v, want %v", done, poison)
			}
			if n := len(dump(t, connect(t, address))); n != 494 {
				t.Errorf("%d rows, want 494", n)
			}
		})
	}
}

// A name that the table cannot hold is not there, in every call, and disturbs no other.
func TestNamesThatCannotBe(t *testing.T) {
	s := open(t, newSchema(t, newDatabase(t)), postgres.Options{})
	claim := insert(t, s, messages(1), true)[0].Claim
	for _, name := range []node.MessageID{
		{ID: "a\x00b", Lane: "output"},
		{ID: "\xff", Lane: "output"},
		{ID: strings.Repeat("é", 129), Lane: "output"},
		{ID: "a", Lane: "\x00"},
		{ID: "a", Lane: strings.Repeat("t", 250)},
	} {
		odd := claim
		odd.ID, odd.Lane = name.ID, name.Lane
		reset, err1 := s.Reset(t.Context(), []node.Release{{Claim: odd}})
		deleted, err2 := s.Settle(t.Context(), node.Removals(odd.Ref, odd.Ref))
		_, err3 := s.Claim(t.Context(), node.ClaimRequest{Lanes: []node.Share{{Lane: name.Lane, Limit: 1, Bytes: 1}}})
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if got := fmt.Sprint(reset, deleted); got != "[0] [0 0]" {
			t.Errorf("%q: %s", name, got)
		}
	}
	deleted, err := s.Settle(t.Context(), node.Removals(node.Ref{ID: "\x00"}, claim.Ref))
	if err != nil || deleted[1] != node.Removed {
		t.Errorf("delete: %v, error %v", deleted, err)
	}
}

// A row that somebody has broken by hand is told of and is in nobody's way.
func TestBrokenRow(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	var told []error
	s := open(t, address, postgres.Options{Report: func(err error) { told = append(told, err) }})
	silent := open(t, address, postgres.Options{})
	list := messages(3)
	insert(t, s, list, false)
	exec(t, address, fmt.Sprintf(
		`UPDATE messages SET message_headers = '{"not": "an array"}' WHERE id = '%s'`, list[1].ID))
	for _, s := range []*postgres.Store{s, silent} {
		result, err := s.Claim(t.Context(), due(10))
		got := result.Messages
		if err != nil || len(got) != 2 || got[0].ID != list[0].ID || got[1].ID != list[2].ID {
			t.Fatalf("claimed %+v, error %v", got, err)
		}
		expired, err := s.Expired(t.Context(), 10)
		if err != nil || len(expired) != 3 {
			t.Fatalf("expired %+v, error %v", expired, err)
		}
		for _, claim := range expired {
			reset, err := s.Reset(t.Context(), []node.Release{{Claim: claim}})
			if err != nil || reset[0] != node.Freed {
				t.Fatalf("reset %v, error %v", reset, err)
			}
		}
	}
	if len(told) != 1 || !strings.Contains(told[0].Error(), list[1].ID) {
		t.Errorf("told of %v", told)
	}
	// What cannot be read back at all cannot be put there.
	for _, change := range []string{"deadline = 'infinity'", "due_at = '-infinity'", "readied_at = now()"} {
		_, err := connect(t, address).Exec(t.Context(), "UPDATE messages SET "+change)
		if err == nil {
			t.Errorf("the table accepts %s", change)
		}
	}
}
