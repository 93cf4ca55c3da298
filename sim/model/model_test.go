package model_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"chronos/sim/model"
)

// steps has how many steps the shortest way takes in which each variant breaks each property that it is expected to.
var steps = map[string]map[model.Property]int{
	"delete-by-id":           {model.S2: 12, model.S1: 13, model.Loss: 13},
	"delete-by-id-suspected": {model.S2: 17, model.S1: 18, model.Loss: 18},
	"delete-by-owner":        {model.S2: 18, model.S1: 19, model.Loss: 20},
	"delete-by-claim":        {model.S14: 9},
	"sequence":               {model.S2: 13, model.S1: 15, model.Loss: 15},
	"commit-first":           {model.S10: 2, model.Loss: 3},
	"skip-unpublished":       {model.S10: 5, model.Loss: 6},
	"no-look":                {model.S9: 5},
	"upsert":                 {model.S1: 6, model.Loss: 6},
	"take-up-any":            {model.S3: 5},
	"no-rewind":              {model.S1: 6, model.Loss: 6},
	"unfenced-rewind":        {model.S10: 6, model.S1: 6, model.Loss: 6},
	"unknown-is-success":     {model.S2: 7, model.Loss: 9},
	"delete-first":           {model.S2: 5, model.Loss: 7},
	"reset-by-id":            {model.S4: 8},
	"release-by-id":          {model.S4: 8},
	"blind-claim":            {model.S3: 7, model.S5: 11},
	"publish-old":            {model.S13: 6},
	"no-recovery":            {model.L2: 5},
	"reuse-while-ready":      {model.U1: 10},
	"reuse-shadowed":         {model.U2: 12},
}

// TestVariants checks that each variant breaks what it is expected to, in as many steps as ever.
func TestVariants(t *testing.T) {
	variants := model.Variants()
	if len(variants) != len(steps) {
		t.Errorf("there are %d variants, and %d in the table", len(variants), len(steps))
	}
	for _, v := range variants {
		t.Run(v.Name, func(t *testing.T) {
			if len(v.Expected) != len(steps[v.Name]) {
				t.Errorf("expected are %v, and in the table %v", v.Expected, steps[v.Name])
			}
			for _, p := range v.Expected {
				r := v.Search(p)
				if r.Broken != p || len(r.Story.Lines) != steps[v.Name][p] {
					t.Errorf("found %q after %d steps, want %q after %d:\n%v",
						r.Broken, len(r.Story.Lines), p, steps[v.Name][p], r.Story)
				}
			}
		})
	}
}

// TestOneFlag checks that each variant deviates from our algorithm by one rule, and that each rule has its variant.
func TestOneFlag(t *testing.T) {
	used := map[string]bool{}
	for _, v := range model.Variants() {
		rules := reflect.ValueOf(v.Rules)
		var set []string
		for i := range rules.NumField() {
			if rules.Field(i).Bool() {
				set = append(set, rules.Type().Field(i).Name)
			}
		}
		unpromised := v.Worst()&model.Promised == 0
		if unpromised && len(set) != 0 || !unpromised && len(set) != 1 {
			t.Errorf("%s deviates by %v", v.Name, set)
		}
		for _, name := range set {
			used[name] = true
		}
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[model.Rules]()) {
		if !used[field.Name] {
			t.Errorf("no variant has the rule %s", field.Name)
		}
	}
}

// TestOurs goes through all states of our algorithm in the worlds in which the variants fail.
func TestOurs(t *testing.T) {
	for _, scope := range model.SmallScopes() {
		if r := model.Explore(scope); r.Broken != 0 {
			t.Errorf("%s: ours breaks %v:\n%v", scope.Name, r.Broken, r.Story)
		}
	}
}

// TestSimplification walks with and without what makes the walk short: they meet the same states, but for what was
// simplified.
func TestSimplification(t *testing.T) {
	for _, scope := range []model.Scope{
		{Name: "crash, rebalance", Crashes: 1, Rebalances: 1, Suspicions: 1, Batches: 1, Fired: true},
		{Name: "lost reply", Unknowns: 1, Suspicions: 1, Batches: 1, Early: true, Fired: true},
		{Name: "two batches", Unknowns: 1, Suspicions: 1, Batches: 2, Fired: true},
		{Name: "failover", Failover: true, Batches: 1, Lapsed: true, Fired: true},
	} {
		plain, simplified, usual, odd := model.Plain(model.Rules{}, scope)
		if odd != "" || plain <= usual || simplified != usual {
			t.Errorf("%s: %d states, %d simplified, and %d in the usual walk; %s",
				scope.Name, plain, simplified, usual, odd)
		}
	}
}

// TestPacking checks that states fit into their keys, and have one canonical form.
func TestPacking(t *testing.T) {
	for _, scope := range []model.Scope{
		{Name: "failover", Unknowns: 1, Failover: true, Batches: 1, Lapsed: true, Early: true, Fired: true},
		{Name: "crash", Crashes: 1, Suspicions: 1, Batches: 2, Fired: true},
	} {
		if !model.Packs(scope) {
			t.Errorf("%s: a state is another one after it was packed and unpacked", scope.Name)
		}
	}
}

// TestNothingIsVacuous checks that everything that the model can do does happen in our algorithm: that it breaks
// nothing is of no worth where nothing happens.
func TestNothingIsVacuous(t *testing.T) {
	count := map[string]int{}
	for _, scope := range []model.Scope{
		{Crashes: 1, Unknowns: 1, Suspicions: 1, Batches: 1, Fired: true},
		{Crashes: 1, Unknowns: 1, Batches: 1, Early: true, Lapsed: true, Fired: true},
		{Unknowns: 1, Rebalances: 1, Suspicions: 1, Batches: 1, Fired: true},
		{Failover: true, Batches: 1},
	} {
		for name, n := range model.Steps(scope) {
			count[name] += n
		}
	}
	for _, name := range []string{
		"drained", "submit", "poll 1", "poll 2", "look", "commit", "commit reply lost", "begin", "suspect", "drop",
		"insert", "insert 1", "insert 2", "insert reply lost", "insert reply lost 1", "insert late", "insert late 1",
		"direct", "direct reply lost", "direct late", "claim", "claim reply lost", "claim late", "publish",
		"publish reply lost", "publish late", "give back", "give back late", "delete", "delete reply lost",
		"delete late", "reset", "reset late", "late insert", "late claim", "late publish", "late delete",
		"late reset", "late release",
		"crash", "crash 1", "crash 2", "crash 3", "crash 4", "crash 6", "rebalance", "rebalance 1", "lag",
		"failover",
	} {
		if count[name] == 0 {
			t.Errorf("%q never happens", name)
		}
		delete(count, name)
	}
	for name := range count {
		t.Errorf("%q happens, and is not in the list", name)
	}
}

// TestDocument checks that the page in docs/ is what the code writes; the numbers of states of the large scopes are
// left to "lab model".
func TestDocument(t *testing.T) {
	page, err := os.ReadFile("../../docs/COUNTEREXAMPLES.md")
	if err != nil {
		t.Fatal(err)
	}
	var written strings.Builder
	if err := model.Document(&written, make([]model.Result, len(model.Scopes()))); err != nil {
		t.Fatal(err)
	}
	const from = "in large worlds"
	want, _, _ := strings.Cut(written.String(), from)
	got, large, ok := strings.Cut(string(page), from)
	if !ok || got != want {
		t.Error(`docs/COUNTEREXAMPLES.md is out of date: run "lab model --docs docs/COUNTEREXAMPLES.md"`)
	}
	for _, scope := range model.Scopes() {
		if _, row, ok := strings.Cut(large, "| "+scope.Name+" | "); !ok || !strings.Contains(row, "| nothing |") {
			t.Errorf("docs/COUNTEREXAMPLES.md does not say that nothing was found in %q", scope.Name)
		}
	}
}
