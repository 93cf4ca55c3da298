package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/control"
	"chronos/node/store/sqlite"
)

// keeps fills a store of SQLite with messages of two tenants on the lane "out", by turns blue and red, an hour apart
// from each other in tens, and returns its file. The first two blue ones and a series are claimed; one tells of an
// outcome.
func keeps(t *testing.T, blue int) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "chronos.db")
	if got := run(t, "", "migrate", "up", "--store", "sqlite:"+file); got.code != 0 {
		t.Fatal(got.stderr)
	}
	store, err := sqlite.Open(t.Context(), file, sqlite.Options{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close() //nolint:errcheck // what was stored was answered
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	message := func(id, key string, deadline time.Time, headers ...node.Header) node.Item {
		return node.Item{Action: node.Schedule, Message: node.Message{
			ID: id, Lane: "out", Incarnation: uuid.New(), Deadline: deadline, Key: []byte(key), Headers: headers,
		}}
	}
	var items []node.Item
	for i := range 2 * blue {
		tenant := []string{"blue", "red"}[i%2]
		items = append(items, message(fmt.Sprint(tenant, "-", i/2), "key of "+tenant,
			begin.Add(time.Duration(i/20)*time.Hour), node.Header{Name: "tenant", Value: []byte(tenant)}))
	}
	series := message("series", "key of blue", begin, node.Header{Name: "tenant", Value: []byte("blue")})
	series.Recurrence = node.Recurrence{Series: "every 1h", Sequence: 1, At: series.Deadline}
	items = append(items, series, message("outcome", "key of blue", begin.Add(time.Minute),
		node.Header{Name: "tenant", Value: []byte("blue")}, node.Header{Name: node.HeaderOutcome},
		node.Header{Name: node.HeaderLineage}))
	if _, err := control.Instruct(t.Context(), store, items); err != nil {
		t.Fatal(err)
	}
	claimed, err := store.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.New(), Hold: time.Hour, Until: begin, Lanes: []node.Share{{Lane: "out", Limit: 4, Bytes: 1 << 20}},
	})
	if err != nil || len(claimed.Messages) != 4 {
		t.Fatal(claimed, err)
	}
	var back []node.Release // all but those three
	for _, m := range claimed.Messages {
		if m.ID != "blue-0" && m.ID != "blue-1" && m.ID != "series" {
			back = append(back, node.Release{Claim: m.Claim, Unsent: true})
		}
	}
	next, err := store.Claim(t.Context(), node.ClaimRequest{
		Node: uuid.New(), Hold: time.Hour, Until: begin, Lanes: []node.Share{{Lane: "out", Limit: 100, Bytes: 1 << 20}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range next.Messages {
		if m.ID != "blue-0" && m.ID != "blue-1" && m.ID != "series" {
			back = append(back, node.Release{Claim: m.Claim, Unsent: true})
		}
	}
	if _, err := store.Reset(t.Context(), back); err != nil {
		t.Fatal(err)
	}
	return file
}

// prints runs a command and asks for its exit code and what it prints, whatever the code.
func prints(t *testing.T, code int, pattern string, args ...string) {
	t.Helper()
	if got := run(t, "", args...); got.code != code || !regexp.MustCompile(pattern).MatchString(got.stdout) {
		t.Errorf("chronos %q exits with %d, want %d; it says\n%s%s\nwant %s",
			args, got.code, code, got.stdout, got.stderr, pattern)
	}
}

// TestBulkCancel cancels one tenant's messages in a store: first to see what would become of them, then for good, and
// once more, as somebody does who was interrupted. Nobody else's message is touched.
func TestBulkCancel(t *testing.T) {
	t.Parallel()
	const blue = 1300
	store := "sqlite:" + keeps(t, blue)
	bulk := func(code int, pattern string, args ...string) {
		t.Helper()
		prints(t, code, pattern, append([]string{"cancel", "--lane", "out", "--store", store}, args...)...)
	}
	tenant := []string{"--header", "tenant=blue"}
	counts := `(?s)^  would be cancelled +1,298 .*would be stopped +1 .*would be too_late +2 .*left alone +1 .*` +
		`1,302 of 2,602 messages matched, in .*Nothing was changed\. The same command with --yes does it`
	bulk(0, counts, tenant...)
	bulk(0, counts, append(tenant, "--dry-run")...)
	bulk(4, `0 of \S+ messages matched`, "--header", "tenant=green", "--yes")
	bulk(4, `^0 of 2,602 messages`, "--yes", "--lane", "other", "--key", "none of these")

	bulk(0, `^  cancelled +10 .*\n\n10 of \d+ messages`, "--header", "tenant=red", "--yes",
		"--deadline-from", "2030-01-01T01:00:00Z", "--deadline-to", "2030-01-01T02:00:00Z")
	says(t, 0, `\n1290 shown`, "list", "--lane", "out", "--key", "key of red", "--limit", "5000", "--store", store)

	bulk(3, `(?s)^  cancelled +1,298 .*stopped +1 .*too_late +2 .*left alone +1 `, append(tenant, "--yes")...)
	bulk(3, `(?s)^  stopped +1 .*too_late +2 .*left alone +1 `, append(tenant, "--yes")...)
	says(t, 0, `\n1290 shown`, "list", "--lane", "out", "--key", "key of red", "--limit", "5000", "--store", store)

	got := run(t, "", "cancel", "--lane", "out", "--key", "key of red", "--store", store, "--yes", "-o", "json")
	var result struct {
		control.Tally

		DryRun   *bool `json:"dry_run"`
		Complete bool
	}
	if err := json.Unmarshal([]byte(got.stdout), &result); err != nil || got.code != 0 || result.Cancelled != 1290 ||
		result.DryRun == nil || *result.DryRun || !result.Complete {
		t.Errorf("code %d: %s%v", got.code, got.stdout, err)
	}
	if got.stderr != "" {
		t.Errorf("somebody who is no terminal is told: %s", got.stderr)
	}
}

// TestBulkCancelPaused is told that nothing is changed while the intake is paused.
func TestBulkCancelPaused(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + keeps(t, 10)
	says(t, 0, `^Paused`, "pause", "--intake", "--store", store)
	says(t, 1, `^chronos: the intake is paused, so nothing is changed: .* counted above is done, and nothing else`,
		"cancel", "--lane", "out", "--yes", "--store", store)
	says(t, 0, `^Resumed`, "resume", "--intake", "--store", store)
	prints(t, 3, `cancelled +18 `, "cancel", "--lane", "out", "--yes", "--store", store)
}

// TestBulkCancelInterrupted stops it between two pages, of which there is no end. It says what it has done, and that
// the same command goes on.
func TestBulkCancelInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	pages := 0
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked admin.BulkCancelRequest
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Lane != "out" || asked.DryRun {
			t.Errorf("asked for %+v: %v", asked, err)
		}
		if pages++; pages == 3 {
			interrupt()
		}
		_, _ = fmt.Fprintf(w, `{"scanned":500,"matched":500,"cancelled":500,"next":"page %d"}`, pages)
	}))
	defer node.Close()
	got := runUntil(ctx, "", "cancel", "--lane", "out", "--yes", "--admin", node.URL)
	if got.code != 1 || pages != 3 || !strings.Contains(got.stdout, "cancelled  1,500") ||
		!strings.Contains(got.stderr, "interrupted: what is counted above is done. The same command goes on") {
		t.Errorf("code %d after %d pages: %s%s", got.code, pages, got.stdout, got.stderr)
	}
}

// TestBulkCancelPasses asks a node that answers by a list, two requests a pass, and says what is added up, how often it
// asks, and with which exit code it ends.
func TestBulkCancelPasses(t *testing.T) {
	t.Parallel()
	const none = `{"scanned":1}`
	const stops, stays = `"stops":["11111111-1111-4111-8111-111111111111"]`,
		`"stays":["22222222-2222-4222-8222-222222222222"]`
	for name, c := range map[string]struct {
		answers []string // those behind them are none
		code    int
		asked   int
		says    string
	}{
		"all at once":     {[]string{`{"scanned":2,"matched":2,"cancelled":2}`}, 0, 2, `2 of 3 messages matched`},
		"nothing":         {nil, 4, 2, `0 of 2 messages matched`},
		"only outcomes":   {[]string{`{"scanned":1,"matched":1,"left":1}`}, 4, 2, `left alone +1 `},
		"one has changed": {[]string{`{"scanned":1,"matched":1,"changed":1}`}, 3, 4, `changed +1 `},
		"one has changed, and is met again": {
			[]string{
				`{"scanned":2,"matched":2,"cancelled":1,"changed":1}`, none, `{"scanned":1,"matched":1,"cancelled":1}`,
			},
			3, 6, `(?s)cancelled +2 .*changed +1 .*3 of 3 messages matched`,
		},
		"one is claimed": {
			[]string{
				none, `{"scanned":2,"matched":2,"too_late":1,"stopped":1,` + stops + `,` + stays + `}`, none,
				`{"scanned":2,"matched":2,"too_late":1,"stopped":1,` + stops + `,` + stays + `}`,
			},
			3, 4, `(?s)stopped +1 .*too_late +1 .*2 of 3 `,
		},
		"one is claimed between the two halves": {
			[]string{
				`{"scanned":1,"matched":1,"stopped":1,` + stops + `}`,
				`{"scanned":1,"matched":1,"stopped":1,` + stops + `}`,
			},
			0, 4, `(?s)stopped +1 `,
		},
		"somebody goes on submitting": {
			slices.Repeat([]string{`{"scanned":2,"matched":2,"cancelled":1,"too_late":1}`, none}, 9), 3, 6,
			`cancelled +3 `,
		},
		"one page fails": {[]string{`{"scanned":2,"matched":2,"cancelled":2}`, ""}, 1, 2, `cancelled +2 `},
	} {
		var asked []admin.BulkCancelRequest
		node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var one admin.BulkCancelRequest
			if err := json.NewDecoder(r.Body).Decode(&one); err != nil || one.By == "" ||
				one.Claimed != (len(asked)%2 == 1) {
				t.Errorf("%s: asked for %+v after %d requests: %v", name, one, len(asked), err)
			}
			answer := none
			if asked = append(asked, one); len(asked) <= len(c.answers) {
				answer = c.answers[len(asked)-1]
			}
			if answer == "" {
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusServiceUnavailable)
				answer = `{"status":503,"detail":"the store is asleep"}`
			}
			_, _ = fmt.Fprint(w, answer)
		}))
		got := run(t, "", "cancel", "--lane", "out", "--yes", "--admin", node.URL)
		node.Close()
		if got.code != c.code || len(asked) != c.asked || !regexp.MustCompile(c.says).MatchString(got.stdout) {
			t.Errorf("%s: code %d, want %d; %d requests, want %d: %s%s", name, got.code, c.code, len(asked), c.asked,
				got.stdout, got.stderr)
		}
		if fails := name == "one page fails"; fails != strings.Contains(got.stderr, "of one page more nobody knows") {
			t.Errorf("%s: %s", name, got.stderr)
		}
	}
}

// TestBulkCancelNamesNothing gives a key, or the name of a header, that is empty, as a script does whose variable is
// not set. That must not be taken for any key, and any header: it would be all of the lane.
func TestBulkCancelNamesNothing(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + keeps(t, 10)
	for _, c := range []struct{ flag, value, want string }{
		{"--key", "", "--key is empty: leave it out for any key, or give base64: for one that is empty"},
		{"--header", "", `--header is "": it needs the name of a header`},
		{"--header", "=blue", `--header is "=blue": it needs the name of a header`},
	} {
		got := run(t, "", "cancel", "--lane", "out", "--store", store, "--yes", c.flag, c.value)
		if got.code != 2 || !strings.Contains(got.stderr, c.want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%s %q: code %d: %s%s", c.flag, c.value, got.code, got.stdout, got.stderr)
		}
	}
	prints(t, 3, `cancelled +18 `, "cancel", "--lane", "out", "--yes", "--store", store)
}

// TestBulkCancelLaneTwice names a lane twice, and each of its messages counts once all the same.
func TestBulkCancelLaneTwice(t *testing.T) {
	t.Parallel()
	prints(t, 0, `(?s)cancelled +18 .*stopped +1 .*too_late +2 .*left alone +1 .*22 of 22 messages`, "cancel", "--lane",
		"out", "--lane", "out", "--store", "sqlite:"+keeps(t, 10))
}

// TestBulkCancelBadFlags has one sentence for each mistake.
func TestBulkCancelBadFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                                "say which message is meant by its id, or which messages by --lane",
		"--key k":                         "say which message is meant by its id, or which messages by --lane",
		"x --lane out":                    "x is one message, and --lane is for many",
		"x --dry-run":                     "x is one message, and --dry-run is for many",
		"--lane out --no-wait":            "--no-wait is for one message",
		"--lane out --topic-out other":    "--topic-out is for one message",
		"--lane out --yes --dry-run":      "give one of them",
		"--lane out --deadline-from soon": "--deadline-from is soon: ",
		"--lane out --deadline-from 2030-01-02T00:00:00Z --deadline-to 2030-01-01T00:00:00Z": "it must be later",
	} {
		got := run(t, "", append([]string{"cancel"}, strings.Fields(args)...)...)
		if got.code != 2 || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("cancel %s: code %d: %s", args, got.code, got.stderr)
		}
	}
}
