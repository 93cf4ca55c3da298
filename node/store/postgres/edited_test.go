package postgres_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/postgres"
)

// Goal: a row that somebody has edited by hand stops itself and nothing else. Method: one of twenty-one rows is edited,
// and each call that concerns all of them is made. None may fail, and all other rows come out.
func TestEditedRow(t *testing.T) {
	address := newSchema(t, newDatabase(t))
	for _, edit := range []string{
		"attempts = 2147483647", "attempts = -5", "attempts = -2147483648",
		"readied_at = CASE WHEN readied_at IS NOT NULL THEN 'infinity'::timestamptz END",
		"expires_at = expires_at + interval '1000 years'",
		"not_after = 'infinity'", "not_after = '-infinity'", "not_after = '294276-12-31'",
		"deadline = '294276-12-31'", "deadline = '4713-01-01 BC'",
		"message_size = -1", "message_size = 2147483647", "message_size = -2147483648",
		`message_headers = '{"a": 1}'`, `message_headers = '[[1]]'`,
		"series = 'nonsense', sequence = -1, occurs_at = 'infinity'", "part = 'nowhere'", "part = repeat('long', 1000)",
		"incarnation = (SELECT incarnation FROM messages WHERE id = 'message-000011')",
	} {
		for _, claim := range []bool{false, true} {
			t.Run(fmt.Sprint(edit, ", claimed ", claim), func(t *testing.T) {
				exec(t, address, "TRUNCATE messages, positions, partitions")
				s := postgres.NeverMarks(openHasty(t, address, postgres.Options{Timeout: patience}))
				list := messages(21)
				insert(t, s, list, claim)
				exec(t, address, "UPDATE messages SET "+edit+" WHERE id = 'message-000010'")
				others := slices.Delete(slices.Clone(list), 10, 11)
				if claim {
					expired, err := s.Expired(t.Context(), 100)
					if err != nil || len(expired) < len(others) {
						t.Fatalf("%d claims have expired: %v", len(expired), err)
					}
					releases := make([]node.Release, len(expired))
					for i := range expired {
						releases[i].Claim = expired[i]
					}
					if _, err := s.Reset(t.Context(), releases); err != nil {
						t.Fatal(err)
					}
				}
				var seen []string
				for range 2 { // one may use up the bytes of a share
					claimed, err := s.Claim(t.Context(), due(100))
					if err != nil {
						t.Fatal(err)
					}
					for i := range claimed.Messages {
						seen = append(seen, claimed.Messages[i].ID)
					}
				}
				for i := range others {
					if !slices.Contains(seen, others[i].ID) {
						t.Errorf("message %s is not claimed", others[i].ID)
					}
				}
				if _, err := s.Expired(t.Context(), 100); err != nil {
					t.Error(err)
				}
				if _, err := s.Parts(t.Context()); err != nil {
					t.Error(err)
				}
				place := input()
				place.Offset = int64(len(list))
				request := takeOf(place, list, false)
				for i := range request.Items {
					request.Items[i].Action, request.Items[i].Incarnation = node.Cancel, uuid.New()
				}
				if _, err := s.Take(t.Context(), request); err != nil {
					t.Errorf("take: %v", err)
				}
				if _, err := s.Settle(t.Context(), node.Removals(refsOf(list)...)); err != nil {
					t.Errorf("settle: %v", err)
				}
			})
		}
	}
}
