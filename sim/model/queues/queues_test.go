package queues_test

import (
	"strings"
	"testing"

	"chronos/sim/model/queues"
)

// Our algorithm breaks nothing, in any of the states.
func TestOurs(t *testing.T) {
	result := queues.Explore(queues.Rules{})
	if result.Broken != "" {
		t.Errorf("%s is broken:\n%s", result.Broken, strings.Join(result.Steps, "\n"))
	}
	if result.States < 1000 {
		t.Errorf("there are %d states: something never happens", result.States)
	}
	t.Logf("%d states", result.States)
}

// Each variant breaks what it is said to break, by a way that is as short as it is said to be.
func TestVariants(t *testing.T) {
	for _, v := range queues.Variants() {
		result := queues.Explore(v.Rules)
		if result.Broken != v.Broken || len(result.Steps) != v.Steps {
			t.Errorf("%s: %q is broken after %d steps, want %q after %d:\n%s", v.Name, result.Broken, len(result.Steps),
				v.Broken, v.Steps, strings.Join(result.Steps, "\n"))
		}
	}
}
