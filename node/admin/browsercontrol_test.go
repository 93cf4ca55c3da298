package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"chronos/node"
	"chronos/node/admin"
)

// Goal: a person who has nothing but a keyboard changes messages: is asked before, can leave it as it is, is told the
// outcome in words, and comes back to where they were. Method: a real browser, keys, and a look into the store.
func TestPageChangesMessages(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true})
	s.put(t, "order-1", nil)
	s.put(t, "order-2", nil)
	series := s.put(t, "series", every(t, "1h", ""))
	p := browse(t)
	p.visit(served(t, s, admin.Config{}), screen{width: 1100, height: 1000, scheme: "light"})
	p.await(`document.querySelector("#about").innerText`, "node me")

	p.find("order-1")
	p.focus("Cancel…")
	p.press(kb.Enter)
	p.await(dialog, "Cancel order-1?")
	p.await(active, "Leave it as it is")
	p.shoot("cancel")
	p.press(kb.Enter)
	p.await(dialog, "undefined")
	p.await(active, "Cancel…")
	p.press(kb.Enter)
	p.await(dialog, "This cannot be undone.")
	p.press(kb.Escape)
	p.await(dialog, "undefined")
	if s.find(t, "order-1") == nil || strings.Contains(s.log.String(), "audit") {
		t.Fatalf("it was left as it is, and is cancelled:\n%s", &s.log)
	}
	p.press(kb.Enter)
	p.await(dialog, "Cancel order-1?")
	p.do(chromedp.Focus("#reason", chromedp.ByID))
	p.press("wrong customer")
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(outcome, "✔ Cancelled. order-1: It does not come out. It was due at ")
	p.await(active, "✔ Cancelled.")
	p.await(`document.querySelector("#found").innerText`, "It does not wait any more.")
	if line := `action=cancel outcome=cancelled id=order-1`; s.find(t, "order-1") != nil ||
		!strings.Contains(s.log.String(), line) || !strings.Contains(s.log.String(), `reason="wrong customer"`) {
		t.Errorf("no line %q in\n%s", line, &s.log)
	}

	p.find("order-2")
	p.focus("Reschedule…")
	p.press(kb.Enter)
	p.await(dialog, "It is due at ")
	p.press("tomorrow", kb.Enter)
	p.await(dialog, `✖ The delay is "tomorrow"`)
	p.shoot("reschedule-wrong")
	p.do(chromedp.Evaluate(`document.querySelector("#when").value = ""`, nil), chromedp.Focus("#when", chromedp.ByID))
	p.press("2030-01-31T09:00:00Z", kb.Enter)
	p.await(outcome, "✔ Rescheduled. order-2: It comes out at 2030-01-31 09:00:00.000 UTC, and no longer at ")
	p.await(`document.querySelector("#found").innerText`, "2030-01-31 09:00:00.000 UTC")
	p.shoot("rescheduled")
	p.focus("Fire now…")
	p.press(kb.Enter)
	p.await(dialog, "It cannot be called back.")
	p.focus("Fire it now")
	p.press(kb.Enter)
	p.await(outcome, "✔ Fired. order-2: It comes out now.")
	if m := s.find(t, "order-2"); !m.Bound || m.Due.After(time.Now()) {
		t.Errorf("it is %+v", m)
	}

	// What somebody else has changed since is not touched.
	p.find("series")
	s.instruct(t, "reschedule", "series", series, `, "delay": "5h"`)
	p.focus("Cancel the series…")
	p.press(kb.Enter)
	p.await(dialog, "The series ends: occurrence 3, which is due at ")
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(outcome, "▲ Not done. series: Nothing has changed")
	p.await(`document.querySelector("#found").innerText`, ", in 5 h")
	p.focus("Cancel the series…")
	p.press(kb.Enter)
	p.await(dialog, "Cancel the series series?")
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(outcome, "✔ Cancelled. series: The series has ended: occurrence 3")
	p.well()
}

// Goal: what is too late, or cannot be done at that moment, is said before and after. Method: a claimed message, and an
// intake that is paused.
func TestPageIsTooLate(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true})
	s.put(t, "claimed", nil)
	s.put(t, "series", every(t, "1h", ""))
	s.claim(t)
	p := browse(t)
	p.visit(served(t, s, admin.Config{}), screen{width: 360, height: 900, scheme: "dark"})
	p.await(`document.querySelector("#about").innerText`, "node me")
	p.find("claimed")
	p.focus("Cancel…")
	p.press(kb.Enter)
	p.await(dialog, "▲ A node has claimed it, or had: it is most likely too late.")
	p.well()
	p.shoot("late")
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(outcome, "▲ Too late. claimed: It comes out as it is")
	p.shoot("too-late")
	p.find("series")
	p.focus("Cancel the series…")
	p.press(kb.Enter)
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(outcome, "✔ Stopped. series: The series has ended: no occurrence comes after 3")
	p.await(`document.querySelector("#found").innerText`, "number 3, the last: the series was cancelled")
	s.put(t, "waits", nil)
	if _, err := s.Pause(t.Context(), node.Pause{Lane: node.Intake, By: "me"}); err != nil {
		t.Fatal(err)
	}
	p.find("waits")
	p.focus("Cancel…")
	p.press(kb.Enter)
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(dialog, "✖ The intake is paused, so nothing is changed")
	if s.find(t, "waits") == nil {
		t.Error("it is cancelled")
	}
	p.well()
	p.shoot("not-taken")
}

// Goal: while the store is away the page says what is out, since when and what that means, keeps what it has seen, and
// shows no error of a library; and it goes on by itself. Method: a store that fails for a while.
func TestPageTellsOfOutages(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true})
	s.put(t, "order-1", nil)
	out := admin.Problem{
		What: "store", Says: "The store has not answered", Since: time.Now().Add(-70 * time.Second),
		Cause:  "it refuses connections",
		Effect: "Until it answers, nothing comes out.",
	}
	var instead atomic.Pointer[http.Handler]
	behind := served(t, s, admin.Config{}, &instead)
	p := browse(t)
	p.visit(behind, screen{width: 360, height: 740, scheme: "light"})
	p.await(`document.querySelector("#lanes").innerText`, "on time")
	broken := *s.api
	broken.Store = away{s.Store, errors.New("look for lanes: dial tcp 10.0.0.5:5432: connection refused")}
	broken.Problems = func() []admin.Problem { return []admin.Problem{out} }
	broken.Explain = func(error) string { return out.Sentence(time.Now()) }
	instead.Store(new(broken.Handler()))
	p.await(verdict, "✖ It is not well")
	p.await(reasons, "The store has not answered since "+out.Since.UTC().Format("15:04:05")+" UTC, for ")
	p.await(reasons, "it refuses connections. Until it answers, nothing comes out.")
	p.await(`document.querySelector("#stale").innerText`, "▲ What follows is from ")
	if text := p.text("document.body.innerText"); strings.Contains(text, "dial") || !strings.Contains(text, "on time") {
		t.Errorf("the page says\n%s", text)
	}
	p.well()
	p.shoot("outage")
	kafka := *s.api
	kafka.Lanes = []string{"out", "http:calls"}
	kafka.Problems = func() []admin.Problem {
		return []admin.Problem{{
			What: "Kafka", Says: "Kafka has not answered", Since: out.Since, Cause: "no broker answers",
			Effect: "All waits.",
		}}
	}
	instead.Store(new(kafka.Handler()))
	p.await(reasons, "Kafka has not answered since ")
	p.await(`document.querySelector("#lanes").innerText.replace(/\s+/g, " ")`, "out ✖ Kafka does not answer")
	if text := p.text(`document.querySelector("#lanes").innerText.replace(/\s+/g, " ")`); !strings.Contains(text,
		"http:calls ✔ on time") {
		t.Errorf("callbacks need no Kafka, and the lanes are %s", text)
	}
	instead.Store(nil)
	p.await(verdict, "✔ All is well")
	p.await(`document.querySelector("#stale").hidden`, "true")
}

// Goal: the page asks for a token, says when it is wrong, and then shows what that token may do, with its name in the
// audit. Method: a listener with two tokens.
func TestPageAsksForTheToken(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Payload: true, Control: true})
	s.put(t, "order-1", nil)
	file := write(t, "tokens", "reader read one-long-token..\nann control another-long-token\n")
	at, p := served(t, s, admin.Config{TokenFile: file}), browse(t)
	for _, token := range []string{"one-long-token..", "another-long-token"} {
		p.visit(at, screen{width: 1100, height: 900, scheme: "light"})
		p.await(dialog, "A token is needed")
		p.press("wrong", kb.Enter)
		p.await(dialog, "✖ The node does not know that token.")
		p.well()
		p.press(token, kb.Enter)
		p.await(`document.querySelector("#about").innerText`, "node me")
		p.find("order-1")
		if token == "one-long-token.." {
			p.await(`document.querySelector("#found").innerText`, "Read only")
			continue
		}
		p.focus("Cancel…")
		p.press(kb.Enter)
		p.await(dialog, "Cancel order-1?")
		p.focus("Cancel it")
		p.press(kb.Enter)
		p.await(outcome, "✔ Cancelled.")
		if line := `claimed_by=ann authenticated="by the token ann"`; !strings.Contains(s.log.String(), line) {
			t.Errorf("no %s in\n%s", line, &s.log)
		}
		if s.find(t, "order-1") != nil {
			t.Error("it is there")
		}
	}
}

// Goal: what is being done is never taken for left as it is: neither when somebody closes the question meanwhile, nor
// when no answer comes. Method: a node that takes its time, and one that does what it is asked to and hangs up.
func TestPageWhileItIsDone(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true})
	s.put(t, "slow", nil)
	s.put(t, "cut", nil)
	asked, goOn := make(chan struct{}), make(chan struct{})
	api := s.api.Handler()
	var instead atomic.Pointer[http.Handler]
	instead.Store(new(http.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/messages/slow/cancel":
			asked <- struct{}{}
			<-goOn
		case "/v1/messages/cut/cancel":
			api.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		api.ServeHTTP(w, r)
	}))))
	p := browse(t)
	p.visit(served(t, s, admin.Config{}, &instead), screen{width: 1100, height: 1000, scheme: "light"})
	p.await(`document.querySelector("#about").innerText`, "node me")
	p.find("slow")
	p.focus("Cancel…")
	p.press(kb.Enter)
	p.focus("Cancel it")
	p.press(kb.Enter)
	<-asked
	p.press(kb.Escape, kb.Escape) // a browser closes a dialog at the second, whatever the page says
	close(goOn)
	p.await(outcome, "✔ Cancelled. slow: It does not come out.")
	p.await(dialog, "undefined")

	p.find("cut")
	p.focus("Cancel…")
	p.press(kb.Enter)
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(dialog, "✖ Nobody knows whether that was done: this node has not answered. Look again before you repeat")
	if s.find(t, "cut") != nil {
		t.Error("it is not cancelled, and the page need not have said that")
	}
	p.shoot("unknown")
}
