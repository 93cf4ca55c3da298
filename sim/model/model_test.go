package model_test

import (
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

// TestOurs goes through all states of our algorithm in the worlds in which the variants fail.
func TestOurs(t *testing.T) {
	for _, scope := range model.SmallScopes() {
		if r := model.Explore(scope); r.Broken != 0 {
			t.Errorf("%s: ours breaks %v:\n%v", scope.Name, r.Broken, r.Story)
		}
	}
}
