package sqlite_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/sqlite"
	"chronos/node/store/storetest"
)

// Goal: a row that somebody has edited by hand stops itself and nothing else. Method: one of twenty-one rows is edited,
// and each call that concerns all of them is made. None may fail, and all other rows come out.
func TestEditedRow(t *testing.T) {
	for _, edit := range []string{
		"attempts = 9223372036854775807", "attempts = -9223372036854775808",
		"deadline = 9223372036854775807", "deadline = -9223372036854775808", "not_after = -9223372036854775808",
		"incarnation = x'01'", "message_headers = '[[1]]'", "line = x'01'", "bound = 7", "stopped = -1",
		"series = 'nonsense', sequence = -1, occurs_at = 9223372036854775807",
		"readied_by = x'01', readied_at = 0, expires_at = 0", "part = 'nowhere'", "part = CAST(x'ff00ff' AS TEXT)",
		"incarnation = (SELECT incarnation FROM messages WHERE id = 'message 11')",
	} {
		for _, claim := range []bool{false, true} {
			t.Run(fmt.Sprint(edit, ", claimed ", claim), func(t *testing.T) {
				clock := storetest.NewClock()
				s := open(t, file(t), sqlite.Options{Now: clock.Now, Timeout: time.Minute, Report: func(error) {}})
				var list []node.Message
				for i := range 21 {
					list = append(list, message(fmt.Sprint("message ", i)))
					insert(t, s, item{list[i], claim})
				}
				execute(t, s.DB(), "UPDATE messages SET "+edit+" WHERE id = 'message 10'")
				clock.Advance(time.Hour)
				expired, err := s.Expired(t.Context(), 100)
				if err != nil || claim && len(expired) < 20 {
					t.Fatalf("%d claims have expired: %v", len(expired), err)
				}
				releases := make([]node.Release, len(expired))
				for i := range expired {
					releases[i].Claim = expired[i]
				}
				if _, err := s.Reset(t.Context(), releases); err != nil {
					t.Fatal(err)
				}
				result, err := s.Claim(t.Context(), node.ClaimRequest{
					Node: uuid.UUID{1}, Hold: time.Minute, Until: time.Unix(1<<40, 0),
					Lanes: []node.Share{{Lane: list[0].Lane, Limit: 100, Bytes: math.MaxInt}},
				})
				if err != nil {
					t.Fatal(err)
				}
				var seen []string
				for i := range result.Messages {
					seen = append(seen, result.Messages[i].ID)
				}
				refs := make([]node.Ref, len(list))
				for i := range list {
					if refs[i] = list[i].Ref(); i != 10 && !slices.Contains(seen, list[i].ID) {
						t.Errorf("%s is not claimed", list[i].ID)
					}
				}
				if _, err := s.Parts(t.Context()); err != nil {
					t.Error(err)
				}
				if _, err := s.Settle(t.Context(), node.Removals(refs...)); err != nil {
					t.Errorf("settle: %v", err)
				}
			})
		}
	}
}
