package bench_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"chronos/cmd/chronos/bench"
)

// TestPageDraws opens the pages of a result and of a search in a real browser, which has no network: all plots are
// there, something is drawn on each, and no script fails.
func TestPageDraws(t *testing.T) {
	t.Parallel()
	path := ""
	for _, name := range []string{os.Getenv("CHRONOS_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil && path == "" {
			path = found
		}
	}
	switch {
	case path != "":
	case testing.Short():
		t.Skip("there is no browser")
	default:
		t.Fatal("there is no browser: run scripts/setup browser, or have CHRONOS_TEST_BROWSER name a Chromium")
	}
	well := measure(t, steady(), &fake{late: func(m *bench.Submission) time.Duration {
		return time.Duration(m.Number%100) * time.Millisecond
	}}, bench.Options{Meter: meter{}})
	found := &bench.Found{Rate: 100, Bound: "p99.9 under 100 ms", Best: well, Steps: []bench.Step{
		{Rate: 100, Held: true, Result: well}, {Rate: 200, Result: well},
	}}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND"))
	allocated, end := chromedp.NewExecAllocator(t.Context(), options...)
	defer end()
	tab, closing := chromedp.NewContext(allocated)
	defer closing()
	var failed []string
	chromedp.ListenTarget(tab, func(event any) {
		if e, is := event.(*runtime.EventExceptionThrown); is {
			failed = append(failed, e.ExceptionDetails.Error())
		}
	})
	for name, c := range map[string]struct {
		write func(io.Writer) error
		plots int
	}{"result": {well.WriteHTML, 6}, "search": {found.WriteHTML, 7}} {
		file, err := os.Create(filepath.Join(t.TempDir(), name+".html"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.write(file); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
		var drawn int
		// A canvas on which nothing is drawn is transparent throughout.
		const count = `[...document.querySelectorAll("canvas")].filter(c =>
			c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some(x => x)).length`
		var picture []byte
		if err := chromedp.Run(tab, chromedp.Navigate("file://"+file.Name()),
			chromedp.Evaluate("new Promise(r => requestAnimationFrame(() => setTimeout(r, 0)))", nil,
				func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }),
			chromedp.Evaluate(count, &drawn), chromedp.FullScreenshot(&picture, 100)); err != nil {
			t.Fatal(err)
		}
		if drawn != c.plots || len(failed) > 0 {
			t.Errorf("%s: %d plots are drawn, want %d; the console says %q", name, drawn, c.plots, failed)
		}
		if dir := os.Getenv("CHRONOS_TEST_PICTURES"); dir != "" { // for people
			if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// meter reads the same growth each time.
type meter struct{}

func (meter) Read() ([]bench.Reading, bench.Reading, error) {
	now := time.Duration(time.Now().UnixNano())
	return []bench.Reading{{Name: "node", CPU: now / 4, Memory: 1e8, Peak: 2e8}}, bench.Reading{CPU: now / 2}, nil
}
