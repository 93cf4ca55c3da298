package admin_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"chronos/node/admin"
	"chronos/node/deadletter"
)

// graves has dead letters on two topics, and replays them in pages of two.
type graves struct {
	letters []deadletter.Letter

	mu      sync.Mutex
	failure error // of the second page of a replay
	written []string
	window  string // with which the replay has begun
}

// Topics implements admin.DeadLetters.
func (g *graves) Topics() []string { return []string{"orders.dead", "quiet.dead"} }

func (g *graves) match(f deadletter.Filter) (found []deadletter.Letter) {
	for i := range g.letters {
		if l := &g.letters[i]; f.Topic == "orders.dead" && (f.Reason == "" || l.Reason == f.Reason) &&
			(f.ID == "" || l.ID == f.ID) {
			found = append(found, *l)
		}
	}
	return found
}

// List implements admin.DeadLetters.
func (g *graves) List(_ context.Context, f deadletter.Filter) (deadletter.List, error) {
	if f.Topic == "broken.dead" {
		return deadletter.List{}, errors.New("dial tcp 10.0.0.5:9092: connection refused")
	}
	if !slices.Contains(g.Topics(), f.Topic) {
		return deadletter.List{}, &deadletter.RequestError{Sentence: "it is no dead-letter topic of this node"}
	}
	list := deadletter.List{Letters: g.match(f), Reasons: map[string]int{}}
	for i := range list.Letters {
		list.Reasons[list.Letters[i].Reason]++
	}
	list.Matched, list.Looked = len(list.Letters), len(g.letters)
	return list, nil
}

// Replay implements admin.DeadLetters.
func (g *graves) Replay(_ context.Context, r deadletter.Request) (deadletter.Replayed, error) {
	found, from := g.match(r.Filter), 0
	done := deadletter.Replayed{
		Back: map[string]int{}, Again: map[string]int{}, LeftOut: map[string]int{}, Window: "from-0",
	}
	if r.Cursor != "" {
		if _, err := fmt.Sscanf(r.Cursor, "from-%d", &from); err != nil {
			return done, &deadletter.RequestError{Sentence: "the cursor is none that an answer has given"}
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if from > 0 && !r.DryRun && g.failure != nil {
		return done, g.failure
	}
	if !r.DryRun && from == 0 {
		g.window = r.Cursor
	}
	for i := range found[from:min(from+2, len(found))] {
		l := &found[from+i]
		done.Matched++
		if l.Cut != "" {
			done.LeftOut["they were cut, and have not all of the record"]++
			continue
		}
		done.Back[l.Source]++
		if !deadletter.Repairable(l.Reason) {
			done.Again[l.Reason]++
		}
		if !r.DryRun {
			g.written = append(g.written, l.ID)
		}
	}
	if from+2 < len(found) {
		done.Next = fmt.Sprint("from-", from+2)
	}
	return done, nil
}

func (g *graves) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failure = err
}

func (g *graves) wrote() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Join(g.written, " ")
}

func newGraves() *graves {
	at := time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
	return &graves{letters: []deadletter.Letter{
		{Offset: 4, Written: at, ID: "one", Reason: "publish_rejected", Error: "too large", Source: "orders.in"},
		{Offset: 3, Written: at, ID: "two\u202e", Reason: "publish_rejected", Source: "orders.in"},
		{Offset: 2, Written: at, ID: "three", Reason: "invalid_deadline", Error: `"soon" is none`, Source: "orders.in"},
		{Offset: 1, Written: at, ID: "cut", Reason: "publish_rejected", Source: "orders.in", Cut: "value"},
		{Offset: 0, Written: at, ID: "five", Reason: "store_refused", Source: "orders.in"},
	}}
}

// Goal: dead letters are listed and put back by the API, by whoever has the right, with a line in the log; what goes
// wrong is put down to Kafka, and never to the store. Method: requests.
func TestAPIDeadLetters(t *testing.T) {
	t.Parallel()
	s := newService(t, admin.Rights{Control: true})
	s.api.Explain = func(error) string { return "the store is away" }
	s.handler = s.api.Handler()
	var topics admin.DeadTopics
	s.ask(t, 200, "GET", "/v1/dead-letters", "", &topics)
	if topics.Topics == nil || len(topics.Topics) > 0 {
		t.Errorf("without Kafka the topics are %v", topics.Topics)
	}
	s.ask(t, 404, "GET", "/v1/dead-letters/orders.dead", "", nil)
	s.ask(t, 404, "POST", "/v1/dead-letters/orders.dead/replay", "{}", nil)
	g := newGraves()
	s.api.Dead = g
	s.handler = s.api.Handler()
	s.ask(t, 200, "GET", "/v1/dead-letters", "", &topics)
	if len(topics.Topics) != 2 {
		t.Errorf("the topics are %v", topics.Topics)
	}
	var page admin.DeadPage
	s.ask(t, 200, "GET", "/v1/dead-letters/orders.dead?reason=publish_rejected", "", &page)
	if page.Matched != 3 || len(page.Letters) != 3 || page.Letters[0].ID != "one" || page.Letters[0].Offset != 4 ||
		page.Letters[2].Cut != "value" || len(page.Reasons) != 1 || page.Reasons[0].N != 3 || page.Looked != 5 {
		t.Errorf("listed: %+v", page)
	}
	s.ask(t, 422, "GET", "/v1/dead-letters/other", "", nil)
	var problem struct{ Detail string }
	s.ask(t, 503, "GET", "/v1/dead-letters/broken.dead", "", &problem)
	if !strings.HasPrefix(problem.Detail, "Kafka has not answered about dead letters of broken.dead, and nothing") {
		t.Errorf("it says %q", problem.Detail)
	}
	var done admin.ReplayedPage
	s.ask(t, 200, "POST", "/v1/dead-letters/orders.dead/replay",
		`{"only": {"reason": "publish_rejected"}, "dry_run": true}`, &done)
	if done.Matched != 2 || done.Window != "from-0" || done.Next != "from-2" || g.wrote() != "" ||
		strings.Contains(s.log.String(), "replay") {
		t.Errorf("the dry run: %+v, and the log\n%s", done, &s.log)
	}
	s.ask(t, 200, "POST", "/v1/dead-letters/orders.dead/replay",
		`{"only": {"reason": "publish_rejected"}, "by": "ann", "reason": "fixed", "cursor": "from-2"}`, &done)
	line := `action=replay topic=orders.dead only_reason=publish_rejected written=0 left_out=1 claimed_by=ann`
	if done.Matched != 1 || len(done.LeftOut) != 1 || done.Next != "" || !strings.Contains(s.log.String(), line) {
		t.Errorf("the replay: %+v, no %q in\n%s", done, line, &s.log)
	}
	g.fail(&deadletter.PartlyError{Written: 1, Unknown: 2, Cause: errors.New("gone")})
	s.ask(t, 503, "POST", "/v1/dead-letters/orders.dead/replay", `{"cursor": "from-2"}`, &problem)
	if !strings.HasPrefix(problem.Detail, "put back on this page: 1; not known whether they are put back: 2 (gone). ") {
		t.Errorf("it says %q", problem.Detail)
	}
	s.api.Rights.Control = false
	s.handler = s.api.Handler()
	s.ask(t, 403, "POST", "/v1/dead-letters/orders.dead/replay", `{"dry_run": true}`, nil)
}

// Goal: a person sees why records were rejected, puts back those whose cause is gone, after a count and a question that
// says what stays and what will be refused again, and is told how far it came if it ends half-way. Method: a real
// browser, keys.
func TestPageReplaysDeadLetters(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true})
	g := newGraves()
	s.api.Dead = g
	at, p := served(t, s, admin.Config{}), browse(t)
	says := `document.querySelector("#dead-says").innerText`
	p.visit(at, screen{width: 1280, height: 900, scheme: "light"})
	p.await(`document.querySelector("nav").innerText`, "Dead letters")
	p.focus("Dead letters")
	p.press(kb.Enter)
	p.await(says, "5 dead letters: invalid_deadline 1, publish_rejected 3, store_refused 1.")
	p.await(`document.querySelector("#dead").innerText`, `two\u202e`)
	p.straight("body")
	p.well()
	p.shoot("dead")
	p.focus("Put them back…")
	p.press(kb.Enter)
	p.await(dialog, "Put 4 dead letters back?")
	p.await(dialog, "orders.in 4. ")
	p.await(dialog, "1 dead letter stays: they were cut, and have not all of the record.")
	p.await(dialog, "▲ 1 dead letter of these was refused for what the record says (invalid_deadline 1), and will be")
	p.await(active, "Leave it as it is")
	p.well()
	p.shoot("dead-replay")
	p.press(kb.Enter)
	p.await(dialog, "undefined")
	if g.wrote() != "" {
		t.Fatalf("it was left as it is, and wrote %s", g.wrote())
	}
	p.focus("Put them back…")
	p.press(kb.Enter)
	p.await(dialog, "Put 4 dead letters back?")
	p.focus("Put them back")
	p.press(kb.Enter)
	p.await(outcome, "✔ Put back. 4 dead letters of orders.dead: orders.in 4.")
	if got := g.wrote(); got != "one two\u202e three five" || g.window != "from-0" {
		t.Errorf("%q were put back, from %q on", got, g.window)
	}
	g.fail(&deadletter.PartlyError{Written: 1, Unknown: 2, Cause: errors.New("the brokers have gone")})
	p.focus("Put them back…")
	p.press(kb.Enter)
	p.await(dialog, "Put 4 dead letters back?")
	p.focus("Put them back")
	p.press(kb.Enter)
	p.await(dialog, "✖ Put back on this page: 1; not known whether they are put back: 2 (the brokers have gone). ")
	p.await(dialog, "before you repeat it. On the pages before it 2 dead letters were put back.")
	p.press(kb.Escape)
	for address, want := range map[string]string{
		"#/dead/quiet.dead":                        "There are no dead letters on it.",
		"#/dead/orders.dead?reason=too_far":        "No dead letter is like that.",
		"#/dead/orders.dead?reason=store_refused":  "1 dead letter: store_refused 1.",
		"#/dead/orders.dead?id=cut":                "1 dead letter: publish_rejected 1.",
		"#/dead/nothing":                           "✖ It is no dead-letter topic of this node",
		"#/dead/broken.dead":                       "✖ Kafka has not answered about dead letters of broken.dead",
		"#/dead/orders.dead?id=%E2%80%AE&reason=x": "No dead letter is like that.",
	} {
		p.visit(at+address, screen{width: 390, height: 844, scheme: "dark"})
		p.await(says, want)
		p.well()
	}
	p.visit(at+"#/dead/orders.dead?id=cut", screen{width: 390, height: 844, scheme: "dark"})
	p.await(says, "1 dead letter: publish_rejected 1.")
	p.focus("Put them back…")
	p.press(kb.Enter)
	p.await(outcome, "▲ Nothing goes back. 1 dead letter stays: they were cut")
	p.visit(at+"#/dead", screen{width: 390, height: 844, scheme: "dark"})
	p.await(says, "5 dead letters: ")
	p.well()
	p.shoot("dead-390")
}
