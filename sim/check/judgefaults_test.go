package check_test

import (
	"slices"
	"strings"
	"testing"

	"chronos/sim/check"
)

// calling is a configuration under which a node makes callbacks.
var calling = strings.Replace(preamble, "hold_time=", "calls=128 lane_calls=64 hold_time=", 1)

// TestManyGiveUp has as many requests as a node makes at the same time be given up at one instant, and the store take
// no dead letter. Nobody has repeated anything.
func TestManyGiveUp(t *testing.T) {
	failed := strings.Repeat("2s error node=1.1 port=store text=take\n", 128)
	if v := judge(t, calling+failed+end); len(v.Violations) > 0 {
		t.Errorf("%v", v.Violations)
	}
}

// TestStandsBack has the only node fail to publish, and claim again later than it would have if all were well.
func TestStandsBack(t *testing.T) {
	again := "19s claim node=1.1 " + row + me + "stamp=19s\n19s ready node=1.1 " + row + "limit=10 until=19.2s\n"
	starts := strings.Replace(preamble, "0s start node=2.1 owner=00000000-0000-0000-0000-000000000002\n", "", 1)
	failed := later(until("1.96s")) + "14s unknown node=1.1 message=1 topic=out incarnation=" + x1 +
		"\n16s reset node=1.1 " + row + me + "stamp=11.9s age=4s\n"
	l11 := func(b check.Violation) bool { return b.Invariant == "L11" }
	if v := judge(t, starts+failed+again+end); slices.ContainsFunc(v.Violations, l11) {
		t.Errorf("%v", v.Violations)
	}
	if v := judge(t, preamble+failed+again+end); !slices.ContainsFunc(v.Violations, l11) {
		t.Errorf("the other node is well, and L11 is not broken: %v", v.Violations)
	}
}

// TestWrongForLong has a store whose calls take long until an instant, while other things happen. L11 counts from that
// instant, and not from the last thing that has happened.
func TestWrongForLong(t *testing.T) {
	late := strings.NewReplacer("deadline=2s", "deadline=22s", "1.9s claim", "23s claim", "stamp=1.9s", "stamp=23s").
		Replace(until("1.9s ready"))
	l11 := func(b check.Violation) bool { return b.Invariant == "L11" }
	wrong := "2s fault text=slow until=21s\n"
	meanwhile := "3s join node=2.1\n4s error node=2.1 port=store text=claim\n5s pause topic=other stamp=5s\n" +
		"6s resume topic=other stamp=6s\n7s fault node=2.1 text=refused\n"
	for _, what := range []string{"", meanwhile} {
		moved := strings.Replace(late, "23s claim", wrong+what+"23s claim", 1)
		if v := judge(t, preamble+moved+end); slices.ContainsFunc(v.Violations, l11) {
			t.Errorf("%v", v.Violations)
		}
	}
	moved := strings.Replace(late, "23s claim", strings.Replace(wrong, "until=21s", "until=9s", 1)+"23s claim", 1)
	if v := judge(t, preamble+moved+end); !slices.ContainsFunc(v.Violations, l11) {
		t.Errorf("it was over for long, and L11 is not broken: %v", v.Violations)
	}
}
