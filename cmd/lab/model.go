package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"chronos/sim/model"
)

// modelCommand explores the model of the algorithm.
type modelCommand struct {
	Variant string `placeholder:"NAME" help:"Only show how this variant goes wrong."`
	Small   bool   `help:"Leave the large worlds out: this takes no time."`
	Docs    string `placeholder:"FILE" help:"Also write the counter-examples, as docs/COUNTEREXAMPLES.md has them."`
}

// Help says what the table is.
func (c *modelCommand) Help() string {
	return `Two nodes, one partition and one id that is submitted twice make a world so small that one can go through
all of its states. The model does that with broken variants of the algorithm, each of which must be found to break
what it is expected to, in the smallest number of steps; and with the algorithm as it is, in the same worlds and
in much larger ones, where nothing may be found. It takes less than two minutes.

Exit codes: 0 all is as expected, 1 something is not.`
}

// modelRow is how a line of the table is laid out.
const modelRow = "%-22s  %-3s  %-41s  %-10s  %-22s  %9s  %7s\n"

// Run prints the table, or one counter-example.
func (c *modelCommand) Run(ctx context.Context, w *world) error {
	switch {
	case c.Docs != "" && (c.Variant != "" || c.Small):
		return fmt.Errorf("--docs is about all variants and worlds")
	case c.Variant != "":
		return c.show(w)
	}
	t := modelTable{world: w}
	t.line("variant", "", "scope", "expected", "found, after steps", "states", "seconds")
	for _, v := range model.Variants() {
		t.variant(&v)
	}
	for _, scope := range model.SmallScopes() {
		t.explore(scope)
	}
	if c.Small {
		return t.verdict()
	}
	var explored []model.Result
	for _, scope := range model.Scopes() {
		if err := ctx.Err(); err != nil {
			return err
		}
		explored = append(explored, t.explore(scope))
	}
	if err := t.verdict(); err != nil || c.Docs == "" {
		return err
	}
	return writeDocument(c.Docs, explored)
}

// show prints the picture of a counter-example.
func (c *modelCommand) show(w *world) error {
	v, ok := model.VariantByName(c.Variant)
	if !ok {
		var names []string
		for _, v := range model.Variants() {
			names = append(names, v.Name)
		}
		return fmt.Errorf("there is no variant %q, but there are %s", c.Variant, strings.Join(names, ", "))
	}
	_, err := fmt.Fprint(w.stdout, v.Section())
	return err
}

// modelTable prints what was found, line by line.
type modelTable struct {
	world      *world
	unexpected int
	err        error // the first of writing
}

func (t *modelTable) line(cells ...any) {
	if _, err := fmt.Fprintf(t.world.stdout, modelRow, cells...); t.err == nil {
		t.err = err
	}
}

// variant looks for all that a variant is expected to break.
func (t *modelTable) variant(v *model.Variant) {
	began := time.Now()
	var expected, found []string
	states := 0
	for _, want := range v.Expected {
		r := v.Search(want)
		expected = append(expected, want.String())
		states = max(states, r.States)
		if r.Broken != want {
			t.unexpected++
			found = append(found, "no "+want.String())
			continue
		}
		found = append(found, fmt.Sprintf("%v %d", want, len(r.Story.Lines)))
	}
	t.line(v.Name, v.Hazard, v.Scope.Name, strings.Join(expected, " "), strings.Join(found, ", "),
		fmt.Sprint(states), seconds(began))
}

// explore goes through all states of our algorithm. If it finds something, it shows it.
func (t *modelTable) explore(scope model.Scope) model.Result {
	began := time.Now()
	r := model.Explore(scope)
	found := "nothing"
	if r.Broken != 0 {
		t.unexpected++
		found = fmt.Sprintf("%v %d", r.Broken, len(r.Story.Lines))
	}
	t.line("ours", "", scope.Name, "nothing", found, fmt.Sprint(r.States), seconds(began))
	if r.Broken != 0 {
		_, err := fmt.Fprintf(t.world.stdout, "\n%v\n", r.Story)
		t.err = errors.Join(t.err, err)
	}
	return r
}

// verdict returns an error if anything was not as expected.
func (t *modelTable) verdict() error {
	if t.err == nil && t.unexpected > 0 {
		return brokenf("%d of these are not as expected", t.unexpected)
	}
	return t.err
}

func seconds(began time.Time) string { return fmt.Sprintf("%.2f", time.Since(began).Seconds()) }

// writeDocument replaces a page of the documentation.
func writeDocument(name string, explored []model.Result) (err error) {
	file, err := os.Create(filepath.Clean(name))
	if err != nil {
		return fmt.Errorf("write the counter-examples: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return model.Document(file, explored)
}
