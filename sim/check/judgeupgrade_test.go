package check_test

import (
	"slices"
	"strings"
	"testing"
)

// TestUpgraded judges the upgrade of a deployment that has kept no positions. What it had committed is adopted, and not
// taken in again; what it had stored and not committed is, and may fire once more. What nodes have committed since they
// keep positions is nothing to adopt, also when the store is set back.
func TestUpgraded(t *testing.T) {
	committed := preamble + well + gone
	uncommitted := preamble + strings.Replace(well, "1.03s commit", "# ", 1) + gone
	again := strings.NewReplacer("1.", "5.", x1, x2, "deadline=2s", "deadline=2s").Replace(
		well[strings.Index(well, "1.01s deliver"):] + gone)
	later := "3.1s submit message=2 id=y topic=out partition=in/0 offset=1 deadline=90s flaw=invalid\n" +
		"3.2s reject node=1.1 message=2 text=why\n3.2s take node=1.1 message=2 partition=in/0 offset=1 lineage=1\n" +
		"3.2s move node=1.1 partition=in/0 offset=2\n3.3s commit node=1.1 partition=in/0 offset=2\n"
	for what, c := range map[string]struct{ history, broken string }{
		"as it was committed": {committed + "4s upgrade\n4.5s place partition=in/0 offset=1 adopted=true\n", ""},
		"too far": {
			committed + "4s upgrade\n4.5s place partition=in/0 offset=2 adopted=true\n", "S18",
		},
		"from the first record on": {committed + "4s upgrade\n4.5s place partition=in/0\n" + again, "S17"},
		"what was not committed": {
			uncommitted + "4s upgrade\n4.5s place partition=in/0 adopted=true\n" + again, "",
		},
		"what was not committed, twice": {
			uncommitted + "4s upgrade\n4.5s place partition=in/0 adopted=true\n" + again +
				strings.NewReplacer("5.", "6.", x2, "3"+x1[1:]).Replace(again), "S17",
		},
		"what nodes with positions have committed": {
			preamble + "0.5s upgrade\n0.6s place partition=in/0 adopted=true\n" + well + gone + later +
				"4s rollback\n4.5s place partition=in/0 offset=2 adopted=true\n", "S18",
		},
	} {
		v := judge(t, c.history+end)
		var names []string
		for _, violation := range v.Violations {
			names = append(names, violation.Invariant)
		}
		if c.broken == "" && len(names) > 0 || c.broken != "" && !slices.Contains(names, c.broken) {
			t.Errorf("%s: %v, want %q", what, v.Violations, c.broken)
		}
	}
}
