package admin_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"chronos/node/admin"
	"chronos/node/store/inspect"
	"chronos/node/store/memory"
)

// browserPath returns a browser that can be driven; with -short a test goes without, and otherwise it fails.
func browserPath(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	if path := os.Getenv("CHRONOS_TEST_BROWSER"); path != "" {
		names = []string{path}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if testing.Short() {
		t.Skip("there is no browser")
	}
	t.Fatal("there is no browser: run scripts/setup browser, or have CHRONOS_TEST_BROWSER name a Chromium")
	return ""
}

// screen is how a person looks at the page.
type screen struct {
	width, height int64
	scheme        string // light or dark
	zone          string // the time zone of the machine; "" for UTC
}

// tab is an open page.
type tab struct {
	t   *testing.T
	ctx context.Context //nolint:containedctx // it is the tab

	mu       sync.Mutex
	problems []string // what the console says
}

// browse starts a browser, which ends with the test, and returns its tab. A browser has one: those behind it are not
// drawn, and their pages rest.
func browse(t *testing.T) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browserPath(t)), chromedp.NoSandbox, // root has none
		chromedp.Flag("disable-dev-shm-usage", true)) // containers have little of it
	allocated, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, closing := chromedp.NewContext(allocated, chromedp.WithErrorf(t.Logf))
	t.Cleanup(closing)
	p := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, p.listen)
	p.do(log.Enable())
	return p
}

// listen takes note of what goes wrong.
func (p *tab) listen(event any) {
	problem := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		problem = e.ExceptionDetails.Error()
	case *runtime.EventConsoleAPICalled:
		problem = "the console was called"
	case *log.EventEntryAdded: // what a server refuses is said on the page
		if !strings.Contains(e.Entry.Text, "the server responded with a status of") {
			problem = e.Entry.Text
		}
	}
	if problem != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.problems = append(p.problems, problem)
	}
}

// visit opens a page, as if for the first time.
func (p *tab) visit(at string, look screen) {
	p.t.Helper()
	scheme := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: look.scheme}}
	p.do(emulation.SetEmulatedMedia().WithFeatures(scheme), emulation.SetTimezoneOverride(cmp.Or(look.zone, "UTC")),
		chromedp.EmulateViewport(look.width, look.height),
		chromedp.Navigate(at), chromedp.Evaluate("sessionStorage.clear()", nil), chromedp.Reload())
}

func (p *tab) do(actions ...chromedp.Action) {
	p.t.Helper()
	if err := chromedp.Run(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// text evaluates an expression in the page.
func (p *tab) text(expression string) (value string) {
	p.t.Helper()
	p.do(chromedp.Evaluate("String("+expression+")", &value))
	return value
}

// await waits until an expression in the page has a value.
func (p *tab) await(expression, want string) {
	p.t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(30 * time.Second)
	for {
		got := p.text(expression)
		if strings.Contains(got, want) {
			return
		}
		select {
		case <-ticker.C:
		case <-late:
			p.shoot("failed")
			p.t.Fatalf("%s is %q, want %q; the page says\n%s", expression, got, want, p.text("document.body.innerText"))
		}
	}
}

// press presses keys, one after the other.
func (p *tab) press(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.do(chromedp.KeyEvent(key))
	}
}

// find looks for a message, with the keyboard.
func (p *tab) find(id string) {
	p.t.Helper()
	p.do(chromedp.Focus("#id", chromedp.ByID), chromedp.Evaluate(`document.querySelector("#id").value = ""`, nil))
	p.press(id, kb.Enter)
	p.await(`document.querySelector("#found").innerText`, id)
}

// focus goes on with the tabulator until something has the focus.
func (p *tab) focus(what string) {
	p.t.Helper()
	for range 60 {
		if p.text(`document.activeElement.innerText`) == what {
			return
		}
		p.press(kb.Tab)
	}
	p.t.Fatalf("nobody comes to %q by the keyboard", what)
}

const (
	active  = `document.activeElement.innerText`
	outcome = `document.querySelector("#outcome").innerText`
	dialog  = `document.querySelector("dialog[open]")?.innerText`
	verdict = `document.querySelector("#verdict").innerText`
	reasons = `document.querySelector("#reasons").innerText`
)

// shoot keeps a picture, if CHRONOS_TEST_PICTURES names a folder for that, so that somebody can look at it.
func (p *tab) shoot(name string) {
	p.t.Helper()
	folder := os.Getenv("CHRONOS_TEST_PICTURES")
	if folder == "" {
		return
	}
	var picture []byte
	p.do(chromedp.CaptureScreenshot(&picture))
	if err := os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// well asks that nothing went wrong in the page, that it fits its screen, and that all text can be read: its contrast
// with what is behind it is that of WCAG's level AA.
func (p *tab) well() {
	p.t.Helper()
	p.mu.Lock() // not for longer: whoever tells of events waits for it, and nothing in the browser goes on meanwhile
	problems := slices.Clone(p.problems)
	p.mu.Unlock()
	if len(problems) > 0 {
		p.t.Errorf("the page has problems: %q", problems)
	}
	if wide := p.text(wideText); wide != "" {
		p.t.Errorf("some of the page is past the edge of the screen: %s", wide)
	}
	if pale := p.text(paleText); pale != "" {
		p.t.Errorf("some text can hardly be read: %s", pale)
	}
}

// wideText is what ends past the right edge of the screen, or of what it is in, so that it is cut or has to be scrolled
// to: the first words of each element.
const wideText = `[...document.querySelectorAll("body *")].filter((e) => {
  if (!e.checkVisibility() || e.closest("svg, .hidden, thead, .skip, .week")) return false;
  const right = e.getBoundingClientRect().right, within = e.closest("dialog, section")?.getBoundingClientRect().right;
  return right > Math.min(innerWidth, within ?? Infinity) + 1
    || e.matches("main") && document.scrollingElement.scrollWidth > innerWidth;
}).map((e) => e.tagName + " " + e.textContent.trim().slice(0, 40)).join("; ")`

// paleText is what cannot be read well: the first words of each element with text whose contrast is below 4.5.
const paleText = `(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (color) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return a === 0 ? null : 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const behind = (e) => e === null ? 1 : light(getComputedStyle(e).backgroundColor) ?? behind(e.parentElement);
  const pale = [];
  for (const e of document.querySelectorAll("body *")) {
    const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join(" ").trim();
    if (!words || !e.checkVisibility() || e.closest("svg, :disabled")) continue;
    const [a, b] = [light(getComputedStyle(e).color), behind(e)].sort((a, b) => b - a);
    if ((a + 0.05) / (b + 0.05) < 4.5) pale.push(words.slice(0, 30));
  }
  return pale.join("; ");
})()`

// served is a page with all that it asks. What instead holds, if anything, answers for the API.
func served(t *testing.T, s *service, config admin.Config, instead ...*atomic.Pointer[http.Handler]) string {
	t.Helper()
	config.Listen = "127.0.0.1:0"
	server := newServer(t, config)
	server.Mount(s.api)
	server.Page()
	server.Handle("GET /metrics", admin.Open, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, "chronos_fired_total{lane=\"out\"} 7\n")
	}))
	listener := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, other := range instead {
			if handler := other.Load(); handler != nil && strings.HasPrefix(r.URL.Path, "/v1/") {
				(*handler).ServeHTTP(w, r)
				return
			}
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(listener.Close)
	return listener.URL + "/"
}

// lively is a store in which all nodes have just said that they live.
type lively struct{ *memory.Store }

// Nodes implements inspect.Roster.
func (l lively) Nodes(ctx context.Context) (nodes []inspect.Node, now time.Time, err error) {
	nodes, now, err = l.Store.Nodes(ctx)
	for i := range nodes {
		nodes[i].Seen = now
	}
	return nodes, now, err
}

// newPage is an API of a node that is well, with three messages that wait on one lane.
func newPage(t *testing.T, rights admin.Rights) *service {
	t.Helper()
	s := newService(t, rights)
	s.Store = memory.New(time.Now)
	s.api.Store, s.api.Outlook, s.api.Taker, s.api.Lanes = lively{s.Store}, s.Store, s.Store, []string{"out"}
	if err := s.Beat(t.Context(), inspect.Node{
		ID: s.node, Host: "host-1", Version: "v1", Settings: []byte("{}"), Status: []byte(`{"ready": true}`),
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// Goal: the page can be read on every screen and in both schemes, shows a message's life, and is read-only unless
// somebody has allowed more. Method: real browsers, a message that waits.
func TestPageIsReadable(t *testing.T) {
	t.Parallel()
	p := browse(t)
	s := newPage(t, admin.Rights{})
	s.put(t, "order-1", nil)
	s.put(t, "series", every(t, "1h", ""))
	at := served(t, s, admin.Config{})
	for _, look := range []screen{
		{1100, 900, "light", ""}, {1100, 900, "dark", ""}, {360, 740, "light", ""}, {360, 740, "dark", ""},
	} {
		name := strconv.FormatInt(look.width, 10) + "-" + look.scheme
		t.Run(name, func(t *testing.T) {
			p.t = t
			p.visit(at, look)
			p.await(`document.querySelector("#about").innerText`, "node me")
			p.await(verdict, "✔ All is well")
			p.await(`document.querySelector("#lanes").innerText`, "on time")
			p.find("series")
			p.await(`document.querySelector("#found").innerText`, "number 3; the next comes at ")
			p.await(`document.querySelector("#found").innerText`, "Read only")
			if n := p.text(`document.querySelectorAll("button[data-key]").length`); n != "0" {
				t.Errorf("there are %s buttons that change something", n)
			}
			p.well()
			p.shoot("read-" + name)
		})
	}
}
