package sqlite_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/store/inspect"
	"chronos/node/store/sqlite"
	"chronos/node/store/storetest"
)

// spoilt is a store in which somebody has changed two rows by hand, so that they cannot be read: the headers of b and
// the incarnation of c. They stand in a line with a and d; e and f are on a lane of their own.
type spoilt struct {
	*sqlite.Store

	clock   *storetest.Clock
	reports []string
}

func newSpoilt(t *testing.T) *spoilt {
	s := &spoilt{clock: storetest.NewClock()}
	s.Store = open(t, file(t), sqlite.Options{
		Now: s.clock.Now, Timeout: time.Minute, Report: func(err error) { s.reports = append(s.reports, err.Error()) },
	})
	for _, id := range []string{"a", "b", "c", "d"} {
		m := message(id)
		m.Line = uuid.UUID{1}
		insert(t, s.Store, item{m, false})
	}
	for _, id := range []string{"e", "f"} {
		m := message(id)
		m.Lane = "other"
		insert(t, s.Store, item{m, false})
	}
	execute(t, s.DB(), `UPDATE messages SET message_headers = '{}' WHERE id = 'b'`)
	execute(t, s.DB(), `UPDATE messages SET incarnation = x'01' WHERE id = 'c'`)
	return s
}

func (s *spoilt) claim(t *testing.T) node.ClaimResult {
	t.Helper()
	share := node.Share{Lane: "output", Limit: math.MaxInt, Bytes: math.MaxInt}
	other := share
	other.Lane = "other"
	result, err := s.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.UUID{1}, Hold: time.Minute, Until: time.Unix(1<<40, 0), Lanes: []node.Share{share, other},
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// reported checks what was said since the last call: in this order, each thing with these words.
func (s *spoilt) reported(t *testing.T, want ...string) {
	t.Helper()
	if !slices.EqualFunc(s.reports, want, strings.Contains) {
		t.Errorf("the reports are %q, want %q", s.reports, want)
	}
	s.reports = nil
}

const (
	badHeaders     = `message "b" for lane "output": decode headers: not a JSON array`
	badIncarnation = `message "c" for lane "output": sql: Scan error on column index 6, name "incarnation"`
	badClaim       = `claim on message "c" for lane "output": sql: Scan error on column index 2, name "incarnation"`
)

// A claim says on which lanes there is what cannot be read, each once, and says what to whoever is to be told; the
// others are claimed as ever. What cannot be read is claimed, too: it is in nobody's way, and not found again.
func TestClaimSaysWhatIsUnreadable(t *testing.T) {
	s := newSpoilt(t)
	result := s.claim(t)
	turns := map[string]node.Turn{}
	for _, m := range result.Messages {
		turns[m.ID] = m.Turn
	}
	if len(turns) != 4 || turns["a"] != node.ItsTurn || turns["d"] != node.Behind {
		t.Errorf("claimed with these turns: %v, want a, d, e and f, and d behind", turns)
	}
	if !slices.Equal(result.Unreadable, []string{"output"}) {
		t.Errorf("unreadable on %q, want the lane output once", result.Unreadable)
	}
	s.reported(t, badHeaders, badIncarnation)
	if result := s.claim(t); len(result.Messages)+len(result.Unreadable) > 0 {
		t.Errorf("claimed once more: %+v", result)
	}
	s.reported(t)
}

// Claims on what cannot be read have expired. The one that can be reset is returned; the other one is passed over, and
// takes no place of those that are asked for. When it is mended, it is found.
func TestExpiredPassesOverTheUnreadable(t *testing.T) {
	s := newSpoilt(t)
	s.claim(t)
	s.reports = nil
	s.clock.Advance(time.Hour)
	expired := func(want ...string) {
		t.Helper()
		claims, err := s.Expired(t.Context(), len(want))
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, c := range claims {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, want) {
			t.Errorf("expired are %q, want %q", ids, want)
		}
	}
	expired("a", "b", "d")
	s.reported(t, badClaim)
	execute(t, s.DB(), `UPDATE messages SET incarnation = zeroblob(16) WHERE id = 'c'`)
	expired("a", "b", "c")
	s.reported(t)
}

// Who looks at messages sees one without its headers, where these cannot be read. Who moves the store to another one is
// told which row that is, and gets nothing: it would be lost.
func TestUnreadableHeadersAreShown(t *testing.T) {
	s := newSpoilt(t)
	execute(t, s.DB(), `DELETE FROM messages WHERE id = 'c'`)
	slice, err := s.Slice(t.Context(), inspect.SliceRequest{Lane: "output", Until: s.clock.Now(), Limit: 10})
	if err != nil || len(slice) != 3 || slice[1].ID != "b" || slice[1].Headers != nil {
		t.Errorf("seen are %+v, error %v, want three messages", slice, err)
	}
	s.reported(t, badHeaders)
	messages, err := s.Messages(t.Context(), node.MessageID{}, 10, math.MaxInt)
	if err == nil || !strings.Contains(err.Error(), badHeaders) || len(messages) > 0 {
		t.Errorf("moved are %d messages, error %v, want none and %q", len(messages), err, badHeaders)
	}
}
