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
	"delete-by-id":           {model.S2: 12, model.S1: 12, model.Loss: 12},
	"delete-by-id-suspected": {model.S2: 17, model.S1: 17, model.Loss: 17},
	"delete-by-owner":        {model.S2: 18, model.S1: 18, model.Loss: 19},
	"delete-by-claim":        {model.S14: 10},
	"sequence":               {model.S2: 30, model.S1: 30, model.Loss: 30},
	"redelivered":            {model.S17: 8, model.S5: 15},
	"reuse-shadowed":         {model.S17: 8, model.U2: 13},
	"publish-past":           {model.S9: 5, model.S19: 10},
	"upsert":                 {model.S1: 5, model.Loss: 5},
	"take-up-any":            {model.S3: 6},
	"unknown-is-success":     {model.S2: 8, model.Loss: 9},
	"delete-first":           {model.S2: 6, model.Loss: 7},
	"reset-by-id":            {model.S4: 9},
	"release-by-id":          {model.S4: 9},
	"blind-claim":            {model.S3: 8, model.S5: 12},
	"publish-old":            {model.S13: 7},
	"no-recovery":            {model.L2: 6},
	"reuse-while-ready":      {model.U1: 10},
	"skip-by-offset":         {model.S18: 9, model.Loss: 9},
	"skip-low-offsets":       {model.S17: 13},
	"move-up-only":           {model.S17: 9},
	"move-always":            {model.S17: 11},
	"move-first":             {model.S18: 4, model.Loss: 5},
	"move-last":              {model.S17: 8, model.S5: 15},
	"unlocked-look":          {model.S17: 10},
	"no-gap-check":           {model.S18: 11, model.Loss: 11},
	"take-creates":           {model.S18: 11, model.Loss: 11},
	"topic-by-name":          {model.S18: 6, model.Loss: 6},
	"no-epoch-seek":          {model.S18: 11, model.Loss: 11},
	"start-committed":        {model.L9: 6},
	"create-committed":       {model.S18: 9, model.Loss: 9},
	"adopt-any":              {model.S18: 9, model.Loss: 9},
	"no-compare":             {model.L9: 6},
	"offsets-alone":          {model.S18: 15, model.Loss: 15},
	"rewind-keeps-epoch":     {model.S18: 8, model.L9: 8},
	"offsets-only":           {model.S19: 13, model.Undone: 13},
	"no-mark":                {model.Undone: 14},
	"mark-committed":         {model.Undone: 15},
	"strict-mark":            {model.L9: 6},
	"no-hold-time":           {model.S19: 13},
	"cancel-any":             {model.S19: 10},
	"cancel-waiting":         {model.S19: 11},
	"untry-all":              {model.S19: 13},
	"untry-sent":             {model.S19: 11},
	"untry-reset":            {model.S19: 12},
	"outcomes-apart":         {model.S21: 6},
	"late-unbound":           {model.S20: 12},
	"fire-unbound":           {model.S20: 8},
	"forget-former":          {model.S19: 11},
	"keep-incarnation":       {model.S2: 11, model.Loss: 11},
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
		t.Run(scope.Name, func(t *testing.T) {
			t.Parallel()
			if r := model.Explore(scope); r.Broken != 0 {
				t.Errorf("ours breaks %v:\n%v", r.Broken, r.Story)
			}
		})
	}
}

// TestWorlds checks that worlds have names that tell them apart.
func TestWorlds(t *testing.T) {
	names := map[string]bool{}
	for _, scope := range append(model.SmallScopes(), model.Scopes()...) {
		if names[scope.Name] {
			t.Errorf("there are two worlds %q", scope.Name)
		}
		names[scope.Name] = true
	}
}

// TestSimplification walks with and without what makes the walk short: they meet the same states, except for what was
// simplified.
func TestSimplification(t *testing.T) {
	t.Parallel()
	for _, scope := range []model.Scope{
		{Name: "crash, rebalance", Crashes: 1, Rebalances: 1, Suspicions: 1, Batches: 1, Fired: true},
		{Name: "lost reply", Unknowns: 1, Suspicions: 1, Batches: 1, Early: true, Fired: true},
		{Name: "two batches", Unknowns: 1, Suspicions: 1, Batches: 2, Fired: true},
		{Name: "failover", Failover: true, Batches: 1, Fired: true},
		{Name: "truncation", Unknowns: 1, Rebalances: 1, Truncate: true, Batches: 1},
		{Name: "a cancel, rewound", Script: "sc", Unknowns: 1, Rewinds: 1, Batches: 1},
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
	t.Parallel()
	for _, scope := range []model.Scope{
		{Name: "failover", Unknowns: 1, Failover: true, Batches: 1, Early: true, Fired: true},
		{Name: "crash", Crashes: 1, Suspicions: 1, Batches: 2, Fired: true},
		{Name: "controls", Script: "srfc", Unknowns: 1, Batches: 1},
		{Name: "created again", Failover: true, Recreate: true, Batches: 1},
	} {
		if !model.Packs(scope) {
			t.Errorf("%s: a state is another one after it was packed and unpacked", scope.Name)
		}
	}
}

// TestNothingIsVacuous checks that everything that the model can do does happen in our algorithm: that it breaks
// nothing is of no worth where nothing happens.
func TestNothingIsVacuous(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for _, scope := range []model.Scope{
		{Crashes: 1, Unknowns: 1, Suspicions: 1, Batches: 1, Fired: true},
		{Crashes: 1, Unknowns: 1, Batches: 1, Early: true, Fired: true},
		{Unknowns: 1, Rebalances: 1, Suspicions: 1, Batches: 1, Fired: true},
		{Failover: true, Batches: 1},
		{Adopt: true, Unknowns: 1, Batches: 1},
		{Truncate: true, Recreate: true, Rewinds: 1, Batches: 1},
	} {
		for name, n := range model.Steps(scope) {
			count[name] += n
		}
	}
	for _, name := range []string{
		"drained", "submit", "assign", "poll", "poll 1", "poll 2", "commit", "commit reply lost", "compare",
		"take", "take 1", "take 2", "take 3", "take reply lost", "take reply lost 1", "take late", "take late 1",
		"begin", "suspect", "drop", "claim", "claim reply lost", "claim late", "publish", "publish reply lost",
		"publish late", "give back", "give back late", "delete", "delete reply lost", "delete late", "reset",
		"reset late", "late take", "late claim", "late publish", "late delete", "late reset", "late release",
		"crash", "crash 1", "crash 2", "crash 4", "crash 6", "rebalance", "rebalance 1", "lag", "failover",
		"connect", "hold over", "truncate", "truncate 1", "recreate", "rewind", "rewind 1",
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
// left to "make model".
func TestDocument(t *testing.T) {
	t.Parallel()
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
		t.Error(`docs/COUNTEREXAMPLES.md is out of date: see "To add one" in doc.go`)
	}
	for _, scope := range model.Scopes() {
		if _, row, ok := strings.Cut(large, "| "+scope.Name+" | "); !ok || !strings.Contains(row, "| nothing |") {
			t.Errorf("docs/COUNTEREXAMPLES.md does not say that nothing was found in %q", scope.Name)
		}
	}
}
