package admin_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"chronos/node"
	"chronos/node/admin"
	"chronos/node/hours"
	"chronos/node/store/inspect"
)

const (
	found  = `document.querySelector("#found").innerText`
	listed = `document.querySelector("#list").innerText`
	says   = `document.querySelector("#list-says").innerText`
	hash   = `location.hash`
	lanes  = `[...document.querySelectorAll("#lanes tbody th")].map((e) => e.innerText).join(" ")`
)

// crooked is an id as somebody writes it who wants an operator to read another one: what turns text around, what cannot
// be seen, letters that run from the right, and tags.
const crooked = "رسالة-abc\u202egnitiaw ✔ <b>\u200b\n"

// crookedShown is what a person reads of it.
const crookedShown = `رسالة-abc\u202egnitiaw ✔ <b>\u200b\n`

// turned are words of ours that are drawn from right to left, or before the words that they follow: of each text
// outside of those of others, where its characters are not one after the other on a line.
const turned = `(() => {
  const texts = document.createTreeWalker(document.querySelector(WHERE), NodeFilter.SHOW_TEXT), bad = [];
  const at = (node, i) => {
    const range = document.createRange();
    range.setStart(node, i); range.setEnd(node, i + 1);
    return range.getBoundingClientRect();
  };
  for (let n = texts.nextNode(); n; n = texts.nextNode()) {
    if (/[\p{Cc}\p{Cf}]/u.test(n.data.trim())) bad.push("steers: " + n.data);
    if (n.parentElement.closest("bdi") || !n.parentElement.checkVisibility()) continue;
    let before = null;
    for (let i = 0; i < n.data.length; i++) {
      const box = at(n, i);
      if (n.data[i] === " " || box.width === 0) continue;
      if (before && Math.abs(before.top - box.top) < 3 && box.left < before.left) {
        bad.push("turned: " + n.data);
        break;
      }
      before = box;
    }
  }
  for (const e of document.querySelector(WHERE).querySelectorAll("bdi"))
    if (getComputedStyle(e).unicodeBidi !== "isolate") bad.push("not isolated: " + e.textContent);
  return bad.join("; ");
})()`

// straight asks that no text of others turns ours around.
func (p *tab) straight(where string) {
	p.t.Helper()
	if bad := p.text(strings.ReplaceAll(turned, "WHERE", fmt.Sprintf("%q", where))); bad != "" {
		p.t.Errorf("in %s: %q", where, bad)
	}
}

// Goal: what an application has chosen (ids, lanes, keys, headers, values) and what a server says is shown apart from
// the words of the page, cannot turn them around, and hides nothing: neither on the page, nor where somebody is asked
// whether to cancel. Method: names with U+202E, letters from the right and tags, looked at where they are drawn.
func TestPageIsolatesText(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true, Payload: true})
	s.api.Lanes = nil
	lane := "lane-\u202ebad-ممر"
	s.put(t, crooked, func(m *node.Message) {
		m.Lane, m.Key, m.Value = lane, []byte("k\u202eyek"), []byte("one\u202e\n\ttwo")
		m.Headers = []node.Header{{Name: "h\u202e", Value: []byte("v\u2066\x00")}}
		m.Deadline = time.Now().Add(-time.Hour)
	})
	if _, err := s.Pause(t.Context(), node.Pause{Lane: lane, By: "ann\u202e", Why: "سبب\u202e"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Beat(t.Context(), inspect.Node{
		ID: s.node, Host: "host\u202e-1", Version: "v\u202e1", Settings: []byte("{}"),
		Status: []byte(`{"ready": true}`),
	}); err != nil {
		t.Fatal(err)
	}
	p := browse(t)
	at := served(t, s, admin.Config{})
	for _, width := range []int64{1280, 390} {
		p.visit(at, screen{width: width, height: 900, scheme: "light"})
		p.await(verdict, "▲ Look at this")
		p.await(reasons, `Lane lane-\u202ebad-ممر was paused`)
		p.await(`document.querySelector("#nodes").innerText`, `host\u202e-1`)
		p.await(reasons, ` by ann\u202e: سبب\u202e.`)
		p.straight("body")
		p.well()
		p.do(chromedp.Evaluate("location.hash = "+fmt.Sprintf("%q", "#/messages/"+url.PathEscape(crooked)), nil))
		p.await(found, crookedShown)
		p.await(found, "its lane was paused")
		if got := p.text(`document.querySelector("#id").value`); got != crookedShown {
			t.Errorf("the search has %q", got)
		}
		p.focus("Show the value")
		p.press(kb.Enter)
		p.await(found, "one\\u202e\n\ttwo")
		p.await(found, `k\u202eyek`)
		p.await(found, `v\u2066\x00`)
		p.straight("body")
		p.well()
		p.shoot(fmt.Sprint("crooked-", width))
		for _, action := range []string{"Reschedule…", "Fire now…", "Cancel…"} {
			p.focus(action)
			p.press(kb.Enter)
			p.await(dialog, crookedShown)
			p.await(dialog, `lane lane-\u202ebad-ممر`)
			p.straight("dialog[open]")
			p.well()
			p.shoot(fmt.Sprint("crooked-", strings.ToLower(action[:4]), "-", width))
			p.press(kb.Escape)
			p.await(dialog, "undefined")
		}
	}
	p.focus("Cancel…")
	p.press(kb.Enter)
	p.await(dialog, crookedShown)
	p.focus("Cancel it")
	p.press(kb.Enter)
	p.await(outcome, "✔ Cancelled. "+crookedShown)
	p.straight("body")
	if s.find(t, crooked) != nil {
		t.Error("it is there")
	}
}

// many is a node with lanes that have names as long as UUIDs, of which some have trouble.
func many(t *testing.T, lanes int) *service {
	t.Helper()
	s := newPage(t, admin.Rights{Control: true})
	s.api.Lanes = nil
	for i := range lanes {
		s.api.Lanes = append(s.api.Lanes, fmt.Sprintf("orders-of-customers-in-region-%06d", i))
	}
	late := func(ago time.Duration) func(*node.Message) {
		return func(m *node.Message) { m.Deadline = time.Now().Add(-ago) }
	}
	put := func(id string, lane int, change func(*node.Message)) {
		s.put(t, id, func(m *node.Message) {
			m.Lane = s.api.Lanes[lane]
			change(m)
		})
	}
	put("late", lanes-2, late(time.Minute))
	put("later", lanes-1, late(90*time.Minute))
	for i := range 40 {
		put(fmt.Sprint("soon-", i), 0, func(m *node.Message) {
			m.Deadline = time.Now().Add(time.Duration(i+1) * 7 * time.Minute)
		})
	}
	if _, err := s.Pause(t.Context(), node.Pause{
		Lane: s.api.Lanes[lanes-3], By: "ann", Why: "the receiver is being updated, ask the team of payments",
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Goal: of a hundred lanes those with trouble are seen first, one finds a lane by its name or its state, all of each
// lane is on the screen, and its reason leads to it. Method: a hundred lanes with long names, a large screen and a
// small one, keys.
func TestPageOfManyLanes(t *testing.T) {
	t.Parallel()
	s := many(t, 100)
	p, at := browse(t), served(t, s, admin.Config{})
	worst := "orders-of-customers-in-region-000099 orders-of-customers-in-region-000098 " +
		"orders-of-customers-in-region-000097 orders-of-customers-in-region-000000"
	for _, look := range []screen{
		{1280, 900, "light", ""}, {1280, 900, "dark", ""}, {390, 844, "light", ""}, {390, 844, "dark", ""},
	} {
		name := fmt.Sprint("lanes-100-", look.width, "-", look.scheme)
		p.visit(at, look)
		p.await(lanes, worst)
		p.await(verdict, "✖ It is not well")
		p.await(`document.querySelector("#lanes-count").innerText`, "100 lanes, 3 not well")
		if n := p.text(`[...document.querySelectorAll("#lanes tbody tr")].filter((row) => {
		  const boxes = [".state", "button"].map((what) => row.querySelector(what).getBoundingClientRect());
		  return boxes.every((box) => box.left >= 0 && box.right <= innerWidth && box.width > 40);
		}).length`); n != "100" {
			t.Errorf("%s: %s rows have their state and their button on the screen", name, n)
		}
		p.well()
		p.shoot(name)
	}
	few := served(t, many(t, 5), admin.Config{})
	for _, look := range []screen{{1280, 900, "light", ""}, {390, 844, "dark", ""}} {
		p.visit(few, look)
		p.await(verdict, "✖ It is not well")
		if p.text(`document.querySelector("#lanes-tools").hidden`) != "true" {
			t.Error("five lanes need no filter")
		}
		p.well()
		p.shoot(fmt.Sprint("lanes-5-", look.width, "-", look.scheme))
	}
	p.visit(at, screen{width: 1280, height: 900, scheme: "light"})
	p.await(lanes, worst)
	p.do(chromedp.Focus("#lane-filter", chromedp.ByID))
	p.press("OVERDUE")
	p.await(`document.querySelector("#lanes-count").innerText`, "2 of 100 lanes")
	if got := p.text(lanes); got != worst[:73] {
		t.Errorf("overdue: %q", got)
	}
	p.do(chromedp.Evaluate(`document.querySelector("#lane-filter").value = ""`, nil))
	p.press("region-000042")
	p.await(`document.querySelector("#lanes-count").innerText`, "1 of 100 lanes")
	p.press("x")
	p.await(`document.querySelector("#lanes-none").innerText`, "No lane is like that.")
	p.do(chromedp.Evaluate(`document.querySelector("#lane-filter").value = ""`, nil))
	p.do(chromedp.Click("#lane-unwell", chromedp.ByID))
	p.await(`document.querySelector("#lanes-count").innerText`, "3 of 100 lanes")
	// From the reason to the lane, by the keyboard, and from there to what is overdue.
	p.visit(at, screen{width: 1280, height: 900, scheme: "light"})
	p.await(reasons, "the oldest for ")
	p.press(kb.Tab)
	if got := p.text(active); got != "Skip to the content" {
		t.Errorf("the first stop is %q", got)
	}
	p.press(kb.Enter)
	p.await(`document.activeElement.id`, "content")
	p.press(kb.Tab)
	p.await(active, "orders-of-customers-in-region-000099")
	p.press(kb.Enter)
	p.await(hash, "#/lanes/orders-of-customers-in-region-000099")
	p.await(`document.querySelector("#lane-about").innerText`, "▲ overdue")
	p.well()
	p.shoot("lane")
	p.focus("those overdue")
	p.press(kb.Enter)
	p.await(listed, "later")
	p.await(says, "1 message is shown; that is all.")
}

// Goal: a key leads to the search, and what is shown has an address that somebody else can open, and that is there
// after a reload. Method: keys, and addresses that are opened anew.
func TestPageHasLinks(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{})
	long := strings.Repeat("0123456789abcdef", 8)
	odd := "a/1 ü?#%&"
	s.put(t, long, nil)
	s.put(t, odd, nil)
	at, p := served(t, s, admin.Config{}), browse(t)
	p.visit(at, screen{width: 390, height: 844, scheme: "dark"})
	p.await(verdict, "✔ All is well")
	p.press("/")
	p.await(`document.activeElement.id`, "id")
	p.do(chromedp.Evaluate(`document.querySelector("#id").value = ""`, nil)) // a driven browser types it all the same
	p.press(odd, kb.Enter)
	p.await(found, odd)
	p.await(hash, "#/messages/a%2F1%20%C3%BC%3F%23%25%26")
	p.do(chromedp.Reload())
	p.await(found, odd)
	p.await(`document.title`, odd)
	p.visit(at+"#/messages/"+long, screen{width: 390, height: 844, scheme: "dark"})
	p.await(found, long)
	p.well()
	p.shoot("long")
	p.do(chromedp.NavigateBack())
	p.visit(at+"#/lanes/out", screen{width: 390, height: 844, scheme: "light"})
	p.await(`document.querySelector("#lane-about").innerText`, "✔ on time")
	p.visit(at, screen{width: 390, height: 844, scheme: "light"})
	p.await(lanes, "out")
	looks := `performance.getEntriesByType("resource").filter((e) => e.name.endsWith("v1/lanes")).length`
	p.do(chromedp.Evaluate(`getSelection().selectAllChildren(document.querySelector("#lanes tbody bdi")); `+
		`performance.clearResourceTimings()`, nil))
	p.await(looks, "2") // to copy a name takes longer than a look
	if marked := p.text(`getSelection().toString()`); marked != "out" {
		t.Errorf("%q is marked", marked)
	}
	p.visit(at+"#/lanes/nowhere", screen{width: 390, height: 844, scheme: "light"})
	p.await(`document.querySelector("#lane-about").innerText`, "There is no such lane")
	p.visit(at+"#/messages/nothing", screen{width: 390, height: 844, scheme: "light"})
	p.await(found, "No such message waits or is claimed")
	p.visit(at+"#/messages/%E0%A4%A", screen{width: 390, height: 844, scheme: "light"})
	p.await(`document.body.innerText`, "This link leads nowhere")
	p.visit(at+"#/messages/..", screen{width: 390, height: 844, scheme: "light"})
	p.await(found, "A page cannot ask for that id: chronos get can.")
}

// Goal: messages are listed by state, lane, key and header, page by page, and an empty list and a mistake are each told
// in a sentence. Method: 130 messages, a form, addresses.
func TestPageLists(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{})
	for i := range 120 {
		s.put(t, fmt.Sprint("blue-", i), tenant("blue"))
	}
	for i := range 10 {
		s.put(t, fmt.Sprint("red-", i), tenant("red"))
	}
	s.put(t, "late", func(m *node.Message) { m.Deadline = time.Now().Add(-time.Minute) })
	at, p := served(t, s, admin.Config{}), browse(t)
	rows := `document.querySelectorAll("#list tbody tr").length`
	p.visit(at, screen{width: 1280, height: 900, scheme: "light"})
	p.await(verdict, "It is not well")
	p.focus("Messages")
	p.press(kb.Enter)
	p.await(says, "50 messages are shown, and there may be more")
	p.well()
	p.shoot("list")
	for range 2 {
		p.await(`document.querySelector("#list-more").hidden`, "false")
		p.do(chromedp.Focus("#list-more", chromedp.ByID))
		p.press(kb.Enter)
	}
	p.await(says, "131 messages are shown; that is all.")
	p.do(chromedp.SetValue("#list-header", "tenant=red", chromedp.ByID), chromedp.Focus("#list-header", chromedp.ByID))
	p.press(kb.Enter)
	p.await(hash, "#/messages?header=tenant%3Dred")
	p.await(says, "10 messages are shown; that is all.")
	if n, text := p.text(rows), p.text(listed); n != "10" || strings.Contains(text, "blue") {
		t.Errorf("of red there are %s:\n%s", n, text)
	}
	for address, want := range map[string]string{
		"?state=overdue":                     "1 message is shown; that is all.",
		"?state=waiting&key=red&lane=out":    "10 messages are shown; that is all.",
		"?key=red&header=tenant%3Dblue":      "No message is like that.",
		"?state=stuck":                       "Nothing is stuck: no claim has expired.",
		"?state=parked":                      "Nothing is parked: all partitions and hosts answer.",
		"?state=claimed":                     "No node holds a message at this moment.",
		"?key=base64%3A%25":                  `✖ Key: "%" is not base64`,
		"?state=overdue&lane=out&header=%3D": "✖ Header: ",
	} {
		p.visit(at+"#/messages"+address, screen{width: 390, height: 844, scheme: "dark"})
		p.await(says, want)
	}
	p.well()
	p.visit(at+"#/messages?state=overdue", screen{width: 390, height: 844, scheme: "dark"})
	p.await(listed, "late")
	p.well()
	p.shoot("list-390")
	p.focus("late")
	p.press(kb.Enter)
	p.await(found, "it should have come out")
}

// Goal: every instant is shown in UTC and by the clock of the reader, also in sentences of the node. Method: a machine
// in India, where the date is another one.
func TestPageShowsLocalTime(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{Control: true})
	s.put(t, "order-1", func(m *node.Message) { m.Deadline = time.Date(2040, 1, 31, 9, 0, 0, 0, time.UTC) })
	at, p := served(t, s, admin.Config{}), browse(t)
	p.visit(at+"#/messages/order-1", screen{390, 844, "light", "Asia/Kolkata"})
	p.await(found, "2040-01-31 09:00:00.000 UTC (14:30 GMT+5:30), in ")
	p.focus("Reschedule…")
	p.press(kb.Enter)
	p.await(dialog, "It is due at 2040-01-31 09:00:00.000 UTC (14:30 GMT+5:30) on lane out")
	p.press("2041-01-31T20:00:01Z", kb.Enter)
	p.await(outcome, "It comes out at 2041-01-31 20:00:01.000 UTC (2041-02-01 01:30:01 GMT+5:30), and no longer at "+
		"2040-01-31 09:00:00.000 UTC (14:30 GMT+5:30).")
	p.well()
}

// Goal: the charts show what the node has done before the page was opened. Method: a node that has fired for a while.
func TestPageShowsThePast(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{})
	s.api.History = admin.NewHistory(func() admin.Counted { return admin.Counted{} })
	at, p := served(t, s, admin.Config{}), browse(t)
	rate := `document.querySelector("#rate").parentElement.innerText`
	late := `document.querySelector("#late").parentElement.innerText`
	p.visit(at, screen{width: 1280, height: 900, scheme: "light"})
	p.await(late, "nothing has fired")
	end := time.Now()
	admin.Remember(s.api.History, end.Add(-14*time.Minute), 500, 2)
	for i := range 100 {
		admin.Remember(s.api.History, end.Add(time.Duration(i-120)*5*time.Second), 50, 0.05)
	}
	p.visit(at, screen{width: 1280, height: 900, scheme: "light"})
	p.await(rate, "Fired by this node, in a second 10.0")
	p.await(rate, "at most 100")
	p.await(late, "under 50 ms")
	p.await(late, "at most 2.0 s")
	p.well()
	p.shoot("past")
	p.visit(at, screen{width: 390, height: 900, scheme: "dark"})
	p.await(late, "at most 2.0 s")
	p.well()
	p.shoot("past-390")
}

// Goal: a lane that its window keeps closed says until when, and so does a message on it that is due. Method: a window
// that opens tomorrow.
func TestPageShowsClosedLanes(t *testing.T) {
	t.Parallel()
	s := newPage(t, admin.Rights{})
	opens := time.Date(2040, 1, 31, 8, 30, 0, 0, time.UTC)
	s.api.Hours = func(string, time.Time) (hours.State, bool) {
		return hours.State{Window: "from 08:30 to 18:00", Changes: opens}, true
	}
	s.put(t, "due", func(m *node.Message) { m.Deadline = time.Now().Add(-time.Minute) })
	at, p := served(t, s, admin.Config{}), browse(t)
	p.visit(at, screen{390, 844, "dark", "Europe/Berlin"})
	p.await(`document.querySelector("#lanes").innerText`, "■ closed until 2040-01-31 08:30 UTC (09:30 CET)")
	p.visit(at+"#/lanes/out", screen{390, 844, "dark", "Europe/Berlin"})
	p.await(`document.querySelector("#lane-about").innerText`, "from 08:30 to 18:00; opens 2040-01-31 08:30:00.000 UTC")
	p.visit(at+"#/messages/due", screen{390, 844, "dark", "Europe/Berlin"})
	p.await(found, "its lane is closed until 2040-01-31 08:30:00.000 UTC (09:30 CET)")
	p.well()
}
