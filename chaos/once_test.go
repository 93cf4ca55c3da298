package chaos_test

import (
	"strings"
	"testing"

	"chronos/chaos"
	"chronos/sim/check"
)

// TestOnce counts what has come out: a copy too many is seen, wherever it is, and with whatever excuse the judge has
// for it. What has no number is none of the submissions.
func TestOnce(t *testing.T) {
	fault := check.Event{Kind: check.Fault, Text: "a node is killed"}
	fire := func(message int) check.Event { return check.Event{Kind: check.Fire, Message: message} }
	dead := func(message int) check.Event { return check.Event{Kind: check.Copy, Message: message} }
	for name, c := range map[string]struct {
		events []check.Event
		want   string
	}{
		"each once":                {[]check.Event{fire(1), fault, fire(2), dead(3)}, ""},
		"twice after a fault":      {[]check.Event{fire(1), fire(2), fault, fire(2)}, "S24: 1 submissions have"},
		"two dead letters":         {[]check.Event{dead(4), fault, dead(4)}, "such as 4, 2 times"},
		"fired, and a dead letter": {[]check.Event{fire(5), dead(5)}, "such as 5, 2 times"},
		"the first of three":       {[]check.Event{fire(7), fire(6), fire(7), fire(6), fire(6)}, "such as 6, 3 times"},
		"no submissions":           {[]check.Event{fire(0), fire(0)}, ""},
	} {
		if got := chaos.Once(c.events); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
