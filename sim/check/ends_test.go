package check_test

import (
	"strings"
	"testing"
)

// ends returns the good history up to the publish, of a submission that is not to be published after an instant.
func ends(at string) string {
	return strings.Replace(until("1.95s"), "payload=a", "payload=a not_after="+at, 1)
}

// TestEnds judges what becomes of a message whose time has passed: its copy says so, or it is deleted where there can
// be no copy. Neither comes before that.
func TestEnds(t *testing.T) {
	dead := strings.Replace(preamble, "leave_after", "dead_letter=true leave_after", 1)
	copied := "1.95s publish node=1.1 message=1 topic=dead incarnation=" + x1 + " wall=1.95s\n" +
		"1.96s copy node=1.1 message=1 incarnation=" + x1 + " text=expired\n"
	for name, c := range map[string]struct{ text, broken string }{
		"copied":                 {dead + ends("1.94s") + copied + gone, ""},
		"dropped":                {preamble + ends("1.94s") + gone, ""},
		"dropped and not copied": {dead + ends("1.94s") + gone, "S2"},
		"dropped before it ends": {preamble + ends("9s") + gone, "S2"},
	} {
		v := judge(t, c.text+end)
		if c.broken == "" && len(v.Violations) > 0 ||
			c.broken != "" && (len(v.Violations) == 0 || v.Violations[0].Invariant != c.broken) {
			t.Errorf("%s: %v, want %q", name, v.Violations, c.broken)
		}
	}
}
