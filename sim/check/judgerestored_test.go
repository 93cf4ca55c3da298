package check_test

import (
	"strings"
	"testing"
)

// TestOutlived judges a node that begins a lineage because of a position in a part of the log that Kafka has lost. As
// an offset it is not below what was committed; as a pair it is, where what was committed is of a later epoch.
func TestOutlived(t *testing.T) {
	history := func(epoch string) string {
		return preamble + well + gone + "2s truncate partition=in/0\n" +
			"3s submit message=2 id=y topic=out partition=in/0 deadline=90s epoch=" + epoch + "\n" +
			"3s commit node=1.1 partition=in/0 offset=1 epoch=" + epoch + "\n" +
			"4s rollback\n4s keep-place partition=in/0 offset=1\n" +
			"5s lineage node=1.1 lineage=2\n11s caught-up\n" +
			"20s lineage node=2.1 lineage=3\n" + end
	}
	for epoch, broken := range map[string]bool{"1": false, "0": true} {
		v := judge(t, history(epoch))
		if found := len(v.Violations) > 0 && v.Violations[0].Invariant == "S18"; found != broken {
			t.Errorf("committed at epoch %s: %v", epoch, v.Violations)
		}
	}
}

// TestRecursAgain judges a series on a store that was set back: its second occurrence has come out, and is made again,
// under its incarnation. The third may follow at once. Where it has not come out it must not.
func TestRecursAgain(t *testing.T) {
	const second = "id=x topic=out incarnation=" + x2 + " "
	fires := "3.9s claim node=1.1 " + second + me + "stamp=3.9s\n" +
		"4s publish node=1.1 message=1001 topic=out incarnation=" + x2 + " age=100ms wall=4s\n" +
		"4s fire node=1.1 message=1001 topic=out incarnation=" + x2 + " payload=a key=1 partition=out/3\n"
	for what, broken := range map[string]bool{fires: false, "": true} {
		v := judge(t, preamble+recurs()+"1.97s "+again+"2 deadline=4s\n"+what+
			"5s rollback\n5s keep "+row+"\n5s keep-place partition=in/0 offset=1\n"+
			"6s "+again+"2 deadline=4s\n"+
			"6s recur node=1.1 message=1002 of=1 "+second+
			"next=30000000-0000-0000-0000-000000000000 nth=3 deadline=6s\n"+end)
		var names []string
		for _, violation := range v.Violations {
			names = append(names, violation.Invariant)
		}
		if found := strings.Contains(strings.Join(names, " "), "S22"); found != broken {
			t.Errorf("it has come out: %t: %v", !broken, v.Violations)
		}
	}
}
