package chaos_test

import (
	"bytes"
	"strings"
	"testing"

	"chronos/chaos"
	"chronos/sim/check"
)

// TestReport has the results of a night: the page has a line for each, pictures of the last ones, and a picture of the
// one that is broken, with what is.
func TestReport(t *testing.T) {
	var results []*chaos.Result
	for range 200 {
		results = append(results, &chaos.Result{Scenario: "no-fault", Resumed: -1})
	}
	results[3].Scenario, results[3].Broken = "killed-nodes", []string{"nothing has come of <it>"}
	results[3].Verdict.Violations = []check.Violation{{Invariant: "S1", Detail: "it is gone"}}
	report := &chaos.Report{Title: "a night", Machine: "this one", Results: results}
	var page bytes.Buffer
	if err := report.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	for want, count := range map[string]int{
		"<td>no-fault</td>": 199, "<svg id=": 51, "BROKEN S1": 2, "nothing has come of &lt;it&gt;": 1, "it is gone": 1,
		"http://": 2, "https://": 0, // the name space of SVG is no address
	} {
		if got := strings.Count(page.String(), want); got != count {
			t.Errorf("%q is there %d times, want %d", want, got, count)
		}
	}
	var table bytes.Buffer
	if err := chaos.WriteMarkdown(&table, results); err != nil || strings.Count(table.String(), "\n") != 202 {
		t.Errorf("%d lines: %v", strings.Count(table.String(), "\n"), err)
	}
}
