package check_test

import "testing"

// cancelledBefore has one that comes first of its key be cancelled after 10 s, and the next one come at an instant.
func cancelledBefore(at string) string {
	return "1.5s submit message=2 id=w topic=out partition=in/0 offset=1 payload=b key=1 deadline=1.8s\n" +
		"1.5s insert message=2 id=w topic=out incarnation=" + x2 + " deadline=1.8s\n" +
		"10s decide message=3 id=w topic=out action=cancel lineage=1 past=true incarnation=" + x2 + " next=" + zero +
		" text=cancelled\n" +
		at + " claim node=1.1 " + row + me + "stamp=" + at + "\n" +
		at + " publish node=1.1 message=1 topic=out incarnation=" + x1 + " age=0s wall=" + at + "\n" +
		at + " fire node=1.1 message=1 topic=out incarnation=" + x1 + " payload=a key=1\n" +
		at + " delete node=1.1 id=x topic=out incarnation=" + x1 + "\n"
}

// TestCancelledBefore: the next one of a key may come as late as that after a cancel, and no later.
func TestCancelledBefore(t *testing.T) {
	if v := judge(t, inLine(cancelledBefore("45s"))+end); len(v.Violations) > 0 {
		t.Errorf("it comes 35 s after a cancel of the one before it: %v", v.Violations)
	}
}
