package main_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lab "chronos/cmd/lab"
	"chronos/sim/model"
)

// TestModelTable runs the small worlds: all variants are found, and ours breaks nothing.
func TestModelTable(t *testing.T) {
	r := run(t, "", "model", "--small")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d, %q", r.code, r.stderr)
	}
	for _, v := range model.Variants() {
		line := lineWith(r.stdout, v.Name+" ")
		if !strings.Contains(line, " "+v.Hazard+" ") || !strings.Contains(line, v.Scope.Name) {
			t.Errorf("the line of %s is %q", v.Name, line)
		}
	}
	for _, scope := range model.SmallScopes() {
		if !strings.Contains(r.stdout, "ours                         "+scope.Name+" ") {
			t.Errorf("there is no line for ours in %q", scope.Name)
		}
	}
	if strings.Contains(r.stdout, model.Scopes()[0].Name) {
		t.Error("--small goes through the large worlds")
	}
}

// TestModelTableFails gives the table a variant that is none: what it is expected to break is not broken.
func TestModelTableFails(t *testing.T) {
	broken := model.Variants()[0]
	ours := broken
	ours.Rules = model.Rules{}
	for _, c := range []struct {
		variant model.Variant
		want    int
	}{{broken, 0}, {ours, 1}} {
		var stdout, stderr bytes.Buffer
		code := lab.ModelTable([]model.Variant{c.variant}, &stdout, &stderr)
		if code != c.want || strings.Contains(stdout.String(), "no S2, no S1, no loss") != (c.want == 1) {
			t.Errorf("exit code %d, want %d: %s%s", code, c.want, stdout.String(), stderr.String())
		}
	}
}

// TestModelVariant looks at the picture of a counter-example, which is the one in docs/.
func TestModelVariant(t *testing.T) {
	r := run(t, "", "model", "--variant", "delete-by-id")
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("exit code %d, %q", r.code, r.stderr)
	}
	for _, want := range []string{
		"    application ", " partition ", " node A ", " node B ", " row of the id\n",
		" sees s0, submits s1 ", "deletes s0: reply lost ", "deletes s0: the row of s1 is gone ",
		"Broken: S2 after 12 steps, S1 after 12 steps, loss after 12 steps.",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%q is missing in\n%s", want, r.stdout)
		}
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "COUNTEREXAMPLES.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), r.stdout) {
		t.Errorf("docs/COUNTEREXAMPLES.md has another picture than\n%s", r.stdout)
	}
}

// TestModelUsage makes mistakes on the command line.
func TestModelUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"model", "--variant", "delete-by-i"}, `no variant "delete-by-i", but there are delete-by-id, `},
		{[]string{"model", "--small", "--docs", "never-written"}, "--docs is about all variants and worlds"},
		{[]string{"model", "--variant", "upsert", "--docs", "never-written"}, "--docs is about all"},
	} {
		if r := run(t, "", c.args...); r.code != 2 || !strings.Contains(r.stderr, c.want) || r.stdout != "" {
			t.Errorf("%v: exit code %d, %q, %q", c.args, r.code, r.stdout, r.stderr)
		}
	}
}

// lineWith returns the first line that begins with a text.
func lineWith(text, begin string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			return line
		}
	}
	return ""
}
