package tidy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"chronos/scripts/tidy"
)

// TestReplayedRejects gives the guard of replayed code one small sin at a time.
func TestReplayedRejects(t *testing.T) {
	for _, c := range []struct{ want, imports, body string }{
		{"starts a goroutine", "", `go func() {}()`},
		{"starts a goroutine outside Go", "sync", `var g sync.WaitGroup; g.Go(func() {})`},
		{"starts a goroutine outside Go", "sync", `var g sync.WaitGroup; start := g.Go; start(func() {})`},
		{"selects among channels", "", `select {}`},
		{"names a channel type", "", `var c chan int; _ = c`},
		{"sends to a channel", "", `var c chan int; c <- 1`},
		{"receives from a channel", "context", `<-context.Background().Done()`},
		{"receives from a channel", "context", `for range context.Background().Done() {}`},
		{"uses time.Now", "time", `_ = time.Now()`},
		{"uses time.Now", "time", `now := time.Now; _ = now`},
		{"uses time.Since", "time", `_ = time.Since(time.Time{})`},
		{"uses time.Until", "time", `_ = time.Until(time.Time{})`},
		{"uses time.Sleep", "time", `time.Sleep(1)`},
		{"uses time.After", "time", `_ = time.After(1)`},
		{"uses time.AfterFunc", "time", `time.AfterFunc(1, func() {})`},
		{"uses time.NewTimer", "time", `time.NewTimer(1)`},
		{"uses time.NewTicker", "time", `time.NewTicker(1)`},
		{"uses time.Tick", "time", `time.Tick(1)`},
		{"uses time.Local", "time", `_ = time.Local`},
		{"depends on the time zone of the machine", "time", `_ = time.Time{}.Local()`},
		{"uses context.WithTimeout", "context", `_, _ = context.WithTimeout(context.Background(), 1)`},
		{"uses context.AfterFunc", "context", `context.AfterFunc(context.Background(), func() {})`},
		{"imports math/rand", "math/rand", `_ = rand.New(rand.NewSource(1))`},
		{"imports crypto/rand", "crypto/rand", `_ = rand.Text()`},
		{"imports os", "os", `_ = os.Args`},
		{"uses math/rand/v2.IntN", "math/rand/v2", `_ = rand.IntN(2)`},
		{"uses math/rand/v2.Shuffle", "math/rand/v2", `rand.Shuffle(0, nil)`},
		{"uses math/rand/v2.N", "math/rand/v2", `_ = rand.N(2)`},
		{"uses github.com/google/uuid.New", "github.com/google/uuid", `_ = uuid.New()`},
		{"uses github.com/google/uuid.NewRandom", "github.com/google/uuid", `_, _ = uuid.NewRandom()`},
		{"ranges over a map", "", `for range map[int]int{} {}`},
		{"ranges over a map", "", `type m map[int]int; for k := range (m{}) { _ = k }`},
		{"uses maps.Keys", "maps", `for range maps.Keys(map[int]int{}) {}`},
		{"uses maps.Values", "maps", `_ = maps.Values(map[int]int{})`},
		{"uses maps.DeleteFunc", "maps", `maps.DeleteFunc(map[int]int{}, nil)`},
		{"uses maps.Keys", "maps slices", `_ = slices.Collect(maps.Keys(map[int]int{}))`},
		{"uses sync.Map", "sync", `var m sync.Map; m.Clear()`},
		{"computes in floating point", "", `_ = 0.5`},
		{"computes in floating point", "", `var x float32; _ = x`},
		{"computes in floating point", "time", `_ = time.Second.Seconds()`},
		{"computes in floating point", "", `type share float64; _ = share(1)`},
	} {
		t.Run(c.want+"/"+c.body, func(t *testing.T) {
			findings := replayed(t, c.imports, c.body)
			if !slices.Contains(findings, "bad.go:"+line(c.imports)+": "+c.want) {
				t.Errorf("found %q, want one that says %q", findings, c.want)
			}
		})
	}
}

// TestReplayedAccepts holds the guard back from what the engine needs.
func TestReplayedAccepts(t *testing.T) {
	for _, c := range []struct{ imports, body string }{
		{"maps slices", `for range slices.Sorted(maps.Keys(map[int]int{})) {}`},
		{"maps slices", `_ = slices.SortedFunc(maps.Values(map[int]int{}), nil)`},
		{"math/rand/v2", `_ = rand.New(rand.NewPCG(1, 2)).IntN(3)`},
		{"time", `_ = time.Unix(1, 0).UTC().Add(3 * time.Second)`},
		{"sync", `var m sync.Mutex; m.Lock()`},
		{"github.com/google/uuid", `_, _ = uuid.NewRandomFromReader(nil)`},
		{"", `for range []int{} {}; for range 3 {}; clear(map[int]int{})`},
	} {
		if findings := replayed(t, c.imports, c.body); len(findings) > 0 {
			t.Errorf("%s: found %q, want nothing", c.body, findings)
		}
	}
	run := "package bad\n\nimport \"sync\"\n\ntype n int\n\nfunc (n) Go() { var g sync.WaitGroup; g.Go(func() {}) }\n"
	code, err := tidy.Check(t.Context(), ".", map[string]string{"bad.go": run})
	if err != nil {
		t.Fatal(err)
	}
	if findings := tidy.Replayed(code); len(findings) > 0 {
		t.Errorf("in Go: found %q, want nothing", findings)
	}
}

// replayed applies the guard to a function with that body.
func replayed(t *testing.T, imports, body string) []string {
	t.Helper()
	var source strings.Builder
	source.WriteString("package bad\n")
	for path := range strings.FieldsSeq(imports) {
		source.WriteString("import \"" + path + "\"\n")
	}
	source.WriteString("func bad() { " + body + " }\n")
	code, err := tidy.Check(t.Context(), ".", map[string]string{"bad.go": source.String()})
	if err != nil {
		t.Fatal(err)
	}
	return tidy.Replayed(code)
}

// line returns the line on which the finding is expected: that of the import, where the import is the sin, or that
// of the function.
func line(imports string) string {
	if slices.Contains([]string{"math/rand", "crypto/rand", "os"}, imports) {
		return "2"
	}
	return string(rune('2' + len(strings.Fields(imports))))
}

// TestForeignRejects builds a module whose package imports another one through a third.
func TestForeignRejects(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":       "module bad\n\ngo 1.26\n",
		"node/node.go": "package node\n\nimport _ \"bad/through\"\n",
		"through/t.go": "package through\n\nimport (\n\t_ \"bad/other\"\n\t_ \"time\"\n)\n",
		"other/o.go":   "package other\n",
	} {
		write(t, filepath.Join(dir, name), text)
	}
	allowed := func(path string) bool { return path == "bad/through" }
	findings, err := tidy.Foreign(t.Context(), dir, "bad/node", allowed)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"bad/node: imports bad/other"}; !slices.Equal(findings, want) {
		t.Errorf("found %q, want %q", findings, want)
	}
	if findings, err := tidy.Foreign(t.Context(), dir, "bad/absent", allowed); err == nil {
		t.Errorf("found %q in a package that does not exist, want an error", findings)
	}
}

// TestTreeGuardsReject gives each rule on files an example on both sides of it.
func TestTreeGuardsReject(t *testing.T) {
	long := strings.Repeat("x\n", 601)
	for _, c := range []struct {
		name  string
		guard func(tidy.File) []string
		file  tidy.File
		want  int
	}{
		{"long", tidy.Long, tidy.File{Path: "node/a.go", Text: long}, 1},
		{"long script", tidy.Long, tidy.File{Path: "scripts/a", Text: long}, 1},
		{"long enough", tidy.Long, tidy.File{Path: "node/a.go", Text: long[2:]}, 0},
		{"generated", tidy.Long, tidy.File{
			Path: "a.go", Text: "// Code generated by x. DO NOT EDIT.\n" + long,
		}, 0},
		{"not code", tidy.Long, tidy.File{Path: "go.sum", Text: long}, 0},
		{"leftover", tidy.Leftover, tidy.File{Path: "a.go", Text: "// TO" + "DO: all\n"}, 1},
		{"leftovers", tidy.Leftover, tidy.File{Path: "a.md", Text: "FIX" + "ME\n\nXX" + "X\n"}, 2},
		{"not left over", tidy.Leftover, tidy.File{Path: "a", Text: "mktemp a.XXXXXX\n"}, 0},
		{"machine", tidy.MachinePath, tidy.File{Path: "a.go", Text: "\"/ro" + "ot/x\"\n"}, 1},
		{"machine at the start", tidy.MachinePath, tidy.File{Path: "a", Text: "/wo" + "rk\n"}, 1},
		{"person", tidy.MachinePath, tidy.File{Path: "a.md", Text: "see /ho" + "me/me/x"}, 1},
		{"address", tidy.MachinePath, tidy.File{Path: "a.md", Text: "https://example.com/ho" + "me/x"}, 0},
		{"relative", tidy.MachinePath, tidy.File{Path: "a.md", Text: "../wo" + "rk ~/wo" + "rk $x/ro" + "ot"}, 0},
		{"folder", tidy.Misplaced, tidy.File{Path: "internal/a.go"}, 1},
		{"our folder", tidy.Misplaced, tidy.File{Path: "node/a.go"}, 0},
		{"dot folder", tidy.Misplaced, tidy.File{Path: ".ci/run"}, 0},
		{"no folder", tidy.Misplaced, tidy.File{Path: "README.md"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if findings := c.guard(c.file); len(findings) != c.want {
				t.Errorf("found %q, want %d findings", findings, c.want)
			}
		})
	}
}

// TestTrackedSeesNewFiles makes a repository with one file of each kind.
func TestTrackedSeesNewFiles(t *testing.T) {
	dir := t.TempDir()
	if output, err := exec.CommandContext(t.Context(), "git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, output)
	}
	write(t, filepath.Join(dir, ".gitignore"), "ignored\n")
	write(t, filepath.Join(dir, "ignored"), "")
	write(t, filepath.Join(dir, "new/file"), "text")
	files, err := tidy.Tracked(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	want := []tidy.File{{Path: ".gitignore", Text: "ignored\n"}, {Path: "new/file", Text: "text"}}
	if !slices.Equal(files, want) {
		t.Errorf("the files are %q, want %q", files, want)
	}
	if _, err := tidy.Tracked(t.Context(), t.TempDir()); err == nil {
		t.Error("a folder that is no repository has files, want an error")
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
